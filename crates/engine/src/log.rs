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
//! A drive that fails may lose those of the unit's writes that its cache held. It can come back without them until
//! its failure is on record, so the unit stays the newest one until then.
//!
//! A volume that has lost more members than it survives keeps its last units: the writes that they are for may be
//! incomplete, and a drive may come back. So does a volume whose loss of a member cannot be recorded.
//!
//! How units are written and retired is in `shard/logs`; what a unit looks like on the drive is left to the world
//! ([`crate::world::World::encode_log`]).

pub(crate) mod slot;
pub mod unit;

use crate::limits::PLANS_MAX;
use crate::log::slot::SlotLog;
use crate::units::MemberSet;
use alloc::vec::Vec;
use core::ops::{Index, IndexMut};

/// The logs that a shard writes, by number, and the plans that wait for one or for the record. See the module's prose.
#[derive(Debug)]
pub(crate) struct Logs {
    logs: Vec<SlotLog>,
    /// What is owed: logs that plans have left, each with the members that missed what the plan wrote, as long as
    /// their failure is not on record.
    owed: Vec<(u32, MemberSet)>,
    /// Plans that wait for members' failures to be on record before they write.
    unlogged: Vec<u32>,
    /// Plans that wait for the next unit of a log, and logs that are to be emptied.
    waiting: usize,
}

impl Logs {
    /// No logs.
    pub fn new() -> Logs {
        Logs {
            logs: Vec::new(),
            owed: Vec::with_capacity(PLANS_MAX),
            unlogged: Vec::with_capacity(PLANS_MAX),
            waiting: 0,
        }
    }

    /// Adds a log; returns its number.
    pub fn open(&mut self, log: SlotLog) -> u32 {
        self.logs.push(log);
        self.logs.len() as u32 - 1
    }

    /// How many logs there are.
    pub fn len(&self) -> usize {
        self.logs.len()
    }

    /// All of them, in the order of their numbers.
    pub fn iter(&self) -> impl Iterator<Item = &SlotLog> {
        self.logs.iter()
    }

    /// All logs, to be changed, in the order of their numbers.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut SlotLog> {
        self.logs.iter_mut()
    }

    /// How many plans wait for the next unit of a log, with the logs that are to be emptied.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// Counts a plan that does not wait, to see whether the checks notice.
    #[cfg(test)]
    pub fn miscount(&mut self) {
        self.waiting += 1;
    }

    /// A plan waits for a log's next unit.
    pub fn wait(&mut self, log: u32, plan: u32) {
        self.logs[log as usize].waiting.push_back(plan);
        self.waiting += 1;
    }

    /// Takes the plan out of a log's queue that has waited longest.
    pub fn take_first(&mut self, log: usize) -> Option<u32> {
        let plan = self.logs[log].waiting.pop_front();
        self.waiting -= usize::from(plan.is_some());
        plan
    }

    /// Takes the plan at some place out of a log's queue.
    pub fn take_at(&mut self, log: usize, place: usize) {
        let plan = self.logs[log].waiting.remove(place);
        assert!(plan.is_some(), "no plan waits for log {log} at {place}");
        self.waiting -= 1;
    }

    /// The next unit of a log is to be one without entries.
    pub fn empty_next(&mut self, log: usize) {
        let was_asked_for = core::mem::replace(&mut self.logs[log].to_empty, true);
        self.waiting += usize::from(!was_asked_for);
    }

    /// The next unit of a log need not be one without entries any more. Returns whether it had to be.
    pub fn forget_emptying(&mut self, log: usize) -> bool {
        let was_asked_for = core::mem::take(&mut self.logs[log].to_empty);
        self.waiting -= usize::from(was_asked_for);
        was_asked_for
    }

    /// A plan has left a log, and members missed what it wrote: until their failure is on record, that is owed to the
    /// log.
    pub fn owe(&mut self, log: u32, missed: MemberSet) {
        self.owed.push((log, missed));
    }

    /// All that is owed, in no order.
    pub fn owed(&self) -> &[(u32, MemberSet)] {
        &self.owed
    }

    /// What is owed at some place is settled; the last entry takes the place.
    pub fn forgive(&mut self, place: usize) {
        self.owed.swap_remove(place);
    }

    /// A plan waits until members' failures are on record before it writes.
    pub fn wait_for_record(&mut self, plan: u32) {
        self.unlogged.push(plan);
    }

    /// The plans that wait for the record, in order.
    pub fn waiting_for_record(&self) -> &[u32] {
        &self.unlogged
    }

    /// Takes the plan that has waited longest for the record. There must be one.
    pub fn take_first_recorded(&mut self) -> u32 {
        self.unlogged.remove(0)
    }

    /// Items for which the logs and their queues have memory.
    pub fn room(&self) -> usize {
        self.owed.capacity() + self.logs.iter().map(SlotLog::room).sum::<usize>()
    }
}

impl Index<usize> for Logs {
    type Output = SlotLog;

    #[inline]
    fn index(&self, log: usize) -> &SlotLog {
        &self.logs[log]
    }
}

impl IndexMut<usize> for Logs {
    #[inline]
    fn index_mut(&mut self, log: usize) -> &mut SlotLog {
        &mut self.logs[log]
    }
}
