//! A shard's world: commands wait in a list until they are due.

use super::{Disk, Flight, Shared, crash};
use engine::control::message::Message;
use engine::control::record::Record;
use engine::event::Event;
use engine::log::unit::LogUnit;
use engine::plan::{Segment, StepKind};
use engine::policy::MemberError;
use engine::request::{Completion, Failure, Operation};
use engine::token::Token;
use engine::units::{Buffer, MemberId, Nanos, ShardId};
use engine::world::{Input, Io, World};
use std::cell::RefCell;
use std::rc::Rc;

pub(super) struct Pending {
    pub(super) due: u64,
    pub(super) token: Token,
    pub(super) io: Io,
    pub(super) memory: Vec<Segment>,
    pub(super) cancelled: bool,
}

impl Pending {
    /// The first half of a write reaches the drive.
    fn carry_out_half(&self, disk: &mut Disk, memory: &[u8]) {
        let from = self.io.offset_bytes;
        let half = self.io.length_bytes / 2;
        let place = from as usize..(from + half) as usize;
        match self.io.kind {
            StepKind::Write { .. } => {
                let bytes = self.memory.iter().flat_map(|segment| {
                    let from = segment.buffer.0 as usize;
                    &memory[from..from + segment.length_bytes as usize]
                });
                let place = disk.bytes[place].iter_mut();
                place.zip(bytes).for_each(|(place, byte)| *place = *byte);
            }
            StepKind::Zero { .. } | StepKind::Discard => disk.bytes[place].fill(0),
            _ => return,
        }
        disk.unflushed.push((from, from + half));
    }
}

pub struct MemoryWorld {
    pub shared: Rc<RefCell<Shared>>,
    pub(super) shard: ShardId,
    pub(super) pending: Vec<Pending>,
    pub(super) ready: Vec<Input>,
    /// Records on their way to drives that hang.
    pub(super) hung_persists: Vec<(MemberId, Input)>,
}

impl MemoryWorld {
    /// Whether a drive has not answered a command or a record.
    pub fn waits_for(&self, member: MemberId) -> bool {
        let mut members = self.pending.iter().map(|pending| pending.io.member);
        let mut records = self.hung_persists.iter().map(|(member, _)| *member);
        members.any(|one| one == member) || records.any(|one| one == member)
    }

    fn carry_out(shared: &mut Shared, pending: &Pending) -> Result<(), MemberError> {
        let late = pending.cancelled && shared.disks[pending.io.member.0 as usize].deaf;
        if late {
            shared.check_late(&pending.memory);
        }
        let Shared { disks, memory, .. } = shared;
        let disk = &mut disks[pending.io.member.0 as usize];
        if pending.cancelled && !late {
            return Err(MemberError::from_errno(125));
        }
        if late && pending.io.kind == StepKind::Read {
            for segment in &pending.memory {
                memory[segment.buffer.0 as usize..][..segment.length_bytes as usize].fill(0xDB);
            }
            return Ok(());
        }
        if disk.gone {
            return Err(MemberError::from_errno(6));
        }
        if disk.busy > 0 {
            disk.busy -= 1;
            return Err(MemberError::from_errno(11));
        }
        if let Some(errno) = disk.refuse(pending.io.kind) {
            if disk.tears {
                pending.carry_out_half(disk, memory);
            }
            return Err(MemberError::from_errno(errno));
        }
        let (from, length) = (pending.io.offset_bytes, pending.io.length_bytes);
        let overlaps = |&(low, high): &(u64, u64)| low < from + length && from < high;
        assert!(
            from + length <= disk.bytes.len() as u64,
            "I/O past the end of member {:?}",
            pending.io
        );
        match pending.io.kind {
            StepKind::Read => {
                if disk.bad.iter().any(overlaps) {
                    return Err(MemberError::from_errno(5));
                }
                let mut at = from as usize;
                for segment in &pending.memory {
                    let (to, count) = (segment.buffer.0 as usize, segment.length_bytes as usize);
                    memory[to..to + count].copy_from_slice(&disk.bytes[at..at + count]);
                    at += count;
                }
                assert_eq!(at as u64, from + length);
                disk.reads += 1;
            }
            StepKind::Write { .. } | StepKind::Zero { .. } | StepKind::Discard
                if disk.writes_fail =>
            {
                return Err(MemberError::from_errno(5));
            }
            StepKind::Write { fua } => {
                let mut at = from as usize;
                for segment in &pending.memory {
                    let (source, count) =
                        (segment.buffer.0 as usize, segment.length_bytes as usize);
                    disk.bytes[at..at + count].copy_from_slice(&memory[source..source + count]);
                    at += count;
                }
                assert_eq!(at as u64, from + length);
                disk.bad.retain(|range| !overlaps(range));
                if !fua {
                    disk.unflushed.push((from, from + length));
                }
            }
            StepKind::Zero { .. } | StepKind::Discard => {
                disk.bytes[from as usize..(from + length) as usize].fill(0);
                disk.unflushed.push((from, from + length));
            }
            StepKind::Flush if disk.flushes_fail => return Err(MemberError::from_errno(5)),
            StepKind::Flush if disk.flushes_to_fail > 0 => {
                disk.flushes_to_fail -= 1;
                return Err(MemberError::from_errno(5));
            }
            StepKind::Flush => disk.unflushed.clear(),
            StepKind::Xor { .. } | StepKind::Compare | StepKind::Log { .. } => unreachable!(),
        }
        Ok(())
    }
}

impl World for MemoryWorld {
    fn now(&mut self) -> Nanos {
        Nanos(self.shared.borrow().now)
    }

    fn reap(&mut self, inputs: &mut Vec<Input>) {
        let mut shared = self.shared.borrow_mut();
        while let Some(message) = shared.mail[self.shard.0 as usize].pop_front() {
            inputs.push(Input::Message(message));
        }
        inputs.append(&mut self.ready);
        let answers = |(member, _): &mut (MemberId, Input)| !shared.disks[member.0 as usize].hung;
        let answered = self.hung_persists.extract_if(.., answers);
        inputs.extend(answered.map(|(_, input)| input));
        drop(shared);
        self.reap_answered(inputs);
    }

    fn reap_answered(&mut self, inputs: &mut Vec<Input>) {
        let mut shared = self.shared.borrow_mut();
        let now = shared.now;
        let mut at = 0;
        while at < self.pending.len() {
            let disk = &shared.disks[self.pending[at].io.member.0 as usize];
            let answers = !disk.hung || (self.pending[at].cancelled && !disk.deaf);
            let due = self.pending[at].due <= now && answers;
            if due {
                let pending = self.pending.swap_remove(at);
                let result = MemoryWorld::carry_out(&mut shared, &pending);
                inputs.push(Input::Done {
                    token: pending.token,
                    result,
                });
            } else {
                at += 1;
            }
        }
    }

    fn io(&mut self, io: Io, memory: impl Iterator<Item = Segment>) {
        let mut shared = self.shared.borrow_mut();
        let latency = shared.latency_ns;
        let due = shared.now + shared.random.below(latency + 1);
        let memory: Vec<Segment> = memory.collect();
        shared.look_at_marks(&io, &memory);
        self.pending.push(Pending {
            due,
            token: io.token,
            io,
            memory,
            cancelled: false,
        });
    }

    fn cancel(&mut self, token: Token) {
        for pending in self
            .pending
            .iter_mut()
            .filter(|pending| pending.token == token)
        {
            pending.cancelled = true;
        }
    }

    fn xor(&mut self, target: Buffer, length_bytes: u32, sources: impl Iterator<Item = Segment>) {
        let mut shared = self.shared.borrow_mut();
        let sum = sum_of(&shared.memory, length_bytes, sources);
        shared.memory[target.0 as usize..][..length_bytes as usize].copy_from_slice(&sum);
    }

    fn xor_is_zero(&mut self, length_bytes: u32, sources: impl Iterator<Item = Segment>) -> bool {
        let sum = sum_of(&self.shared.borrow().memory, length_bytes, sources);
        sum.iter().all(|&byte| byte == 0)
    }

    fn encode_log(
        &mut self,
        unit: &LogUnit,
        partial_parities: impl Iterator<Item = Segment>,
        image: Buffer,
    ) {
        let mut shared = self.shared.borrow_mut();
        shared.follow_log(unit);
        crash::encode(&mut shared, unit, partial_parities, image);
    }

    fn fill(&mut self, memory: Buffer, words: &[u64]) {
        let mut shared = self.shared.borrow_mut();
        let bytes = words.iter().flat_map(|word| word.to_le_bytes());
        for (place, byte) in shared.memory[memory.0 as usize..].iter_mut().zip(bytes) {
            *place = byte;
        }
    }

    fn complete(&mut self, completion: Completion) {
        let mut shared = self.shared.borrow_mut();
        let flight = shared.flights.get_mut(&completion.tag);
        let flight = flight.expect("a request is answered once");
        if completion.result == Err(Failure::BufferHeld) {
            assert_eq!(flight.request.operation, Operation::Read);
            flight.again = true;
            shared.held.push(completion.tag);
            return;
        }
        shared.flights.remove(&completion.tag);
        shared.completions.push(completion);
    }

    fn pin(&mut self, buffer: Buffer) {
        let mut shared = self.shared.borrow_mut();
        let asked = |flight: &Flight| {
            let from = flight.request.buffer.0;
            (from..from + u64::from(flight.request.length_bytes)).contains(&buffer.0)
        };
        assert!(
            shared.flights.values().any(asked),
            "pinned after the answer"
        );
        shared.pins.push(buffer);
    }

    fn release(&mut self, buffer: Buffer) {
        let pins = &mut self.shared.borrow_mut().pins;
        let at = pins.iter().position(|pin| *pin == buffer);
        pins.swap_remove(at.expect("only pinned memory is released"));
    }

    fn send(&mut self, to: ShardId, message: Message) {
        self.shared.borrow_mut().mail[to.0 as usize].push_back(message);
    }

    fn persist(&mut self, member: MemberId, record: &Record) {
        let mut shared = self.shared.borrow_mut();
        if (shared.refuses)(&shared.expressed, record) {
            shared.refused.push(record.clone());
            let input = Input::NotExpressible { member };
            if shared.hold_persists {
                shared.held_persists.push((self.shard, input));
            } else {
                self.ready.push(input);
            }
            return;
        }
        shared.expressed = record.clone();
        let early = shared.early_checkpoints(record);
        shared.early_checkpoints += early;
        let early = shared.early_clears(member, record);
        shared.early_clears += early;
        let disk = &mut shared.disks[member.0 as usize];
        let errno = if disk.gone {
            Some(6)
        } else {
            disk.refuses_records
        };
        let result = errno.map_or(Ok(()), |errno| Err(MemberError::from_errno(errno)));
        if result.is_ok() {
            disk.record = Some(record.clone());
        }
        let hung = disk.hung;
        shared.persists.push((member, record.clone()));
        let input = Input::Persisted { member, result };
        if hung {
            self.hung_persists.push((member, input));
        } else if shared.hold_persists {
            shared.held_persists.push((self.shard, input));
        } else {
            self.ready.push(input);
        }
    }

    fn event(&mut self, event: Event) {
        self.shared.borrow_mut().events.push(event);
    }

    fn submit(&mut self) {}

    fn wait(&mut self, _until: Option<Nanos>) {}
}

/// The exclusive or of the sources' bytes, word by word: byte by byte it takes a third of the time of a flood.
fn sum_of(memory: &[u8], length_bytes: u32, sources: impl Iterator<Item = Segment>) -> Vec<u8> {
    let mut sum = vec![0u8; length_bytes as usize];
    for source in sources {
        let bytes = &memory[source.buffer.0 as usize..][..length_bytes as usize];
        let (words, rest) = sum.as_chunks_mut::<8>();
        let (others, other_rest) = bytes.as_chunks::<8>();
        for (word, other) in words.iter_mut().zip(others) {
            *word = (u64::from_ne_bytes(*word) ^ u64::from_ne_bytes(*other)).to_ne_bytes();
        }
        assert!(
            rest.is_empty() && other_rest.is_empty(),
            "{length_bytes} bytes are not whole words"
        );
    }
    sum
}
