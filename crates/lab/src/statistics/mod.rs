//! How certain a figure is.
//!
//! A figure without its interval is a guess. Samples of one run are not independent, because a request that waited long
//! is near others that did too. Therefore:
//!
//! - the beginning of a run, before it has settled, is cut off by a fixed rule ([`warm_up`]);
//! - a mean over one run has the interval of its batch means ([`batch_means`]);
//! - a percentile comes from a merged histogram ([`histogram`]) and has the interval of its order statistics
//!   ([`order_statistics`]), for the number of independent samples that the run is worth;
//! - what is repeated is a fresh run with another seed; all configurations use the same seeds, and no verdict is given
//!   with fewer than five runs ([`replications`]);
//! - two sets of runs are compared by ranks ([`rank_sum`]), and of many comparisons only so many are told that few of them are
//!   chance ([`false_discovery`]);
//! - rounds of writes are steady by SNIA's two rules, or they are not ([`steady_state`]);
//! - a verdict is `marginal` when the interval straddles the bound ([`interval`]).
//!
//! All intervals are for a confidence of 95 %. Everything is computed by `+ - * /` and square
//! roots, in a fixed order: the same samples give the same bits on every machine.

pub mod batch_means;
pub mod false_discovery;
pub mod histogram;
pub mod interval;
pub mod order_statistics;
pub mod rank_sum;
pub mod replications;
pub mod steady_state;
pub mod student;
pub mod warm_up;

#[cfg(test)]
mod queue;
