//! Why the controller flushes drives.

/// What a flush is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum FlushPurpose {
    /// Before this volume is marked clean, or rests without that.
    Clean(usize),
    /// Of the job with this number.
    Checkpoint(u32),
    /// Of the job with this number.
    JobEnd(u32),
}
