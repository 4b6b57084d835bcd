//! The machine that the array's process runs on: drives, memory, messages between shards, and the queue of what
//! happens next. It outlives its process; each process is one `life`.

mod command;
mod log;
pub mod refusals;

use crate::drive::Drive;
use crate::history::{Errand, Strike};
use crate::journal::Journal;
use crate::random::Stream;
use crate::vhost_user::guests::Guests;
use assembly::persist::Persister;
use command::{Command, Part};
use engine::control::message::Message;
use engine::event::Event;
use engine::request::Completion;
use engine::units::{Buffer, MemberId, Nanos};
use engine::world::Input;
use refusals::Refusals;
use std::collections::VecDeque;
use std::ops::Range;
use virtual_time::queue::Queue;

/// Longest time from an input's arrival to the turn that takes it.
const TURN_DELAY_NS: u64 = 8_000;
/// Longest time of an occasional slow message between shards.
const MESSAGE_NS_MAX: u64 = 400_000;

/// What happens at a point in virtual time.
#[derive(Debug)]
pub enum Happening {
    /// A shard takes a turn.
    Turn {
        /// The process that it belongs to.
        life: u32,
        /// Which one.
        shard: usize,
    },
    /// A drive answers.
    Answer {
        /// The process that sent the command.
        life: u32,
        /// The command.
        command: usize,
    },
    /// A message arrives.
    Deliver {
        /// The process that sent it.
        life: u32,
        /// The receiving shard.
        to: usize,
        /// The message.
        message: Message,
    },
    /// The next action of the history is due.
    Act,
    /// The command that triggers an outage has come.
    Strike {
        /// The process that sent it.
        life: u32,
    },
}

/// An entry of the log.
#[derive(Hash, Debug)]
pub enum Note<'a> {
    /// A command begins: shard, drive, kind, first byte, length.
    Command(usize, usize, &'static str, u64, u64),
    /// A command has been answered: drive, kind, first byte, errno or 0.
    Answer(usize, &'static str, u64, i32),
    /// A record is written to a drive: generation.
    Persist(usize, u64),
    /// A record cannot be expressed for a drive: generation.
    Refused(usize, u64),
    /// A message is sent: from, to, which.
    Message(usize, usize, &'static str),
    /// A request begins: number, shard, volume, operation, first byte, length.
    Request(u32, usize, u8, &'static str, u64, u32),
    /// A request is answered.
    Completion(u64, bool),
    /// An event of the engine.
    Event(&'a str),
    /// An act of the history.
    Action(&'a str),
    /// A tag of a block device has a command: shard, name, the answer to its request, the memory that it offers.
    Tag(usize, u64, Option<i32>, u64),
    /// A guest has found the answer to a request: number, status.
    Status(u32, u8),
}

#[derive(Default)]
struct Desk {
    inbox: VecDeque<Input>,
    turn_at_ns: Option<u64>,
}

/// What happens to commands in flight when their process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ending {
    /// The drives keep running; each command is carried out, or never reaches its drive.
    Process,
    /// The drives lose power in the middle of commands.
    Power,
}

/// See the module's prose.
pub struct Machine {
    /// The queue of what happens next.
    pub queue: Queue<Happening>,
    /// The virtual machines that are clients, if clients are virtual machines.
    pub guests: Option<Guests>,
    /// The log of what has happened.
    pub journal: Journal,
    /// All drives that have ever existed, by bay.
    pub drives: Vec<Drive>,
    /// Number of the current or last process.
    pub life: u32,
    /// Answers that the clients have not seen yet.
    pub completions: Vec<Completion>,
    /// Payload memory that hung drives may still use, one entry for each pin.
    pub pins: Vec<Buffer>,
    /// Released pins, kept until the slot is used again: an answer that mentions the pin may still be under way
    /// to its client.
    pub let_go: Vec<Buffer>,
    /// Events of the engine that the run has not handled yet.
    pub events: Vec<Event>,
    /// Write-hole logs replayed at starts.
    pub replays: u64,
    /// Resyncs at starts that covered only what a bitmap marks.
    pub resyncs_by_bitmap: u64,
    /// Drives that were taken back.
    pub taken_back: u64,
    /// One sentence for each record that the format could not express although no fault caused it, or that was
    /// tried again and again.
    pub problems: Vec<String>,
    /// Which records the metadata shall not express.
    pub refusals: Refusals,
    /// Encodes the engine's record for each drive.
    pub persister: Option<Persister>,
    /// Writes the headers of write-hole logs.
    log_encoder: Option<log::Encoder>,
    /// By [`MemberId`]: the bay of the drive.
    pub bays: Vec<usize>,
    /// By bay: the last records written, the newest last.
    records: Vec<VecDeque<Vec<Part>>>,
    /// The command that triggers an outage.
    pub tripwire: Option<Strike>,
    /// Writes and flushes until the power is cut during a start, including the one at which it is cut.
    pub start_left: Option<u32>,
    /// Longest additional time of messages to the last shard.
    pub lag_ns: u64,
    /// How far the process's clock is ahead of virtual time.
    pub clock_ahead_ns: i64,
    /// No shard takes a turn before this.
    stands_until_ns: u64,
    /// No drive answers before this.
    kernel_stands_until_ns: u64,
    memory: Vec<u8>,
    commands: Vec<Option<Command>>,
    free: Vec<usize>,
    desks: Vec<Desk>,
    /// By sender and receiver: when the last message arrives. Messages between two shards stay in order.
    links: Vec<u64>,
    turns: Stream,
    messages: Stream,
    cancels: Stream,
    endings: Stream,
    buffer: Vec<u8>,
}

impl Machine {
    /// A machine with these drives.
    #[must_use]
    pub fn new(seed: u64, drives: Vec<Drive>, words: bool) -> Machine {
        Machine {
            queue: Queue::default(),
            guests: None,
            journal: Journal::new(words),
            drives,
            life: 0,
            completions: Vec::new(),
            pins: Vec::new(),
            let_go: Vec::new(),
            events: Vec::new(),
            problems: Vec::new(),
            refusals: Refusals::default(),
            replays: 0,
            resyncs_by_bitmap: 0,
            taken_back: 0,
            persister: None,
            log_encoder: None,
            bays: Vec::new(),
            records: Vec::new(),
            tripwire: None,
            start_left: None,
            lag_ns: 0,
            clock_ahead_ns: 0,
            stands_until_ns: 0,
            kernel_stands_until_ns: 0,
            memory: Vec::new(),
            commands: Vec::new(),
            free: Vec::new(),
            desks: Vec::new(),
            links: Vec::new(),
            turns: Stream::new(seed, "turns", 0),
            messages: Stream::new(seed, "messages", 0),
            cancels: Stream::new(seed, "cancels", 0),
            endings: Stream::new(seed, "endings", 0),
            buffer: Vec::new(),
        }
    }

    /// Begins a life, with new memory, empty desks and a persister for the record.
    pub fn begin_life(
        &mut self,
        shards: usize,
        memory_bytes: usize,
        bays: Vec<usize>,
        persister: Persister,
    ) {
        // A failed flush was reported to an earlier process, or to one that did not start.
        let drives = self.drives.iter_mut();
        drives.for_each(|drive| drive.faults.flush_failed = false);
        self.life += 1;
        self.log_encoder = Some(Box::new(persister.log_encoder()));
        self.persister = Some(persister);
        self.memory = vec![0; memory_bytes];
        self.desks = (0..shards).map(|_| Desk::default()).collect();
        self.links = vec![0; shards * shards];
        self.bays = bays;
    }

    /// Ends a life: decides what happens to commands in flight, and discards the process's state.
    pub fn end_life(&mut self, ending: Ending) {
        self.life += 1;
        for at in 0..self.commands.len() {
            let Some(command) = self.commands[at].take() else {
                continue;
            };
            self.end_command(command, ending);
        }
        self.commands.clear();
        self.free.clear();
        self.desks.clear();
        self.completions.clear();
        self.pins.clear();
        self.let_go.clear();
        self.events.clear();
        self.persister = None;
        self.refusals.forget();
        self.log_encoder = None;
        self.tripwire = None;
        if ending == Ending::Power {
            self.drives.iter_mut().for_each(Drive::lose_power);
        }
    }

    /// The drive that serves as a member.
    pub fn drive(&mut self, member: MemberId) -> &mut Drive {
        &mut self.drives[self.bays[member.0 as usize]]
    }

    /// Records the writes of the drive in a bay, if those of the first drive are recorded.
    pub fn record_like_others(&mut self, bay: usize) {
        let tape = self.drives.first().and_then(|drive| drive.tape.as_ref());
        if let Some(clock) = tape.map(|tape| tape.clock().clone())
            && self.drives[bay].tape.is_none()
        {
            self.drives[bay].record(&clock);
        }
    }

    /// The pieces of the process's memory that drives may still read or write, failed ones too, by first byte.
    pub fn memory_in_flight(&self) -> impl Iterator<Item = Buffer> {
        let commands = self.commands.iter().flatten();
        commands.flat_map(Command::memory)
    }

    /// Whether a drive may still read or write some of this memory.
    #[must_use]
    pub fn is_used_by_drives(&self, places: &Range<u64>) -> bool {
        self.memory_in_flight().any(|at| places.contains(&at.0))
    }

    /// Memory of the process.
    #[must_use]
    pub fn memory(&self, at: Buffer, length_bytes: usize) -> &[u8] {
        &self.memory[at.0 as usize..][..length_bytes]
    }

    /// Memory of the process, for writing.
    pub fn memory_mut(&mut self, at: Buffer, length_bytes: usize) -> &mut [u8] {
        &mut self.memory[at.0 as usize..][..length_bytes]
    }

    /// Adds an entry to the log.
    pub fn note(&mut self, note: &Note<'_>) {
        let now_ns = self.queue.now_ns();
        self.journal.note(now_ns, note);
    }

    /// Hands an input to a shard, which will take a turn soon.
    pub fn tell(&mut self, shard: usize, input: Input) {
        self.desks[shard].inbox.push_back(input);
        self.knock(shard);
    }

    /// Has a shard take a turn soon.
    pub fn knock(&mut self, shard: usize) {
        let delay_ns = self.turns.below(TURN_DELAY_NS);
        self.wake(shard, self.queue.now_ns() + delay_ns);
    }

    /// Schedules a turn of a shard for `at_ns`, unless an earlier one is planned.
    pub fn wake(&mut self, shard: usize, at_ns: u64) {
        let desk = &mut self.desks[shard];
        if desk.turn_at_ns.is_none_or(|planned| at_ns < planned) {
            desk.turn_at_ns = Some(at_ns);
            let life = self.life;
            self.queue.at(at_ns, Happening::Turn { life, shard });
        }
    }

    /// Whether a turn whose time has come is the planned one. During a standstill it is postponed.
    pub fn takes_turn(&mut self, life: u32, shard: usize) -> bool {
        let now_ns = self.queue.now_ns();
        if life == self.life && now_ns < self.stands_until_ns {
            let at_ns = self.stands_until_ns;
            self.desks[shard].turn_at_ns = Some(at_ns);
            self.queue.at(at_ns, Happening::Turn { life, shard });
            return false;
        }
        life == self.life
            && self.desks[shard]
                .turn_at_ns
                .take_if(|at| *at == now_ns)
                .is_some()
    }

    /// Makes the process stand still, and, if `kernel`, all answers of drives.
    pub fn stand_still(&mut self, for_ns: u64, kernel: bool) {
        let until_ns = self.queue.now_ns() + for_ns;
        self.stands_until_ns = self.stands_until_ns.max(until_ns);
        if kernel {
            self.kernel_stands_until_ns = self.kernel_stands_until_ns.max(until_ns);
        }
    }

    /// The end of the last standstill of the process.
    #[must_use]
    pub fn stands_until_ns(&self) -> u64 {
        self.stands_until_ns
    }

    /// Whether the process stands still.
    #[must_use]
    pub fn stands_still(&self) -> bool {
        self.queue.now_ns() < self.stands_until_ns
    }

    /// The process's clock.
    #[must_use]
    pub fn clock(&self) -> Nanos {
        Nanos(
            self.queue
                .now_ns()
                .saturating_add_signed(self.clock_ahead_ns),
        )
    }

    /// The virtual time at which the process's clock shows this time.
    #[must_use]
    pub fn virtual_ns(&self, clock: Nanos) -> u64 {
        clock.0.saturating_add_signed(-self.clock_ahead_ns)
    }

    /// Moves a shard's inputs to `inputs`, at most `most`.
    pub fn reap(&mut self, shard: usize, inputs: &mut Vec<Input>, most: usize) {
        let inbox = &mut self.desks[shard].inbox;
        let count = inbox.len().min(most);
        inputs.extend(inbox.drain(..count));
        if !inbox.is_empty() {
            let now_ns = self.queue.now_ns();
            self.wake(shard, now_ns);
        }
    }

    /// Sends a message with a random delay. Earlier messages between the same two shards arrive before it.
    pub fn post(&mut self, from: usize, to: usize, message: Message) {
        self.note(&Note::Message(from, to, name_of(&message)));
        let now_ns = self.queue.now_ns();
        let slow = self.messages.chance(1, 8);
        let most_ns = if slow { MESSAGE_NS_MAX } else { 4_000 };
        let mut delay_ns = self.messages.below(most_ns);
        if to + 1 == self.desks.len() && from != to {
            delay_ns += self.messages.below(self.lag_ns + 1);
        }
        let link = &mut self.links[from * self.desks.len() + to];
        *link = (*link).max(now_ns + delay_ns);
        let (at_ns, life) = (*link, self.life);
        self.queue
            .at(at_ns, Happening::Deliver { life, to, message });
    }

    /// Notes that a command of this kind begins or has been answered, which may trigger an outage.
    fn passes(&mut self, errand: Option<Errand>, answered: bool) {
        let waited = |wire: &Strike| Some(wire.errand) == errand && wire.answered == answered;
        let Some(wire) = self.tripwire.as_mut().filter(|wire| waited(wire)) else {
            return;
        };
        if wire.spared > 0 {
            wire.spared -= 1;
            return;
        }
        self.tripwire = None;
        let (now_ns, life) = (self.queue.now_ns(), self.life);
        self.queue.at(now_ns, Happening::Strike { life });
    }

    /// The xor of pieces of memory.
    #[must_use]
    pub fn xor_of(&self, length_bytes: usize, sources: impl Iterator<Item = Buffer>) -> Vec<u8> {
        let mut sum = vec![0; length_bytes];
        for source in sources {
            let from = &self.memory[source.0 as usize..][..length_bytes];
            sum.iter_mut()
                .zip(from)
                .for_each(|(sum, byte)| *sum ^= byte);
        }
        sum
    }
}

fn name_of(message: &Message) -> &'static str {
    match message {
        Message::Forward(_) => "forward",
        Message::ForwardDone { .. } => "forward done",
        Message::Pin(_) => "pin",
        Message::Release(_) => "release",
        Message::WriteIntent(_) => "write intent",
        Message::Idle { idle: true, .. } => "idle",
        Message::Idle { idle: false, .. } => "busy",
        Message::MemberFailed { .. } => "member failed",
        Message::CacheTurnedVolatile(_) => "cache turned volatile",
        Message::DiscardRefused(_) => "discard refused",
        Message::AboutToFail(_) => "about to fail",
        Message::NotWritable(_) => "not writable",
        Message::Inspect { .. } => "inspect",
        Message::Inspected { .. } => "inspected",
        Message::EpochAdopted { .. } => "epoch adopted",
        Message::EpochConfirmed { .. } => "epoch confirmed",
        Message::Progress { .. } => "progress",
        Message::Flushed { .. } => "flushed",
        Message::BadBlocks { .. } => "bad blocks",
        Message::BadBlocksSettled { .. } => "bad blocks settled",
        Message::View(_) => "view",
        Message::FailureDurable(_) => "failure durable",
        Message::WantRegions { .. } => "want regions",
        Message::RegionsMarked { .. } => "regions marked",
        Message::CloseRegions { .. } => "close regions",
        Message::RegionsClosed { .. } => "regions closed",
        Message::RegionsCleared { .. } => "regions cleared",
        Message::Command { .. } => "command",
    }
}
