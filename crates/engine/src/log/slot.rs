//! The log of one volume on the drive of one slot: its unit, the plans in that, and those that wait for the next.

use crate::control::record::LogArea;
use crate::limits::{LOG_ENTRIES_MAX, LOG_HEADER_BYTES, LOG_PARTIAL_PARITY_BYTES_MAX, PLANS_MAX};
use crate::log::unit::{LogEntry, LogUnit};
use crate::plan::{Plan, Segment, StepKind};
use crate::token::Token;
use crate::units::{Buffer, MemberId, MemberSet, Nanos, Slot, VolumeId};
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
    /// The drives are being flushed.
    Flushing,
    /// The volume has failed under the unit: it is kept for the next start, and nothing follows it.
    Kept,
}

/// Drives that a unit can go to: the one in service, and the one that is being copied to.
pub(crate) const COPIES: usize = 2;

/// What is to be done when a plan of a unit has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// Others are under way, or the unit is kept, or it was the flush and the next unit may be written.
    NothingToDo,
    /// It was the last one: what they wrote is to be made durable.
    LastPlan,
}

/// The log of one volume on the drive of one slot.
#[derive(Debug)]
pub(crate) struct SlotLog {
    area: LogArea,
    /// Memory for one unit.
    buffer: Buffer,
    /// Plans that wait for the next unit. Changed by [`super::Logs`], which counts them.
    pub(super) waiting: VecDeque<u32>,
    unit: LogUnit,
    unit_bytes: u32,
    /// The unit's plans.
    plans: Vec<u32>,
    members: [Option<MemberId>; COPIES],
    stage: Stage,
    /// When the unit was written.
    since: Nanos,
    /// Drives that have not answered, and those that were asked for an early answer, by bit.
    awaited: u8,
    cancelled: u8,
    /// Part of the commands' names; see [`crate::token`].
    generation: u16,
    /// The drive in service did not take the unit.
    missed: bool,
    /// A drive that is to be filled has come to the slot, and may carry a unit from an earlier time. Counted by
    /// [`super::Logs`], too.
    pub(super) to_empty: bool,
}

impl SlotLog {
    /// The log of a slot of a volume: where it lies on each drive, and memory for one unit.
    pub fn new(volume: VolumeId, slot: Slot, area: LogArea, buffer: Buffer) -> SlotLog {
        SlotLog {
            area,
            buffer,
            waiting: VecDeque::with_capacity(PLANS_MAX),
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

    /// The volume whose log it is.
    pub fn volume(&self) -> VolumeId {
        self.unit.volume
    }

    /// The slot whose drive the log is on.
    pub fn slot(&self) -> Slot {
        self.unit.slot
    }

    /// Where it stands.
    #[inline]
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Its unit.
    pub fn unit(&self) -> &LogUnit {
        &self.unit
    }

    /// The memory for the unit's image.
    pub fn memory(&self) -> Segment {
        Segment::alone(self.buffer, self.unit_bytes)
    }

    /// The plans of the unit.
    pub fn plans(&self) -> &[u32] {
        &self.plans
    }

    /// The plans that wait for the next unit, in order.
    pub fn waiting(&self) -> &VecDeque<u32> {
        &self.waiting
    }

    /// Whether a next unit is wanted, with entries or without.
    #[inline]
    pub fn wants_unit(&self) -> bool {
        self.to_empty || !self.waiting.is_empty()
    }

    /// Whether a unit without entries is to be written, or being written.
    pub fn is_to_be_emptied(&self) -> bool {
        let is_emptied_now = matches!(self.stage, Stage::Writing(_)) && self.plans.is_empty();
        self.to_empty || is_emptied_now
    }

    /// How many plans wait, and one more if it is to be emptied.
    pub fn waiting_in_all(&self) -> usize {
        self.waiting.len() + usize::from(self.to_empty)
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

    /// Makes the next unit, as yet without entries.
    pub fn begin_unit(&mut self) {
        self.unit.entries.clear();
        self.plans.clear();
        self.unit_bytes = LOG_HEADER_BYTES;
    }

    /// Adds a plan's entries to the unit; false when it is full.
    pub fn add(&mut self, index: u32, plan: &Plan) -> bool {
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
            assert!(
                !self.plans.is_empty(),
                "the entries of one plan do not fit into a unit"
            );
            return false;
        }
        self.unit.entries.extend(entries);
        self.unit_bytes += more_bytes;
        self.plans.push(index);
        true
    }

    /// The unit goes out at `now` to these drives, the one in service first; returns to how many. `free` finds the
    /// generation of its commands, from the present one on.
    pub fn goes_out(
        &mut self,
        now: Nanos,
        members: [Option<MemberId>; COPIES],
        free: impl Fn(u16) -> u16,
    ) -> u8 {
        assert!(
            self.unit_bytes <= self.area.length_bytes,
            "a unit of {} bytes does not fit into a log of {}",
            self.unit_bytes,
            self.area.length_bytes
        );
        self.unit.generation += 1;
        self.missed = members[0].is_none();
        self.since = now;
        self.cancelled = 0;
        self.generation = free(self.generation);
        self.members = members;
        let count = members.iter().flatten().count() as u8;
        let given = |copy: usize| u8::from(members[copy].is_some()) << copy;
        self.awaited = (0..COPIES).map(given).sum();
        self.stage = Stage::Writing(count);
        count
    }

    /// The name of the unit's command to a drive; the log has this `index`.
    pub fn name(&self, index: usize, copy: usize) -> Token {
        Token::of_log(index as u32, self.generation, copy as u8)
    }

    fn awaits(&self, copy: usize) -> bool {
        self.awaited >> copy & 1 == 1
    }

    /// The drive whose answer to the unit has this name, if it is waited for.
    pub fn awaited_by_name(&self, name: Token) -> Option<MemberId> {
        let is_of_unit = self.generation == name.generation() && self.awaits(name.step());
        is_of_unit.then(|| self.members[name.step()].expect("a unit is awaited from a drive"))
    }

    /// The drive that has not answered, if it is one of `members`.
    pub fn awaited_from(&self, copy: usize, members: MemberSet) -> Option<MemberId> {
        let member = self.members[copy].filter(|&member| members.has(member));
        member.filter(|_| self.awaits(copy))
    }

    /// The drive that has not answered, if it is due: to be asked for an early answer, which is done once.
    pub fn ask_early(
        &mut self,
        copy: usize,
        is_due: impl FnOnce(Nanos, MemberId) -> bool,
    ) -> Option<MemberId> {
        let member = self.members[copy].filter(|_| self.awaits(copy))?;
        let is_asked = self.cancelled >> copy & 1 == 1;
        if is_asked || !is_due(self.since, member) {
            return None;
        }
        self.cancelled |= 1 << copy;
        Some(member)
    }

    /// The unit's write to a drive, as a command.
    pub fn io(&self, index: usize, copy: usize) -> Option<Io> {
        self.members[copy].map(|member| Io {
            token: self.name(index, copy),
            member,
            kind: StepKind::Write { fua: true },
            offset_bytes: self.area.offset_bytes,
            length_bytes: u64::from(self.unit_bytes),
        })
    }

    /// A drive has answered, or will not: it may have `lost` the unit. Returns whether it was the last one.
    pub fn answered(&mut self, copy: usize, lost: bool) -> bool {
        self.awaited &= !(1 << copy);
        self.missed |= lost && copy == 0;
        let Stage::Writing(left) = self.stage else {
            let LogUnit { volume, slot, .. } = &self.unit;
            unreachable!(
                "the log of slot {} of volume {} is {:?}, and a unit of it is answered",
                slot.0, volume.0, self.stage
            );
        };
        self.stage = Stage::Writing(left - 1);
        left == 1
    }

    /// Whether the drive in service did not take the unit.
    pub fn missed(&self) -> bool {
        self.missed
    }

    /// The drive in service when the unit was written.
    pub fn in_service(&self) -> Option<MemberId> {
        self.members[0]
    }

    /// The unit is written: its plans continue, and it is open until they have ended. Takes the plans out, to be
    /// continued.
    pub fn open(&mut self) -> Vec<u32> {
        self.stage = match self.plans.len() {
            0 => Stage::Idle,
            plans => Stage::Open(plans),
        };
        core::mem::take(&mut self.plans)
    }

    /// The volume has failed: the unit is kept. Takes its plans out.
    pub fn keep(&mut self) -> Vec<u32> {
        self.stop();
        core::mem::take(&mut self.plans)
    }

    /// Puts back the unit's plans, which [`SlotLog::open`] or [`SlotLog::keep`] has taken out.
    pub fn put_back(&mut self, plans: Vec<u32>) {
        self.plans = plans;
    }

    /// The volume has failed: no unit follows this one.
    pub fn stop(&mut self) {
        self.stage = Stage::Kept;
    }

    /// One of the unit's plans, or the flush after them, has ended, and nothing is owed for it.
    pub fn one_ended(&mut self) -> Ended {
        match self.stage {
            Stage::Flushing => {
                self.stage = Stage::Idle;
                Ended::NothingToDo
            }
            Stage::Open(left) if left > 1 => {
                self.stage = Stage::Open(left - 1);
                Ended::NothingToDo
            }
            Stage::Open(_) => Ended::LastPlan,
            Stage::Kept => Ended::NothingToDo,
            Stage::Idle | Stage::Writing(_) | Stage::ToFlush => {
                let LogUnit { volume, slot, .. } = &self.unit;
                unreachable!(
                    "a plan leaves the log of slot {} of volume {}, which is {:?}",
                    slot.0, volume.0, self.stage
                )
            }
        }
    }

    /// Drives are to be flushed after the unit's last plan.
    pub fn wait_for_flush(&mut self) {
        self.stage = Stage::ToFlush;
    }

    /// The drives are being flushed, or need not be.
    pub fn begin_flush(&mut self) {
        self.stage = Stage::Flushing;
    }

    /// Checks the log between two turns: `in_unit` plans are in its unit, and [`super::Logs::owed`] has `owed` entries
    /// for it.
    ///
    /// # Panics
    /// An invariant does not hold; the message says which, and of which log.
    pub fn check(&self, number: u32, in_unit: usize, owed: usize) {
        let awaited = self.awaited.count_ones();
        match self.stage {
            Stage::Idle => assert_eq!(
                (in_unit, owed),
                (0, 0),
                "idle log {number}: plans in its unit, and entries owed"
            ),
            Stage::Writing(left) => {
                assert_eq!(
                    u32::from(left),
                    awaited,
                    "drives that write to log {number}"
                );
                assert_eq!(
                    in_unit,
                    self.plans.len(),
                    "plans in the unit of log {number}"
                );
            }
            Stage::Open(left) => {
                assert_eq!(
                    left,
                    in_unit + owed,
                    "plans of the open unit of log {number}"
                );
            }
            Stage::ToFlush => assert_eq!(
                (in_unit, owed),
                (0, 0),
                "log {number} to be flushed: plans in its unit, and entries owed"
            ),
            Stage::Flushing => assert!(
                in_unit == 0 && owed <= 1,
                "flush of log {number}: {in_unit} plans in its unit, {owed} entries owed"
            ),
            Stage::Kept => {}
        }
        let is_writing = matches!(self.stage, Stage::Writing(_));
        assert!(
            is_writing || awaited == 0,
            "log {number} is {:?}, and {awaited} drives are to answer",
            self.stage
        );
    }
}
