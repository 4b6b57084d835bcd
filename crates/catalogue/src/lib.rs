//! What is said of NVMe drives that are bought today or stand in racks: their data sheets, as data.
//!
//! A file of `profiles/catalogue` describes a family of drives ([`sheet`]). Each figure names its source, and each source is
//! the maker's document ("sheet") or the press's, a seller's or another's ("reported"), with title, address and date. Nothing
//! is computed or fitted in the files: what no source says is absent, sources that disagree make a range, and a figure that holds
//! for a while only is marked as a burst.
//!
//! [`check`] refuses a family that contradicts itself, [`Catalogue`] finds drives, and [`filter`] chooses among them.
//!
//! How a drive behaves beyond its sheet is known of those that have a profile in [`models::library`]. For the others, [`prior`] has
//! what is usual of such drives, [`draw`] draws from it, and [`profile`] makes a profile of a sheet and a draw. How often drives fail,
//! which no model of their speed needs, is in [`reliability`]. A drive that is not in the catalogue is [`given`] by a user and [`written`] as a file of the same form.

pub mod check;
pub mod draw;
pub mod filter;
pub mod given;
pub mod prior;
pub mod profile;
pub mod reliability;
pub mod sheet;
pub mod written;

use models::document::{Refusal, read};
use models::library::{path_and_id, which};
use models::nearest::nearest;
use serde::Deserialize;
use serde::de::IgnoredAny;
use sheet::{Drive, Family};
use std::collections::BTreeMap;

/// The version of the form of catalogue files.
pub const SCHEMA: u32 = 1;

macro_rules! files {
    ($($name:literal),+ $(,)?) => {
        &[$((
            concat!("profiles/catalogue/", $name, ".toml"),
            include_str!(concat!("../../../profiles/catalogue/", $name, ".toml")),
        )),+]
    };
}

/// The families that come with the program: file and text.
pub const FILES: &[(&str, &str)] = files![
    "intel-600p",
    "intel-p3700",
    "intel-p4500",
    "intel-p4510",
    "intel-p4800x",
    "kioxia-cm6-r",
    "kioxia-cm7-r",
    "micron-7500-max",
    "micron-9100-max",
    "micron-9550-max",
    "samsung-960-pro",
    "samsung-970-evo-plus",
    "samsung-970-pro",
    "samsung-980-pro",
    "samsung-bm1743",
    "samsung-pm1743",
    "samsung-pm9a3",
    "samsung-pm9d3a",
    "solidigm-d5-p5336",
    "wd-sn850x",
];

/// All families, checked.
#[derive(Clone, Debug, PartialEq)]
pub struct Catalogue {
    families: Vec<Family>,
}

/// A drive with its family.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Entry<'a> {
    /// What the drive shares with those of other capacities.
    pub family: &'a Family,
    /// The drive.
    pub drive: &'a Drive,
}

impl Catalogue {
    /// The families that come with the program.
    ///
    /// # Panics
    /// If one of them has a mistake, which a test excludes.
    #[must_use]
    pub fn built_in() -> Catalogue {
        Catalogue::read(FILES).expect("a test reads every file")
    }

    /// The families of these files: name and text.
    ///
    /// # Errors
    /// A file is not a family, contradicts itself, or two drives have the same id: one sentence with file and key.
    pub fn read(files: &[(&str, &str)]) -> Result<Catalogue, Refusal> {
        let mut places: BTreeMap<String, &str> = BTreeMap::new();
        let mut families = Vec::new();
        for (file, text) in files {
            let family: Family = read(file, text)?;
            check::family(file, &family)?;
            for name in family.drives.iter().flat_map(Drive::names) {
                if let Some(first) = places.insert(name.to_owned(), file) {
                    let rule = format!("is the name of a drive of {first} too");
                    return Err(Refusal::new(file, format!("\"{name}\""), rule));
                }
            }
            families.push(family);
        }
        Ok(Catalogue { families })
    }

    /// Every drive, in the order of the files.
    pub fn entries(&self) -> impl Iterator<Item = Entry<'_>> {
        self.families.iter().flat_map(|family| {
            let drives = family.drives.iter();
            drives.map(move |drive| Entry { family, drive })
        })
    }

    /// The drive that calls itself `model`, as sysfs shows it; `None` if the catalogue does not know.
    #[must_use]
    pub fn with_model(&self, model: &str) -> Option<Entry<'_>> {
        self.entries().find(|entry| {
            let mut models = entry.drive.models.iter();
            models.any(|known| model.contains(known.as_str()))
        })
    }

    /// The drive with this id, or with this alias.
    ///
    /// # Errors
    /// If there is none; the sentence names the nearest ids.
    pub fn with_id(&self, id: &str) -> Result<Entry<'_>, Refusal> {
        let is_named = |entry: &Entry| entry.drive.names().any(|name| name == id);
        let found = self.entries().find(is_named);
        found.ok_or_else(|| {
            let offered = nearest(id, self.entries().map(|entry| entry.drive.id.as_str()));
            let rule = format!("is no drive of the catalogue; nearest: {offered}");
            Refusal::new("profiles/catalogue", format!("\"{id}\""), rule)
        })
    }
}

/// The family that a user's file describes, and the place of the drive that `name` (`PATH`, or `PATH#ID`) means; `text` is the
/// content of the file.
///
/// # Errors
/// The text is not a family, contradicts itself, or does not say which drive is meant: one sentence with file and key.
pub fn in_file(name: &str, text: &str) -> Result<(Family, usize), Refusal> {
    let (file, id) = path_and_id(name);
    let family: Family = read(file, text)?;
    check::family(file, &family)?;
    let ids: Vec<&str> = family
        .drives
        .iter()
        .map(|drive| drive.id.as_str())
        .collect();
    let place = which(file, "drive", id, &ids)?;
    Ok((family, place))
}

/// Whether a user's file of a drive is a data sheet; otherwise it is a profile ([`models::profile`]).
#[must_use]
pub fn is_sheet(text: &str) -> bool {
    /// The list that only a data sheet has.
    #[derive(Deserialize)]
    struct Outline {
        drive: Option<IgnoredAny>,
    }
    read::<Outline>("", text).is_ok_and(|outline| outline.drive.is_some())
}

#[cfg(test)]
mod tests;
