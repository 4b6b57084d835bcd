//! A client of an array in memory that knows what every byte must be.

use super::{Array, Random};
use engine::request::Operation;
use engine::units::{Buffer, VolumeId};

struct Flying {
    tag: u64,
    operation: Operation,
    offset: u64,
    bytes: Vec<u8>,
    buffer: Buffer,
}

/// Random requests with many in flight. Requests in flight never overlap, and reads are checked against the model.
pub struct Client {
    pub model: Vec<u8>,
    flying: Vec<Flying>,
    /// Writes that were answered with an error, once that is allowed.
    failed: Option<Vec<Flying>>,
    pub random: Random,
}

impl Client {
    pub fn new(size: u64, seed: u64) -> Client {
        Client {
            model: vec![0; size as usize],
            flying: Vec::new(),
            failed: None,
            random: Random(seed),
        }
    }

    pub fn step(&mut self, array: &mut Array, depth: usize) {
        if self.flying.len() < depth {
            self.submit(array);
        }
        array.turn();
        self.reap(array);
    }

    /// From now on requests may be answered with errors.
    pub fn allow_errors(&mut self) {
        self.failed.get_or_insert_default();
    }

    /// Requests that were answered with errors, reads not counted.
    pub fn failed_writes(&self) -> usize {
        self.failed.as_ref().map_or(0, Vec::len)
    }

    fn submit(&mut self, array: &mut Array) {
        let size = self.model.len() as u64;
        let most = if self.random.below(8) == 0 {
            size / 2
        } else {
            24 << 10
        };
        let length = (1 + self.random.below(most.div_ceil(512).min(1024))) * 512;
        let offset = self.random.below((size - length) / 512 + 1) * 512;
        let range = offset..offset + length;
        let overlaps = |flying: &Flying| {
            let end = flying.offset + flying.bytes.len() as u64;
            flying.offset < range.end && range.start < end
        };
        let failed = self.failed.iter().flatten();
        if self.flying.iter().chain(failed).any(overlaps) {
            return;
        }
        let shard = self.random.below(array.shards.len() as u64) as usize;
        let buffer = array.allocate(length);
        let keep_allocated = self.random.below(2) == 0;
        let operation = match self.random.below(20) {
            0 => Operation::WriteZeroes {
                keep_allocated,
                only_if_fast: false,
            },
            1..=11 => Operation::Write,
            _ => Operation::Read,
        };
        let mut bytes = vec![0; length as usize];
        if operation == Operation::Write {
            bytes
                .iter_mut()
                .for_each(|byte| *byte = self.random.next() as u8);
            array.fill(buffer, &bytes);
        }
        let fua = self.random.below(8) == 0;
        let tag = array.submit_to(
            shard,
            VolumeId(0),
            operation,
            offset,
            length as u32,
            buffer,
            fua,
        );
        self.flying.push(Flying {
            tag,
            operation,
            offset,
            bytes,
            buffer,
        });
    }

    fn reap(&mut self, array: &mut Array) {
        let mut at = 0;
        while at < self.flying.len() {
            let Some(result) = array.take_completion(self.flying[at].tag) else {
                at += 1;
                continue;
            };
            let flying = self.flying.swap_remove(at);
            if result.is_err()
                && let Some(failed) = &mut self.failed
            {
                if flying.operation != Operation::Read {
                    failed.push(flying);
                }
                continue;
            }
            assert_eq!(
                result,
                Ok(()),
                "{:?} at {}",
                flying.operation,
                flying.offset
            );
            let range = flying.offset as usize..flying.offset as usize + flying.bytes.len();
            if flying.operation == Operation::Read {
                let buffer = array.answer_of(flying.tag, flying.buffer);
                let shared = array.shared.borrow();
                let got = &shared.memory[buffer.0 as usize..][..flying.bytes.len()];
                let expected = &self.model[range];
                if let Some(wrong) = got.iter().zip(expected).position(|(a, b)| a != b) {
                    panic!(
                        "wrong byte at {} of a read of {}+{}",
                        wrong,
                        flying.offset,
                        got.len()
                    );
                }
            } else {
                self.model[range].copy_from_slice(&flying.bytes);
            }
        }
    }

    /// Writes that may or may not have reached the drives: offset and bytes.
    pub fn writes_in_flight(&self) -> Vec<(u64, &[u8])> {
        let writes = self.flying.iter().chain(self.failed.iter().flatten());
        writes
            .filter(|flying| flying.operation != Operation::Read)
            .map(|flying| (flying.offset, &flying.bytes[..]))
            .collect()
    }

    pub fn drain(&mut self, array: &mut Array) {
        for _ in 0..200_000 {
            if self.flying.is_empty() {
                return;
            }
            array.turn();
            self.reap(array);
        }
        let first = &self.flying[0];
        panic!(
            "{} requests never answered, first {:?} at {}",
            self.flying.len(),
            first.operation,
            first.offset
        );
    }

    pub fn verify(&mut self, array: &mut Array) {
        self.drain(array);
        let size = self.model.len() as u64;
        let mut offset = 0;
        while offset < size {
            let length = (256 << 10).min(size - offset);
            let shard = self.random.below(array.shards.len() as u64) as usize;
            let got = array.read(shard, offset, length as u32).expect("readable");
            assert!(
                got == self.model[offset as usize..(offset + length) as usize],
                "content at {offset}"
            );
            offset += length;
        }
    }
}
