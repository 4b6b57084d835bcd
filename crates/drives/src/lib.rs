//! The world of real drives: everything between the engine's member I/O and the kernel.
//!
//! In the order in which a byte meets it: [`spec`] reads what the user calls a member, [`drive`] opens
//! it and [`holders`] says who else holds it; [`arena`] owns the payload memory; [`ring`] is one
//! io_uring per shard; [`calls`] and [`helpers`] serve files that the ring does not suit, [`flushes`] flushes those; [`flusher`] has the
//! kernel give threads that the write path waits for memory without I/O; [`memory`] and
//! [`pace`] are members without, or slower than, hardware;
//! [`mailbox`] carries messages between shards; [`port`] is the seam to the exports; [`world`] puts them
//! together behind `engine::world::World`. [`nvme`] asks an NVMe drive about itself.
//!
//! Apart from the engine's parity kernels this is the only crate with `unsafe`: memory that the kernel
//! writes into cannot be described to the compiler. The public interface is safe; payload is named by
//! `engine::units::Buffer` and checked against the arena that it must lie in.

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
pub mod mailbox;
pub mod memory;
pub mod nvme;
pub mod pace;
pub mod port;
pub mod ring;
pub mod spec;
mod transfer;
pub mod world;

/// Tests of limits look at how often memory is taken.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: counting::CountingAllocator = counting::CountingAllocator;
