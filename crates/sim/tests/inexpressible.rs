//! Updates of every kind that the metadata cannot express, with all layers above and below the record: no acknowledged
//! write is lost, nothing is retried for ever, and the array can be stopped and started.

use engine::layout::Level;
use engine::request::Operation;
use sim::history::{
    Access, Act, Action, Ask, Fault, History, Mode, Order, Outage, Topology, VolumeShape,
};
use sim::machine::refusals::Update;
use sim::run::run;

const MS: u64 = 1_000_000;
const KIB: u64 = 1 << 10;
const COMPONENT_BYTES: u64 = 4 << 20;

fn ask(operation: Operation, offset_bytes: u64) -> Act {
    Act::Ask(Ask {
        connection: 1,
        volume: 0,
        operation,
        fua: operation == Operation::Write,
        offset_bytes,
        length_bytes: 16 << 10,
    })
}

fn write(at: u64) -> Act {
    ask(Operation::Write, at * 16 * KIB)
}

fn shapes() -> Vec<VolumeShape> {
    let shape = |level, logged, marked, born_in_sync| VolumeShape {
        level,
        chunk_bytes: 16 << 10,
        component_bytes: COMPONENT_BYTES,
        born_in_sync,
        logged,
        marked,
    };
    let mut shapes = Vec::new();
    for level in [Level::Raid1, Level::Raid10, Level::Raid5] {
        for born_in_sync in [true, false] {
            shapes.push(shape(level, false, false, born_in_sync));
            shapes.push(shape(level, false, true, born_in_sync));
        }
    }
    shapes.push(shape(Level::Raid5, true, false, true));
    shapes
}

/// Drives are lost and come back, a spare is filled, a drive is replaced, and unreadable blocks are written over.
/// Writes come before, during and after that, and each is durable when it is acknowledged.
fn history(shape: VolumeShape, shards: u8, update: Update, count: u8, ending: Outage) -> History {
    let members = if shape.level == Level::Raid1 { 2 } else { 4 };
    let topology = Topology {
        shards,
        // Jobs take seconds, and leave checkpoints.
        rate_bytes_per_s: 256 << 10,
        ..Topology::plain(members, vec![shape])
    };
    let bad = topology.extent(0).0 + COMPONENT_BYTES / 2;
    let replaced_by = usize::from(members);
    let replace = Order::Replace { volume: 0, slot: 1 };
    let mut acts = vec![
        (1, Act::Fault(Fault::Inexpressible(update, count))),
        (2, write(0)),
        (40, write(1)),
        (100, write(2)),
        (20_000, Act::Order(replace)),
        (20_010, write(3)),
        (
            40_000,
            Act::Fault(Fault::BadSectors(replaced_by, bad, 4096)),
        ),
        (40_010, Act::Fault(Fault::DropOut(0))),
        (40_011, write(4)),
        (40_013, write(0)),
        (40_400, write(5)),
        (41_000, Act::Order(Order::AddSpare)),
        (41_010, write(6)),
        (55_000, write(1)),
        (56_000, ask(Operation::Read, 0)),
        (60_000, write(32)),
        (60_100, write(2)),
        (70_000, Act::Fault(Fault::Outage(ending, Vec::new()))),
        (90_000, ask(Operation::Read, 0)),
    ];
    if update == Update::SyncEnd {
        acts.retain(|(at, _)| *at < 30_000 || *at >= 70_000);
    }
    let action = |((at_ms, act), number)| Action {
        at_ns: at_ms * MS,
        act,
        number,
    };
    History {
        seed: 1,
        mode: Mode::Beyond,
        topology,
        access: Access::Engine,
        actions: acts.into_iter().zip(1..).map(action).collect(),
    }
}

/// Runs a history of each shape. Returns how many records were refused. `turn` chooses the ending of the first shape; each
/// shape after it has the next ending. Callers give each update another turn, so that every shape has every ending.
fn whole(update: Update, count: u8, turn: usize) -> u64 {
    const ENDINGS: [(Outage, u8); 3] =
        [(Outage::Crash, 3), (Outage::PowerCut, 1), (Outage::Stop, 2)];
    let mut refused = 0;
    // A volume that is created in sync has no initial sync to end. The other shapes are needed for that update only.
    let fits = |shape: &VolumeShape| shape.born_in_sync == (update != Update::SyncEnd);
    for (at, shape) in shapes().into_iter().filter(fits).enumerate() {
        let (ending, shards) = ENDINGS[(at + turn) % ENDINGS.len()];
        let outcome = run(&history(shape, shards, update, count, ending), false);
        let what = format!("{update:?} {count} {shape:?} {ending:?} {shards}");
        assert_eq!(outcome.failure, None, "{what}");
        refused += outcome.counts.inexpressible;
    }
    refused
}

#[test]
fn no_acknowledged_write_is_lost_by_what_cannot_be_expressed_once() {
    for (turn, update) in Update::ALL.into_iter().enumerate() {
        let refused = whole(update, 1, turn);
        assert!(refused > 0, "{update:?} has never been refused");
    }
}

#[test]
fn no_acknowledged_write_is_lost_by_what_can_never_be_expressed() {
    for (turn, update) in Update::ALL.into_iter().enumerate() {
        // Another ending than where the update is refused once.
        let refused = whole(update, u8::MAX, turn + 1);
        assert!(refused > 0, "{update:?} has never been refused");
    }
}

/// An update that the array can do without costs clients no error when the metadata cannot express it.
#[test]
fn service_goes_on_without_checkpoints_and_clean_marks() {
    let calm = |update, shape| {
        let mut history = history(shape, 2, update, u8::MAX, Outage::Stop);
        // While redundancy is missing, an unreadable block is a request error.
        let is_harmless =
            |action: &Action| !matches!(action.act, Act::Fault(Fault::BadSectors(..)));
        history.actions.retain(is_harmless);
        run(&history, false)
    };
    for update in [Update::Clean, Update::Checkpoint, Update::RebuildBegin] {
        for shape in shapes().into_iter().filter(|shape| shape.born_in_sync) {
            let outcome = calm(update, shape);
            assert_eq!(outcome.failure, None, "{update:?} {shape:?}");
            assert_eq!(outcome.counts.request_errors, 0, "{update:?} {shape:?}");
            assert!(outcome.counts.inexpressible > 0, "{update:?} {shape:?}");
        }
    }
}
