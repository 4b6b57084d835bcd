//! A request and its plans for programs, as `--json` prints them.

use crate::array::Array;
use crate::cut::{Asked, Work};
use crate::why;
use engine::plan::StepKind;
use engine::units::Slot;
use serde::Serialize;

/// A request and its plans.
#[derive(Serialize, Debug)]
pub struct Explanation {
    /// Version of this schema: 1.
    pub version: u32,
    /// Name of the volume; none for an imaginary array.
    pub volume: Option<String>,
    /// The array's level: 0, 1, 5 or 10.
    pub level: u8,
    /// Number of slots.
    pub members: usize,
    /// 0 for a mirror, which has no chunks.
    pub chunk_bytes: u32,
    /// `read` or `write`.
    pub operation: &'static str,
    /// First byte in the volume.
    pub offset_bytes: u64,
    /// Length of the request.
    pub length_bytes: u64,
    /// Slots that cannot be used.
    pub failed: Vec<u8>,
    /// In the order in which they are made.
    pub plans: Vec<PlanReport>,
    /// Member I/O of all plans.
    pub totals: Totals,
}

/// A plan.
#[derive(Serialize, Debug)]
pub struct PlanReport {
    /// Row of the volume, where the plan belongs to one.
    pub row: Option<u64>,
    /// Slot with the row's parity.
    pub parity_slot: Option<u8>,
    /// The reason for the plan, a sentence.
    pub why: String,
    /// Its steps, by stage.
    pub steps: Vec<StepReport>,
}

/// A step of a plan.
#[derive(Serialize, Debug)]
pub struct StepReport {
    /// Steps of a stage run together, after those of the stage before.
    pub stage: u8,
    /// `read`, `write` or `xor`.
    pub kind: &'static str,
    /// Absent for `xor`.
    pub slot: Option<u8>,
    /// What the drive is called.
    pub drive: Option<String>,
    /// On the drive; absent for `xor`.
    pub offset_bytes: Option<u64>,
    /// How much is read, written or computed.
    pub length_bytes: u64,
}

/// Member I/O of all plans.
#[derive(Clone, Copy, Default, Serialize, Debug)]
pub struct Totals {
    /// Number of reads.
    pub reads: u64,
    /// What they read together.
    pub read_bytes: u64,
    /// Number of writes.
    pub writes: u64,
    /// What they write together.
    pub write_bytes: u64,
}

/// What `works`, the plans of `asked` on `array`, are made of.
#[must_use]
pub fn report(array: &Array, asked: Asked, works: &[Work]) -> Explanation {
    let shape = &array.shape;
    let plans: Vec<PlanReport> = works.iter().map(|work| plan_report(array, work)).collect();
    Explanation {
        version: 1,
        volume: array.name.clone(),
        level: shape.level.number(),
        members: usize::from(shape.members),
        chunk_bytes: array.chunk_bytes(),
        operation: if asked.is_write { "write" } else { "read" },
        offset_bytes: asked.offset_bytes,
        length_bytes: asked.length_bytes,
        failed: array.state.lost.iter().map(|slot| slot.0).collect(),
        totals: totals(&plans),
        plans,
    }
}

fn plan_report(array: &Array, work: &Work) -> PlanReport {
    let step = |step: &engine::plan::Step| {
        let kind = match step.kind {
            StepKind::Read => "read",
            StepKind::Write { .. } => "write",
            _ => "xor",
        };
        let on_drive = kind != "xor";
        StepReport {
            stage: step.stage,
            kind,
            slot: on_drive.then_some(step.slot.0),
            drive: on_drive.then(|| array.drive_name(step.slot)),
            offset_bytes: on_drive.then_some(step.offset_bytes),
            length_bytes: step.length_bytes,
        }
    };
    PlanReport {
        row: work.row,
        parity_slot: work
            .row
            .and_then(|row| array.shape.parity_slot(row))
            .map(|Slot(slot)| slot),
        why: why::why(array, work),
        steps: work.plan.steps().iter().map(step).collect(),
    }
}

fn totals(plans: &[PlanReport]) -> Totals {
    let mut totals = Totals::default();
    for step in plans.iter().flat_map(|plan| &plan.steps) {
        match step.kind {
            "read" => {
                totals.reads += 1;
                totals.read_bytes += step.length_bytes;
            }
            "write" => {
                totals.writes += 1;
                totals.write_bytes += step.length_bytes;
            }
            _ => {}
        }
    }
    totals
}
