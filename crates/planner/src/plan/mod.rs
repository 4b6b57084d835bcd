//! What so many of these drives will do on this platform, what limits them, and what would limit them next.
//!
//! [`ask`] turns a question (with a file of loads and a plan to compare with) into configurations. [`crate::predict`]
//! runs them in virtual time, the engine itself included. [`ideal`] adds the prediction of a plain calculator. `notes`
//! says where a plan goes beyond what was ever measured, [`left_out`] what is impossible, and [`stripes`] where RAID 5
//! reads before it writes. [`report`] is the whole plan, and [`sweep`] is for a range of values.

pub mod ask;
pub mod ideal;
pub mod left_out;
mod notes;
pub mod report;
pub mod stripes;
pub mod sweep;

use crate::predict::Virtual;
use crate::predict::limits::Depth;
use crate::predict::many::Wanted;
use crate::work::{Watch, Work};
use anyhow::{Result, bail};
use ask::{Asked, Question, asked};
use lab::schema::metric::{Metric, Statistic};
use report::PlannedReport;
use std::collections::BTreeSet;

/// The figures that are computed for every point.
fn wanted() -> BTreeSet<Metric> {
    let latencies = [Statistic::Mean, Statistic::P99, Statistic::P99_9];
    let plain = [
        Metric::Iops,
        Metric::BytesPerSecond,
        Metric::Watts,
        Metric::CpuCores,
    ];
    plain
        .into_iter()
        .chain(latencies.map(Metric::Latency))
        .collect()
}

/// Computes a plan.
///
/// # Errors
/// If something that the question or its files name is unknown, malformed or impossible, or if the plan has only one
/// point and that cannot be predicted.
pub fn plan(question: &Question, work: Work, watch: &dyn Watch) -> Result<PlannedReport> {
    let mut predictor = Virtual {
        quick: true,
        limits: if question.sweep.is_some() {
            Depth::First
        } else {
            Depth::Behind
        },
        ..Virtual::default()
    };
    let Asked { cases, left_out } = asked(question, &mut predictor.library)?;
    let every = cases
        .iter()
        .map(|case| (case.configuration.clone(), wanted()));
    let every: Wanted = every.collect();
    let (answered, took_s) = work.answer(&predictor, &every, watch);
    if let [only] = every.keys().collect::<Vec<_>>().as_slice()
        && let Some(Err(missing)) = answered.get(only)
    {
        bail!("{}", missing.reason);
    }
    let mut report = PlannedReport::new(&cases, &answered, &predictor.library, took_s);
    report.left_out = left_out;
    Ok(report)
}
