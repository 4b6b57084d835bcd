//! The fuzz target, which ordinary tests can call too. It makes a small array. The input bytes then change up to four
//! bytes of one member's record (with the checksum repaired), write arbitrary content to its logs or leave a write half
//! done with a correct log, and remove a member. Then the array is assembled, replay included.
//!
//! Whatever the input, nothing may panic or run without limit: the number of commands, their total bytes and the
//! longest one are bounded, and none reaches beyond the end of a drive. No chunk of data may be written. If the array
//! starts although one member's record differs from the others' of the same generation, it must have its original shape
//! and each drive in its own slot. If the log is correct, it must serve the original data, unless the operator has
//! accepted that some may be lost.

#[cfg(test)]
mod bitmaps;
mod half_done;
#[cfg(test)]
mod order;
#[cfg(test)]
mod replay;
#[cfg(test)]
mod rig;
#[cfg(test)]
mod settled;
#[cfg(test)]
mod told;
#[cfg(test)]
mod two_volumes;
#[cfg(test)]
mod written;

use crate::assemble::{Container, assemble};
use crate::member::{FoundShadow, Looked, Member, look};
use engine::control::record::MemberState;
use engine::policy::MemberKind;
use half_done::HalfDone;
use metadata::imsm::build::{ContainerIdentity, NewDrive, VolumeSpec};
use metadata::imsm::codec::checksum;
use metadata::imsm::geometry::SizeRequest;
use metadata::imsm::log::{Entry, Header, LoggedVolume};
use metadata::imsm::place::{Found, Placement, encode_image};
use metadata::imsm::start::StartOptions;
use metadata::imsm::{
    DecodeError, Level, Mpb, SectorSize, Serial, VolumeName, WriteHolePolicy, shadow,
};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;

const SECTOR: SectorSize = SectorSize::Bytes512;
/// Enough for the reserve at the end, a volume of 1 MiB and its log.
const DRIVE_BYTES: u64 = 32 << 20;
/// The unit in which the format lays out volumes.
const MIB_SECTORS: u64 = 2048;
const PAGE_BYTES: usize = 4096;
const CHECKSUM: std::ops::Range<usize> = 0x20..0x24;
const GENERATION: std::ops::Range<usize> = 0x2C..0x30;
/// Limits of a start: commands to one drive, total bytes of all commands, and bytes of one (a log's area).
const COMMANDS_MAX: u64 = 2000;
const BYTES_MAX: u64 = 64 << 20;
const COMMAND_BYTES_MAX: usize = 2 << 20;
/// Maximum number of bytes of a record that are changed.
const CHANGES_MAX: usize = 4;

/// A drive's content: pages that were never written are zero.
type Pages = Rc<RefCell<BTreeMap<u64, Vec<u8>>>>;

struct Memory {
    name: String,
    pages: Pages,
    looked: Looked,
    /// Commands so far, and their bytes.
    work: Cell<(u64, u64)>,
}

/// See the module's documentation. Returns whether the array was started.
///
/// # Panics
/// If one of the rules there is broken.
#[doc(hidden)]
pub fn fuzz_one(data: &[u8]) -> bool {
    let mut script = data.iter().copied();
    let mut next = || script.next().unwrap_or(0);
    let choice = next();
    let (level, members) = [
        (Level::Raid5, 3),
        (Level::Raid5, 4),
        (Level::Raid1, 2),
        (Level::Raid10, 4),
    ][usize::from(choice & 3)];
    let Some(mpb) = record(level, members, choice) else {
        return false;
    };
    let (changed, missing) = (usize::from(next()) % members, usize::from(next()));
    let changes: Vec<(usize, u8)> = (0..usize::from(next()) % (CHANGES_MAX + 1))
        .map(|_| (usize::from(next()) << 8 | usize::from(next()), next()))
        .collect();
    let drives: Vec<Pages> = (0..members).map(|_| Pages::default()).collect();
    let spoiled = spoil(&mpb, &changes);
    for (slot, pages) in drives.iter().enumerate() {
        put_record(pages, if slot == changed { &spoiled } else { &mpb });
    }
    let logged = LoggedVolume::of(&mpb, 0, SECTOR);
    if let Some(logged) = &logged {
        put_log(&drives[usize::from(next()) % members], logged, &mut next);
    }
    let is_true = next() & 1 == 1;
    let half_done = logged
        .as_ref()
        .filter(|_| is_true && choice & 16 != 0)
        .map(|logged| HalfDone::put(&drives, &mpb, logged, &mut next));
    let before: Vec<_> = drives.iter().map(|pages| pages.borrow().clone()).collect();
    let present = (0..members).filter(|&slot| slot != missing);
    let found = present.filter_map(|slot| Memory::open(slot, drives[slot].clone()));
    let options = StartOptions {
        degraded: choice & 32 != 0,
        accept_write_hole: choice & 64 != 0,
        accept_unsynced: choice & 128 != 0,
        trust_returned_drive: missing & 128 != 0,
    };
    let started = assemble(found.collect::<Vec<_>>(), options, false);
    if let Some(logged) = &logged {
        require_data_untouched(&before, &drives, logged);
    }
    let says_newer = changes
        .iter()
        .any(|(at, _)| GENERATION.contains(&(at % record_bytes(&mpb).len())));
    let has_witness = (0..members).any(|slot| slot != changed && slot != missing);
    if let Ok(container) = &started
        && has_witness
        && !says_newer
    {
        require_same_array(&mpb, container);
        let is_accepted = options.accept_write_hole || options.accept_unsynced;
        if let Some(half_done) = half_done.filter(|_| !is_accepted) {
            half_done.require_served(container, &drives);
        }
    }
    started.is_ok()
}

/// The record of an array with one volume, which is dirty and has a log if `choice` says so.
fn record(level: Level, members: usize, choice: u8) -> Option<Mpb> {
    let placement = Placement::new(DRIVE_BYTES, SECTOR).ok()?;
    let drives: Vec<NewDrive> = (0..members)
        .map(|slot| NewDrive {
            serial: Serial::from_drive(name(slot).as_bytes()),
            total_sectors: placement.total_sectors(),
        })
        .collect();
    let data_members = match level {
        Level::Raid5 => members as u64 - 1,
        _ => members as u64 / 2,
    };
    let spec = VolumeSpec {
        name: VolumeName::new("fuzz")?,
        level,
        strip_sectors: 32,
        size: SizeRequest::Volume {
            sectors: MIB_SECTORS * data_members,
        },
        born_in_sync: choice & 4 != 0,
        allow_wide: true,
    };
    let identity = ContainerIdentity {
        family_num: 7,
        creation_time: 0,
    };
    let mut mpb = Mpb::create(&drives, &spec, identity).ok()?;
    if level == Level::Raid5 && choice & 8 == 0 {
        mpb.set_write_hole_policy(0, WriteHolePolicy::Log).ok()?;
    }
    mpb.set_dirty(0, choice & 16 != 0).ok()?;
    Some(mpb)
}

fn name(slot: usize) -> String {
    format!("FUZZ{slot}")
}

fn record_bytes(mpb: &Mpb) -> Vec<u8> {
    mpb.encode(SECTOR).unwrap_or_else(|_| vec![0; 1024])
}

/// The record with some bytes changed and the checksum repaired, if it can still be read.
fn spoil(mpb: &Mpb, changes: &[(usize, u8)]) -> Mpb {
    let mut bytes = record_bytes(mpb);
    let length = bytes.len();
    for &(at, byte) in changes {
        bytes[at % length] = byte;
    }
    let sum = checksum(&bytes);
    bytes[CHECKSUM].copy_from_slice(&sum.to_le_bytes());
    Mpb::decode(&bytes, SECTOR).unwrap_or_else(|_| mpb.clone())
}

fn put_record(pages: &Pages, mpb: &Mpb) {
    let placement = Placement::new(DRIVE_BYTES, SECTOR).expect("the drive is large enough");
    if let Ok(image) = encode_image(mpb, SECTOR) {
        write(pages, placement.image(image.len()).offset_bytes, &image);
    }
    if let Ok(shadow) = shadow::encode(mpb, None, SECTOR) {
        write(pages, placement.shadow().offset_bytes, &shadow);
    }
}

/// Writes two units with arbitrary entries and correct checksums, or arbitrary bytes.
fn put_log(pages: &Pages, logged: &LoggedVolume, next: &mut impl FnMut() -> u8) {
    let mut at = logged.log_sector() * 512;
    for generation in 1..=2 {
        let entry = |next: &mut dyn FnMut() -> u8| Entry {
            data_sector: u64::from(next()) * 8 + u64::from(next() & 7),
            partial_parity_bytes: u32::from(next()) * 512,
            data_bytes: u32::from(next()) * 512,
            parity_slot: u32::from(next() & 7),
            checksum: u32::from(next()),
        };
        let header = Header {
            signature: logged.signature ^ u32::from(next() == 255),
            generation,
            entries: (0..next() & 7).map(|_| entry(next)).collect(),
        };
        let mut bytes = header.encode(SECTOR);
        if next() == 255 {
            bytes.iter_mut().for_each(|byte| *byte ^= next());
        }
        write(pages, at, &bytes);
        at += bytes.len() as u64 + header.partial_parity_bytes();
    }
}

fn require_data_untouched(
    before: &[BTreeMap<u64, Vec<u8>>],
    drives: &[Pages],
    logged: &LoggedVolume,
) {
    let start = logged.start_sector * 512;
    let strip = u64::from(logged.strip_sectors) * 512;
    for row in 0..logged.component_sectors / u64::from(logged.strip_sectors) {
        for (slot, pages) in drives.iter().enumerate() {
            if slot == logged.parity_slot(row) {
                continue;
            }
            for page in (start + row * strip..start + (row + 1) * strip).step_by(PAGE_BYTES) {
                let (was, is) = (
                    before[slot].get(&page).cloned(),
                    pages.borrow().get(&page).cloned(),
                );
                let zeros = || vec![0; PAGE_BYTES];
                assert!(
                    was.unwrap_or_else(zeros) == is.unwrap_or_else(zeros),
                    "data of row {row} in slot {slot} was written by assembly"
                );
            }
        }
    }
}

fn require_same_array(mpb: &Mpb, container: &Container<Memory>) {
    let expected = crate::assemble::geometry_of(&mpb.volumes[0], SECTOR.bytes() as u32)
        .expect("a valid record");
    let record = &container.record;
    for volume in &record.volumes {
        assert_eq!(
            volume.geometry, expected,
            "one member has changed the shape"
        );
        for (at, slot) in volume.slots.iter().enumerate() {
            let member = slot.member.map(|member| usize::from(member.0));
            let serves = |&member: &usize| record.members[member].state == MemberState::Active;
            if let Some(member) = member.filter(serves).filter(|_| slot.current) {
                let served_by = &container.members[member].name;
                assert_eq!(*served_by, name(at), "one member has moved drives");
            }
        }
    }
}

fn write(pages: &Pages, offset_bytes: u64, bytes: &[u8]) {
    let mut pages = pages.borrow_mut();
    let mut done = 0;
    while done < bytes.len() {
        let at = offset_bytes + done as u64;
        let within = at as usize % PAGE_BYTES;
        let piece = &bytes[done..bytes.len().min(done + PAGE_BYTES - within)];
        let page = at - within as u64;
        done += piece.len();
        if !pages.contains_key(&page) && piece.iter().all(|&byte| byte == 0) {
            continue;
        }
        let page = pages.entry(page).or_insert_with(|| vec![0; PAGE_BYTES]);
        page[within..within + piece.len()].copy_from_slice(piece);
    }
}

fn read(pages: &Pages, offset_bytes: u64, length_bytes: usize) -> Vec<u8> {
    let (pages, mut bytes) = (pages.borrow(), vec![0; length_bytes]);
    let end = offset_bytes + length_bytes as u64;
    let first = offset_bytes - offset_bytes % PAGE_BYTES as u64;
    for (&page, content) in pages.range(first..end) {
        let (from, to) = (page.max(offset_bytes), (page + PAGE_BYTES as u64).min(end));
        let within = (from - page) as usize..(to - page) as usize;
        bytes[(from - offset_bytes) as usize..(to - offset_bytes) as usize]
            .copy_from_slice(&content[within]);
    }
    bytes
}

impl Memory {
    fn open(slot: usize, pages: Pages) -> Option<Memory> {
        let placement = Placement::new(DRIVE_BYTES, SECTOR).ok()?;
        let looked = look(placement, SECTOR, |at, length| {
            Ok::<_, std::convert::Infallible>(read(&pages, at, length))
        });
        Some(Memory {
            name: name(slot),
            pages,
            looked: looked.ok()?,
            work: Cell::default(),
        })
    }
}

impl Memory {
    /// Counts a command, which must be one that a drive can carry out.
    fn count(&self, offset_bytes: u64, length_bytes: usize) {
        let (commands, bytes) = self.work.get();
        let (commands, bytes) = (commands + 1, bytes + length_bytes as u64);
        let end = offset_bytes.checked_add(length_bytes as u64);
        assert!(
            end.is_some_and(|end| end <= DRIVE_BYTES),
            "{length_bytes} bytes at {offset_bytes} pass the end of the drive"
        );
        assert!(
            commands <= COMMANDS_MAX && bytes <= BYTES_MAX && length_bytes <= COMMAND_BYTES_MAX,
            "{commands} commands, {bytes} bytes, the last one of {length_bytes}"
        );
        self.work.set((commands, bytes));
    }
}

impl Member for Memory {
    fn name(&self) -> &str {
        &self.name
    }

    fn size_bytes(&self) -> u64 {
        DRIVE_BYTES
    }

    fn kind(&self) -> MemberKind {
        MemberKind::Device
    }

    fn discards(&self) -> bool {
        true
    }

    fn volatile_cache(&self) -> bool {
        true
    }

    fn serial(&self) -> Serial {
        Serial::from_drive(self.name.as_bytes())
    }

    fn sector(&self) -> SectorSize {
        SECTOR
    }

    fn placement(&self) -> Placement {
        Placement::new(DRIVE_BYTES, SECTOR).expect("the drive is large enough")
    }

    fn found(&self) -> &Result<Option<Found>, DecodeError> {
        &self.looked.0
    }

    fn shadow(&self) -> &FoundShadow {
        &self.looked.1
    }

    fn read_at(&self, offset_bytes: u64, length_bytes: usize) -> anyhow::Result<Vec<u8>> {
        self.count(offset_bytes, length_bytes);
        Ok(read(&self.pages, offset_bytes, length_bytes))
    }

    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> anyhow::Result<()> {
        self.count(offset_bytes, bytes.len());
        write(&self.pages, offset_bytes, bytes);
        Ok(())
    }

    fn flush(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A case that this exercise has found: one member's record gave the other member another name, and assembly then
    /// took that other member for a replaced drive.
    #[test]
    fn kept_scripts_hold() {
        fuzz_one(&[
            106, 226, 206, 179, 44, 105, 40, 70, 152, 9, 117, 74, 49, 201, 77, 97,
        ]);
    }

    /// For every state of an interrupted write, with all drives and with each one missing, the array starts and serves
    /// the original data.
    #[test]
    fn writes_that_were_cut_off_are_settled_by_their_log() {
        let dirty_and_degraded = 4 | 16 | 32;
        for (level, members) in [(0, 3), (1, 4)] {
            for missing in (0..members).chain([255]) {
                let rows = [0, 1, 2, 3, 4, 63].into_iter();
                for (row, half) in rows.flat_map(|row| (0..16).map(move |half| (row, half))) {
                    let mut script = vec![level | dirty_and_degraded, 0, missing];
                    // No change of the record, and two log units without entries, which the real unit replaces.
                    script.extend([0; 8]);
                    script.extend([1, row, row % 4, row + half, half]);
                    assert!(fuzz_one(&script), "{script:?} starts");
                }
            }
        }
    }

    /// Runs a thousand scripts. Those that spoil nothing must start.
    #[test]
    fn scripts_of_every_kind_are_survived() {
        let mut seed = 1u64;
        let mut draw = || {
            seed = seed
                .wrapping_mul(6364136223846793005)
                .wrapping_add(1442695040888963407);
            (seed >> 33) as u8
        };
        let script = |length| (0..length).map(|_| draw()).collect::<Vec<u8>>();
        let started = (0..1000)
            .map(|round| round % 97)
            .map(script)
            .filter(|script| fuzz_one(script));
        let started = started.count();
        assert!(started > 200 && started < 900, "{started} of 1000 started");
        for (level, members) in [(Level::Raid5, 4), (Level::Raid1, 2), (Level::Raid10, 4)] {
            record(level, members, 0).expect("all shapes can be made");
        }
        let mpb = record(Level::Raid5, 3, 0).expect("a valid record");
        let drives: Vec<Pages> = (0..3).map(|_| Pages::default()).collect();
        drives.iter().for_each(|pages| put_record(pages, &mpb));
        let found = (0..3).filter_map(|slot| Memory::open(slot, drives[slot].clone()));
        let container = assemble(found.collect::<Vec<_>>(), StartOptions::default(), false);
        require_same_array(&mpb, &container.expect("the array starts"));
    }
}
