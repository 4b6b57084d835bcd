//! Histories whose clients are virtual machines. An eighth of all seeds has them; here all have.

mod common;

use common::counts_of;
use engine::layout::Level;
use sim::history::draw::{Clients, Wish};
use sim::history::{Access, History, Mode};
use sim::vhost_user::VhostUserCounts;
use std::ops::Range;

fn with_guests(seeds: Range<u64>, mode: Mode, level: Option<Level>) -> Vec<VhostUserCounts> {
    let counts = counts_of(Clients::Guests, seeds, mode, level);
    counts.into_iter().map(|counts| counts.vhost_user).collect()
}

/// How many seeds reach what queues do rarely.
#[derive(Debug, Default)]
struct Reached {
    held: usize,
    starved: usize,
    left: usize,
    taken_over: usize,
    killed_inside: usize,
    untold: usize,
}

impl Reached {
    fn of(counts: &[VhostUserCounts]) -> Reached {
        let seeds = |of: fn(&VhostUserCounts) -> u64| counts.iter().filter(|it| of(it) > 0).count();
        Reached {
            held: seeds(|it| it.held),
            starved: seeds(|it| it.starved),
            left: seeds(|it| it.left),
            taken_over: seeds(|it| it.taken_over),
            killed_inside: seeds(|it| it.killed_inside),
            untold: seeds(|it| it.untold),
        }
    }
}

#[test]
fn histories_hold_with_guests_and_queues_come_to_all_that_they_do_rarely() {
    let modes = [
        (Mode::Calm, 8),
        (Mode::Survivable, 48),
        (Mode::Returning, 8),
        (Mode::Wide, 24),
        (Mode::Beyond, 24),
        (Mode::WideBeyond, 8),
    ];
    let mut all = Vec::new();
    for (mode, seeds) in modes {
        let counts = with_guests(0..seeds, mode, None);
        println!("{mode:?}: {:?} of {seeds}", Reached::of(&counts));
        all.extend(counts);
    }
    let Reached {
        held,
        starved,
        left,
        taken_over,
        killed_inside,
        untold,
    } = Reached::of(&all);
    let often = [held, starved, left, taken_over, killed_inside];
    assert!(often.iter().all(|&seeds| seeds >= 10), "{often:?}");
    assert!(untold >= 5, "{untold}");
}

#[test]
fn an_eighth_of_the_seeds_has_guests_and_the_others_are_what_they_were() {
    let wish = |mode| Wish { level: None, mode };
    let has_guests = |seed: &u64, mode| {
        let history = History::draw(*seed, wish(mode));
        matches!(history.access, Access::VhostUser(_))
    };
    let with = (0..400).filter(|seed| has_guests(seed, Mode::Wide)).count();
    assert!((35..65).contains(&with), "{with} of 400");
    let lying = (0..400).any(|seed| has_guests(&seed, Mode::Lying));
    assert!(!lying, "its published table has none");
    // Where no drives hang in addition, as they do in the other modes, guests change nothing else of a history.
    for seed in 0..40 {
        let with = History::draw_with(seed, wish(Mode::Calm), Clients::Guests);
        let access = Access::Engine;
        let without = History { access, ..with };
        assert_eq!(
            History::draw_with(seed, wish(Mode::Calm), Clients::Plain),
            without
        );
    }
}
