//! Spares: a slot without a current drive gets a spare, and its rebuild begins.

use super::Controller;
use crate::control::marks::Filling;
use crate::control::message::Refused;
use crate::control::record::{
    JobKind, MemberRecord, MemberState, SlotRecord, SyncKind, SyncRecord, VolumeRecord,
};
use crate::event::{Event, JobName};
use crate::layout::Geometry;
use crate::limits::METADATA_RESERVE_BYTES;
use crate::units::{MemberId, MemberSet, Nanos, Slot, VolumeId};

/// What drives report about themselves, as far as it decides which spare is taken.
#[derive(Debug, Default)]
pub(super) struct Reported {
    /// Drives that are about to fail.
    about_to_fail: MemberSet,
    /// Drives that cannot be written any more.
    pub not_writable: MemberSet,
    /// Those of them of which it has been told that they were passed over.
    passed_over: MemberSet,
    /// Until then nobody has said which drives are about to fail, and no spare is taken unasked: the first that fits may be one
    /// of them.
    awaited_until: Option<Nanos>,
}

impl Reported {
    /// These drives are about to fail, and no others.
    pub fn about_to_fail(&mut self, members: MemberSet) {
        self.about_to_fail = members;
        self.awaited_until = None;
    }

    /// Until when it is waited for reports.
    #[inline]
    pub fn awaited_until(&self) -> Option<Nanos> {
        self.awaited_until
    }
}

impl Controller {
    /// Begins to wait for the first report of drives.
    pub(super) fn await_health(&mut self) {
        let within = self.options.health_known_within;
        self.reported.awaited_until = (within > Nanos(0)).then(|| self.now.after(within));
    }

    /// Ends that wait, if it has taken too long.
    pub(super) fn run_awaited_health(&mut self) {
        let until = &mut self.reported.awaited_until;
        if until.is_some_and(|until| until <= self.now) {
            *until = None;
        }
    }

    /// Finds drives for slots without a current drive, and queues their rebuilds.
    pub(super) fn fill_empty_slots(&mut self) {
        // If the failure of a drive that was being filled is put down to the host, the drive keeps its slot on
        // record.
        let is_undecided = !self.undecided.is_empty();
        if is_undecided || !self.failures.is_empty() {
            return;
        }
        for at in 0..self.record.volumes.len() {
            if self
                .record
                .volumes
                .iter()
                .any(|volume| volume.sync.is_some())
            {
                // Only one rebuild or sync at a time per set of drives.
                return;
            }
            if self.has_job(at) || self.marks[at].failed || self.takes_no_writes(at) {
                continue;
            }
            let Some(slot) = self.empty_slot(at) else {
                self.marks[at].filling = Filling::AsConfigured;
                continue;
            };
            let given_up = self.marks[at].filling == Filling::GivenUp;
            let present = self.drive_in(at, slot).filter(|_| !given_up);
            let Some(member) = present.or_else(|| self.take_spare(at, slot)) else {
                continue;
            };
            self.begin_rebuild(at, slot, member);
        }
    }

    /// The first slot without a current drive.
    pub(super) fn empty_slot(&self, at: usize) -> Option<Slot> {
        let slots = &self.record.volumes[at].slots;
        let empty = slots.iter().position(|slot| !slot.current)?;
        Some(Slot(empty as u8))
    }

    /// The live drive in a slot without a current drive: the volume's own, or the one that another volume has in
    /// the slot. Volumes of a container span the same drives in the same slots, but the metadata on the drives
    /// names a new drive in each volume only when its rebuild begins.
    pub(super) fn drive_in(&self, at: usize, slot: Slot) -> Option<MemberId> {
        let is_live = |drive: &MemberId| !self.failed.has(*drive);
        let is_active =
            |drive: &MemberId| self.record.members[drive.0 as usize].state == MemberState::Active;
        let in_slot = |volume: &VolumeRecord| {
            let drive = volume.slots.get(slot.0 as usize)?.member;
            drive.filter(is_live)
        };
        let volumes = &self.record.volumes;
        let of_others = || {
            volumes
                .iter()
                .find_map(|other| in_slot(other).filter(is_active))
        };
        in_slot(&volumes[at]).or_else(of_others)
    }

    /// The smallest spare that is large enough for all volumes of the container and can be written; one that reports that
    /// it is about to fail only if there is no other.
    pub(super) fn fitting_spare(&self) -> Option<MemberId> {
        self.large_spares()
            .filter(|(spare, _)| !self.reported.not_writable.has(*spare))
            .min_by_key(|(spare, size_bytes)| {
                (self.reported.about_to_fail.has(*spare), *size_bytes)
            })
            .map(|(spare, _)| spare)
    }

    /// The spares that are large enough for all volumes of the container, with their sizes in bytes.
    fn large_spares(&self) -> impl Iterator<Item = (MemberId, u64)> {
        let need = self.needed_bytes();
        (0u8..)
            .zip(&self.record.members)
            .filter(move |(_, member)| {
                member.state == MemberState::Spare && member.size_bytes >= need
            })
            .map(|(spare, member)| (MemberId(spare), member.size_bytes))
    }

    /// Why there is no fitting spare.
    pub(super) fn why_none_fits(&self) -> Refused {
        let is_spare = |member: &MemberRecord| member.state == MemberState::Spare;
        if self.large_spares().next().is_some() {
            Refused::NotWritable
        } else if self.record.members.iter().any(is_spare) {
            Refused::TooSmall
        } else {
            Refused::NoSpare
        }
    }

    /// The spare that takes this slot: the one that served it before, else the one that fits best. One that reports
    /// that it is about to fail is taken only if there is no other. Then it is taken, because the volume has data
    /// without redundancy until the slot is filled: any drive is better than none. One that cannot be written any more is
    /// never taken, because nothing can be rebuilt onto it.
    fn spare_for(&self, slot: Slot) -> Option<MemberId> {
        let spares = [self.returning_to(slot), self.fitting_spare()];
        let spares = spares.into_iter().flatten();
        spares.min_by_key(|spare| self.reported.about_to_fail.has(*spare))
    }

    /// The spare that served this slot before, and lacks only what the bitmaps mark.
    fn returning_to(&self, slot: Slot) -> Option<MemberId> {
        let returns = |(spare, member): &(u8, &MemberRecord)| {
            member.state == MemberState::Spare
                && member.returns_to == Some(slot)
                && !self.reported.not_writable.has(MemberId(*spare))
        };
        let mut members = (0u8..).zip(&self.record.members);
        members.find(returns).map(|(spare, _)| MemberId(spare))
    }

    /// Notes that a slot's drive is current: bits may be cleared, and no other drive can return to the slot.
    pub(super) fn filled(&mut self, at: usize, slot: Slot) {
        self.reported.passed_over = MemberSet::default();
        let generation = self.record.generation;
        self.record.volumes[at].leave_absent_behind(generation);
        let is_spare = |member: &&mut MemberRecord| member.state == MemberState::Spare;
        for member in self.record.members.iter_mut().filter(is_spare) {
            member.returns_to = member.returns_to.filter(|&other| other != slot);
        }
    }

    /// Whether bits of a volume's bitmap may be cleared: no drive is missing, and the record says so.
    pub(crate) fn may_clear_bits(&self, at: usize) -> bool {
        let volume = &self.record.volumes[at];
        let whole = self.current_slots(volume).count() == u32::from(volume.geometry.members);
        let establishes = !matches!(self.jobs.kind(at), None | Some(JobKind::Check { .. }));
        let changes = self.switch.is_some() || self.leaving.is_some() || !self.failures.is_empty();
        let settled = volume.sync.is_none() && !volume.then_resync && !self.marks[at].failed;
        whole && settled && !establishes && !changes && self.is_durable()
    }

    /// Puts a spare into a slot of all volumes at once.
    fn take_spare(&mut self, at: usize, slot: Slot) -> Option<MemberId> {
        let wanted = match self.marks[at].filling {
            Filling::AsConfigured => {
                self.options.auto_rebuild && self.reported.awaited_until.is_none()
            }
            Filling::Wanted => true,
            Filling::GivenUp => false,
        };
        if !wanted || !self.record.volumes[at].geometry.redundant() {
            return None;
        }
        let Some(spare) = self.spare_for(slot) else {
            self.tell_of_passed_over(at, slot);
            return None;
        };
        let slot = slot.0 as usize;
        let old = self.record.volumes[at].slots[slot].member;
        self.record.members[spare.0 as usize].state = MemberState::Active;
        for volume in &mut self.record.volumes {
            // Volumes of a container span the same drives in the same slots.
            let place = &mut volume.slots[slot];
            if !place.current && place.member == old && !volume.not_started {
                *place = SlotRecord {
                    member: Some(spare),
                    current: false,
                };
            }
        }
        let volume = VolumeId(at as u8);
        self.event(Event::SpareActivated {
            volume,
            slot: Slot(slot as u8),
            member: spare,
            about_to_fail: self.reported.about_to_fail.has(spare),
        });
        Some(spare)
    }

    /// Tells once of each spare that would fit this slot if it could be written.
    fn tell_of_passed_over(&mut self, at: usize, slot: Slot) {
        let volume = VolumeId(at as u8);
        let is_news = |spare: &MemberId| {
            self.reported.not_writable.has(*spare) && !self.reported.passed_over.has(*spare)
        };
        let large = self.large_spares().map(|(spare, _)| spare);
        let news: MemberSet = large.filter(is_news).collect();
        for member in news.iter() {
            self.reported.passed_over.insert(member);
            self.event(Event::SpareNotWritable {
                volume,
                slot,
                member,
            });
        }
    }

    /// What a drive must have room for: everything up to the end of the last volume, and the metadata after it.
    pub(super) fn needed_bytes(&self) -> u64 {
        let end = |shape: &Geometry| shape.start_bytes + shape.component_bytes;
        let data = self
            .record
            .volumes
            .iter()
            .map(|volume| end(&volume.geometry))
            .max()
            .unwrap_or(0);
        data + METADATA_RESERVE_BYTES
    }

    fn begin_rebuild(&mut self, at: usize, slot: Slot, member: MemberId) {
        let volume = &mut self.record.volumes[at];
        volume.slots[slot.0 as usize] = SlotRecord {
            member: Some(member),
            current: false,
        };
        volume.sync = Some(SyncRecord {
            kind: SyncKind::Rebuild(slot),
            done_bytes: 0,
        });
        let shape = volume.geometry;
        let has_bitmap = volume.bitmap.is_some();
        self.jobs
            .add(at, &shape, JobKind::Rebuild(slot), JobName::Rebuild, 0);
        let returns = self.record.members[member.0 as usize].returns_to == Some(slot);
        self.jobs.go_by_bitmap(at, returns && has_bitmap);
        self.changed();
        self.view_changed();
    }
}
