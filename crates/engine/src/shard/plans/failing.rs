//! When members fail: what an error of a step means, by the table in [`crate::policy`], and who has to know of a
//! member that is used no more. How work continues without what could not be read is decided in
//! [`crate::shard::repair::recover`].

use crate::control::message::Message;
use crate::flight::states::Progress;
use crate::limits::RETRIES_MAX;
use crate::output::Output;
use crate::policy::{Asked, ErrorClass, MemberError, Reaction, reaction};
use crate::shard::Engine;
use crate::units::{MemberId, MemberSet};
use crate::world::Io;

impl Engine {
    /// Reacts to a member's error; returns whether the step is outstanding again.
    pub(crate) fn step_error(&mut self, index: u32, at: usize, error: MemberError) -> bool {
        self.desk.stats.member_errors += 1;
        let running = self.flight.running_mut(index);
        let step = running.plan().steps()[at];
        let state = running.states()[at];
        let member = state.member();
        let volume = self.volumes.get(running.volume() as usize);
        // The volume can do without a drive that is only being copied to: better fail it than let it take the slot
        // without this block.
        let redundant =
            volume.is_none_or(|volume| volume.shape().redundant() || !volume.is_in_slot(member));
        let kind = self.volumes.view().kind_of(member);
        let asked = match state.progress() {
            // The write over recorded bad blocks is done; this answers the flush after it.
            Progress::Flushing => Asked::Durability,
            _ => Asked::of(step.kind),
        };
        match reaction(asked, error.errno, kind, redundant) {
            Reaction::Retry
                if state.retries() < RETRIES_MAX && !self.members.failed().has(member) =>
            {
                running.retry_step(at);
                self.members.sent(member);
                self.desk.ask(Output::Io(Io {
                    token: running.name_of(index, at),
                    member,
                    kind: step.kind,
                    offset_bytes: step.offset_bytes,
                    length_bytes: step.length_bytes,
                }));
                return true;
            }
            Reaction::LoseBlock => self.step_lost(index, at, true),
            Reaction::Retry | Reaction::FailMember => {
                self.fail_member(member, error.class, error.errno);
                self.step_lost(index, at, false);
            }
        }
        false
    }

    pub(crate) fn step_lost(&mut self, index: u32, at: usize, media: bool) {
        self.flight.running_mut(index).lose_step(at, media);
    }

    /// Stops using a member at once and tells the controller.
    pub(crate) fn fail_member(&mut self, member: MemberId, class: ErrorClass, errno: i32) {
        if self.members.failed().has(member) {
            return;
        }
        self.note_failed([member].into_iter().collect());
        self.refresh_volumes();
        self.desk.tell_controller(Message::MemberFailed {
            member,
            class,
            errno,
        });
    }

    /// Learns of members that other shards have seen fail.
    #[inline]
    pub(crate) fn hear_of_failures(&mut self) {
        let failed = self.order.claims.failed();
        if !failed.within(self.members.failed()) {
            self.heard_of(failed);
        }
    }

    #[cold]
    fn heard_of(&mut self, failed: MemberSet) {
        self.note_failed(failed);
        self.refresh_volumes();
    }

    /// Takes note that members have failed: no shard may use them from now on.
    pub(crate) fn note_failed(&mut self, members: MemberSet) {
        if !members.within(self.members.failed()) {
            self.order.claims.fail(members);
        }
        self.members.fail(members, self.desk.now());
        self.watch_members();
    }

    pub(crate) fn refresh_volumes(&mut self) {
        for volume in self.volumes.iter_mut() {
            volume.refresh(self.members.failed(), self.members.durable_failed());
        }
    }

    /// Works out which members need a second look: failed ones, those with recorded ranges, and those that are
    /// being filled.
    #[cold]
    pub(crate) fn watch_members(&mut self) {
        let recorded = self.volumes.view().bad_blocks.members();
        let watched = MemberSet(recorded.0 | self.being_filled().0);
        self.members.watch(watched);
    }
}
