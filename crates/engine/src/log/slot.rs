//! The log of one volume on the drive of one slot: its unit, the plans in that, and those that wait for the next.

use crate::control::record::LogArea;
use crate::limits::{LOG_ENTRIES_MAX, LOG_HEADER_BYTES, LOG_PARTIAL_PARITY_BYTES_MAX};
use crate::log::unit::{LogEntry, LogUnit};
use crate::plan::{Plan, StepKind};
use crate::token::Token;
use crate::units::{Buffer, MemberId, Nanos, Slot, VolumeId};
use crate::world::Io;
use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// Where a log stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Stage {
    /// The next unit may be written.
    Idle,
    /// A unit is being written; so many drives have not answered.
    Writing(u8),
    /// So many plans of the unit are under way.
    Open(usize),
    /// The plans have ended; drives with a volatile cache have to be flushed.
    ToFlush,
    /// They are being flushed.
    Flushing,
    /// The volume has failed under the unit: it is kept for the next start, and nothing follows it.
    Kept,
}

/// Drives that a unit can go to: the one in service, and the one that is being copied to.
pub(crate) const COPIES: usize = 2;

/// The log of one volume on the drive of one slot.
#[derive(Debug)]
pub(crate) struct SlotLog {
    pub area: LogArea,
    /// Memory for one unit.
    pub buffer: Buffer,
    /// Plans that wait for the next unit.
    pub waiting: VecDeque<u32>,
    pub unit: LogUnit,
    pub unit_bytes: u32,
    /// The unit's plans.
    pub plans: Vec<u32>,
    pub members: [Option<MemberId>; COPIES],
    pub stage: Stage,
    /// When the unit was written.
    pub since: Nanos,
    /// Drives that have not answered, and those that were asked for an early answer, by bit.
    pub awaited: u8,
    pub cancelled: u8,
    /// Part of the commands' names; see [`crate::token`].
    pub generation: u16,
    /// The drive in service did not take the unit.
    pub missed: bool,
    /// A drive that is to be filled has come to the slot, and may carry a unit from an earlier time.
    pub to_empty: bool,
}

impl SlotLog {
    pub fn new(volume: VolumeId, slot: Slot, area: LogArea, buffer: Buffer) -> SlotLog {
        SlotLog {
            area,
            buffer,
            waiting: VecDeque::with_capacity(crate::limits::PLANS_MAX),
            unit: LogUnit {
                volume,
                slot,
                generation: 0,
                entries: Vec::with_capacity(LOG_ENTRIES_MAX),
            },
            unit_bytes: 0,
            plans: Vec::with_capacity(LOG_ENTRIES_MAX),
            members: [None; COPIES],
            stage: Stage::Idle,
            since: Nanos(0),
            awaited: 0,
            cancelled: 0,
            generation: 0,
            missed: false,
            to_empty: false,
        }
    }

    /// When the unit was written, to be corrected.
    pub fn began(&mut self) -> &mut Nanos {
        &mut self.since
    }

    /// The drives that have not answered its unit.
    pub fn waits_for(&self) -> impl Iterator<Item = MemberId> {
        let out = (0..COPIES).filter(|&copy| self.awaits(copy));
        out.filter_map(|copy| self.members[copy])
    }

    /// Items for which it has memory.
    pub fn room(&self) -> usize {
        self.waiting.capacity() + self.plans.capacity() + self.unit.entries.capacity()
    }

    /// Adds a plan's entries to the unit; false when it is full.
    pub(crate) fn add(&mut self, index: u32, plan: &Plan) -> bool {
        let entries = plan.steps().iter().filter_map(|step| match step.kind {
            StepKind::Log {
                data_offset_bytes,
                data_bytes,
            } => Some(LogEntry {
                data_offset_bytes,
                data_bytes,
                partial_parity_bytes: step.length_bytes as u32,
            }),
            _ => None,
        });
        let more = entries.clone().count();
        let more_bytes: u32 = entries
            .clone()
            .map(|entry| entry.partial_parity_bytes)
            .sum();
        let end = LOG_HEADER_BYTES + LOG_PARTIAL_PARITY_BYTES_MAX;
        if self.unit.entries.len() + more > LOG_ENTRIES_MAX || self.unit_bytes + more_bytes > end {
            assert!(!self.plans.is_empty(), "the entries of one plan fit");
            return false;
        }
        self.unit.entries.extend(entries);
        self.unit_bytes += more_bytes;
        self.plans.push(index);
        true
    }

    pub(crate) fn name(&self, index: usize, copy: usize) -> Token {
        Token::of_log(index as u32, self.generation, copy as u8)
    }

    pub(crate) fn awaits(&self, copy: usize) -> bool {
        self.awaited >> copy & 1 == 1
    }

    pub(crate) fn io(&self, index: usize, copy: usize, member: MemberId) -> Io {
        Io {
            token: self.name(index, copy),
            member,
            kind: StepKind::Write { fua: true },
            offset_bytes: self.area.offset_bytes,
            length_bytes: u64::from(self.unit_bytes),
        }
    }
}
