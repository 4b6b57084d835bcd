//! Opening drives for commands: to examine them, or to change them.
//!
//! A drive may only be changed if nobody else uses it. The kernel refuses a block device that is mounted or part
//! of another device; for a file, other users are looked up ([`drives::holders`]).

use crate::probe::{Probed, in_time, parse_spec, probe, probe_all};
use crate::refusal::refused;
use crate::root_drive;
use anyhow::{Result, bail};
use drives::drive::{Access, OpenError};
use drives::holders::holders;
use drives::spec::Target;
use std::path::PathBuf;

/// Opens `specs` exclusively, each a different drive that nobody else uses.
///
/// # Errors
/// A drive cannot be opened or has no place for metadata; two have the same serial number. A drive that is
/// in use is a refusal that names the user, and so is one that the root file system lies on.
pub fn for_change(specs: &[String]) -> Result<Vec<Probed>> {
    exclusively(specs, Access::Exclusive)
}

/// As [`for_change`], for callers that only read the drives.
///
/// # Errors
/// As [`for_change`].
pub fn for_reading(specs: &[String]) -> Result<Vec<Probed>> {
    exclusively(specs, Access::ExclusiveReadOnly)
}

fn exclusively(specs: &[String], access: Access) -> Result<Vec<Probed>> {
    refuse_twins(specs)?;
    root_drive::refuse(specs)?;
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

/// Opens `specs` read-only, each a different drive; other users do not matter.
///
/// # Errors
/// As [`for_change`], except that a drive may be in use.
pub fn to_look(specs: &[String]) -> Result<Vec<Probed>> {
    probe_all(specs, Access::ReadOnly)
}

/// Opens one drive read-only.
///
/// # Errors
/// The drive cannot be opened or is too small for any metadata.
pub fn one_to_look(spec: &str) -> Result<Probed> {
    probe(parse_spec(spec)?, Access::ReadOnly)
}

/// Refuses one path given under two names, which would otherwise only be reported as "in use".
///
/// # Errors
/// The two names are the same path, or a specification cannot be parsed.
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
