//! Determines which sectors an entry covers.
//!
//! In a row, all chunks and the parity are at the same sectors of their members. So a *piece* of an
//! entry is a range of sectors that is the same on every member, and the slots whose chunks were changed
//! there. An entry that changed the same part of each chunk has one piece. Entries of other writers
//! whose partial parity is as long as a chunk can have up to three: their data begin and end anywhere
//! in the row, and their partial parity begins where the data do and continues at the start of the chunk.

use super::Entry;
use crate::imsm::geometry::{Level, check_volume};
use crate::imsm::record::{Mpb, SectorSize, WriteHolePolicy};
use crate::imsm::{SECTOR_BYTES, SINGLE_WRITE_HOLE_LOG_SECTORS, WRITE_HOLE_LOG_SECTORS};
use alloc::vec::Vec;
use core::ops::Range;

/// The properties of a RAID 5 volume that are needed to replay its log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoggedVolume {
    /// First sector of the volume on every member.
    pub start_sector: u64,
    /// Sectors of the volume on every member.
    pub component_sectors: u64,
    /// Sectors of a chunk.
    pub strip_sectors: u32,
    /// Number of slots.
    pub members: usize,
    /// Sectors of the log, right after the volume on every member.
    pub log_sectors: u64,
    /// The signature in its headers.
    pub signature: u32,
    /// The drives' sector size.
    pub sector: SectorSize,
}

/// A part of an entry in which the same chunks were changed throughout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The sectors on every member, including the one with parity.
    pub member_sectors: Range<u64>,
    /// Slots of the changed chunks.
    pub changed_slots: Vec<usize>,
    /// Offset of its partial parity within that of the entry; `None` if all chunks were changed.
    pub partial_parity_offset_bytes: Option<usize>,
}

impl LoggedVolume {
    /// Volume number `index` of `mpb`, if it is a valid RAID 5 with room for a log after it.
    ///
    /// The length of the area follows from the policy. Policies without a log on the members count as the current log
    /// policy, because the area must not hold an old log, whatever policy is set later.
    #[must_use]
    pub fn of(mpb: &Mpb, index: usize, sector: SectorSize) -> Option<Self> {
        let volume = mpb.volumes.get(index)?;
        if check_volume(mpb, index) != Ok(Level::Raid5) {
            return None;
        }
        let log_sectors = match volume.write_hole_policy {
            WriteHolePolicy::LogSingle => SINGLE_WRITE_HOLE_LOG_SECTORS,
            _ => WRITE_HOLE_LOG_SECTORS,
        };
        (log_sectors <= mpb.write_hole_log_room_sectors(index)).then_some(Self {
            start_sector: volume.map.start_sector,
            component_sectors: volume.component_sectors(),
            strip_sectors: volume.map.sectors_per_strip,
            members: volume.map.members(),
            log_sectors,
            signature: mpb.container_family(),
            sector,
        })
    }

    /// First sector of the log on every member.
    #[must_use]
    pub fn log_sector(&self) -> u64 {
        self.start_sector + self.component_sectors
    }

    /// Length of the log.
    #[must_use]
    pub fn log_bytes(&self) -> usize {
        (self.log_sectors * SECTOR_BYTES) as usize
    }

    /// The slot that holds the parity of `row`.
    #[must_use]
    pub fn parity_slot(&self, row: u64) -> usize {
        self.members - 1 - (row % self.members as u64) as usize
    }

    /// The pieces of `entry`, found in the log of the member in `slot`; `None` if the entry is not valid: the row does
    /// not have its parity there, or is beyond the volume, or the sizes contradict each other.
    #[must_use]
    pub fn pieces(&self, entry: &Entry, slot: usize) -> Option<Vec<Piece>> {
        let strip = u64::from(self.strip_sectors);
        let data_members = self.members as u64 - 1;
        let row_sectors = strip * data_members;
        let row = entry.data_sector / row_sectors;
        let in_row = entry.data_sector % row_sectors;
        let end = (row + 1).checked_mul(strip)?;
        let parity_slot = self.parity_slot(row);
        if end > self.component_sectors || parity_slot != slot || entry.parity_slot as usize != slot
        {
            return None;
        }
        let data_sectors = self.whole_sectors(entry.data_bytes)?;
        let partial_sectors = self.whole_sectors(entry.partial_parity_bytes)?;
        self.whole_units(entry.data_sector)?;
        let row_start = self.start_sector + row * strip;
        let place = Place {
            row_start,
            parity_slot,
            in_row,
            strip,
        };
        if data_sectors == 0 {
            return None;
        }
        if partial_sectors >= strip {
            return (in_row + data_sectors <= row_sectors).then(|| place.anywhere(data_sectors));
        }
        let (chunks, each) = match partial_sectors {
            0 => (data_members, data_sectors / data_members),
            each => (data_sectors / each, each),
        };
        let fits = data_sectors == chunks * each
            && in_row / strip + chunks <= data_members
            && in_row % strip + each <= strip;
        // If all chunks are changed, the entry begins in the first of them; the second condition ensures that.
        (fits && self.whole_units(each).is_some())
            .then(|| [place.same_part(chunks, each, partial_sectors > 0)].into())
    }

    fn whole_sectors(&self, bytes: u32) -> Option<u64> {
        bytes
            .is_multiple_of(self.sector.bytes() as u32)
            .then_some(u64::from(bytes) / SECTOR_BYTES)
    }

    fn whole_units(&self, sectors: u64) -> Option<()> {
        sectors.is_multiple_of(self.sector.scale()).then_some(())
    }
}

/// The place in its row where an entry begins.
struct Place {
    /// First sector of the row on every member.
    row_start: u64,
    parity_slot: usize,
    /// First changed sector, counted within the row's data.
    in_row: u64,
    strip: u64,
}

impl Place {
    /// The slot of data chunk `chunk`.
    fn slot(&self, chunk: u64) -> usize {
        let chunk = chunk as usize;
        chunk + usize::from(chunk >= self.parity_slot)
    }

    /// The piece with the same part of `chunks` consecutive chunks.
    fn same_part(&self, chunks: u64, sectors: u64, has_partial_parity: bool) -> Piece {
        let first = self.in_row / self.strip;
        let from = self.row_start + self.in_row % self.strip;
        Piece {
            member_sectors: from..from + sectors,
            changed_slots: (first..first + chunks)
                .map(|chunk| self.slot(chunk))
                .collect(),
            partial_parity_offset_bytes: has_partial_parity.then_some(0),
        }
    }

    /// The pieces of `sectors` consecutive sectors of the row. Their partial parity covers a whole chunk, begins where
    /// they do and wraps around.
    fn anywhere(&self, sectors: u64) -> Vec<Piece> {
        let begin = self.in_row % self.strip;
        let end = self.in_row + sectors;
        // Between two neighbouring borders the set of changed chunks does not change.
        let mut borders = [0, begin, end % self.strip, self.strip];
        borders.sort_unstable();
        let piece = |from: u64, to: u64| {
            let first = self.in_row / self.strip;
            let last = (end - 1) / self.strip;
            let is_changed = |chunk: &u64| {
                let at = chunk * self.strip + from;
                (self.in_row..end).contains(&at)
            };
            let partial_sector = (from + self.strip - begin) % self.strip;
            Piece {
                member_sectors: self.row_start + from..self.row_start + to,
                changed_slots: (first..=last)
                    .filter(is_changed)
                    .map(|chunk| self.slot(chunk))
                    .collect(),
                partial_parity_offset_bytes: Some((partial_sector * SECTOR_BYTES) as usize),
            }
        };
        borders
            .windows(2)
            .filter(|pair| pair[0] < pair[1])
            .map(|pair| piece(pair[0], pair[1]))
            .filter(|piece| !piece.changed_slots.is_empty())
            .collect()
    }
}
