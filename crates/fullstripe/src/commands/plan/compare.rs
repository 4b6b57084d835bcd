//! Compares two plans: a table of corresponding points, and a plot for each load.

use super::plot::{Bar, drawn};
use super::text::figure;
use crate::terminal::rows::folded;
use lab::schema::metric::{Metric, Statistic};
use lab::statistics::interval::Interval;
use planner::plan::bands::band;
use planner::plan::report::{PlanPoint, PlannedReport};
use std::fmt::Write as _;
use words::number;

/// From this request size on, bytes per second are shown instead of requests per second.
const LARGE_BYTES: u32 = 64 << 10;

/// The table of each point of the other plan and our point of the same load, and of the same level if there is one.
pub fn table_of(report: &PlannedReport, columns: Option<usize>) -> String {
    let head = "LOAD,OURS,OTHER,IOPS OURS,IOPS OTHER,RATIO,99 % us OURS,99 % us OTHER";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    for other in report.points.iter().filter(|point| point.is_other) {
        let mine = report.points.iter();
        let mine = mine.filter(|point| !point.is_other && point.load == other.load);
        let mine: Vec<_> = mine.collect();
        let level = other.configuration.setup.level;
        let same = mine
            .iter()
            .find(|point| point.configuration.setup.level == level);
        let Some(ours) = same.or(mine.first()) else {
            continue;
        };
        let p99 = Metric::Latency(Statistic::P99);
        rows.push(vec![
            other.load.clone(),
            ours.setup.clone(),
            other.setup.clone(),
            figure(ours, Metric::Iops),
            figure(other, Metric::Iops),
            ratio(ours, other),
            figure(ours, p99),
            figure(other, p99),
        ]);
    }
    if rows.len() == 1 {
        return String::new();
    }
    format!("Compared\n{}\n", folded(2, &rows, &[3, 6], columns))
}

/// How many times the requests of the other point ours serves. Draws are compared one by one: both points have the same.
fn ratio(ours: &PlanPoint, other: &PlanPoint) -> String {
    let figures = ours.figure(Metric::Iops).zip(other.figure(Metric::Iops));
    let Some((mine, theirs)) = figures else {
        return "-".to_owned();
    };
    let draws = |point: &PlanPoint| point.drawn.as_ref()?.metrics.get(&Metric::Iops).cloned();
    let ratios: Vec<f64> = match (draws(ours), draws(other)) {
        (None, None) => return format!("{:.2}", mine / theirs),
        (Some(ours), Some(others)) => {
            assert_eq!(ours.len(), others.len(), "every drive is drawn as often");
            ours.iter().zip(others).map(|(a, b)| a / b).collect()
        }
        (Some(ours), None) => ours.iter().map(|a| a / theirs).collect(),
        (None, Some(others)) => others.iter().map(|b| mine / b).collect(),
    };
    let Interval { low, high } = band(mine / theirs, &ratios);
    format!("{low:.2} – {high:.2}")
}

/// The metric to draw for a point: requests per second, or bytes per second if requests are large.
fn rate(point: &PlanPoint) -> Metric {
    let bs = point.configuration.workload.bs;
    match bs.map(|bs| bs.bytes()) {
        Some(bytes) if bytes >= LARGE_BYTES => Metric::BytesPerSecond,
        _ => Metric::Iops,
    }
}

fn bar(point: &PlanPoint) -> Bar {
    let metric = rate(point);
    let predicted = point.figure(metric).unwrap_or(0.0);
    let told = figure(point, metric);
    let ideal = point.ideal.as_ref().map(|ideal| match metric {
        Metric::BytesPerSecond => ideal.bytes_per_s,
        _ => ideal.iops,
    });
    Bar {
        label: point.setup.clone(),
        predicted,
        ideal: ideal.unwrap_or(0.0),
        figure: match ideal {
            Some(ideal) => format!("{told} of {}", number(ideal)),
            None => told,
        },
        limit: point.limit(),
    }
}

/// A plot for each load of the other plan, with all setups, ours first.
pub fn plots(report: &PlannedReport, columns: usize) -> String {
    let mut loads: Vec<&PlanPoint> = Vec::new();
    for other in report.points.iter().filter(|point| point.is_other) {
        if loads.iter().all(|known| known.load != other.load) {
            loads.push(other);
        }
    }
    let mut text = String::new();
    for first in &loads {
        let of_load = report
            .points
            .iter()
            .filter(|point| point.load == first.load);
        let bars: Vec<Bar> = of_load.map(bar).collect();
        let unit = match rate(first) {
            Metric::BytesPerSecond => "bytes a second",
            _ => "IOPS",
        };
        let _ = writeln!(text, "{}: {unit}", first.load);
        text += &drawn(&bars, columns);
    }
    if loads.is_empty() {
        return text;
    }
    text + "█ predicted  · up to the ideal\n\n"
}
