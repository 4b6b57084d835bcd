//! Changes of the bad-block log on their way to the record.
//!
//! A shard reports that a range has become unreadable for good, or that a recorded range has been durably
//! written, and waits. The controller answers once the record with the change is durable on all live members and
//! every shard has adopted the view with it. Changes that arrive meanwhile share the next update.

use super::{Controller, Output};
use crate::control::bad_blocks::{BadBlockChange, BadRange, Recorded};
use crate::control::message::Message;
use crate::control::record::MemberState;
use crate::event::Event;
use crate::token::Token;
use crate::units::{MemberId, ShardId};
use alloc::vec::Vec;

/// A change, and the token of the step that waits for it.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    shard: ShardId,
    token: Token,
    range: BadRange,
    change: BadBlockChange,
}

/// Changes that wait for the next update, and those of the update under way with its version and epoch.
#[derive(Debug, Default)]
pub(super) struct Recording {
    waiting: Vec<Waiting>,
    under_way: Vec<Waiting>,
    version: u64,
    epoch: u64,
}

impl Controller {
    /// Queues a change that a shard has requested.
    #[cold]
    pub(super) fn bad_blocks_changed(&mut self, wanted: &Message) {
        if let Message::BadBlocks {
            shard,
            token,
            member,
            offset_bytes,
            length_bytes,
            change,
        } = *wanted
        {
            let range = BadRange {
                member,
                offset_bytes,
                length_bytes: u64::from(length_bytes),
            };
            self.recording.waiting.push(Waiting {
                shard,
                token,
                range,
                change,
            });
        } else {
            unreachable!("{wanted:?} changes no bad blocks");
        }
    }

    pub(super) fn run_recording(&mut self) {
        if !self.recording.under_way.is_empty() {
            let recorded =
                self.updater.has(self.recording.version) && self.all_adopted(self.recording.epoch);
            if !recorded && !self.recorders().is_empty() {
                return;
            }
            let outcome = if recorded {
                Recorded::Yes
            } else {
                Recorded::NoRoom
            };
            for waiting in core::mem::take(&mut self.recording.under_way) {
                self.settle_recording(&waiting, outcome);
            }
        }
        if !self.recording.waiting.is_empty() {
            self.begin_recording();
        }
    }

    /// Answers the changes under way: the metadata cannot express them.
    pub(super) fn refuse_recording(&mut self) {
        for waiting in core::mem::take(&mut self.recording.under_way) {
            self.settle_recording(&waiting, Recorded::NotExpressible);
        }
    }

    /// Puts the waiting changes into the record.
    #[cold]
    fn begin_recording(&mut self) {
        for member in self.record.bad_blocks.members().iter() {
            if self.is_absent(member) {
                self.record.bad_blocks.forget(member);
            }
        }
        for waiting in core::mem::take(&mut self.recording.waiting) {
            let applied = match waiting.change {
                // The member is not read any more in this session, so its ranges stay as recorded. If its failure
                // is not on record because it failed a volume, they still count in the next session.
                _ if self.failed.has(waiting.range.member) => Ok(()),
                _ if self.is_absent(waiting.range.member) => Ok(()),
                BadBlockChange::Lost => self.record.bad_blocks.add(waiting.range),
                BadBlockChange::Rewritten => self.record.bad_blocks.remove(waiting.range),
            };
            if applied.is_ok() {
                self.recording.under_way.push(waiting);
            } else {
                self.event(Event::BadBlockLogFull(waiting.range.member));
                self.settle_recording(&waiting, Recorded::NoRoom);
            }
        }
        self.recording.version = self.changed();
        self.recording.epoch = self.view_changed();
    }

    fn is_absent(&self, member: MemberId) -> bool {
        let record = self.record.members.get(usize::from(member.0));
        record.is_none_or(|record| record.state == MemberState::Absent)
    }

    fn settle_recording(&mut self, waiting: &Waiting, outcome: Recorded) {
        let Waiting {
            shard,
            token,
            range,
            change,
        } = *waiting;
        let message = Message::BadBlocksSettled {
            token,
            change,
            outcome,
        };
        self.outputs.push_back(Output::Send(shard, message));
        if outcome == Recorded::Yes && !self.failed.has(range.member) {
            self.event(match change {
                BadBlockChange::Lost => Event::BadBlocksRecorded(range),
                BadBlockChange::Rewritten => Event::BadBlocksCleared(range),
            });
        }
    }
}
