//! Histories: fresh ones of every mode and level, and those that once failed.
//!
//! What a seed draws may change when the drawing changes; a kept seed then is one more fresh history, and
//! what it once showed has a test of its own in the engine.

use engine::layout::Level;
use sim::campaign::{Campaign, Summary};
use sim::history::Mode;

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
        let summary = all_hold(from..from + 25, Some(level), Mode::Calm);
        assert_eq!(summary.counts.faults, 0);
    }
}

#[test]
fn survivable_histories_hold_and_faults_do_happen() {
    let summary = all_hold(0..200, None, Mode::Survivable);
    let counts = summary.counts;
    assert!(counts.faults > 200, "{counts:?}");
    assert!(counts.lives > 2 * summary.histories, "{counts:?}");
    assert!(counts.replays > 10, "{counts:?}");
    assert!(counts.resyncs_by_bitmap > 10, "{counts:?}");
    assert!(counts.taken_back > 2, "{counts:?}");
}

#[test]
fn drives_that_come_back_while_the_array_serves_are_taken_for_what_they_are() {
    let summary = all_hold(0..200, None, Mode::Returning);
    let counts = summary.counts;
    assert!(counts.brought_back > 60, "{counts:?}");
    assert!(counts.taken_back > 10, "{counts:?}");
}

#[test]
fn histories_beyond_the_budget_bring_errors_and_no_wrong_bytes() {
    let summary = all_hold(0..120, None, Mode::Beyond);
    assert!(summary.counts.request_errors > 100, "{:?}", summary.counts);
}

#[test]
fn the_same_seeds_take_the_same_course_on_any_number_of_threads() {
    let run = |jobs, twice| {
        let campaign = Campaign {
            seeds: 500..540,
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
    assert_eq!(one.histories, 40);
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
    }
}
