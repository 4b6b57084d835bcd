//! Following the engine's record: every change of it becomes the same change of the IMSM record.
//!
//! The engine says *what* is true (this member failed, that slot is being rebuilt up to here); the
//! [`metadata`] crate knows how the format says it. [`Persister`] compares the record with the one it saw
//! last and applies the difference, so everything in the record that the engine does not know survives.
//!
//! Each member gets headers of bitmaps that it lacks first, then the record's shadow and then, when that is durable, the record
//! ([`metadata::imsm::shadow`] says why).

use crate::member::Member;
use crate::write::record_on;
use engine::control::bad_blocks::BadRange;
use engine::control::record::{MemberState, Record, SyncKind, SyncRecord, VolumeRecord};
use engine::log::LogUnit;
use engine::units::{MemberId, Slot};
use metadata::crc32c::crc32c;
use metadata::imsm::bitmap::{BitmapVolume, Header};
use metadata::imsm::build::{BuildError, NewDrive, RebuildTarget};
use metadata::imsm::log::HEADER_BYTES;
use metadata::imsm::place::{Placement, encode_image};
use metadata::imsm::shadow::{self, has_room};
use metadata::imsm::{Disk, Mpb, RecordPrint, SectorSize, Serial};
use planted::{Bug, planted};
use std::ops::Range;

const SECTOR_BYTES: u64 = 512;

fn sectors_of(range: &BadRange) -> Range<u64> {
    // Outwards, although all that is recorded ends where sectors do.
    range.offset_bytes / SECTOR_BYTES..range.end_bytes().div_ceil(SECTOR_BYTES)
}

/// What the persister knows of a drive.
#[derive(Clone, Copy, Debug)]
pub struct Identity {
    /// Serial in stored form.
    pub serial: Serial,
    /// Where its metadata lies.
    pub placement: Placement,
    /// Which record its own copy is, as far as it is known.
    pub holds: Option<RecordPrint>,
    /// A newer version's shadow lies on it and stays.
    pub keeps_shadow: bool,
}

impl Identity {
    /// That of a drive as it is now.
    #[must_use]
    pub fn of(probed: &impl Member) -> Identity {
        Identity {
            serial: probed.serial(),
            placement: probed.placement(),
            holds: record_on(probed),
            keeps_shadow: probed.shadow().is_newer(),
        }
    }
}

/// The bitmap of a volume, as far as records are concerned.
#[derive(Debug)]
struct KeptBitmap {
    at: usize,
    volume: BitmapVolume,
    header: Header,
    /// By member: the event counter in the header that it has, as far as is known.
    on: Vec<Option<u64>>,
}

/// See the module's prose.
#[derive(Debug)]
pub struct Persister {
    mpb: Mpb,
    sector: SectorSize,
    drives: Vec<Identity>,
    seen: Record,
    image: Vec<u8>,
    /// The headers of write-intent bitmaps, by volume.
    bitmaps: Vec<KeptBitmap>,
    /// Changes that the format could not express, a sentence each.
    problems: Vec<String>,
}

impl Persister {
    /// Starts from `mpb`, which is what `record` was made of.
    #[must_use]
    pub fn new(
        mpb: Mpb,
        sector: SectorSize,
        members: &[impl Member],
        record: &Record,
    ) -> Persister {
        Persister {
            mpb,
            sector,
            drives: members.iter().map(|member| Identity::of(member)).collect(),
            seen: record.clone(),
            image: Vec::new(),
            bitmaps: Vec::new(),
            problems: Vec::new(),
        }
    }

    /// Keeps the headers of these volumes' bitmaps. They are on all members as they are.
    #[must_use]
    pub fn with_bitmaps(
        mut self,
        headers: impl IntoIterator<Item = (usize, BitmapVolume, Header)>,
    ) -> Persister {
        let members = self.drives.len();
        let kept = headers.into_iter().map(|(at, volume, header)| KeptBitmap {
            at,
            volume,
            header,
            on: vec![Some(header.events_cleared); members],
        });
        self.bitmaps = kept.collect();
        self
    }

    /// A drive that joins; its number is the next free one.
    pub fn add_drive(&mut self, drive: Identity) {
        self.drives.push(drive);
    }

    /// Changes that the format could not express since the last call.
    pub fn take_problems(&mut self) -> Vec<String> {
        std::mem::take(&mut self.problems)
    }

    /// The record as it is written.
    #[must_use]
    pub fn mpb(&self) -> &Mpb {
        &self.mpb
    }

    /// What writes the headers of this container's write-hole logs.
    pub fn log_encoder(
        &self,
    ) -> impl FnMut(&LogUnit, &[u32], &mut [u8; HEADER_BYTES]) + Send + use<> {
        crate::log::encoder(self.mpb.container_family(), self.sector)
    }

    /// `record` in the form and places for `member`: first byte on the drive, and the bytes. Each part has
    /// to be durable before the next is written.
    pub fn encode(&mut self, member: MemberId, record: &Record) -> Vec<(u64, Vec<u8>)> {
        if record.generation != self.seen.generation || self.image.is_empty() {
            self.follow(record);
        }
        let Identity {
            placement,
            holds,
            keeps_shadow,
            ..
        } = self.drives[member.0 as usize];
        let shadow = shadow::encode(&self.mpb, holds, self.sector)
            .ok()
            .filter(|_| has_room(&placement, &self.mpb) && !keeps_shadow)
            .filter(|_| !planted(Bug::ShadowForgotten))
            .map(|bytes| (placement.shadow().offset_bytes, bytes));
        let own = (
            placement.image(self.image.len()).offset_bytes,
            self.image.clone(),
        );
        let record = self.mpb.encode(self.sector).ok();
        self.drives[member.0 as usize].holds = record.and_then(|record| RecordPrint::of(&record));
        // Before the record that makes bits clearable is durable, nobody may come back by older bits.
        let headers = self.headers_for(member);
        if planted(Bug::ShadowAfterRecord) {
            return headers.into_iter().chain([own]).chain(shadow).collect();
        }
        headers.into_iter().chain(shadow).chain([own]).collect()
    }

    /// The headers of bitmaps that a member lacks: first byte on the drive, and the bytes.
    fn headers_for(&mut self, member: MemberId) -> Vec<(u64, Vec<u8>)> {
        let at = member.0 as usize;
        let mut parts = Vec::new();
        for bitmap in &mut self.bitmaps {
            if bitmap.on.len() <= at {
                bitmap.on.resize(at + 1, None);
            }
            if bitmap.on[at] != Some(bitmap.header.events_cleared) {
                bitmap.on[at] = Some(bitmap.header.events_cleared);
                let bytes = bitmap.header.encode().to_vec();
                parts.push((bitmap.volume.header_offset_bytes(), bytes));
            }
        }
        parts
    }

    /// Applies what has changed since the record seen last.
    fn follow(&mut self, record: &Record) {
        let seen = std::mem::replace(&mut self.seen, record.clone());
        // One record may say that a drive has become current and that another one has failed. In the other
        // order both would be lost.
        for (at, (before, now)) in seen.volumes.iter().zip(&record.volumes).enumerate() {
            self.drives_gained(at, before, now);
        }
        for member in 0..record.members.len() {
            let before = seen
                .members
                .get(member)
                .map_or(MemberState::Absent, |member| member.state);
            let now = record.members[member].state;
            if before != MemberState::Failed && now == MemberState::Failed {
                self.mark_failed(member, &record.volumes);
            }
        }
        for (at, (before, now)) in seen.volumes.iter().zip(&record.volumes).enumerate() {
            self.follow_volume(at, before, now);
        }
        self.follow_bad_blocks(record);
        self.mpb.generation = record.generation as u32;
        for bitmap in &mut self.bitmaps {
            if let Some(now) = &record.volumes[bitmap.at].bitmap {
                bitmap.header.events = record.generation;
                bitmap.header.events_cleared = now.cleared_generation;
            }
        }
        match encode_image(&self.mpb, self.sector) {
            Ok(image) => self.image = image,
            Err(error) => self
                .problems
                .push(format!("the metadata cannot be encoded: {error}")),
        }
    }

    /// Makes the bad-block log say of the members that are on record what the engine knows of them. Of other
    /// drives it keeps what it says, but for failed ones: nothing is read from those any more.
    fn follow_bad_blocks(&mut self, record: &Record) {
        let mut wanted: Vec<(usize, Vec<Range<u64>>)> = Vec::new();
        for (member, drive) in record.members.iter().enumerate() {
            let row = self.mpb.disk_index_of(&self.drives[member].serial);
            if let (MemberState::Active, Some(row)) = (drive.state, row) {
                let ranges = record.bad_blocks.of(MemberId(member as u8)).iter();
                wanted.push((row, ranges.map(sectors_of).collect()));
            }
        }
        if wanted
            .iter()
            .all(|(row, ranges)| self.mpb.bad_ranges(*row) == *ranges)
        {
            return;
        }
        let disks = &self.mpb.disks;
        self.mpb.bad_blocks.retain(|entry| {
            let row = usize::from(entry.disk_index);
            let is_known = wanted.iter().any(|(known, _)| *known == row);
            !is_known && !disks.get(row).is_some_and(Disk::is_failed)
        });
        for (row, ranges) in wanted {
            let result = self.mpb.set_bad_ranges(row, &ranges);
            self.check(result);
        }
    }

    /// Drives that have been filled, by a rebuild or as copies of those that they replace.
    fn drives_gained(&mut self, at: usize, before: &VolumeRecord, now: &VolumeRecord) {
        for slot in 0..now.slots.len() {
            let (old, new) = (before.slots[slot], now.slots[slot]);
            if old.current && new.current && old.member != new.member {
                self.replaced(at, slot, new.member);
            }
        }
        if let Some((Slot(slot), _)) = rebuild(before)
            && rebuild(before) != rebuild(now)
            && now.slots[slot as usize].current
        {
            let result = self.mpb.finish_rebuild(at);
            self.check(result);
        }
    }

    /// Marks a drive failed, and its slots lost in the volumes that go on without it.
    fn mark_failed(&mut self, member: usize, volumes: &[VolumeRecord]) {
        if let Some(row) = self.mpb.disk_index_of(&self.drives[member].serial) {
            let goes_on = |at: usize| {
                let of = volumes.get(at);
                let without = |volume: &VolumeRecord| volume.does_without(MemberId(member as u8));
                of.is_none_or(without) || planted(Bug::LossRecordedEverywhere)
            };
            let result = self.mpb.mark_failed_in(row, goes_on);
            self.check(result);
        }
    }

    fn follow_volume(&mut self, at: usize, before: &VolumeRecord, now: &VolumeRecord) {
        if before.dirty != now.dirty {
            let result = self.mpb.set_dirty(at, now.dirty);
            self.check(result);
        }
        let same_kind = before.sync.map(|sync| sync.kind) == now.sync.map(|sync| sync.kind);
        // The same slot may be filled anew, with another drive.
        if !same_kind || rebuild(before) != rebuild(now) {
            self.end_sync(at, before, now);
            self.begin_sync(at, now);
        }
        if let Some(sync) = now.sync {
            self.checkpoint(at, sync);
        }
    }

    fn end_sync(&mut self, at: usize, before: &VolumeRecord, now: &VolumeRecord) {
        let result = match before.sync.map(|sync| sync.kind) {
            None => return,
            Some(SyncKind::Rebuild(Slot(slot))) if now.slots[slot as usize].current => return,
            // Given up. If the drive has failed as well, that has ended it already. If not, it keeps its place,
            // and what is written from now on it lacks, whether or not the rebuild had been there.
            Some(SyncKind::Rebuild(_)) if planted(Bug::GivenUpCheckpointKept) => return,
            Some(SyncKind::Rebuild(_)) => self.mpb.set_checkpoint(at, 0),
            Some(SyncKind::Initial | SyncKind::Resync) => self.mpb.finish_sync(at),
        };
        match result {
            // Losing a drive has ended it already.
            Err(BuildError::NotInProgress { .. }) => {}
            result => self.check(result),
        }
    }

    fn begin_sync(&mut self, at: usize, now: &VolumeRecord) {
        let result = match now.sync.map(|sync| sync.kind) {
            Some(SyncKind::Rebuild(Slot(slot))) => {
                let Some(member) = now.slots[slot as usize].member else {
                    return;
                };
                self.start_rebuild(at, slot as usize, member)
            }
            Some(SyncKind::Initial) => self.mpb.start_initial_sync(at),
            Some(SyncKind::Resync) => self.mpb.start_repair(at),
            None => return,
        };
        match result {
            // It was begun, and a drive too many lost, in one update: nothing is rebuilt there.
            Err(BuildError::Failed { .. }) => {}
            result => self.check(result),
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
            // One that was given up before begins anew; it is still on record.
            return self.mpb.set_checkpoint(at, 0);
        }
        self.mpb.start_rebuild(at, slot, target).map(|_| ())
    }

    /// A drive that takes a slot, in the table already or not.
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
        // Any number but zero that nobody else adds, because half-containers must end up different:
        // each takes a drive of its own.
        let family_salt = crc32c(serial.bytes()) ^ (self.mpb.generation << 8) | 1;
        RebuildTarget::NewDrive { drive, family_salt }
    }

    /// Whether the record says that `slot` is being rebuilt onto the drive in this row of the disk table.
    fn is_target(&self, at: usize, slot: usize, row: usize) -> bool {
        let volume = &self.mpb.volumes[at];
        let is_slot = volume.rebuild_targets().any(|target| target == slot);
        is_slot && volume.map.order[slot].disk_index as usize == row
    }

    /// A drive was copied to another one while it served.
    fn replaced(&mut self, at: usize, slot: usize, new: Option<MemberId>) {
        let Some(new) = new else {
            return;
        };
        let result = self.mpb.replace_member(at, slot, self.target(new));
        self.check(result);
    }

    fn checkpoint(&mut self, at: usize, sync: SyncRecord) {
        let Some(volume) = self.mpb.volumes.get(at) else {
            return;
        };
        if let Some(unit) = volume.checkpoint_at(sync.done_bytes / SECTOR_BYTES) {
            let result = self.mpb.set_checkpoint(at, unit);
            self.check(result);
        }
    }

    fn check(&mut self, result: Result<(), BuildError>) {
        if let Err(error) = result {
            self.problems
                .push(format!("the metadata cannot express a change: {error}"));
        }
    }
}

/// The slot that is being rebuilt, and the drive.
fn rebuild(volume: &VolumeRecord) -> Option<(Slot, Option<MemberId>)> {
    match volume.sync?.kind {
        SyncKind::Rebuild(slot) => Some((slot, volume.slots[usize::from(slot.0)].member)),
        SyncKind::Initial | SyncKind::Resync => None,
    }
}

#[cfg(test)]
mod tests;
