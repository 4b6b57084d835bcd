//! A rebuild meets unreadable blocks: it records them and continues, at whatever moment the process dies. What the new
//! drive holds there is never returned as the volume's data, neither before the blocks are written again nor after.

use engine::layout::Level;
use engine::request::Operation;
use sim::container::create::SECTOR;
use sim::history::{
    Access, Act, Action, Ask, Fault, History, Mode, Order, Outage, Topology, VolumeShape,
};
use sim::run::{Counts, run};

const MS: u64 = 1_000_000;
const COMPONENT_BYTES: u64 = 512 << 10;
/// The rebuild begins at 2 s and takes 4 s.
const RATE_BYTES_PER_S: u64 = 128 << 10;

fn topology(level: Level, members: u8) -> Topology {
    let volume = VolumeShape {
        level,
        chunk_bytes: 16 << 10,
        component_bytes: COMPONENT_BYTES,
        born_in_sync: true,
        logged: level == Level::Raid5,
        marked: false,
    };
    Topology {
        members,
        volumes: vec![volume],
        shards: 2,
        sector: SECTOR,
        abilities: Vec::new(),
        volatile: vec![true; usize::from(members)],
        left_over: true,
        spares: 0,
        deadline_ns: 1000 * MS,
        clean_after_ns: 2 * MS,
        clear_regions_every_ns: 5000 * MS,
        rate_bytes_per_s: RATE_BYTES_PER_S,
        latency_ns: 5_000,
        spread_ns: 5_000,
        lag_ns: 0,
    }
}

fn ask(operation: Operation, offset_bytes: u64, length_bytes: u32) -> Act {
    Act::Ask(Ask {
        connection: (offset_bytes >> 15) as u8 % 2,
        volume: 0,
        operation,
        fua: false,
        offset_bytes,
        length_bytes,
    })
}

/// Requests for all of a volume in pieces, one each millisecond.
fn all(operation: Operation, size_bytes: u64, from_ms: u64) -> impl Iterator<Item = (u64, Act)> {
    let piece = 32 << 10;
    (0..size_bytes / piece).map(move |at| {
        let act = ask(operation, at * piece, piece as u32);
        (from_ms + at, act)
    })
}

/// Fills a volume, loses a drive, makes three blocks of another one unreadable, and rebuilds. `outage` comes at
/// `outage_ms`. Afterwards everything is read, written over, and read again.
fn tried(level: Level, members: u8, outage: Outage, outage_ms: u64) -> Counts {
    let topology = topology(level, members);
    let size_bytes = COMPONENT_BYTES * if level == Level::Raid1 { 1 } else { 2 };
    let start_bytes = topology.extent(0).0;
    let bad = |at: u64| Act::Fault(Fault::BadSectors(0, start_bytes + at, 512));
    let mut acts: Vec<(u64, Act)> = all(Operation::Write, size_bytes, 1).collect();
    acts.extend([
        (500, Act::Fault(Fault::DropOut(1))),
        (600, ask(Operation::Write, 0, 4096)),
        (1900, bad(4096)),
        (1901, bad(COMPONENT_BYTES / 2 + 1024)),
        (1902, bad(COMPONENT_BYTES - 4096)),
        (2000, Act::Order(Order::AddSpare)),
    ]);
    acts.push((outage_ms, Act::Fault(Fault::Outage(outage, Vec::new()))));
    // Overwrites one of the lost blocks and its surroundings, possibly while a process is still starting.
    acts.push((outage_ms + 1, ask(Operation::Write, 0, 16 << 10)));
    acts.extend(all(Operation::Read, size_bytes, 15_000));
    acts.extend(all(Operation::Write, size_bytes, 16_000));
    acts.extend(all(Operation::Read, size_bytes, 17_000));
    acts.sort_by_key(|(at_ms, _)| *at_ms);
    let history = History {
        seed: outage_ms,
        mode: Mode::Beyond,
        topology,
        access: Access::Engine,
        actions: acts
            .into_iter()
            .zip(1..)
            .map(|((at_ms, act), number)| Action {
                at_ns: at_ms * MS,
                act,
                number,
            })
            .collect(),
    };
    let outcome = run(&history, true);
    assert_eq!(
        outcome.failure, None,
        "{level:?} {outage:?} at {outage_ms} ms: {:#?}",
        outcome.log
    );
    outcome.counts
}

#[test]
fn blocks_that_a_rebuild_could_not_have_are_errors_and_never_bytes() {
    for (level, members) in [(Level::Raid1, 2), (Level::Raid5, 3)] {
        for outage in [Outage::Stop, Outage::Crash, Outage::PowerCut] {
            let mut recorded = 0;
            for outage_ms in (2010..6600).step_by(380) {
                let counts = tried(level, members, outage, outage_ms);
                recorded += counts.blocks_recorded;
                assert_eq!(
                    counts.lives, 3,
                    "the array starts again with its recorded blocks"
                );
                assert!(
                    counts.request_errors > 0,
                    "{level:?}: no read of a lost block failed"
                );
            }
            assert!(recorded >= 3 * 12, "{level:?} {outage:?}: {recorded}");
        }
    }
}

/// Once everything has been written over, it can be read again, in the same process and in the next.
#[test]
fn what_has_been_written_over_is_good_again() {
    let counts = tried(Level::Raid1, 2, Outage::Stop, 10_000);
    // A read of each lost block fails once.
    assert_eq!(
        counts.request_errors, 2,
        "of three lost blocks one was written over before it was read"
    );
}
