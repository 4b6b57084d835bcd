//! A plan as text: a table for each setup, notes about what is extrapolated, and comparisons of plans.

use super::compare;
use super::plot::COLUMNS;
use super::size;
use crate::commands::vroc;
use crate::terminal::fold::fold_within;
use crate::terminal::rows::folded;
use ::vroc::Purpose;
use lab::schema::metric::{Metric, Statistic};
use lab::schema::setup::{Export, Setup};
use lab::statistics::interval::Interval;
use lab::workload::Completion;
use planner::plan::as_vroc::OfSetup;
use planner::plan::bands::band;
use planner::plan::report::{PlanPoint, PlannedReport};
use planner::plan::sweep::Sweep;
use planner::plan::{left_out, stripes};
use planner::predict::CoresByBook;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use words::number;

/// Blanks before the continuation of a folded sentence.
pub const HANGING: usize = 4;
/// The uncertainty of a rate is printed if it is at least this share of the rate.
const WORTH_TELLING: f64 = 0.02;

/// The plan, folded to `columns`; without a limit, plots have their usual width.
pub fn text(report: &PlannedReport, columns: Option<usize>) -> String {
    let mut text = String::new();
    let mut before = None;
    for (at, point) in report.points.iter().enumerate() {
        let setup = (point.is_other, &point.setup, &point.configuration.setup);
        if before == Some(setup) {
            continue;
        }
        before = Some(setup);
        let same = report.points[at..].iter().take_while(|other| {
            (other.is_other, &other.setup, &other.configuration.setup) == setup
        });
        text += &fold_within(&format!("{}\n", heading(point)), columns, HANGING);
        let same: Vec<&PlanPoint> = same.collect();
        text += &points(&same, columns);
        text += &size::text(&same, report.currency.as_deref(), columns);
        text.push('\n');
    }
    text += &rebuilds(report, columns);
    text += &as_vroc(report, columns);
    text += &compare::differences(report, columns);
    text += &compare::table_of(report, columns);
    text += &compare::plots(report, columns.unwrap_or(COLUMNS));
    text += &fold_within(&notes(report, None), columns, HANGING);
    text + &fold_within(size::formula(&report.points), columns, HANGING)
}

fn heading(point: &PlanPoint) -> String {
    let setup = &point.configuration.setup;
    let size = if point.usable_bytes > 0 {
        format!(", {} usable", capacity(point.usable_bytes))
    } else {
        String::new()
    };
    let completion = match point.configuration.workload.completion {
        None | Some(Completion::Interrupt) => "by interrupt",
        Some(Completion::Polled) => "polled",
        Some(Completion::Hybrid) => "hybrid",
    };
    format!(
        "{}: {} x {} on {}, {}, {}, {completion}{size}",
        point.setup,
        setup.count,
        setup.drive.text(),
        setup.platform.text(),
        setup.host,
        stack(setup),
    )
}

fn stack(setup: &Setup) -> String {
    let export = match setup.export {
        None => "",
        Some(Export::Nbd) => " by NBD",
        Some(Export::Ublk) => " by ublk",
    };
    match (setup.stack.as_str(), setup.engine_cores.unwrap_or(1)) {
        ("fullstripe", 1) => format!("fullstripe on 1 core{export}"),
        ("fullstripe", cores) => format!("fullstripe on {cores} cores{export}"),
        (other, _) => format!("stack {other}"),
    }
}

/// A capacity in decimal units, as makers of drives state it.
fn capacity(bytes: u64) -> String {
    match bytes as f64 / 1e12 {
        large if large >= 1.0 => format!("{large:.2} TB"),
        _ => format!("{:.0} GB", bytes as f64 / 1e9),
    }
}

/// A figure of a point in words: its range, if the drive is known from its data sheet only. A figure that some draw does not have,
/// like a percentile of few requests, has no range, and the usual drive's alone would look certain.
pub fn figure(point: &PlanPoint, metric: Metric) -> String {
    let figure = point.figure(metric).filter(|_| point.drawn.is_none());
    match (point.band(metric), figure) {
        (Some(band), _) => range(band),
        (None, Some(figure)) => number(figure),
        (None, None) => "-".to_owned(),
    }
}

/// A range in words; one number if both ends read alike.
pub fn range(Interval { low, high }: Interval) -> String {
    let (low, high) = (number(low), number(high));
    if low == high {
        low
    } else {
        format!("{low} – {high}")
    }
}

/// A figure of the busy cores of a point in words.
fn cores(point: &PlanPoint, of: impl Fn(&CoresByBook) -> f64) -> String {
    let Some(cores) = &point.cores else {
        return "-".to_owned();
    };
    match &point.drawn {
        Some(drawn) => {
            let draws: Vec<f64> = drawn.cores.iter().map(&of).collect();
            range(band(of(cores), &draws))
        }
        None => number(of(cores)),
    }
}

fn points(points: &[&PlanPoint], columns: Option<usize>) -> String {
    let head =
        "LOAD,IOPS,IDEAL,B/s,MEAN us,99 % us,99.9 % us,CORES,CLIENT,KERNEL,RAID,WATTS,LIMITED BY";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    for point in points {
        let latency = |statistic| figure(point, Metric::Latency(statistic));
        let ideal = point.ideal.as_ref();
        rows.push(vec![
            point.load.clone(),
            iops(point),
            ideal.map_or_else(|| "-".to_owned(), |ideal| number(ideal.iops)),
            figure(point, Metric::BytesPerSecond),
            latency(Statistic::Mean),
            latency(Statistic::P99),
            latency(Statistic::P99_9),
            cores(point, |cores| cores.client + cores.kernel + cores.raid),
            cores(point, |cores| cores.client),
            cores(point, |cores| cores.kernel),
            cores(point, |cores| cores.raid),
            figure(point, Metric::Watts),
            limits(point),
        ]);
    }
    // Rows may be broken before the busy cores or before the limits.
    folded(2, &rows, &[7, 12], columns)
}

/// Requests per second, with their uncertainty if it is [`WORTH_TELLING`].
fn iops(point: &PlanPoint) -> String {
    let text = figure(point, Metric::Iops);
    match point.uncertainty(Metric::Iops) {
        // A range of draws is wider, and says enough.
        Some(share) if point.drawn.is_none() && share >= WORTH_TELLING => {
            format!("{text} ±{:.0}%", share * 100.0)
        }
        _ => text,
    }
}

fn limits(point: &PlanPoint) -> String {
    let Some(limits) = &point.limits else {
        return "-".to_owned();
    };
    match (&limits.behind, limits.behind_iops) {
        (Some(behind), Some(iops)) => {
            format!(
                "{}; then, at {}, {}",
                limits.first.name,
                number(iops),
                behind.name
            )
        }
        _ => limits.first.name.clone(),
    }
}

/// What Intel VROC would take of the arrays.
fn as_vroc(report: &PlannedReport, columns: Option<usize>) -> String {
    let mut text = String::new();
    for OfSetup { setup, answer } in &report.vroc {
        let purpose = match answer.purpose {
            Purpose::Boot => "to boot from",
            Purpose::Data => "for data",
        };
        let place = match answer.domains.as_slice() {
            [] => "behind no VMD".to_owned(),
            domains => format!("behind {}", words::and(domains)),
        };
        let drives = words::count(answer.drives, "drive");
        let _ = writeln!(
            text,
            "As Intel VROC: {setup} of {drives} {place}, {purpose}"
        );
        text += &vroc::text(answer, columns);
        text.push('\n');
    }
    if !report.vroc.is_empty() {
        text += &vroc::sources(report.vroc.iter().map(|of| &of.answer), columns);
        text.push('\n');
    }
    text
}

/// How a rebuild and the clients slow each other down.
fn rebuilds(report: &PlannedReport, columns: Option<usize>) -> String {
    let head = "SETUP,LOAD,REBUILD B/s,WHOLE DRIVE,SECOND DRIVE,CLIENTS IOPS,99 % us";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    for point in report.points.iter().filter(|point| !point.is_other) {
        let pace = match &point.rebuild {
            Some(rebuild) => {
                let whole = rebuild.whole_drive_seconds;
                let paces = point.rebuild_band();
                [
                    paces.map_or_else(|| number(rebuild.bytes_per_s), range),
                    whole.map_or_else(
                        || "never".to_owned(),
                        |seconds| durations(seconds, rebuild.bytes_per_s, paces),
                    ),
                ]
            }
            None => ["-".to_owned(), "-".to_owned()],
        };
        let [pace, whole] = pace;
        rows.push(vec![
            point.setup.clone(),
            point.load.clone(),
            pace,
            whole,
            size::second_drive(point),
            figure(point, Metric::Iops),
            figure(point, Metric::Latency(Statistic::P99)),
        ]);
    }
    if report.points.iter().all(|point| point.rebuild.is_none()) {
        return String::new();
    }
    rows[1..].sort_by(|one, other| one[1].cmp(&other[1]));
    format!(
        "Rebuild and clients\n{}\n",
        folded(2, &rows, &[2, 5], columns)
    )
}

/// How long a rebuild takes, at its rate or over a range of rates.
fn durations(seconds: f64, bytes_per_s: f64, paces: Option<Interval>) -> String {
    let at = |pace: f64| duration(seconds * bytes_per_s / pace);
    match paces {
        Some(paces) if paces.low > 0.0 && at(paces.low) != at(paces.high) => {
            format!("{} – {}", at(paces.high), at(paces.low))
        }
        _ => duration(seconds),
    }
}

pub fn duration(seconds: f64) -> String {
    match seconds {
        long if long >= 3600.0 => format!("{:.1} h", long / 3600.0),
        short => format!("{:.0} min", short / 60.0),
    }
}

/// What is left out, then each note once, with the points that it concerns unless it concerns all.
pub fn notes(report: &PlannedReport, sweep: Option<&Sweep>) -> String {
    let all: BTreeSet<&String> = report
        .points
        .iter()
        .flat_map(|point| &point.notes)
        .collect();
    let mut text = left_out::in_words(&report.left_out, sweep);
    text += &stripes::in_words(report, sweep);
    for note in all {
        let about: Vec<&PlanPoint> = report
            .points
            .iter()
            .filter(|point| point.notes.contains(note))
            .collect();
        let whom = match about.as_slice() {
            some if some.len() == report.points.len() => String::new(),
            [only] => format!("{}, {}: ", only.setup, only.load),
            [first, ..] => format!("{}, {} and others: ", first.setup, first.load),
            [] => String::new(),
        };
        let _ = writeln!(text, "{whom}{note}");
    }
    text
}
