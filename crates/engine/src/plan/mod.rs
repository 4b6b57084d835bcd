//! A plan is data: the member I/Os and parity computations that carry out one piece of work.
//!
//! Steps are grouped in *stages*: all steps of a stage may run at once, and a stage starts when the one before
//! has finished without error. Planners (the modules below) are pure functions from geometry, row state and
//! pieces to steps; they submit nothing. After a planner has failed, the plan must be cleared ([`Plan::clear`]).
//! A plan can be printed ([`text`]): `fullstripe explain` and the planners' snapshot tests show that text.
//!
//! Scratch memory is planned before it is allocated: a planner emits buffers relative to a scratch block whose
//! size it reports in [`Plan::scratch_bytes`], and [`Plan::bind_scratch`] turns them into addresses. Plans live
//! in a pool and keep their vectors' capacity, so that planning allocates nothing.

pub mod maintain;
pub mod mirror;
pub mod parity;
mod row;
#[cfg(test)]
mod tests;
pub mod text;

use crate::layout::Geometry;
use crate::limits::{STEP_BYTES_MAX, STEP_SEGMENTS_MAX, VOLUME_MEMBERS_MAX};
use crate::units::{Buffer, Slot};
use alloc::vec::Vec;
pub use row::{NotEnoughMembers, Piece, Range, RowView};

/// Most pieces of one plan; planners keep their working set on the stack.
pub const PIECES_MAX: usize = 64;
/// Marks a [`Buffer`] as an offset in the plan's own scratch block.
const SCRATCH: u64 = 1 << 63;
/// End of a segment chain.
const NO_SEGMENT: u16 = u16::MAX;

/// A contiguous piece of memory taking part in a step; the segments of a step form a chain.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Segment {
    /// Where the bytes are.
    pub buffer: Buffer,
    /// How many.
    pub length_bytes: u32,
    next: u16,
}

impl Segment {
    /// A segment without successors.
    #[inline]
    pub(crate) fn alone(buffer: Buffer, length_bytes: u32) -> Segment {
        Segment {
            buffer,
            length_bytes,
            next: NO_SEGMENT,
        }
    }
}

/// Iterates over the segments of a step.
#[derive(Clone, Debug)]
pub struct Segments<'a> {
    alone: Option<Segment>,
    chain: &'a [Segment],
    next: u16,
}

impl Segments<'_> {
    #[inline]
    pub(crate) fn alone(segment: Segment) -> Segments<'static> {
        Segments {
            alone: Some(segment),
            chain: &[],
            next: NO_SEGMENT,
        }
    }
}

impl Iterator for Segments<'_> {
    type Item = Segment;

    #[inline]
    fn next(&mut self) -> Option<Segment> {
        if let Some(segment) = self.alone.take() {
            return Some(segment);
        }
        let segment = *self.chain.get(usize::from(self.next))?;
        self.next = segment.next;
        Some(segment)
    }
}

/// What a step does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum StepKind {
    /// Read from the member into the segments.
    Read,
    /// Write the segments to the member.
    Write {
        /// Durable when it completes.
        fua: bool,
    },
    /// Make the member's range read as zeros.
    Zero {
        /// Keep the space allocated.
        keep_allocated: bool,
    },
    /// Tell the member that the range is unused. Afterwards the range reads as zeros, or the step fails with
    /// `NotSupported` and nothing has changed.
    Discard,
    /// Make everything that the member has acknowledged durable.
    Flush,
    /// Write the segments, which hold the partial parity of a range, durably to the write-hole log of the slot's
    /// drive.
    Log {
        /// First byte of the range in the volume.
        data_offset_bytes: u64,
        /// Bytes of the range in all changed chunks together.
        data_bytes: u32,
    },
    /// `target = xor of all segments`, each of `length_bytes`. With one source it is a copy.
    Xor {
        /// Where the result goes; may be equal to one of the sources.
        target: Buffer,
    },
    /// Report whether the xor of all segments, each of `length_bytes`, is zero throughout.
    Compare,
}

/// One node of a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// What to do.
    pub kind: StepKind,
    /// Steps of stage `n` start when all of stage `n - 1` are done.
    pub stage: u8,
    /// The member addressed, by slot; meaningless for `Xor` and `Compare`.
    pub slot: Slot,
    /// The step goes to the drive that the slot is being copied to (hot replace) instead of the one in service.
    pub shadow: bool,
    /// First byte on the member.
    pub offset_bytes: u64,
    /// Bytes on the member; for `Xor` and `Compare`, bytes of each source.
    pub length_bytes: u64,
    first: u16,
    last: u16,
    /// Number of segments in the chain.
    pub segments: u16,
}

/// Steps and their memory. See the module's prose. The most used fields come first.
#[derive(Clone, Debug)]
#[repr(C)]
pub struct Plan {
    steps: Vec<Step>,
    segments: Vec<Segment>,
    scratch_bytes: u32,
    /// The last transfer planned for each drive, shadows in the upper half. It is only a hint where to look for a
    /// neighbour and is not reset: [`Plan::neighbour`] checks the step that it finds.
    latest: [u16; 2 * VOLUME_MEMBERS_MAX],
}

impl Default for Plan {
    fn default() -> Plan {
        Plan::with_capacity(0, 0)
    }
}

impl Plan {
    /// An empty plan that holds `steps` steps and `segments` segments without allocating.
    #[must_use]
    pub fn with_capacity(steps: usize, segments: usize) -> Plan {
        Plan {
            steps: Vec::with_capacity(steps),
            segments: Vec::with_capacity(segments),
            scratch_bytes: 0,
            latest: [0; 2 * VOLUME_MEMBERS_MAX],
        }
    }

    /// The allocated capacity for steps and segments, added up.
    pub(crate) fn room(&self) -> usize {
        self.steps.capacity() + self.segments.capacity()
    }

    /// Forgets all steps and keeps the memory.
    #[inline]
    pub fn clear(&mut self) {
        self.steps.clear();
        self.segments.clear();
        self.scratch_bytes = 0;
    }

    /// The steps in order of stage.
    #[must_use]
    #[inline]
    pub fn steps(&self) -> &[Step] {
        &self.steps
    }

    /// The memory of `step`, in order.
    #[inline]
    pub fn segments_of(&self, step: &Step) -> Segments<'_> {
        Segments {
            alone: None,
            chain: &self.segments,
            next: step.first,
        }
    }

    /// The number of segments of all steps together.
    #[must_use]
    #[inline]
    pub fn segments_count(&self) -> usize {
        self.segments.len()
    }

    /// Bytes of scratch memory that the plan needs.
    #[must_use]
    #[inline]
    pub fn scratch_bytes(&self) -> u32 {
        self.scratch_bytes
    }

    /// Reserves scratch memory and returns it as a buffer relative to the scratch block.
    pub fn scratch(&mut self, length_bytes: u32) -> Buffer {
        let buffer = Buffer(SCRATCH | u64::from(self.scratch_bytes));
        self.scratch_bytes += length_bytes;
        buffer
    }

    /// Turns buffers relative to the scratch block into addresses in the block at `base`.
    pub fn bind_scratch(&mut self, base: Buffer) {
        if self.scratch_bytes == 0 {
            return;
        }
        let bind = |buffer: &mut Buffer| {
            if buffer.0 & SCRATCH != 0 {
                *buffer = Buffer(base.0 + (buffer.0 & !SCRATCH));
            }
        };
        self.segments
            .iter_mut()
            .for_each(|segment| bind(&mut segment.buffer));
        for step in &mut self.steps {
            if let StepKind::Xor { target } = &mut step.kind {
                bind(target);
            }
        }
    }

    /// Adds a read or write of one piece of memory. It is joined to the last transfer of the same drive if that
    /// has the same kind and stage and ends where this one begins, as far as the limits of a step allow. That is
    /// why planners handle a drive's ranges in ascending order.
    #[inline]
    pub fn transfer(&mut self, wanted: Step, buffer: Buffer) {
        let length_bytes = wanted.length_bytes as u32;
        if let Some(index) = self.neighbour(&wanted) {
            self.extend(index, buffer, length_bytes);
        } else {
            self.latest[wanted.drive()] = self.steps.len() as u16;
            self.transfer_apart(wanted, buffer);
        }
    }

    /// As [`Plan::transfer`] for one that has no neighbours, before it or after it.
    #[inline]
    pub(crate) fn transfer_apart(&mut self, wanted: Step, buffer: Buffer) {
        debug_assert!(wanted.length_bytes > 0, "a transfer of nothing");
        let position = self.new_segment(buffer, wanted.length_bytes as u32);
        self.add(Step {
            first: position,
            last: position,
            segments: 1,
            ..wanted
        });
    }

    /// Adds a step without memory over a range (zero, discard), joined to its neighbour like a transfer.
    pub(crate) fn cover(&mut self, wanted: Step) {
        if let Some(index) = self.neighbour(&wanted) {
            self.steps[index].length_bytes += wanted.length_bytes;
        } else {
            self.push(wanted);
            self.latest[wanted.drive()] = (self.steps.len() - 1) as u16;
        }
    }

    #[inline]
    fn neighbour(&self, wanted: &Step) -> Option<usize> {
        let index = usize::from(self.latest[wanted.drive()]);
        let step = self.steps.get(index)?;
        let fits = step.offset_bytes + step.length_bytes == wanted.offset_bytes
            && step.slot == wanted.slot
            && step.shadow == wanted.shadow
            && step.stage == wanted.stage
            && step.kind == wanted.kind
            && usize::from(step.segments) < STEP_SEGMENTS_MAX
            && step.length_bytes + wanted.length_bytes <= u64::from(STEP_BYTES_MAX);
        fits.then_some(index)
    }

    /// The stage after all that the plan already does.
    pub(crate) fn next_stage(&self) -> u8 {
        self.steps.last().map_or(0, |last| last.stage + 1)
    }

    fn extend(&mut self, index: usize, buffer: Buffer, length_bytes: u32) {
        self.steps[index].length_bytes += u64::from(length_bytes);
        let tail = &mut self.segments[self.steps[index].last as usize];
        if tail.buffer.at(tail.length_bytes) == buffer {
            tail.length_bytes += length_bytes;
        } else {
            self.append_segment(index, buffer, length_bytes);
        }
    }

    /// Adds a step without memory (flush, zero, discard), or one whose sources are added afterwards by
    /// [`Plan::add_source`].
    #[inline]
    pub fn push(&mut self, step: Step) {
        self.add(Step {
            first: NO_SEGMENT,
            last: NO_SEGMENT,
            segments: 0,
            ..step
        });
    }

    #[inline]
    fn add(&mut self, step: Step) {
        let last = self.steps.last();
        debug_assert!(last.is_none_or(|last| last.stage <= step.stage));
        self.steps.push(step);
    }

    /// Adds a source to the last step, an `Xor` or `Compare`.
    pub fn add_source(&mut self, buffer: Buffer) {
        let index = self.steps.len() - 1;
        self.append_segment(index, buffer, self.steps[index].length_bytes as u32);
    }

    /// Adds a computation with all its sources, of which there is at least one.
    #[inline]
    pub(crate) fn compute(
        &mut self,
        (kind, stage): (StepKind, u8),
        length_bytes: u32,
        sources: impl Iterator<Item = Buffer>,
    ) {
        let first = self.segments.len();
        self.segments
            .extend(sources.map(|buffer| Segment::alone(buffer, length_bytes)));
        let end = self.segments.len();
        assert!(
            first < end && end <= usize::from(NO_SEGMENT),
            "a computation has no sources, or a plan too many pieces of memory"
        );
        let last = end - 1;
        for (at, segment) in (first..last).zip(&mut self.segments[first..]) {
            segment.next = at as u16 + 1;
        }
        self.add(Step {
            first: first as u16,
            last: last as u16,
            segments: (end - first) as u16,
            ..Step::compute(kind, stage, length_bytes)
        });
    }

    /// Adds a segment that belongs to no step yet, and returns its index.
    #[inline]
    fn new_segment(&mut self, buffer: Buffer, length_bytes: u32) -> u16 {
        assert!(
            self.segments.len() < usize::from(NO_SEGMENT),
            "a plan has too many pieces of memory"
        );
        self.segments.push(Segment::alone(buffer, length_bytes));
        (self.segments.len() - 1) as u16
    }

    #[inline]
    fn append_segment(&mut self, index: usize, buffer: Buffer, length_bytes: u32) {
        let position = self.new_segment(buffer, length_bytes);
        let step = &mut self.steps[index];
        if step.segments == 0 {
            step.first = position;
        } else {
            self.segments[step.last as usize].next = position;
        }
        step.last = position;
        step.segments += 1;
    }
}

impl Step {
    /// A step on the member in `slot`, over `length_bytes` from `offset_bytes` on that member.
    #[must_use]
    #[inline]
    pub fn member(
        kind: StepKind,
        stage: u8,
        slot: Slot,
        offset_bytes: u64,
        length_bytes: u64,
    ) -> Step {
        Step {
            kind,
            stage,
            slot,
            shadow: false,
            offset_bytes,
            length_bytes,
            first: NO_SEGMENT,
            last: NO_SEGMENT,
            segments: 0,
        }
    }

    /// Where [`Plan::latest`] remembers this step's drive.
    #[inline]
    fn drive(&self) -> usize {
        usize::from(self.slot.0) + if self.shadow { VOLUME_MEMBERS_MAX } else { 0 }
    }

    /// A computation over sources of `length_bytes` each.
    #[must_use]
    pub fn compute(kind: StepKind, stage: u8, length_bytes: u32) -> Step {
        Step::member(kind, stage, Slot(0), 0, u64::from(length_bytes))
    }
}

impl Plan {
    /// Reads `range` of `slot` into `buffer`.
    #[inline]
    pub(crate) fn read(
        &mut self,
        shape: &Geometry,
        stage: u8,
        slot: Slot,
        range: Range,
        buffer: Buffer,
    ) {
        self.transfer(range.step(shape, StepKind::Read, stage, slot), buffer);
    }

    /// Writes `buffer` to `range` of `slot`, and to the drive that shadows it.
    #[inline]
    pub(crate) fn write(
        &mut self,
        shape: &Geometry,
        (stage, fua): (u8, bool),
        (slot, view): (Slot, &RowView),
        range: Range,
        buffer: Buffer,
    ) {
        let step = range.step(shape, StepKind::Write { fua }, stage, slot);
        self.transfer(step, buffer);
        if view.shadowed.has(slot) {
            self.transfer(
                Step {
                    shadow: true,
                    ..step
                },
                buffer,
            );
        }
    }
}
