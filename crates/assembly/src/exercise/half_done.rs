//! A write to one page of a RAID 5 that a crash interrupted, as it is found on the drives: its data old or new, its
//! parity old or new, and the log unit that describes it. Nothing on the drives is wrong, so a start has to
//! serve the original content of the other chunks of the row, even when the drive of one of them is missing.

use super::{Memory, PAGE_BYTES, Pages, SECTOR, read, write};
use crate::assemble::{Container, geometry_of};
use engine::control::record::SyncKind;
use engine::layout::{Geometry, Location};
use engine::units::Slot;
use metadata::imsm::Mpb;
use metadata::imsm::log::{Entry, Header, LoggedVolume};

const SECTOR_BYTES: u64 = 512;

/// See the module's documentation.
pub(super) struct HalfDone {
    shape: Geometry,
    row: u64,
    /// The page's offset on each drive.
    at: u64,
    /// The slot that was being written.
    written: usize,
    /// By slot: the page before the write; for the parity slot, the parity before it.
    before: Vec<Vec<u8>>,
}

fn xor<'a>(pages: impl Iterator<Item = &'a Vec<u8>>) -> Vec<u8> {
    pages.fold(vec![0; PAGE_BYTES], |mut sum, page| {
        sum.iter_mut()
            .zip(page)
            .for_each(|(sum, byte)| *sum ^= byte);
        sum
    })
}

/// A page whose content differs from that of every other slot.
fn page(slot: usize, salt: u8) -> Vec<u8> {
    let byte = |at: usize| (at * (2 * slot + 3) + at / 251) as u8 ^ salt;
    (0..PAGE_BYTES).map(byte).collect()
}

impl HalfDone {
    /// Writes the half-done write and its log unit to the drives.
    pub fn put(
        drives: &[Pages],
        mpb: &Mpb,
        logged: &LoggedVolume,
        next: &mut impl FnMut() -> u8,
    ) -> HalfDone {
        let shape = geometry_of(&mpb.volumes[0], SECTOR.bytes() as u32).expect("a valid geometry");
        let row = u64::from(next()) % shape.rows();
        let strip_pages = shape.chunk_bytes / PAGE_BYTES as u32;
        let in_chunk_bytes = u32::from(next()) % strip_pages * PAGE_BYTES as u32;
        let parity = usize::from(shape.parity_slot(row).expect("a row with parity").0);
        let (salt, choice) = (next(), next());
        let data: Vec<usize> = (0..drives.len()).filter(|&slot| slot != parity).collect();
        let written = data[usize::from(choice >> 2) % data.len()];
        let mut before: Vec<Vec<u8>> = (0..drives.len()).map(|slot| page(slot, salt)).collect();
        before[parity] = xor(data.iter().map(|&slot| &before[slot]));
        let new = page(drives.len() + 1, salt);
        let others = data.iter().filter(|&&slot| slot != written);
        let partial = xor(others.map(|&slot| &before[slot]));
        let at = shape.member_offset_bytes(row, in_chunk_bytes);
        for (slot, pages) in drives.iter().enumerate() {
            let content = match slot {
                _ if slot == written && choice & 1 != 0 => new.clone(),
                _ if slot == parity && choice & 2 != 0 => xor([&partial, &new].into_iter()),
                _ => before[slot].clone(),
            };
            write(pages, at, &content);
            clear(pages, logged);
            write(
                pages,
                logged.log_sector() * SECTOR_BYTES,
                &Header::empty(logged.signature).encode(SECTOR),
            );
        }
        let data_index = shape.data_index(row, Slot(written as u8));
        let place = Location {
            row,
            data_index: data_index.expect("a data slot"),
            in_chunk_bytes,
        };
        let header = Header {
            signature: logged.signature,
            generation: 3,
            entries: vec![Entry {
                data_sector: shape.volume_offset_bytes(place) / SECTOR_BYTES,
                partial_parity_bytes: PAGE_BYTES as u32,
                data_bytes: PAGE_BYTES as u32,
                parity_slot: parity as u32,
                checksum: crc32c::crc32c(&partial),
            }],
        };
        let mut unit = header.encode(SECTOR).to_vec();
        unit.extend_from_slice(&partial);
        write(&drives[parity], logged.log_sector() * SECTOR_BYTES, &unit);
        HalfDone {
            shape,
            row,
            at,
            written,
            before,
        }
    }

    /// Checks that the started array would serve the row's original content.
    pub fn require_served(&self, container: &Container<Memory>, drives: &[Pages]) {
        let volume = &container.record.volumes[0];
        let unsynced = volume
            .sync
            .is_some_and(|sync| !matches!(sync.kind, SyncKind::Rebuild(_)));
        if unsynced || volume.then_resync || volume.geometry != self.shape {
            return;
        }
        let held = |slot: usize| read(&drives[slot], self.at, PAGE_BYTES);
        let parity = self
            .shape
            .parity_slot(self.row)
            .map(|slot| usize::from(slot.0));
        let data = (0..drives.len()).filter(|&slot| Some(slot) != parity && slot != self.written);
        for slot in data {
            let pages: Vec<Vec<u8>> = (0..drives.len())
                .filter(|&other| other != slot)
                .map(held)
                .collect();
            let served = if volume.slots[slot].current {
                held(slot)
            } else {
                xor(pages.iter())
            };
            assert!(
                served == self.before[slot],
                "row {}: slot {slot} would be served wrong",
                self.row
            );
        }
    }
}

/// Clears the log's area.
fn clear(pages: &Pages, logged: &LoggedVolume) {
    let from = logged.log_sector() * SECTOR_BYTES;
    let area = from..from + logged.log_sectors * SECTOR_BYTES;
    pages.borrow_mut().retain(|page, _| !area.contains(page));
}
