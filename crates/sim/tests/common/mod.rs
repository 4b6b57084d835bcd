//! Many histories at once, for tests of what the histories of a kind of clients come to.

use engine::layout::Level;
use sim::history::draw::{Clients, Wish};
use sim::history::{History, Mode};
use sim::run::{Counts, run};
use std::ops::Range;

/// Runs the histories of these seeds with these clients. Returns the counts of each.
///
/// # Panics
/// If one of them fails.
pub fn counts_of(
    clients: Clients,
    seeds: Range<u64>,
    mode: Mode,
    level: Option<Level>,
) -> Vec<Counts> {
    let one = |seed: u64| {
        let history = History::draw_with(seed, Wish { level, mode }, clients);
        let outcome = run(&history, false);
        let access = history.access;
        assert_eq!(outcome.failure, None, "seed {seed} ({mode:?}), {access:?}");
        outcome.counts
    };
    let half = |from: u64| {
        let seeds = (seeds.start + from..seeds.end).step_by(2);
        seeds.map(one).collect::<Vec<_>>()
    };
    std::thread::scope(|scope| {
        let odd = scope.spawn(|| half(1));
        let mut all = half(0);
        all.extend(odd.join().expect("no history fails"));
        all
    })
}
