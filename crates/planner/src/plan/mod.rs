//! What so many of these drives will do on this platform, what limits them, and what would limit them next.
//!
//! [`ask`] turns a question (with its [`loads`] and a plan to compare with) into configurations. [`crate::predict`]
//! runs them in virtual time, the engine itself included. [`ideal`] adds the prediction of a plain calculator. `notes`
//! says where a plan goes beyond what was ever measured, [`left_out`] what is impossible, and [`stripes`] where RAID 5
//! reads before it writes. [`size`] adds what the arrays hold, cost, use and risk, and [`as_vroc`] what Intel VROC would take of them.
//! [`differences`] says in what two plans differ. [`bands`] has the ranges of figures where a drive is known from its data sheet only. [`report`] is the whole plan, [`sweep`]
//! is for a range of values, and [`one_point`] for sweeps whose points are computed one by one, on many machines.

pub mod as_vroc;
pub mod ask;
pub mod bands;
pub mod differences;
pub mod ideal;
pub mod left_out;
pub mod loads;
mod notes;
pub mod one_point;
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
use left_out::LeftOut;
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
    Prepared::of(question, asked)?.run(work, watch)
}

/// A plan before anything has been run: its question is understood, and everything that it names is known.
pub struct Prepared {
    cases: Vec<Case>,
    left_out: Vec<LeftOut>,
    predictor: Virtual,
    sizer: Sizer,
    as_vroc: Option<vroc::Purpose>,
    with_provenance: bool,
}

impl Prepared {
    /// Prepares a plan of the points that `points_of` finds: [`asked`], or [`ask::understood`] if none may be left.
    ///
    /// # Errors
    /// If something that the question or its files name is unknown, malformed or impossible.
    pub fn of(
        question: &Question,
        points_of: fn(&Question, &mut Library) -> Result<Asked>,
    ) -> Result<Prepared> {
        let mut predictor = Virtual {
            quick: true,
            limits: if question.sweep.is_some() {
                Depth::First
            } else {
                Depth::Behind
            },
            ..Virtual::default()
        };
        let Asked { cases, left_out } = points_of(question, &mut predictor.library)?;
        Ok(Prepared {
            sizer: Sizer::of(&question.size, &cases, &predictor.library)?,
            cases,
            left_out,
            predictor,
            as_vroc: question.as_vroc,
            with_provenance: question.provenance,
        })
    }

    /// Everything to be run: each case, and its draws if its drive is known from a data sheet only.
    fn every(&self) -> Wanted {
        let every = self.cases.iter().flat_map(|case| {
            let drawn = bands::drawn(&case.configuration, &self.predictor.library);
            std::iter::once(case.configuration.clone()).chain(drawn)
        });
        every.map(|one| (one, wanted())).collect()
    }

    /// Runs the plan.
    ///
    /// # Errors
    /// The plan has only one point and that cannot be predicted, or `create` would refuse one of its arrays.
    pub fn run(self, work: Work, watch: &dyn Watch) -> Result<PlannedReport> {
        let library = &self.predictor.library;
        let (answered, took_s) = work.answer(&self.predictor, &self.every(), watch);
        if let [only] = self.cases.as_slice()
            && let Some(Err(missing)) = answered.get(&only.configuration)
        {
            bail!("{}", missing.reason);
        }
        let mut report = PlannedReport::new(&self.cases, &answered, library, took_s);
        report.left_out = self.left_out;
        report.compared = differences::compared(&report.points, library);
        if let Some(purpose) = self.as_vroc {
            report.vroc = as_vroc::answers(&self.cases, library, purpose)?;
        }
        self.sizer
            .add(&mut report, &self.cases, &answered, library)?;
        if self.with_provenance {
            report.provenance = provenance(&self.cases, library);
            self.sizer.add_provenance(&mut report.provenance);
        }
        Ok(report)
    }
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
