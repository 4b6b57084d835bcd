//! Sets up a volume's protection against interrupted writes: a write-hole log, a write-intent bitmap, or none.

use crate::bitmap::{new_bitmap, write_all};
use crate::log::{initialise_all, logged_volume};
use crate::probe::Probed;
use anyhow::{Result, bail};
use metadata::imsm::{Mpb, WRITE_HOLE_LOG_SECTORS, WriteHolePolicy};

/// Gives volume number `at` of `mpb` the policy `wanted`, and writes empty logs to `drives`, or its
/// bitmap, with regions of `region_bytes` if that is given. `generation` is that of the record that will contain the
/// policy; the bitmap says nothing about drives with an older record.
///
/// # Errors
/// Only RAID 5 can have a log, only levels with redundancy can have a bitmap, and either needs room after the data; or
/// a drive fails.
pub fn establish(
    wanted: WriteHolePolicy,
    mpb: &mut Mpb,
    at: usize,
    drives: &[&Probed],
    region_bytes: Option<u32>,
    generation: u32,
) -> Result<()> {
    let name = mpb.volumes[at].name;
    let sector = drives[0].sector;
    mpb.set_write_hole_policy(at, wanted)?;
    if let WriteHolePolicy::Off | WriteHolePolicy::OffOld = wanted {
        return Ok(());
    }
    if wanted == WriteHolePolicy::Bitmap {
        let mut bitmap = [new_bitmap(mpb, at, sector, region_bytes)?];
        bitmap[0].header.events_cleared = u64::from(generation);
        return write_all(&mut bitmap, drives, mpb.generation);
    }
    let Some(volume) = logged_volume(mpb, at, sector) else {
        let room = mpb.write_hole_log_room_sectors(at);
        bail!(
            "volume {name} has no room for a log: {room} free sectors lie behind its data on each drive, \
             and a log takes {WRITE_HOLE_LOG_SECTORS}"
        );
    };
    initialise_all(&[volume], drives)
}
