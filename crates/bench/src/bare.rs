//! A member behind the same interface as the array's members, but without the engine: it shows what every I/O costs
//! anyway.

use super::generator::Load;
use super::window::{DRAIN_LOOK, PATIENCE};
use anyhow::bail;
use drives::world::RingWorld;
use engine::plan::{Plan, Step, StepKind};
use engine::request::{Completion, Operation};
use engine::token::Token;
use engine::units::{MemberId, Slot};
use engine::world::{Input, Io, World};

/// A load whose requests go straight to the single member of a world.
pub(super) struct BareMember {
    world: RingWorld<()>,
    pub load: Load,
    /// One step per request. It names the request's memory.
    plan: Plan,
    answers: Vec<Input>,
    requests: Vec<Input>,
}

impl BareMember {
    pub fn new(world: RingWorld<()>, load: Load, block_bytes: u32) -> BareMember {
        let mut plan = Plan::with_capacity(0, 0);
        for (at, buffer) in (0u64..).zip(load.buffers()) {
            // The offsets are not adjacent, so that the steps are not joined.
            let offset_bytes = 2 * at * u64::from(block_bytes);
            let bytes = u64::from(block_bytes);
            plan.transfer(
                Step::member(StepKind::Read, 0, Slot(0), offset_bytes, bytes),
                buffer,
            );
        }
        BareMember {
            world,
            load,
            plan,
            answers: Vec::new(),
            requests: Vec::new(),
        }
    }

    pub fn turn(&mut self) {
        self.world.reap(&mut self.answers);
        let idle = self.answers.is_empty();
        for input in self.answers.drain(..) {
            if let Input::Done { token, result } = input {
                let failure = |_| engine::request::Failure::Unrecoverable { offset_bytes: 0 };
                let result = result.map_err(failure);
                self.load.answered(Completion {
                    tag: token.0,
                    result,
                });
            }
        }
        let now = self.world.now();
        self.load.issue(now, &mut self.requests);
        let started = !self.requests.is_empty();
        for input in self.requests.drain(..) {
            let Input::Request(request) = input else {
                continue;
            };
            let io = Io {
                token: Token(request.tag),
                member: MemberId(0),
                kind: match request.operation {
                    Operation::Read => StepKind::Read,
                    _ => StepKind::Write { fua: false },
                },
                offset_bytes: request.offset_bytes,
                length_bytes: u64::from(request.length_bytes),
            };
            let step = &self.plan.steps()[request.tag as usize];
            self.world.io(io, self.plan.segments_of(step));
        }
        self.world.submit();
        if idle && !started {
            let wake = drives::port::Port::next_wake(&self.load);
            self.world.wait(wake);
        }
    }

    /// Stops issuing requests and waits for the last completion.
    pub fn drain(&mut self) -> anyhow::Result<()> {
        self.load.stop();
        let begin = self.load.now();
        while self.load.outstanding() > 0 {
            let now = self.load.now();
            if now.since(begin) > PATIENCE {
                bail!("the bare member did not answer; look at it");
            }
            self.load.wake_at(now.after(DRAIN_LOOK));
            self.turn();
        }
        Ok(())
    }
}
