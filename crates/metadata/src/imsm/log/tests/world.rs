//! A RAID 5 in memory, a writer that keeps a log, and a power cut that lets any of the sectors in flight reach the
//! drives.

use super::super::*;
use super::SIGNATURE;
use crate::crc32c::crc32c;
use crate::imsm::{SECTOR_BYTES, SectorSize};
use alloc::vec;
use core::ops::Range;

/// A small random generator, so that the seed alone repeats a test.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) % limit
    }

    pub fn chance(&mut self) -> bool {
        self.below(2) == 1
    }

    fn fill(&mut self, bytes: &mut [u8]) {
        for some in bytes.chunks_mut(4) {
            let number = self.below(1 << 31).to_le_bytes();
            some.copy_from_slice(&number[..some.len()]);
        }
    }
}

/// The error of a member.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failed;

#[derive(Clone)]
pub struct World {
    pub volume: LoggedVolume,
    pub drives: Vec<Vec<u8>>,
    /// How many writes still succeed. Of the next one, any sectors reach the drive.
    pub writes_left: usize,
    landing: Random,
    pub flushes: usize,
    /// By slot: whether the member has been written to since its last flush.
    pub unflushed: Vec<bool>,
    /// A sector of a member that cannot be read.
    pub unreadable: Option<(usize, u64)>,
}

impl Members for World {
    type Error = Failed;

    fn read(&mut self, slot: usize, sector: u64, bytes: &mut [u8]) -> Result<(), Failed> {
        let sectors = sector..sector + bytes.len() as u64 / SECTOR_BYTES;
        if self
            .unreadable
            .is_some_and(|(at, bad)| at == slot && sectors.contains(&bad))
        {
            return Err(Failed);
        }
        bytes.copy_from_slice(&self.drives[slot][range(sectors)]);
        Ok(())
    }

    fn write(&mut self, slot: usize, sector: u64, bytes: &[u8]) -> Result<(), Failed> {
        let at = (sector * SECTOR_BYTES) as usize;
        let sectors = bytes.chunks(self.volume.sector.bytes());
        let is_cut = self.writes_left == 0;
        // If a write is cut off, any of its sectors reach the drive, or all before some place, or all behind it.
        let way = self.landing.below(3);
        let place = self.landing.below(sectors.len() as u64) as usize;
        for (number, some) in sectors.enumerate() {
            let lands = match way {
                0 => self.landing.chance(),
                1 => number < place,
                _ => number >= place,
            };
            if lands || !is_cut {
                let from = at + number * some.len();
                self.drives[slot][from..from + some.len()].copy_from_slice(some);
            }
        }
        self.unflushed[slot] = true;
        self.writes_left = self.writes_left.checked_sub(1).ok_or(Failed)?;
        Ok(())
    }

    fn flush(&mut self, slot: usize) -> Result<(), Failed> {
        self.flushes += 1;
        self.unflushed[slot] = false;
        Ok(())
    }
}

fn range(sectors: Range<u64>) -> Range<usize> {
    (sectors.start * SECTOR_BYTES) as usize..(sectors.end * SECTOR_BYTES) as usize
}

/// A write to part of a row.
#[derive(Clone, Debug)]
pub struct Write {
    pub row: u64,
    /// The data chunks that are written.
    pub chunks: Range<u64>,
    /// The sectors that are written in each of these chunks.
    pub part: Range<u64>,
}

impl World {
    /// An array of rows with random data and correct parity, and empty logs.
    pub fn new(random: &mut Random, sector: SectorSize) -> World {
        let volume = LoggedVolume {
            start_sector: 8 * random.below(3),
            component_sectors: 16 << random.below(4),
            strip_sectors: 16,
            members: 3 + random.below(3) as usize,
            log_sectors: 600,
            signature: SIGNATURE,
            sector,
        };
        let drive_bytes = range(0..volume.log_sector() + volume.log_sectors).end;
        let mut world = World {
            volume,
            drives: vec![vec![0; drive_bytes]; volume.members],
            writes_left: usize::MAX,
            landing: Random(random.below(1 << 31) | 1),
            flushes: 0,
            unflushed: vec![false; volume.members],
            unreadable: None,
        };
        for drive in &mut world.drives {
            random.fill(&mut drive[..range(0..volume.log_sector()).end]);
        }
        for row in 0..world.rows() {
            let parity = world.xor(row, &|slot| slot != world.volume.parity_slot(row));
            let at = world.chunk(row);
            world.drives[volume.parity_slot(row)][at].copy_from_slice(&parity);
        }
        let all = world.slots();
        initialise(&volume, &all, &mut world).unwrap();
        world
    }

    pub fn slots(&self) -> Vec<usize> {
        (0..self.volume.members).collect()
    }

    pub fn rows(&self) -> u64 {
        self.volume.component_sectors / u64::from(self.volume.strip_sectors)
    }

    /// The bytes of `row` on each drive.
    pub fn chunk(&self, row: u64) -> Range<usize> {
        let strip = u64::from(self.volume.strip_sectors);
        let from = self.volume.start_sector + row * strip;
        range(from..from + strip)
    }

    /// The xor of the row's chunks in the slots for which `wanted` is true.
    pub fn xor(&self, row: u64, wanted: &dyn Fn(usize) -> bool) -> Vec<u8> {
        let mut sum = vec![0; range(0..u64::from(self.volume.strip_sectors)).end];
        for slot in self.slots().into_iter().filter(|&slot| wanted(slot)) {
            let chunk = &self.drives[slot][self.chunk(row)];
            sum.iter_mut()
                .zip(chunk)
                .for_each(|(sum, byte)| *sum ^= byte);
        }
        sum
    }

    pub fn slot_of(&self, row: u64, chunk: u64) -> usize {
        let chunk = chunk as usize;
        chunk + usize::from(chunk >= self.volume.parity_slot(row))
    }

    /// Writes to different parts of the row's parity, as locks would let them be under way together.
    pub fn some_writes(&self, random: &mut Random, row: u64) -> Vec<Write> {
        let unit = self.volume.sector.scale();
        let strip = u64::from(self.volume.strip_sectors) / unit;
        let data_members = self.volume.members as u64 - 1;
        let mut from = random.below(strip);
        let mut writes = Vec::new();
        while from < strip && writes.len() < 3 {
            let length = 1 + random.below(strip - from);
            let first = random.below(data_members);
            let count = 1 + random.below(data_members - first);
            writes.push(Write {
                row,
                chunks: first..first + count,
                part: from * unit..(from + length) * unit,
            });
            from += length + random.below(3);
        }
        writes
    }

    /// The entry of a write, and its partial parity.
    pub fn entry(&self, write: &Write) -> (Entry, Vec<u8>) {
        let parity_slot = self.volume.parity_slot(write.row);
        let data_members = self.volume.members as u64 - 1;
        let count = write.chunks.end - write.chunks.start;
        let part = range(write.part.clone());
        let changed: Vec<usize> = write
            .chunks
            .clone()
            .map(|chunk| self.slot_of(write.row, chunk))
            .collect();
        let others = |slot: usize| slot != parity_slot && !changed.contains(&slot);
        let partial = if count == data_members {
            Vec::new()
        } else {
            self.xor(write.row, &others)[part.clone()].to_vec()
        };
        let strip = u64::from(self.volume.strip_sectors);
        let row_start = write.row * strip * data_members;
        let entry = Entry {
            data_sector: row_start + write.chunks.start * strip + write.part.start,
            partial_parity_bytes: partial.len() as u32,
            data_bytes: (part.len() as u64 * count) as u32,
            parity_slot: parity_slot as u32,
            checksum: crc32c(&partial),
        };
        (entry, partial)
    }

    /// Puts a unit at byte `at` of a member's area; returns where it ends.
    pub fn put_unit(
        &mut self,
        slot: usize,
        at: usize,
        generation: u64,
        entries: &[(Entry, Vec<u8>)],
    ) -> usize {
        let header = Header {
            signature: SIGNATURE,
            generation,
            entries: entries.iter().map(|(entry, _)| *entry).collect(),
        };
        let mut unit = header.encode(self.volume.sector).to_vec();
        entries.iter().for_each(|(_, partial)| unit.extend(partial));
        let area =
            range(self.volume.log_sector()..self.volume.log_sector() + self.volume.log_sectors);
        let from = area.start + at;
        self.drives[slot][from..from + unit.len()].copy_from_slice(&unit);
        at + unit.len()
    }

    /// Carries a write out; `landed` says which of its sectors reach the drives.
    pub fn apply(
        &mut self,
        random: &mut Random,
        write: &Write,
        landed: &dyn Fn(&mut Random) -> bool,
    ) {
        let before = self.clone();
        let mut after = self.clone();
        for chunk in write.chunks.clone() {
            let slot = after.slot_of(write.row, chunk);
            let at = after.part_on_drive(write);
            random.fill(&mut after.drives[slot][at]);
        }
        let parity_slot = after.volume.parity_slot(write.row);
        let parity = after.xor(write.row, &|slot| slot != parity_slot);
        let chunk = after.chunk(write.row);
        after.drives[parity_slot][chunk].copy_from_slice(&parity);
        let sector_bytes = self.volume.sector.bytes();
        for slot in self.slots() {
            for from in self.part_on_drive(write).step_by(sector_bytes) {
                let sector = from..from + sector_bytes;
                let source = if landed(random) { &after } else { &before };
                self.drives[slot][sector.clone()].copy_from_slice(&source.drives[slot][sector]);
            }
        }
    }

    /// The bytes of a write's part of the row, on each drive.
    pub fn part_on_drive(&self, write: &Write) -> Range<usize> {
        let row = self.chunk(write.row).start;
        let part = range(write.part.clone());
        row + part.start..row + part.end
    }

    /// Rows whose parity does not match their data.
    pub fn wrong_rows(&self) -> Vec<u64> {
        (0..self.rows())
            .filter(|&row| self.xor(row, &|_| true).iter().any(|&byte| byte != 0))
            .collect()
    }
}
