//! Configurations: named setups, and points of work on them, in the form of the frozen claims.
//!
//! ```toml
//! schema = 1
//!
//! [setup.r0x4]
//! drive = "p4510-2tb"          # an id, or the path of a profile
//! count = 4
//! level = 0                    # 0, 1, 5, 10, or "none": exactly one drive, stack "none"
//! platform = "s2600wft-6154-x16"
//! host = "linux-3.10-kpti"
//! stack = "md-2018"
//!
//! [points]
//! rr = { setup = "r0x4", state = "steady", workload = { op = "randread", bs = "4k", threads = 8, qd = 64 } }
//! ```

use super::catalogue::Catalogue;
use super::document::{Refusal, check_version, read};
use super::nearest::nearest;
use super::setup::Setup;
use crate::workload::Workload;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The state that earlier writes have left the drives in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Never written.
    Fresh,
    /// The whole span written in order.
    Filled,
    /// Then overwritten at random until the rate no longer changes.
    Steady,
    /// Percentage used at or above 105.
    Worn,
    /// Steady, and powered on just now: some drives then refresh their medium for hours.
    #[serde(rename = "powered-on")]
    PoweredOn,
}

/// A point as written: it names its setup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Point {
    /// Name of the setup.
    pub setup: String,
    /// The state of the drives.
    pub state: State,
    /// The load.
    pub workload: Workload,
}

/// The file as written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Form {
    /// Version of the form.
    pub schema: u32,
    /// Setups by name.
    pub setup: BTreeMap<String, Setup>,
    /// Points by name.
    pub points: BTreeMap<String, Point>,
}

/// Everything that a prediction may depend on. It contains no name, no claim and no published figure.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Configuration {
    /// The drives, and what they are connected to.
    pub setup: Setup,
    /// The state of the drives.
    pub state: State,
    /// The load.
    pub workload: Workload,
}

/// Reads a file of setups and points; the points by name, each with its setup.
///
/// # Errors
///
/// When the file does not have the form or breaks a rule: see [`resolve`].
pub fn read_configurations(
    file: &str,
    text: &str,
    catalogue: &Catalogue,
) -> Result<BTreeMap<String, Configuration>, Refusal> {
    let form: Form = read(file, text)?;
    check_version(file, form.schema)?;
    resolve(file, &form.setup, &form.points, catalogue)
}

/// Checks setups and points, and gives each point its setup.
///
/// # Errors
///
/// The first rule that is broken: unknown ids, numbers out of range, a point whose setup is missing, no points at all.
pub fn resolve(
    file: &str,
    setups: &BTreeMap<String, Setup>,
    points: &BTreeMap<String, Point>,
    catalogue: &Catalogue,
) -> Result<BTreeMap<String, Configuration>, Refusal> {
    for (name, setup) in setups {
        setup.check(catalogue).map_err(|broken| {
            Refusal::new(file, format!("setup.{name}.{}", broken.key), broken.rule)
        })?;
    }
    if points.is_empty() {
        return Err(Refusal::new(
            file,
            "points",
            "has no point; name at least one",
        ));
    }
    let mut resolved = BTreeMap::new();
    for (name, point) in points {
        let key = |inner: &str| format!("points.{name}.{inner}");
        check_name(name).map_err(|rule| Refusal::new(file, format!("points.{name}"), rule))?;
        let setup = setups.get(&point.setup).ok_or_else(|| {
            let offered = nearest(&point.setup, setups.keys().map(String::as_str));
            let rule = format!("does not know \"{}\"; nearest: {offered}", point.setup);
            Refusal::new(file, key("setup"), rule)
        })?;
        point.workload.check_known().map_err(|broken| {
            Refusal::new(file, key(&format!("workload.{}", broken.key)), broken.rule)
        })?;
        let configuration = Configuration {
            setup: setup.clone(),
            state: point.state,
            workload: point.workload.clone(),
        };
        resolved.insert(name.clone(), configuration);
    }
    Ok(resolved)
}

/// Names of points occur in expressions, so they must be words.
fn check_name(name: &str) -> Result<(), &'static str> {
    let is_word = name.starts_with(|first: char| first.is_ascii_lowercase())
        && name
            .bytes()
            .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_');
    is_word
        .then_some(())
        .ok_or("must be small letters, digits and _, beginning with a letter")
}

#[cfg(test)]
mod tests;
