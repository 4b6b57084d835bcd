//! The write-hole log of a volume on one drive ([`metadata::imsm::log`]), for people and for programs.

use crate::probe::{Member, Probed};
use metadata::imsm::Mpb;
use metadata::imsm::SECTOR_BYTES;
use metadata::imsm::log::{AreaStart, LoggedVolume, Walk, walk};
use serde::Serialize;

/// The content of the place where the drive keeps the log.
#[derive(Serialize)]
pub struct LogReport {
    /// First byte on the drive.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u64,
    /// `header`, `blank` (being emptied), `torn` (a header that was written only in part), `foreign` (no log of
    /// this container) or `unreadable`.
    pub state: &'static str,
    /// Why it is foreign.
    pub reason: Option<String>,
    /// Units that can be found in it; only the last one counts.
    pub units: usize,
    /// Generation of the last unit.
    pub generation: Option<u64>,
    /// Entries of the last unit: writes that may have been under way.
    pub entries: usize,
}

/// Describes the log of volume number `at` on `probed`; `None` if the volume has none.
#[must_use]
pub fn of(probed: &Probed, mpb: &Mpb, at: usize) -> Option<LogReport> {
    let has_log = mpb.volumes[at].write_hole_policy.is_member_log();
    let volume = LoggedVolume::of(mpb, at, probed.sector).filter(|_| has_log)?;
    let offset_bytes = volume.log_sector() * SECTOR_BYTES;
    let report = LogReport {
        offset_bytes,
        length_bytes: volume.log_bytes() as u64,
        state: "unreadable",
        reason: None,
        units: 0,
        generation: None,
        entries: 0,
    };
    let Ok(area) = Member::read_at(probed, offset_bytes, volume.log_bytes()) else {
        return Some(report);
    };
    let Walk {
        start,
        headers,
        newest,
    } = walk(&area, volume.signature, volume.sector);
    Some(LogReport {
        state: match start {
            AreaStart::Header => "header",
            AreaStart::Blank => "blank",
            AreaStart::Torn => "torn",
            AreaStart::Foreign(_) => "foreign",
        },
        reason: match start {
            AreaStart::Foreign(problem) => Some(problem.to_string()),
            _ => None,
        },
        units: headers,
        generation: newest.as_ref().map(|newest| newest.header.generation),
        entries: newest.map_or(0, |newest| newest.header.entries.len()),
        ..report
    })
}
