//! Running plans: steps go out stage by stage, and their answers come back here. What an error means is decided in
//! [`crate::shard::plans::failing`].
//!
//! What is called from here starts no plan itself: work that continues in pieces, waits for the record, corrects what a
//! scrub has found, or writes a bitmap. It says what comes next ([`Next`], [`NextStage`], or the plan that is to be
//! started), and that is done here.
//!
//! Until its first write step has gone out a plan may be given up and made again with what has been
//! learned. After that it may only finish from memory: a member that misses a write is failed, the
//! other writes of the plan run on, and the plan is acknowledged once the failure is on record.

use crate::control::message::{FlushOutcome, Message};
use crate::flight::running::{Next, Work};
use crate::order::ranges::NONE;
use crate::output::Output;
use crate::plan::{Step, StepKind};
use crate::policy::MemberError;
use crate::shard::Engine;
use crate::shard::logs::unrecorded::NextStage;
use crate::token::Token;
use crate::units::{MemberId, MemberSet, Slot};
use crate::world::Io;

impl Engine {
    /// Starts a plan, or queues it until there is scratch memory.
    #[inline]
    pub(crate) fn start(&mut self, index: u32) {
        let running = self.flight.running_mut(index);
        running.make_steps_idle();
        self.desk.stats.plan_steps += running.plan().steps().len() as u64;
        self.desk.stats.plan_segments += running.plan().segments_count() as u64;
        if let Work::Write { .. } = running.work() {
            // The plan was made without members whose failure is not on record: they miss this write.
            running.miss_all(self.volumes[running.volume() as usize].unrecorded());
        }
        if running.plan().scratch_bytes() > 0 && !self.flight.lend_scratch(index) {
            return;
        }
        self.advance(index);
    }

    /// Starts plans that waited for scratch memory and can have it now.
    #[inline]
    pub(crate) fn retry_scratch(&mut self) {
        if self.flight.waiting_for_scratch() > 0 {
            self.retry_scratch_some();
        }
    }

    #[inline(never)]
    fn retry_scratch_some(&mut self) {
        let mut passed = 0;
        while let Some(index) = self.flight.lend_next_scratch(&mut passed) {
            self.advance(index);
        }
    }

    /// Issues stages until something is outstanding, then returns; finishes the plan at its end.
    #[inline]
    pub(crate) fn advance(&mut self, index: u32) {
        loop {
            let running = self.flight.running_mut(index);
            if running.has_failed_reads() {
                let next = self.reads_failed(index);
                return self.go_on(index, next);
            }
            if running.next_step().is_none() {
                return self.finish(index);
            }
            running.begin_stage(self.desk.now());
            match self.prepare_next_stage(index) {
                NextStage::MayBegin => self.issue_stage(index),
                NextStage::Waits => return,
                NextStage::GivenUp => continue,
            }
            if self.flight.running(index).outstanding() > 0 {
                return;
            }
        }
    }

    /// Does what comes next for a plan. This is rare, and a function of its own, so that `start` is not inlined into
    /// `advance`.
    #[cold]
    pub(crate) fn go_on(&mut self, index: u32, next: Next) {
        match next {
            Next::Start => self.start(index),
            Next::Nothing => {}
            Next::End => self.finish(index),
        }
    }

    /// Ends a plan whose steps are done, and starts the plan that follows from that, if there is one.
    #[inline]
    fn finish(&mut self, index: u32) {
        let next = self.end_or_continue(index);
        self.start_next(next);
    }

    /// Starts the plan that follows from the end of another, if there is one.
    #[inline]
    pub(crate) fn start_next(&mut self, next: Option<u32>) {
        if let Some(plan) = next {
            // Not `start` itself, which would be inlined here and, with this, into `advance`.
            self.go_on(plan, Next::Start);
        }
    }

    #[inline]
    fn issue_stage(&mut self, index: u32) {
        let running = self.flight.running(index);
        let first = running.next_step();
        let first = first.expect("a plan without steps to come is at its end");
        let steps = running.plan().steps();
        let stage = steps[first].stage;
        let others = steps[first..].iter().position(|step| step.stage != stage);
        let end = others.map_or(steps.len(), |others| first + others);
        assert!(
            end == steps.len() || steps[end].stage > stage,
            "plan {index} goes back to stage {}",
            steps[end].stage
        );
        let mut may_write = true;
        for at in first..end {
            match self.flight.running(index).plan().steps()[at].kind {
                StepKind::Xor { .. } | StepKind::Compare => self.issue_computation(index, at),
                StepKind::Log { .. } => may_write &= self.log_step(index, at),
                _ => self.issue_io(index, at),
            }
        }
        self.flight.running_mut(index).stage_is_out(end);
        if !may_write {
            self.give_up_writing(index);
        }
    }

    #[inline]
    fn issue_computation(&mut self, index: u32, at: usize) {
        let (running, stats) = (self.flight.running_mut(index), &mut self.desk.stats);
        let step = &running.plan().steps()[at];
        stats.xors += 1;
        stats.xor_bytes += step.length_bytes * u64::from(step.segments);
        if !matches!(step.kind, StepKind::Compare) {
            stats.xor_written_bytes += step.length_bytes;
        }
        running.step_goes_out(at);
        let token = running.name_of(index, at);
        self.desk.ask(Output::Compute(token));
    }

    #[inline]
    fn issue_io(&mut self, index: u32, at: usize) {
        let running = self.flight.running(index);
        let step = &running.plan().steps()[at];
        let member = match running.work() {
            // The controller flushes drives, not slots.
            Work::ControlFlush { .. } => Some(MemberId(step.slot.0)),
            _ => self.volumes[running.volume() as usize].member(step.slot, step.shadow),
        };
        let member = match member {
            Some(member) if !self.members.watched().has(member) => Some(member),
            _ => self.second_look(index, at, member),
        };
        if let Some(member) = member {
            self.send_io(index, at, member);
        }
    }

    #[inline]
    fn send_io(&mut self, index: u32, at: usize, member: MemberId) {
        let running = self.flight.running_mut(index);
        let step = &running.plan().steps()[at];
        let (kind, offset_bytes, length_bytes) = (step.kind, step.offset_bytes, step.length_bytes);
        running.step_goes_to(at, member);
        if !matches!(kind, StepKind::Read | StepKind::Flush) {
            running.write_goes_out();
        }
        let token = running.name_of(index, at);
        self.count_io(kind, length_bytes);
        self.members.sent(member);
        self.desk.ask(Output::Io(Io {
            token,
            member,
            kind,
            offset_bytes,
            length_bytes,
        }));
    }

    #[inline]
    fn count_io(&mut self, kind: StepKind, length_bytes: u64) {
        match kind {
            StepKind::Read => {
                self.desk.stats.member_reads += 1;
                self.desk.stats.member_read_bytes += length_bytes;
            }
            StepKind::Flush => self.desk.stats.member_flushes += 1,
            _ => {
                self.desk.stats.member_writes += 1;
                self.desk.stats.member_write_bytes += length_bytes;
            }
        }
    }

    /// A computation has been carried out.
    #[inline]
    pub fn computed(&mut self, token: Token, differs: bool) {
        self.flight
            .running_mut(token.index())
            .computed(token, differs);
        self.answered(token.index());
    }

    /// A member I/O has been answered.
    #[inline]
    pub(crate) fn step_done(&mut self, token: Token, result: Result<(), MemberError>) {
        let (index, at) = (token.index(), token.step());
        let running = self.flight.running_mut(index);
        if !running.has_name(token) {
            return self.came_back_late(token);
        }
        let Some(state) = running.awaited_step(at) else {
            return self.came_back_early(index);
        };
        let member = state.member();
        self.members.answered(member);
        match result {
            Ok(()) if !self.members.watched().has(member) => state.finish(),
            Ok(()) => {
                if self.watched_done(index, at) {
                    return;
                }
            }
            Err(error) => {
                if self.step_error(index, at, error) {
                    return;
                }
            }
        }
        self.answered(index);
    }

    #[inline]
    pub(crate) fn answered(&mut self, index: u32) {
        if self.flight.running_mut(index).step_is_back() {
            self.advance(index);
        }
    }

    /// Flushes drives for the controller.
    pub(crate) fn flush_members(&mut self, ticket: u32, members: MemberSet) {
        if self.flight.plans_available() == 0 {
            let outcome = FlushOutcome::Busy;
            return self
                .desk
                .tell_controller(Message::Flushed { ticket, outcome });
        }
        let work = Work::ControlFlush { ticket };
        let index = self.flight.take_plan(work, u8::MAX, NONE);
        for member in members.iter() {
            let step = Step::member(StepKind::Flush, 0, Slot(member.0), 0, 0);
            self.flight.running_mut(index).plan_mut().push(step);
        }
        self.start(index);
    }
}
