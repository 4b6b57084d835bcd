//! The log of sectors that could be neither read nor recovered.
//!
//! Reads of these sectors return an error, never invented bytes. An entry covers up to 256 sectors of one
//! drive; ranges that touch are merged and then cut into entries again, so that the log stays as
//! short as possible.

use super::BuildError;
use crate::imsm::record::{BadBlockEntry, Mpb};
use crate::imsm::{MAX_BAD_BLOCK_ENTRIES, MAX_BAD_BLOCK_SECTORS};
use alloc::vec::Vec;
use core::ops::Range;

/// First sector number that does not fit 48 bits.
const START_LIMIT: u64 = 1 << 48;

impl Mpb {
    /// Adds `sectors` sectors from `start_sector` of the drive in row `disk_index`.
    ///
    /// # Errors
    /// [`BuildError::BadBlockLogFull`], which leaves the log as it was: the caller must then fail the
    /// drive, because the loss can no longer be recorded. Also: there is no such row, or the range is
    /// impossible.
    pub fn add_bad_blocks(
        &mut self,
        disk_index: usize,
        start_sector: u64,
        sectors: u64,
    ) -> Result<(), BuildError> {
        let added = self.bad_block_range(disk_index, start_sector, sectors)?;
        let mut ranges = self.logged_ranges(disk_index);
        ranges.push(added);
        self.replace_bad_ranges(disk_index, ranges)
    }

    /// Removes these sectors from the log, because they were written again.
    ///
    /// # Errors
    /// As [`Mpb::add_bad_blocks`]; the log can become full because removing the middle of an entry makes two
    /// entries of it.
    pub fn remove_bad_blocks(
        &mut self,
        disk_index: usize,
        start_sector: u64,
        sectors: u64,
    ) -> Result<(), BuildError> {
        let removed = self.bad_block_range(disk_index, start_sector, sectors)?;
        let mut ranges = Vec::new();
        for range in self.logged_ranges(disk_index) {
            ranges.push(range.start..range.end.min(removed.start));
            ranges.push(range.start.max(removed.end)..range.end);
        }
        self.replace_bad_ranges(disk_index, ranges)
    }

    /// The sectors of the drive in row `disk_index` that are in the log: ascending ranges that do not touch.
    #[must_use]
    pub fn bad_ranges(&self, disk_index: usize) -> Vec<Range<u64>> {
        merged(self.logged_ranges(disk_index))
    }

    /// Sets the bad sectors of the drive in row `disk_index` to exactly these.
    ///
    /// # Errors
    /// As [`Mpb::add_bad_blocks`].
    pub fn set_bad_ranges(
        &mut self,
        disk_index: usize,
        ranges: &[Range<u64>],
    ) -> Result<(), BuildError> {
        let ranges = ranges
            .iter()
            .map(|range| {
                let sectors = range.end.saturating_sub(range.start);
                self.bad_block_range(disk_index, range.start, sectors)
            })
            .collect::<Result<Vec<_>, _>>()?;
        self.replace_bad_ranges(disk_index, ranges)
    }

    fn bad_block_range(
        &self,
        disk_index: usize,
        start_sector: u64,
        sectors: u64,
    ) -> Result<Range<u64>, BuildError> {
        if disk_index >= self.disks.len() || disk_index > usize::from(u8::MAX) {
            let disks = self.disks.len();
            return Err(BuildError::NoSuchDisk {
                index: disk_index,
                disks,
            });
        }
        match start_sector.checked_add(sectors) {
            Some(end) if sectors > 0 && end <= START_LIMIT => Ok(start_sector..end),
            _ => Err(BuildError::BadBlockRange {
                start_sector,
                sectors,
            }),
        }
    }

    fn logged_ranges(&self, disk_index: usize) -> Vec<Range<u64>> {
        self.bad_blocks
            .iter()
            .filter(|entry| usize::from(entry.disk_index) == disk_index)
            .map(|entry| {
                entry.start_sector..entry.start_sector.saturating_add(u64::from(entry.sectors))
            })
            .collect()
    }

    fn replace_bad_ranges(
        &mut self,
        disk_index: usize,
        ranges: Vec<Range<u64>>,
    ) -> Result<(), BuildError> {
        let merged = merged(ranges);
        let others = self
            .bad_blocks
            .iter()
            .filter(|e| usize::from(e.disk_index) != disk_index);
        let room = MAX_BAD_BLOCK_ENTRIES.saturating_sub(others.count());
        let entry_sectors = u64::from(MAX_BAD_BLOCK_SECTORS);
        let needed = merged.iter().fold(0u64, |sum, r| {
            sum.saturating_add((r.end - r.start).div_ceil(entry_sectors))
        });
        if needed > room as u64 {
            return Err(BuildError::BadBlockLogFull);
        }
        self.bad_blocks
            .retain(|entry| usize::from(entry.disk_index) != disk_index);
        for range in merged {
            let mut start_sector = range.start;
            while start_sector < range.end {
                let sectors = (range.end - start_sector).min(entry_sectors) as u32;
                let disk_index = disk_index as u8;
                self.bad_blocks.push(BadBlockEntry {
                    disk_index,
                    start_sector,
                    sectors,
                });
                start_sector += u64::from(sectors);
            }
        }
        self.bad_blocks.sort_unstable();
        Ok(())
    }
}

/// The same sectors as ascending ranges that do not touch.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.retain(|range| range.start < range.end);
    ranges.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}
