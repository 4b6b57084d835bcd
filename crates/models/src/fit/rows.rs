//! Every published result of a single P4510 that may be used for fitting (C rows of `claims/`), and what the model of
//! the drive alone gives for it. Results of a review whose host takes time include that time.

use super::loads::{Arrivals, Load, LoadResult, closed_loop, open_loop};
use crate::drive::{Drive, State};
use crate::profile::{Family, Profile};
use crate::tables::FigureError;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// One published result of a single drive: id, interval, and what the model gives.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Its id.
    pub id: &'static str,
    /// The published interval begins here.
    pub low: f64,
    /// The published interval ends here.
    pub high: f64,
    /// What the model gives.
    pub value: f64,
}

/// Runs points on demand and remembers their results.
pub(super) struct Bench {
    family: Family,
    think_ns: u64,
    done: BTreeMap<String, LoadResult>,
}

impl Bench {
    /// Drives of a family, behind a host that takes `think_ns` between a completion and the next command.
    pub fn new(family: Family, think_ns: u64) -> Bench {
        Bench {
            family,
            think_ns,
            done: BTreeMap::new(),
        }
    }

    fn drive(&self, id: &str, state: State) -> Drive {
        let broken = |error: FigureError| -> Profile { panic!("{error}") };
        let profile = self.family.member(id).unwrap_or_else(broken);
        Drive::new(&profile, state, profile.port, 1, 0)
    }

    /// A closed loop of this total depth, spread over at most eight threads.
    fn closed(&mut self, id: &str, in_order: bool, read_pct: u64, depth: u64) -> &LoadResult {
        let name = format!("{id} {in_order} {read_pct} {depth}");
        if !self.done.contains_key(&name) {
            let threads = depth.min(8);
            let load = if in_order {
                Load::in_order(read_pct, threads, depth / threads)
            } else {
                Load::random(read_pct, threads, depth / threads)
            };
            let load = Load {
                think_ns: self.think_ns,
                ..load
            };
            let state = if in_order {
                State::Filled
            } else {
                State::Steady
            };
            // The clean pool must be empty by then: the review does not count the first minute of each step.
            let warm_ms = match (in_order, read_pct) {
                (true, _) | (_, 100) => 100,
                _ => 60_000,
            };
            let mut drive = self.drive(id, state);
            let outcome = closed_loop(&mut drive, load, warm_ms, 1000);
            self.done.insert(name.clone(), outcome);
        }
        &self.done[&name]
    }

    /// The appliance's open loop: random 4 KiB at a demand, at most 256 outstanding.
    pub fn demand(
        &mut self,
        read_pct: u64,
        demand_k: u64,
        skip_s: u64,
        window_s: u64,
    ) -> &LoadResult {
        let name = format!("demand {read_pct} {demand_k} {skip_s} {window_s}");
        if !self.done.contains_key(&name) {
            let mut drive = self.drive("p4510-8tb", State::Steady);
            let load = Load::random(read_pct, 1, 256);
            let (skip_ms, window_ms) = (skip_s * 1000, window_s * 1000);
            let arrivals = Arrivals::Poisson;
            let outcome = open_loop(
                &mut drive,
                load,
                demand_k * 1000,
                arrivals,
                skip_ms,
                window_ms,
            );
            self.done.insert(name.clone(), outcome);
        }
        &self.done[&name]
    }

    /// Random commands per second in a closed loop.
    pub fn iops(&mut self, id: &str, read_pct: u64, depth: u64) -> f64 {
        self.closed(id, false, read_pct, depth).iops()
    }

    /// Bytes per second of sequential commands, likewise.
    pub fn rate(&mut self, id: &str, read_pct: u64, depth: u64) -> f64 {
        self.closed(id, true, read_pct, depth).bytes_per_s()
    }

    /// The greatest bandwidth over several queue depths.
    fn peak(&mut self, id: &str, in_order: bool, read_pct: u64, depths: &[u64]) -> f64 {
        depths
            .iter()
            .map(|&depth| self.closed(id, in_order, read_pct, depth).bytes_per_s())
            .fold(0.0, f64::max)
    }

    fn watts(&mut self, read_pct: u64, demand_k: u64) -> f64 {
        self.demand(read_pct, demand_k, 1, 2).watts
    }
}

/// The smaller drive of the review.
pub(super) const D2: &str = "p4510-2tb";
/// The larger one, which the test appliance used too.
pub(super) const D8: &str = "p4510-8tb";

fn row(id: &'static str, low: f64, high: f64, value: f64) -> Row {
    Row {
        id,
        low,
        high,
        value,
    }
}

/// M-02: the greatest mean latency over several demands.
pub(super) fn greatest_read_mean_us(bench: &mut Bench) -> f64 {
    let demands_k = [300, 400, 500, 550, 600].into_iter();
    let means_us = demands_k.map(|demand_k| bench.demand(100, demand_k, 1, 2).mean_us());
    means_us.fold(0.0, f64::max)
}

/// M-03.
pub(super) fn read_tail_us(bench: &mut Bench) -> f64 {
    bench.demand(100, 400, 1, 2).percentile_us(99_900)
}

/// M-06: long after the pool is empty.
pub(super) fn steady_writes(bench: &mut Bench) -> f64 {
    bench.demand(0, 200, 120, 20).iops()
}

/// M-07.held: whole seconds before the first one below the demand.
pub(super) fn seconds_held(bench: &mut Bench) -> f64 {
    let by_second = &bench.demand(0, 160, 0, 120).by_second[..120];
    let first = by_second.iter().position(|&count| count < 158_400);
    first.unwrap_or(120) as f64
}

/// M-10.
pub(super) fn write_tail_us(bench: &mut Bench) -> f64 {
    bench.demand(0, 100, 1, 5).percentile_us(99_900)
}

/// Random reads of the two reviewed drives, and on the test appliance.
fn random_read_rows(bench: &mut Bench) -> Vec<Row> {
    let deep = [128, 256, 512];
    let peak = |bench: &mut Bench, id| bench.peak(id, false, 100, &deep) / 4096.0;
    let (peak_2, peak_8) = (peak(bench, D2), peak(bench, D8));
    let at_64 = (bench.iops(D2, 100, 64) / peak_2).max(bench.iops(D8, 100, 64) / peak_8);
    alloc::vec![
        row("A-20", 0.95, 1.05, peak_8 / peak_2),
        row("A-21", 0.5, 0.95, at_64),
        row("M-01", 614e3, 639e3, bench.demand(100, 640, 1, 2).iops()),
        row("M-02", 100.0, 210.0, greatest_read_mean_us(bench)),
        row("M-03", 200.0, 290.0, read_tail_us(bench)),
    ]
}

fn random_write_rows(bench: &mut Bench) -> Vec<Row> {
    let deep = [32, 128, 512];
    let (mut reached, mut before) = (f64::MAX, 0.0_f64);
    for id in [D2, D8] {
        let peak = bench.peak(id, false, 0, &deep) / 4096.0;
        reached = reached.min(bench.iops(id, 0, 32) / peak);
        before = before.max(bench.iops(id, 0, 4) / peak);
    }
    let mut mean_us = 0.0_f64;
    for demand_k in [60, 100, 120] {
        mean_us = mean_us.max(bench.demand(0, demand_k, 1, 5).mean_us());
    }
    let met = bench.demand(0, 170, 0, 60).iops() >= 0.99 * 170e3;
    alloc::vec![
        row("A-34.single-reached", 0.95, 1.0, reached),
        row("A-34.single-before", 0.1, 0.95, before),
        row("M-06", 146e3, 160e3, steady_writes(bench)),
        row("M-07.held", 53.1, 62.0, seconds_held(bench)),
        row(
            "M-07.after",
            135e3,
            159e3,
            bench.demand(0, 160, 75, 45).iops(),
        ),
        row("M-08", 0.0, 0.0, f64::from(u8::from(met))),
        row("M-09", 10.0, 50.0, mean_us),
        row("M-10", 150.0, 380.0, write_tail_us(bench)),
    ]
}

fn power_rows(bench: &mut Bench) -> Vec<Row> {
    let [r1, r2, r4, r6] = [100, 200, 400, 600].map(|demand_k| bench.watts(100, demand_k));
    let [w50, w100, w150] = [50, 100, 150].map(|demand_k| bench.watts(0, demand_k));
    let read_step = (r2 / r1).min(r4 / r2).min(r6 / r4);
    alloc::vec![
        row("M-05.read-steps", 1.0, 2.0, read_step),
        row("M-05.read-rise", 1.02, 3.2, r6 / r1),
        row("M-05.write-steps", 1.0, 2.0, (w100 / w50).min(w150 / w100)),
        row("M-05.write-rise", 1.02, 3.2, w150 / w50),
    ]
}

fn sequential_rows(bench: &mut Bench) -> Vec<Row> {
    let deep = [16, 64, 512];
    let peak_2 = bench.peak(D2, true, 100, &deep);
    let peak_8 = bench.peak(D8, true, 100, &deep);
    let mut ratio = |from: u64, to: u64| {
        let mut of = |id| bench.rate(id, 100, to) / bench.rate(id, 100, from);
        (of(D2), of(D8))
    };
    let (dip, back) = (ratio(1, 2), ratio(2, 8));
    let mut of_peak = |depth| {
        let share_2 = bench.rate(D2, 100, depth) / peak_2;
        (share_2, bench.rate(D8, 100, depth) / peak_8)
    };
    let (at_16, at_8) = (of_peak(16), of_peak(8));
    let write_peak_2 = bench.peak(D2, true, 0, &[4, 8, 64, 512]);
    let write_peak_8 = bench.peak(D8, true, 0, &[8, 64, 512]);
    alloc::vec![
        row("A-40", 0.95, 1.05, peak_8 / peak_2),
        row("A-44.single-dip", 0.3, 0.9, dip.0.max(dip.1)),
        row("A-44.single-back", 1.02, f64::INFINITY, back.0.min(back.1)),
        row("A-45.reached", 0.95, 1.0, at_16.0.min(at_16.1)),
        row("A-45.before", 0.4, 0.95, at_8.0.max(at_8.1)),
        row("A-50", 1.2, 2.0, write_peak_8 / write_peak_2),
        row(
            "A-54.2tb-reached",
            0.95,
            1.0,
            bench.rate(D2, 0, 4) / write_peak_2,
        ),
        row(
            "A-54.2tb-before",
            0.3,
            0.95,
            bench.rate(D2, 0, 1) / write_peak_2,
        ),
        row(
            "A-54.8tb-reached",
            0.95,
            1.0,
            bench.rate(D8, 0, 8) / write_peak_8,
        ),
        row(
            "A-54.8tb-before",
            0.3,
            0.95,
            bench.rate(D8, 0, 2) / write_peak_8,
        ),
    ]
}

fn mixed_rows(bench: &mut Bench) -> Vec<Row> {
    let mut flatness = |id, in_order| {
        let rates =
            [100, 70, 50, 30, 0].map(|read_pct| bench.closed(id, in_order, read_pct, 8).iops());
        let least = rates.iter().copied().fold(f64::MAX, f64::min);
        least / rates.iter().copied().fold(0.0, f64::max)
    };
    let (random_2, random_8) = (flatness(D2, false), flatness(D8, false));
    let in_order_2 = flatness(D2, true);
    let gain_8 = bench.rate(D8, 10, 8) / bench.rate(D8, 90, 8);
    alloc::vec![
        row("A-60.2tb", 0.6, 1.0, random_2),
        row("A-60.8tb", 0.6, 1.0, random_8),
        row("A-62.2tb", 0.6, 1.0, in_order_2),
        row("A-62.8tb", 1.02, 3.0, gain_8),
    ]
}

/// All rows, for a host that takes `think_ns` between a completion and the next command.
///
/// # Panics
/// When the family lacks one of the reviewed drives, or has a number that no drive can have.
#[must_use]
pub fn rows(family: &Family, think_ns: u64) -> Vec<Row> {
    let mut bench = Bench::new(family.clone(), think_ns);
    let mut rows = random_read_rows(&mut bench);
    rows.extend(random_write_rows(&mut bench));
    rows.extend(power_rows(&mut bench));
    rows.extend(sequential_rows(&mut bench));
    rows.extend(mixed_rows(&mut bench));
    rows
}
