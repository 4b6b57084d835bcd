//! Order among overlapping work: locks and who waits for them, what other shards have claimed, and the bands whose
//! writes wait for the rest of their row.

pub(crate) mod ranges;

use crate::claims::Claims;
use crate::limits::VOLUMES_MAX;
use crate::order::ranges::{BandKey, Ranges};
use crate::units::Nanos;
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

/// A band that is held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct HeldBand {
    pub key: BandKey,
    /// Which stream it waits for.
    pub stream: usize,
    /// The volume's count of ended write plans when all those have ended that it waits for.
    pub until_ended: u32,
    /// When it waits no longer.
    pub until: Nanos,
    /// What it waits for has ended; only the client may still answer.
    pub is_last_moment: bool,
}

impl HeldBand {
    pub fn key(&self) -> BandKey {
        self.key
    }
}

/// Bands that can be held back at the same time; a stream holds those of its last row.
pub(crate) const HELD_MAX: usize = 32 * VOLUMES_MAX;
