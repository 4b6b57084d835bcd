//! RAID 5: how a write keeps parity consistent, and how a lost or unreadable chunk is computed.
//!
//! The pieces of a write need not have the same offsets. Their borders cut the range of offsets into *spans*;
//! inside a span every data chunk is either overwritten throughout (*covered*) or not at all. The parity of each
//! span is computed independently, in one of three ways:
//!
//! - **full**: all data chunks are covered, parity is the xor of the new data, nothing is read;
//! - **read-modify-write**: new parity = old parity ^ old data ^ new data of the covered chunks;
//! - **reconstruct-write**: new parity = new data ^ what the uncovered chunks hold.
//!
//! The way with fewer reads is chosen among those whose reads are possible, and parity that has not been
//! established yet is never read-modified. Chunks of a lost member exist in parity alone. Borders between spans
//! cost no member I/O: each slot's ranges are planned in ascending order, its scratch memory is contiguous, and
//! [`Plan::transfer`] joins them.

use super::{NotEnoughMembers, PIECES_MAX, Piece, Plan, Range, RowView, Step, StepKind};
use crate::layout::Geometry;
use crate::units::{Buffer, Slot, SlotSet};

pub(super) mod logged;
mod piece;

/// Writes of up to this many pieces are planned on a smaller stack frame: clearing the largest one costs
/// more than planning a small write.
const FEW_PIECES: usize = 4;
/// As [`FEW_PIECES`], for full stripes of common widths.
const SOME_PIECES: usize = 16;

/// Plans a write of `pieces` to one row of a RAID 5.
///
/// The pieces, at most [`PIECES_MAX`], are not empty and do not overlap; their order does not matter and a data
/// chunk may have several of them, with gaps. Slots that are not writable are left out; shadows are written too.
/// Fails if more than one slot is not writable, if parity cannot be computed from the readable slots, if new data
/// would be in parity alone where parity is not in sync, or if a log entry cannot describe the write.
pub fn parity_write(
    plan: &mut Plan,
    shape: &Geometry,
    row: u64,
    pieces: &[Piece],
    view: &RowView,
    fua: bool,
) -> Result<(), NotEnoughMembers> {
    assert!(
        pieces.len() <= PIECES_MAX,
        "{} pieces in one plan",
        pieces.len()
    );
    let write = RowWrite::new(shape, row, view, fua)?;
    if let [piece] = pieces
        && write.is_plain()
    {
        write.plan_piece(plan, piece)
    } else if pieces.len() <= FEW_PIECES {
        write.plan::<{ 2 * FEW_PIECES }>(plan, pieces)
    } else if pieces.len() <= SOME_PIECES {
        write.plan::<{ 2 * SOME_PIECES }>(plan, pieces)
    } else {
        write.plan::<{ 2 * PIECES_MAX }>(plan, pieces)
    }
}

/// Plans a write of the data of `pieces` without parity, where parity is on record as lost.
///
/// Fails if the slot of a piece is not readable and writable, because lost parity cannot hold its data.
pub fn data_alone(
    plan: &mut Plan,
    shape: &Geometry,
    row: u64,
    pieces: &[Piece],
    view: &RowView,
    fua: bool,
) -> Result<(), NotEnoughMembers> {
    let parity = shape.parity_slot(row).ok_or(NotEnoughMembers)?;
    let write = RowWrite {
        shape,
        row,
        view,
        fua,
        parity,
        data: SlotSet::all(shape.members).without(parity),
    };
    let in_service = SlotSet(view.readable.0 & view.writable.0);
    if !pieces
        .iter()
        .all(|piece| in_service.has(write.slot_of(piece)))
    {
        return Err(NotEnoughMembers);
    }
    write.write_data::<{ 2 * PIECES_MAX }>(plan, 0, pieces);
    Ok(())
}

/// The properties that all spans of a write share.
struct RowWrite<'a> {
    shape: &'a Geometry,
    row: u64,
    view: &'a RowView,
    fua: bool,
    parity: Slot,
    data: SlotSet,
}

/// A range of offsets in which the set of covered chunks does not change.
#[derive(Clone, Copy)]
struct Span {
    low_bytes: u32,
    high_bytes: u32,
    covered: SlotSet,
    /// Slots whose old content the new parity depends on.
    reads: SlotSet,
    /// Offset of the span in each slot's scratch; gaps between spans take no memory.
    packed_bytes: u32,
}

/// The spans of a write in ascending order.
struct Spans<const BORDERS: usize> {
    list: [Span; BORDERS],
    count: usize,
    packed_bytes: u32,
    /// Slots read in at least one span, and slots read in every span.
    read_somewhere: SlotSet,
    read_everywhere: SlotSet,
}

/// Numbers the stages of a write: reads, then parity, then writes, without gaps.
struct Stages {
    read: u8,
    compute: u8,
    write: u8,
}

impl Stages {
    fn new(any_read: bool, any_compute: bool) -> Stages {
        let compute = u8::from(any_read);
        Stages {
            read: 0,
            compute,
            write: compute + u8::from(any_compute),
        }
    }
}

/// Divides scratch memory among slots: one equal share for each.
struct Shares {
    base: Buffer,
    slots: SlotSet,
    share_bytes: u32,
}

impl Shares {
    fn new(plan: &mut Plan, slots: SlotSet, share_bytes: u32) -> Shares {
        let base = plan.scratch(slots.count() * share_bytes);
        Shares {
            base,
            slots,
            share_bytes,
        }
    }

    #[inline]
    fn of(&self, slot: Slot, packed_bytes: u32) -> Buffer {
        let rank = (self.slots.0 & ((1 << slot.0) - 1)).count_ones();
        self.base.at(rank * self.share_bytes + packed_bytes)
    }
}

impl<'a> RowWrite<'a> {
    #[inline]
    fn new(
        shape: &'a Geometry,
        row: u64,
        view: &'a RowView,
        fua: bool,
    ) -> Result<RowWrite<'a>, NotEnoughMembers> {
        let parity = shape.parity_slot(row).ok_or(NotEnoughMembers)?;
        let all = SlotSet::all(shape.members);
        let lost = SlotSet(all.0 & !view.writable.0);
        if lost.count() > 1 {
            return Err(NotEnoughMembers);
        }
        Ok(RowWrite {
            shape,
            row,
            view,
            fua,
            parity,
            data: all.without(parity),
        })
    }

    /// As [`Geometry::data_slots`], without computing the parity slot again.
    #[inline]
    fn slot_of(&self, piece: &Piece) -> Slot {
        Slot(piece.data_index + u8::from(piece.data_index >= self.parity.0))
    }

    /// Whether one entry of the write-hole log can describe a change of these chunks. An entry covers adjacent
    /// data chunks only. It cannot cover a lost chunk together with others: parity would imply a wrong content of
    /// the lost chunk until the others are written.
    #[inline]
    fn can_be_logged(&self, covered: SlotSet) -> bool {
        let to_highest = u64::MAX >> covered.0.leading_zeros();
        let from_lowest = u64::MAX << covered.0.trailing_zeros();
        let between = to_highest & from_lowest & self.data.0;
        let lost = covered.0 & !self.view.writable.0 != 0;
        between == covered.0 && (!lost || covered.count() == 1)
    }

    /// The slots to read for a span, by the cheapest way that the view allows.
    #[inline]
    fn reads(&self, covered: SlotSet) -> Result<SlotSet, NotEnoughMembers> {
        if self.view.logged && !self.can_be_logged(covered) {
            return Err(NotEnoughMembers);
        }
        let modify = covered.with(self.parity);
        let reconstruct = SlotSet(self.data.0 & !covered.0);
        let may = |reads: SlotSet| reads.0 & !self.view.readable.0 == 0;
        let may_modify = self.view.in_sync && may(modify);
        if !self.view.in_sync && covered.0 & !self.view.writable.0 != 0 {
            // The new data would exist in parity alone, and reads do not trust parity here.
            return Err(NotEnoughMembers);
        }
        if may_modify && (modify.count() <= reconstruct.count() || !may(reconstruct)) {
            Ok(modify)
        } else if may(reconstruct) {
            Ok(reconstruct)
        } else {
            Err(NotEnoughMembers)
        }
    }

    fn plan<const BORDERS: usize>(
        &self,
        plan: &mut Plan,
        pieces: &[Piece],
    ) -> Result<(), NotEnoughMembers> {
        if !self.view.writable.has(self.parity) {
            self.write_data::<BORDERS>(plan, Stages::new(false, false).write, pieces);
            return Ok(());
        }
        let spans = Spans::<BORDERS>::split(self, pieces)?;
        if self.view.logged {
            self.plan_logged(plan, pieces, &spans);
            return Ok(());
        }
        let read = spans.read_somewhere;
        let target = self.target(&spans);
        let stages = Stages::new(read.0 != 0, true);
        let scratch = Shares::new(plan, read.with(target), spans.packed_bytes);
        self.read_old(plan, stages.read, &spans, &scratch);
        for span in spans.iter() {
            self.compute(plan, stages.compute, (span, pieces), (&scratch, target));
        }
        self.write_data::<BORDERS>(plan, stages.write, pieces);
        let new = scratch.of(target, 0);
        self.write_parity(plan, stages.write, &spans, new);
        Ok(())
    }

    /// The slot in whose scratch memory parity is computed: one that every span reads, if there is one, so that
    /// parity needs no memory of its own.
    #[inline]
    fn target<const BORDERS: usize>(&self, spans: &Spans<BORDERS>) -> Slot {
        if spans.read_everywhere.0 == 0 || spans.read_everywhere.has(self.parity) {
            self.parity
        } else {
            Slot(spans.read_everywhere.0.trailing_zeros() as u8)
        }
    }

    fn read_old<const BORDERS: usize>(
        &self,
        plan: &mut Plan,
        stage: u8,
        spans: &Spans<BORDERS>,
        scratch: &Shares,
    ) {
        for slot in spans.read_somewhere.iter() {
            for span in spans.iter().filter(|span| span.reads.has(slot)) {
                let buffer = scratch.of(slot, span.packed_bytes);
                plan.read(self.shape, stage, slot, self.range(span), buffer);
            }
        }
    }

    fn write_parity<const BORDERS: usize>(
        &self,
        plan: &mut Plan,
        stage: u8,
        spans: &Spans<BORDERS>,
        parity: Buffer,
    ) {
        let when = (stage, self.fua);
        for span in spans.iter() {
            let buffer = parity.at(span.packed_bytes);
            plan.write(
                self.shape,
                when,
                (self.parity, self.view),
                self.range(span),
                buffer,
            );
        }
    }

    /// Computes the parity of one span: the xor of everything read and of the new data.
    fn compute(
        &self,
        plan: &mut Plan,
        stage: u8,
        (span, pieces): (&Span, &[Piece]),
        (scratch, target): (&Shares, Slot),
    ) {
        let kind = StepKind::Xor {
            target: scratch.of(target, span.packed_bytes),
        };
        plan.push(Step::compute(kind, stage, span.high_bytes - span.low_bytes));
        for slot in span.reads.iter() {
            plan.add_source(scratch.of(slot, span.packed_bytes));
        }
        for piece in pieces {
            if piece.low_bytes <= span.low_bytes && span.high_bytes <= piece.high_bytes {
                plan.add_source(piece.buffer.at(span.low_bytes - piece.low_bytes));
            }
        }
    }

    /// Writes the payload in ascending order of slot and offset, so that neighbours are joined.
    fn write_data<const BORDERS: usize>(&self, plan: &mut Plan, stage: u8, pieces: &[Piece]) {
        let mut order = [0u64; BORDERS];
        for (index, piece) in pieces.iter().enumerate() {
            let place = u64::from(piece.data_index) << 32 | u64::from(piece.low_bytes);
            order[index] = place << 8 | index as u64;
        }
        let order = &mut order[..pieces.len()];
        order.sort_unstable();
        for key in order {
            let piece = &pieces[(*key & 0xff) as usize];
            let slot = self.slot_of(piece);
            if self.view.writable.has(slot) {
                let range = piece.range(self.row);
                plan.write(
                    self.shape,
                    (stage, self.fua),
                    (slot, self.view),
                    range,
                    piece.buffer,
                );
            }
        }
    }

    fn range(&self, span: &Span) -> Range {
        Range {
            row: self.row,
            low_bytes: span.low_bytes,
            high_bytes: span.high_bytes,
        }
    }
}

impl<const BORDERS: usize> Spans<BORDERS> {
    /// Sweeps over the borders of all pieces. A border toggles whether its slot is covered; where two pieces of a
    /// slot touch, the two toggles cancel.
    fn split(write: &RowWrite<'_>, pieces: &[Piece]) -> Result<Self, NotEnoughMembers> {
        let mut borders = [0u64; BORDERS];
        for (pair, piece) in borders.chunks_exact_mut(2).zip(pieces) {
            let slot = u64::from(write.slot_of(piece).0);
            pair[0] = u64::from(piece.low_bytes) << 8 | slot;
            pair[1] = u64::from(piece.high_bytes) << 8 | slot;
        }
        let borders = &mut borders[..2 * pieces.len()];
        borders.sort_unstable();
        let mut spans = Spans::new();
        let mut covered = SlotSet(0);
        let mut low_bytes = 0;
        for border in borders {
            let high_bytes = (*border >> 8) as u32;
            if high_bytes > low_bytes && covered.0 != 0 {
                spans.add(low_bytes, high_bytes, write, covered)?;
            }
            covered.0 ^= 1 << (*border & 0xff);
            low_bytes = high_bytes;
        }
        Ok(spans)
    }

    fn new() -> Self {
        let nothing = Span {
            low_bytes: 0,
            high_bytes: 0,
            covered: SlotSet(0),
            reads: SlotSet(0),
            packed_bytes: 0,
        };
        Spans {
            list: [nothing; BORDERS],
            count: 0,
            packed_bytes: 0,
            read_somewhere: SlotSet(0),
            read_everywhere: SlotSet(u64::MAX),
        }
    }

    fn add(
        &mut self,
        low_bytes: u32,
        high_bytes: u32,
        write: &RowWrite<'_>,
        covered: SlotSet,
    ) -> Result<(), NotEnoughMembers> {
        let reads = write.reads(covered)?;
        let packed_bytes = self.packed_bytes;
        self.list[self.count] = Span {
            low_bytes,
            high_bytes,
            covered,
            reads,
            packed_bytes,
        };
        self.count += 1;
        self.packed_bytes += high_bytes - low_bytes;
        self.read_somewhere.0 |= reads.0;
        self.read_everywhere.0 &= reads.0;
        Ok(())
    }

    fn iter(&self) -> impl Iterator<Item = &Span> {
        self.list[..self.count].iter()
    }
}

/// Plans a read of `range` of `slot`, data or parity, computed from all other slots, into `target`.
///
/// Fails if another slot is unreadable, or if the row's parity has not been established; parity itself can be
/// computed in that case too.
pub fn parity_reconstruct(
    plan: &mut Plan,
    shape: &Geometry,
    slot: Slot,
    range: Range,
    view: &RowView,
    target: Buffer,
) -> Result<(), NotEnoughMembers> {
    let parity = shape.parity_slot(range.row).ok_or(NotEnoughMembers)?;
    let others = SlotSet::all(shape.members).without(slot);
    let established = view.in_sync || slot == parity;
    if !established || others.0 & !view.readable.0 != 0 {
        return Err(NotEnoughMembers);
    }
    // The first source is read into the target; the others need scratch.
    let length_bytes = range.length_bytes();
    let sources = others.count();
    let scratch = plan.scratch((sources - 1) * length_bytes);
    let place = |number| match number {
        0 => target,
        _ => scratch.at((number - 1) * length_bytes),
    };
    let read = range.step(shape, StepKind::Read, 0, slot);
    for (number, slot) in (0..).zip(others.iter()) {
        plan.transfer_apart(Step { slot, ..read }, place(number));
    }
    let sum = (StepKind::Xor { target }, 1);
    plan.compute(sum, length_bytes, (0..sources).map(place));
    Ok(())
}

/// As [`parity_reconstruct`]; then writes the result back to `slot`, which could not be read. The write is left
/// out if the slot is not writable any more.
pub fn parity_reconstruct_write_back(
    plan: &mut Plan,
    shape: &Geometry,
    slot: Slot,
    range: Range,
    view: &RowView,
    (target, fua): (Buffer, bool),
) -> Result<(), NotEnoughMembers> {
    parity_reconstruct(plan, shape, slot, range, view, target)?;
    if view.writable.has(slot) {
        plan.write(shape, (2, fua), (slot, view), range, target);
    }
    Ok(())
}
