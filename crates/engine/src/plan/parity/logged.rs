//! Writes that go through the write-hole log: as the others, but parity is computed in two steps.
//!
//! The first is the *partial parity*, the xor of the data chunks that a band leaves alone: it follows from
//! all that is read, whichever way that is. It is logged before anything is written. The second adds what
//! is new. A band that covers the whole row has no partial parity. An entry of the log covers neighbouring
//! chunks; listing what lies between others would give that up if its drive is lost in the same crash, so
//! such bands are refused and their pieces planned one after another.

use super::{Band, Bands, NotEnoughMembers, Piece, Plan, RowWrite, Shares, Step, StepKind};
use crate::layout::{Geometry, Location};
use crate::plan::Range;
use crate::units::{Buffer, Slot};

impl RowWrite<'_> {
    pub(super) fn plan_logged<const BORDERS: usize>(
        &self,
        plan: &mut Plan,
        pieces: &[Piece],
        bands: &Bands<BORDERS>,
    ) {
        let scratch = Shares::new(plan, bands.read_somewhere, bands.packed_bytes);
        let partial = plan.scratch(bands.packed_bytes);
        let parity = plan.scratch(bands.packed_bytes);
        self.read_old(plan, 0, bands, &scratch);
        let mut stage = plan.next_stage();
        for band in bands.iter() {
            if band.reads.0 != 0 {
                let target = partial.at(band.packed_bytes);
                let kind = StepKind::Xor { target };
                plan.push(Step::compute(kind, stage, band.length_bytes()));
                for slot in band.reads.iter() {
                    plan.add_source(scratch.of(slot, band.packed_bytes));
                }
            }
        }
        stage = plan.next_stage();
        for band in bands.iter() {
            self.log(plan, stage, band, partial);
        }
        for band in bands.iter() {
            let target = parity.at(band.packed_bytes);
            let kind = StepKind::Xor { target };
            plan.push(Step::compute(kind, stage, band.length_bytes()));
            if band.reads.0 != 0 {
                plan.add_source(partial.at(band.packed_bytes));
            }
            for piece in pieces {
                if piece.low_bytes <= band.low_bytes && band.high_bytes <= piece.high_bytes {
                    plan.add_source(piece.buffer.at(band.low_bytes - piece.low_bytes));
                }
            }
        }
        self.write_data::<BORDERS>(plan, stage + 1, pieces);
        self.write_parity(plan, stage + 1, bands, parity);
    }

    fn log(&self, plan: &mut Plan, stage: u8, band: &Band, partial: Buffer) {
        let changed = band.covered;
        let partial = (band.reads.0 != 0).then(|| partial.at(band.packed_bytes));
        let lowest = Slot(changed.0.trailing_zeros() as u8);
        let step = log_step(
            self.shape,
            (self.parity, lowest, changed.count()),
            self.range(band),
            stage,
            partial.is_some(),
        );
        plan.push(step);
        if let Some(partial) = partial {
            plan.add_source(partial);
        }
    }
}

impl Band {
    fn length_bytes(&self) -> u32 {
        self.high_bytes - self.low_bytes
    }
}

/// The step that logs a change of `range` of `chunks` neighbouring data chunks, of which `lowest` is the
/// first; its memory is added by the caller.
fn log_step(
    shape: &Geometry,
    (parity, lowest, chunks): (Slot, Slot, u32),
    range: Range,
    stage: u8,
    has_partial: bool,
) -> Step {
    let place = Location {
        row: range.row,
        data_index: shape.data_index(range.row, lowest).unwrap_or(0),
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
/// Fails where there is no parity.
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
