//! The lab: what is asked of a drive, an array or a simulation, and how far the answer can be
//! trusted.
//!
//! The same workload runs on a drive, on an array and in virtual time, and its figures go into the
//! same result file, so that measured, ideal and predicted lie in one plot. Nothing here does I/O
//! or has a clock.
//!
//! - [`claims`] are what others have published, and the score of whoever predicts it.
//! - [`calculator`] is the plain arithmetic that every prediction has to beat.
//! - [`schema`] is what is written down: configurations, suites, results.
//! - [`workload`] says what is asked for, request by request, and what came of it.
//! - [`statistics`] tells how sure a figure is.

#![forbid(unsafe_code)]

pub mod calculator;
pub mod claims;
pub mod schema;
pub mod statistics;
pub mod workload;
