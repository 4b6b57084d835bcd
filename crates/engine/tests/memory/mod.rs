//! A small world for tests: members and payload are plain vectors, I/O is answered in random order after
//! a random time, several shards share one thread. Faults are switched on per drive.
#![allow(dead_code)]

pub mod client;
pub mod crash;
pub mod marks;

use engine::claims::Claims;
use engine::control::bad_blocks::{BadBlocks, BadRange};
use engine::control::message::{Command, Message};
use engine::control::record::{
    MemberRecord, MemberState, Record, SlotRecord, SyncKind, SyncRecord, VolumeRecord,
};
use engine::event::Event;
use engine::layout::{Geometry, Level};
use engine::limits::BAND_BYTES_MAX;
use engine::log::LogUnit;
use engine::plan::{Segment, StepKind};
use engine::policy::MemberError;
use engine::request::{Completion, Failure, Operation, Request};
use engine::shard::{Engine, Options, Setup, Shard};
use engine::units::{Buffer, MemberId, Nanos, ShardId, Slot, VolumeId};
use engine::world::{Input, Io, Token, World};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::rc::Rc;

pub const MIB: u64 = 1 << 20;

/// A repeatable random stream (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

pub struct Disk {
    pub bytes: Vec<u8>,
    /// Every I/O answers ENXIO.
    pub gone: bool,
    /// Flushes answer EIO.
    pub flushes_fail: bool,
    /// How many of the next flushes answer EIO.
    pub flushes_to_fail: usize,
    /// Writes answer EIO.
    pub writes_fail: bool,
    /// Reads that touch these ranges answer EIO until they are written.
    pub bad: Vec<(u64, u64)>,
    /// How many of the next I/Os answer EAGAIN.
    pub busy: usize,
    /// Reads that were carried out.
    pub reads: usize,
    /// I/O is taken and not answered.
    pub hung: bool,
    /// While it hangs, cancelling does not help. What was cancelled is carried out when it hangs no more,
    /// and reads bring garbage then.
    pub deaf: bool,
    /// Ranges written since the last flush.
    pub unflushed: Vec<(u64, u64)>,
    /// Record as last persisted to this drive.
    pub record: Option<Record>,
}

impl Disk {
    pub fn empty(size_bytes: u64) -> Disk {
        Disk {
            bytes: vec![0; size_bytes as usize],
            gone: false,
            flushes_fail: false,
            flushes_to_fail: 0,
            writes_fail: false,
            bad: Vec::new(),
            busy: 0,
            reads: 0,
            hung: false,
            deaf: false,
            unflushed: Vec::new(),
            record: None,
        }
    }
}

pub struct Shared {
    pub now: u64,
    pub random: Random,
    pub memory: Vec<u8>,
    pub disks: Vec<Disk>,
    pub mail: Vec<VecDeque<Message>>,
    pub completions: Vec<Completion>,
    /// Requests that have not been answered.
    pub flights: BTreeMap<u64, Flight>,
    /// Reads that have to be asked again, because their buffer is held.
    pub held: Vec<u64>,
    /// Reads that had to be asked again with another buffer: tag and buffer.
    pub moved: Vec<(u64, Buffer)>,
    /// Payload memory that hung drives may use, as often as it was pinned.
    pub pins: Vec<Buffer>,
    /// Memory of requests, as long as it has not been given out again.
    pub allocations: Vec<Range<u64>>,
    /// Commands that were carried out after they had been given up.
    pub late: usize,
    pub events: Vec<Event>,
    pub persists: Vec<(MemberId, Record)>,
    pub hold_persists: bool,
    /// Checkpoints that were recorded while data below them was not flushed.
    pub early_checkpoints: usize,
    /// Bad blocks that a record knew no more while what was written over them was not flushed.
    pub early_clears: usize,
    held_persists: Vec<(ShardId, Input)>,
    pub shape: Geometry,
    /// By slot: the ranges on members that the last unit of its log is about.
    logged: Vec<Vec<(u64, u64)>>,
    /// Units that were written while something of the unit before was not flushed.
    pub early_units: usize,
    /// Looks after the write-intent bitmap, if there is one.
    pub marks: Option<marks::Watch>,
    /// Longest I/O time.
    pub latency_ns: u64,
    payload_from: u64,
}

/// A request that has not been answered.
pub struct Flight {
    pub request: Request,
    shard: usize,
    /// Its buffer is held: it has to be asked again with another one.
    again: bool,
}

impl Shared {
    /// Ranges that the record last persisted to a drive calls bad, `record` does not, and that hold something
    /// unflushed.
    fn early_clears(&self, carrier: MemberId, record: &Record) -> usize {
        let before = self.disks[carrier.0 as usize].record.as_ref();
        let ranges = before.map_or(&[][..], |before| before.bad_blocks.ranges());
        let is_early = |range: &&BadRange| {
            let (member, low, high) = (range.member, range.offset_bytes, range.end_bytes());
            let cleared = |&(from, to): &(u64, u64)| {
                let (from, to) = (from.max(low), to.min(high));
                from < to && !record.bad_blocks.touch(member, from, to - from)
            };
            self.disks[member.0 as usize].unflushed.iter().any(cleared)
        };
        ranges.iter().filter(is_early).count()
    }

    /// The ranges on members that the last unit of a slot's log is about.
    pub fn last_logged(&self, slot: Slot) -> &[(u64, u64)] {
        &self.logged[usize::from(slot.0)]
    }

    /// Checks that what the log's unit before was about is durable.
    fn follow_log(&mut self, unit: &LogUnit) {
        let shape = self.shape;
        let range = |entry: &engine::log::LogEntry| {
            let place = shape.locate(entry.data_offset_bytes);
            let low = shape.member_offset_bytes(place.row, place.in_chunk_bytes);
            let chunks = match entry.partial_parity_bytes {
                0 => u32::from(shape.data_members()),
                bytes => entry.data_bytes / bytes,
            };
            (low, low + u64::from(entry.data_bytes / chunks))
        };
        let ranges = unit.entries.iter().map(range).collect();
        let before = std::mem::replace(&mut self.logged[unit.slot.0 as usize], ranges);
        let touches = |&(low, high): &(u64, u64)| {
            let mut unflushed = self.disks.iter().flat_map(|disk| &disk.unflushed);
            unflushed.any(|&(from, to)| from < high && low < to)
        };
        self.early_units += usize::from(before.iter().any(touches));
    }

    /// A drive does late what nobody waits for: its memory must still be its request's, or pinned.
    fn check_late(&mut self, memory: &[Segment]) {
        self.late += 1;
        for segment in memory
            .iter()
            .filter(|segment| segment.buffer.0 >= self.payload_from)
        {
            let at = segment.buffer.0;
            let asked = |flight: &Flight| {
                let from = flight.request.buffer.0;
                !flight.again && (from..from + u64::from(flight.request.length_bytes)).contains(&at)
            };
            let pinned = |allocation: &Range<u64>| {
                allocation.contains(&at) && self.pins.iter().any(|pin| allocation.contains(&pin.0))
            };
            let is_kept = self.flights.values().any(asked) || self.allocations.iter().any(pinned);
            assert!(
                is_kept,
                "late command uses memory at {at} that somebody else may have"
            );
        }
    }

    /// Rebuild checkpoints in `record` below which the new drive has something unflushed.
    fn early_checkpoints(&self, record: &Record) -> usize {
        let early = |volume: &&VolumeRecord| {
            let Some(SyncRecord {
                kind: SyncKind::Rebuild(slot),
                done_bytes,
            }) = volume.sync
            else {
                return false;
            };
            let Some(member) = volume.slots[slot.0 as usize].member else {
                return false;
            };
            let from = volume.geometry.start_bytes;
            let below = |&(low, high): &(u64, u64)| low < from + done_bytes && from < high;
            // Client writes below the mark are the client's to flush; here nobody else writes.
            self.disks[member.0 as usize].unflushed.iter().any(below)
        };
        record.volumes.iter().filter(early).count()
    }
}

struct Pending {
    due: u64,
    token: Token,
    io: Io,
    memory: Vec<Segment>,
    cancelled: bool,
}

pub struct MemoryWorld {
    pub shared: Rc<RefCell<Shared>>,
    shard: ShardId,
    pending: Vec<Pending>,
    ready: Vec<Input>,
    /// Records on their way to drives that hang.
    hung_persists: Vec<(MemberId, Input)>,
}

impl MemoryWorld {
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
        let mut sum = vec![0u8; length_bytes as usize];
        let mut shared = self.shared.borrow_mut();
        for source in sources {
            let from = source.buffer.0 as usize;
            for (into, byte) in sum
                .iter_mut()
                .zip(&shared.memory[from..from + length_bytes as usize])
            {
                *into ^= byte;
            }
        }
        shared.memory[target.0 as usize..][..length_bytes as usize].copy_from_slice(&sum);
    }

    fn xor_is_zero(&mut self, length_bytes: u32, sources: impl Iterator<Item = Segment>) -> bool {
        let mut sum = vec![0u8; length_bytes as usize];
        let shared = self.shared.borrow();
        for source in sources {
            let from = source.buffer.0 as usize;
            for (into, byte) in sum
                .iter_mut()
                .zip(&shared.memory[from..from + length_bytes as usize])
            {
                *into ^= byte;
            }
        }
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
            "pinned before the answer"
        );
        shared.pins.push(buffer);
    }

    fn release(&mut self, buffer: Buffer) {
        let pins = &mut self.shared.borrow_mut().pins;
        let at = pins.iter().position(|pin| *pin == buffer);
        pins.swap_remove(at.expect("released what was pinned"));
    }

    fn send(&mut self, to: ShardId, message: Message) {
        self.shared.borrow_mut().mail[to.0 as usize].push_back(message);
    }

    fn persist(&mut self, member: MemberId, record: &Record) {
        let mut shared = self.shared.borrow_mut();
        let early = shared.early_checkpoints(record);
        shared.early_checkpoints += early;
        let early = shared.early_clears(member, record);
        shared.early_clears += early;
        let disk = &mut shared.disks[member.0 as usize];
        let gone = disk.gone;
        let result = if gone {
            Err(MemberError::from_errno(6))
        } else {
            Ok(())
        };
        if !gone {
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

/// An array in memory.
pub struct Array {
    pub shards: Vec<Shard<MemoryWorld>>,
    pub shared: Rc<RefCell<Shared>>,
    pub shape: Geometry,
    next_tag: u64,
    payload_from: u64,
    payload_next: u64,
}

/// Payload memory for requests.
const PAYLOAD_BYTES: u64 = 16 * MIB;
const SCRATCH_BYTES: u64 = 16 * MIB;

pub fn geometry(level: Level, members: u8, chunk_bytes: u32, rows: u64) -> Geometry {
    let chunk = if level == Level::Raid1 {
        MIB as u32
    } else {
        chunk_bytes
    };
    let mut shape = Geometry {
        level,
        members,
        chunk_bytes: chunk,
        start_bytes: 8192,
        component_bytes: rows * u64::from(chunk_bytes),
        size_bytes: 512,
        block_bytes: 512,
    };
    shape.size_bytes = shape.component_bytes * u64::from(shape.data_members());
    Geometry::new(shape).expect("a valid geometry")
}

pub fn record(shape: Geometry, spares: u8, sync: Option<SyncKind>) -> Record {
    let disk_bytes = shape.start_bytes + shape.component_bytes + 4 * MIB;
    let drive = |state| MemberRecord {
        state,
        size_bytes: disk_bytes,
        volatile_cache: true,
        returns_to: None,
    };
    let mut members = vec![drive(MemberState::Active); shape.members as usize];
    members.extend(vec![drive(MemberState::Spare); spares as usize]);
    let slots = (0..shape.members)
        .map(|slot| SlotRecord {
            member: Some(MemberId(slot)),
            current: true,
        })
        .collect();
    let volume = VolumeRecord {
        geometry: shape,
        read_only: false,
        dirty: false,
        slots,
        sync: sync.map(|kind| SyncRecord {
            kind,
            done_bytes: 0,
        }),
        then_resync: false,
        log: None,
        bitmap: None,
    };
    Record {
        generation: 1,
        members,
        volumes: vec![volume],
        bad_blocks: BadBlocks::default(),
    }
}

impl Array {
    pub fn new(record: Record, shards: u8, seed: u64, options: Options) -> Array {
        let shape = record.volumes[0].geometry;
        let disks = record
            .members
            .iter()
            .map(|member| Disk::empty(member.size_bytes));
        let disks = disks.collect();
        Array::over(record, disks, shards, seed, options, shape)
    }

    /// An array over drives that hold something already.
    pub fn over(
        record: Record,
        disks: Vec<Disk>,
        shards: u8,
        seed: u64,
        options: Options,
        shape: Geometry,
    ) -> Array {
        let zeros = 4096;
        let scratch_from = zeros + u64::from(BAND_BYTES_MAX);
        let payload_from = scratch_from + SCRATCH_BYTES * u64::from(shards);
        let shared = Rc::new(RefCell::new(Shared {
            now: 1,
            random: Random(seed),
            memory: vec![0; (payload_from + PAYLOAD_BYTES) as usize],
            disks,
            mail: (0..shards).map(|_| VecDeque::new()).collect(),
            completions: Vec::new(),
            flights: BTreeMap::new(),
            held: Vec::new(),
            moved: Vec::new(),
            pins: Vec::new(),
            allocations: Vec::new(),
            late: 0,
            payload_from,
            events: Vec::new(),
            persists: Vec::new(),
            hold_persists: false,
            early_checkpoints: 0,
            early_clears: 0,
            held_persists: Vec::new(),
            shape,
            logged: vec![Vec::new(); shape.members as usize],
            early_units: 0,
            marks: None,
            latency_ns: 50_000,
        }));
        let claims = Claims::new();
        let make = |shard: u8| {
            let setup = Setup {
                shard: ShardId(shard),
                shards,
                record: record.clone(),
                scratch: (
                    Buffer(scratch_from + SCRATCH_BYTES * u64::from(shard)),
                    SCRATCH_BYTES,
                ),
                zeros: Buffer(zeros),
                options,
                claims: claims.clone(),
            };
            let world = MemoryWorld {
                shared: shared.clone(),
                shard: ShardId(shard),
                pending: Vec::new(),
                ready: Vec::new(),
                hung_persists: Vec::new(),
            };
            Shard::new(Engine::new(setup, Nanos(1)), world)
        };
        let shards = (0..shards).map(make).collect();
        Array {
            shards,
            shared,
            shape,
            next_tag: 1,
            payload_from,
            payload_next: 0,
        }
    }

    /// One turn of every shard, in random order, and a little time.
    pub fn turn(&mut self) -> bool {
        let mut busy = false;
        let first = self
            .shared
            .borrow_mut()
            .random
            .below(self.shards.len() as u64) as usize;
        for offset in 0..self.shards.len() {
            let at = (first + offset) % self.shards.len();
            busy |= self.shards[at].turn();
        }
        self.ask_again();
        let mut shared = self.shared.borrow_mut();
        shared.now += 10_000;
        busy
    }

    /// A turn of one shard only: the others are busy elsewhere.
    pub fn turn_alone(&mut self, shard: usize) {
        self.shards[shard].turn();
        self.shared.borrow_mut().now += 10_000;
    }

    /// A turn of one shard that gets none of its mail, because messages take their time.
    pub fn turn_without_mail(&mut self, shard: usize) {
        let mut kept = std::mem::take(&mut self.shared.borrow_mut().mail[shard]);
        self.turn_alone(shard);
        let mut shared = self.shared.borrow_mut();
        kept.append(&mut shared.mail[shard]);
        shared.mail[shard] = kept;
    }

    /// What four reads at once bring on a shard that gets none of its mail.
    pub fn read_without_mail(&mut self, shard: usize, offset: u64, length: u32) -> Vec<Vec<u8>> {
        let reads: Vec<_> = (0..4)
            .map(|_| {
                let buffer = self.allocate(u64::from(length));
                let tag = self.submit(shard, Operation::Read, offset, length, buffer);
                (tag, buffer)
            })
            .collect();
        let bytes = |array: &mut Array, (tag, buffer): (u64, Buffer)| {
            while array.shared.borrow().flights.contains_key(&tag) {
                array.turn_without_mail(shard);
            }
            assert_eq!(array.take_completion(tag), Some(Ok(())));
            let shared = array.shared.borrow();
            shared.memory[buffer.0 as usize..][..length as usize].to_vec()
        };
        reads.into_iter().map(|read| bytes(self, read)).collect()
    }

    /// Asks for reads whose buffer is held with other buffers.
    fn ask_again(&mut self) {
        let held = std::mem::take(&mut self.shared.borrow_mut().held);
        for tag in held {
            let mut request = self.shared.borrow().flights[&tag].request;
            request.buffer = self.allocate(u64::from(request.length_bytes));
            let mut shared = self.shared.borrow_mut();
            let now = Nanos(shared.now);
            shared.moved.retain(|(of, _)| *of != request.tag);
            shared.moved.push((request.tag, request.buffer));
            let flight = shared.flights.get_mut(&request.tag).unwrap();
            flight.again = false;
            flight.request = request;
            let shard = flight.shard;
            drop(shared);
            self.shards[shard]
                .engine
                .handle(Input::Request(request), now);
        }
    }

    /// Where the bytes of the read `tag` are, which was asked with `buffer`.
    pub fn answer_of(&self, tag: u64, buffer: Buffer) -> Buffer {
        let shared = self.shared.borrow();
        let moved = shared.moved.iter().find(|(of, _)| *of == tag);
        moved.map_or(buffer, |(_, moved)| *moved)
    }

    /// Turns until `until` holds; panics after too many turns.
    pub fn run_until(&mut self, mut until: impl FnMut(&mut Array) -> bool) {
        for _ in 0..400_000 {
            if until(self) {
                return;
            }
            self.turn();
        }
        let events = &self.shared.borrow().events;
        panic!(
            "nothing came of it; events: {:?}",
            &events[events.len().saturating_sub(20)..]
        );
    }

    pub fn wait_ms(&mut self, milliseconds: u64) {
        let step = 20;
        for _ in 0..milliseconds.div_ceil(step) {
            self.shared.borrow_mut().now += step * 1_000_000;
            self.turn();
            self.turn();
        }
    }

    /// Memory for a request. It is given out again after a while, unless it is pinned.
    pub fn allocate(&mut self, length: u64) -> Buffer {
        let length = length.next_multiple_of(512);
        let mut shared = self.shared.borrow_mut();
        for _ in 0..100_000 {
            if self.payload_next + length > PAYLOAD_BYTES {
                self.payload_next = 0;
            }
            let from = self.payload_from + self.payload_next;
            let wanted = from..from + length;
            let overlaps =
                |other: &&Range<u64>| other.start < wanted.end && wanted.start < other.end;
            let pinned = |other: &&Range<u64>| shared.pins.iter().any(|pin| other.contains(&pin.0));
            if let Some(taken) = shared.allocations.iter().filter(overlaps).find(pinned) {
                self.payload_next = taken.end - self.payload_from;
                continue;
            }
            shared
                .allocations
                .retain(|other| other.start >= wanted.end || wanted.start >= other.end);
            shared.allocations.push(wanted);
            self.payload_next += length;
            return Buffer(from);
        }
        panic!("all payload memory is pinned");
    }

    pub fn submit(
        &mut self,
        shard: usize,
        operation: Operation,
        offset: u64,
        length: u32,
        buffer: Buffer,
    ) -> u64 {
        self.submit_to(shard, VolumeId(0), operation, offset, length, buffer, false)
    }

    #[allow(clippy::too_many_arguments)]
    pub fn submit_to(
        &mut self,
        shard: usize,
        volume: VolumeId,
        operation: Operation,
        offset: u64,
        length: u32,
        buffer: Buffer,
        fua: bool,
    ) -> u64 {
        let tag = self.next_tag;
        self.next_tag += 1;
        let request = Request {
            tag,
            volume,
            operation,
            fua,
            offset_bytes: offset,
            length_bytes: length,
            buffer,
        };
        let mut shared = self.shared.borrow_mut();
        let now = Nanos(shared.now);
        let flight = Flight {
            request,
            shard,
            again: false,
        };
        shared.flights.insert(tag, flight);
        drop(shared);
        self.shards[shard]
            .engine
            .handle(Input::Request(request), now);
        tag
    }

    pub fn take_completion(&mut self, tag: u64) -> Option<Result<(), Failure>> {
        let mut shared = self.shared.borrow_mut();
        let at = shared
            .completions
            .iter()
            .position(|completion| completion.tag == tag)?;
        Some(shared.completions.swap_remove(at).result)
    }

    pub fn finish(&mut self, tag: u64) -> Result<(), Failure> {
        let mut result = None;
        self.run_until(|array| {
            result = array.take_completion(tag);
            result.is_some()
        });
        result.unwrap()
    }

    pub fn fill(&mut self, buffer: Buffer, bytes: &[u8]) {
        self.shared.borrow_mut().memory[buffer.0 as usize..][..bytes.len()].copy_from_slice(bytes);
    }

    pub fn write(&mut self, shard: usize, offset: u64, bytes: &[u8]) -> Result<(), Failure> {
        let buffer = self.allocate(bytes.len() as u64);
        self.fill(buffer, bytes);
        let tag = self.submit(shard, Operation::Write, offset, bytes.len() as u32, buffer);
        self.finish(tag)
    }

    pub fn read(&mut self, shard: usize, offset: u64, length: u32) -> Result<Vec<u8>, Failure> {
        let buffer = self.allocate(u64::from(length));
        let tag = self.submit(shard, Operation::Read, offset, length, buffer);
        self.finish(tag)?;
        let buffer = self.answer_of(tag, buffer);
        Ok(self.shared.borrow().memory[buffer.0 as usize..][..length as usize].to_vec())
    }

    pub fn command(&mut self, command: Command) -> Result<(), engine::control::message::Refused> {
        let ticket = self.next_tag;
        self.next_tag += 1;
        self.shared.borrow_mut().mail[0].push_back(Message::Command { ticket, command });
        let mut answer = None;
        self.run_until(|array| {
            answer = array
                .shared
                .borrow()
                .events
                .iter()
                .find_map(|event| match event {
                    Event::Answered {
                        ticket: answered,
                        result,
                    } if *answered == ticket => Some(*result),
                    _ => None,
                });
            answer.is_some()
        });
        answer.unwrap()
    }

    pub fn has_event(&self, wanted: impl Fn(&Event) -> bool) -> bool {
        self.shared.borrow().events.iter().any(wanted)
    }

    /// Makes a drive hang: it takes commands, does not answer, and cannot be made to.
    pub fn hang(&mut self, drive: usize) {
        let disk = &mut self.shared.borrow_mut().disks[drive];
        (disk.hung, disk.deaf) = (true, true);
    }

    /// The drive carries out what it has taken.
    pub fn unhang(&mut self, drive: usize) {
        self.shared.borrow_mut().disks[drive].hung = false;
    }

    /// Commands that drives have not given back and that no shard waits for.
    pub fn left_behind(&self) -> usize {
        let left = |shard: &Shard<MemoryWorld>| shard.engine.left_behind().0;
        self.shards.iter().map(left).sum()
    }

    pub fn release_persists(&mut self) {
        let mut shared = self.shared.borrow_mut();
        shared.hold_persists = false;
        let held = std::mem::take(&mut shared.held_persists);
        drop(shared);
        for (shard, input) in held {
            self.shards[shard.0 as usize].world.ready.push(input);
        }
    }

    /// Scrubs and returns the number of stripes that do not match.
    pub fn scrub(&mut self, repair: bool) -> u64 {
        self.shared.borrow_mut().events.clear();
        self.command(Command::Scrub {
            volume: VolumeId(0),
            repair,
        })
        .expect("scrub starts");
        let mut found = None;
        self.run_until(|array| {
            found = array
                .shared
                .borrow()
                .events
                .iter()
                .find_map(|event| match event {
                    Event::JobEnded {
                        complete,
                        mismatches,
                        ..
                    } => Some((*complete, *mismatches)),
                    _ => None,
                });
            found.is_some()
        });
        let (complete, mismatches) = found.unwrap();
        assert!(complete, "the scrub ran to its end");
        mismatches
    }

    pub fn wait_for_job(&mut self) {
        self.run_until(|array| {
            array.has_event(|event| matches!(event, Event::JobEnded { complete: true, .. }))
        });
    }
}
