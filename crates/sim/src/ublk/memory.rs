//! The memory of a shard's tags or queues: blocks for the longest request, in the memory of the process.
//!
//! What was freed last is used first, so that a mistake shows soon.

use crate::machine::Machine;
use crate::process::REQUEST_BYTES_MAX;
use engine::units::Buffer;
use exports::memory::Memory;
use exports::vhost_user::{CopiedMemory, VolatileSlice, Way};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;

/// Bytes of a block.
pub const BLOCK_BYTES: u64 = REQUEST_BYTES_MAX as u64;

/// See the module's prose.
pub struct Blocks {
    machine: Rc<RefCell<Machine>>,
    range: Range<u64>,
    free: Vec<Buffer>,
    /// How often there was no memory.
    pub refused: Cell<u64>,
    /// How often what a read has returned went with its tag to other memory.
    pub copied: Cell<u64>,
    /// Memory is overwritten when it is handed out, so that nobody finds by luck what should have been copied there.
    pub spoils: Cell<bool>,
}

impl Blocks {
    /// `count` free blocks from `from` on.
    #[must_use]
    pub fn new(machine: Rc<RefCell<Machine>>, from: u64, count: usize) -> Blocks {
        let range = from..from + count as u64 * BLOCK_BYTES;
        let starts = (0..count as u64).map(|at| from + at * BLOCK_BYTES);
        Blocks {
            machine,
            free: starts.map(Buffer).rev().collect(),
            range,
            refused: Cell::new(0),
            copied: Cell::new(0),
            spoils: Cell::new(false),
        }
    }

    /// Whether nothing is allocated.
    #[must_use]
    pub fn is_all_free(&self) -> bool {
        self.free.len() as u64 * BLOCK_BYTES == self.range.end - self.range.start
    }
}

/// The memory of the block that begins at `buffer`.
#[must_use]
pub fn block(buffer: Buffer) -> Range<u64> {
    buffer.0..buffer.0 + BLOCK_BYTES
}

impl Memory for Blocks {
    fn allocate(&mut self, length_bytes: u64) -> Option<Buffer> {
        assert!(length_bytes <= BLOCK_BYTES, "longer than any request");
        let block = self.free.pop();
        let refused = self.refused.get() + u64::from(block.is_none());
        self.refused.set(refused);
        if let Some(block) = block.filter(|_| self.spoils.get()) {
            let mut machine = self.machine.borrow_mut();
            machine.memory_mut(block, length_bytes as usize).fill(0xC5);
        }
        block
    }

    fn free(&mut self, buffer: Buffer) {
        let mut machine = self.machine.borrow_mut();
        if self.free.contains(&buffer) {
            let text = format!("{buffer:?} is freed twice");
            machine.problems.push(text);
        }
        if machine.is_used_by_drives(&block(buffer)) {
            let text = format!("{buffer:?} is freed, and a drive may still use it");
            machine.problems.push(text);
        }
        self.free.push(buffer);
    }

    fn holds(&self, buffer: Buffer) -> bool {
        self.range.contains(&buffer.0)
    }

    fn copy(&mut self, from: Buffer, to: Buffer, length_bytes: u32) {
        self.copied.set(self.copied.get() + 1);
        let length = length_bytes as usize;
        let mut machine = self.machine.borrow_mut();
        let bytes = machine.memory(from, length).to_vec();
        machine.memory_mut(to, length).copy_from_slice(&bytes);
    }
}

impl CopiedMemory for Blocks {
    fn available_bytes(&self) -> u64 {
        self.free.len() as u64 * BLOCK_BYTES
    }

    fn copy_with_guest(&self, way: Way, guest: VolatileSlice<'_>, buffer: Buffer) {
        let mut machine = self.machine.borrow_mut();
        let ours = machine.memory_mut(buffer, guest.len());
        match way {
            Way::FromGuest => {
                guest.copy_to(ours);
            }
            Way::ToGuest => guest.copy_from(ours),
        }
    }
}
