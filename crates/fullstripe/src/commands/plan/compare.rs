//! Compares two plans: in what their setups differ, a table of corresponding points, and a plot for each load.

use super::plot::{Bar, drawn};
use super::text::{HANGING, figure};
use crate::terminal::fold::fold_within;
use crate::terminal::rows::folded;
use lab::schema::metric::{Metric, Statistic};
use lab::statistics::interval::Interval;
use planner::plan::bands::band;
use planner::plan::differences::{Changed, Difference, pairs};
use planner::plan::report::{PlanPoint, PlannedReport};
use std::fmt::Write as _;
use words::number;

/// From this request size on, bytes per second are shown instead of requests per second.
const LARGE_BYTES: u32 = 64 << 10;

/// In what the setups differ, the environment first, then what changes and what limits either.
pub fn differences(report: &PlannedReport, columns: Option<usize>) -> String {
    let mut text = String::new();
    for compared in &report.compared {
        let mut say =
            |sentence: &str| text += &fold_within(&format!("{sentence}\n"), columns, HANGING);
        say(&format!("{} against {}", compared.ours, compared.other));
        let parts = [
            ("environment", &compared.environment),
            ("array", &compared.array),
        ];
        for (part, differences) in parts {
            if differences.is_empty() {
                say(&format!("  {part}: the same"));
            }
            for Difference { about, ours, other } in differences {
                say(&format!("  {part}: {about}: {ours} against {other}"));
            }
        }
        for changed in &compared.loads {
            let is_meant = |(ours, other): &(&PlanPoint, &PlanPoint)| {
                (&ours.setup, &other.setup) == (&compared.ours, &compared.other)
                    && ours.load == changed.load
            };
            let pair = pairs(&report.points).into_iter().find(is_meant);
            let (ours, other) = pair.expect("a comparison is of two points");
            say(&format!("  {}", in_words(changed, &ratio(ours, other))));
        }
        text.push('\n');
    }
    text
}

/// What changes in one load, and why as far as limits tell. `ratio` is how many times as much, or a range of that.
fn in_words(changed: &Changed, ratio: &str) -> String {
    let Changed {
        load,
        times,
        ours_limited_by,
        other_limited_by,
    } = changed;
    if times.is_none() {
        return format!("{load}: one of them has no figure");
    }
    let limits = match (ours_limited_by.as_str(), other_limited_by.as_str()) {
        (ours, other) if ours == other => format!("either is limited by {ours}"),
        (ours, other) => format!("limited by {ours} against {other}"),
    };
    format!("{load}: {ratio} times as many requests; {limits}")
}

/// The table of each point of the other plan and our point of the same load, and of the same level if there is one.
pub fn table_of(report: &PlannedReport, columns: Option<usize>) -> String {
    let head = "LOAD,OURS,OTHER,IOPS OURS,IOPS OTHER,RATIO,99 % us OURS,99 % us OTHER";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    for (ours, other) in pairs(&report.points) {
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
