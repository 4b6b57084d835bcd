//! Completions that another core than the submitter's handles, because both share a queue of the drive.
//!
//! An interrupt does not wait for the turn that the handler's core is in, as the core's own answers do, but takes its time from
//! it: the core is free that much later. Then the submitter is told.

use super::{Event, Input, Run};
use crate::drive_queues::Handing;
use engine::token::Token;
use engine::units::MemberId;

impl Run {
    /// A drive has carried out a command of `core`, whose completions another core handles.
    pub(super) fn interrupt(&mut self, core: u16, member: MemberId, token: Token) {
        let now_ns = self.queue.now_ns();
        let by = self.handing(core, member, now_ns);
        let handler = &self.cores[by.handler];
        let notice_ns = match by.is_asleep {
            true => self.host.notice_after_ns(now_ns - handler.free_at_ns),
            false => self.host.notice_ns,
        };
        let wakes = !self.is_awake(by.submitter, now_ns);
        let answer_ns = self.host.answer_command_ns;
        let queues = &mut self.drive_queues;
        let handled = queues.handle(by, now_ns + notice_ns, answer_ns, wakes);
        let handler = &mut self.cores[by.handler];
        handler.free_at_ns = handled.end_ns.max(handler.free_at_ns + handled.busy_ns);
        self.books.kernel_ns += handled.busy_ns;
        let event = Event::Handed {
            core,
            member,
            token,
        };
        self.queue.at(handled.end_ns, event);
    }

    /// A core is told of a command whose completion another core has handled.
    pub(super) fn handed(&mut self, core: u16, member: MemberId, token: Token) {
        let by = self.handing(core, member, self.queue.now_ns());
        let moved_ns = self.drive_queues.moved_ns(by.handler, by.submitter);
        self.cores[by.submitter].owed_ns += moved_ns;
        let result = Ok(());
        self.tell(core, Input::Done { token, result });
    }

    fn handing(&self, core: u16, member: MemberId, now_ns: u64) -> Handing {
        let submitter = usize::from(core);
        let handler = self.drive_queues.handler(member.0.into(), submitter);
        let handler = handler.expect("only a completion that another core handles is passed on");
        Handing {
            handler,
            submitter,
            is_asleep: !self.is_awake(handler, now_ns),
        }
    }
}
