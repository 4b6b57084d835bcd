//! Drives and platforms that a configuration names by file path.

use crate::predict::library::Library;
use anyhow::{Context, Result};
use lab::schema::configuration::Configuration;
use lab::schema::setup::Reference;
use models::library::path_and_id;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Adds a drive if it is named by file; the path is relative to `folder`.
///
/// # Errors
/// If the file cannot be read, or describes no such drive.
pub fn add_drive(library: &mut Library, folder: &Path, drive: &Reference) -> Result<()> {
    let Reference::File(reference) = drive else {
        return Ok(());
    };
    let path = folder.join(path_and_id(reference).0);
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read the drive {}", path.display()))?;
    library.add_file(reference, &text)?;
    Ok(())
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
