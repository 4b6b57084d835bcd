//! Arrays whose drive is known from a data sheet only: they hold if they do in enough of the draws. And drives of which no number can
//! hold.

use super::candidate::Candidate;
use super::judge::{Margin, impossible, least, of_run};
use super::{Search, Shown};
use crate::plan::bands::drawn;
use catalogue::draw::DRAWS;
use lab::schema::configuration::Configuration;
use lab::schema::setup::Level;

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
        drive: &str,
    ) -> Result<Option<(usize, usize)>, TooFew> {
        let draws = drawn(configuration, &self.predictor.library);
        if draws.is_empty() {
            return Ok(None);
        }
        assert_eq!(draws.len(), DRAWS as usize, "each sheet is drawn as often");
        let mut margins: Vec<Option<Margin>> = draws.iter().map(|draw| self.bound(draw)).collect();
        let mut order = self.worst_first(drive, configuration.setup.level);
        order.retain(|&draw| margins[draw].is_none());
        for some in order.chunks(DRAWS_WITHOUT + 1) {
            if failing(&margins) > DRAWS_WITHOUT {
                break;
            }
            self.run_all(some.iter().map(|&draw| draws[draw].clone()).collect());
            for &draw in some {
                margins[draw] = Some(self.worst(&draws[draw], drive));
            }
        }
        self.remember_worst(drive, configuration.setup.level, &margins);
        let fails = failing(&margins);
        if fails <= DRAWS_WITHOUT {
            return Ok(Some((draws.len() - fails, draws.len())));
        }
        let fails = |draw: &usize| {
            margins[*draw]
                .as_ref()
                .is_some_and(|margin| !margin.holds())
        };
        let failing: Vec<usize> = (0..draws.len()).filter(fails).collect();
        let mut known: Vec<Margin> = margins.into_iter().flatten().collect();
        known.sort_by(|one, other| one.times.total_cmp(&other.times));
        let mut decides = known.swap_remove(DRAWS_WITHOUT);
        decides.found += " in one of the drives that the sheet may describe";
        Err(TooFew { decides, failing })
    }

    /// Whether no number of these drives can hold, because the most that fit do not: tried once for each drive and level. It is so of
    /// requests at random, which each drive more takes a share of, if the bays are alike. Requests in order may be served worse by
    /// more drives, and so may requests to drives on another socket.
    pub(super) fn is_hopeless(&mut self, candidate: &Candidate, shown: &Shown) -> bool {
        let question = self.question;
        let [chunk_kib] = question.chunks(candidate.level)[..] else {
            return false;
        };
        let largest = question.largest(candidate, self.bays);
        if question.run_all
            || !self.has_like_bays
            || !question.is_random()
            || largest.count <= candidate.count
            || matches!(shown, Shown::WithoutRun)
            || !self.tried.insert((candidate.drive, candidate.level))
        {
            return false;
        }
        let configuration = question.configuration(&largest, chunk_kib, true);
        let drive = &question.drives[candidate.drive];
        match shown {
            Shown::WithoutRun => false,
            Shown::Usual => {
                self.run_all(vec![configuration.clone()]);
                !self.worst(&configuration, drive).holds()
            }
            Shown::Draws(failing) => {
                let draws = drawn(&configuration, &self.predictor.library);
                let draws: Vec<Configuration> =
                    failing.iter().map(|&at| draws[at].clone()).collect();
                self.run_all(draws.clone());
                let fails = |draw: &&Configuration| !self.worst(draw, drive).holds();
                draws.iter().filter(fails).count() > DRAWS_WITHOUT
            }
        }
    }

    /// The draws in the order in which they are run: those that had least when an array of this drive and level was last judged come
    /// first, because they will fail again.
    fn worst_first(&self, drive: &str, level: Level) -> Vec<usize> {
        let known = self.worst_draws.get(&(drive.to_owned(), level));
        known
            .cloned()
            .unwrap_or_else(|| (0..DRAWS as usize).collect())
    }

    fn remember_worst(&mut self, drive: &str, level: Level, margins: &[Option<Margin>]) {
        let mut order = self.worst_first(drive, level);
        // A draw that was not run had not failed before those that were.
        let times = |draw: &usize| {
            margins[*draw]
                .as_ref()
                .map_or(f64::INFINITY, |margin| margin.times)
        };
        order.sort_by(|one, other| times(one).total_cmp(&times(other)));
        self.worst_draws.insert((drive.to_owned(), level), order);
    }

    /// What there is least of in a draw that has been run.
    fn worst(&self, draw: &Configuration, drive: &str) -> Margin {
        let sizer = &self.question.sizer;
        let prices = sizer.prices_of(drive, &draw.setup);
        let library = &self.predictor.library;
        let margins = self.answer(draw).and_then(|answer| {
            let sizing = sizer.sized(draw, &answer, prices.as_ref(), library)?;
            Ok(of_run(&self.question.wanted, &answer, &sizing, None))
        });
        match margins {
            Ok(margins) => least(&margins).expect("a rate is asked for").clone(),
            Err(why) => impossible(&format!("{why:#}")),
        }
    }
}

/// How many of the draws that have been judged do not hold.
fn failing(margins: &[Option<Margin>]) -> usize {
    let known = margins.iter().flatten();
    known.filter(|margin| !margin.holds()).count()
}
