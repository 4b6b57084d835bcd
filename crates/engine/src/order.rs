//! Order among overlapping work: locks and who waits for them, what other shards have claimed, and the bands whose
//! writes wait for the rest of their row.

use crate::claims::Claims;
use crate::hold::streams::HeldBand;
use crate::ranges::Ranges;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Order {
    pub(crate) ranges: Ranges,
    pub(crate) claims: Arc<Claims>,
    /// Bands whose writes wait for the rest of their row.
    pub(crate) held_bands: Vec<HeldBand>,
}
