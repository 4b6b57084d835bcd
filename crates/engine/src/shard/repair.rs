//! What could not be read, or may differ between copies: read again elsewhere, written back, given up, or recorded as
//! lost.

mod bad_blocks;
mod equal;
pub(super) mod parity_given_up;
mod piecewise;
mod recording;
mod recover;
