//! Histories: some of every mode and level, the same in every run, and those that once failed. `make test-faults` draws new
//! ones, many more, with the release build.
//!
//! A change of the drawing may change what a seed draws. A kept seed is then one more new history, and the failure that
//! it once showed has a test of its own in the engine.

use engine::layout::Level;
use sim::campaign::{Campaign, Summary};
use sim::history::draw::{Clients, Wish};
use sim::history::{Access, Act, Fault, History, Mode};
use sim::run::run;

fn all_hold(seeds: std::ops::Range<u64>, level: Option<Level>, mode: Mode) -> Summary {
    let campaign = Campaign {
        seeds: seeds.clone(),
        level,
        mode: Some(mode),
        jobs: 2,
        twice: false,
    };
    let summary = campaign.run(|_| {}, sim::watch::end_process);
    for failed in &summary.failures {
        println!("seed {} ({mode:?}): {}", failed.seed, failed.failure);
    }
    assert!(summary.failures.is_empty(), "{mode:?} {level:?}");
    assert_eq!(summary.histories, seeds.end - seeds.start);
    summary
}

#[test]
fn calm_histories_hold_on_every_level() {
    for (at, level) in [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5]
        .into_iter()
        .enumerate()
    {
        let from = 10_000 * at as u64;
        let summary = all_hold(from..from + 10, Some(level), Mode::Calm);
        assert_eq!(summary.counts.faults, 0);
    }
}

#[test]
fn survivable_histories_hold_and_faults_do_happen() {
    let summary = all_hold(0..80, None, Mode::Survivable);
    let counts = summary.counts;
    assert!(counts.faults > 200, "{counts:?}");
    assert!(counts.lives > 2 * summary.histories, "{counts:?}");
    assert!(counts.replays > 10, "{counts:?}");
    assert!(counts.resyncs_by_bitmap > 10, "{counts:?}");
    assert!(counts.taken_back > 1, "{counts:?}");
}

#[test]
fn drives_that_come_back_while_the_array_serves_are_taken_for_what_they_are() {
    let summary = all_hold(0..80, None, Mode::Returning);
    let counts = summary.counts;
    assert!(counts.brought_back > 10, "{counts:?}");
    assert!(counts.taken_back > 4, "{counts:?}");
}

#[test]
fn wide_histories_hold() {
    let summary = all_hold(0..80, None, Mode::Wide);
    let counts = summary.counts;
    assert!(counts.faults > 400, "{counts:?}");
    assert!(counts.request_errors > 100, "{counts:?}");
    let beyond = all_hold(0..50, None, Mode::WideBeyond);
    assert!(beyond.counts.request_errors > 100, "{:?}", beyond.counts);
}

#[test]
fn wide_histories_have_every_shape_and_every_fault() {
    let mut seen = std::collections::BTreeSet::new();
    for seed in 0..600 {
        for mode in [Mode::Wide, Mode::WideBeyond] {
            let history = History::draw(seed, Wish { level: None, mode });
            let topology = &history.topology;
            for (volume, shape) in (0..).zip(&topology.volumes) {
                seen.insert(format!("{:?} of {}", shape.level, topology.members));
                if topology.is_beside_redundancy(volume) {
                    seen.insert("beside".to_owned());
                }
            }
            seen.insert(format!("{} shards", topology.shards));
            seen.insert(format!("{:?}", topology.sector));
            for action in &history.actions {
                let text = format!("{:?}", action.act);
                let kind: Vec<&str> = text.split(['(', ' ', ',']).take(2).collect();
                seen.insert(kind.join(" "));
                if let Act::Fault(Fault::Errors(_, target, errno, _)) = action.act {
                    seen.insert(format!("{target:?}"));
                    seen.insert(format!("errno {errno}"));
                }
            }
        }
    }
    let wanted = [
        "Raid10 of 6",
        "Raid10 of 8",
        "Raid5 of 6",
        "Raid5 of 12",
        "beside",
        "8 shards",
        "Bytes4096",
        "Plain",
        "Durable",
        "Zeroes",
        "Discards",
        "Reads",
        "Flushes",
        "errno 28",
        "errno 95",
        "Fault Dies",
        "Fault BadArea",
        "Fault RefusesDiscards",
        "Fault TurnsVolatile",
        "Fault Standstill",
        "Fault ClockJumps",
        "Fault HostErrors",
        "Order Pause",
        "Order Cancel",
        "Order Rebuild",
    ];
    for what in wanted {
        assert!(seen.contains(what), "never drawn: {what}; {seen:?}");
    }
    let errnos = seen.iter().filter(|what| what.starts_with("errno")).count();
    assert!(errnos > 60, "{errnos} errnos");
}

#[test]
fn histories_beyond_the_budget_bring_errors_and_no_wrong_bytes() {
    let summary = all_hold(0..50, None, Mode::Beyond);
    assert!(summary.counts.request_errors > 100, "{:?}", summary.counts);
}

#[test]
fn the_same_seeds_take_the_same_course_on_any_number_of_threads() {
    let run = |jobs, twice| {
        let campaign = Campaign {
            seeds: 500..520,
            level: None,
            mode: None,
            jobs,
            twice,
        };
        campaign.run(|_| {}, sim::watch::end_process)
    };
    let (one, three) = (run(1, true), run(3, false));
    assert!(one.failures.is_empty(), "{:?}", one.failures);
    assert_eq!((one.hash, one.counts), (three.hash, three.counts));
    assert_eq!(one.histories, 20);
}

#[test]
fn kept_seeds_hold() {
    for line in include_str!("../kept_seeds.txt").lines() {
        let mut words = line.split_whitespace();
        let mode = match words.next() {
            Some("calm") => Mode::Calm,
            Some("survivable") => Mode::Survivable,
            Some("beyond") => Mode::Beyond,
            Some("returning") => Mode::Returning,
            Some("wide") => Mode::Wide,
            Some("wide-beyond") => Mode::WideBeyond,
            _ => continue,
        };
        let seed = words.next().and_then(|word| word.parse().ok());
        let seed: u64 = seed.unwrap_or_else(|| panic!("no seed in: {line}"));
        let level = match words.next() {
            Some("raid5") => Some(Level::Raid5),
            Some("raid10") => Some(Level::Raid10),
            _ => None,
        };
        all_hold(seed..seed + 1, level, mode);
        // Seeds from before there were block devices or virtual machines failed without.
        let wish = Wish { level, mode };
        if History::draw(seed, wish).access != Access::Engine {
            let outcome = run(&History::draw_with(seed, wish, Clients::Plain), false);
            assert_eq!(outcome.failure, None, "{line}");
        }
    }
}
