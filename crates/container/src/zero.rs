//! Making members agree by zeroing them, where that is fast and certain.
//!
//! A redundant volume must start with equal mirrors and valid parity, and members full of zeros have both. Regular
//! files are zeroed by their file system. A block device is zeroed if it has a command for it (NVMe Write Zeroes and
//! the like): the kernel then guarantees that the range reads as zeros; without such a command it refuses instead of
//! writing zeros one by one. Where zeroing is refused, the volume is created uninitialised and synchronised when it is
//! served.

use crate::probe::Probed;
use anyhow::{Context, Result, bail};
use drives::drive::Drive;
use metadata::imsm::SECTOR_BYTES;
use metadata::imsm::Volume;
use rustix::fs::FallocateFlags;
use rustix::io::Errno;
use std::os::fd::BorrowedFd;
use words::size;

/// Hears that so many more bytes are zero, and how many will be in all; from several threads.
pub type Watch<'watch> = &'watch (dyn Fn(u64, u64) + Sync);

/// Bytes that are zeroed at a time, so that progress can be shown.
const STEP_BYTES: u64 = 1 << 30;
/// Length of the samples that are read back.
const SAMPLE_BYTES: u64 = 4096;

/// Zeroes the extent of `volume` on every drive, unless the volume has no redundancy or `leave` is set.
/// Returns why redundancy is not established, or `None` if it is.
///
/// # Errors
/// A drive failed.
pub fn establish(
    leave: bool,
    volume: &Volume,
    drives: &[Probed],
    watch: Watch,
) -> Result<Option<String>> {
    let redundant = volume.map.level().is_some_and(|level| level.is_redundant());
    if !redundant {
        return Ok(None);
    }
    if leave {
        return Ok(Some("--no-zero leaves the drives as they are".to_owned()));
    }
    let extent = volume.map.extent(volume.size_sectors);
    let start_bytes = extent.start * SECTOR_BYTES;
    let length_bytes = extent.sectors() * SECTOR_BYTES;
    let all_bytes = length_bytes * drives.len() as u64;
    let more = |bytes: u64| watch(bytes, all_bytes);
    more(0);
    let zeroed: Vec<Result<bool>> = std::thread::scope(|scope| {
        let workers: Vec<_> = drives
            .iter()
            .map(|probed| scope.spawn(|| zero(&probed.drive, start_bytes, length_bytes, &more)))
            .collect();
        let join = |worker: std::thread::ScopedJoinHandle<'_, Result<bool>>| {
            worker
                .join()
                .unwrap_or_else(|_| Err(anyhow::anyhow!("zeroing ended unexpectedly")))
        };
        workers.into_iter().map(join).collect()
    });
    for (probed, zeroed) in drives.iter().zip(zeroed) {
        if !zeroed? {
            return Ok(Some(format!(
                "{} supports no command that zeroes it",
                probed.drive.name()
            )));
        }
    }
    Ok(None)
}

/// Zeroes a range durably; false if the drive has no command that guarantees zeros.
fn zero(
    drive: &Drive,
    start_bytes: u64,
    length_bytes: u64,
    more: &(dyn Fn(u64) + Sync),
) -> Result<bool> {
    let Some(fd) = drive.fd() else {
        return Ok(false);
    };
    let name = drive.name();
    let ways = ways(drive, fd)?;
    let end_bytes = start_bytes + length_bytes;
    let mut at = start_bytes;
    let mut way = 0;
    while at < end_bytes {
        let step = STEP_BYTES.min(end_bytes - at);
        let Some(&flags) = ways.get(way) else {
            return Ok(false);
        };
        match rustix::fs::fallocate(fd, flags, at, step) {
            Ok(()) => {
                at += step;
                more(step);
            }
            Err(Errno::INTR) => {}
            Err(Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL | Errno::NODEV) => way += 1,
            Err(errno) => {
                return Err(std::io::Error::from(errno))
                    .with_context(|| format!("{name}: cannot zero {} at byte {at}", size(step)));
            }
        }
    }
    drive.flush()?;
    check_samples(drive, start_bytes, length_bytes)?;
    Ok(true)
}

/// The modes of `fallocate` to try, in order. A sparse file stays sparse, and a fully allocated file keeps its space.
/// On a block device, punching a hole is the only mode that never falls back to plain writes.
fn ways(drive: &Drive, fd: BorrowedFd<'_>) -> Result<Vec<FallocateFlags>> {
    let punch = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    let keep = FallocateFlags::ZERO_RANGE | FallocateFlags::KEEP_SIZE;
    if drive.block_device().is_some() {
        return Ok(vec![punch]);
    }
    let stat = rustix::fs::fstat(fd)
        .map_err(std::io::Error::from)
        .with_context(|| format!("{}: cannot query its size", drive.name()))?;
    let allocated_bytes = stat.st_blocks.cast_unsigned().saturating_mul(512);
    Ok(if allocated_bytes < stat.st_size.cast_unsigned() {
        vec![punch]
    } else {
        vec![keep, punch]
    })
}

/// Reads samples back: parity would be wrong if a drive reported zeroing but did not do it.
fn check_samples(drive: &Drive, start_bytes: u64, length_bytes: u64) -> Result<()> {
    let last = length_bytes.saturating_sub(SAMPLE_BYTES);
    let sample = SAMPLE_BYTES.min(length_bytes) as usize;
    for offset in [0, last / 2, last] {
        let offset = start_bytes + offset / SAMPLE_BYTES * SAMPLE_BYTES;
        let bytes = drive.read_at(offset, sample)?;
        if bytes.iter().any(|&byte| byte != 0) {
            bail!(
                "{} still holds data at byte {offset} after zeroing it; use --no-zero",
                drive.name()
            );
        }
    }
    Ok(())
}
