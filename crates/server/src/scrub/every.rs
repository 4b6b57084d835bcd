//! How often volumes are scrubbed without an order: what the settings file says, what an operator has ordered by
//! `fullstripe scrub --every`, and which of the two counts.
//!
//! The first scrub that the settings cause is due a period after the volume was first served with them, and a share of
//! the period later that depends on the volume's UUID: arrays that were made on one day, or that one upgrade reaches,
//! do not all begin at once. Later scrubs count from the end of the one before.

use super::kept::{Kept, Schedule};
use metadata::crc32c::crc32c;

/// The first scrubs of volumes are spread over this part of the period.
const SPREAD_PART: u64 = 4;

/// How often an array is scrubbed without an order.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum ScrubEvery {
    /// As `fullstripe scrub --every` has ordered last; never if it has ordered nothing.
    #[default]
    Ordered,
    /// The same, but so many seconds after the end of each scrub if it has ordered nothing.
    OrderedElse(u64),
    /// So many seconds after the end of each scrub, never if absent; orders count only until the server ends.
    Set(Option<u64>),
}

impl ScrubEvery {
    /// The seconds from one scrub to the next that the settings name, if they do.
    fn period_s(self) -> Option<u64> {
        match self {
            ScrubEvery::Ordered => None,
            ScrubEvery::OrderedElse(every_s) => Some(every_s),
            ScrubEvery::Set(every_s) => every_s,
        }
    }

    /// Brings the schedule that the settings cause up to date; returns whether `kept` has changed. A new period counts
    /// from now on.
    pub(super) fn apply(self, kept: &mut Kept, now_s: u64) -> bool {
        if self == ScrubEvery::Ordered {
            return false;
        }
        let wanted_s = self.period_s();
        let is_changed = kept.automatic.map(|one| one.every_s) != wanted_s;
        if is_changed {
            kept.automatic = wanted_s.map(|every_s| Schedule {
                every_s,
                repair: false,
                since_s: now_s,
            });
        }
        is_changed
    }

    /// The schedule that counts, and whether it is the one that the settings cause; `is_ordered_here` says that an
    /// operator gave this server an order.
    fn schedule(self, kept: &Kept, is_ordered_here: bool) -> Option<(Schedule, bool)> {
        let ordered = kept.schedule.map(|one| (one, false));
        let automatic = kept.automatic.map(|one| (one, true));
        match self {
            ScrubEvery::Ordered => ordered,
            ScrubEvery::Set(_) if !is_ordered_here => automatic,
            ScrubEvery::Set(_) => ordered,
            ScrubEvery::OrderedElse(_) if kept.is_ordered_off => None,
            ScrubEvery::OrderedElse(_) => ordered.or(automatic),
        }
    }

    /// The schedule that counts and when its next scrub is due, in seconds since 1970.
    pub(super) fn next(self, kept: &Kept, is_ordered_here: bool) -> Option<(Schedule, u64)> {
        let (schedule, is_automatic) = self.schedule(kept, is_ordered_here)?;
        let ended_s = kept.report.as_ref().and_then(|report| report.ended_s);
        let ended_s = ended_s.unwrap_or(0);
        let next_s = ended_s.max(schedule.since_s);
        let next_s = next_s.saturating_add(schedule.every_s);
        let is_first = is_automatic && ended_s <= schedule.since_s;
        let later_s = match is_first {
            true => share_s(&kept.uuid, schedule.every_s),
            false => 0,
        };
        Some((schedule, next_s.saturating_add(later_s)))
    }
}

/// How much later the first scrub of this volume is due: from none to a [`SPREAD_PART`]th of the period.
fn share_s(uuid: &str, every_s: u64) -> u64 {
    let widest_s = u128::from(every_s / SPREAD_PART);
    let hash = u128::from(crc32c(uuid.as_bytes()));
    ((widest_s * hash) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: u64 = 86_400;

    #[test]
    fn first_scrubs_are_spread_over_a_part_of_the_period() {
        let uuids = (0..1000).map(|at| format!("{at:08x}:5d0a7e11:88c2f6d3:0b64a925"));
        let shares: Vec<u64> = uuids.map(|uuid| share_s(&uuid, 30 * DAY_S)).collect();
        let widest_s = 30 * DAY_S / SPREAD_PART;
        assert!(shares.iter().all(|&share_s| share_s < widest_s));
        for eighth in 0..8 {
            let part = eighth * widest_s / 8..(eighth + 1) * widest_s / 8;
            let count = shares
                .iter()
                .filter(|share_s| part.contains(share_s))
                .count();
            assert!((75..175).contains(&count), "{count} of 1000 in {part:?}");
        }
        // The same after each restart.
        assert_eq!(share_s("uuid", 30 * DAY_S), share_s("uuid", 30 * DAY_S));
    }

    #[test]
    fn a_clock_far_in_the_future_overflows_nothing() {
        let mut kept = Kept::default();
        let every = ScrubEvery::Set(Some(u64::MAX));
        assert!(every.apply(&mut kept, u64::MAX));
        assert_eq!(every.next(&kept, false).unwrap().1, u64::MAX);
    }
}
