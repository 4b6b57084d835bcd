//! What is stored about a volume's scrubs on the drives, and what `status` shows of that.

use super::report::ScrubFindings;
use engine::layout::Geometry;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// A schedule of scrubs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Schedule {
    /// Seconds from the end of one scrub to the beginning of the next.
    pub every_s: u64,
    /// Correct redundancy that does not match.
    pub repair: bool,
    /// When this was ordered; if there has been no scrub yet, this counts as the end of the last one.
    pub since_s: u64,
}

/// The position of a scrub that has not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unfinished {
    /// Bytes of each member's extent that are done.
    pub kept_bytes: u64,
    /// An operator has paused the scrub.
    pub paused: bool,
}

/// The result of a scrub that has ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// When it began, seconds since 1970.
    pub started_s: u64,
    /// When it ended.
    pub ended_s: u64,
    /// It reached the volume's end.
    pub complete: bool,
    /// Stripes that did not match.
    pub mismatches: u64,
    /// Places that could be neither read nor reconstructed.
    pub unrecoverable: u64,
}

impl Ended {
    /// The result of the scrub of `report`; `None` while it is running.
    #[must_use]
    pub fn of(report: &ScrubFindings) -> Option<Ended> {
        Some(Ended {
            started_s: report.started_s,
            ended_s: report.ended_s?,
            complete: report.complete,
            mismatches: report.mismatches,
            unrecoverable: report.unrecoverable,
        })
    }
}

/// What is stored about a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Kept {
    /// Its UUID.
    pub uuid: String,
    /// Level, members, chunk, first byte and length on each member: positions are not valid for another shape.
    pub shape: [u64; 5],
    /// When to scrub, as an operator has ordered it.
    pub schedule: Option<Schedule>,
    /// The scrub that has not ended.
    pub unfinished: Option<Unfinished>,
    /// The running scrub, or the last one.
    pub report: Option<ScrubFindings>,
    /// While a scrub is running, the result of the one before. Older versions neither write nor read this field.
    #[serde(default)]
    pub before: Option<Ended>,
    /// An operator has ended the schedule, which is more than that there is none. Older versions neither write nor read
    /// this field and the next.
    #[serde(default)]
    pub is_ordered_off: bool,
    /// The schedule that the settings cause.
    #[serde(default)]
    pub automatic: Option<Schedule>,
}

impl Kept {
    /// The result of the last scrub that has ended.
    #[must_use]
    pub fn last(&self) -> Option<Ended> {
        self.report.as_ref().and_then(Ended::of).or(self.before)
    }
}

/// Scrubs of a volume, as `status` shows them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ScrubStatus {
    /// Seconds from the end of a scrub to the next scheduled one; absent without a schedule.
    pub every_s: Option<u64>,
    /// Whether scheduled scrubs correct redundancy that does not match.
    pub scheduled_repair: bool,
    /// When the next scrub is due, seconds since 1970; it starts once the volume is whole and no other job runs.
    pub next_s: Option<u64>,
    /// When the last scrub that has ended began; absent where none has.
    pub last_started_s: Option<u64>,
    /// When it ended.
    pub last_ended_s: Option<u64>,
    /// Whether it reached the volume's end.
    pub last_complete: bool,
    /// Stripes that did not match.
    pub last_mismatches: u64,
    /// Places that could be neither read nor reconstructed.
    pub last_unrecoverable: u64,
    /// Bytes of each member that an unfinished scrub has completed.
    pub unfinished_bytes: Option<u64>,
}

/// The shape of a volume, in the form of [`Kept::shape`].
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
