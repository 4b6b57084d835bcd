//! Requests of clients with any arguments, most of them valid.

use super::model::{BLOCK_BYTES, Known, payload};
use super::script::Script;
use super::{Exercise, PATIENCE_MS};
use crate::memory::MIB;
use engine::layout::Geometry;
use engine::request::{Failure, Operation};
use engine::units::{Buffer, VolumeId};

/// Payload under way, at most: what there is memory for, with room for requests that are issued again.
const UNDER_WAY_BYTES_MAX: u64 = 5 * MIB;
/// Requests under way, at most.
const UNDER_WAY_MAX: usize = 48;
/// Longest read when everything is read back.
const READ_BACK_BYTES: u64 = 256 << 10;

/// A request that has not been answered.
#[derive(Debug)]
pub(super) struct Flying {
    tag: u64,
    volume: VolumeId,
    operation: Operation,
    offset_bytes: u64,
    length_bytes: u32,
    buffer: Buffer,
    /// The number of the write; 0 for zeros.
    number: u64,
    /// What was known of the range when the request began; `None` for flushes and for ranges that do not exist.
    known: Option<Known>,
}

impl Exercise {
    pub(super) fn ask(&mut self, script: &mut Script) {
        let operation = an_operation(script);
        let is_possible = !script.one_in(12);
        let volumes = self.models.len() as u64;
        let volume = VolumeId(if is_possible {
            script.below(volumes) as u8
        } else {
            script.byte()
        });
        let shape = self.array.shards[0].engine.geometry(volume).copied();
        let (offset_bytes, length_bytes) = match &shape {
            Some(shape) if is_possible => a_range(script, shape),
            _ => (
                script.any_number(),
                script.any_number().min(u64::from(u32::MAX)) as u32,
            ),
        };
        let shard = script.below(self.array.shards.len() as u64) as usize;
        let fua = script.one_in(6);
        self.submit(
            shard,
            (volume, operation, fua),
            (offset_bytes, length_bytes),
        );
    }

    fn submit(
        &mut self,
        shard: usize,
        (volume, operation, fua): (VolumeId, Operation, bool),
        (offset_bytes, length_bytes): (u64, u32),
    ) {
        let bytes = u64::from(length_bytes);
        let flying = self.flying.iter();
        let under_way: u64 = flying.map(Flying::payload_bytes).sum();
        let shape = self.array.shards[0].engine.geometry(volume);
        let is_flush = operation == Operation::Flush;
        let is_range = shape.is_some_and(|shape| is_range(shape, offset_bytes, bytes));
        let has_payload = is_range && matches!(operation, Operation::Read | Operation::Write);
        if self.flying.len() >= UNDER_WAY_MAX
            || (has_payload && under_way + bytes > UNDER_WAY_BYTES_MAX)
        {
            return;
        }
        let buffer = if has_payload {
            self.array.allocate(bytes)
        } else {
            Buffer(0)
        };
        let mut number = 0;
        if operation == Operation::Write && is_range {
            number = self.next_write;
            self.next_write += 1;
            self.array
                .fill(buffer, &payload(number, offset_bytes, bytes));
        }
        let known = (is_range && !is_flush).then(|| {
            let model = &mut self.models[usize::from(volume.0)];
            match operation {
                Operation::Read => model.begin_read(offset_bytes, bytes),
                _ => model.begin_write(offset_bytes, bytes),
            }
        });
        let tag = self.array.submit_to(
            shard,
            volume,
            operation,
            offset_bytes,
            length_bytes,
            buffer,
            fua,
        );
        self.flying.push(Flying {
            tag,
            volume,
            operation,
            offset_bytes,
            length_bytes,
            buffer,
            number,
            known,
        });
    }

    /// Takes in the answers to requests.
    pub(super) fn reap_answers(&mut self) {
        let completions = std::mem::take(&mut self.array.shared.borrow_mut().completions);
        for completion in completions {
            let mut flying = self.flying.iter();
            let at = flying.position(|flying| flying.tag == completion.tag);
            let flying = self
                .flying
                .swap_remove(at.expect("only requests are answered"));
            self.settle(flying, completion.result);
        }
    }

    fn settle(&mut self, flying: Flying, result: Result<(), Failure>) {
        match result {
            Ok(()) => self.outcome.carried_out += 1,
            Err(_) => self.outcome.errors += 1,
        }
        let Some(known) = &flying.known else {
            let is_flush = flying.operation == Operation::Flush;
            assert!(
                is_flush || result.is_err(),
                "{flying:?} is invalid, and was carried out"
            );
            return;
        };
        let offset_bytes = flying.offset_bytes;
        let model = &mut self.models[usize::from(flying.volume.0)];
        let is_true = self.is_true && result.is_ok();
        match flying.operation {
            Operation::Read if is_true => {
                let buffer = self.array.answer_of(flying.tag, flying.buffer).0 as usize;
                let shared = self.array.shared.borrow();
                let bytes = &shared.memory[buffer..buffer + flying.length_bytes as usize];
                self.outcome.right_blocks += model.end_read((offset_bytes, known), bytes);
            }
            Operation::Read => {}
            Operation::Write | Operation::WriteZeroes { .. } => {
                let content = is_true.then_some(flying.number);
                model.end_write((offset_bytes, known), content);
            }
            Operation::Trim | Operation::Flush => model.end_write((offset_bytes, known), None),
        }
    }

    /// Reads all volumes, from all shards.
    pub(super) fn read_all(&mut self) {
        for volume in (0..self.models.len() as u8).map(VolumeId) {
            let shape = self.array.shards[0].engine.geometry(volume);
            let size_bytes = shape.expect("it has a geometry").size_bytes;
            for (at, from) in (0..size_bytes)
                .step_by(READ_BACK_BYTES as usize)
                .enumerate()
            {
                let length_bytes = READ_BACK_BYTES.min(size_bytes - from) as u32;
                let shard = at % self.array.shards.len();
                self.submit(
                    shard,
                    (volume, Operation::Read, false),
                    (from, length_bytes),
                );
                let is_read = self.wait_until(PATIENCE_MS, |exercise| exercise.flying.is_empty());
                assert!(is_read, "never answered: {:?}", self.flying);
            }
        }
    }
}

impl Flying {
    fn payload_bytes(&self) -> u64 {
        let has_payload = matches!(self.operation, Operation::Read | Operation::Write);
        if has_payload && self.known.is_some() {
            u64::from(self.length_bytes)
        } else {
            0
        }
    }
}

fn an_operation(script: &mut Script) -> Operation {
    match script.below(16) {
        0..=6 => Operation::Write,
        7..=11 => Operation::Read,
        12 => Operation::Flush,
        13 => Operation::Trim,
        choice => Operation::WriteZeroes {
            keep_allocated: choice == 14,
            only_if_fast: script.one_in(3),
        },
    }
}

/// Whether the range lies in the volume and consists of whole blocks.
fn is_range(shape: &Geometry, offset_bytes: u64, length_bytes: u64) -> bool {
    let block = u64::from(shape.block_bytes);
    let end = offset_bytes.checked_add(length_bytes);
    length_bytes > 0
        && offset_bytes.is_multiple_of(block)
        && length_bytes.is_multiple_of(block)
        && end.is_some_and(|end| end <= shape.size_bytes)
}

/// A range that the volume has: a few blocks near its beginning or anywhere, whole rows, or all that is left.
fn a_range(script: &mut Script, shape: &Geometry) -> (u64, u32) {
    let block = u64::from(shape.block_bytes);
    let blocks = shape.size_bytes / block;
    let (from, count) = match script.below(8) {
        0..=2 => (script.below(blocks.min(256)), 1 + script.below(16)),
        3..=5 => (script.below(blocks), 1 + script.below(64)),
        6 => {
            let row = shape.row_bytes() / block;
            let from = script.below(blocks.div_ceil(row)) * row;
            (from, row * (1 + script.below(3)))
        }
        _ => (script.below(blocks), blocks),
    };
    let count = count.min(blocks - from);
    (from * block, (count * block) as u32)
}

const _: () = assert!(READ_BACK_BYTES.is_multiple_of(BLOCK_BYTES));
