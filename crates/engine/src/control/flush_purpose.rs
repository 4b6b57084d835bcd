//! Why the controller flushes drives.

/// What a flush is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FlushPurpose {
    /// Before this volume is marked clean, or comes to rest without a clean mark.
    Clean(usize),
    /// For the job with this number.
    Checkpoint(u32),
    /// For the job with this number.
    JobEnd(u32),
}
