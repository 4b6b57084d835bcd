//! Writes that go through the write-hole log: as other parity writes, but parity is computed in two steps.
//!
//! The first step computes the *partial parity*, the xor of the data chunks that a span does not change: it is
//! the xor of everything read, both for read-modify-write and for reconstruct-write. It is logged before data or
//! parity is written. The second step adds the new data in the same memory, once the log is durable: the log is
//! written from that memory, and data and parity of whole rows are then moved in one pass. A span that covers the
//! whole row has no partial parity. An entry of the log covers adjacent chunks. If it listed an unchanged chunk
//! between changed ones, that chunk could not be computed any more if its drive is lost in the same crash. So such
//! spans are refused and their pieces planned one after another.

use super::{NotEnoughMembers, Piece, Plan, RowWrite, Shares, Span, Spans, Step, StepKind};
use crate::layout::{Geometry, Location};
use crate::plan::Range;
use crate::units::{Buffer, Slot, SlotSet};

impl RowWrite<'_> {
    pub(super) fn plan_logged<const BORDERS: usize>(
        &self,
        plan: &mut Plan,
        pieces: &[Piece],
        spans: &Spans<BORDERS>,
    ) {
        let target = self.target(spans);
        let read = spans.read_somewhere;
        let scratch = Shares::new(plan, read.with(target), spans.packed_bytes);
        self.read_old(plan, 0, spans, &scratch);
        let mut stage = plan.next_stage();
        for span in spans.iter() {
            self.sum_up_old(plan, stage, span, (&scratch, target));
        }
        stage = plan.next_stage();
        let parity = scratch.of(target, 0);
        for span in spans.iter() {
            self.log(plan, stage, span, parity);
        }
        for &span in spans.iter() {
            let reads = match span.reads {
                SlotSet(0) => SlotSet(0),
                _ => SlotSet(0).with(target),
            };
            let summed = Span { reads, ..span };
            self.compute(plan, stage + 1, (&summed, pieces), (&scratch, target));
        }
        self.write_data::<BORDERS>(plan, stage + 2, pieces);
        self.write_parity(plan, stage + 2, spans, parity);
    }

    /// Computes the partial parity of one span: the xor of everything read. Nothing to do if the only chunk read
    /// is in `target`'s memory already.
    fn sum_up_old(
        &self,
        plan: &mut Plan,
        stage: u8,
        span: &Span,
        (scratch, target): (&Shares, Slot),
    ) {
        let is_there = span.reads == SlotSet(0).with(target);
        if span.reads != SlotSet(0) && !is_there {
            self.compute(plan, stage, (span, &[]), (scratch, target));
        }
    }

    fn log(&self, plan: &mut Plan, stage: u8, span: &Span, partial: Buffer) {
        let changed = span.covered;
        let partial = (span.reads.0 != 0).then(|| partial.at(span.packed_bytes));
        let lowest = Slot(changed.0.trailing_zeros() as u8);
        let step = log_step(
            self.shape,
            (self.parity, lowest, changed.count()),
            self.range(span),
            stage,
            partial.is_some(),
        );
        plan.push(step);
        if let Some(partial) = partial {
            plan.add_source(partial);
        }
    }
}

/// The step that logs a change of `range` of `chunks` adjacent data chunks, of which `lowest` is the first. The
/// caller adds its memory.
fn log_step(
    shape: &Geometry,
    (parity, lowest, chunks): (Slot, Slot, u32),
    range: Range,
    stage: u8,
    has_partial: bool,
) -> Step {
    let place = Location {
        row: range.row,
        data_index: shape
            .data_index(range.row, lowest)
            .expect("the log names data chunks"),
        in_chunk_bytes: range.low_bytes,
    };
    let kind = StepKind::Log {
        data_offset_bytes: shape.volume_offset_bytes(place),
        data_bytes: chunks * range.length_bytes(),
    };
    let length = if has_partial { range.length_bytes() } else { 0 };
    Step::member(kind, stage, parity, 0, u64::from(length))
}

/// Logs that all data chunks of `range` are about to change.
///
/// Fails where rows have no parity.
pub(in crate::plan) fn log_whole(
    plan: &mut Plan,
    shape: &Geometry,
    range: Range,
) -> Result<(), NotEnoughMembers> {
    let parity = shape.parity_slot(range.row).ok_or(NotEnoughMembers)?;
    let chunks = u32::from(shape.data_members());
    let lowest = Slot(u8::from(parity == Slot(0)));
    plan.push(log_step(shape, (parity, lowest, chunks), range, 0, false));
    Ok(())
}
