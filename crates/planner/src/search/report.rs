//! What a search has found, for programs.

use super::judge::{Margin, least};
use crate::sizing::Sizing;
use lab::schema::metric::Metric;
use lab::schema::results::Value;
use lab::schema::setup::Level;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// The arrays that do what is asked, and why others do not.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct SearchReport {
    /// Version of the form.
    pub schema: u32,
    /// The program that wrote it, with its version.
    pub program: String,
    /// What is asked for, as it was given.
    pub wanted: String,
    /// The machine.
    pub platform: String,
    /// The currency of all prices.
    pub currency: String,
    /// The cheapest that hold, the cheapest first. Each drive and level is there once, with the fewest drives.
    pub found: Vec<Found>,
    /// Drives and levels that do not hold at any number of drives that costs less than the last of those found. The cheapest first.
    pub failed: Vec<Failed>,
    /// If none holds, the one that comes nearest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nearest: Option<Failed>,
    /// Drives with a price that cannot be planned, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<String>,
    /// Arrays that were looked at.
    pub considered: u64,
    /// Those of them that were run.
    pub simulated: u64,
}

/// An array by what is bought.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Bought {
    /// The drives.
    pub drive: String,
    /// RAID level.
    pub level: Level,
    /// Drives of the array.
    pub count: u32,
    /// Drives that stand by.
    pub spares: u32,
    /// Chunk size; missing of a RAID 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chunk_kib: Option<u32>,
    /// What drives and machine cost, in the currency of the prices.
    pub price: f64,
}

/// An array that holds.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Found {
    /// What is bought.
    #[serde(flatten)]
    pub bought: Bought,
    /// What it holds, costs, uses and risks under the load.
    pub sizing: Sizing,
    /// Its figures under the load, by name; of a drive that is known from its sheet only, those of the usual one.
    pub metrics: BTreeMap<Metric, Value>,
    /// What limits it if clients ask for as much as it can do.
    pub limited_by: String,
    /// How much there is of each thing that is asked for. What has the least fails first if more is asked.
    pub margins: Vec<Margin>,
    /// Notes for the reader.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notes: Vec<String>,
    /// Draws of the drive in which it holds, and draws in all; missing of a drive with a profile.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub draws: Option<(usize, usize)>,
}

impl Found {
    /// What fails first if more is asked: that of which there is least.
    #[must_use]
    pub fn least(&self) -> Option<&Margin> {
        least(&self.margins)
    }
}

/// An array that does not hold.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Failed {
    /// What would be bought.
    #[serde(flatten)]
    pub bought: Bought,
    /// What there is too little of.
    pub margin: Margin,
}
