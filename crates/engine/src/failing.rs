//! When members fail: what an error of a step means, by the table in [`crate::policy`], and how work goes
//! on without what could not be read.

use crate::control::message::Message;
use crate::event::Event;
use crate::inflight::{Progress, Work};
use crate::limits::{GRAIN_BYTES, RETRIES_MAX};
use crate::plan::StepKind;
use crate::policy::{ErrorClass, MemberError, Reaction, reaction};
use crate::ranges::{NONE, Part, PartKind};
use crate::shard::{Engine, Output};
use crate::units::{MemberId, SlotSet};
use crate::world::{Io, Token};

impl Engine {
    /// Reacts to a member's error; returns whether the step is outstanding again.
    pub(crate) fn step_error(&mut self, index: u32, at: usize, error: MemberError) -> bool {
        self.stats.member_errors += 1;
        let running = &mut self.running[index];
        let step = running.plan.steps()[at];
        let is_read = step.kind == StepKind::Read;
        let state = &mut running.states[at];
        let member = MemberId(state.member);
        let redundant = self
            .volumes
            .get(running.volume as usize)
            .is_none_or(|volume| volume.shape.redundant());
        match reaction(error.class, is_read) {
            Reaction::Retry if state.retries < RETRIES_MAX && !self.failed.has(member) => {
                state.retries += 1;
                self.in_flight[member.0 as usize] += 1;
                self.outputs.push_back(Output::Io(Io {
                    token: Token::new(index, at),
                    member,
                    kind: step.kind,
                    offset_bytes: step.offset_bytes,
                    length_bytes: step.length_bytes,
                }));
                return true;
            }
            Reaction::Reconstruct => self.step_lost(index, at, true),
            Reaction::Report => {
                state.progress = Progress::Done;
                running.not_supported = true;
            }
            // Without redundancy a bad block is the client's error, not the end of the drive.
            _ if !redundant && error.class == ErrorClass::Media => self.step_lost(index, at, true),
            Reaction::Retry | Reaction::FailMember => {
                self.fail_member(member, error.class, error.errno);
                self.step_lost(index, at, false);
            }
        }
        false
    }

    pub(crate) fn step_lost(&mut self, index: u32, at: usize, media: bool) {
        let running = &mut self.running[index];
        let state = &mut running.states[at];
        if running.plan.steps()[at].kind == StepKind::Read {
            state.progress = Progress::Failed { media };
            running.read_failed = true;
        } else {
            state.progress = Progress::Missed;
            running.missed.insert(MemberId(state.member));
        }
    }

    /// Stops using a member at once and tells the controller.
    pub(crate) fn fail_member(&mut self, member: MemberId, class: ErrorClass, errno: i32) {
        if self.failed.has(member) {
            return;
        }
        self.failed.insert(member);
        self.refresh_volumes();
        self.tell_controller(Message::MemberFailed {
            member,
            class,
            errno,
        });
    }

    pub(crate) fn refresh_volumes(&mut self) {
        for volume in &mut self.volumes {
            volume.refresh(self.failed, self.durable_failed);
        }
    }

    /// A stage ended with reads that brought nothing.
    pub(crate) fn reads_failed(&mut self, index: u32) {
        match self.running[index].work {
            Work::Direct { .. } => {
                self.recovering.push_back(index);
                self.continue_recovering();
            }
            Work::Write { parts } => self.plan_again(index, parts),
            Work::Reconstruct { part } => self.plan_again(index, part),
            Work::Background { .. } => self.background_failed(index),
            Work::ControlFlush { .. } => unreachable!("a flush reads nothing"),
        }
    }

    /// Gives a plan up before it has written anything and puts its parts back at the head of their
    /// queue, to be planned with what has been learned.
    fn plan_again(&mut self, index: u32, parts: u32) {
        let running = &self.running[index];
        debug_assert!(
            !running.wrote,
            "a plan that has written only finishes from memory"
        );
        self.stats.replans += 1;
        let mut avoid = SlotSet(0);
        for (step, state) in running.plan.steps().iter().zip(&running.states) {
            if let Progress::Failed { media: true } = state.progress {
                avoid = avoid.with(step.slot);
            }
        }
        let mut part = parts;
        if avoid != SlotSet(0) && self.split_reconstruct(index, part) {
            return;
        }
        while part != NONE {
            let avoided = self.ranges.parts[part].avoid;
            self.ranges.parts[part].avoid = SlotSet(avoided.0 | avoid.0);
            part = self.ranges.parts[part].next;
        }
        let lock = self.running[index].lock;
        // Requeue before unlocking, so that nobody who came later gets the range first.
        let key = self.ranges.key_of_lock(lock);
        self.ranges.requeue(key, parts);
        self.release(index);
    }

    /// Replaces a part that met an unreadable block by parts of one grain each, so that only the block
    /// itself has to be reconstructed; false when it is that small already, or too few parts are free.
    fn split_reconstruct(&mut self, index: u32, part: u32) -> bool {
        let whole = self.ranges.parts[part];
        let pieces = (whole.high - whole.low).div_ceil(GRAIN_BYTES);
        let is_read = matches!(whole.kind, PartKind::Reconstruct { .. });
        if !is_read || pieces < 2 || self.ranges.parts.available() <= pieces as usize {
            return false;
        }
        let key = self.ranges.key_of_lock(self.running[index].lock);
        let mut low = whole.low;
        while low < whole.high {
            let Some(piece) = self.ranges.parts.take() else {
                break;
            };
            let high = (low / GRAIN_BYTES * GRAIN_BYTES + GRAIN_BYTES).min(whole.high);
            let buffer = whole.buffer.at(low - whole.low);
            let avoid = SlotSet(0);
            self.ranges.parts[piece] = Part {
                low,
                high,
                buffer,
                avoid,
                ..whole
            };
            self.requests[whole.request].outstanding += 1;
            self.ranges.enqueue(key, piece);
            low = high;
        }
        self.release(index);
        self.parts_done(part, false);
        true
    }

    /// Fails members whose I/O has been outstanding for too long. The memory of such an I/O stays
    /// untouched, and its request unanswered, until the I/O itself comes back.
    pub(crate) fn check_deadlines(&mut self) {
        let deadline = self.options.member_deadline;
        let mut late = self.overdue_singles();
        for index in 0..self.running.capacity() as u32 {
            let running = &mut self.running[index];
            if running.outstanding == 0
                || running.overdue
                || self.now.since(running.started) < deadline
            {
                continue;
            }
            running.overdue = true;
            for (at, state) in running.states.iter().enumerate() {
                if state.progress == Progress::Outstanding && state.member != u8::MAX {
                    late.insert(MemberId(state.member));
                    self.outputs
                        .push_back(Output::Cancel(Token::new(index, at)));
                }
            }
        }
        for member in late.iter() {
            self.emit(Event::MemberOverdue(member));
            self.fail_member(member, ErrorClass::Path, 110);
        }
    }
}
