//! Losing a member. The member is dropped from the view at once, and its failed mark is made durable on every
//! survivor. Writes that it missed are acknowledged only when the mark is durable and every shard has adopted the
//! new view. If a survivor fails meanwhile, its mark goes into the next version of the record, and writes that it
//! missed wait for that version.
//!
//! Whether a failure is recorded is decided after a short delay ([`FAILURES_HEARD_FOR`]), and the record is not
//! written meanwhile. If by then so many members have failed with the same errno that a volume is lost, the cause
//! is the host and not the drives: a shared cable or power supply, a file system that is full or read-only, a
//! kernel without memory. Then the volume returns errors and none of these failures is recorded, not even the
//! first, so that the volume starts with all members when the host works again.

use super::{Controller, Output, PendingFailure};
use crate::control::message::Message;
use crate::control::record::{MemberState, VolumeRecord};
use crate::event::Event;
use crate::limits::FAILURES_HEARD_FOR;
use crate::policy::ErrorClass;
use crate::units::{MemberId, MemberSet, Nanos, Slot, SlotSet, VolumeId};

/// A member that is out of use, and whose failure may or may not go on record.
#[derive(Clone, Copy, Debug)]
pub(super) struct Undecided {
    member: MemberId,
    errno: i32,
    since: Nanos,
    /// Volumes that survived without the member, as bits.
    survived: u32,
    /// Recorded whatever happens to volumes: the member is a spare, or has just been replaced.
    in_any_case: bool,
}

/// The other slots with the same content as this one. Only mirrors have such slots, and they are the same in all
/// rows.
fn copies(volume: &VolumeRecord, slot: Slot) -> SlotSet {
    let shape = &volume.geometry;
    let equal = shape
        .data_index(0, slot)
        .map_or(SlotSet(0), |data_index| shape.data_slots(0, data_index));
    equal.without(slot)
}

impl Controller {
    pub(super) fn member_failed(&mut self, member: MemberId, class: ErrorClass, errno: i32) {
        if self.failed.has(member) {
            return;
        }
        let replaced = self.switch_loses(member);
        let known = self
            .record
            .members
            .get(member.0 as usize)
            .map(|member| member.state);
        let in_use = matches!(known, Some(MemberState::Active | MemberState::Spare));
        if !in_use && !replaced {
            return;
        }
        self.failed.insert(member);
        self.event(Event::MemberFailed {
            member,
            class,
            errno,
        });
        if let Some(next) = self.updater.lost(member, self.now) {
            self.persist(next);
        }
        let survived = (0..self.record.volumes.len())
            .filter(|&at| self.volume_loses(at, member, errno))
            .fold(0, |volumes, at| volumes | 1 << at);
        self.end_jobs_of(member);
        self.view_changed();
        self.undecided.push(Undecided {
            member,
            errno,
            since: self.now,
            survived,
            in_any_case: replaced || known == Some(MemberState::Spare),
        });
        if errno == 0 {
            // An operator has ordered it: no more failures are waited for.
            self.decide_failures();
        }
    }

    /// Whether every failure so far is on record, or will deliberately not be recorded.
    pub(super) fn has_settled_failures(&self) -> bool {
        self.failures.is_empty() && self.undecided.is_empty()
    }

    /// Whether the record must not be updated any more. When every volume has failed, the failure of some drive
    /// is deliberately not on record, so that the volumes start again once the drive is back. If that drive lacks
    /// the latest update, one more update would leave it two generations behind, and the next start would take it
    /// for an old copy. A volume that is still in service needs its record updated, whatever the cost to the
    /// others.
    pub(super) fn would_outdate(&self) -> bool {
        let unrecorded = self.record.active().0 & self.failed.0;
        let behind = unrecorded & self.updater.lacking().0;
        behind != 0 && self.volumes_need_no_record()
    }

    /// The members that the record is written to; none when it must not be updated any more. Spares carry a
    /// record of their own, which does not change.
    pub(super) fn recorders(&self) -> MemberSet {
        if self.would_outdate() {
            return MemberSet::default();
        }
        MemberSet(self.record.active().0 & !self.failed.0)
    }

    fn volumes_need_no_record(&self) -> bool {
        let mut volumes = self.marks.iter().zip(&self.record.volumes);
        volumes.all(|(marks, volume)| marks.failed || volume.read_only)
    }

    /// When the next failure's recording has to be decided.
    #[inline]
    fn next_decision_on_failure(&self) -> Option<Nanos> {
        let first = self.undecided.first()?;
        Some(first.since.after(FAILURES_HEARD_FOR))
    }

    /// When something is to be decided although nothing happens. Each turn of the controller's shard asks this.
    #[inline]
    pub(crate) fn next_decision(&self) -> Option<Nanos> {
        match (
            self.next_decision_on_failure(),
            self.reported.awaited_until(),
        ) {
            (Some(one), Some(other)) => Some(one.min(other)),
            (one, other) => one.or(other),
        }
    }

    /// Decides which failures to record, if it is time.
    pub(super) fn run_decisions(&mut self) {
        if self
            .next_decision_on_failure()
            .is_some_and(|due| due <= self.now)
        {
            self.decide_failures();
        }
    }

    fn decide_failures(&mut self) {
        for undecided in core::mem::take(&mut self.undecided) {
            if self.goes_on_record(&undecided) {
                self.mark_failed(undecided.member, undecided.survived);
                let (version, epoch) = (self.changed(), self.view_changed());
                self.failures.push(PendingFailure {
                    member: undecided.member,
                    version,
                    epoch,
                });
            }
        }
    }

    /// Whether the failure is recorded: a volume that survived it is still in service, or was lost for another
    /// reason than the host's error.
    fn goes_on_record(&self, undecided: &Undecided) -> bool {
        let is_the_hosts = |at: usize| self.marks[at].lost_by == Some(undecided.errno);
        let mut survivors = (0..self.marks.len()).filter(|&at| undecided.survived >> at & 1 == 1);
        undecided.in_any_case || survivors.any(|at| !is_the_hosts(at))
    }

    /// Stops using a member whose new state is already in the record. This is announced like a failure, because
    /// work under way on the member waits for the announcement.
    pub(super) fn use_no_more(&mut self, member: MemberId) {
        self.failed.insert(member);
        let version = self.changed();
        let epoch = self.view_changed();
        if !self.announced.has(member) {
            self.failures.push(PendingFailure {
                member,
                version,
                epoch,
            });
        }
    }

    /// Works out what the loss means to one volume. Returns whether it has to be recorded because the volume
    /// stays in service without the member.
    fn volume_loses(&mut self, at: usize, member: MemberId, errno: i32) -> bool {
        let volume = &self.record.volumes[at];
        let Some(slot) = volume.slot_of(member) else {
            return false;
        };
        if !volume.slots[slot.0 as usize].current {
            // The drive was only being filled: the volume loses no data.
            return true;
        }
        if self.marks[at].failed {
            return false;
        }
        let left: SlotSet = self.current_slots(volume);
        if volume.geometry.survives(left) {
            return true;
        }
        // Recording this failure would make the loss permanent. Unrecorded, the array can start again when the
        // drive comes back.
        self.marks[at].failed = true;
        self.marks[at].lost_by = Some(errno);
        self.event(Event::VolumeFailed(VolumeId(at as u8)));
        false
    }

    /// Puts a failure on record. `survived` are the volumes that survived without the member, as bits.
    fn mark_failed(&mut self, member: MemberId, survived: u32) {
        self.record.members[member.0 as usize].state = MemberState::Failed;
        for at in 0..self.record.volumes.len() {
            let survives = survived >> at & 1 == 1;
            let volume = &self.record.volumes[at];
            let Some(Slot(slot)) = volume.slot_of(member) else {
                continue;
            };
            let is_copied = self.current_slots(volume).0 & copies(volume, Slot(slot)).0 != 0;
            let volume = &mut self.record.volumes[at];
            // A failed volume may have written to another copy, which this drive missed. A slot without another
            // copy stays current: nothing is written to it.
            if survives || (is_copied && !volume.not_started) {
                volume.slots[slot as usize].current = false;
            }
            let filling = matches!(
                volume.sync.map(|sync| sync.kind),
                Some(super::record::SyncKind::Rebuild(target)) if target == Slot(slot)
            );
            if filling {
                volume.sync = None;
            }
        }
    }

    /// Announces failures whose mark is durable and whose epoch every shard has adopted: from then on no shard
    /// reads from the member. It must not wait until the work that the epoch forbids has drained: a fence or a
    /// stop waits for writes, and writes that the member missed wait for this announcement.
    pub(super) fn run_failures(&mut self) {
        let mut done = MemberSet::default();
        for failure in &self.failures {
            if self.updater.has(failure.version) && self.all_adopted(failure.epoch) {
                done.insert(failure.member);
            }
        }
        if done.is_empty() {
            return;
        }
        self.failures.retain(|failure| !done.has(failure.member));
        for member in done.iter() {
            self.announce(member);
            self.event(Event::FailureRecorded(member));
        }
    }

    /// Tells the shards that the record no longer counts on a member: writes that it missed may be acknowledged.
    pub(super) fn announce(&mut self, member: MemberId) {
        self.announced.insert(member);
        self.outputs
            .push_back(Output::Broadcast(Message::FailureDurable(self.announced)));
    }
}
