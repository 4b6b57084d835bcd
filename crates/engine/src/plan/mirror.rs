//! Levels without parity (RAID 0, 1 and 10), and the operations without payload of all levels: zeroes, discards
//! and flushes.
//!
//! A data chunk of these levels is held by a set of equal slots: one, a pair, or every slot of the
//! volume. A write goes to all of them at once, and any readable one can be the source of a repair.

use super::parity::logged::log_whole;
use super::{NotEnoughMembers, Piece, Plan, Range, RowView, Step, StepKind};
use crate::layout::Geometry;
use crate::units::{Buffer, Slot, SlotSet};

/// Plans a write of `piece` to every writable slot that holds its data chunk, and to their shadows. May
/// be called again on the same plan for further pieces.
///
/// Fails if no slot would hold the data readably afterwards.
#[inline]
pub fn mirror_write(
    plan: &mut Plan,
    shape: &Geometry,
    row: u64,
    piece: &Piece,
    view: &RowView,
    fua: bool,
) -> Result<(), NotEnoughMembers> {
    let holders = holders(shape, row, piece.data_index, view)?;
    for slot in holders.iter() {
        plan.write(
            shape,
            (0, fua),
            (slot, view),
            piece.range(row),
            piece.buffer,
        );
    }
    Ok(())
}

/// The writable slots of a data chunk; at least one of them can be read back.
#[inline]
fn holders(
    shape: &Geometry,
    row: u64,
    data_index: u8,
    view: &RowView,
) -> Result<SlotSet, NotEnoughMembers> {
    let holders = SlotSet(shape.data_slots(row, data_index).0 & view.writable.0);
    if holders.0 & view.readable.0 == 0 {
        Err(NotEnoughMembers)
    } else {
        Ok(holders)
    }
}

/// Plans the repair of a range that `bad_slot` could not read: reads it from another slot into `target` and
/// writes it back to `bad_slot`. The write is left out if `bad_slot` is not writable any more.
///
/// Fails if no other slot that holds data chunk `data_index` is readable.
pub fn mirror_repair(
    plan: &mut Plan,
    shape: &Geometry,
    bad_slot: Slot,
    range: Range,
    view: &RowView,
    target: Buffer,
) -> Result<(), NotEnoughMembers> {
    let data_index = shape
        .data_index(range.row, bad_slot)
        .ok_or(NotEnoughMembers)?;
    let copies = SlotSet(shape.data_slots(range.row, data_index).0 & view.readable.0);
    let source = copies
        .without(bad_slot)
        .iter()
        .next()
        .ok_or(NotEnoughMembers)?;
    plan.read(shape, 0, source, range, target);
    if view.writable.has(bad_slot) {
        plan.write(shape, (1, false), (bad_slot, view), range, target);
    }
    Ok(())
}

/// Plans to read a range of a data chunk whose copies may differ, and to make the copies equal: reads `source`
/// into `target` and writes that to all other slots that hold the chunk, and to their shadows.
///
/// Never fails; without other writable slots it only reads.
pub fn mirror_equal(
    plan: &mut Plan,
    shape: &Geometry,
    (source, data_index): (Slot, u8),
    range: Range,
    view: &RowView,
    target: Buffer,
) {
    plan.read(shape, 0, source, range, target);
    let copies = SlotSet(shape.data_slots(range.row, data_index).0 & view.writable.0);
    let others = copies.without(source);
    for slot in others.iter() {
        let fua = view.must_be_durable();
        plan.write(shape, (1, fua), (slot, view), range, target);
    }
}

/// Plans `kind` ([`StepKind::Zero`] or [`StepKind::Discard`]) over a range of one data chunk. RAID 5 can
/// only be zeroed in whole rows: [`zero_row`].
///
/// Fails if no slot would hold the zeros readably afterwards, and for RAID 5.
pub fn zero_chunk(
    plan: &mut Plan,
    shape: &Geometry,
    data_index: u8,
    range: Range,
    view: &RowView,
    kind: StepKind,
) -> Result<(), NotEnoughMembers> {
    if shape.has_parity() {
        return Err(NotEnoughMembers);
    }
    let holders = holders(shape, range.row, data_index, view)?;
    zero_slots(plan, shape, (0, holders), range, view, kind);
    Ok(())
}

/// Plans `kind` ([`StepKind::Zero`] or [`StepKind::Discard`]) over a range of all chunks of a row,
/// parity included: the parity of zeros is zero. Steps of consecutive rows are joined, unless the change is
/// logged.
///
/// Fails if a data chunk would not be readable afterwards, or if a crash could leave a lost chunk with content
/// that is neither old nor zero: one log entry cannot cover a lost chunk together with others.
pub fn zero_row(
    plan: &mut Plan,
    shape: &Geometry,
    range: Range,
    view: &RowView,
    kind: StepKind,
) -> Result<(), NotEnoughMembers> {
    let all = SlotSet::all(shape.members);
    if !shape.survives(SlotSet(view.readable.0 & view.writable.0)) {
        return Err(NotEnoughMembers);
    }
    let parity = shape.parity_slots(range.row);
    let lost_data = all.0 & !parity.0 & !view.writable.0 != 0;
    if shape.has_parity() && lost_data && (!view.in_sync || view.logged) {
        // The lost chunk's zeros would exist in parity alone, and reads do not trust parity that is not in sync.
        return Err(NotEnoughMembers);
    }
    let mut stage = 0;
    if view.logged && parity.0 & view.writable.0 != 0 {
        log_whole(plan, shape, range)?;
        stage = 1;
    }
    let slots = SlotSet(all.0 & view.writable.0);
    zero_slots(plan, shape, (stage, slots), range, view, kind);
    Ok(())
}

fn zero_slots(
    plan: &mut Plan,
    shape: &Geometry,
    (stage, slots): (u8, SlotSet),
    range: Range,
    view: &RowView,
    kind: StepKind,
) {
    for slot in slots.iter() {
        let step = range.step(shape, kind, stage, slot);
        plan.cover(step);
        if view.shadowed.has(slot) {
            plan.cover(Step {
                shadow: true,
                ..step
            });
        }
    }
}

/// Adds a flush of each of `members`, and of the drives that are being filled in `shadows`, after everything
/// that the plan already does.
pub fn flush(plan: &mut Plan, members: SlotSet, shadows: SlotSet) {
    let stage = plan.next_stage();
    let step = |slot| Step::member(StepKind::Flush, stage, slot, 0, 0);
    members.iter().for_each(|slot| plan.push(step(slot)));
    for slot in shadows.iter() {
        plan.push(Step {
            shadow: true,
            ..step(slot)
        });
    }
}
