//! How often volumes are scrubbed without an order: what the settings file says, what an operator has ordered by
//! `fullstripe scrub --every`, and which of the two counts.
//!
//! The first scrub that the settings cause is due a period after the volume was first served with them, and a share of
//! the period later that depends on the volume's UUID: arrays that were made on one day, or that one upgrade reaches,
//! do not all begin at once. Later scrubs count from the end of the one before.
//!
//! A machine that was off for months has to scrub all its arrays. They do not begin while it boots: no scrub is due sooner
//! than [`SETTLE_S`] after the start. Those that were due before the start are spread over [`CATCH_UP_S`] after that, each
//! at a moment that depends on the volume's UUID. A clock that is set ahead later is like another start: a machine whose clock was
//! behind when it booted learns only then what is overdue. Where scrubs follow each other quickly, both times are shorter.

use super::kept::{Kept, Schedule};
use metadata::crc32c::crc32c;

/// The first scrubs of volumes are spread over this part of the period. After a start no scrub is postponed by more than twice
/// this part.
const SPREAD_PART: u64 = 4;
/// No scheduled scrub begins sooner after the start: a machine has booted by then.
const SETTLE_S: u64 = 10 * 60;
/// Scrubs that were due before the start are spread over so much time: a machine with dozens of arrays begins one every few
/// minutes, and one that only runs during the day begins all of them.
const CATCH_UP_S: u64 = 4 * 3600;

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

    /// The schedule that counts and when its next scrub is due, in seconds since 1970, for a server that began at `start_s`, or whose clock was set ahead then.
    pub(super) fn next(
        self,
        kept: &Kept,
        is_ordered_here: bool,
        start_s: u64,
    ) -> Option<(Schedule, u64)> {
        let (schedule, is_automatic) = self.schedule(kept, is_ordered_here)?;
        let ended_s = kept.report.as_ref().and_then(|report| report.ended_s);
        let ended_s = ended_s.unwrap_or(0);
        let next_s = ended_s.max(schedule.since_s);
        let next_s = next_s.saturating_add(schedule.every_s);
        let is_first = is_automatic && ended_s <= schedule.since_s;
        let later_s = match is_first {
            true => share_s(&kept.uuid, schedule.every_s / SPREAD_PART),
            false => 0,
        };
        let next_s = next_s.saturating_add(later_s);
        let earliest_s = earliest_s(&kept.uuid, schedule.every_s, start_s, next_s < start_s);
        Some((schedule, next_s.max(earliest_s)))
    }
}

/// The moment before which no scheduled scrub of this volume begins, if the server began at `start_s`; `is_overdue` says that
/// the scrub was due before that.
fn earliest_s(uuid: &str, every_s: u64, start_s: u64, is_overdue: bool) -> u64 {
    let part_s = every_s / SPREAD_PART;
    let settled_s = start_s.saturating_add(SETTLE_S.min(part_s));
    match is_overdue {
        true => settled_s.saturating_add(share_s(uuid, CATCH_UP_S.min(part_s))),
        false => settled_s,
    }
}

/// The share of `widest_s` that this volume has: from none to all but a second of it.
fn share_s(uuid: &str, widest_s: u64) -> u64 {
    let hash = u128::from(crc32c(uuid.as_bytes()));
    ((u128::from(widest_s) * hash) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY_S: u64 = 86_400;

    /// Whether numbers are spread evenly over `from..from + widest`.
    fn check_spread(numbers: &[u64], from: u64, widest: u64) {
        let all = from..from + widest;
        assert!(numbers.iter().all(|number| all.contains(number)));
        for eighth in 0..8 {
            let part = from + eighth * widest / 8..from + (eighth + 1) * widest / 8;
            let count = numbers
                .iter()
                .filter(|number| part.contains(number))
                .count();
            assert!((75..175).contains(&count), "{count} of 1000 in {part:?}");
        }
    }

    fn uuids() -> impl Iterator<Item = String> {
        (0..1000).map(|at| format!("{at:08x}:5d0a7e11:88c2f6d3:0b64a925"))
    }

    #[test]
    fn first_scrubs_are_spread_over_a_part_of_the_period() {
        let widest_s = 30 * DAY_S / SPREAD_PART;
        let shares: Vec<u64> = uuids().map(|uuid| share_s(&uuid, widest_s)).collect();
        check_spread(&shares, 0, widest_s);
        // The same after each restart.
        assert_eq!(share_s("uuid", widest_s), share_s("uuid", widest_s));
    }

    #[test]
    fn overdue_scrubs_begin_ten_minutes_after_the_start_and_in_the_four_hours_after_that() {
        let start_s = 1_000_000;
        let begin_s = |uuid: String| earliest_s(&uuid, 30 * DAY_S, start_s, true);
        let begins: Vec<u64> = uuids().map(begin_s).collect();
        check_spread(&begins, start_s + 600, 4 * 3600);
        // What is due later only waits until the machine has booted.
        assert_eq!(
            earliest_s("uuid", 30 * DAY_S, start_s, false),
            start_s + 600
        );
    }

    #[test]
    fn scrubs_that_follow_each_other_quickly_wait_less_than_half_their_period() {
        for every_s in [0, 1, 3, 4, 60, 3600, DAY_S] {
            for uuid in uuids().take(50) {
                let waits_s = earliest_s(&uuid, every_s, 1000, true) - 1000;
                assert!(waits_s * 2 <= every_s, "{waits_s} s of {every_s}");
            }
        }
    }

    #[test]
    fn a_clock_far_in_the_future_overflows_nothing() {
        let mut kept = Kept::default();
        let every = ScrubEvery::Set(Some(u64::MAX));
        assert!(every.apply(&mut kept, u64::MAX));
        assert_eq!(every.next(&kept, false, u64::MAX).unwrap().1, u64::MAX);
        assert_eq!(every.next(&kept, false, 0).unwrap().1, u64::MAX);
    }
}
