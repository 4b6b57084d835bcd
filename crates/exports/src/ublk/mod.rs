//! ublk as an export: each volume is a block device of this machine, `/dev/fullstripe/NAME`, whose requests the shards
//! take from the kernel through their own rings (see [`drives::ublk`]).
//!
//! - `descriptor`: the kernel's description of a request becomes a request for the engine, or is refused. No I/O.
//! - `tags`: what the tags of a shard are doing, and their memory; `command`: what they tell the kernel. No I/O. The
//!   fault world runs them, too, in memory of its own ([`crate::memory`]).
//! - `port`: tags on the shard's ring.
//! - `limits`: from a volume and the memory at hand, the limits of its device. [`room`]: whether there is memory for devices
//!   that exist already.
//! - `exercise`: histories of tags from any bytes, for fuzzing.
//! - `device`: makes, takes over and removes a device. `giving_up`: removes one that no server will take over.
//! - [`service`]: the export.
//!
//! # When the process ends
//!
//! Devices outlive their process. A process that is stopped removes those that nothing uses. The others, and all if it is
//! killed, stay, and their requests wait in the kernel. The next process that serves the same volume takes the device over,
//! and the kernel gives it the requests again which were not answered. A mounted file system only sees a pause.

mod command;
mod descriptor;
mod device;
mod exercise;
mod giving_up;
mod limits;
mod port;
pub mod room;
pub mod service;
mod tags;

pub use command::{Command, TagName};
pub use descriptor::{Descriptor, Rules};
pub use exercise::fuzz_one;
pub(super) use giving_up::give_up;
pub use port::UblkPort;
pub use tags::Tags;
