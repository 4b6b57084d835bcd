//! What a shard is made of, and what its operator may choose.

use crate::control::record::Record;
use crate::layout::Geometry;
use crate::limits::{BAND_BYTES_MAX, MEMBER_DEADLINE, MIRROR_STEP_BYTES_MAX};
use crate::units::{Buffer, Nanos, ShardId};

/// How a shard is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which shard this is.
    pub shard: ShardId,
    /// How many there are.
    pub shards: u8,
    /// What the metadata said at start.
    pub record: Record,
    /// Memory for plans: address and length. At least [`Setup::scratch_bytes_min`].
    pub scratch: (Buffer, u64),
    /// [`crate::limits::BAND_BYTES_MAX`] bytes of zeros.
    pub zeros: Buffer,
    /// Operator's choices.
    pub options: Options,
}

/// Operator's choices.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Options {
    /// A member that has not answered for this long is failed.
    pub member_deadline: Nanos,
    /// A volume without writes for this long is marked clean.
    pub clean_after: Nanos,
    /// Background work's limit, bytes of each member per second; 0 is unlimited.
    pub rate_bytes_per_s: u64,
    /// Take a spare as soon as a member fails.
    pub auto_rebuild: bool,
    /// Write nothing to any member, metadata included.
    pub read_only: bool,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            member_deadline: MEMBER_DEADLINE,
            clean_after: crate::limits::CLEAN_AFTER,
            rate_bytes_per_s: 0,
            auto_rebuild: true,
            read_only: false,
        }
    }
}

impl Setup {
    /// The least scratch memory with which every plan of these volumes can run, one at a time: a parity
    /// plan holds a band of every slot and its own parity, background work on mirrors a step of at most
    /// 8 MiB. More lets more plans run at once.
    #[must_use]
    pub fn scratch_bytes_min(volumes: &[Geometry]) -> u64 {
        let members = volumes
            .iter()
            .map(|shape| u64::from(shape.members))
            .max()
            .unwrap_or(0);
        let parity = (members + 2) * u64::from(BAND_BYTES_MAX);
        parity
            .max(u64::from(MIRROR_STEP_BYTES_MAX))
            .next_power_of_two()
    }
}
