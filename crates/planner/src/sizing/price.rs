//! What an array costs: prices of the user, divided by what they buy. Spares are bought like the other drives.

use super::{Shape, UnitPrices};
use serde::{Deserialize, Serialize};

/// Bytes of a terabyte, as makers of drives count it.
const TB: f64 = 1e12;

/// What an array costs, in the currency of the prices.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// All drives, and the platform if it has a price.
    pub total: f64,
    /// For 10¹² usable bytes.
    pub per_usable_tb: f64,
    /// For a thousand requests per second of the load; missing if none are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_thousand_iops: Option<f64>,
}

/// The price of `shape`, which holds `usable_bytes` and serves `iops`.
#[must_use]
pub fn price(prices: &UnitPrices, shape: &Shape, usable_bytes: u64, iops: f64) -> Price {
    let total = prices.drive * f64::from(shape.bought()) + prices.platform.unwrap_or(0.0);
    Price {
        total,
        per_usable_tb: total / (usable_bytes as f64 / TB),
        per_thousand_iops: (iops > 0.0).then(|| total / (iops / 1e3)),
    }
}
