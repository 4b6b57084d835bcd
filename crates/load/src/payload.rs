//! The memory of a thread's requests: a buffer for each request that may be outstanding, filled with random bytes.
//!
//! The content does not compress, and each block that is written is different from all others, because drives may store equal
//! blocks only once.

use anyhow::{Context, Result};
use drives::arena::{Arena, ArenaOptions, Pool};
use engine::plan::{Plan, Segments, Step, StepKind};
use engine::units::{Buffer, Slot};
use repeatable::random::Stream;
use std::sync::Arc;

/// Blocks of this size are told apart: the smallest unit in which drives look for equal content.
const BLOCK_BYTES: u32 = 4096;
/// Largest page of the machine that the arena may use.
const HUGE_PAGE_BYTES: usize = 2 << 20;

/// See the module's prose.
pub(crate) struct Payload {
    pub arena: Arc<Arena>,
    buffers: Vec<Buffer>,
    length_bytes: u32,
    /// A step for each buffer, which names its memory.
    plan: Plan,
    /// The same for one request that is shorter.
    shorter: Plan,
    /// First of the numbers that tell this thread's blocks from those of others.
    next_number: u64,
}

impl Payload {
    /// Memory for `depth` requests of `length_bytes`. `stream` gives the content.
    ///
    /// # Errors
    ///
    /// There is not enough memory.
    pub fn new(depth: u32, length_bytes: u32, mut stream: Stream) -> Result<Payload> {
        let of_each = length_bytes.next_power_of_two().max(BLOCK_BYTES) as usize;
        let all_bytes = (of_each * depth as usize).next_multiple_of(HUGE_PAGE_BYTES);
        let failed = || format!("no memory for {depth} requests of {length_bytes} bytes");
        let arena = Arena::new(ArenaOptions {
            length_bytes: all_bytes,
            prefault: true,
            lock: false,
        })
        .with_context(failed)?;
        let mut pool = Pool::new(arena.clone(), 0..all_bytes);
        let content: Vec<u8> = (0..of_each).map(|_| stream.below(256) as u8).collect();
        let mut plan = Plan::with_capacity(depth as usize, depth as usize);
        let mut buffers = Vec::new();
        for at in 0..u64::from(depth) {
            let buffer = pool.allocate(of_each as u64).with_context(failed)?;
            arena.write(buffer, &content[..length_bytes as usize]);
            // The offsets are not adjacent, so that the steps are not joined.
            let offset_bytes = 2 * at * u64::from(length_bytes);
            let bytes = u64::from(length_bytes);
            let step = Step::member(StepKind::Read, 0, Slot(0), offset_bytes, bytes);
            plan.transfer(step, buffer);
            buffers.push(buffer);
        }
        Ok(Payload {
            arena,
            buffers,
            length_bytes,
            plan,
            shorter: Plan::with_capacity(1, 1),
            next_number: stream.below(1 << 62),
        })
    }

    /// The first `length_bytes` of the memory of request `slot`.
    pub fn memory(&mut self, slot: u32, length_bytes: u32) -> Segments<'_> {
        if length_bytes == self.length_bytes {
            return self.plan.segments_of(&self.plan.steps()[slot as usize]);
        }
        self.shorter.clear();
        let step = Step::member(StepKind::Read, 0, Slot(0), 0, u64::from(length_bytes));
        self.shorter.transfer(step, self.buffers[slot as usize]);
        self.shorter.segments_of(&self.shorter.steps()[0])
    }

    /// Changes each block in the first `length_bytes` of request `slot`, so that it is different from all that were written before.
    pub fn renew(&mut self, slot: u32, length_bytes: u32) {
        let buffer = self.buffers[slot as usize];
        for at in (0..length_bytes).step_by(BLOCK_BYTES as usize) {
            self.arena
                .write(buffer.at(at), &self.next_number.to_le_bytes());
            self.next_number = self.next_number.wrapping_add(1);
        }
    }
}
