//! Arrays that hold, and what they do if clients ask for as much as they can do.
//!
//! The latter does not decide anything, so it is run once the search has ended, of all arrays at once.

use super::Search;
use super::judge::of_run;
use super::report::{Bought, Found};
use crate::predict::limits::Depth;
use crate::predict::many::Wanted;
use crate::predict::{Answer, Virtual};
use crate::sizing::Sizing;
use crate::slots::settings;
use anyhow::{Result, anyhow};
use lab::schema::configuration::Configuration;
use lab::schema::metric::Metric;

/// An array that holds.
pub(super) struct Holding {
    pub bought: Bought,
    pub configuration: Configuration,
    /// Under the demanded load.
    pub answer: Answer,
    pub sizing: Sizing,
    /// Draws in which it holds, and all draws.
    pub draws: Option<(usize, usize)>,
}

impl Search<'_> {
    /// Adds what the arrays do at most, and what limits them.
    ///
    /// # Errors
    /// One of them cannot be run without the demand.
    pub(super) fn finished(&self, holding: Vec<Holding>) -> Result<Vec<Found>> {
        let free = |one: &Holding| {
            let mut free = one.configuration.clone();
            free.workload.demand_iops = None;
            free
        };
        let to_run = holding.iter().map(|one| (free(one), self.metrics.clone()));
        let to_run: Wanted = to_run.collect();
        let predictor = Virtual {
            limits: Depth::First,
            ..self.predictor.clone()
        };
        let (answered, _) = self.work.answer(&predictor, &to_run, self.watch);
        let finished = holding.into_iter().map(|one| {
            let most = answered.get(&free(&one)).expect("it has been run");
            let most = most
                .as_ref()
                .map_err(|missing| anyhow!(missing.reason.clone()))?;
            Ok(self.found(one, most))
        });
        finished.collect()
    }

    fn found(&self, one: Holding, most: &Answer) -> Found {
        let Holding {
            bought,
            configuration,
            answer,
            sizing,
            draws,
        } = one;
        let most_iops = most.summary.get(&Metric::Iops);
        let most_iops = most_iops.map_or(0.0, |value| value.value);
        let limit = most.limits.as_ref().map(|limits| limits.first.name.clone());
        let mut notes = answer.notes.clone();
        notes.extend(settings(&configuration.setup, &self.predictor.library));
        Found {
            bought,
            margins: of_run(&self.question.wanted, &answer, &sizing, Some(most_iops)),
            sizing,
            notes,
            metrics: answer.summary,
            limited_by: limit.unwrap_or_else(|| "unknown".to_owned()),
            draws,
        }
    }
}
