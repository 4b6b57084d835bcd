//! What the shards of an array, its drives and the test share.

use super::{Random, marks};
use engine::control::bad_blocks::BadRange;
use engine::control::message::Message;
use engine::control::record::{Record, SyncKind, SyncRecord, VolumeRecord};
use engine::event::Event;
use engine::layout::Geometry;
use engine::log::unit::LogUnit;
use engine::plan::{Segment, StepKind};
use engine::request::{Completion, Request};
use engine::units::{Buffer, MemberId, ShardId, Slot};
use engine::world::Input;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Which commands are refused, with which errno, and how many of them.
pub type Refusal = (fn(StepKind) -> bool, i32, usize);

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
    /// The next commands that are refused: they do nothing, or half of what they are to do ([`Disk::tears`]).
    pub refusal: Option<Refusal>,
    /// Half of a write that is refused has been carried out.
    pub tears: bool,
    /// Records are refused with this errno.
    pub refuses_records: Option<i32>,
    /// Reads that were carried out.
    pub reads: usize,
    /// I/O is taken and not answered.
    pub hung: bool,
    /// While the drive hangs, cancelling has no effect. Cancelled commands are carried out when the hang ends, and
    /// reads return garbage then.
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
            refusal: None,
            tears: false,
            refuses_records: None,
            reads: 0,
            hung: false,
            deaf: false,
            unflushed: Vec::new(),
            record: None,
        }
    }

    /// The errno with which a command is refused.
    pub(super) fn refuse(&mut self, kind: StepKind) -> Option<i32> {
        let (is_meant, errno, left) = self.refusal.as_mut()?;
        let is_refused = is_meant(kind) && *left > 0;
        *left -= usize::from(is_refused);
        is_refused.then_some(*errno)
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
    /// Tags of reads that have to be issued again, because their buffer is held.
    pub held: Vec<u64>,
    /// Reads that were issued again with another buffer: tag and that buffer.
    pub moved: Vec<(u64, Buffer)>,
    /// Payload memory that is pinned because hung drives may use it, once per pin.
    pub pins: Vec<Buffer>,
    /// Memory of requests, as long as it has not been given out again.
    pub allocations: Vec<Range<u64>>,
    /// Commands that were carried out after they had been abandoned.
    pub late: usize,
    pub events: Vec<Event>,
    pub persists: Vec<(MemberId, Record)>,
    pub hold_persists: bool,
    /// Whether the metadata cannot express a record. Arguments: the last record that it could express, and this one.
    pub refuses: fn(&Record, &Record) -> bool,
    /// The last record that the metadata could express.
    pub expressed: Record,
    /// Records that the metadata could not express, once per attempt.
    pub refused: Vec<Record>,
    /// Checkpoints that were recorded while data below them was not flushed.
    pub early_checkpoints: usize,
    /// Bad blocks that left a record before the write over them was flushed.
    pub early_clears: usize,
    pub(super) held_persists: Vec<(ShardId, Input)>,
    pub shape: Geometry,
    /// By slot: the ranges on members that the last unit of its log covers.
    pub(super) logged: Vec<Vec<(u64, u64)>>,
    /// Units that were written while something that the unit before covers was not flushed.
    pub early_units: usize,
    /// Watches the rules of the write-intent bitmap, if there is one.
    pub marks: Option<marks::Watch>,
    /// Longest I/O time.
    pub latency_ns: u64,
    pub(super) payload_from: u64,
}

/// A request that has not been answered.
pub struct Flight {
    pub request: Request,
    pub(super) shard: usize,
    /// The request's buffer is held: it has to be issued again with another one.
    pub(super) again: bool,
}

impl Shared {
    /// How many ranges are bad in the record last persisted to a drive, are not in `record`, and hold something
    /// unflushed.
    pub(super) fn early_clears(&self, carrier: MemberId, record: &Record) -> usize {
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

    /// The ranges on members that the last unit of a slot's log covers.
    pub fn last_logged(&self, slot: Slot) -> &[(u64, u64)] {
        &self.logged[usize::from(slot.0)]
    }

    /// Takes in a new unit of a log; counts it as early if what the unit before covers is not durable.
    pub(super) fn follow_log(&mut self, unit: &LogUnit) {
        let shape = self.shape;
        let range = |entry: &engine::log::unit::LogEntry| {
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

    /// Checks a command that a drive carries out after it was abandoned: its memory must still be its request's, or
    /// pinned.
    pub(super) fn check_late(&mut self, memory: &[Segment]) {
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
                "late command uses memory at {at} that another request may have"
            );
        }
    }

    /// Rebuild checkpoints in `record` below which the new drive has something unflushed.
    pub(super) fn early_checkpoints(&self, record: &Record) -> usize {
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
            // Client writes below the checkpoint need no flush for it; where this is tested, only the rebuild writes.
            self.disks[member.0 as usize].unflushed.iter().any(below)
        };
        record.volumes.iter().filter(early).count()
    }
}
