//! Background work on a range of one row: filling a new drive, establishing redundancy, checking it.
//!
//! These plans read and write members like any other. The caller makes them safe: it locks the range against
//! client writes, and has a new drive flushed before its progress is recorded. RAID 10 rows are handled whole,
//! all pairs in one plan.

use super::parity::parity_reconstruct;
use super::{NotEnoughMembers, Plan, Range, RowView, Step, StepKind};
use crate::layout::{Geometry, Redundancy};
use crate::units::{Buffer, Slot, SlotSet};

/// Plans to fill `range` of the drive in `target`: the one in service, or with `shadow` its replacement. A shadow
/// is copied from the drive that it replaces as long as that drive can be read.
///
/// Fails if the readable slots do not determine the content; for RAID 0 always, unless the replaced drive can be
/// read.
pub fn rebuild(
    plan: &mut Plan,
    shape: &Geometry,
    range: Range,
    target: Slot,
    view: &RowView,
    shadow: bool,
) -> Result<(), NotEnoughMembers> {
    let buffer = plan.scratch(range.length_bytes());
    let copies = copies(shape, range.row, target, view);
    let source = if shadow && copies.has(target) {
        Some(target)
    } else {
        view.source(copies.without(target))
    };
    let stage = if let Some(source) = source {
        plan.read(shape, 0, source, range, buffer);
        1
    } else {
        parity_reconstruct(plan, shape, target, range, view, buffer)?;
        2
    };
    let step = range.step(shape, StepKind::Write { fua: false }, stage, target);
    plan.transfer(Step { shadow, ..step }, buffer);
    Ok(())
}

/// The readable slots with the same content as `slot`, itself included.
fn copies(shape: &Geometry, row: u64, slot: Slot, view: &RowView) -> SlotSet {
    let equals = match shape.data_index(row, slot) {
        Some(data_index) => shape.data_slots(row, data_index),
        None => SlotSet(0).with(slot),
    };
    SlotSet(equals.0 & view.readable.0)
}

/// Plans to establish redundancy in `range`: parity is computed from all data; mirrors get the content of one
/// readable slot ([`RowView::source`]). A level without redundancy gets an empty plan.
///
/// Fails if data cannot be read, or if the parity slot cannot be written.
pub fn resync(
    plan: &mut Plan,
    shape: &Geometry,
    range: Range,
    view: &RowView,
) -> Result<(), NotEnoughMembers> {
    match shape.redundancy() {
        Redundancy::None => Ok(()),
        Redundancy::Parity => resync_parity(plan, shape, range, view),
        Redundancy::Copies => resync_mirrors(plan, shape, range, view),
    }
}

fn resync_parity(
    plan: &mut Plan,
    shape: &Geometry,
    range: Range,
    view: &RowView,
) -> Result<(), NotEnoughMembers> {
    let parity = shape.parity_slot(range.row).ok_or(NotEnoughMembers)?;
    if !view.writable.has(parity) {
        return Err(NotEnoughMembers);
    }
    let target = plan.scratch(range.length_bytes());
    parity_reconstruct(plan, shape, parity, range, view, target)?;
    plan.write(shape, (2, false), (parity, view), range, target);
    Ok(())
}

fn resync_mirrors(
    plan: &mut Plan,
    shape: &Geometry,
    range: Range,
    view: &RowView,
) -> Result<(), NotEnoughMembers> {
    let sets = shape.data_members();
    let length_bytes = range.length_bytes();
    let source = |set: u8| {
        view.source(SlotSet(
            shape.data_slots(range.row, set).0 & view.readable.0,
        ))
    };
    let targets = |set: u8, source: Slot| {
        SlotSet(shape.data_slots(range.row, set).0 & view.writable.0).without(source)
    };
    // Reads come before writes in a plan, so the loop over the sets runs twice.
    let mut copied = 0;
    let base = plan.scratch(0);
    for set in 0..sets {
        let source = source(set).ok_or(NotEnoughMembers)?;
        if targets(set, source).0 != 0 {
            plan.read(shape, 0, source, range, base.at(copied * length_bytes));
            copied += 1;
        }
    }
    plan.scratch(copied * length_bytes);
    let mut copied = 0;
    for set in 0..sets {
        let source = source(set).ok_or(NotEnoughMembers)?;
        let targets = targets(set, source);
        for target in targets.iter() {
            let buffer = base.at(copied * length_bytes);
            let fua = view.must_be_durable();
            plan.write(shape, (1, fua), (target, view), range, buffer);
        }
        copied += u32::from(targets.0 != 0);
    }
    Ok(())
}

/// Plans to read `range` from all slots and to compare: RAID 5 data with parity, the copies of mirrors with each
/// other. RAID 0 has nothing to compare.
///
/// Fails if some data cannot be compared because a slot is unreadable.
pub fn check(
    plan: &mut Plan,
    shape: &Geometry,
    range: Range,
    view: &RowView,
) -> Result<(), NotEnoughMembers> {
    if !shape.redundant() {
        return Ok(());
    }
    let slots = SlotSet(SlotSet::all(shape.members).0 & view.readable.0);
    let complete = if shape.has_parity() {
        slots.count() == u32::from(shape.members)
    } else {
        (0..shape.data_members())
            .all(|set| (shape.data_slots(range.row, set).0 & slots.0).count_ones() > 1)
    };
    if !complete {
        return Err(NotEnoughMembers);
    }
    let length_bytes = range.length_bytes();
    let base = plan.scratch(slots.count() * length_bytes);
    let place = |slot: Slot| base.at((slots.0 & ((1 << slot.0) - 1)).count_ones() * length_bytes);
    for slot in slots.iter() {
        plan.read(shape, 0, slot, range, place(slot));
    }
    if shape.has_parity() {
        compare(plan, length_bytes, slots.iter().map(place));
    } else {
        for set in 0..shape.data_members() {
            let mut copies = SlotSet(shape.data_slots(range.row, set).0 & slots.0).iter();
            let first = copies.next();
            for copy in copies {
                compare(
                    plan,
                    length_bytes,
                    first.into_iter().chain([copy]).map(place),
                );
            }
        }
    }
    Ok(())
}

fn compare(plan: &mut Plan, length_bytes: u32, sources: impl Iterator<Item = Buffer>) {
    plan.push(Step::compute(StepKind::Compare, 1, length_bytes));
    for source in sources {
        plan.add_source(source);
    }
}
