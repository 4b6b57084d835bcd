//! What every room of a shard needs and none owns: who it is, what time it is, what it may do, where it puts what the
//! world is to do, and what it counts.

use crate::options::Options;
use crate::output::Output;
use crate::stats::Stats;
use crate::units::{Buffer, Nanos, ShardId};
use alloc::vec::Vec;

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Desk {
    pub(crate) id: ShardId,
    pub(crate) shards: u8,
    pub(crate) now: Nanos,
    pub(crate) options: Options,
    pub(crate) zeros: Buffer,
    pub(crate) outputs: Vec<Output>,
    pub(crate) stats: Stats,
}
