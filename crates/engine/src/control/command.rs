//! The orders of an operator, and when they are refused.

use super::Controller;
use crate::control::marks::Filling;
use crate::control::message::{Command, Refused};
use crate::control::record::{JobKind, MemberRecord, MemberState, Returning};
use crate::event::JobName;
use crate::limits::CONTAINER_MEMBERS_MAX;
use crate::policy::ErrorClass;
use crate::units::{MemberId, Slot, SlotSet, VolumeId};

impl Controller {
    pub(super) fn command(&mut self, command: Command) -> Result<(), Refused> {
        match command {
            Command::Fail(member) => self.command_fail(member, false),
            Command::FailWithVolumes(member) => self.command_fail(member, true),
            Command::Remove(member) => self.command_remove(member),
            Command::MayAddSpare {
                member,
                size_bytes,
                returns,
            } => self.may_add_spare(member, size_bytes, returns).map(drop),
            Command::AddSpare {
                member,
                size_bytes,
                volatile_cache,
                kind,
                discards,
                returns,
            } => {
                let drive = MemberRecord {
                    state: MemberState::Spare,
                    size_bytes,
                    volatile_cache,
                    kind,
                    discards,
                    ..MemberRecord::ABSENT
                };
                self.command_add_spare(member, drive, returns)
            }
            Command::Replace { volume, slot, to } => self.command_replace(volume, slot, to),
            Command::Rebuild(volume) => self.command_rebuild(volume),
            Command::Scrub { volume, repair } => self.command_scrub(volume, repair, 0),
            Command::ContinueScrub {
                volume,
                repair,
                from_bytes,
            } => self.command_scrub(volume, repair, from_bytes),
            Command::CancelJob(volume) => {
                self.known(volume)?;
                if self.cancel_job(volume.0 as usize) {
                    Ok(())
                } else {
                    Err(Refused::NoSuch)
                }
            }
            Command::Pause { volume, paused } => {
                self.known(volume)?;
                if self.pause_job(volume.0 as usize, paused) {
                    Ok(())
                } else {
                    Err(Refused::NoSuch)
                }
            }
            Command::Rate(rate) => {
                self.set_rate(rate);
                Ok(())
            }
            Command::Stop => {
                self.stopping = true;
                self.view_changed();
                Ok(())
            }
        }
    }

    fn known(&self, volume: VolumeId) -> Result<(), Refused> {
        if (volume.0 as usize) < self.record.volumes.len() {
            Ok(())
        } else {
            Err(Refused::NoSuch)
        }
    }

    fn state(&self, member: MemberId) -> MemberState {
        self.record
            .members
            .get(member.0 as usize)
            .map_or(MemberState::Absent, |member| member.state)
    }

    fn command_fail(&mut self, member: MemberId, volumes_may_fail: bool) -> Result<(), Refused> {
        if !matches!(self.state(member), MemberState::Active | MemberState::Spare)
            || self.failed.has(member)
        {
            return Err(Refused::NoSuch);
        }
        for volume in &self.record.volumes {
            let left: SlotSet = match volume.slot_of(member) {
                Some(slot) => self.current_slots(volume).without(slot),
                None => continue,
            };
            let unsynced = volume
                .sync
                .is_some_and(|sync| !matches!(sync.kind, super::record::SyncKind::Rebuild(_)));
            let parity = volume.geometry.has_parity();
            let survives = volume.geometry.survives(left);
            // Parity is not established everywhere: a volume that stays in service would compute the lost data
            // from wrong parity.
            if (!survives && !volumes_may_fail) || (survives && unsynced && parity) {
                return Err(Refused::WouldLoseData);
            }
        }
        self.member_failed(member, ErrorClass::Gone, 0);
        Ok(())
    }

    fn command_remove(&mut self, member: MemberId) -> Result<(), Refused> {
        if !matches!(self.state(member), MemberState::Failed | MemberState::Spare) {
            return Err(if self.state(member) == MemberState::Active {
                Refused::WouldLoseData
            } else {
                Refused::NoSuch
            });
        }
        if self.copy_targets().has(member) {
            return Err(Refused::Busy);
        }
        self.record.members[member.0 as usize].state = MemberState::Absent;
        for volume in &mut self.record.volumes {
            let slots = volume.slots.iter_mut();
            slots
                // A failed volume keeps slots that are current: nothing else holds their data, so it needs this
                // drive back.
                .filter(|slot| !slot.current)
                .filter(|slot| slot.member == Some(member))
                .for_each(|slot| slot.member = None);
        }
        self.use_no_more(member);
        Ok(())
    }

    /// Whether a drive may become a spare. For a returning drive, the answer is the slot that it may return to.
    fn may_add_spare(
        &self,
        member: MemberId,
        size_bytes: u64,
        returns: Option<Returning>,
    ) -> Result<Option<Slot>, Refused> {
        if self.stopping {
            return Err(Refused::Stopping);
        }
        if usize::from(member.0) >= CONTAINER_MEMBERS_MAX
            || self.state(member) != MemberState::Absent
            || self.failed.has(member)
        {
            return Err(Refused::NoSuch);
        }
        if size_bytes < self.needed_bytes() {
            return Err(Refused::TooSmall);
        }
        let returns_to = returns.and_then(|returns| self.record.may_return(returns));
        if returns.is_some() && returns_to.is_none() {
            return Err(Refused::Outdated);
        }
        Ok(returns_to)
    }

    fn command_add_spare(
        &mut self,
        member: MemberId,
        drive: MemberRecord,
        returns: Option<Returning>,
    ) -> Result<(), Refused> {
        let returns_to = self.may_add_spare(member, drive.size_bytes, returns)?;
        let at = usize::from(member.0);
        while self.record.members.len() <= at {
            self.record.members.push(MemberRecord::ABSENT);
        }
        // Bad blocks on record under this number belong to the drive that had it before.
        self.record.bad_blocks.forget(member);
        self.record.members[at] = MemberRecord {
            returns_to,
            ..drive
        };
        for marks in &mut self.marks {
            // A new drive justifies another try.
            if marks.filling == Filling::GivenUp {
                marks.filling = Filling::AsConfigured;
            }
        }
        self.changed();
        self.view_changed();
        Ok(())
    }

    fn command_replace(
        &mut self,
        volume: VolumeId,
        slot: Slot,
        to: MemberId,
    ) -> Result<(), Refused> {
        self.known(volume)?;
        let at = volume.0 as usize;
        let place = self.record.volumes[at]
            .slots
            .get(slot.0 as usize)
            .ok_or(Refused::NoSuch)?;
        let usable = place.current && place.member.is_some_and(|member| !self.failed.has(member));
        if self.state(to) != MemberState::Spare || !usable {
            return Err(Refused::NoSuch);
        }
        if self.record.members[to.0 as usize].size_bytes < self.needed_bytes() {
            return Err(Refused::TooSmall);
        }
        if self.reported.not_writable.has(to) {
            return Err(Refused::NotWritable);
        }
        let same = place.member;
        let places: alloc::vec::Vec<usize> = (0..self.record.volumes.len())
            .filter(|&at| {
                self.record.volumes[at]
                    .slots
                    .get(slot.0 as usize)
                    .map(|s| s.member)
                    == Some(same)
            })
            .collect();
        // The slot's drive changes in all volumes or in none, so all of them must be free.
        let free =
            |&at: &usize| !self.has_job(at) && !self.marks[at].failed && !self.takes_no_writes(at);
        if !places.iter().all(free) {
            return Err(Refused::Busy);
        }
        for at in places {
            self.add_job(at, JobKind::Replace(slot, to), JobName::Replace, 0);
        }
        Ok(())
    }

    fn command_rebuild(&mut self, volume: VolumeId) -> Result<(), Refused> {
        self.known(volume)?;
        let at = volume.0 as usize;
        let record = &self.record.volumes[at];
        if !record.geometry.redundant() {
            return Err(Refused::NoRedundancy);
        }
        if self.takes_no_writes(at) {
            return Err(Refused::Busy);
        }
        let Some(slot) = self.empty_slot(at).filter(|_| !self.marks[at].failed) else {
            return Err(Refused::NoSuch);
        };
        if self.drive_in(at, slot).or(self.fitting_spare()).is_none() {
            return Err(self.why_none_fits());
        }
        self.marks[at].filling = Filling::Wanted;
        Ok(())
    }

    fn command_scrub(
        &mut self,
        volume: VolumeId,
        repair: bool,
        from_bytes: u64,
    ) -> Result<(), Refused> {
        self.known(volume)?;
        let at = volume.0 as usize;
        let record = &self.record.volumes[at];
        if !record.geometry.redundant() {
            return Err(Refused::NoRedundancy);
        }
        let whole = self.current_slots(record).count() == u32::from(record.geometry.members);
        // A scrub also writes: it repairs blocks that cannot be read.
        if self.has_job(at) || !whole || self.takes_no_writes(at) || record.not_started {
            return Err(Refused::Busy);
        }
        let name = if repair {
            JobName::Repair
        } else {
            JobName::Check
        };
        let from_bytes = from_bytes.min(record.geometry.component_bytes);
        self.add_job(at, JobKind::Check { repair }, name, from_bytes);
        Ok(())
    }
}
