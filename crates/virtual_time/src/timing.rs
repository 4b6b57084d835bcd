//! How long a drive takes for commands, independent of their data and of faults.

use engine::plan::StepKind;

/// The range of a command on a drive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Place {
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes; zero for a flush.
    pub length_bytes: u64,
}

/// Computes when commands end.
pub trait Timing {
    /// When a command of this kind and place, started now, will be answered.
    fn finish_ns(&mut self, now_ns: u64, kind: StepKind, place: Place) -> u64;

    /// Energy used until then, in nanojoules; 0 if the model does not compute it.
    fn energy_nj(&mut self, _until_ns: u64) -> u64 {
        0
    }

    /// Bytes that can be written before garbage has to be collected; `None` if the model has no such pool.
    fn pool_bytes(&self) -> Option<u64> {
        None
    }
}
