//! The write-intent bitmap of a volume on one drive ([`metadata::imsm::bitmap`]), for people and for programs.

use crate::bitmap::{bitmapped_volume, read_one};
use crate::probe::Probed;
use metadata::imsm::Mpb;
use metadata::imsm::bitmap::count;
use serde::Serialize;

/// The content of the place where the drive keeps the bitmap.
#[derive(Serialize)]
pub struct BitmapReport {
    /// First byte of the bits on the drive.
    pub offset_bytes: u64,
    /// Bytes of a region; none without a valid header.
    pub region_bytes: Option<u32>,
    /// How many regions there are.
    pub regions: u64,
    /// How many of them are marked: writes may have been under way, or a member lacks what was written.
    pub marked: u64,
    /// Generation of the record when the header was written.
    pub events: Option<u64>,
    /// A member whose record is older than this generation may lack more writes than the bitmap marks.
    pub events_cleared: Option<u64>,
    /// Why the bitmap cannot be used.
    pub problem: Option<String>,
}

/// Describes the bitmap of volume number `at` on `probed`; `None` if the volume has none.
#[must_use]
pub fn of(probed: &Probed, mpb: &Mpb, at: usize) -> Option<BitmapReport> {
    let volume = bitmapped_volume(mpb, at, probed.sector)?;
    let mut report = BitmapReport {
        offset_bytes: volume.bits_offset_bytes(),
        region_bytes: None,
        regions: 0,
        marked: 0,
        events: None,
        events_cleared: None,
        problem: None,
    };
    match read_one(probed, &volume) {
        Ok((header, marked)) => {
            report.region_bytes = Some(header.region_bytes);
            report.regions = volume.regions(header.region_bytes);
            report.marked = count(&marked);
            report.events = Some(header.events);
            report.events_cleared = Some(header.events_cleared);
        }
        Err(error) => report.problem = Some(format!("{error:#}")),
    }
    Some(report)
}
