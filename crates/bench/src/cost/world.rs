//! A world that costs next to nothing: every command completes at once without a drive, time is virtual, and the
//! clients are a counter.
//!
//! The remaining instructions of a run are the engine's. The few that the world takes for a request and for a command
//! are known from a run without an engine ([`super::scene`]).

use engine::control::message::Message;
use engine::control::record::Record;
use engine::event::Event;
use engine::log::unit::LogUnit;
use engine::plan::{Segment, StepKind};
use engine::policy::MemberError;
use engine::request::{Completion, Operation, Request};
use engine::token::Token;
use engine::units::{Buffer, MemberId, Nanos, ShardId, VolumeId};
use engine::world::{Input, Io, World};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// Size of one member, if the scene gives none: enough for random offsets.
pub(super) const COMPONENT_BYTES: u64 = 64 << 30;
/// EIO: the drive responds but cannot read this block.
const UNREADABLE: i32 = 5;
/// The member that has bad blocks, their size, and how many blocks there are for each bad one.
const BAD_MEMBER: MemberId = MemberId(0);
const BAD_BYTES: u64 = 4096;
const BAD_EVERY: u64 = 4;

/// The offsets of a client's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Random.
    Random,
    /// Sequential.
    Sequential,
    /// Two adjacent blocks at a random offset.
    Pairs,
    /// One of very few blocks, so that requests overlap.
    Crowded,
}

/// The requests that a client issues again and again.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asks {
    pub operation: Operation,
    /// Reads in a hundred requests, instead of `operation`.
    pub read_percent: u8,
    pub order: Order,
    pub block_bytes: u32,
    /// Requests outstanding.
    pub depth: u64,
    /// Whether each request waits until the volume has been marked clean.
    pub when_clean: bool,
}

/// A client that keeps `depth` requests outstanding until it has issued all.
#[derive(Debug)]
pub(super) struct Client {
    pub asks: Asks,
    /// Number of blocks of this size that fit.
    pub blocks: u64,
    pub left: u64,
    pub outstanding: u64,
    pub failures: u64,
    random: u64,
    next_block: u64,
}

impl Client {
    pub fn new(asks: Asks, size_bytes: u64, requests: u64) -> Client {
        Client {
            asks,
            blocks: size_bytes / u64::from(asks.block_bytes.max(1)),
            left: requests,
            outstanding: 0,
            failures: 0,
            random: 0x9E37_79B9_7F4A_7C15,
            next_block: 0,
        }
    }

    /// Marsaglia's xorshift, reduced to `0..count`.
    fn below(&mut self, count: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        ((u128::from(self.random) * u128::from(count)) >> 64) as u64
    }

    fn block(&mut self) -> u64 {
        match self.asks.order {
            Order::Random => self.below(self.blocks),
            Order::Crowded => self.below(2),
            Order::Sequential => {
                self.next_block = (self.next_block + 1) % self.blocks;
                self.next_block
            }
            Order::Pairs if self.left.is_multiple_of(2) => {
                self.next_block = self.below(self.blocks / 2) * 2;
                self.next_block
            }
            Order::Pairs => self.next_block + 1,
        }
    }

    #[inline]
    pub fn issue(&mut self, inputs: &mut Vec<Input>) {
        while self.left > 0 && self.outstanding < self.asks.depth {
            let block = self.block();
            let reads = u64::from(self.asks.read_percent);
            let operation = if reads > 0 && self.below(100) < reads {
                Operation::Read
            } else {
                self.asks.operation
            };
            self.left -= 1;
            self.outstanding += 1;
            inputs.push(Input::Request(Request {
                tag: 0,
                volume: VolumeId(0),
                operation,
                fua: false,
                offset_bytes: block * u64::from(self.asks.block_bytes),
                length_bytes: self.asks.block_bytes,
                buffer: Buffer(1 << 40),
            }));
        }
    }

    #[inline]
    pub fn answered(&mut self, completion: Completion) {
        self.outstanding -= 1;
        self.failures += u64::from(completion.result.is_err());
    }
}

/// State that all shards of a scene share.
#[derive(Debug, Default)]
pub(super) struct Shared {
    pub now: Cell<u64>,
    /// Whether the volume is marked clean.
    pub clean: Cell<bool>,
    /// Background jobs that have ended.
    pub jobs_ended: Cell<u64>,
    /// An event that fails the scene.
    pub trouble: Cell<Option<Event>>,
    /// Messages between shards, by recipient.
    pub mail: RefCell<Vec<Vec<Message>>>,
}

/// See the module's prose.
pub(super) struct CostWorld {
    shard: ShardId,
    shared: Rc<Shared>,
    pub client: Client,
    /// Whether the first member has blocks that cannot be read.
    pub has_bad_blocks: bool,
    /// The result of comparisons.
    pub matches: bool,
    /// Commands received.
    pub commands: u64,
    answers: Vec<Input>,
}

impl CostWorld {
    /// A world whose drives have no bad blocks, and whose comparisons find no difference.
    pub fn new(shard: ShardId, shared: Rc<Shared>, client: Client) -> CostWorld {
        CostWorld {
            shard,
            shared,
            client,
            has_bad_blocks: false,
            matches: true,
            commands: 0,
            answers: Vec::with_capacity(4096),
        }
    }
}

impl World for CostWorld {
    fn now(&mut self) -> Nanos {
        Nanos(self.shared.now.get())
    }

    fn reap(&mut self, inputs: &mut Vec<Input>) {
        if let Some(mail) = (self.shared.mail.borrow_mut()).get_mut(usize::from(self.shard.0)) {
            inputs.extend(mail.drain(..).map(Input::Message));
        }
        inputs.append(&mut self.answers);
        if !self.client.asks.when_clean || self.shared.clean.get() {
            self.client.issue(inputs);
        }
    }

    // Every stage takes a turn of its own, as it does over drives that take time.
    fn reap_answered(&mut self, _: &mut Vec<Input>) {}

    #[inline]
    fn io(&mut self, io: Io, _: impl Iterator<Item = Segment>) {
        let is_bad = self.has_bad_blocks
            && io.member == BAD_MEMBER
            && io.kind == StepKind::Read
            && (io.offset_bytes / BAD_BYTES).is_multiple_of(BAD_EVERY);
        let result = if is_bad {
            Err(MemberError::from_errno(UNREADABLE))
        } else {
            Ok(())
        };
        self.commands += 1;
        self.answers.push(Input::Done {
            token: io.token,
            result,
        });
    }

    fn cancel(&mut self, _: Token) {}

    fn pin(&mut self, _: Buffer) {}

    fn release(&mut self, _: Buffer) {}

    fn xor(&mut self, _: Buffer, _: u32, _: impl Iterator<Item = Segment>) {}

    fn xor_is_zero(&mut self, _: u32, _: impl Iterator<Item = Segment>) -> bool {
        self.matches
    }

    fn encode_log(&mut self, _: &LogUnit, _: impl Iterator<Item = Segment>, _: Buffer) {}

    fn fill(&mut self, _: Buffer, _: &[u64]) {}

    #[inline]
    fn complete(&mut self, completion: Completion) {
        self.client.answered(completion);
    }

    fn send(&mut self, to: ShardId, message: Message) {
        self.shared.mail.borrow_mut()[usize::from(to.0)].push(message);
    }

    fn persist(&mut self, member: MemberId, _: &Record) {
        self.answers.push(Input::Persisted {
            member,
            result: Ok(()),
        });
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::DirtyMark { dirty, .. } => self.shared.clean.set(!dirty),
            Event::JobEnded { complete: true, .. } => {
                self.shared.jobs_ended.set(self.shared.jobs_ended.get() + 1);
            }
            Event::MemberFailed { .. }
            | Event::VolumeFailed(_)
            | Event::JobEnded { .. }
            | Event::Unrecoverable { .. } => self.shared.trouble.set(Some(event)),
            _ => {}
        }
    }

    fn submit(&mut self) {}

    fn wait(&mut self, _: Option<Nanos>) {}
}

/// Completes `requests` requests of `commands` commands each, without an engine.
pub(super) fn run_alone(asked: Asks, commands: u32, requests: u64) {
    let client = Client::new(asked, COMPONENT_BYTES, requests);
    let mut world = CostWorld::new(ShardId(0), Rc::new(Shared::default()), client);
    let mut inputs = Vec::new();
    while world.client.left + world.client.outstanding > 0 {
        world.reap(&mut inputs);
        for input in inputs.drain(..) {
            match input {
                Input::Request(request) => (0..commands).for_each(|command| {
                    let io = Io {
                        token: Token(u64::from(command)),
                        member: MemberId(0),
                        kind: StepKind::Read,
                        offset_bytes: request.offset_bytes,
                        length_bytes: 4096,
                    };
                    world.io(io, std::iter::empty());
                }),
                Input::Done {
                    token: Token(0), ..
                } => world.complete(Completion {
                    tag: 0,
                    result: Ok(()),
                }),
                _ => {}
            }
        }
    }
}
