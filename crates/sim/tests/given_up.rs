//! A rebuild that meets more unreadable blocks than the bad-block log can hold is given up. Its drive keeps its place
//! because the other volume uses it, and lacks what is written from then on. So when the rebuild begins again, at the
//! next start or by an order, it starts from the beginning.

use engine::layout::Level;
use engine::request::Operation;
use sim::container::create::SECTOR;
use sim::history::{
    Access, Act, Action, Ask, Fault, History, Mode, Order, Outage, Topology, VolumeShape,
};
use sim::run::run;

const MS: u64 = 1_000_000;
const COMPONENT_BYTES: u64 = 4 << 20;

fn topology() -> Topology {
    let volume = VolumeShape {
        level: Level::Raid1,
        chunk_bytes: 64 << 10,
        component_bytes: COMPONENT_BYTES,
        born_in_sync: true,
        logged: false,
        marked: false,
    };
    Topology {
        members: 2,
        volumes: vec![volume, volume],
        shards: 1,
        sector: SECTOR,
        abilities: Vec::new(),
        volatile: vec![true, true],
        left_over: false,
        spares: 0,
        deadline_ns: 1000 * MS,
        clean_after_ns: 2 * MS,
        clear_regions_every_ns: 5000 * MS,
        // The rebuild takes seconds, and leaves checkpoints.
        rate_bytes_per_s: 256 << 10,
        latency_ns: 5_000,
        spread_ns: 5_000,
        lag_ns: 0,
    }
}

fn write(volume: u8, offset_bytes: u64) -> Act {
    Act::Ask(Ask {
        connection: 0,
        volume,
        operation: Operation::Write,
        fua: true,
        offset_bytes,
        length_bytes: 32 << 10,
    })
}

/// A drive is lost, the rebuild of the first volume is given up near its end, and then the volume's beginning is
/// overwritten.
fn history(and_then: &[Act]) -> History {
    let topology = topology();
    // Every other block of the second half is unreadable: the log is full near the end.
    let blocks = 0..COMPONENT_BYTES / 2 / 8192;
    let start_bytes = topology.extent(0).0 + COMPONENT_BYTES / 2;
    let bad = move |block: u64| start_bytes + block * 8192 + 4096;
    let spoiled =
        blocks.map(move |block| (2000, Act::Fault(Fault::BadSectors(0, bad(block), 512))));
    let first = [
        (1, write(0, 0)),
        (2, write(1, 0)),
        (20, Act::Fault(Fault::DropOut(1))),
        (30, write(0, 64 << 10)),
    ];
    let rebuilt = [(2010, Act::Order(Order::AddSpare)), (20_000, write(1, 0))];
    // Spread so that reading the whole volume takes some of these pieces from each drive.
    let overwritten = (0..10).map(|at| (20_100 + at, write(0, at * (96 << 10))));
    let then = (1..)
        .map(|at| 30_000 + 30_000 * at)
        .zip(and_then.iter().cloned());
    let actions = first.into_iter().chain(spoiled).chain(rebuilt);
    let actions = actions.chain(overwritten).chain(then).zip(1..);
    History {
        seed: 1,
        mode: Mode::Beyond,
        topology,
        access: Access::Engine,
        actions: actions
            .map(|((at_ms, act), number)| Action {
                at_ns: at_ms * MS,
                act,
                number,
            })
            .collect(),
    }
}

#[test]
fn a_rebuild_that_was_given_up_begins_anew() {
    for and_then in [
        vec![],
        vec![Act::Fault(Fault::Outage(Outage::Stop, Vec::new()))],
        vec![Act::Order(Order::AddSpare)],
        vec![
            Act::Order(Order::AddSpare),
            Act::Fault(Fault::Outage(Outage::Crash, Vec::new())),
        ],
    ] {
        let outcome = run(&history(&and_then), false);
        assert_eq!(outcome.failure, None, "{and_then:?}");
        // The log is full: there are two more unreadable blocks than it holds.
        let recorded = outcome.counts.blocks_recorded;
        assert!(recorded >= 254, "{and_then:?}: {recorded}");
    }
}
