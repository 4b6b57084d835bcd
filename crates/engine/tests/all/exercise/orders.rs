//! What operators order: every command, with arguments that are right, nearly right, or anything.

use super::Exercise;
use super::script::Script;
use crate::memory::{Disk, MIB};
use engine::control::message::{Command, Message};
use engine::control::record::Returning;
use engine::limits::{CONTAINER_MEMBERS_MAX, METADATA_RESERVE_BYTES};
use engine::policy::MemberKind;
use engine::units::{MemberId, Slot, VolumeId};

impl Exercise {
    pub(super) fn order(&mut self, script: &mut Script) {
        let volume = self.a_volume(script);
        let member = self.any_member(script);
        let command = match script.below(18) {
            0 | 1 => Command::Fail(member),
            2 => Command::FailWithVolumes(member),
            3 | 4 => Command::Remove(member),
            5..=7 => return self.add_spare(script),
            8 | 9 => Command::Replace {
                volume,
                slot: Slot(if script.one_in(8) {
                    script.byte()
                } else {
                    script.below(8) as u8
                }),
                to: member,
            },
            10 => Command::Rebuild(volume),
            11 | 12 => Command::Scrub {
                volume,
                repair: script.one_in(2),
            },
            13 => Command::ContinueScrub {
                volume,
                repair: script.one_in(2),
                from_bytes: script.any_number(),
            },
            14 => Command::CancelJob(volume),
            15 => Command::Pause {
                volume,
                paused: script.one_in(2),
            },
            16 => Command::Rate(script.any_number()),
            _ if script.one_in(4) => Command::Stop,
            _ => Command::Rate(0),
        };
        self.give(command);
    }

    pub(super) fn give(&mut self, command: Command) {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.ordered.insert(ticket);
        self.send(0, Message::Command { ticket, command });
    }

    fn a_volume(&self, script: &mut Script) -> VolumeId {
        if script.one_in(8) {
            return VolumeId(script.byte());
        }
        VolumeId(script.below(self.models.len() as u64) as u8)
    }

    fn any_member(&self, script: &mut Script) -> MemberId {
        if script.one_in(8) {
            return MemberId(script.byte());
        }
        let count = self.array.shared.borrow().disks.len();
        MemberId(script.below(count as u64) as u8)
    }

    /// Orders a drive to join, or asks whether it may: a new one, one that has been a member, or one whose number is
    /// taken or impossible.
    fn add_spare(&mut self, script: &mut Script) {
        let next = MemberId(self.array.shared.borrow().disks.len() as u8);
        let member = if script.one_in(4) {
            MemberId(script.byte())
        } else {
            next
        };
        let is_possible = usize::from(member.0) < CONTAINER_MEMBERS_MAX;
        let mut returns = None;
        let size_bytes = if is_possible && !self.members.contains(&member) {
            let (disk, returning) = self.a_drive(script);
            let size_bytes = disk.bytes.len() as u64;
            returns = returning;
            self.members.insert(member);
            let mut shared = self.array.shared.borrow_mut();
            while shared.disks.len() <= usize::from(member.0) {
                shared.disks.push(Disk::empty(0));
            }
            shared.disks[usize::from(member.0)] = disk;
            size_bytes
        } else if is_possible {
            self.array.shared.borrow().disks[usize::from(member.0)]
                .bytes
                .len() as u64
        } else {
            script.any_number()
        };
        if script.one_in(16) {
            // A drive that claims to hold what it does not.
            returns = Some(Returning {
                slot: Slot(script.byte()),
                generation: script.any_number(),
            });
            self.is_true = false;
        }
        self.give(Command::MayAddSpare {
            member,
            size_bytes: script.pick(&[size_bytes, 0, u64::MAX]),
            returns,
        });
        if !script.one_in(6) {
            self.give(Command::AddSpare {
                member,
                size_bytes,
                volatile_cache: script.one_in(2),
                kind: script.pick(&[MemberKind::Device, MemberKind::File]),
                discards: !script.one_in(3),
                returns,
            });
        }
    }

    /// A new drive, perhaps of an unsuitable size, or one that has failed and still holds what it held then.
    fn a_drive(&self, script: &mut Script) -> (Disk, Option<Returning>) {
        let shared = self.array.shared.borrow();
        let controller = self.controller();
        if script.one_in(2) {
            let from = script.below(shared.disks.len() as u64) as usize;
            let (member, disk) = (MemberId(from as u8), &shared.disks[from]);
            let record = disk.record.as_ref();
            let slot = record.and_then(|record| record.volumes[0].slot_of(member));
            let served = |slot: Slot, record: &engine::control::record::Record| {
                let mut volumes = record.volumes.iter();
                volumes.all(|volume| volume.slots[usize::from(slot.0)].current)
            };
            if let (Some(record), Some(slot)) = (record, slot)
                && served(slot, record)
                && controller.has_failed(member)
                && !self.is_waited_for(member)
            {
                let returning = Returning {
                    slot,
                    generation: record.generation,
                };
                let copy = Disk {
                    bytes: disk.bytes.clone(),
                    record: disk.record.clone(),
                    ..Disk::empty(0)
                };
                return (copy, Some(returning));
            }
        }
        let volumes = controller.wanted().volumes.iter();
        let ends =
            volumes.map(|volume| volume.geometry.start_bytes + volume.geometry.component_bytes);
        let needed = ends.max().unwrap_or(0) + METADATA_RESERVE_BYTES;
        let size_bytes = script.pick(&[needed, needed + MIB, needed - 512, 0]);
        (Disk::empty(size_bytes), None)
    }

    /// Begins or ends the inspection of a stripe.
    pub(super) fn inspect(&mut self, script: &mut Script) {
        let volume = self.a_volume(script);
        let ticket = script.below(4);
        let shards = self.array.shards.len();
        if script.one_in(3) {
            (0..shards).for_each(|shard| self.send(shard, Message::Inspected { ticket }));
            return;
        }
        let shape = self.array.shards[0].engine.geometry(volume);
        let size_bytes = shape.map_or(0, |shape| shape.size_bytes);
        let offset_bytes = if script.one_in(6) {
            script.any_number()
        } else {
            script.below(size_bytes)
        };
        let shard = script.below(shards as u64) as usize;
        self.send(
            shard,
            Message::Inspect {
                ticket,
                volume,
                offset_bytes,
            },
        );
    }
}
