//! The write-hole log of RAID 5: what a write's parity was made of, durable before the write changes
//! anything.
//!
//! A crash between a data write and its parity write leaves a row whose parity is wrong, and a drive lost
//! then takes data with it that nobody was writing to: the write hole. So every plan that changes parity
//! first logs, on the drive that holds the row's parity, the xor of the chunks that it does *not* touch
//! (its partial parity). At the next start, parity is that xor the touched chunks, whatever they hold.
//!
//! Each drive has one log, and one shard writes it: rows are dealt to shards by parity slot. One *unit* of a
//! log is in flight at a time: a header that lists the entries, and their partial parities, in one durable
//! write. Plans that arrive meanwhile form the next unit. A unit is retired when all its plans have ended
//! and what they wrote is durable; only then is the next one written, because only the last good unit is
//! replayed. Every unit is written to the beginning of the log's area: one that is torn then leaves either
//! no header or that of the unit before it, which is harmless to replay.
//!
//! A drive that fails takes with it what it had in its cache of the unit's writes. It can come back without that
//! until its failure is on record, so the unit stays the newest one until then.
//!
//! A volume that has lost more than it survives keeps its last units: what they stand for was not written
//! whole, and a drive may come back. So does one whose loss of a member cannot be recorded.
//!
//! How units are written and retired is in `shard/logs`; how one looks on the drive is the world's business
//! ([`crate::world::World::encode_log`]).

pub(crate) mod slot;
pub mod unit;

use crate::log::slot::SlotLog;
use crate::units::MemberSet;
use alloc::vec::Vec;

/// See the module's prose.
#[derive(Debug)]
pub(crate) struct Logs {
    /// The write-hole logs that this shard writes.
    pub(crate) logs: Vec<SlotLog>,
    /// Pieces of plans that have left a log, and members that missed them and whose failure is not on record.
    pub(crate) owing_logs: Vec<(u32, MemberSet)>,
    /// Plans that wait for members' failures to be on record: see above.
    pub(crate) unlogged: Vec<u32>,
    /// Plans that wait for the next unit of one.
    pub(crate) logs_waiting: usize,
}
