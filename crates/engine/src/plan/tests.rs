//! Tests of the planners: snapshots of their plans, one file a theme, and random work executed on bytes.

mod background;
mod mirrors;
mod model;
mod outcome;
mod parity_reads;
mod parity_writes;
mod random;
mod scene;

use super::text::{render, slot_name};
use super::{NotEnoughMembers, Piece, Plan, Range, RowView, Step, StepKind};
use crate::layout::{Geometry, Level};
use crate::units::{Buffer, Slot, SlotSet};

const KIB: u32 = 1 << 10;

/// A volume of eight rows (RAID 1: of 128 KiB) that starts at 1 MiB on its members; 16 KiB chunks.
fn shape(level: Level, members: u8) -> Geometry {
    let component_bytes = 128 << 10;
    let data_members = match level {
        Level::Raid0 => members,
        Level::Raid1 => 1,
        Level::Raid10 => members / 2,
        Level::Raid5 => members - 1,
    };
    Geometry::new(Geometry {
        level,
        members,
        chunk_bytes: 16 << 10,
        start_bytes: 1 << 20,
        component_bytes,
        size_bytes: component_bytes * u64::from(data_members),
        block_bytes: 512,
    })
    .expect("a valid geometry")
}

/// A piece of data chunk `data_index` from `low` to `high` KiB; its payload lies `at` KiB into the data.
fn piece(data_index: u8, low: u32, high: u32, at: u32) -> Piece {
    let buffer = Buffer(u64::from(at * KIB));
    Piece {
        data_index,
        low_bytes: low * KIB,
        high_bytes: high * KIB,
        buffer,
    }
}

/// A range of `row` in KiB.
fn range(row: u64, low: u32, high: u32) -> Range {
    Range {
        row,
        low_bytes: low * KIB,
        high_bytes: high * KIB,
    }
}

/// The plan's text, or the planner's refusal.
fn planned(
    shape: &Geometry,
    planner: impl FnOnce(&mut Plan) -> Result<(), NotEnoughMembers>,
) -> String {
    let mut plan = Plan::with_capacity(8, 16);
    match planner(&mut plan) {
        Ok(()) => render(&plan, shape, slot_name).to_string(),
        Err(NotEnoughMembers) => "not enough members\n".into(),
    }
}

/// As [`insta::assert_snapshot!`], kept in `plan/snapshots` whichever file the test is in.
macro_rules! assert_plan {
    ($name:literal, $shape:expr, $planner:expr) => {{
        let mut settings = insta::Settings::clone_current();
        settings.set_snapshot_path("../snapshots");
        settings.set_prepend_module_to_snapshot(false);
        settings.bind(|| insta::assert_snapshot!($name, planned($shape, $planner)));
    }};
}
use assert_plan;

#[test]
fn sizes_are_exact_and_short() {
    let shape = shape(Level::Raid0, 2);
    let shown = |length_bytes: u64| {
        planned(&shape, |plan| {
            let step = Step::member(StepKind::Discard, 0, Slot(1), 0, length_bytes);
            plan.push(step);
            Ok(())
        })
    };
    for (length_bytes, text) in [
        (512, "512"),
        (4096, "4k"),
        (4608, "4.5k"),
        (4609, "4609"),
        (65_536, "64k"),
        (1 << 20, "1M"),
        (3 << 19, "1.5M"),
        (5 << 18, "1.25M"),
        (7 << 28, "1.75G"),
        ((1 << 20) + 4096, "1028k"),
        (3 << 40, "3T"),
    ] {
        assert_eq!(
            shown(length_bytes),
            format!("stage 0  trim   member 1  @0 +{text}\n")
        );
    }
}

#[test]
fn transfers_join_only_what_touches_in_the_same_stage() {
    let shape = shape(Level::Raid0, 2);
    let text = planned(&shape, |plan| {
        plan.read(&shape, 0, Slot(0), range(0, 0, 4), Buffer(0));
        plan.read(&shape, 0, Slot(1), range(0, 4, 8), Buffer(0x9000));
        plan.read(&shape, 0, Slot(0), range(0, 4, 8), Buffer(0x1000));
        plan.read(&shape, 0, Slot(0), range(0, 8, 12), Buffer(0x8000));
        plan.read(&shape, 0, Slot(0), range(1, 0, 4), Buffer(0x3000));
        plan.read(&shape, 1, Slot(0), range(1, 4, 8), Buffer(0x4000));
        Ok(())
    });
    let expected = "\
stage 0  read   member 0  @1M +12k -> data+0 (+8k), data+32k (+4k)
         read   member 1  @1028k +4k -> data+36k
         read   member 0  @1040k +4k -> data+12k
stage 1  read   member 0  @1044k +4k -> data+16k
";
    assert_eq!(text, expected);
}

#[test]
fn a_reused_plan_remembers_nothing() {
    let shape = shape(Level::Raid0, 2);
    let mut plan = Plan::default();
    plan.read(&shape, 0, Slot(0), range(0, 0, 4), Buffer(0));
    plan.scratch(4096);
    plan.clear();
    plan.read(&shape, 0, Slot(0), range(0, 4, 8), Buffer(0x1000));
    assert_eq!(plan.scratch_bytes(), 0);
    assert_eq!(plan.steps().len(), 1);
    assert_eq!(plan.steps()[0].offset_bytes, (1 << 20) + 4096);
    assert_eq!(plan.segments_of(&plan.steps()[0]).count(), 1);
}

#[test]
fn a_reused_plan_joins_no_shadow_with_the_drive_in_service() {
    let shape = shape(Level::Raid1, 2);
    let step = |slot: u8, low: u32| {
        let kind = StepKind::Write { fua: false };
        range(0, low, low + 4).step(&shape, kind, 0, Slot(slot))
    };
    let mut plan = Plan::default();
    plan.transfer(
        Step {
            shadow: true,
            ..step(0, 0)
        },
        Buffer(0),
    );
    plan.clear();
    // The transfer of the drive in service is now where the shadow's last transfer was.
    plan.transfer(step(0, 0), Buffer(0));
    plan.transfer(
        Step {
            shadow: true,
            ..step(0, 4)
        },
        Buffer(0x1000),
    );
    assert_eq!(plan.steps().len(), 2);
    assert!(plan.steps()[1].shadow);
}

#[test]
fn a_step_has_no_more_segments_than_a_drive_takes() {
    let shape = shape(Level::Raid0, 2);
    let mut plan = Plan::default();
    for part in 0..32u32 {
        let range = Range {
            row: 0,
            low_bytes: part * 512,
            high_bytes: (part + 1) * 512,
        };
        plan.read(&shape, 0, Slot(0), range, Buffer(u64::from(part) * 1024));
    }
    assert_eq!(plan.steps().len(), 2);
    assert!(
        plan.steps()
            .iter()
            .all(|step| step.segments == 16 && step.length_bytes == 8192)
    );
}

#[test]
fn bound_scratch_is_addressed_from_its_base() {
    let shape = shape(Level::Raid5, 3);
    let mut plan = Plan::default();
    let view = RowView::healthy(3);
    let pieces = [piece(0, 0, 4, 0)];
    super::parity::parity_write(&mut plan, &shape, 0, &pieces, &view, false).expect("healthy");
    plan.bind_scratch(Buffer(1 << 30));
    let read = plan.steps()[0];
    assert_eq!(
        plan.segments_of(&read).next().map(|segment| segment.buffer),
        Some(Buffer(1 << 30))
    );
    assert!(plan.steps().iter().any(|step| step.kind
        == StepKind::Xor {
            target: Buffer(1 << 30)
        }));
}

/// A healthy view with a change.
fn view(members: u8, change: impl FnOnce(&mut RowView)) -> RowView {
    let mut view = RowView::healthy(members);
    change(&mut view);
    view
}

/// All of `set` but `slot`.
fn without(set: &mut SlotSet, slot: u8) {
    *set = set.without(Slot(slot));
}
