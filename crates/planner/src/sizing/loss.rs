//! What is lost when drives fail, and how likely that is.
//!
//! After the first drive has failed, data are lost if another drive fails on which the level depends, or if a sector of such a drive
//! cannot be read, before the rebuild has ended. Three quantities decide:
//!
//! - *T*, the time of the rebuild: bytes that it writes to the new drive / its pace. Without a spare, the time until somebody
//!   brings a new drive comes on top, and is not in this figure;
//! - *r*, the failure rate of a drive: of a share *a* of drives that fail in a year, r = -ln(1 - a) / year;
//! - *u*, sectors that cannot be read for each bit that is read (UBER, JESD218).
//!
//! With *k* drives on which the level depends and *b* bits to be read from them:
//!
//! ```text
//! another drive fails     1 - exp(-k r T)
//! a sector is unreadable  1 - exp(-b u)
//! ```
//!
//! The first term is the one in the formula for the mean time to data loss by Patterson, Gibson and Katz, "A Case for Redundant
//! Arrays of Inexpensive Disks (RAID)", SIGMOD 1988: with r = 1 / MTTF it is k T / MTTF for small values, and MTTDL = MTTF /
//! (n x that probability) = MTTF² / (n k MTTR). The second term is what the usual calculation of a rebuild adds (Hetzler, "Series
//! SSD: 2. System Level Reliability", 2012-06-24).
//!
//! Both take failures for independent and their rates for constant, which field studies question. Maneas et al. study how failures
//! within one RAID group go together ("A Study of SSD Reliability in Large Scale Enterprise Storage Deployments", FAST 2020).
//! Schroeder et al. find no correlation between what is read and what cannot be read, and call UBER no meaningful metric ("Flash
//! Reliability in Production: The Expected and the Unexpected", FAST 2016). Greenan, Plank and Wylie show how little a mean time of
//! many years says of one array ("Mean time to meaningless", HotStorage 2010). So this is a probability for one rebuild, to
//! compare arrays with, and no promise.

use super::{DriveFigures, Shape};
use lab::schema::setup::Level;
use repeatable::logarithm::natural_logarithm;
use serde::{Deserialize, Serialize};

/// Seconds of a year.
pub const YEAR_S: f64 = 365.25 * 86_400.0;

/// What is lost when drives fail.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Losses {
    /// The share of drives that are taken to fail in a year.
    pub annual_failure_share: f64,
    /// Whether the array survives the loss of any one drive. If not, all is lost with the first.
    pub survives_one: bool,
    /// The probability that some drive of the array fails within a year.
    pub first_per_year: f64,
    /// A second loss; missing if the array does not survive the first, or if its rebuild makes no progress.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub second: Option<SecondLoss>,
}

/// A second loss while a drive is being rebuilt.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct SecondLoss {
    /// How long the rebuild takes, from when there is a new drive.
    pub rebuild_seconds: f64,
    /// Drives whose failure meanwhile loses the array: the partner in RAID 1 and 10, all others in RAID 5.
    pub other_drives: u32,
    /// Bytes that have to be read from them.
    pub read_bytes: f64,
    /// The probability that one of them fails meanwhile.
    pub drive: f64,
    /// The probability that at least one sector of them cannot be read: that block is lost, and no more.
    pub block: f64,
    /// The probability of either.
    pub either: f64,
}

/// The probability of at least one event if `expected` are expected and they are independent: 1 - exp(-`expected`), computed so
/// that tiny numbers keep their digits, by `+ - * /` alone.
///
/// # Panics
/// If `expected` is negative or no number.
#[must_use]
pub fn at_least_one(expected: f64) -> f64 {
    /// Beyond this the probability is 1 in all digits.
    const CERTAIN: f64 = 64.0;
    assert!(expected >= 0.0, "{expected} events are expected");
    if expected > CERTAIN {
        return 1.0;
    }
    let (mut part, mut halvings) = (expected, 0);
    while part > 0.125 {
        part /= 2.0;
        halvings += 1;
    }
    // x - x²/2 + x³/6 - ..., from the last term to the first.
    let series = (2..=12)
        .rev()
        .fold(1.0, |sum, term| 1.0 - part / f64::from(term) * sum);
    // None in the whole is none in both halves: 1 - (1 - p)².
    (0..halvings).fold(part * series, |half, _| half * (2.0 - half))
}

/// The failure rate of a drive, per second, if this share of them fails in a year.
///
/// # Panics
/// If the share is not from 0 to below 1.
#[must_use]
pub fn failures_per_s(annual_share: f64) -> f64 {
    assert!(
        (0.0..1.0).contains(&annual_share),
        "a share of {annual_share} fails in a year"
    );
    -natural_logarithm(1.0 - annual_share) / YEAR_S
}

/// Drives whose failure during a rebuild loses the array. `None` if the first failure has lost it.
#[must_use]
pub fn other_drives(level: Level, drives: u32) -> Option<u32> {
    match level {
        Level::Single | Level::Raid0 => None,
        Level::Raid1 | Level::Raid10 => Some(1),
        Level::Raid5 => Some(drives - 1),
    }
}

/// At most what a rebuild writes in a second, where no run has shown it: the new drive is written, and the others are read, at their
/// rated rates, and clients do nothing. `links_bytes_per_s` is what all drives together can move to the processors; RAID 5 reads
/// all but the new one.
#[must_use]
pub fn rebuild_at_most_bytes_per_s(
    shape: &Shape,
    read_bytes_per_s: f64,
    write_bytes_per_s: f64,
    links_bytes_per_s: Option<f64>,
) -> f64 {
    let each = links_bytes_per_s.filter(|_| shape.level == Level::Raid5);
    let each = each.map_or(f64::INFINITY, |all| all / f64::from(shape.drives - 1));
    read_bytes_per_s.min(write_bytes_per_s).min(each)
}

/// What is lost when drives of an array fail of which each holds `member_bytes`, and which is rebuilt at this pace.
#[must_use]
pub fn losses(
    drive: &DriveFigures,
    shape: &Shape,
    member_bytes: u64,
    rebuild_bytes_per_s: Option<f64>,
) -> Losses {
    let rate_per_s = failures_per_s(drive.annual_failure_share);
    let others = other_drives(shape.level, shape.drives);
    let second = |(other_drives, bytes_per_s): (u32, f64)| {
        let rebuild_seconds = member_bytes as f64 / bytes_per_s;
        let read_bytes = member_bytes as f64 * f64::from(other_drives);
        let failing = f64::from(other_drives) * rate_per_s * rebuild_seconds;
        let unreadable = read_bytes * 8.0 * drive.unreadable_per_bit;
        SecondLoss {
            rebuild_seconds,
            other_drives,
            read_bytes,
            drive: at_least_one(failing),
            block: at_least_one(unreadable),
            either: at_least_one(failing + unreadable),
        }
    };
    Losses {
        annual_failure_share: drive.annual_failure_share,
        survives_one: others.is_some(),
        first_per_year: at_least_one(f64::from(shape.drives) * rate_per_s * YEAR_S),
        second: others.zip(rebuild_bytes_per_s).map(second),
    }
}
