//! How long a drive takes. It knows nothing of bytes or faults.

use engine::plan::StepKind;

/// Where on a drive a command works.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes; zero for a flush.
    pub length_bytes: u64,
}

/// Says when commands end.
pub trait Timing {
    /// When a command of this kind and place, started now, will be answered.
    fn finish_ns(&mut self, now_ns: u64, kind: StepKind, place: Place) -> u64;

    /// Energy used until then, in nanojoules; 0 where nothing is known of it.
    fn energy_nj(&mut self, _until_ns: u64) -> u64 {
        0
    }

    /// Bytes that can be written before anything has to be collected; `None` where there is no such thing.
    fn pool_bytes(&self) -> Option<u64> {
        None
    }
}
