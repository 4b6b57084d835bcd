//! Sizing: what an array holds, costs, uses, how long its drives last, and how likely a second loss is.
//!
//! Pure functions of a drive's figures, the shape of the array, and what its clients ask of it. Nothing is simulated here, nothing is
//! read from a file: a caller that has run a load passes its rates, and one that has not passes those of a calculator. So the
//! same functions serve a plan of one array and a search over many.
//!
//! | file | computes | from |
//! |---|---|---|
//! | [`capacity`] | bytes that clients see, to the byte as `create` makes them | the metadata format's own layout |
//! | [`price`] | price for each usable TB and for each thousand requests per second | prices of the user |
//! | [`power`] | watts with spares, joules for a million requests | watts of the drives under the load |
//! | [`endurance`] | years until the rated endurance is spent | bytes that the load writes to each drive |
//! | [`loss`] | the probability of a second loss during a rebuild | annual failure rate, unreadable sectors, pace of the rebuild |
//!
//! Processors, fans and everything else around the drives use power and fail, too; that is not modelled.

pub mod capacity;
pub mod endurance;
pub mod loss;
pub mod power;
pub mod price;

use capacity::Capacity;
use endurance::{Endurance, endurance};
use lab::schema::setup::Level;
use loss::{Losses, losses};
use power::{Power, power};
use price::{Price, price};
use serde::{Deserialize, Serialize};

/// The figures of one drive that sizing needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DriveFigures {
    /// What the host can address.
    pub capacity_bytes: u64,
    /// Power while idle.
    pub idle_watts: f64,
    /// Drive writes a day for which the warranty holds.
    pub endurance_dwpd: f64,
    /// How long the warranty holds.
    pub warranty_years: f64,
    /// Sectors that cannot be read, for each bit that is read.
    pub unreadable_per_bit: f64,
    /// The share of drives that fail in a year, below 1.
    pub annual_failure_share: f64,
}

/// What is bought.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The level.
    pub level: Level,
    /// Drives of the array, without spares.
    pub drives: u32,
    /// Drives that are bought and powered, and do no work until another fails.
    pub spares: u32,
}

impl Shape {
    /// Drives that are bought: those of the array and spares.
    #[must_use]
    pub fn bought(&self) -> u32 {
        self.drives + self.spares
    }
}

/// What a load does to the array, from a run or a calculator.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Load {
    /// Requests per second.
    pub iops: f64,
    /// Power of the array's drives, without spares.
    pub drives_watts: f64,
    /// What clients write in a second.
    pub written_bytes_per_s: f64,
    /// What drives are told to write for each byte that clients write: copies, parity and log. `None` if it is not known, or
    /// if clients do not write.
    pub amplification: Option<f64>,
    /// Drives that share what is written: all of the array unless some are missing.
    pub written_drives: u32,
    /// What a rebuild writes in a second to the new drive. `None` if it makes no progress.
    pub rebuild_bytes_per_s: Option<f64>,
}

/// Prices of what is bought, in one currency.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct UnitPrices {
    /// Of a drive.
    pub drive: f64,
    /// Of the machine around the drives, if it is to be counted.
    pub platform: Option<f64>,
}

/// What an array holds, costs, uses and risks under one load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sizing {
    /// Drives of the array.
    pub drives: u32,
    /// Drives that stand by.
    pub spares: u32,
    /// What it holds.
    pub capacity: Capacity,
    /// What it costs; missing without prices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    /// What it uses.
    pub power: Power,
    /// How long the drives last; missing if the load writes nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endurance: Option<Endurance>,
    /// What is lost when drives fail.
    pub losses: Losses,
}

/// Sizes an array of this capacity ([`capacity::capacity`]) under a load.
#[must_use]
pub fn size(
    drive: &DriveFigures,
    shape: &Shape,
    capacity: Capacity,
    load: &Load,
    prices: Option<&UnitPrices>,
) -> Sizing {
    Sizing {
        drives: shape.drives,
        spares: shape.spares,
        capacity,
        price: prices.map(|prices| price(prices, shape, capacity.usable_bytes, load.iops)),
        power: power(drive, shape, load),
        endurance: endurance(drive, load),
        losses: losses(
            drive,
            shape,
            capacity.member_bytes,
            load.rebuild_bytes_per_s,
        ),
    }
}

#[cfg(test)]
mod tests;
