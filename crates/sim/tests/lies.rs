//! Drives that lie, in histories so small that the effect of each lie is known. Nothing else fails.

use engine::layout::Level;
use engine::request::Operation;
use sim::campaign::Campaign;
use sim::drive::lies::Untruth;
use sim::history::{Access, Act, Action, Ask, Fault, History, Mode, Outage, Topology, VolumeShape};
use sim::run::{LieCounts, run};

const MS: u64 = 1_000_000;
const COMPONENT_BYTES: u64 = 256 << 10;

fn ask(operation: Operation, offset_bytes: u64, length_bytes: u32) -> Act {
    Act::Ask(Ask {
        connection: 0,
        volume: 0,
        operation,
        fua: false,
        offset_bytes,
        length_bytes,
    })
}

fn write(offset_bytes: u64) -> Act {
    ask(Operation::Write, offset_bytes, 4096)
}

fn flush() -> Act {
    ask(Operation::Flush, 0, 0)
}

fn lie(bay: usize, untruth: Untruth) -> Act {
    Act::Fault(Fault::Lie(bay, untruth, 0..COMPONENT_BYTES))
}

/// Carries out the acts, 5 ms apart, on an array without other faults. Returns the counts of lies.
fn lies(level: Level, members: u8, acts: &[Act]) -> LieCounts {
    let volume = VolumeShape {
        level,
        chunk_bytes: 16 << 10,
        component_bytes: COMPONENT_BYTES,
        born_in_sync: true,
        logged: level == Level::Raid5,
        marked: false,
    };
    let action = |(act, number): (&Act, u32)| Action {
        at_ns: u64::from(number) * 5 * MS,
        act: act.clone(),
        number,
    };
    let history = History {
        seed: 1,
        mode: Mode::Lying,
        topology: Topology::plain(members, vec![volume]),
        access: Access::Engine,
        actions: acts.iter().zip(1..).map(action).collect(),
    };
    let outcome = run(&history, true);
    assert_eq!(outcome.failure, None, "{:#?}", outcome.log);
    outcome.counts.lies
}

#[test]
fn a_lost_write_of_a_mirror_is_seen_by_a_scrub_and_read() {
    let acts = [write(0), lie(0, Untruth::LostWrite), write(0)];
    let counts = lies(Level::Raid1, 2, &acts);
    let expected = LieCounts {
        lost_writes: 1,
        seen_by_scrub: 1,
        read: 1,
        // The repair has overwritten the right copy with the wrong one.
        read_after_repair: 1,
        wrong_sectors: counts.wrong_sectors,
        ..LieCounts::default()
    };
    assert_eq!(counts, expected);
    assert!(counts.wrong_sectors >= 3 * 8, "{counts:?}");
}

#[test]
fn a_lost_write_that_is_written_again_meets_nobody() {
    let acts = [write(0), lie(0, Untruth::LostWrite), write(0), write(0)];
    let expected = LieCounts {
        lost_writes: 1,
        overwritten: 1,
        ..LieCounts::default()
    };
    assert_eq!(lies(Level::Raid1, 2, &acts), expected);
}

#[test]
fn without_redundancy_no_scrub_sees_anything() {
    let acts = [write(0), lie(0, Untruth::LostWrite), write(0)];
    let counts = lies(Level::Raid0, 2, &acts);
    let expected = (1, 0, 1, 1);
    let (read, not_seen) = (counts.read, counts.read_and_not_seen);
    let got = (counts.lost_writes, counts.seen_by_scrub, read, not_seen);
    assert_eq!(got, expected, "{counts:?}");
}

#[test]
fn a_misdirected_write_of_a_raid_5_is_seen_and_stays_wrong() {
    // Chunk 0 of row 0 lies on the first drive; 64 KiB further on is row 4.
    let misdirected = lie(0, Untruth::MisdirectedWrite(64 << 10));
    let acts = [write(0), write(12 * (16 << 10)), misdirected, write(0)];
    let counts = lies(Level::Raid5, 4, &acts);
    assert_eq!((counts.misdirected_writes, counts.seen_by_scrub), (1, 1));
    // Parity was right, and the repair has made it match the wrong data.
    assert_eq!((counts.read, counts.read_after_repair), (1, 1));
}

#[test]
fn a_dropped_flush_tells_only_when_the_power_goes() {
    let cut = Act::Fault(Fault::Outage(Outage::PowerCut, Vec::new()));
    let dropped = lie(0, Untruth::DroppedFlush);
    // The power goes before the 20 ms of rest after which the array flushes by itself.
    let told = [write(0), dropped.clone(), flush(), cut];
    let counts = lies(Level::Raid0, 2, &told);
    assert_eq!((counts.dropped_flushes, counts.without_effect), (1, 0));
    assert_eq!(counts.read, 1);
    let not_told = [write(0), dropped, flush(), flush()];
    let counts = lies(Level::Raid0, 2, &not_told);
    assert_eq!((counts.dropped_flushes, counts.without_effect), (1, 1));
}

#[test]
fn the_same_seeds_count_the_same_on_any_number_of_threads() {
    let counted = |jobs, twice| {
        let campaign = Campaign {
            seeds: 0..60,
            level: None,
            mode: Some(Mode::Lying),
            jobs,
            twice,
        };
        let summary = campaign.run(|_| {}, sim::watch::end_process);
        assert!(summary.failures.is_empty(), "{:?}", summary.failures);
        summary.counts
    };
    let counts = counted(2, true);
    assert_eq!(counts, counted(1, false));
    let lies = counts.lies;
    let met = lies.seen_by_scrub + lies.read_and_not_seen;
    let rest = lies.without_effect + lies.overwritten + lies.unnoticed;
    assert_eq!(met + rest, lies.told(), "every lie has one end: {lies:?}");
    assert!(lies.told() > 60, "{lies:?}");
    assert!(lies.seen_by_scrub > 0 && lies.read > 0, "{lies:?}");
}
