//! The fuzz target for logs. It puts arbitrary bytes into the log areas of small arrays, both unchanged and with the
//! checksums repaired, and replays them. Nothing may panic. A replay may only write parity of the volume, to the slot
//! in which the row has its parity.

use super::codec::{COUNT_AT, RESERVED_BYTES};
use super::{ENTRIES_MAX, HEADER_BYTES, LoggedVolume, Members, replay, walk};
use crate::crc32c::crc32c;
use crate::imsm::{SECTOR_BYTES, SectorSize};
use alloc::vec::Vec;

const SIGNATURE: u32 = 0x5EED_0001;

/// See the module's documentation. `choice` determines the shape of the array.
pub fn exercise(bytes: &[u8], choice: u8, sector: SectorSize) {
    let volume = LoggedVolume {
        start_sector: u64::from(choice >> 6) * 8192,
        component_sectors: 64 * (1 + u64::from(choice >> 4 & 3)),
        strip_sectors: 8 << (choice >> 1 & 3),
        members: 3 + usize::from(choice >> 3 & 1),
        log_sectors: if choice & 1 == 0 { 264 } else { 2048 },
        signature: SIGNATURE,
        sector,
    };
    for area in [bytes.to_vec(), repaired(bytes)] {
        let found = walk(&area, SIGNATURE, sector);
        let begins_there =
            |newest: &super::Newest| newest.partial_parity_offset_bytes <= area.len();
        assert!(found.newest.as_ref().is_none_or(begins_there));
        let all: Vec<usize> = (0..volume.members).collect();
        for slots in [&all[..], &all[1..]] {
            let mut members = Watched {
                volume,
                area: &area,
            };
            let report = replay(&volume, slots, &mut members).expect("nothing fails here");
            let counted = report.entries_replayed + report.entries_skipped();
            assert!(counted as usize <= ENTRIES_MAX * volume.members);
        }
    }
}

/// `bytes` turned into a chain of headers and entries with correct checksums, as far as there are bytes.
fn repaired(bytes: &[u8]) -> Vec<u8> {
    let mut area = bytes.to_vec();
    let mut at = 0;
    while area.len() >= at + HEADER_BYTES {
        let (header, behind) = area[at..].split_at_mut(HEADER_BYTES);
        header[..RESERVED_BYTES].fill(0xFF);
        header[512..516].copy_from_slice(&SIGNATURE.to_le_bytes());
        let count = u32::from(header[COUNT_AT]) % (ENTRIES_MAX as u32 + 1);
        header[COUNT_AT..][..4].copy_from_slice(&count.to_le_bytes());
        let mut length_bytes = 0;
        for entry in header[COUNT_AT + 8..]
            .chunks_exact_mut(24)
            .take(count as usize)
        {
            // Sizes small enough for the area, in sectors.
            let sectors = usize::from(entry[9]) % 64;
            entry[8..12].copy_from_slice(&(sectors as u32 * 512).to_le_bytes());
            let next = length_bytes + sectors * SECTOR_BYTES as usize;
            if let Some(partial) = behind.get(length_bytes..next) {
                entry[20..24].copy_from_slice(&crc32c(partial).to_le_bytes());
            }
            length_bytes = next;
        }
        header[COUNT_AT + 4..][..4].fill(0);
        let sum = crc32c(header);
        header[COUNT_AT + 4..][..4].copy_from_slice(&sum.to_le_bytes());
        at += HEADER_BYTES + length_bytes;
    }
    area
}

/// Members that all have the same log and detect writes to a wrong place.
struct Watched<'a> {
    volume: LoggedVolume,
    area: &'a [u8],
}

impl Members for Watched<'_> {
    type Error = ();

    fn read(&mut self, _: usize, sector: u64, bytes: &mut [u8]) -> Result<(), ()> {
        bytes.fill(0);
        if sector == self.volume.log_sector() {
            let length = bytes.len().min(self.area.len());
            bytes[..length].copy_from_slice(&self.area[..length]);
        } else {
            self.check(sector, bytes.len());
        }
        Ok(())
    }

    fn write(&mut self, slot: usize, sector: u64, bytes: &[u8]) -> Result<(), ()> {
        self.check(sector, bytes.len());
        let row = (sector - self.volume.start_sector) / u64::from(self.volume.strip_sectors);
        assert_eq!(slot, self.volume.parity_slot(row), "only parity is written");
        Ok(())
    }

    fn flush(&mut self, _: usize) -> Result<(), ()> {
        Ok(())
    }
}

impl Watched<'_> {
    fn check(&self, sector: u64, length_bytes: usize) {
        let end = sector + length_bytes as u64 / SECTOR_BYTES;
        assert!(sector >= self.volume.start_sector, "before the volume");
        assert!(end <= self.volume.log_sector(), "behind the volume");
        assert!(length_bytes.is_multiple_of(self.volume.sector.bytes()));
    }
}
