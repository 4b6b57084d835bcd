//! An array that gets far more requests at once than it can take.

use crate::memory::{Array, MIB, record};
use engine::layout::Geometry;
use engine::occupancy::Occupancy;
use engine::options::Options;
use engine::request::Operation;
use engine::units::Buffer;
use std::collections::BTreeSet;

/// A check walks over all that waits, which is hundreds of thousands of requests here.
pub const CHECK_EVERY_TURNS: u64 = 16;

/// The unit of most requests here.
pub const BLOCK_BYTES: u32 = 4096;

/// What block `at` of the volume holds once it is written.
fn pattern(at: u64) -> Vec<u8> {
    let words =
        (0..u64::from(BLOCK_BYTES) / 8).map(|word| (at << 32 | word).wrapping_mul(0x9E37_79B9));
    words.flat_map(u64::to_le_bytes).collect()
}

/// The array, the requests it has been given, and how full its shards were.
pub struct Flooded {
    pub array: Array,
    /// Payload of every block of the volume, and of one more that reads go to.
    payload: Buffer,
    unanswered: BTreeSet<u64>,
    written: BTreeSet<u64>,
    /// The fullest that each shard has been.
    pub most: Vec<Occupancy>,
}

impl Flooded {
    /// An array of `shape` with `shards` shards.
    pub fn new(shape: Geometry, shards: u8) -> Flooded {
        Flooded::over(Array::new(
            record(shape, 0, None),
            shards,
            5,
            Options::default(),
        ))
    }

    pub fn over(mut array: Array) -> Flooded {
        let blocks = array.shape.size_bytes / u64::from(BLOCK_BYTES);
        let bytes = (blocks + 1) * u64::from(BLOCK_BYTES);
        assert!(bytes <= 16 * MIB, "more than there is payload memory for");
        let payload = array.allocate(bytes);
        for block in 0..blocks {
            array.fill(payload.at(block as u32 * BLOCK_BYTES), &pattern(block));
        }
        array.shared.borrow_mut().latency_ns = 0;
        array.check_every_turns = CHECK_EVERY_TURNS;
        let most = vec![Occupancy::default(); array.shards.len()];
        Flooded {
            array,
            payload,
            unanswered: BTreeSet::new(),
            written: BTreeSet::new(),
            most,
        }
    }

    pub fn blocks(&self) -> u64 {
        self.array.shape.size_bytes / u64::from(BLOCK_BYTES)
    }

    /// Hands in a write of `count` blocks from `first` on; nothing is done before [`Flooded::answer_all`].
    pub fn write(&mut self, shard: usize, first: u64, count: u32) {
        let buffer = self.payload.at(first as u32 * BLOCK_BYTES);
        self.written.extend(first..first + u64::from(count));
        self.submit(shard, Operation::Write, (first, count), buffer);
    }

    /// The same for zeros.
    pub fn zero(&mut self, shard: usize, first: u64, count: u32) {
        for block in first..first + u64::from(count) {
            self.written.remove(&block);
        }
        let zeroes = Operation::WriteZeroes {
            keep_allocated: true,
            only_if_fast: false,
        };
        self.submit(shard, zeroes, (first, count), Buffer(0));
    }

    /// The same for a read, whose data are not looked at: [`Flooded::verify`] reads everything again.
    pub fn read(&mut self, shard: usize, block: u64) {
        let nowhere = self.payload.at(self.blocks() as u32 * BLOCK_BYTES);
        self.submit(shard, Operation::Read, (block, 1), nowhere);
    }

    /// The same into memory of its own, for a block that has been written.
    pub fn read_again(&mut self, shard: usize, block: u64) {
        assert!(self.written.contains(&block));
        let buffer = self.payload.at(block as u32 * BLOCK_BYTES);
        self.submit(shard, Operation::Read, (block, 1), buffer);
    }

    fn submit(
        &mut self,
        shard: usize,
        operation: Operation,
        (first, count): (u64, u32),
        buffer: Buffer,
    ) {
        let (offset, length) = (first * u64::from(BLOCK_BYTES), count * BLOCK_BYTES);
        let tag = self.array.submit(shard, operation, offset, length, buffer);
        assert!(self.unanswered.insert(tag));
        self.look(shard);
    }

    fn look(&mut self, shard: usize) {
        let now = self.array.shards[shard].engine.occupancy();
        self.most[shard] = self.most[shard].most(now);
    }

    /// One turn of every shard.
    pub fn turn(&mut self) {
        self.array.turn();
        (0..self.most.len()).for_each(|shard| self.look(shard));
        let completions = std::mem::take(&mut self.array.shared.borrow_mut().completions);
        for completion in completions {
            assert_eq!(completion.result, Ok(()), "request {}", completion.tag);
            let known = self.unanswered.remove(&completion.tag);
            assert!(known, "request {} is answered twice", completion.tag);
        }
    }

    /// Requests that have not been answered.
    pub fn unanswered(&self) -> usize {
        self.unanswered.len()
    }

    /// Runs until everything has been answered.
    pub fn answer_all(&mut self) {
        let mut idle_turns = 0;
        while !self.unanswered.is_empty() {
            let before = self.unanswered.len();
            self.turn();
            idle_turns = if self.unanswered.len() < before {
                0
            } else {
                idle_turns + 1
            };
            let left = self.unanswered.len();
            assert!(
                idle_turns < 100_000,
                "{left} are never answered: {:#?}",
                self.most
            );
        }
        for shard in &self.array.shards {
            let occupancy = shard.engine.occupancy();
            assert_eq!(occupancy, Occupancy::default(), "something is left behind");
        }
    }

    /// The fullest that the shards have been since the last call.
    pub fn take_most(&mut self) -> Vec<Occupancy> {
        let empty = vec![Occupancy::default(); self.most.len()];
        std::mem::replace(&mut self.most, empty)
    }

    /// Items for which each shard's queues have memory.
    pub fn rooms(&self) -> Vec<usize> {
        let shards = self.array.shards.iter();
        shards.map(|shard| shard.engine.room()).collect()
    }

    /// Compares the whole volume with what was written.
    pub fn verify(&mut self) {
        let length = 64 * BLOCK_BYTES;
        for first in (0..self.blocks()).step_by(64) {
            let offset = first * u64::from(BLOCK_BYTES);
            let length = u64::from(length).min(self.array.shape.size_bytes - offset);
            // The payload takes the array's own memory for reads, so reads go to it and it is put back.
            let shard = first as usize / 64 % self.array.shards.len();
            let got = self.read_bytes(shard, offset, length as u32);
            for (block, bytes) in (first..).zip(got.chunks(BLOCK_BYTES as usize)) {
                let expected = if self.written.contains(&block) {
                    pattern(block)
                } else {
                    vec![0; BLOCK_BYTES as usize]
                };
                assert!(bytes == expected, "block {block}");
            }
        }
    }

    /// Reads into the payload of the same blocks, which is put back afterwards.
    fn read_bytes(&mut self, shard: usize, offset: u64, length: u32) -> Vec<u8> {
        let buffer = self.payload.at(offset as u32);
        let memory = |array: &Array| {
            array.shared.borrow().memory[buffer.0 as usize..][..length as usize].to_vec()
        };
        let kept = memory(&self.array);
        let tag = self
            .array
            .submit(shard, Operation::Read, offset, length, buffer);
        self.array.finish(tag).expect("readable");
        let got = memory(&self.array);
        self.array.fill(buffer, &kept);
        got
    }
}

/// Floods the array twice. `check` is given how full its queues got; they take no more memory the second time.
pub fn two_floods(
    flooded: &mut Flooded,
    mut flood: impl FnMut(&mut Flooded),
    check: impl Fn(&[Occupancy]),
) {
    let mut room = Vec::new();
    for round in 0..2 {
        flood(flooded);
        flooded.answer_all();
        let most = flooded.take_most();
        println!("{most:#?}");
        check(&most);
        let before = std::mem::replace(&mut room, flooded.rooms());
        assert!(
            round < 1 || room == before,
            "{before:?} has grown to {room:?}"
        );
    }
    flooded.verify();
}
