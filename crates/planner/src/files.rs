//! Drives and platforms that a configuration names by file path.

use crate::predict::library::Library;
use anyhow::{Context, Result, ensure};
use catalogue::Catalogue;
use lab::schema::configuration::Configuration;
use lab::schema::document::{Refusal, read};
use lab::schema::setup::Reference;
use models::library::path_and_id;
use models::platform::Machine;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Adds a drive if it is named by file, or by another name than that of its profile: by a name of the catalogue. The path is
/// relative to `folder`.
///
/// # Errors
/// If the file cannot be read, describes no such drive, or lacks figures that a plan needs.
pub fn add_drive(library: &mut Library, folder: &Path, drive: &Reference) -> Result<()> {
    let reference = match drive {
        Reference::File(reference) => reference,
        Reference::Id(id) if library.drives().any(|known| known == id) => return Ok(()),
        Reference::Id(id) if add_alias(library, id) => return Ok(()),
        Reference::Id(id) => return add_from_catalogue(library, id),
    };
    let path = folder.join(path_and_id(reference).0);
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read the drive {}", path.display()))?;
    library.add_file(reference, &text)?;
    Ok(())
}

/// Adds a name of the catalogue for a drive that has a profile by another name. Returns whether there is such a drive.
fn add_alias(library: &mut Library, id: &str) -> bool {
    let catalogue = Catalogue::built_in();
    let Ok(entry) = catalogue.with_id(id) else {
        return false;
    };
    let known: Vec<&str> = library.drives().collect();
    let Some(name) = entry.drive.names().find(|name| known.contains(name)) else {
        return false;
    };
    library.add_name(id, name);
    true
}

/// Adds a drive of the catalogue by its data sheet, in place of a profile; nothing if the catalogue does not have it.
///
/// # Errors
/// The sheet lacks figures that a plan needs.
pub fn add_from_catalogue(library: &mut Library, id: &str) -> Result<()> {
    let catalogue = Catalogue::built_in();
    let Ok(entry) = catalogue.with_id(id) else {
        return Ok(());
    };
    let missing = catalogue::profile::missing(entry.drive);
    let words: Vec<&str> = missing.iter().map(|rating| rating.word()).collect();
    ensure!(
        missing.is_empty(),
        "the catalogue has no {} of {id}, which a plan needs: \"fullstripe drive new\" with \"--like {id}\" and what is missing \
         makes a file for --drive",
        words::and(&words)
    );
    library.add_sheet(id, "profiles/catalogue", entry)?;
    Ok(())
}

/// The machine in a file that `platform discover` has written, and the user may have completed.
///
/// # Errors
/// If the file cannot be read, describes no machine, or lists none of its drives.
pub fn machine_in(path: &Path) -> Result<Machine> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the platform {file}"))?;
    let machine: Machine = read(&file, &text)?;
    let checked = machine.graph();
    checked.map_err(|error| Refusal::new(&file, error.key, error.rule))?;
    ensure!(
        !machine.drives.is_empty(),
        "{file} lists no drives of the machine: give a file that \"fullstripe platform discover -o\" has written there"
    );
    Ok(machine)
}

/// Adds a platform if it is named by file; the path is relative to `folder`.
///
/// # Errors
/// If the file cannot be read, or describes no machine.
pub fn add_platform(library: &mut Library, folder: &Path, platform: &Reference) -> Result<()> {
    let Reference::File(reference) = platform else {
        return Ok(());
    };
    let path = folder.join(reference);
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read the platform {}", path.display()))?;
    library.add_platform(reference, &text)?;
    Ok(())
}

/// Adds the drives and platforms that configurations name by file; paths are relative to `config`, the file that names
/// them.
///
/// # Errors
/// If one of the files cannot be read, or describes no such thing.
pub fn add_files(
    library: &mut Library,
    config: &Path,
    points: &BTreeMap<String, Configuration>,
) -> Result<()> {
    let folder = config.parent().unwrap_or(Path::new(""));
    let drives = points.values().map(|point| &point.setup.drive);
    for drive in drives.collect::<BTreeSet<_>>() {
        add_drive(library, folder, drive)?;
    }
    let platforms = points.values().map(|point| &point.setup.platform);
    for platform in platforms.collect::<BTreeSet<_>>() {
        add_platform(library, folder, platform)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::schema::catalogue::Catalogue as Ids;

    fn with(id: &str) -> Library {
        let mut library = Library::default();
        let added = add_drive(&mut library, Path::new(""), &Reference::Id(id.to_owned()));
        added.unwrap_or_else(|error| panic!("{id}: {error}"));
        library
    }

    #[test]
    fn every_drive_that_claims_name_can_be_planned() {
        for id in Ids::of_claims().drives {
            let library = with(&id);
            let profile = library.profile(&Reference::Id(id.clone()));
            assert!(profile.is_ok(), "{id}");
        }
    }

    #[test]
    fn a_drive_with_a_profile_by_another_name_has_that_profile() {
        let (other, own) = ("intel-p4800x-750gb", "p4800x-750gb");
        let library = with(other);
        let [other, own] = [other, own].map(|id| Reference::Id(id.to_owned()));
        let [of_other, of_own] = [&other, &own].map(|id| library.profile(id).ok().cloned());
        assert!(of_own.is_some());
        assert_eq!(of_other, of_own);
        assert_eq!(library.make(&other).ok(), library.make(&own).ok());
        assert!(library.draws(&other).is_empty());
        // Only the sheet is known of a drive of the same family.
        let sister = Reference::Id("samsung-960-pro-1tb".to_owned());
        let library = with(sister.text());
        assert!(!library.draws(&sister).is_empty());
    }
}
