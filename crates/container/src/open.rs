//! Opening drives for commands: to be looked at, or to be changed.
//!
//! To be changed, a drive must be nobody else's. The kernel refuses a block device that is mounted or part
//! of something; for a file, other users are looked up ([`drives::holders`]).

use crate::probe::{Probed, in_time, parse_spec, probe, probe_all};
use crate::refusal::refused;
use anyhow::{Result, bail};
use drives::drive::{Access, OpenError};
use drives::holders::holders;
use drives::spec::Target;
use std::path::PathBuf;

/// Opens `specs` exclusively, each a different drive that nobody else uses.
///
/// # Errors
/// A drive that cannot be opened or has no place for metadata; two with the same serial number. A drive
/// in use is a refusal that names by whom.
pub fn for_change(specs: &[String]) -> Result<Vec<Probed>> {
    exclusively(specs, Access::Exclusive)
}

/// As [`for_change`], for who will only read them.
///
/// # Errors
/// As there.
pub fn for_reading(specs: &[String]) -> Result<Vec<Probed>> {
    exclusively(specs, Access::ExclusiveReadOnly)
}

fn exclusively(specs: &[String], access: Access) -> Result<Vec<Probed>> {
    refuse_twins(specs)?;
    let drives = probe_all(specs, access).map_err(busy_is_refusal)?;
    for probed in &drives {
        let users = probed.path().map(holders).unwrap_or_default();
        if !users.is_empty() {
            return Err(refused(format!(
                "{} is in use by {}; release it first",
                probed.drive.name(),
                users.join(", ")
            )));
        }
    }
    Ok(drives)
}

/// Opens `specs` read-only, each a different drive, whoever else uses them.
///
/// # Errors
/// As [`for_change`], except that a drive may be in use.
pub fn to_look(specs: &[String]) -> Result<Vec<Probed>> {
    probe_all(specs, Access::ReadOnly)
}

/// Opens one drive read-only.
///
/// # Errors
/// It cannot be opened or is too small for any metadata.
pub fn one_to_look(spec: &str) -> Result<Probed> {
    probe(parse_spec(spec)?, Access::ReadOnly)
}

/// Refuses one path under two names, which would only be seen as "in use".
///
/// # Errors
/// The two names, or a specification that cannot be parsed.
pub fn refuse_twins(specs: &[String]) -> Result<()> {
    let mut seen: Vec<(PathBuf, &String)> = Vec::new();
    for text in specs {
        let Target::Path(path) = parse_spec(text)?.target else {
            continue;
        };
        let path = in_time(text, move || path.canonicalize().unwrap_or(path))?;
        if let Some((_, earlier)) = seen.iter().find(|(other, _)| *other == path) {
            bail!("{earlier} and {text} are the same drive; name each once");
        }
        seen.push((path, text));
    }
    Ok(())
}

fn busy_is_refusal(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::InUse { .. }) => refused(error.to_string()),
        _ => error,
    }
}
