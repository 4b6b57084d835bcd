//! The points of a measurement as a table, with what makes them doubtful below it.

use crate::terminal::fold::fold_within;
use crate::terminal::rows::folded;
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::{Metrics, PointResult, Results, Value};
use words::number;

/// The table of results of this program. Points that were not measured have no row.
pub fn text(results: &Results, columns: Option<usize>) -> String {
    let head = "LOAD,BS,THREADS x QD,DEMAND,RUNS,IOPS,B/s,MEAN us,99 % us,99.9 % us,RESPONSE 99 % us,DEPTH,CORES";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    let mut notes = String::new();
    for point in &results.points {
        add(point, &mut rows, &mut notes);
    }
    if rows.len() == 1 {
        return "no point of it was measured\n".to_owned();
    }
    let conditions = results.conditions.iter();
    for mark in conditions.flat_map(|conditions| &conditions.marks) {
        notes += &format!("all: {mark}\n");
    }
    folded(0, &rows, &[5, 7, 10], columns) + &fold_within(&notes, columns, 2)
}

fn add(point: &PointResult, rows: &mut Vec<Vec<String>>, notes: &mut String) {
    let Some(measurement) = &point.measurement else {
        return;
    };
    let load = &measurement.workload;
    let word = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let demanded = measurement.demanded_iops();
    let runs = match measurement.invalid {
        Some(_) => point.seeds.len(),
        None => measurement.runs.len(),
    };
    let named = [
        point.name.clone(),
        word(load.bs.map(|bs| bs.to_string())),
        format!("{} x {}", load.threads, load.qd.unwrap_or(1)),
        word(demanded.map(|iops| number(iops as f64))),
        runs.to_string(),
    ];
    let depth = match measurement.invalid {
        Some(_) => "-".to_owned(),
        None => number(measurement.effective_queue_depth),
    };
    rows.push(row(named, &point.metrics, depth));
    for (kind, metrics) in [
        ("reads", &measurement.reads),
        ("writes", &measurement.writes),
    ] {
        if !metrics.is_empty() {
            let mut named = [const { String::new() }; 5];
            named[0] = format!("  {kind}");
            rows.push(row(named, metrics, String::new()));
        }
    }
    let invalid = measurement
        .invalid
        .iter()
        .map(|why| format!("invalid: {why}"));
    for mark in invalid.chain(point.notes.iter().cloned()) {
        *notes += &format!("{}: {mark}\n", point.name);
    }
}

fn row(named: [String; 5], metrics: &Metrics, depth: String) -> Vec<String> {
    let figure = |metric| {
        metrics
            .get(&metric)
            .map_or_else(|| "-".to_owned(), in_words)
    };
    let latency = |statistic| figure(Metric::Latency(statistic));
    let figures = [
        figure(Metric::Iops),
        figure(Metric::BytesPerSecond),
        latency(Statistic::Mean),
        latency(Statistic::P99),
        latency(Statistic::P99_9),
        figure(Metric::Response(Statistic::P99)),
        depth,
        figure(Metric::CpuCores),
    ];
    named.into_iter().chain(figures).collect()
}

/// A figure with half the width of its interval, if that is known and worth a word; with its lower end if there is no upper one.
pub fn in_words(value: &Value) -> String {
    let figure = number(value.value);
    let Some(interval) = value.interval else {
        return figure;
    };
    if !interval.high.is_finite() {
        return format!("{figure} (≥ {})", number(interval.low));
    }
    let percent = (interval.high - interval.low) / 2.0 / value.value * 100.0;
    match percent {
        percent if percent >= 1.0 => format!("{figure} ±{percent:.0}%"),
        _ => figure,
    }
}
