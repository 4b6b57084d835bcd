//! The lab: loads for a drive, an array or a simulation, and how far the results can be trusted.
//!
//! The same workload runs on a drive, on an array and in virtual time, and its figures are written in the same form, so
//! that measured, ideal and predicted results fit in one plot. Nothing here does I/O or has a clock.
//!
//! - [`claims`] are published results, and the scoring of predictions against them.
//! - [`calculator`] is the plain arithmetic that every prediction has to improve on.
//! - [`fio`] reads what fio has measured, and [`compare`] puts two sets of results beside each other.
//! - [`schema`] defines the files: configurations, suites, results.
//! - [`workload`] generates the requests, and measures the results.
//! - [`statistics`] computes how certain a figure is.

#![forbid(unsafe_code)]

pub mod calculator;
pub mod claims;
pub mod compare;
pub mod fio;
pub mod schema;
pub mod statistics;
pub mod workload;
