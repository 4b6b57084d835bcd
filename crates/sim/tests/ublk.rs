//! Histories whose clients use block devices. A quarter of all seeds has devices; here all have.

mod common;

use common::counts_of;
use engine::layout::Level;
use sim::history::draw::{Clients, Wish};
use sim::history::{Access, History, Mode};
use sim::ublk::UblkCounts;
use std::ops::Range;

fn with_devices(seeds: Range<u64>, mode: Mode, level: Option<Level>) -> Vec<UblkCounts> {
    let counts = counts_of(Clients::BlockDevices, seeds, mode, level);
    counts.into_iter().map(|counts| counts.ublk).collect()
}

/// How many seeds reach what tags do rarely.
#[derive(Debug, Default)]
struct Reached {
    held: usize,
    exchanged: usize,
    copied: usize,
    starved: usize,
    left: usize,
    given_again: usize,
}

impl Reached {
    fn of(counts: &[UblkCounts]) -> Reached {
        let seeds = |of: fn(&UblkCounts) -> u64| counts.iter().filter(|it| of(it) > 0).count();
        Reached {
            held: seeds(|it| it.held),
            exchanged: seeds(|it| it.exchanged),
            copied: seeds(|it| it.copied),
            starved: seeds(|it| it.starved),
            left: seeds(|it| it.left),
            given_again: seeds(|it| it.given_again),
        }
    }
}

#[test]
fn histories_hold_with_block_devices_and_tags_come_to_all_that_they_do_rarely() {
    let modes = [
        (Mode::Calm, 8),
        (Mode::Survivable, 24),
        (Mode::Returning, 8),
        (Mode::Wide, 16),
        (Mode::Beyond, 16),
        (Mode::WideBeyond, 8),
    ];
    let mut all = Vec::new();
    for (mode, seeds) in modes {
        let counts = with_devices(0..seeds, mode, None);
        println!("{mode:?}: {:?} of {seeds}", Reached::of(&counts));
        all.extend(counts);
    }
    // Only mirrors are repaired from what a client has read.
    let counts = with_devices(0..40, Mode::Survivable, Some(Level::Raid1));
    println!("mirrors: {:?} of 40", Reached::of(&counts));
    all.extend(counts);
    let Reached {
        held,
        exchanged,
        copied,
        starved,
        left,
        given_again,
    } = Reached::of(&all);
    let often = [held, starved, left, given_again];
    assert!(often.iter().all(|&seeds| seeds >= 10), "{often:?}");
    assert!(exchanged >= 2 && copied >= 1, "{exchanged} {copied}");
}

#[test]
fn a_quarter_of_the_seeds_has_block_devices() {
    let draw = |seed, mode| History::draw(seed, Wish { level: None, mode });
    let has_devices = |seed: &u64| matches!(draw(*seed, Mode::Wide).access, Access::Ublk(_));
    let with = (0..400).filter(has_devices).count();
    assert!((80..120).contains(&with), "{with} of 400");
    let has_devices = |seed| matches!(draw(seed, Mode::Lying).access, Access::Ublk(_));
    assert!(!(0..400).any(has_devices), "its published table has none");
    // Where no drives hang in addition, as they do in the other modes, devices change nothing else of a history.
    for seed in 0..40 {
        let wish = Wish {
            level: None,
            mode: Mode::Calm,
        };
        let with = History::draw_with(seed, wish, Clients::BlockDevices);
        let access = Access::Engine;
        let without = History { access, ..with };
        assert_eq!(History::draw_with(seed, wish, Clients::Plain), without);
    }
}
