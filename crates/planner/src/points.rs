//! Answers a file of points: the results of `predict`.

use crate::files::add_files;
use crate::predict::many::Wanted;
use crate::predict::{Answer, Virtual};
use crate::work::{Watch, Work};
use anyhow::Result;
use lab::claims::predictor::NotModelled;
use lab::schema::configuration::{Configuration, read_configurations};
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::{PointResult, Provenance, Results, SCHEMA};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// The figures that are computed for every point.
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

/// Answers every point of the file `config`, whose content is `text`. With `deep`, runs are long enough for the
/// 99.999th percentile.
///
/// # Errors
/// If the configuration, or a drive that it names, is missing, malformed or impossible.
pub fn predict(
    config: &Path,
    text: &str,
    deep: bool,
    work: Work,
    watch: &dyn Watch,
) -> Result<Results> {
    let mut predictor = Virtual {
        deep,
        ..Virtual::default()
    };
    let file = config.display().to_string();
    let points = read_configurations(&file, text, &predictor.library.catalogue())?;
    add_files(&mut predictor.library, config, &points)?;
    let every = points.values().map(|point| (point.clone(), wanted()));
    let answered = work.answer(&predictor, &every.collect::<Wanted>(), watch).0;
    let point = |(name, configuration): (&String, &Configuration)| {
        let mut result = result(name, configuration, answered.get(configuration));
        let drive = &configuration.setup.drive;
        if !predictor.library.draws(drive).is_empty() {
            result.notes.push(format!(
                "{} is known from its data sheet only: the figures are of a usual such drive, and \"fullstripe plan\" gives their \
                 ranges",
                drive.text()
            ));
        }
        result
    };
    Ok(Results {
        schema: SCHEMA,
        program: format!("fullstripe {}", env!("CARGO_PKG_VERSION")),
        suite: None,
        conditions: None,
        points: points.iter().map(point).collect(),
    })
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
        configuration: Some(configuration.clone()),
        measurement: None,
        seeds,
        metrics,
        limited_by: None,
        notes,
    }
}
