//! What queues need of payload memory besides [`Memory`]: how much of it is free, and copies from and to the memory of a
//! guest.

use crate::memory::Memory;
use drives::arena::Pool;
use engine::units::Buffer;
use vm_memory::VolatileSlice;

/// Which way payload goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A write.
    FromGuest,
    /// A read.
    ToGuest,
}

/// Payload memory of a shard that serves guests.
pub trait CopiedMemory: Memory {
    /// Bytes that nothing uses.
    fn available_bytes(&self) -> u64;

    /// Copies as many bytes as `guest` has between a guest's memory and `buffer`.
    fn copy_with_guest(&self, way: Way, guest: VolatileSlice<'_>, buffer: Buffer);
}

impl CopiedMemory for Pool {
    fn available_bytes(&self) -> u64 {
        Pool::available_bytes(self)
    }

    #[inline]
    fn copy_with_guest(&self, way: Way, guest: VolatileSlice<'_>, buffer: Buffer) {
        let ours = self.arena().shared(buffer, guest.len() as u32);
        match way {
            Way::FromGuest => guest.copy_to_volatile_slice(ours),
            Way::ToGuest => ours.copy_to_volatile_slice(guest),
        }
    }
}
