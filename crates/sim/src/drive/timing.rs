//! How long a drive takes: the first of a drive's two plug-ins.

use crate::random::Stream;
use engine::plan::StepKind;
use virtual_time::timing::{Place, Timing};

/// A drive that serves any number of commands at once, each after a random time. The fault world needs random
/// orders of answers, not realistic speed.
#[derive(Clone, Debug)]
pub struct RandomLatency {
    /// Shortest time of a command.
    pub base_ns: u64,
    /// Longest random addition.
    pub spread_ns: u64,
    /// Additional time for each 4 KiB moved.
    pub per_page_ns: u64,
    /// The drive's own stream.
    pub random: Stream,
}

impl Timing for RandomLatency {
    fn finish_ns(&mut self, now_ns: u64, kind: StepKind, place: Place) -> u64 {
        let length_bytes = place.length_bytes;
        let moved = match kind {
            StepKind::Read | StepKind::Write { .. } => length_bytes.div_ceil(4096),
            _ => 4,
        };
        // Occasionally a command takes far longer than others.
        let late = if self.random.chance(1, 32) { 20 } else { 1 };
        let spread = self.random.below(self.spread_ns + 1) * late;
        now_ns + self.base_ns + spread + moved * self.per_page_ns
    }
}

/// A drive that serves a fixed number of commands at once. The time of each depends on its kind and length alone;
/// further commands wait for a free unit, in order of arrival.
#[derive(Clone, Debug)]
pub struct ParallelUnits {
    /// Fixed time of a read, to which its pages add.
    pub read_ns: u64,
    /// Fixed time of any other command.
    pub write_ns: u64,
    /// Additional time for each 4 KiB moved.
    pub per_page_ns: u64,
    /// By unit: when it becomes free.
    free_at_ns: Vec<u64>,
}

impl ParallelUnits {
    /// A drive with this many units, all of them free.
    ///
    /// # Panics
    /// If `units` is 0.
    #[must_use]
    pub fn new(units: usize, read_ns: u64, write_ns: u64, per_page_ns: u64) -> ParallelUnits {
        assert!(units > 0, "a drive without units serves nothing");
        ParallelUnits {
            read_ns,
            write_ns,
            per_page_ns,
            free_at_ns: vec![0; units],
        }
    }
}

impl Timing for ParallelUnits {
    fn finish_ns(&mut self, now_ns: u64, kind: StepKind, place: Place) -> u64 {
        let length_bytes = place.length_bytes;
        let pages = length_bytes.div_ceil(4096);
        let service_ns = match kind {
            StepKind::Read => self.read_ns + pages * self.per_page_ns,
            StepKind::Write { .. } => self.write_ns + pages * self.per_page_ns,
            _ => self.write_ns,
        };
        let first = self.free_at_ns.iter_mut().min();
        let first = first.expect("a drive has at least one unit");
        *first = now_ns.max(*first) + service_ns;
        *first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(length_bytes: u64) -> Place {
        Place {
            offset_bytes: 0,
            length_bytes,
        }
    }

    #[test]
    fn commands_wait_for_a_unit() {
        let mut drive = ParallelUnits::new(2, 100, 20, 10);
        assert_eq!(drive.finish_ns(0, StepKind::Read, of(4096)), 110);
        assert_eq!(
            drive.finish_ns(0, StepKind::Write { fua: true }, of(8192)),
            40
        );
        // One unit is free again at 40, the other at 110.
        assert_eq!(drive.finish_ns(5, StepKind::Flush, of(0)), 60);
        assert_eq!(drive.finish_ns(5, StepKind::Read, of(512)), 170);
        assert_eq!(drive.finish_ns(500, StepKind::Read, of(512)), 610);
    }
}
