//! Spares: slots without a current drive get one, and the rebuild begins.

use super::Controller;
use super::record::{JobKind, MemberState, SlotRecord, SyncKind, SyncRecord};
use crate::event::{Event, JobName};
use crate::layout::Geometry;
use crate::limits::METADATA_RESERVE_BYTES;
use crate::units::{MemberId, Slot, VolumeId};

impl Controller {
    /// Gives slots without a current drive to a spare, and queues what has to be rebuilt.
    pub(super) fn fill_empty_slots(&mut self) {
        if !self.failures.is_empty() {
            return;
        }
        for at in 0..self.record.volumes.len() {
            if self
                .record
                .volumes
                .iter()
                .any(|volume| volume.sync.is_some())
            {
                // One migration at a time per drive set.
                return;
            }
            let volume = &self.record.volumes[at];
            if self.has_job(at) || self.marks[at].failed || volume.read_only {
                continue;
            }
            let Some(slot) = volume.slots.iter().position(|slot| !slot.current) else {
                continue;
            };
            let present = volume.slots[slot]
                .member
                .filter(|&member| !self.failed.has(member));
            let Some(member) = present.or_else(|| self.take_spare(at, slot)) else {
                continue;
            };
            self.begin_rebuild(at, Slot(slot as u8), member);
        }
    }

    /// The smallest spare that can hold what the slot's drive holds, for all volumes at once.
    fn take_spare(&mut self, at: usize, slot: usize) -> Option<MemberId> {
        if !self.options.auto_rebuild || !self.record.volumes[at].geometry.redundant() {
            return None;
        }
        let need = self.needed_bytes();
        let (spare, _) = (0u8..)
            .zip(&self.record.members)
            .filter(|(_, member)| member.state == MemberState::Spare && member.size_bytes >= need)
            .min_by_key(|(_, member)| member.size_bytes)?;
        let old = self.record.volumes[at].slots[slot].member;
        let spare = MemberId(spare);
        self.record.members[spare.0 as usize].state = MemberState::Active;
        for volume in &mut self.record.volumes {
            // Volumes of a container span the same drives in the same slots.
            let place = &mut volume.slots[slot];
            if !place.current && place.member == old {
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
        });
        Some(spare)
    }

    /// What a drive must have room for: the end of the last volume, and the metadata behind it.
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
        self.jobs
            .add(at, &shape, JobKind::Rebuild(slot), JobName::Rebuild, 0);
        self.changed();
        self.view_changed();
    }
}
