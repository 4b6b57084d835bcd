//! What failed drives still hold: commands that nobody waits for any more, and the memory they may use.
//!
//! A member that hangs is failed at its deadline, but its commands may never come back. After a grace period
//! ([`crate::limits::ABANDON_AFTER`]) work continues as if they had come back with an error
//! ([`crate::shard::plans::overdue`]): what was to be read comes from other members, what was to be written counts as
//! missed and is acknowledged when the failure is on record. The drive may still carry the command out at any time.
//! That harms no data: nothing reads from a failed member, and it does not return to service without being filled
//! anew, which the world does not let begin while the member holds commands. What has to be kept is memory:
//!
//! - scratch memory stays out of use until the last command of its plan is back;
//! - a client's memory is pinned ([`crate::world::World::pin`]), so that its owner does not use it again before it is
//!   released. A read into such memory is answered [`crate::request::Failure::BufferHeld`], and asked again with other
//!   memory.
//!
//! Plans, locks and request slots are free for other work at once. A generation in the commands' names tells late
//! answers from those to later commands. How much can be left behind is limited; beyond that a plan waits for its
//! commands.

use crate::control::message::Message;
use crate::flight::leftovers::Pins;
use crate::flight::running::Work;
use crate::flight::scratch::ScratchBlock;
use crate::limits::BAND_BYTES_MAX;
use crate::order::ranges::{NONE, PartKind};
use crate::output::Output;
use crate::request::Operation;
use crate::shard::Engine;
use crate::token::Token;
use crate::units::{Buffer, MemberSet};

impl Engine {
    /// Commands that failed members have not given back and that nobody waits for, and those members.
    #[must_use]
    pub fn left_behind(&self) -> (usize, MemberSet) {
        self.flight.left_behind()
    }

    pub(crate) fn is_zeros(&self, buffer: Buffer) -> bool {
        (self.desk.zeros().0..self.desk.zeros().0 + u64::from(BAND_BYTES_MAX)).contains(&buffer.0)
    }

    /// A command that was given up has come back while its plan is still there.
    pub(crate) fn came_back_early(&mut self, index: u32) {
        self.desk.stats.returned += 1;
        self.flight.came_back_early(index);
    }

    /// A plan ends, or is made anew, while commands of it are still with drives: keeps the commands' names and
    /// memory.
    pub(crate) fn leave_behind(&mut self, index: u32) {
        let scratch = self.flight.begin_to_leave(index);
        let single = self.flight.running_mut(index).forget_single();
        let mut rest = self.flight.running(index).left();
        if single != NONE {
            let (commands, generation) = self.flight.single_mut(single).give_up();
            let name = Token::of_single(single, generation, 0);
            self.keep(index, name, commands, None);
            self.flight.rename_single(single);
            self.flight.give_single(single);
            rest -= commands;
        }
        if rest > 0 {
            let name = self.flight.running(index).name_of(index, 0);
            self.keep(index, name, rest, scratch);
            self.flight.rename_plan(index);
        }
        self.flight.running_mut(index).forget_left();
    }

    fn keep(&mut self, index: u32, name: Token, commands: u16, scratch: Option<ScratchBlock>) {
        let running = self.flight.running(index);
        let pins = if running.is_payload_left() {
            self.pin_payload(running.work())
        } else {
            Pins::NONE
        };
        self.flight
            .keep_commands(index, name, commands, (scratch, pins));
    }

    /// Pins all memory of clients that a plan's work uses.
    fn pin_payload(&mut self, work: Work) -> Pins {
        if let Work::Direct { request } = work {
            let asked = *self.admission[request].request();
            let has_payload = matches!(asked.operation, Operation::Read | Operation::Write);
            return if has_payload {
                self.pin(request, asked.buffer, Pins::NONE)
            } else {
                Pins::NONE
            };
        }
        let (mut pins, mut at) = (Pins::NONE, work.parts());
        while at != NONE {
            let part = self.order.ranges[at];
            let has_payload = matches!(
                part.kind,
                PartKind::Write { .. } | PartKind::Reconstruct { .. }
            );
            if has_payload && part.request != NONE && !self.is_zeros(part.buffer) {
                pins = self.pin(part.request, part.buffer, pins);
            }
            at = self.order.ranges.after(at);
        }
        pins
    }

    fn pin(&mut self, request: u32, buffer: Buffer, next: Pins) -> Pins {
        let home = self.admission[request]
            .origin()
            .map_or(self.desk.id(), |origin| origin.shard);
        self.desk.ask(if home == self.desk.id() {
            Output::Pin(buffer)
        } else {
            Output::Send(home, Message::Pin(buffer))
        });
        self.flight.pin(buffer, home, next)
    }

    /// A command has come back whose plan is gone.
    #[cold]
    pub(crate) fn came_back_late(&mut self, token: Token) {
        self.desk.stats.returned += 1;
        let Some(mut pins) = self.flight.came_back_late(token) else {
            return;
        };
        while let Some((buffer, home)) = self.flight.unpin(&mut pins) {
            self.desk.ask(if home == self.desk.id() {
                Output::Release(buffer)
            } else {
                Output::Send(home, Message::Release(buffer))
            });
        }
    }
}
