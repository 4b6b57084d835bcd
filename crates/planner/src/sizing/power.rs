//! What an array's drives use: those that work as the load has them, spares idle. Processors are not counted.

use super::{DriveFigures, Load, Shape};
use serde::{Deserialize, Serialize};

/// What an array's drives use.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Power {
    /// Drives under the load and idle spares.
    pub watts: f64,
    /// Energy for a million requests of the load; missing if none are served.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub joules_per_million_io: Option<f64>,
}

/// The power under `load`. Watts are joules per second, so a request takes watts / IOPS joules.
#[must_use]
pub fn power(drive: &DriveFigures, shape: &Shape, load: &Load) -> Power {
    let watts = load.drives_watts + f64::from(shape.spares) * drive.idle_watts;
    Power {
        watts,
        joules_per_million_io: (load.iops > 0.0).then(|| watts / load.iops * 1e6),
    }
}
