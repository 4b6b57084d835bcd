//! How sure a figure is.
//!
//! A figure without its interval is a guess, and samples of one run are not independent: a request
//! that waited long stands beside others that did. So:
//!
//! - the beginning of a run, before it has settled, is cut by a rule and not by taste
//!   ([`warm_up`]);
//! - a mean over one run has the interval of its batch means ([`batch_means`]);
//! - a percentile comes from a merged histogram ([`histogram`]) and has the interval of its order
//!   statistics ([`order_statistics`]), for as many samples as the run is worth, not for as many as
//!   it has;
//! - the unit of repetition is a fresh run with another seed, all configurations share their seeds,
//!   and nothing is judged with fewer than five ([`replications`]);
//! - a verdict is `marginal` when the interval straddles the bound ([`interval`]).
//!
//! All intervals are for a confidence of 95 %. Everything is computed by `+ - * /` and square
//! roots, in a fixed order: the same samples give the same bits on every machine.

pub mod batch_means;
pub mod histogram;
pub mod interval;
pub mod order_statistics;
pub mod replications;
pub mod student;
pub mod warm_up;

#[cfg(test)]
mod queue;
