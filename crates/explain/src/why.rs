//! The reason for a plan in one sentence, derived from its steps.

use crate::array::Array;
use crate::cut::{Work, WorkKind};
use engine::layout::Level;
use engine::plan::StepKind;
use engine::units::{Slot, SlotSet};

/// The sentence for `work`.
#[must_use]
pub fn why(array: &Array, work: &Work) -> String {
    match work.kind {
        WorkKind::Direct => direct(array, work),
        WorkKind::Reconstruct { slot } => format!(
            "reconstruction: {} cannot be read, so its chunk is computed from all others",
            array.drive_name(slot)
        ),
        WorkKind::Mirror => mirror(array, work),
        WorkKind::Parity { covered, in_sync } => parity(array, work, covered, in_sync),
    }
}

fn slots_of(work: &Work, wanted: fn(StepKind) -> bool) -> SlotSet {
    let steps = work.plan.steps().iter().filter(|step| wanted(step.kind));
    steps.fold(SlotSet(0), |set, step| set.with(step.slot))
}

fn is_read(kind: StepKind) -> bool {
    kind == StepKind::Read
}

fn is_write(kind: StepKind) -> bool {
    matches!(kind, StepKind::Write { .. })
}

fn direct(array: &Array, work: &Work) -> String {
    let reads = slots_of(work, is_read).0 != 0;
    match (array.shape.level, reads) {
        (Level::Raid1 | Level::Raid10, _) => {
            "each piece is read from one mirror: the one with the fewest commands in flight, on a tie \
             by turns"
                .to_owned()
        }
        (_, true) => "each chunk is read from the one drive that has it; neighbours are joined".to_owned(),
        (_, false) => {
            "each chunk is written to the one drive that has it; there is no redundancy to keep"
                .to_owned()
        }
    }
}

fn mirror(array: &Array, work: &Work) -> String {
    let copies = slots_of(work, is_write).count();
    let row = work.row.unwrap_or(0);
    let first = work.plan.steps().first().map(|step| step.slot);
    let index = first.and_then(|slot| array.shape.data_index(row, slot));
    let holders = index.map_or(copies, |index| array.shape.data_slots(row, index).count());
    if copies < holders {
        format!("degraded: {copies} of {holders} copies can be written")
    } else {
        format!("all {copies} copies are written at once")
    }
}

fn parity(array: &Array, work: &Work, covered: SlotSet, in_sync: bool) -> String {
    let row = work.row.unwrap_or(0);
    let parity = array.shape.parity_slot(row).unwrap_or(Slot(0));
    let reads = slots_of(work, is_read);
    let data_slots = u32::from(array.shape.members) - 1;
    let untouched = data_slots - covered.count();
    if !slots_of(work, is_write).has(parity) {
        return format!(
            "no parity: {}, which has this row's, is lost, so the data is written alone",
            array.drive_name(parity)
        );
    }
    if reads.0 == 0 {
        return "full stripe: every data chunk of the row is new, so parity needs no reads"
            .to_owned();
    }
    let modifies = reads.has(parity);
    let beside = SlotSet(reads.0 & !covered.0).without(parity);
    if modifies && beside.0 != 0 {
        return "the write covers different chunks at different offsets: each range of offsets takes \
                the way to new parity with fewer reads"
            .to_owned();
    }
    let lost_data = array.state.lost.without(parity).0 != 0;
    if modifies {
        let reason = if lost_data && covered.0 & array.state.lost.0 == 0 {
            "a chunk that is not written cannot be read".to_owned()
        } else {
            format!(
                "{} against {untouched} for the untouched chunks",
                reads_in_words(covered.count() + 1)
            )
        };
        return format!(
            "read-modify-write: new parity = old parity ^ old data ^ new data ({reason})"
        );
    }
    let reason = if !in_sync {
        "parity is not established yet and must not be modified".to_owned()
    } else if covered.0 & array.state.lost.0 != 0 {
        "a chunk that is written is on a lost drive, so only parity keeps it".to_owned()
    } else {
        format!(
            "{} against {} for old parity and old data",
            reads_in_words(untouched),
            covered.count() + 1
        )
    };
    format!("reconstruct-write: new parity = new data ^ the row's other chunks ({reason})")
}

fn reads_in_words(reads: u32) -> String {
    let plural = if reads == 1 { "" } else { "s" };
    format!("{reads} read{plural}")
}
