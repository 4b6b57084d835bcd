//! How long a drive takes: the first of a drive's two plug-ins. It knows nothing of bytes or faults.

use crate::random::Stream;
use engine::plan::StepKind;

/// Says when commands end.
pub trait Timing {
    /// When a command of this kind and length, started now, will be answered.
    fn finish_ns(&mut self, now_ns: u64, kind: StepKind, length_bytes: u64) -> u64;
}

/// A drive that serves any number of commands at once, each after a random time: the order of answers
/// is what the fault world is after, not speed.
#[derive(Clone, Debug)]
pub struct RandomLatency {
    /// Shortest time of a command.
    pub base_ns: u64,
    /// Longest random addition.
    pub spread_ns: u64,
    /// Addition for each 4 KiB moved.
    pub per_page_ns: u64,
    /// The drive's own stream.
    pub random: Stream,
}

impl Timing for RandomLatency {
    fn finish_ns(&mut self, now_ns: u64, kind: StepKind, length_bytes: u64) -> u64 {
        let moved = match kind {
            StepKind::Read | StepKind::Write { .. } => length_bytes.div_ceil(4096),
            _ => 4,
        };
        // Now and then a command takes far longer than those around it.
        let late = if self.random.chance(1, 32) { 20 } else { 1 };
        let spread = self.random.below(self.spread_ns + 1) * late;
        now_ns + self.base_ns + spread + moved * self.per_page_ns
    }
}
