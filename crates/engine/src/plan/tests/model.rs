//! Executes plans on bytes: members, the drives that shadow them, and one memory for payload and scratch.
//!
//! The interpreter refuses what a planner must never do: reading what is not current, writing what is
//! lost, leaving the volume's extent, skipping a stage. Steps of a stage may run in any order, so it can
//! run them backwards too.

use crate::layout::Geometry;
use crate::plan::{Plan, RowView, Step, StepKind};
use crate::units::{Buffer, SlotSet};

/// Unused bytes behind the extent of every member; nothing may touch them.
pub const TAIL_BYTES: u64 = 4096;

/// The order in which the steps of a stage are executed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    Forward,
    Backward,
}

/// Members as arrays of bytes.
#[derive(Clone)]
pub struct Model {
    pub members: Vec<Vec<u8>>,
    pub shadows: Vec<Vec<u8>>,
    pub memory: Vec<u8>,
}

/// What a plan may touch.
#[derive(Clone, Copy)]
pub struct Allowed {
    pub reads: SlotSet,
    pub writes: SlotSet,
    pub shadow_writes: SlotSet,
}

impl Allowed {
    pub fn by(view: &RowView) -> Allowed {
        Allowed {
            reads: view.readable,
            writes: view.writable,
            shadow_writes: view.shadowed,
        }
    }
}

impl Model {
    /// Runs `plan`, whose payload is at the start of `memory`, and returns the results of its comparisons.
    pub fn run(
        &mut self,
        plan: &mut Plan,
        shape: &Geometry,
        allowed: Allowed,
        order: Order,
    ) -> Vec<bool> {
        let payload_bytes = self.memory.len();
        self.memory
            .resize(payload_bytes + plan.scratch_bytes() as usize, 0xA5);
        plan.bind_scratch(Buffer(payload_bytes as u64));
        let mut stages: Vec<Vec<Step>> = Vec::new();
        for step in plan.steps() {
            let stage = usize::from(step.stage);
            assert!(
                stage <= stages.len() && stage + 1 >= stages.len(),
                "stage {stage} is out of order"
            );
            stages.resize(stage + 1, Vec::new());
            stages[stage].push(*step);
        }
        let mut equal = Vec::new();
        for mut steps in stages {
            if order == Order::Backward {
                steps.reverse();
            }
            for step in steps {
                equal.extend(self.step(plan, &step, shape, allowed));
            }
        }
        self.memory.truncate(payload_bytes);
        equal
    }

    fn step(
        &mut self,
        plan: &Plan,
        step: &Step,
        shape: &Geometry,
        allowed: Allowed,
    ) -> Option<bool> {
        if matches!(step.kind, StepKind::Xor { .. } | StepKind::Compare) {
            return self.compute(plan, step);
        }
        let end = step.offset_bytes + step.length_bytes;
        let extent = shape.start_bytes..shape.start_bytes + shape.component_bytes;
        assert!(
            step.offset_bytes >= extent.start && end <= extent.end,
            "{step:?} leaves {extent:?}"
        );
        let permitted = match (step.kind, step.shadow) {
            (StepKind::Read, false) => allowed.reads,
            (StepKind::Read, true) => SlotSet(0),
            (_, false) => allowed.writes,
            (_, true) => allowed.shadow_writes,
        };
        assert!(permitted.has(step.slot), "{step:?} is not allowed");
        let slot = usize::from(step.slot.0);
        let drive = if step.shadow {
            &mut self.shadows[slot]
        } else {
            &mut self.members[slot]
        };
        let mut on_drive = step.offset_bytes as usize;
        for segment in plan.segments_of(step) {
            let length = segment.length_bytes as usize;
            let there = &mut drive[on_drive..on_drive + length];
            let here = &mut self.memory[segment.buffer.0 as usize..][..length];
            match step.kind {
                StepKind::Read => here.copy_from_slice(there),
                StepKind::Write { .. } => there.copy_from_slice(here),
                kind => panic!("{kind:?} has memory"),
            }
            on_drive += length;
        }
        if matches!(step.kind, StepKind::Zero { .. } | StepKind::Discard) {
            drive[on_drive..end as usize].fill(0);
            on_drive = end as usize;
        }
        assert_eq!(
            on_drive as u64, end,
            "{step:?} has memory for another length"
        );
        None
    }

    fn compute(&mut self, plan: &Plan, step: &Step) -> Option<bool> {
        let length = step.length_bytes as usize;
        let mut sum = vec![0; length];
        for segment in plan.segments_of(step) {
            assert_eq!(u64::from(segment.length_bytes), step.length_bytes);
            let source = &self.memory[segment.buffer.0 as usize..][..length];
            sum.iter_mut()
                .zip(source)
                .for_each(|(sum, byte)| *sum ^= byte);
        }
        let StepKind::Xor { target } = step.kind else {
            return Some(sum.iter().all(|&byte| byte == 0));
        };
        self.memory[target.0 as usize..][..length].copy_from_slice(&sum);
        None
    }
}
