//! How the user names a member on the command line.
//!
//! ```text
//! PATH[,key=value…]        a block device or a regular file
//! ram:SIZE[,key=value…]    memory that is gone when the process ends
//! null:SIZE[,key=value…]   forgets what is written and leaves reads untouched; for measuring
//! ```
//!
//! | key | value | meaning |
//! |---|---|---|
//! | `serial` | text | the serial for the array's metadata, instead of the drive's own and shortened as that would be |
//! | `sector` | `512`, `4096` | logical sector size of a file, ram or null member; 512 unless given |
//! | `read-iops` | count, `k` = 1000, `m` = 1000 000 | 4 KiB reads per second |
//! | `write-iops` | the same | 4 KiB writes per second |
//! | `bandwidth` | size | bytes per second, reads and writes together |
//! | `latency` | time | added to every I/O |
//! | `model` | drive | answers as the model of this drive does: an id like `p4510-2tb`, `FILE.toml`, `FILE.toml#ID` |
//! | `state` | `fresh`, `filled`, `steady`, `worn` | the earlier use of the modelled drive; `steady` unless given |
//!
//! Sizes are bytes or carry `k`, `m`, `g`, `t` for KiB, MiB, GiB, TiB. Times are whole nanoseconds or
//! carry `ns`, `us`, `ms`, `s`. A path cannot contain a comma.

use crate::drive::stored_serial;
use engine::units::Nanos;
use models::drive::State;
use models::library;
use std::path::PathBuf;
use std::str::FromStr;

/// What a member is made of.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A block device or regular file.
    Path(PathBuf),
    /// Memory of this process.
    Ram {
        /// Capacity.
        size_bytes: u64,
    },
    /// Nothing at all.
    Null {
        /// Pretended capacity.
        size_bytes: u64,
    },
}

/// Artificial limits that make a member slower. `None` means unlimited.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Limits {
    /// 4 KiB reads per second if nothing else runs.
    pub read_iops: Option<u64>,
    /// 4 KiB writes per second if nothing else runs.
    pub write_iops: Option<u64>,
    /// Bytes per second, reads and writes together.
    pub bandwidth_bytes_per_second: Option<u64>,
    /// Added to every I/O.
    pub latency: Nanos,
}

impl Limits {
    /// Whether anything is limited.
    #[must_use]
    pub fn any(&self) -> bool {
        *self != Limits::default()
    }
}

/// The drive whose model decides when a member answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Model {
    /// The id of a drive that comes with the program, or a file: see [`library`].
    pub drive: String,
    /// The earlier use of the drive.
    pub state: State,
}

/// A parsed member specification. See the module's documentation for the grammar.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MemberSpec {
    /// What it is made of.
    pub target: Target,
    /// The serial to use instead of the drive's own.
    pub serial: Option<String>,
    /// The requested sector size.
    pub sector_bytes: Option<u32>,
    /// Artificial limits.
    pub limits: Limits,
    /// The drive that it imitates, instead of limits.
    pub model: Option<Model>,
}

/// Why a text is not a member specification.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SpecError {
    /// Nothing before the first comma.
    #[error(
        "member \"{text}\" names no drive; write PATH, ram:SIZE or null:SIZE before the first comma"
    )]
    NoTarget {
        /// The whole specification.
        text: String,
    },
    /// The key is unknown.
    #[error(
        "member \"{text}\": unknown key \"{key}\"; the keys are serial, sector, read-iops, write-iops, \
         bandwidth, latency, model and state"
    )]
    UnknownKey {
        /// The whole specification.
        text: String,
        /// The text before the `=`.
        key: String,
    },
    /// A key is given twice.
    #[error("member \"{text}\": {key}= is given twice; keep one")]
    Twice {
        /// The whole specification.
        text: String,
        /// The key.
        key: String,
    },
    /// The model is unknown.
    #[error("member \"{text}\": {sentence}")]
    UnknownModel {
        /// The whole specification.
        text: String,
        /// What is wrong with it.
        sentence: String,
    },
    /// `state=` is given without `model=`.
    #[error("member \"{text}\": state= is that of a modelled drive; name one with model=")]
    StateAlone {
        /// The whole specification.
        text: String,
    },
    /// Both `model=` and limits are given, and both say how fast the member is.
    #[error(
        "member \"{text}\": model= says how fast it is; leave out read-iops, write-iops, bandwidth \
         and latency"
    )]
    ModelAndLimits {
        /// The whole specification.
        text: String,
    },
    /// A value that does not fit its key.
    #[error("member \"{text}\": {key} cannot be \"{value}\"; {expected}")]
    BadValue {
        /// The whole specification.
        text: String,
        /// The key, or `ram:` or `null:`.
        key: String,
        /// What was given.
        value: String,
        /// What would be right.
        expected: &'static str,
    },
}

const SIZE_HELP: &str =
    "give bytes, or a number with k, m, g or t for KiB, MiB, GiB or TiB, like 64m";
const COUNT_HELP: &str = "give a count above zero, or one with k (1000) or m (1000000), like 500k";
const TIME_HELP: &str = "give a time like 90us or 2ms, at most 60s";
const SECTOR_HELP: &str = "give 512 or 4096";
const MODEL_HELP: &str = "give a drive like p4510-2tb, or a profile like ./mine.toml";
const STATE_HELP: &str = "give fresh, filled, steady or worn";
const SERIAL_HELP: &str =
    "give at least one printable ASCII character that is neither space nor comma";
/// Longest latency; anything beyond would look like a dead drive.
const LATENCY_MAX: Nanos = Nanos(60 * Nanos::SECOND.0);

impl FromStr for MemberSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<MemberSpec, SpecError> {
        let mut parts = text.split(',');
        let mut spec = MemberSpec::plain(parse_target(text, parts.next().unwrap_or_default())?);
        let mut state = None;
        let mut seen: Vec<&str> = Vec::new();
        for part in parts {
            let (key, value) = part.split_once('=').unwrap_or((part, ""));
            if seen.contains(&key) {
                return Err(SpecError::Twice {
                    text: text.to_owned(),
                    key: key.to_owned(),
                });
            }
            seen.push(key);
            if key == "state" {
                state = Some(parse_state(text, value)?);
            } else {
                spec.set(text, key, value)?;
            }
        }
        let text = || text.to_owned();
        match (&mut spec.model, state) {
            (None, Some(_)) => return Err(SpecError::StateAlone { text: text() }),
            (Some(model), Some(state)) => model.state = state,
            (_, None) => {}
        }
        if spec.model.is_some() && spec.limits.any() {
            return Err(SpecError::ModelAndLimits { text: text() });
        }
        Ok(spec)
    }
}

impl MemberSpec {
    /// A specification without keys.
    #[must_use]
    pub fn plain(target: Target) -> MemberSpec {
        MemberSpec {
            target,
            serial: None,
            sector_bytes: None,
            limits: Limits::default(),
            model: None,
        }
    }

    fn set(&mut self, text: &str, key: &str, value: &str) -> Result<(), SpecError> {
        let bad = |expected| SpecError::BadValue {
            text: text.to_owned(),
            key: format!("{key}="),
            value: value.to_owned(),
            expected,
        };
        let count = || parse_count(value).ok_or(bad(COUNT_HELP));
        match key {
            "serial" => {
                self.serial = Some(stored_serial(value).ok_or(bad(SERIAL_HELP))?);
            }
            "sector" => {
                self.sector_bytes = Some(match value {
                    "512" => 512,
                    "4096" => 4096,
                    _ => return Err(bad(SECTOR_HELP)),
                });
            }
            "read-iops" => self.limits.read_iops = Some(count()?),
            "write-iops" => self.limits.write_iops = Some(count()?),
            "bandwidth" => {
                let bytes = parse_size(value).ok_or(bad(SIZE_HELP))?;
                self.limits.bandwidth_bytes_per_second = Some(bytes);
            }
            "latency" => self.limits.latency = parse_time(value).ok_or(bad(TIME_HELP))?,
            "model" if value.is_empty() => return Err(bad(MODEL_HELP)),
            "model" => self.model = Some(parse_model(text, value)?),
            _ => {
                return Err(SpecError::UnknownKey {
                    text: text.to_owned(),
                    key: key.to_owned(),
                });
            }
        }
        Ok(())
    }
}

fn parse_target(text: &str, target: &str) -> Result<Target, SpecError> {
    let size = |key: &str, value: &str| {
        parse_size(value).ok_or_else(|| SpecError::BadValue {
            text: text.to_owned(),
            key: key.to_owned(),
            value: value.to_owned(),
            expected: SIZE_HELP,
        })
    };
    if let Some(value) = target.strip_prefix("ram:") {
        Ok(Target::Ram {
            size_bytes: size("ram:", value)?,
        })
    } else if let Some(value) = target.strip_prefix("null:") {
        Ok(Target::Null {
            size_bytes: size("null:", value)?,
        })
    } else if target.is_empty() {
        Err(SpecError::NoTarget {
            text: text.to_owned(),
        })
    } else {
        Ok(Target::Path(PathBuf::from(target)))
    }
}

/// Files are read when the member is opened, not here.
fn parse_model(text: &str, drive: &str) -> Result<Model, SpecError> {
    if !library::is_file(drive) {
        library::with_id(drive).map_err(|refusal| SpecError::UnknownModel {
            text: text.to_owned(),
            sentence: refusal.sentence(),
        })?;
    }
    Ok(Model {
        drive: drive.to_owned(),
        state: State::Steady,
    })
}

fn parse_state(text: &str, value: &str) -> Result<State, SpecError> {
    Ok(match value {
        "fresh" => State::Fresh,
        "filled" => State::Filled,
        "steady" => State::Steady,
        "worn" => State::Worn,
        _ => {
            return Err(SpecError::BadValue {
                text: text.to_owned(),
                key: "state=".to_owned(),
                value: value.to_owned(),
                expected: STATE_HELP,
            });
        }
    })
}

/// Digits, then one of `units` or nothing; the product, unless it is zero or overflows.
fn parse_scaled(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit {
        "" => 1,
        _ => {
            units
                .iter()
                .find(|(name, _)| name.eq_ignore_ascii_case(unit))?
                .1
        }
    };
    number
        .parse::<u64>()
        .ok()?
        .checked_mul(factor)
        .filter(|&value| value > 0)
}

/// A size: bytes, or with a binary suffix. `None` for zero, overflow and anything else.
#[must_use]
pub fn parse_size(text: &str) -> Option<u64> {
    parse_scaled(
        text,
        &[
            ("k", 1 << 10),
            ("m", 1 << 20),
            ("g", 1 << 30),
            ("t", 1 << 40),
        ],
    )
    .filter(|&size| size <= i64::MAX as u64)
}

fn parse_count(text: &str) -> Option<u64> {
    parse_scaled(text, &[("k", 1000), ("m", 1_000_000)])
}

fn parse_time(text: &str) -> Option<Nanos> {
    let units = [
        ("ns", 1),
        ("us", 1000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
    ];
    parse_scaled(text, &units)
        .map(Nanos)
        .filter(|&time| time <= LATENCY_MAX)
}

#[cfg(test)]
mod tests;
