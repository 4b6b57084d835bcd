//! The form of a catalogue file: a family, its sources, and its drives with their figures.
//!
//! ```toml
//! schema = 1
//! name = "Example E1"
//! maker = "Example"
//! class = "tlc"
//! purpose = "data-centre"
//! generation = { value = 4, source = "brief" }
//! lanes = { value = 4, source = "brief" }
//!
//! [[source]]
//! id = "brief"
//! kind = "sheet"
//! title = "Example E1 product brief"
//! address = "https://example.com/e1.pdf"
//! date = "2023-08"
//!
//! [[drive]]
//! id = "example-e1-4tb"
//!
//! [drive.ratings]
//! capacity_gb = { value = 3840, source = "brief" }
//! read_kiops = { value = [900, 930], source = ["brief", "review"] }
//! write_mb_s = { value = 5000, source = "brief", burst = true }
//! ```

use crate::prior::{Prior, Range};
pub use models::profile::Purpose;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;

/// Drives that differ by their capacity and by what follows from it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Family {
    /// The version of the form, [`crate::SCHEMA`].
    pub schema: u32,
    /// The name that the maker sells them by.
    pub name: String,
    /// The maker.
    pub maker: String,
    /// The kind of memory.
    pub class: Class,
    /// What they are made for.
    pub purpose: Purpose,
    /// PCIe generation.
    pub generation: Figure,
    /// PCIe lanes.
    pub lanes: Figure,
    /// The documents that the figures come from.
    #[serde(rename = "source")]
    pub sources: Vec<Source>,
    /// The drives.
    #[serde(rename = "drive")]
    pub drives: Vec<Drive>,
    /// What is usual of these drives, where it is known better than of all drives of their kind.
    #[serde(default)]
    pub priors: BTreeMap<Prior, Range>,
}

impl Family {
    /// The source with this id.
    #[must_use]
    pub fn source(&self, id: &str) -> Option<&Source> {
        self.sources.iter().find(|source| source.id == id)
    }
}

/// A document.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Source {
    /// The name by which figures of this family refer to it.
    pub id: String,
    /// Whose document it is.
    pub kind: Kind,
    /// Its title.
    pub title: String,
    /// Where it was found: an http or https address; "unknown" only outside of the catalogue.
    pub address: String,
    /// Its date, `YYYY`, `YYYY-MM` or `YYYY-MM-DD`; "unknown" if it states none.
    pub date: String,
}

/// Whose document a source is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The maker's own.
    Sheet,
    /// The press's, a seller's, a reviewer's.
    Reported,
}

/// The kind of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Class {
    /// Flash with one bit a cell.
    Slc,
    /// Flash with two bits a cell.
    Mlc,
    /// Flash with three bits a cell.
    Tlc,
    /// Flash with four bits a cell.
    Qlc,
    /// 3D XPoint, which is no flash.
    Optane,
}

macro_rules! words_of {
    ($($type:ident { $($value:ident => $word:literal),+ $(,)? })+) => {
        $(impl $type {
            /// Every value with its word.
            pub const ALL: &[($type, &str)] = &[$(($type::$value, $word)),+];

            /// The word for it, as the files have it.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $($type::$value => $word,)+
                }
            }
        }

        impl fmt::Display for $type {
            fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.pad(self.word())
            }
        })+
    };
}
pub(crate) use words_of;

words_of! {
    Kind { Sheet => "sheet", Reported => "reported" }
    Class { Slc => "slc", Mlc => "mlc", Tlc => "tlc", Qlc => "qlc", Optane => "optane" }
    Rating {
        CapacityGb => "capacity_gb",
        ReadKiops => "read_kiops",
        WriteKiops => "write_kiops",
        WriteSizeKib => "write_size_kib",
        ReadMbS => "read_mb_s",
        WriteMbS => "write_mb_s",
        BurstGb => "burst_gb",
        BurstWriteMbS => "burst_write_mb_s",
        ReadUs => "read_us",
        WriteUs => "write_us",
        MapUnitKib => "map_unit_kib",
        IoQueues => "io_queues",
        IdleW => "idle_w",
        ActiveW => "active_w",
        EnduranceDwpd => "endurance_dwpd",
        WarrantyYears => "warranty_years",
    }
}

/// What a figure of a drive is about. The last word is its unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Rating {
    /// Capacity as sold, in 10⁹ bytes.
    CapacityGb,
    /// Random reads of 4 KiB, in thousands a second.
    ReadKiops,
    /// Random writes, in thousands a second: of 4 KiB each unless [`Rating::WriteSizeKib`] says otherwise.
    WriteKiops,
    /// Size of the random writes that [`Rating::WriteKiops`] counts.
    WriteSizeKib,
    /// Sequential reads, in 10⁶ bytes a second.
    ReadMbS,
    /// Sequential writes, in 10⁶ bytes a second.
    WriteMbS,
    /// Size of the pseudo-SLC cache, in 10⁹ bytes that are written to it.
    BurstGb,
    /// Sequential writes while that cache takes them, where [`Rating::WriteMbS`] is what follows.
    BurstWriteMbS,
    /// Typical latency of a read of 4 KiB at queue depth 1.
    ReadUs,
    /// Typical latency of a write of 4 KiB at queue depth 1.
    WriteUs,
    /// Granularity of the drive's map ("indirection unit"): smaller writes cost as much as writes of this size.
    MapUnitKib,
    /// Queue pairs that the drive grants for commands, without the one for administration.
    IoQueues,
    /// Power while idle.
    IdleW,
    /// Power at most while working.
    ActiveW,
    /// How often a day the whole drive may be written during its warranty.
    EnduranceDwpd,
    /// How long the warranty lasts.
    WarrantyYears,
}

/// Size of the random writes that sheets count unless they say otherwise.
pub const USUAL_WRITE_KIB: f64 = 4.0;

/// A drive of a family.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Drive {
    /// The name by which commands know it: lower case, with its capacity.
    pub id: String,
    /// Other names for it: of its profile, or in publications.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What drives of this kind call themselves (Identify Controller, model number), or the part of it that no other has; several
    /// if there are several forms. Empty if it is not known for certain.
    #[serde(default)]
    pub models: Vec<String>,
    /// What the sources say of it.
    pub ratings: BTreeMap<Rating, Figure>,
}

impl Drive {
    /// All names that commands know it by; the first is its id.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        std::iter::once(&self.id)
            .chain(&self.aliases)
            .map(String::as_str)
    }

    /// Its capacity in 10⁹ bytes.
    ///
    /// # Panics
    /// If it has none, which [`crate::check`] refuses.
    #[must_use]
    pub fn capacity_gb(&self) -> f64 {
        let figure = self.ratings.get(&Rating::CapacityGb);
        figure.expect("every drive has a capacity").low()
    }

    /// Size of the random writes that its rate of them counts, in KiB.
    #[must_use]
    pub fn write_size_kib(&self) -> f64 {
        let figure = self.ratings.get(&Rating::WriteSizeKib);
        figure.map_or(USUAL_WRITE_KIB, Figure::low)
    }
}

/// A number, or several if sources disagree; each value has a source.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Figure {
    said: Vec<(f64, String)>,
    /// Whether it holds for a while only: until a cache is full, or until the drive has to clear flash as it writes.
    pub is_burst: bool,
}

impl Figure {
    /// What one source says.
    #[must_use]
    pub fn one(value: f64, source: &str, is_burst: bool) -> Figure {
        Figure {
            said: vec![(value, source.to_owned())],
            is_burst,
        }
    }

    /// The values and the id of the source of each.
    pub fn said(&self) -> impl Iterator<Item = (f64, &str)> {
        self.said
            .iter()
            .map(|(value, source)| (*value, source.as_str()))
    }

    /// The least value.
    #[must_use]
    pub fn low(&self) -> f64 {
        self.said().map(|(value, _)| value).fold(f64::MAX, f64::min)
    }

    /// The largest value.
    #[must_use]
    pub fn high(&self) -> f64 {
        self.said().map(|(value, _)| value).fold(f64::MIN, f64::max)
    }
}

/// A figure as a file has it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    value: OneOrMore<f64>,
    source: OneOrMore<String>,
    #[serde(default)]
    burst: bool,
}

/// One or several.
#[derive(Deserialize)]
#[serde(untagged)]
enum OneOrMore<T> {
    One(T),
    Several(Vec<T>),
}

impl<T> From<OneOrMore<T>> for Vec<T> {
    fn from(some: OneOrMore<T>) -> Vec<T> {
        match some {
            OneOrMore::One(one) => vec![one],
            OneOrMore::Several(several) => several,
        }
    }
}

impl TryFrom<Written> for Figure {
    type Error = String;

    fn try_from(written: Written) -> Result<Figure, String> {
        let values: Vec<f64> = written.value.into();
        let sources: Vec<String> = written.source.into();
        if values.is_empty() || values.len() != sources.len() {
            return Err(format!(
                "{} and {}: each value has one source",
                words::count(values.len(), "value"),
                words::count(sources.len(), "source")
            ));
        }
        if let Some(bad) = values
            .iter()
            .find(|value| !(**value > 0.0 && value.is_finite()))
        {
            return Err(format!("{bad} is no figure of a drive"));
        }
        Ok(Figure {
            said: values.into_iter().zip(sources).collect(),
            is_burst: written.burst,
        })
    }
}
