//! Block devices in the fault world: in some histories clients do not hand their requests to the engine, but use block
//! devices, which the tags of the ublk export serve ([`exports::ublk::Tags`]).
//!
//! - [`kernel`]: what the kernel knows of the devices. It outlives processes.
//! - [`port`]: the tags of one shard, between the kernel and the engine; a part of a process.
//! - [`memory`]: the memory of tags, a part of the process's memory.
//!
//! The run plays the kernel. It gives a tag a descriptor and copies a write's data into the memory that the tag's last
//! command has offered. When an answer comes, it copies a read's data out of the memory that the answer names. If the
//! process ends and the machine does not, the requests that were not answered are given to the next process.

pub mod kernel;
pub mod memory;
pub mod port;

use crate::process::REQUEST_BYTES_MAX;
use crate::random::Stream;
use exports::ublk::Rules;

/// Clients of a history. Each has a queue of its own at the device of each volume.
pub const CONNECTIONS: u8 = 8;

/// The devices of a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Devices {
    /// Tags of each queue.
    pub depth: u16,
    /// By shard: how many tags can get other memory while hung drives keep theirs.
    pub spare_blocks: u16,
}

impl Devices {
    /// The devices of a seed. Few tags and little memory are frequent, because that is where tags wait.
    #[must_use]
    pub fn draw(seed: u64) -> Devices {
        let mut random = Stream::new(seed, "devices", 0);
        Devices {
            depth: random.pick(&[1, 2, 6]),
            spare_blocks: random.pick(&[0, 0, 1, 3]),
        }
    }

    /// How many longest requests the memory of a shard holds.
    #[must_use]
    pub fn blocks(self, shard: u8, shards: u8, volumes: usize) -> usize {
        let queues = volumes * connections_of(shard, shards).count();
        queues * usize::from(self.depth) + usize::from(self.spare_blocks)
    }
}

/// The clients whose queues belong to a shard.
pub fn connections_of(shard: u8, shards: u8) -> impl Iterator<Item = u8> {
    (0..CONNECTIONS).filter(move |connection| connection % shards == shard)
}

/// The limits of a volume's device.
#[must_use]
pub fn rules(size_bytes: u64, block_bytes: u32) -> Rules {
    Rules {
        size_bytes,
        block_bytes,
        request_bytes_max: REQUEST_BYTES_MAX,
    }
}

/// How often the tags did what they rarely do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct UblkCounts {
    /// Reads that were repeated in other memory, because a hung drive kept theirs.
    pub held: u64,
    /// Tags that got other memory with their answer.
    pub exchanged: u64,
    /// Of those, tags whose answer has the data of a read: a drive that hangs may still read the memory which the read was
    /// for, to repair another copy.
    pub copied: u64,
    /// Times that a tag needed other memory and there was none.
    pub starved: u64,
    /// Requests that a process which was stopped in order left to the next one.
    pub left: u64,
    /// Requests that a process got because the one before had not answered them.
    pub given_again: u64,
}

impl UblkCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: &UblkCounts) {
        self.held += other.held;
        self.exchanged += other.exchanged;
        self.copied += other.copied;
        self.starved += other.starved;
        self.left += other.left;
        self.given_again += other.given_again;
    }
}
