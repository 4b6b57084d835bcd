//! Arrays whose drive is known from a data sheet only: they hold if they do in enough of the draws.
//!
//! Draws are run in an order in which those come first that had least before. As soon as too many do not hold, no further is begun, and
//! those behind the one that decides are not looked at, whether or not they have been run: so the result does not depend on the threads.

use super::Search;
use super::candidate::{Candidate, Kind};
use super::judge::{Judge, Margin, least};
use crate::plan::bands::drawn;
use crate::predict::many::Answered;
use catalogue::draw::DRAWS;
use lab::schema::configuration::Configuration;

/// Draws in which an array need not hold, as a plan's range leaves out the least and the largest.
pub(super) const DRAWS_WITHOUT: usize = 2;

/// An array that holds in too few draws.
pub(super) struct TooFew {
    /// The margin of the draw that decides.
    pub decides: Margin,
    /// The draws that do not hold.
    pub failing: Vec<usize>,
}

impl Search<'_> {
    /// The draws in which an array holds, and all draws; `None` if its drive has a profile. If it holds in too few, what decides.
    pub(super) fn in_draws(
        &mut self,
        configuration: &Configuration,
        candidate: &Candidate,
    ) -> Result<Option<(usize, usize)>, TooFew> {
        let draws = drawn(configuration, &self.predictor.library);
        if draws.is_empty() {
            return Ok(None);
        }
        assert_eq!(draws.len(), DRAWS as usize, "each sheet is drawn as often");
        let mut order = self.worst_first(candidate.kind());
        // Draws that need no run come first.
        order.sort_by_key(|&draw| self.judge().bound(&draws[draw]).is_none());
        let in_order: Vec<&Configuration> = order.iter().map(|&draw| &draws[draw]).collect();
        let to_run = in_order
            .iter()
            .filter(|draw| self.judge().bound(draw).is_none());
        let to_run: Vec<Configuration> = to_run.map(|&draw| draw.clone()).collect();
        self.run_until(&to_run, &|judge, answered| {
            failing(&judged_draws(judge, &in_order, answered)) > DRAWS_WITHOUT
        });
        let judged = judged_draws(self.judge(), &in_order, &self.answered);
        self.remember_worst(candidate.kind(), &order, &judged);
        let fails = failing(&judged);
        if fails <= DRAWS_WITHOUT {
            assert_eq!(judged.len(), draws.len(), "all have been judged");
            return Ok(Some((draws.len() - fails, draws.len())));
        }
        let failing = order.iter().zip(&judged);
        let failing = failing.filter(|(_, one)| !one.least.holds());
        let failing: Vec<usize> = failing.map(|(&draw, _)| draw).collect();
        let decides = decides(judged.into_iter().map(|one| one.least).collect());
        Err(TooFew { decides, failing })
    }

    /// The draws in the order in which they are run: those that had least when an array was last judged come first, because they will
    /// probably fail again. That is the last array of this drive and level, otherwise of this level, otherwise of any: all drives use
    /// the same draws.
    fn worst_first(&self, kind: Kind) -> Vec<usize> {
        let is_of_level = |(other, _): &&(Kind, Vec<usize>)| other.1 == kind.1;
        let latest = || self.worst_draws.iter().rev();
        let known = latest()
            .find(|(other, _)| *other == kind)
            .or_else(|| latest().find(is_of_level))
            .or_else(|| latest().next());
        known.map_or_else(|| (0..DRAWS as usize).collect(), |(_, order)| order.clone())
    }

    /// Remembers the order of the draws by what they had. `judged` are the first draws of `order`.
    fn remember_worst(&mut self, kind: Kind, order: &[usize], judged: &[JudgedDraw]) {
        let mut worst: Vec<(usize, &JudgedDraw)> = order.iter().copied().zip(judged).collect();
        worst.sort_by(|(_, one), (_, other)| {
            let by_least = one.least.times.total_cmp(&other.least.times);
            by_least.then(one.of_all.total_cmp(&other.of_all))
        });
        // A draw that was not judged had not failed before those that were.
        let worst = worst.into_iter().map(|(draw, _)| draw);
        let worst = worst.chain(order[judged.len()..].iter().copied()).collect();
        self.worst_draws.retain(|(other, _)| *other != kind);
        self.worst_draws.push((kind, worst));
    }
}

/// A draw that has been judged.
struct JudgedDraw {
    /// What there is least of.
    least: Margin,
    /// How much there is of everything together: the product of its margins. It tells draws apart that have least of the same, like a
    /// capacity.
    of_all: f64,
}

/// The draws of `order` up to the one that decides that the array does not hold, or to the first that has not been run.
fn judged_draws(
    judge: Judge<'_>,
    order: &[&Configuration],
    answered: &Answered,
) -> Vec<JudgedDraw> {
    let mut all = Vec::new();
    for draw in order {
        if failing(&all) > DRAWS_WITHOUT {
            break;
        }
        let bound = judge.bound(draw).map(|margin| vec![margin]);
        let Some(margins) = bound.or_else(|| judge.by_run(draw, answered)) else {
            break;
        };
        all.push(JudgedDraw {
            least: least(&margins).expect("a rate is asked for").clone(),
            of_all: margins.iter().map(|margin| margin.times).product(),
        });
    }
    all
}

/// Of margins of draws, too many of which do not hold, the one that decides.
pub(super) fn decides(mut margins: Vec<Margin>) -> Margin {
    margins.sort_by(|one, other| one.times.total_cmp(&other.times));
    let mut decides = margins.swap_remove(DRAWS_WITHOUT);
    decides.found += " in one of the drives that the sheet may describe";
    decides
}

/// How many of these do not hold.
fn failing(judged: &[JudgedDraw]) -> usize {
    judged.iter().filter(|one| !one.least.holds()).count()
}
