//! Block protocols through which clients use an array.
//!
//! - [`nbd`]: the network block device protocol, for any host over TCP or a local socket.
//! - [`ublk`]: block devices of this machine.
//! - [`nvmet`]: such a block device for other machines, by the kernel's NVMe target.
//! - [`vhost_user`]: disks of virtual machines.
//!
//! Each but [`nvmet`], where the kernel serves, is an [`export`] to the process that serves, and a port to a shard's loop;
//! [`ports`] combines all ports of a shard. [`memory`] is where payload lies. [`inherited`] is what one process leaves to
//! the next. `names` names the block devices that volumes become, `block_device` claims them, [`giving_up`] ends those that nobody
//! will serve again, and [`killed`] tells which drive keeps a process that was killed.
//!
//! Codecs here are sans-IO: they turn a client's bytes into commands, and replies into bytes. They hold no socket and
//! no payload, and each is fuzzed by itself.

// `println!` and `eprintln!` panic when the stream is closed, and a library should not print at all.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]
#![forbid(unsafe_code)]

pub mod block_device;
pub mod export;
pub mod giving_up;
pub mod inherited;
pub mod killed;
mod links;
pub mod memory;
pub mod names;
pub mod nbd;
pub mod nvmet;
mod pinned;
pub mod ports;
pub mod ublk;
pub mod unix_socket;
pub mod vhost_user;

/// Tests of limits count how often a shard allocates memory.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: drives::counting::CountingAllocator = drives::counting::CountingAllocator;
