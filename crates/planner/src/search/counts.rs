//! Numbers of drives that need not be judged, because a larger number has shown that they cannot hold.
//!
//! This takes one thing for granted: drives in bays that are all alike do not serve requests at random worse if there are more of them,
//! where each request lies within a chunk. So what an array **clearly** lacks, as [`Judge::lacks_clearly`] has it, one with fewer of these
//! drives lacks too. A RAID 5 of three drives is an exception, because its parity needs fewer reads: it is the first that is judged, and
//! nothing is concluded of it. Nothing is concluded of arrays that cannot be built either, nor from one that holds.
//!
//! After an array has failed, the most drives that fit are tried. If they clearly lack something, its drive and level is given up.
//! Otherwise the numbers in between are tried in steps that double, then by halves, until the smallest is found that does not clearly
//! lack anything. This one is judged. Only what failed before is run: the usual drive, or the draws that did not hold. A drive and level
//! waits in the queue with the price of the smallest number that is not excluded yet, so nothing but the most drives is tried of those
//! that cost more than the last array that is found.

use super::bound::is_small;
use super::candidate::{Candidate, Cheapest};
use super::draws::{DRAWS_WITHOUT, decides};
use super::judge::Judge;
use super::report::Failed;
use super::{Search, Shown};
use crate::plan::bands::drawn;
use crate::predict::many::Answered;
use lab::schema::configuration::Configuration;

/// A drive and level of which an array has failed, and what is known of larger numbers of drives.
pub(super) struct Lack {
    /// What has shown it.
    shown: Shown,
    /// The fewest drives that do not clearly lack anything, as far as is known.
    enough: u32,
    /// Steps to the number that is tried next, from the smallest that is not excluded.
    steps: u32,
}

impl Search<'_> {
    /// The next candidate of a drive and level after `failed`; `None` if there are no more drives.
    ///
    /// # Errors
    /// No number of these drives can hold: what the most that fit lack.
    pub(super) fn after(
        &mut self,
        failed: &Candidate,
        shown: Shown,
        queue: &Cheapest,
    ) -> Result<Option<Candidate>, Box<Failed>> {
        self.lacks.remove(&failed.kind());
        let price = self.prices[failed.drive];
        let next = self.question.next(failed, price, self.bays);
        if next.is_some() && self.can_exclude(failed) && !matches!(shown, Shown::WithoutRun) {
            let largest = self.question.largest(failed, price, self.bays);
            if self.clearly_lacks(&largest, &shown, queue) {
                return Err(Box::new(self.most_that_fail(&largest, &shown)));
            }
            let lack = Lack {
                shown,
                enough: largest.count,
                steps: 0,
            };
            self.lacks.insert(failed.kind(), lack);
        }
        Ok(next)
    }

    /// What the most drives that fit lack: they have been tried.
    fn most_that_fail(&self, largest: &Candidate, shown: &Shown) -> Failed {
        let chunk_kib = self.question.chunks(largest.level)[0];
        let usual = self.question.configuration(largest, chunk_kib, true);
        let of_draws = match shown {
            Shown::Draws(failing) if self.judge().bound(&usual).is_none() => {
                let draws = drawn(&usual, &self.predictor.library);
                failing.iter().map(|&at| draws[at].clone()).collect()
            }
            _ => Vec::new(),
        };
        let least_of = |one: &Configuration| self.judge().least_of(one, &self.answered);
        let margin = match of_draws[..] {
            [] => least_of(&usual),
            _ => decides(of_draws.iter().map(least_of).collect()),
        };
        Failed {
            bought: self.bought(largest, chunk_kib),
            margin,
        }
    }

    /// Tries one number of drives if `candidate` may clearly lack what fewer drives lacked. Returns the candidate that is the smallest
    /// now; `None` if `candidate` is to be judged.
    pub(super) fn narrowed(
        &mut self,
        candidate: &Candidate,
        queue: &Cheapest,
    ) -> Option<Candidate> {
        let kind = candidate.kind();
        let mut lack = self.lacks.remove(&kind)?;
        if candidate.count >= lack.enough {
            return None;
        }
        let tried = lack.tried(candidate);
        let price = self.prices[candidate.drive];
        let smallest = if self.clearly_lacks(&tried, &lack.shown, queue) {
            lack.steps = lack.steps * 2 + 1;
            let next = self.question.next(&tried, price, self.bays);
            next.expect("fewer drives were tried than are enough, and those fit")
        } else {
            lack.enough = tried.count;
            lack.steps = self.bays;
            *candidate
        };
        self.lacks.insert(kind, lack);
        Some(smallest)
    }

    /// What is probably run first of a candidate.
    pub(super) fn probable(&self, candidate: &Candidate) -> Configuration {
        let lack = self.lacks.get(&candidate.kind());
        let lack = lack.filter(|lack| candidate.count < lack.enough);
        let tried = lack.map_or(*candidate, |lack| lack.tried(candidate));
        let chunk_kib = self.question.chunks(candidate.level)[0];
        let usual = self.question.configuration(&tried, chunk_kib, true);
        match lack.map(|lack| &lack.shown) {
            Some(Shown::Draws(failing)) => {
                drawn(&usual, &self.predictor.library).swap_remove(failing[0])
            }
            _ => usual,
        }
    }

    /// Whether what is taken for granted holds of this drive and level.
    fn can_exclude(&self, candidate: &Candidate) -> bool {
        let question = self.question;
        let [chunk_kib] = question.chunks(candidate.level)[..] else {
            return false;
        };
        let configuration = question.configuration(candidate, chunk_kib, true);
        !question.run_all && self.has_like_bays && is_small(&configuration)
    }

    /// Whether an array clearly lacks something, by runs of what has `shown` that one with fewer drives does not hold.
    fn clearly_lacks(&mut self, tried: &Candidate, shown: &Shown, queue: &Cheapest) -> bool {
        let chunk_kib = self.question.chunks(tried.level)[0];
        let usual = self.question.configuration(tried, chunk_kib, true);
        if let Some(margin) = self.judge().bound(&usual) {
            self.look_at(tried, false);
            return margin.is_of_possible();
        }
        self.look_at(tried, true);
        match shown {
            Shown::WithoutRun => unreachable!("nothing is tried of it"),
            Shown::Usual => {
                self.answer_with_next(&usual, queue);
                self.judge().lacks_clearly(&usual, &self.answered)
            }
            Shown::Draws(failing) => {
                let draws = drawn(&usual, &self.predictor.library);
                let draws: Vec<_> = failing.iter().map(|&at| draws[at].clone()).collect();
                self.clearly_lacks_in(&draws)
            }
        }
    }

    /// Whether more of these draws than need not hold clearly lack something.
    fn clearly_lacks_in(&mut self, draws: &[Configuration]) -> bool {
        let lacking = |judge: Judge<'_>, answered: &Answered| {
            let lacks = |draw: &&Configuration| {
                let bound = judge.bound(draw);
                bound.map_or_else(
                    || judge.lacks_clearly(draw, answered),
                    |margin| margin.is_of_possible(),
                )
            };
            draws.iter().filter(lacks).count()
        };
        let to_run = draws
            .iter()
            .filter(|draw| self.judge().bound(draw).is_none());
        let to_run: Vec<Configuration> = to_run.cloned().collect();
        self.run_until(&to_run, &|judge, answered| {
            let known = draws
                .iter()
                .filter(|draw| answered.contains_key(*draw) || judge.bound(draw).is_some());
            let enough = known.count() - lacking(judge, answered);
            lacking(judge, answered) > DRAWS_WITHOUT || draws.len() - enough <= DRAWS_WITHOUT
        });
        lacking(self.judge(), &self.answered) > DRAWS_WITHOUT
    }
}

impl Lack {
    /// What is tried next: a few steps from the smallest that is not excluded, but not beyond the middle of what is not known.
    fn tried(&self, smallest: &Candidate) -> Candidate {
        let step = smallest.step();
        let unknown_steps = (self.enough - smallest.count) / step;
        let steps = self.steps.min(unknown_steps / 2);
        Candidate {
            count: smallest.count + steps * step,
            ..*smallest
        }
    }
}
