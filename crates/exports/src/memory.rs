//! Where payload memory comes from: a part of the arena, or in the fault world a part of a simulated process.

use drives::arena::Pool;
use engine::units::Buffer;

/// Payload memory of a shard.
pub trait Memory {
    /// Memory for a request of this length, or `None` if there is none.
    fn allocate(&mut self, length_bytes: u64) -> Option<Buffer>;

    /// Takes back what [`Memory::allocate`] has returned. Neither the kernel nor a drive uses it any more.
    fn free(&mut self, buffer: Buffer);

    /// Whether `buffer` lies in this memory.
    fn holds(&self, buffer: Buffer) -> bool;

    /// Copies bytes from one piece of memory to another.
    fn copy(&mut self, from: Buffer, to: Buffer, length_bytes: u32);
}

impl Memory for Pool {
    #[inline]
    fn allocate(&mut self, length_bytes: u64) -> Option<Buffer> {
        Pool::allocate(self, length_bytes)
    }

    #[inline]
    fn free(&mut self, buffer: Buffer) {
        Pool::free(self, buffer);
    }

    fn holds(&self, buffer: Buffer) -> bool {
        Pool::holds(self, buffer)
    }

    fn copy(&mut self, from: Buffer, to: Buffer, length_bytes: u32) {
        self.arena().copy(from, to, length_bytes);
    }
}
