//! How the array's memory is divided among the shards: one block of zeros for all, then each shard's scratch
//! memory, then each shard's payload, all in one arena, so that it can be locked and registered as one.

use super::runtime::RunOptions;
use anyhow::Result;
use drives::arena::{Arena, ArenaOptions, Pool};
use engine::control::record::Record;
use engine::limits::BAND_BYTES_MAX;
use engine::shard::Setup;
use engine::units::{Buffer, ShardId};
use std::sync::Arc;

/// Payload and scratch memory of all shards.
pub(super) struct Memory {
    arena: Arc<Arena>,
    scratch_bytes: usize,
    shards: usize,
}

/// One shard's part.
pub(super) struct MemoryShare {
    pub arena: Arc<Arena>,
    /// A block of zeros, everybody's.
    pub zeros: Buffer,
    /// First byte and length.
    pub scratch: (Buffer, u64),
    /// Payload.
    pub pool: Pool,
}

impl Memory {
    /// Memory for an array with this record.
    ///
    /// # Errors
    /// The system has not enough.
    pub fn new(record: &Record, options: RunOptions) -> Result<Memory> {
        // Half of it is in reserve for the time when a drive hangs and keeps the other half.
        let scratch_bytes = 2 * Setup::scratch_bytes_min(&record.volumes).max(16 << 20) as usize;
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

    /// A shard's part.
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
