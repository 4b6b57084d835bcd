//! Applies the difference between two of the engine's records to the IMSM record.

use super::Identity;
use engine::control::bad_blocks::BadRange;
use engine::control::record::{MemberState, Record, SyncKind, SyncRecord, VolumeRecord};
use engine::units::{MemberId, Slot};
use metadata::crc32c::crc32c;
use metadata::imsm::bitmap::Header;
use metadata::imsm::build::{BuildError, NewDrive, RebuildTarget};
use metadata::imsm::place::encode_image;
use metadata::imsm::{Disk, EncodeError, Mpb, RecordPrint, SectorSize};
use std::fmt;
use std::ops::Range;

const SECTOR_BYTES: u64 = 512;

/// A change that the format cannot express, and why.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Inexpressible {
    /// Completes the sentence "the metadata cannot express ...".
    change: &'static str,
    why: Why,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Why {
    Build(BuildError),
    Encode(EncodeError),
    /// The drive has no row in the table of disks.
    NotListed(MemberId),
}

impl Inexpressible {
    fn of(change: &'static str) -> impl FnOnce(BuildError) -> Inexpressible {
        move |error| Inexpressible {
            change,
            why: Why::Build(error),
        }
    }

    fn encoding(error: EncodeError) -> Inexpressible {
        Inexpressible {
            change: "what has changed",
            why: Why::Encode(error),
        }
    }
}

impl fmt::Display for Inexpressible {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "the metadata cannot express {}: ", self.change)?;
        match &self.why {
            Why::Build(error) => error.fmt(out),
            Why::Encode(error) => error.fmt(out),
            Why::NotListed(MemberId(member)) => {
                write!(out, "drive number {member} is not in its table of disks")
            }
        }
    }
}

impl std::error::Error for Inexpressible {}

/// The IMSM record that corresponds to the engine's record, and its bytes.
#[derive(Clone, Debug)]
pub(super) struct Written {
    pub mpb: Mpb,
    /// The engine's record to which it corresponds.
    pub seen: Record,
    /// Its bytes; empty before the first change.
    pub image: Vec<u8>,
    /// A print that distinguishes these bytes from those of every other record.
    pub print: Option<RecordPrint>,
    /// The headers of write-intent bitmaps, each with the number of its volume.
    pub headers: Vec<(usize, Header)>,
}

/// A [`Written`] that is being changed.
struct Change<'a> {
    mpb: &'a mut Mpb,
    drives: &'a [Identity],
}

const BAD_BLOCKS: &str = "which blocks are lost";

fn not_listed(change: &'static str, member: usize) -> Inexpressible {
    Inexpressible {
        change,
        why: Why::NotListed(MemberId(member as u8)),
    }
}

fn sectors_of(range: &BadRange) -> Range<u64> {
    // Rounded outwards, although recorded ranges always end at sectors.
    range.offset_bytes / SECTOR_BYTES..range.end_bytes().div_ceil(SECTOR_BYTES)
}

impl Written {
    /// `mpb` is the record from which `record` was made.
    pub fn new(mpb: Mpb, record: &Record) -> Written {
        Written {
            mpb,
            seen: record.clone(),
            image: Vec::new(),
            print: None,
            headers: Vec::new(),
        }
    }

    /// Applies the changes since the record seen last. After an error, `self` must not be used any more.
    pub fn follow(
        &mut self,
        record: &Record,
        drives: &[Identity],
        sector: SectorSize,
    ) -> Result<(), Inexpressible> {
        let seen = std::mem::replace(&mut self.seen, record.clone());
        let mut change = Change {
            mpb: &mut self.mpb,
            drives,
        };
        change.follow(&seen, record)?;
        self.mpb.generation = record.generation as u32;
        for (at, header) in &mut self.headers {
            if let Some(now) = &record.volumes[*at].bitmap {
                header.events = record.generation;
                header.events_cleared = now.cleared_generation;
            }
        }
        let bytes = self.mpb.encode(sector).map_err(Inexpressible::encoding)?;
        self.print = RecordPrint::of(&bytes);
        self.image = encode_image(&self.mpb, sector).map_err(Inexpressible::encoding)?;
        Ok(())
    }
}

impl Change<'_> {
    fn follow(&mut self, seen: &Record, record: &Record) -> Result<(), Inexpressible> {
        // One update may say that one drive has become current and another has failed. In the other
        // order both drives would count as lost.
        for (at, (before, now)) in seen.volumes.iter().zip(&record.volumes).enumerate() {
            self.drives_gained(at, before, now)?;
        }
        for member in 0..record.members.len() {
            let before = seen
                .members
                .get(member)
                .map_or(MemberState::Absent, |member| member.state);
            let now = record.members[member].state;
            // `drives_gained` has removed replaced drives from the table. Any other removed drive has failed before.
            let is_gone = before == MemberState::Active && now == MemberState::Absent;
            if is_gone || (before != MemberState::Failed && now == MemberState::Failed) {
                self.mark_failed(member, seen, record)?;
            }
        }
        for (at, (before, now)) in seen.volumes.iter().zip(&record.volumes).enumerate() {
            self.follow_volume(at, before, now)?;
        }
        self.follow_bad_blocks(record)
    }

    /// Sets the bad-block log for the members that are on record to what the engine knows about them. For other
    /// drives its entries are kept, except for failed drives, from which nothing is read any more.
    fn follow_bad_blocks(&mut self, record: &Record) -> Result<(), Inexpressible> {
        let mut wanted: Vec<(usize, Vec<Range<u64>>)> = Vec::new();
        for (member, drive) in record.members.iter().enumerate() {
            if drive.state != MemberState::Active {
                continue;
            }
            let ranges = record.bad_blocks.of(MemberId(member as u8));
            if let Some(row) = self.mpb.disk_index_of(&self.drives[member].serial) {
                wanted.push((row, ranges.iter().map(sectors_of).collect()));
            } else if !ranges.is_empty() {
                return Err(not_listed(BAD_BLOCKS, member));
            }
        }
        if wanted
            .iter()
            .all(|(row, ranges)| self.mpb.bad_ranges(*row) == *ranges)
        {
            return Ok(());
        }
        let disks = &self.mpb.disks;
        self.mpb.bad_blocks.retain(|entry| {
            let row = usize::from(entry.disk_index);
            let is_known = wanted.iter().any(|(known, _)| *known == row);
            !is_known && !disks.get(row).is_some_and(Disk::is_failed)
        });
        for (row, ranges) in wanted {
            let set = self.mpb.set_bad_ranges(row, &ranges);
            set.map_err(Inexpressible::of(BAD_BLOCKS))?;
        }
        Ok(())
    }

    /// Marks drives current that a rebuild has filled, or to which a drive that they replace has been copied.
    fn drives_gained(
        &mut self,
        at: usize,
        before: &VolumeRecord,
        now: &VolumeRecord,
    ) -> Result<(), Inexpressible> {
        for slot in 0..now.slots.len() {
            let (old, new) = (before.slots[slot], now.slots[slot]);
            if old.current && new.current && old.member != new.member {
                self.replaced(at, slot, new.member)?;
            }
        }
        if let Some((Slot(slot), _)) = rebuild(before)
            && rebuild(before) != rebuild(now)
            && now.slots[slot as usize].current
        {
            let finished = self.mpb.finish_rebuild_of(at, slot as usize);
            finished.map_err(Inexpressible::of("that a drive has been filled"))?;
        }
        Ok(())
    }

    /// Marks a drive failed, and its slots lost in the volumes that continue without it.
    fn mark_failed(
        &mut self,
        member: usize,
        seen: &Record,
        now: &Record,
    ) -> Result<(), Inexpressible> {
        const CHANGE: &str = "that a member has failed";
        let id = MemberId(member as u8);
        let Some(row) = self.mpb.disk_index_of(&self.drives[member].serial) else {
            let counted_on = |volume: &VolumeRecord| volume.is_current(id);
            let in_service = |volume: &VolumeRecord| volume.slot_of(id).is_some();
            let is_missed =
                seen.volumes.iter().any(counted_on) && now.volumes.iter().any(in_service);
            return if is_missed {
                Err(not_listed(CHANGE, member))
            } else {
                // A spare that was never used, a drive that has been replaced, or one whose rebuild could not be
                // recorded.
                Ok(())
            };
        };
        let goes_on = |at: usize| {
            let of = now.volumes.get(at);
            of.is_none_or(|volume| volume.does_without(id))
        };
        let marked = self.mpb.mark_failed_in(row, goes_on);
        marked.map_err(Inexpressible::of(CHANGE))
    }

    fn follow_volume(
        &mut self,
        at: usize,
        before: &VolumeRecord,
        now: &VolumeRecord,
    ) -> Result<(), Inexpressible> {
        if before.dirty != now.dirty {
            let change = if now.dirty {
                "that a volume is being written to"
            } else {
                "that a volume is clean"
            };
            let set = self.mpb.set_dirty(at, now.dirty);
            set.map_err(Inexpressible::of(change))?;
        }
        let same_kind = before.sync.map(|sync| sync.kind) == now.sync.map(|sync| sync.kind);
        // The same slot may be rebuilt again, onto another drive.
        if !same_kind || rebuild(before) != rebuild(now) {
            self.end_sync(at, before, now)?;
            self.begin_sync(at, now)?;
        }
        match now.sync {
            Some(sync) => self.checkpoint(at, sync),
            None => Ok(()),
        }
    }

    fn end_sync(
        &mut self,
        at: usize,
        before: &VolumeRecord,
        now: &VolumeRecord,
    ) -> Result<(), Inexpressible> {
        let result = match before.sync.map(|sync| sync.kind) {
            None => Ok(()),
            Some(SyncKind::Rebuild(Slot(slot))) if now.slots[slot as usize].current => Ok(()),
            // Given up. If the drive has failed too, marking that has ended the rebuild already. If not, the drive
            // keeps its slot, but lacks what is written from now on, even where it had been rebuilt already.
            Some(SyncKind::Rebuild(_)) => self.mpb.set_checkpoint(at, 0),
            Some(SyncKind::Initial | SyncKind::Resync) => self.mpb.finish_sync(at),
        };
        match result {
            // Marking a drive failed has ended it already.
            Err(BuildError::NotInProgress { .. }) => Ok(()),
            result => result.map_err(Inexpressible::of("that background work has ended")),
        }
    }

    fn begin_sync(&mut self, at: usize, now: &VolumeRecord) -> Result<(), Inexpressible> {
        let result = match now.sync.map(|sync| sync.kind) {
            Some(SyncKind::Rebuild(Slot(slot))) => match now.slots[slot as usize].member {
                Some(member) => self.start_rebuild(at, slot as usize, member),
                None => Ok(()),
            },
            Some(SyncKind::Initial) => self.mpb.start_initial_sync(at),
            Some(SyncKind::Resync) => self.mpb.start_repair(at),
            None => Ok(()),
        };
        match result {
            // The sync began, and too many drives were lost, in the same update: there is nothing to rebuild.
            Err(BuildError::Failed { .. }) => Ok(()),
            result => result.map_err(Inexpressible::of("that background work begins")),
        }
    }

    fn start_rebuild(
        &mut self,
        at: usize,
        slot: usize,
        member: MemberId,
    ) -> Result<(), BuildError> {
        let target = self.target(member);
        if let RebuildTarget::Listed { disk_index } = target
            && self.is_target(at, slot, disk_index)
        {
            // A rebuild that was given up begins again; it is still on record.
            return self.mpb.set_checkpoint(at, 0);
        }
        self.mpb.start_rebuild(at, slot, target).map(|_| ())
    }

    /// The drive that takes a slot, whether it is in the disk table already or not.
    fn target(&self, member: MemberId) -> RebuildTarget {
        let Identity {
            serial, placement, ..
        } = self.drives[member.0 as usize];
        if let Some(disk_index) = self.mpb.disk_index_of(&serial) {
            return RebuildTarget::Listed { disk_index };
        }
        let drive = NewDrive {
            serial,
            total_sectors: placement.total_sectors(),
        };
        // Any non-zero number that no other process adds will do: if the container is split in halves and
        // each takes a new drive, their family numbers must become different.
        let family_salt = crc32c(serial.bytes()) ^ (self.mpb.generation << 8) | 1;
        RebuildTarget::NewDrive { drive, family_salt }
    }

    /// Whether the record says that `slot` is being rebuilt onto the drive in this row of the disk table.
    fn is_target(&self, at: usize, slot: usize, row: usize) -> bool {
        let volume = &self.mpb.volumes[at];
        let is_slot = volume.rebuild_targets().any(|target| target == slot);
        is_slot && volume.map.order[slot].disk_index as usize == row
    }

    /// Records that a drive has been replaced by a copy, if there is one.
    fn replaced(
        &mut self,
        at: usize,
        slot: usize,
        new: Option<MemberId>,
    ) -> Result<(), Inexpressible> {
        let Some(new) = new else {
            return Ok(());
        };
        let replaced = self.mpb.replace_member(at, slot, self.target(new));
        replaced.map_err(Inexpressible::of("that a drive has been replaced"))
    }

    fn checkpoint(&mut self, at: usize, sync: SyncRecord) -> Result<(), Inexpressible> {
        let volume = self.mpb.volumes.get(at);
        // A checkpoint applies to all drives that are being rebuilt, but the engine rebuilds one after the other.
        let volume = volume.filter(|of| of.rebuild_targets().count() <= 1);
        let reached = volume.and_then(|by| by.checkpoint_at(sync.done_bytes / SECTOR_BYTES));
        let Some(unit) = reached else {
            return Ok(());
        };
        let set = self.mpb.set_checkpoint(at, unit);
        set.map_err(Inexpressible::of("how far background work has come"))
    }
}

/// The slot that is being rebuilt, and the drive in it.
fn rebuild(volume: &VolumeRecord) -> Option<(Slot, Option<MemberId>)> {
    match volume.sync?.kind {
        SyncKind::Rebuild(slot) => Some((slot, volume.slots[usize::from(slot.0)].member)),
        SyncKind::Initial | SyncKind::Resync => None,
    }
}
