//! The drives of an array, what they are connected to, and the RAID software.

use super::catalogue::Catalogue;
use crate::workload::Broken;
use serde::de::{Deserializer, Error, Visitor};
use serde::{Deserialize, Serialize, Serializer};
use std::fmt;

/// One array, or one drive alone, on one machine.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Setup {
    /// The drives, all alike.
    pub drive: Reference,
    /// Number of drives.
    pub count: u32,
    /// The RAID level.
    pub level: Level,
    /// The machine around them.
    pub platform: Reference,
    /// Operating system and its drivers.
    pub host: String,
    /// The RAID software, which turns a request into commands to drives.
    pub stack: String,
    /// Bytes of a chunk, in KiB; the default of the stack if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_kib: Option<u32>,
    /// Cores that run the engine; one if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub engine_cores: Option<u32>,
    /// How clients reach the engine; if missing, they are in its process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub export: Option<Export>,
    /// Whether a drive is missing or being rebuilt; if missing, the array is whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub condition: Option<Condition>,
    /// Limit of a rebuild, in MB per second on each drive; no limit if missing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rebuild_mb_s: Option<u32>,
}

/// How clients of other processes reach the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Export {
    /// NBD on a Unix socket.
    Nbd,
    /// A block device by the kernel's ublk driver.
    Ublk,
}

/// An array that is not whole.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Condition {
    /// One drive is missing.
    Degraded,
    /// A new drive in its place is being filled.
    Rebuilding,
}

/// Something described elsewhere: by an id, or by the path of a file.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Reference {
    /// One that comes with the program.
    Id(String),
    /// A TOML file: text with a slash or with `.toml`. Its path is relative to the file that names it. `FILE#ID` is one
    /// of several things that the file describes.
    File(String),
}

/// RAID level.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// A single drive, passed through.
    Single,
    /// Striped.
    Raid0,
    /// Mirrored.
    Raid1,
    /// Striped with rotating parity.
    Raid5,
    /// Striped mirrors.
    Raid10,
}

/// Most drives of one array: the engine's limit.
const COUNT_MAX: u32 = engine::limits::VOLUME_MEMBERS_MAX as u32;
/// Smallest and largest chunk: the engine's.
const CHUNK_MIN_KIB: u32 = engine::limits::CHUNK_BYTES_MIN / 1024;
const CHUNK_MAX_KIB: u32 = engine::limits::CHUNK_BYTES_MAX / 1024;
/// Most cores of the engine: it runs one shard on each.
const ENGINE_CORES_MAX: u32 = engine::limits::SHARDS_MAX as u32;
/// Fastest limit of a rebuild: faster than any drive.
const REBUILD_MAX_MB_S: u32 = 100_000;

impl From<String> for Reference {
    fn from(text: String) -> Reference {
        if models::library::is_file(&text) {
            Reference::File(text)
        } else {
            Reference::Id(text)
        }
    }
}

impl From<Reference> for String {
    fn from(reference: Reference) -> String {
        match reference {
            Reference::Id(text) | Reference::File(text) => text,
        }
    }
}

impl Reference {
    /// The text as written.
    #[must_use]
    pub fn text(&self) -> &str {
        match self {
            Reference::Id(text) | Reference::File(text) => text,
        }
    }
}

impl Level {
    /// Fewest drives that it can be made of.
    #[must_use]
    pub fn drives_min(self) -> u32 {
        match self {
            Level::Single => 1,
            Level::Raid0 | Level::Raid1 => 2,
            Level::Raid5 => 3,
            Level::Raid10 => 4,
        }
    }

    /// The engine's level; none for a single drive.
    #[must_use]
    pub fn array(self) -> Option<engine::layout::Level> {
        match self {
            Level::Single => None,
            Level::Raid0 => Some(engine::layout::Level::Raid0),
            Level::Raid1 => Some(engine::layout::Level::Raid1),
            Level::Raid5 => Some(engine::layout::Level::Raid5),
            Level::Raid10 => Some(engine::layout::Level::Raid10),
        }
    }

    /// What people call it: `RAID 5`.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.array().map_or("no RAID", engine::layout::Level::name)
    }

    /// How many drives it needs, as in a sentence: `3 to 64 drives`.
    #[must_use]
    pub fn drives_in_words(self) -> String {
        match self {
            Level::Single => "exactly 1 drive".to_owned(),
            level => {
                let is_even = level == Level::Raid10;
                engine::layout::drives_in_words(level.drives_min() as usize, is_even)
            }
        }
    }
}

impl From<engine::layout::Level> for Level {
    fn from(level: engine::layout::Level) -> Level {
        match level {
            engine::layout::Level::Raid0 => Level::Raid0,
            engine::layout::Level::Raid1 => Level::Raid1,
            engine::layout::Level::Raid5 => Level::Raid5,
            engine::layout::Level::Raid10 => Level::Raid10,
        }
    }
}

impl Serialize for Level {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.array() {
            None => serializer.serialize_str("none"),
            Some(level) => serializer.serialize_u32(u32::from(level.number())),
        }
    }
}

impl<'de> Deserialize<'de> for Level {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Level, D::Error> {
        struct Either;
        impl Visitor<'_> for Either {
            type Value = Level;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("0, 1, 5, 10 or \"none\"")
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Level, E> {
                engine::layout::Level::from_number(number)
                    .map(Level::from)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Unsigned(number), &self))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Level, E> {
                u64::try_from(number)
                    .ok()
                    .and_then(engine::layout::Level::from_number)
                    .map(Level::from)
                    .ok_or_else(|| E::invalid_value(serde::de::Unexpected::Signed(number), &self))
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Level, E> {
                if text == "none" {
                    return Ok(Level::Single);
                }
                Err(E::invalid_value(serde::de::Unexpected::Str(text), &self))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

impl Setup {
    /// Checks rules that the types alone do not express; ids must be in `catalogue`.
    ///
    /// # Errors
    ///
    /// The first rule that is broken.
    pub fn check(&self, catalogue: &Catalogue) -> Result<(), Broken> {
        for (key, reference, known) in [
            ("drive", &self.drive, &catalogue.drives),
            ("platform", &self.platform, &catalogue.platforms),
        ] {
            if let Reference::Id(id) = reference {
                catalogue.check(key, id, known)?;
            }
        }
        catalogue.check("host", &self.host, &catalogue.hosts)?;
        catalogue.check("stack", &self.stack, &catalogue.stacks)?;
        let broken = |key, rule: String| Err(Broken { key, rule });
        let is_single = self.level == Level::Single;
        if is_single != (self.stack == "none") {
            let rule = "must be \"none\" with level = \"none\", and only then".to_string();
            return broken("stack", rule);
        }
        if is_single && self.count != 1 {
            return broken(
                "count",
                format!("must be 1 with level = \"none\", is {}", self.count),
            );
        }
        let (least, count) = (self.level.drives_min(), self.count);
        if !(least..=COUNT_MAX).contains(&count) {
            return broken(
                "count",
                format!("must be from {least} to {COUNT_MAX} at this level, is {count}"),
            );
        }
        if self.level == Level::Raid10 && !count.is_multiple_of(2) {
            return broken("count", format!("must be even at level 10, is {count}"));
        }
        self.check_engine()?;
        match self.chunk_kib {
            Some(chunk)
                if !(CHUNK_MIN_KIB..=CHUNK_MAX_KIB).contains(&chunk)
                    || !chunk.is_power_of_two() =>
            {
                let rule = format!(
                    "must be a power of two from {CHUNK_MIN_KIB} to {CHUNK_MAX_KIB}, is {chunk}"
                );
                broken("chunk_kib", rule)
            }
            _ => Ok(()),
        }
    }

    /// Checks the keys that apply to the engine only.
    fn check_engine(&self) -> Result<(), Broken> {
        let broken = |key, rule: String| Err(Broken { key, rule });
        let is_engine = self.stack == "fullstripe";
        for (key, is_there) in [
            ("engine_cores", self.engine_cores.is_some()),
            ("export", self.export.is_some()),
            ("condition", self.condition.is_some()),
        ] {
            if is_there && !is_engine {
                return broken(key, "goes with stack = \"fullstripe\" only".to_string());
            }
        }
        if let Some(cores) = self.engine_cores
            && !(1..=ENGINE_CORES_MAX).contains(&cores)
        {
            let rule = format!("must be from 1 to {ENGINE_CORES_MAX}, is {cores}");
            return broken("engine_cores", rule);
        }
        if self.condition.is_some() && self.level == Level::Raid0 {
            let rule = "needs a level that survives the loss of a drive: 1, 5 or 10";
            return broken("condition", rule.to_string());
        }
        match self.rebuild_mb_s {
            Some(_) if self.condition != Some(Condition::Rebuilding) => {
                let rule = "goes with condition = \"rebuilding\" only";
                broken("rebuild_mb_s", rule.to_string())
            }
            Some(rate) if !(1..=REBUILD_MAX_MB_S).contains(&rate) => {
                let rule = format!("must be from 1 to {REBUILD_MAX_MB_S}, is {rate}");
                broken("rebuild_mb_s", rule)
            }
            _ => Ok(()),
        }
    }
}
