//! Makes parity match its data again after a crash, with the newest unit of every member's log.
//!
//! Only parity is written, and nothing that it is computed from: a replay that is interrupted is simply
//! repeated. The caller must keep this order: parity, flush, then the areas are emptied ([`initialise`]), then the
//! metadata says clean.

use super::rows::Piece;
use super::{AreaStart, Entry, HEADER_BYTES, Header, LoggedVolume, Newest, walk};
use crate::crc32c::crc32c;
use crate::imsm::SECTOR_BYTES;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// The unit of reading and writing. Other writers log in units of this size where they can, and if one of its sectors
/// cannot be read, parity of no more than this is left as it is.
const BLOCK_BYTES: usize = 4096;

/// Bytes written at a time when an area is emptied.
const ZEROS_BYTES: usize = 64 * 1024;

/// Access to members, in 512-byte sectors from the start of the drive. The caller decides what `member` means; for
/// [`replay`] it is a slot.
pub trait Members {
    /// Why a drive could not be written or flushed.
    type Error;

    /// Fills `bytes`.
    ///
    /// # Errors
    /// The member cannot be read.
    fn read(&mut self, member: usize, sector: u64, bytes: &mut [u8]) -> Result<(), Self::Error>;

    /// Writes `bytes`.
    ///
    /// # Errors
    /// The member cannot be written.
    fn write(&mut self, member: usize, sector: u64, bytes: &[u8]) -> Result<(), Self::Error>;

    /// Makes all earlier writes durable.
    ///
    /// # Errors
    /// The member cannot be flushed.
    fn flush(&mut self, member: usize) -> Result<(), Self::Error>;
}

/// What a replay did, and what it could not do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogReport {
    /// Entries whose parity was written.
    pub entries_replayed: u32,
    /// Entries whose partial parity does not have the announced checksum: the crash came while they were being logged,
    /// so their data writes had not begun.
    pub entries_not_begun: u32,
    /// Entries left out because they changed a chunk of a member that is not here. The write of that chunk was in
    /// flight and had not been acknowledged.
    pub entries_of_lost_members: u32,
    /// Entries that are not valid for this volume.
    pub entries_senseless: u32,
    /// Blocks whose data or partial parity could not be read.
    pub blocks_unreadable: u32,
    /// Slots whose area cannot be read or does not hold a log.
    pub slots_without_log: Vec<usize>,
    /// Slots whose area has no header at its start because writing one was interrupted.
    pub slots_interrupted: Vec<usize>,
}

impl LogReport {
    /// Whether parity now matches its data wherever a write was interrupted, except for chunks of members that are not
    /// here. If not, parity has to be computed anew, and without a member it cannot be trusted.
    #[must_use]
    pub fn is_conclusive(&self) -> bool {
        self.entries_senseless == 0
            && self.blocks_unreadable == 0
            && self.slots_without_log.is_empty()
    }

    /// Number of entries that were left out.
    #[must_use]
    pub fn entries_skipped(&self) -> u32 {
        self.entries_not_begun + self.entries_of_lost_members + self.entries_senseless
    }
}

impl fmt::Display for LogReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.entries_replayed {
            1 => out.write_str("1 entry replayed")?,
            count => write!(out, "{count} entries replayed")?,
        }
        let counted = [
            (self.entries_not_begun, "not begun"),
            (self.entries_of_lost_members, "of a lost member"),
            (self.entries_senseless, "inconsistent"),
        ];
        if self.entries_skipped() > 0 {
            write!(out, ", {} skipped (", self.entries_skipped())?;
            let some = counted.iter().filter(|(count, _)| *count > 0);
            for (position, (count, what)) in some.enumerate() {
                let comma = if position == 0 { "" } else { ", " };
                write!(out, "{comma}{count} {what}")?;
            }
            out.write_str(")")?;
        }
        if self.blocks_unreadable > 0 {
            write!(out, ", {} blocks unreadable", self.blocks_unreadable)?;
        }
        for (slots, what) in [
            (&self.slots_without_log, "no log in slot"),
            (&self.slots_interrupted, "an unfinished header in slot"),
        ] {
            for (position, slot) in slots.iter().enumerate() {
                let before = if position == 0 { what } else { "," };
                write!(
                    out,
                    "{}{before} {slot}",
                    if position == 0 { ", " } else { "" }
                )?;
            }
        }
        Ok(())
    }
}

/// Replays the logs of `volume` on the members in `slots`: those that are here and in sync. A member being
/// rebuilt counts as lost; its content is written again anyway. Flushes the members at the end.
///
/// # Errors
/// Parity could not be written or flushed.
pub fn replay<M: Members>(
    volume: &LoggedVolume,
    slots: &[usize],
    members: &mut M,
) -> Result<LogReport, M::Error> {
    let mut work = Replay {
        volume,
        slots,
        members,
        report: LogReport::default(),
        wrote: false,
        area: vec![0; volume.log_bytes()],
    };
    for &slot in slots {
        work.log_of(slot)?;
    }
    let (report, wrote) = (work.report, work.wrote);
    // Also if an entry could be written only in part, because the log will be emptied in any case.
    if wrote {
        for &slot in slots {
            members.flush(slot)?;
        }
    }
    Ok(report)
}

struct Replay<'a, M> {
    volume: &'a LoggedVolume,
    slots: &'a [usize],
    members: &'a mut M,
    report: LogReport,
    wrote: bool,
    area: Vec<u8>,
}

/// The result for a piece.
#[derive(Clone, Copy, PartialEq, Eq)]
enum PieceEnd {
    Written,
    Lost,
}

impl<M: Members> Replay<'_, M> {
    fn log_of(&mut self, slot: usize) -> Result<(), M::Error> {
        let log_sector = self.volume.log_sector();
        if self.members.read(slot, log_sector, &mut self.area).is_err() {
            self.report.slots_without_log.push(slot);
            return Ok(());
        }
        let found = walk(&self.area, self.volume.signature, self.volume.sector);
        match found.start {
            AreaStart::Header => {}
            AreaStart::Blank | AreaStart::Torn => self.report.slots_interrupted.push(slot),
            AreaStart::Foreign(_) => self.report.slots_without_log.push(slot),
        }
        found
            .newest
            .map_or(Ok(()), |newest| self.unit(slot, &newest))
    }

    fn unit(&mut self, slot: usize, newest: &Newest) -> Result<(), M::Error> {
        let mut at = newest.partial_parity_offset_bytes;
        for entry in &newest.header.entries {
            let from = at;
            // Partial parity beyond the end of the area is not read.
            at = at.saturating_add(entry.partial_parity_sectors() as usize * SECTOR_BYTES as usize);
            self.entry(slot, entry, from..at)?;
        }
        Ok(())
    }

    fn entry(&mut self, slot: usize, entry: &Entry, partial: Range<usize>) -> Result<(), M::Error> {
        let inside = self.area.get(partial.clone());
        let torn = |bytes| crc32c(bytes) != entry.checksum;
        if inside.is_none_or(torn) {
            self.report.entries_not_begun += 1;
            return Ok(());
        }
        let Some(pieces) = self.volume.pieces(entry, slot) else {
            self.report.entries_senseless += 1;
            return Ok(());
        };
        let mut lost = false;
        for piece in &pieces {
            lost |= self.piece(slot, piece, partial.start)? == PieceEnd::Lost;
        }
        if lost {
            self.report.entries_of_lost_members += 1;
        } else {
            self.report.entries_replayed += 1;
        }
        Ok(())
    }

    /// Writes the parity of `piece` to the member in `slot`.
    fn piece(
        &mut self,
        slot: usize,
        piece: &Piece,
        partial_start: usize,
    ) -> Result<PieceEnd, M::Error> {
        if piece
            .changed_slots
            .iter()
            .any(|changed| !self.slots.contains(changed))
        {
            return Ok(PieceEnd::Lost);
        }
        let mut sector = piece.member_sectors.start;
        while sector < piece.member_sectors.end {
            // Blocks are aligned on the drive.
            let block_sectors = BLOCK_BYTES as u64 / SECTOR_BYTES;
            let end = (sector / block_sectors + 1) * block_sectors;
            let sectors = end.min(piece.member_sectors.end) - sector;
            let length_bytes = (sectors * SECTOR_BYTES) as usize;
            let mut parity = [0; BLOCK_BYTES];
            let parity = &mut parity[..length_bytes];
            if let Some(offset_bytes) = piece.partial_parity_offset_bytes {
                let done_bytes = (sector - piece.member_sectors.start) * SECTOR_BYTES;
                let at = partial_start + offset_bytes + done_bytes as usize;
                parity.copy_from_slice(&self.area[at..at + length_bytes]);
            }
            if self.add_changed(piece, sector, parity) {
                self.wrote = true;
                self.members.write(slot, sector, parity)?;
            } else {
                self.report.blocks_unreadable += 1;
            }
            sector += sectors;
        }
        Ok(PieceEnd::Written)
    }

    /// XORs the changed chunks into `parity`; returns whether all could be read.
    fn add_changed(&mut self, piece: &Piece, sector: u64, parity: &mut [u8]) -> bool {
        let mut data = [0; BLOCK_BYTES];
        let data = &mut data[..parity.len()];
        piece.changed_slots.iter().all(|&changed| {
            let is_read = self.members.read(changed, sector, data).is_ok();
            parity
                .iter_mut()
                .zip(&*data)
                .for_each(|(sum, byte)| *sum ^= byte);
            is_read
        })
    }
}

/// Empties the log of `volume` on `members`, durably. If this is interrupted at any point, no older unit
/// that was there can be replayed, at most the newest one.
///
/// # Errors
/// A member cannot be written or flushed.
pub fn initialise<M: Members>(
    volume: &LoggedVolume,
    members: &[usize],
    access: &mut M,
) -> Result<(), M::Error> {
    let from = volume.log_sector();
    let end = from + volume.log_sectors;
    let header_sectors = HEADER_BYTES as u64 / SECTOR_BYTES;
    let zeros = vec![0; ZEROS_BYTES];
    let empty = Header::empty(volume.signature).encode(volume.sector);
    each_durably(members, access, |access, member| {
        access.write(member, from, &zeros[..HEADER_BYTES])
    })?;
    each_durably(members, access, |access, member| {
        let mut sector = from + header_sectors;
        while sector < end {
            let sectors = (end - sector).min(ZEROS_BYTES as u64 / SECTOR_BYTES);
            let zeros = &zeros[..(sectors * SECTOR_BYTES) as usize];
            access.write(member, sector, zeros)?;
            sector += sectors;
        }
        Ok(())
    })?;
    each_durably(members, access, |access, member| {
        access.write(member, from, &empty)
    })
}

fn each_durably<M: Members>(
    members: &[usize],
    access: &mut M,
    mut act: impl FnMut(&mut M, usize) -> Result<(), M::Error>,
) -> Result<(), M::Error> {
    for &member in members {
        act(access, member)?;
    }
    for &member in members {
        access.flush(member)?;
    }
    Ok(())
}
