//! How long a load may go on before the drives have been written as often as their makers rate.
//!
//! A rating of so many drive writes a day (DWPD) holds for the years of the warranty. Together they are a number of bytes, which
//! the standard JESD218 calls the endurance rating (TBW): the bytes that a *host* may write under a given load. For drives for
//! servers that load is JESD219's: writes at random, two thirds of them of 4 KiB (table of the standard in "SSD Endurance: Data
//! Integrity is Marathon, Not a Sprint", Tom's Hardware). Such a load makes a drive collect garbage, so what the flash is written
//! beyond what the host writes is already inside the rating. It is not multiplied in again here: the host of this rating is the
//! RAID software, and only *its* amplification (copies, parity, log) counts. A load that is kinder to flash than JESD219's, like
//! writes in order, wears drives more slowly than this says.

use super::{DriveFigures, Load};
use engine::limits::{BAND_BYTES_MAX, LOG_HEADER_BYTES};
use lab::schema::setup::Level;
use serde::{Deserialize, Serialize};

/// Seconds of a day.
const DAY_S: f64 = 86_400.0;

/// How long the drives last under a load that goes on day and night.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Endurance {
    /// What drives are told to write for each byte that clients write: copies, parity and log.
    pub amplification: f64,
    /// How often a day each drive is written as a whole.
    pub drive_writes_per_day: f64,
    /// Years until the rated endurance is spent.
    pub years: f64,
}

/// The endurance under `load`; `None` if it writes nothing, or if it is not known how much it writes.
///
/// Drive writes a day = bytes clients write a day x amplification / drives / capacity;
/// years = DWPD x years of the warranty / drive writes a day.
#[must_use]
pub fn endurance(drive: &DriveFigures, load: &Load) -> Option<Endurance> {
    let amplification = load.amplification?;
    let to_each_bytes_per_s =
        load.written_bytes_per_s * amplification / f64::from(load.written_drives);
    let drive_writes_per_day = to_each_bytes_per_s * DAY_S / drive.capacity_bytes as f64;
    (drive_writes_per_day > 0.0).then(|| Endurance {
        amplification,
        drive_writes_per_day,
        years: drive.endurance_dwpd * drive.warranty_years / drive_writes_per_day,
    })
}

/// At least what drives are told to write for each byte that clients write: copies, or parity of whole stripes.
///
/// If `is_small`, requests are at random and each lies within a chunk. In a RAID 5 the drives are then told to write data, parity and
/// partial parity of the log. The log's headers are not counted, because writes that come together share one. Such writes very rarely
/// meet in a stripe and share parity too; for these, the caller leaves room.
#[must_use]
pub fn amplification_at_least(level: Level, drives: u32, is_small: bool) -> f64 {
    let n = f64::from(drives);
    match level {
        Level::Single | Level::Raid0 => 1.0,
        Level::Raid1 => n,
        Level::Raid10 => 2.0,
        Level::Raid5 if is_small => 3.0,
        Level::Raid5 => n / (n - 1.0),
    }
}

/// At most what drives are told to write for each byte that clients write, where no run has counted it.
///
/// | level | in order | elsewhere |
/// |---|---|---|
/// | none, 0 | 1 | 1 |
/// | 1 | drives | drives |
/// | 10 | 2 | 2 |
/// | 5, n drives, stripes of band x (n - 1) | n / (n - 1) + header / stripe | 3 + header / request |
///
/// A small write to RAID 5 writes data, parity, and a unit of the log with the partial parity, as long as the data, and a header
/// of 4 KiB. Writes that come together share a unit, so a run counts less. A whole stripe has no partial parity, only a header.
#[must_use]
pub fn amplification_at_most(
    level: Level,
    drives: u32,
    chunk_bytes: u32,
    request_bytes: u32,
    is_in_order: bool,
) -> f64 {
    let (n, header) = (f64::from(drives), f64::from(LOG_HEADER_BYTES));
    match level {
        Level::Single | Level::Raid0 => 1.0,
        Level::Raid1 => n,
        Level::Raid10 => 2.0,
        Level::Raid5 if is_in_order => {
            let stripe_bytes = f64::from(chunk_bytes.min(BAND_BYTES_MAX)) * (n - 1.0);
            n / (n - 1.0) + header / stripe_bytes
        }
        Level::Raid5 => 3.0 + header / f64::from(request_bytes),
    }
}
