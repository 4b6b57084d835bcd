//! Order among overlapping work: locks and who waits for them, other shards' claims, and the bands whose writes wait
//! for the rest of their row.

pub(crate) mod held;
pub(crate) mod ranges;

use crate::claims::Claims;
use crate::order::held::HeldBands;
use crate::order::ranges::{Claimer, Ranges};
use crate::setup::Setup;
use alloc::sync::Arc;

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Order {
    pub ranges: Ranges,
    pub claims: Arc<Claims>,
    pub held_bands: HeldBands,
}

impl Order {
    /// Nothing is locked, and nothing held back.
    pub fn new(setup: &Setup) -> Order {
        Order {
            ranges: Ranges::new(Claimer::new(setup)),
            claims: setup.claims.clone(),
            held_bands: HeldBands::new(),
        }
    }
}
