//! What so many of these drives will do on this platform, what limits them, and what would limit them next.
//!
//! [`ask`] turns a question (with a file of loads and a plan to compare with) into configurations. [`crate::predict`]
//! runs them in virtual time, the engine itself included. [`ideal`] adds the prediction of a plain calculator. `notes`
//! says where a plan goes beyond what was ever measured, [`left_out`] what is impossible, and [`stripes`] where RAID 5
//! reads before it writes. [`size`] adds what the arrays hold, cost, use and risk, and [`as_vroc`] what Intel VROC would take of them.
//! [`differences`] says in what two plans differ. [`bands`] has the ranges of figures where a drive is known from its data sheet only. [`report`] is the whole plan, and [`sweep`]
//! is for a range of values.

pub mod as_vroc;
pub mod ask;
pub mod bands;
pub mod differences;
pub mod ideal;
pub mod left_out;
mod notes;
pub mod report;
pub mod size;
pub mod stripes;
pub mod sweep;

use crate::predict::Virtual;
use crate::predict::library::Library;
use crate::predict::limits::Depth;
use crate::predict::many::Wanted;
use crate::provenance::Known;
use crate::work::{Watch, Work};
use anyhow::{Result, bail};
use ask::{Asked, Case, Question, asked};
use lab::schema::metric::{Metric, Statistic};
use report::PlannedReport;
use size::Sizer;
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
    let sizer = Sizer::of(&question.size, &cases, &predictor.library)?;
    let every = cases.iter().flat_map(|case| {
        let drawn = bands::drawn(&case.configuration, &predictor.library);
        std::iter::once(case.configuration.clone()).chain(drawn)
    });
    let every: Wanted = every.map(|one| (one, wanted())).collect();
    let (answered, took_s) = work.answer(&predictor, &every, watch);
    if let [only] = cases.as_slice()
        && let Some(Err(missing)) = answered.get(&only.configuration)
    {
        bail!("{}", missing.reason);
    }
    let mut report = PlannedReport::new(&cases, &answered, &predictor.library, took_s);
    report.left_out = left_out;
    report.compared = differences::compared(&report.points, &predictor.library);
    if let Some(purpose) = question.as_vroc {
        report.vroc = as_vroc::answers(&cases, &predictor.library, purpose)?;
    }
    sizer.add(&mut report, &cases, &answered, &predictor.library)?;
    if question.provenance {
        report.provenance = provenance(&cases, &predictor.library);
        sizer.add_provenance(&mut report.provenance);
    }
    Ok(report)
}

/// The figures that all cases are computed from, each once.
fn provenance(cases: &[Case], library: &Library) -> Vec<Known> {
    let mut all: Vec<Known> = Vec::new();
    for case in cases {
        let figures = library.provenance(&case.configuration.setup);
        let known: BTreeSet<String> = all.iter().map(|known| known.of.clone()).collect();
        all.extend(
            figures
                .into_iter()
                .filter(|figure| !known.contains(&figure.of)),
        );
    }
    all
}
