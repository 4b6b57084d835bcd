//! What is told of an array that holds: what it does if clients ask for as much as it can do, and notes.

use super::Search;
use crate::predict::library::Library;
use crate::predict::limits::Depth;
use crate::predict::many::Wanted as ToRun;
use crate::predict::{Answer, Virtual};
use crate::slots::settings;
use anyhow::{Result, anyhow};
use lab::schema::configuration::Configuration;
use lab::schema::metric::Metric;

impl Search<'_> {
    /// What an array does if clients ask for as much as it can do, and what limits it.
    pub(super) fn most(&self, configuration: &Configuration) -> Result<(f64, String)> {
        let mut free = configuration.clone();
        free.workload.demand_iops = None;
        let predictor = Virtual {
            limits: Depth::First,
            ..self.predictor.clone()
        };
        let to_run = ToRun::from([(free.clone(), self.metrics.clone())]);
        let (mut answered, _) = self.work.answer(&predictor, &to_run, self.watch);
        let answer = answered.remove(&free).expect("it has been run");
        let answer = answer.map_err(|missing| anyhow!(missing.reason))?;
        let iops = answer
            .summary
            .get(&Metric::Iops)
            .map_or(0.0, |value| value.value);
        let limit = answer.limits.map(|limits| limits.first.name);
        Ok((iops, limit.unwrap_or_else(|| "unknown".to_owned())))
    }
}

/// Notes of a run and of its slots, for the reader.
pub(super) fn notes(
    configuration: &Configuration,
    answer: &Answer,
    library: &Library,
) -> Vec<String> {
    let mut notes = answer.notes.clone();
    notes.extend(settings(&configuration.setup, library));
    notes
}
