//! What the data sheet of the P4510 alone would have predicted, against its fitted profile: how many figures of plans lie in the
//! ranges of the sheet, and which do not.
//!
//! `cargo run --release -p planner --example leave_one_out`. It fails if fewer than 80 % of the figures lie in their ranges.

#![allow(clippy::print_stdout)]

use anyhow::Result;
use lab::schema::metric::{Metric, Statistic};
use lab::schema::setup::Level;
use planner::plan::ask::Question;
use planner::plan::plan;
use planner::plan::report::PlanPoint;
use planner::work::{Watch, Work};
use std::collections::BTreeMap;
use std::process::ExitCode;
use words::number;

const DRIVES: [&str; 4] = ["p4510-1tb", "p4510-2tb", "p4510-4tb", "p4510-8tb"];
const FIGURES: [Metric; 5] = [
    Metric::Iops,
    Metric::Latency(Statistic::Mean),
    Metric::Latency(Statistic::P99),
    Metric::Latency(Statistic::P99_9),
    Metric::Watts,
];
/// The least share of figures that lie in their ranges.
const COVERED: f64 = 0.8;
/// A figure this close to a range lies in it: prints of both are alike.
const ROUNDING: f64 = 0.005;

struct Quiet;

impl Watch for Quiet {
    fn begin(&self, _all: u64) {}
    fn done(&self, _done: u64) {}
    fn end(&self) {}
    fn note(&self, sentence: &str) {
        eprintln!("{sentence}");
    }
}

fn question(drive: &str, levels: Vec<Level>, count: u32, from_sheet: bool) -> Question {
    Question {
        from_sheet,
        count,
        levels,
        ..Question::new(drive, "s2600wft-8170")
    }
}

/// How the ranges of one kind of figure fared.
#[derive(Default)]
struct Score {
    inside: usize,
    /// The upper end of each range over the lower.
    widths: Vec<f64>,
}

impl Score {
    fn line(&mut self, metric: Metric) -> String {
        self.widths.sort_by(f64::total_cmp);
        let middle = self.widths[self.widths.len() / 2];
        let widest = self.widths[self.widths.len() - 1];
        format!(
            "| {} | {} of {} | {middle:.2} | {widest:.1} |",
            metric,
            self.inside,
            self.widths.len()
        )
    }
}

/// Scores the figures of a point, and prints those outside of their ranges.
fn judge(drive: &str, fitted: &PlanPoint, sheet: &PlanPoint, scores: &mut BTreeMap<Metric, Score>) {
    for metric in FIGURES {
        let (Some(figure), Some(band)) = (fitted.figure(metric), sheet.band(metric)) else {
            continue;
        };
        let score = scores.entry(metric).or_default();
        score.widths.push(band.high / band.low);
        if (band.low * (1.0 - ROUNDING)..=band.high * (1.0 + ROUNDING)).contains(&figure) {
            score.inside += 1;
            continue;
        }
        println!(
            "| {drive} | {} | {} | {} | {} | {} to {} |",
            fitted.setup,
            fitted.load,
            metric,
            number(figure),
            number(band.low),
            number(band.high)
        );
    }
}

fn main() -> Result<ExitCode> {
    let work = Work {
        jobs: None,
        remember: false,
    };
    let mut scores = BTreeMap::new();
    println!(
        "| drive | setup | load | figure | fitted | range of the sheet |\n|---|---|---|---|---|---|"
    );
    for drive in DRIVES {
        for (levels, count) in [
            (vec![Level::Single], 1),
            (vec![Level::Raid0, Level::Raid5, Level::Raid10], 4),
        ] {
            let [fitted, sheet] = [false, true].map(|from_sheet| {
                plan(
                    &question(drive, levels.clone(), count, from_sheet),
                    work,
                    &Quiet,
                )
            });
            let (fitted, sheet) = (fitted?, sheet?);
            assert_eq!(fitted.points.len(), sheet.points.len(), "the same question");
            for (fitted, sheet) in fitted.points.iter().zip(&sheet.points) {
                judge(drive, fitted, sheet, &mut scores);
            }
        }
    }
    println!("\n| figure | in its range | middle width | greatest width |\n|---|---|---|---|");
    for (metric, score) in &mut scores {
        println!("{}", score.line(*metric));
    }
    let inside: usize = scores.values().map(|score| score.inside).sum();
    let all: usize = scores.values().map(|score| score.widths.len()).sum();
    let share = inside as f64 / all as f64;
    println!(
        "\n{inside} of {all} figures lie in the ranges of the sheet: {:.0} %",
        share * 100.0
    );
    Ok(if share >= COVERED {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}
