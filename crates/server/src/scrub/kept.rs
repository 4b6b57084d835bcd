//! What is written down of a volume's scrubs, and what `status` shows of that.

use super::report::Report;
use engine::layout::Geometry;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Scrub again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Seconds from the end of one scrub to the beginning of the next.
    pub every_s: u64,
    /// Correct what does not match.
    pub repair: bool,
    /// When this was ordered; counts as the end of a scrub where there has been none.
    pub since_s: u64,
}

/// Where a scrub stands that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// Bytes of each member's extent that are done.
    pub kept_bytes: u64,
    /// An operator has paused it.
    pub paused: bool,
}

/// How a scrub that has ended went.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When it began, seconds since 1970.
    pub started_s: u64,
    /// When it ended.
    pub ended_s: u64,
    /// It got to the volume's end.
    pub complete: bool,
    /// Stripes that did not match.
    pub mismatches: u64,
    /// Places that could be neither read nor reconstructed.
    pub unrecoverable: u64,
}

impl Ended {
    /// Of the scrub of `report`, once it has ended.
    #[must_use]
    pub fn of(report: &Report) -> Option<Ended> {
        Some(Ended {
            started_s: report.started_s,
            ended_s: report.ended_s?,
            complete: report.complete,
            mismatches: report.mismatches,
            unrecoverable: report.unrecoverable,
        })
    }
}

/// What is kept of a volume on the drives.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its UUID.
    pub uuid: String,
    /// Level, members, chunk, first byte and length on each member: in another shape positions mean nothing.
    pub shape: [u64; 5],
    /// When to scrub.
    pub schedule: Option<Schedule>,
    /// The scrub that has not ended.
    pub unfinished: Option<Unfinished>,
    /// The running scrub, or the last one.
    pub report: Option<Report>,
    /// While one runs, how the one before it ended. Older versions neither write nor read it.
    #[serde(default)]
    pub before: Option<Ended>,
}

impl Kept {
    /// How the last scrub went that has ended.
    #[must_use]
    pub fn last(&self) -> Option<Ended> {
        self.report.as_ref().and_then(Ended::of).or(self.before)
    }
}

/// Scrubs of a volume, as `status` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubStatus {
    /// Seconds from the end of a scrub to the next one that is begun unasked; absent without a schedule.
    pub every_s: Option<u64>,
    /// Whether those correct what does not match.
    pub scheduled_repair: bool,
    /// When the next is due, seconds since 1970; it waits until the volume is whole and nothing else runs.
    pub next_s: Option<u64>,
    /// When the last scrub that has ended began; absent where none has.
    pub last_started_s: Option<u64>,
    /// When it ended.
    pub last_ended_s: Option<u64>,
    /// Whether it got to the volume's end.
    pub last_complete: bool,
    /// Stripes that did not match.
    pub last_mismatches: u64,
    /// Places that could be neither read nor reconstructed.
    pub last_unrecoverable: u64,
    /// Bytes of each member that an unfinished scrub has done.
    pub unfinished_bytes: Option<u64>,
}

/// The shape of a volume, as [`Kept::shape`] has it.
#[must_use]
pub fn shape_key(shape: &Geometry) -> [u64; 5] {
    let level = u64::from(shape.level.number());
    [
        level,
        u64::from(shape.members),
        u64::from(shape.chunk_bytes),
        shape.start_bytes,
        shape.component_bytes,
    ]
}
