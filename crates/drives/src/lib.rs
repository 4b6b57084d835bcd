//! The world of real drives: everything between the engine's member I/O and the kernel.
//!
//! In the order in which a byte meets them: [`spec`] parses how the user names a member, [`drive`] opens it and
//! [`holders`] finds out what else uses it. [`arena`] owns the payload memory, and [`ring`] is one io_uring per shard.
//! [`calls`] and [`helpers`] do the I/O of files that do not suit the ring, and [`flushes`] flushes them. [`flusher`]
//! makes the kernel allocate memory without I/O for threads on the write path, and [`resident`] keeps the program itself in
//! memory. [`memory`] has members without hardware,
//! and [`pace`] slows members down. [`mailbox`] carries messages between shards, [`port`] is the interface to the
//! exports, [`ublk`] makes block devices of this machine, and [`world`] combines all of this behind
//! `engine::world::World`. [`nvme`] queries an NVMe drive about itself, and [`inherited`] takes
//! the descriptors that a service manager has kept.
//!
//! Apart from the engine's parity kernels this is the only crate with `unsafe`: memory that the kernel writes, and
//! descriptors that a process is started with, cannot be described to the compiler. The public interface is safe; payload
//! is named by `engine::units::Buffer` and checked to lie in the arena.

#![warn(
    missing_docs,
    clippy::undocumented_unsafe_blocks,
    unsafe_op_in_unsafe_fn
)]

pub mod arena;
mod atomic;
mod calls;
pub mod completion;
pub mod counting;
pub mod drive;
pub mod flusher;
mod flushes;
mod held;
pub mod helpers;
pub mod holders;
pub mod inherited;
pub mod layers;
pub mod mailbox;
pub mod memory;
pub mod nvme;
pub mod pace;
pub mod port;
pub mod resident;
pub mod ring;
pub mod spec;
mod transfer;
pub mod ublk;
pub mod world;

/// Tests of limits count how often memory is allocated.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: counting::CountingAllocator = counting::CountingAllocator;
