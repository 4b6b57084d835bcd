//! `predict`: what drives or arrays will do, in virtual time.
//!
//! A file names setups and points, in the form of the frozen claims; drives may be files of the user's.
//! [`planner::predict`] runs them; this command reads what is named and tells what came of it.

use super::progress::HowArgs;
use crate::terminal::Paper;
use crate::terminal::fold::fold_within;
use crate::terminal::print::print_text;
use crate::terminal::rows::folded;
use anyhow::{Context, Result};
use lab::claims::predictor::NotModelled;
use lab::schema::SCHEMA;
use lab::schema::configuration::{Configuration, read_configurations};
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::{PointResult, Provenance, Results};
use lab::schema::setup::Reference;
use models::library::path_and_id;
use planner::predict::library::Library;
use planner::predict::many::Wanted;
use planner::predict::{Answer, Virtual};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Arguments of `predict`.
#[derive(clap::Args, Debug)]
pub struct PredictArgs {
    /// Setups and points, as TOML: see docs/planning.md.
    config: PathBuf,
    #[command(flatten)]
    how: HowArgs,
    /// Print JSON; it holds no times of this machine.
    #[arg(long)]
    json: bool,
}

/// The figures of every point.
fn wanted() -> BTreeSet<Metric> {
    let statistics = [
        Statistic::Mean,
        Statistic::P50,
        Statistic::P99,
        Statistic::P99_9,
        Statistic::P99_99,
        Statistic::P99_999,
        Statistic::Max,
    ];
    let latencies = statistics.map(Metric::Latency);
    let plain = [
        Metric::Iops,
        Metric::BytesPerSecond,
        Metric::Watts,
        Metric::CpuCores,
    ];
    let of_demands = [Metric::DemandMet, Metric::SecondsHeld];
    latencies
        .into_iter()
        .chain(plain)
        .chain(of_demands)
        .collect()
}

/// Adds a drive if it is named by file; the path is relative to `folder`.
///
/// # Errors
/// It cannot be read, or describes no such drive.
pub fn add_drive(library: &mut Library, folder: &Path, drive: &Reference) -> Result<()> {
    let Reference::File(reference) = drive else {
        return Ok(());
    };
    let path = folder.join(path_and_id(reference).0);
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read the drive {}", path.display()))?;
    library.add_file(reference, &text)?;
    Ok(())
}

/// Adds a platform if it is named by file; the path is relative to `folder`.
///
/// # Errors
/// It cannot be read, or describes no machine.
pub fn add_platform(library: &mut Library, folder: &Path, platform: &Reference) -> Result<()> {
    let Reference::File(reference) = platform else {
        return Ok(());
    };
    let path = folder.join(reference);
    let text = std::fs::read_to_string(&path);
    let text = text.with_context(|| format!("cannot read the platform {}", path.display()))?;
    library.add_platform(reference, &text)?;
    Ok(())
}

/// Adds the drives and platforms that configurations name by file; paths are relative to the file that names them.
fn add_files(
    predictor: &mut Virtual,
    config: &Path,
    points: &BTreeMap<String, Configuration>,
) -> Result<()> {
    let folder = config.parent().unwrap_or(Path::new(""));
    let drives = points.values().map(|point| &point.setup.drive);
    for drive in drives.collect::<BTreeSet<_>>() {
        add_drive(&mut predictor.library, folder, drive)?;
    }
    let platforms = points.values().map(|point| &point.setup.platform);
    for platform in platforms.collect::<BTreeSet<_>>() {
        add_platform(&mut predictor.library, folder, platform)?;
    }
    Ok(())
}

fn result(
    name: &str,
    configuration: &Configuration,
    answer: Option<&Result<Answer, NotModelled>>,
) -> PointResult {
    let (metrics, seeds, notes) = match answer {
        Some(Ok(answer)) => {
            let metrics = answer.summary.clone();
            (metrics, answer.seeds.clone(), answer.notes.clone())
        }
        Some(Err(missing)) => {
            let note = format!("not modelled: {}", missing.reason);
            (BTreeMap::new(), Vec::new(), vec![note])
        }
        None => (BTreeMap::new(), Vec::new(), Vec::new()),
    };
    PointResult {
        name: name.to_owned(),
        provenance: Provenance::Predicted,
        configuration: configuration.clone(),
        seeds,
        metrics,
        limited_by: None,
        notes,
    }
}

/// A figure as people read it.
pub fn number(value: f64) -> String {
    match value.abs() {
        size if size >= 1e9 => format!("{:.2} G", value / 1e9),
        size if size >= 1e6 => format!("{:.3} M", value / 1e6),
        size if size >= 1e4 => format!("{:.1} k", value / 1e3),
        size if size >= 100.0 => format!("{value:.0}"),
        size if size >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.2}"),
    }
}

fn text(results: &Results, columns: Option<usize>) -> String {
    let head = "POINT,IOPS,B/s,MEAN us,99 % us,99.9 % us,CORES,WATTS,DEMAND";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    let mut notes = String::new();
    for point in &results.points {
        let figure = |metric| {
            let value = point.metrics.get(&metric);
            value.map_or("-".to_owned(), |value| number(value.value))
        };
        let latency = |statistic| figure(Metric::Latency(statistic));
        let met = point.metrics.get(&Metric::DemandMet);
        let demand = met.map_or("-", |met| match met.value {
            1.0 => "met",
            0.0 => "missed",
            _ => "at times",
        });
        rows.push(vec![
            point.name.clone(),
            figure(Metric::Iops),
            figure(Metric::BytesPerSecond),
            latency(Statistic::Mean),
            latency(Statistic::P99),
            latency(Statistic::P99_9),
            figure(Metric::CpuCores),
            figure(Metric::Watts),
            demand.to_owned(),
        ]);
        for note in &point.notes {
            notes += &format!("{}: {note}\n", point.name);
        }
    }
    // Before latencies, or before busy cores.
    folded(0, &rows, &[3, 6], columns) + &fold_within(&notes, columns, 2)
}

/// Runs `predict`. The exit code is 0 only if every point could be predicted.
///
/// # Errors
/// The configuration, or a drive that it names, is not there, not of its form or impossible.
pub fn run(args: &PredictArgs) -> Result<ExitCode> {
    let file = args.config.display().to_string();
    let content = std::fs::read_to_string(&args.config);
    let content = content.with_context(|| format!("cannot read {file}"))?;
    let mut predictor = Virtual {
        deep: args.how.deep,
        ..Virtual::default()
    };
    let points = read_configurations(&file, &content, &predictor.library.catalogue())?;
    add_files(&mut predictor, &args.config, &points)?;
    let every = points.values().map(|point| (point.clone(), wanted()));
    let answered = args.how.answer(&predictor, &every.collect::<Wanted>());
    let point = |(name, configuration): (&String, &Configuration)| {
        result(name, configuration, answered.get(configuration))
    };
    let results = Results {
        schema: SCHEMA,
        program: format!("fullstripe {}", env!("CARGO_PKG_VERSION")),
        suite: None,
        points: points.iter().map(point).collect(),
    };
    print_text(&if args.json {
        results.to_json()
    } else {
        text(&results, Paper::output().columns)
    })?;
    let is_complete = results.points.iter().all(|point| !point.metrics.is_empty());
    Ok(if is_complete {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_short() {
        let shown = [0.0, 1.234, 12.34, 123.4, 12_345.0, 1_234_567.0, 2.5e9].map(number);
        assert_eq!(
            shown,
            ["0.00", "1.23", "12.3", "123", "12.3 k", "1.235 M", "2.50 G"]
        );
    }
}
