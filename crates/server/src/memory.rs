//! How the array's memory is divided among the shards: one block of zeros for all, then each shard's scratch
//! memory, then each shard's payload, all in one arena, so that it can be locked and registered as one.

use super::runtime::RunOptions;
use anyhow::{Result, bail};
use doctor::available_memory_bytes;
use drives::arena::{Arena, ArenaOptions, Pool};
use engine::control::record::Record;
use engine::limits::BAND_BYTES_MAX;
use engine::setup::Setup;
use engine::units::{Buffer, ShardId};
use std::sync::Arc;
use words::{size, typed_size};

/// Minimum scratch memory of a shard.
const SCRATCH_BYTES_MIN: usize = 16 << 20;

/// Minimum payload memory of an array.
const PAYLOAD_BYTES_MIN: u64 = 8 << 20;
/// Minimum payload memory of an export on a shard: one request may take a quarter of it, and that has to be 1 MiB
/// ([`exports::nbd::server::maximum_payload_bytes`]).
const EXPORT_PAYLOAD_BYTES_MIN: u64 = 4 << 20;

/// Refuses so little payload memory that an export could not carry out a request of 1 MiB on each shard.
///
/// # Errors
/// One sentence that names the minimum.
pub(super) fn refuse_less_than_is_needed(
    payload_bytes: u64,
    shards: u8,
    exports: usize,
) -> Result<()> {
    let shares = u64::from(shards) * exports as u64;
    let least = PAYLOAD_BYTES_MIN.max(shares * EXPORT_PAYLOAD_BYTES_MIN);
    if payload_bytes >= least {
        return Ok(());
    }
    let plural = if shards == 1 { "" } else { "s" };
    let beside = match exports {
        0 | 1 => String::new(),
        several => format!(" and {several} kinds of clients"),
    };
    bail!(
        "--memory {} is too little for {shards} data thread{plural}{beside}; give at least {}m",
        typed_size(payload_bytes),
        least >> 20
    )
}

/// Refuses payload memory that, with everything else, exceeds the memory available without swapping: the kernel would
/// kill this process, or others, while the memory is being filled.
///
/// # Errors
/// One sentence that says how much memory is available.
pub(super) fn refuse_more_than_there_is(payload_bytes: u64, shards: u8) -> Result<()> {
    let beside = u64::from(BAND_BYTES_MAX) + u64::from(shards) * 2 * SCRATCH_BYTES_MIN as u64;
    let Some(available) = available_memory_bytes() else {
        return Ok(());
    };
    if payload_bytes.saturating_add(beside) <= available {
        return Ok(());
    }
    bail!(
        "--memory {} does not fit: {} of memory is available, and the array needs {} besides",
        typed_size(payload_bytes),
        size(available),
        size(beside)
    )
}

/// Payload and scratch memory of all shards.
pub(super) struct Memory {
    arena: Arc<Arena>,
    scratch_bytes: usize,
    shards: usize,
}

/// The part of one shard.
pub(super) struct MemoryShare {
    pub arena: Arc<Arena>,
    /// A block of zeros, which all shards share.
    pub zeros: Buffer,
    /// First byte and length of the scratch memory.
    pub scratch: (Buffer, u64),
    /// Payload memory.
    pub pool: Pool,
}

impl Memory {
    /// Allocates memory for an array with this record.
    ///
    /// # Errors
    /// The system does not have enough memory.
    pub fn new(record: &Record, options: RunOptions) -> Result<Memory> {
        // Half of the scratch memory is a reserve for the case that a hung drive ties up the other half.
        let scratch_bytes =
            2 * Setup::scratch_bytes_min(&record.volumes).max(SCRATCH_BYTES_MIN as u64) as usize;
        let shards = options.shards as usize;
        let length_bytes = BAND_BYTES_MAX as usize + shards * scratch_bytes + options.payload_bytes;
        let arena = Arena::new(ArenaOptions {
            length_bytes,
            prefault: true,
            lock: true,
        })?;
        Ok(Memory {
            arena,
            scratch_bytes,
            shards,
        })
    }

    /// The part of one shard.
    pub fn share(&self, shard: ShardId) -> MemoryShare {
        let at = shard.0 as usize;
        let scratch_from = BAND_BYTES_MAX as usize + at * self.scratch_bytes;
        let payload_from = BAND_BYTES_MAX as usize + self.shards * self.scratch_bytes;
        let payload = (self.arena.length_bytes() - payload_from) / self.shards;
        let from = payload_from + at * payload;
        MemoryShare {
            arena: self.arena.clone(),
            zeros: self.arena.start(),
            scratch: (
                Buffer(self.arena.start().0 + scratch_from as u64),
                self.scratch_bytes as u64,
            ),
            pool: Pool::new(self.arena.clone(), from..from + payload),
        }
    }
}
