//! Opening drives for commands: to be looked at, or to be changed.
//!
//! To be changed, a drive must be nobody else's. The kernel refuses a block device that is mounted or part
//! of something; for a file, other users are looked up ([`drives::claimants`]).

use super::exit_codes::refused;
use crate::container::probe::{Probed, parse_spec, probe, probe_all};
use anyhow::Result;
use drives::claimants::claimants;
use drives::drive::{Access, OpenError};

/// Opens `specs` exclusively, each a different drive that nobody else uses.
///
/// # Errors
/// A drive that cannot be opened or has no place for metadata; two with the same serial number. A drive
/// in use is a refusal that names by whom.
pub fn for_change(specs: &[String]) -> Result<Vec<Probed>> {
    let drives = probe_all(specs, Access::Exclusive).map_err(busy_is_refusal)?;
    for probed in &drives {
        let users = probed.path().map(claimants).unwrap_or_default();
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

fn busy_is_refusal(error: anyhow::Error) -> anyhow::Error {
    match error.downcast_ref::<OpenError>() {
        Some(OpenError::InUse { .. }) => refused(error.to_string()),
        _ => error,
    }
}
