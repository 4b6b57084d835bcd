//! Runs loads in real time on a drive, a file, memory or a modelled drive, and measures what they do.
//!
//! The requests are those of [`lab::workload::generator`], which virtual time runs too. A load with a demanded rate has intended
//! start times that do not depend on the target: a request that cannot start in time waits, and its response latency counts
//! from the intended start. A generator that waits for a slow target instead, as fio does under a rate, leaves out the requests
//! that would have waited.
//!
//! In order: [`target`] opens what is measured, and refuses what a load would destroy unasked. [`session`] repeats all loads, each
//! repetition in a fresh order if they only read; [`job`] keeps what its runs have found, also in a [`journal`], with which an interrupted session goes on. [`run`] carries out one run of one load, on one thread of the machine for each
//! thread of the load ([`issuer`], over the memory of [`payload`]; they begin together at a [`gate`]) for the [`requests`] of a load or a recorded trace, or by fio ([`by_fio`]). [`outcome`] puts the runs of a load together, [`environment`]
//! says under which conditions they ran, and [`marks`] what makes figures doubtful.

#![forbid(unsafe_code)]
// `println!` and `eprintln!` panic if the output is closed, and a library has no business printing.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod by_fio;
mod environment;
mod gate;
mod issuer;
mod job;
pub mod journal;
mod marks;
mod outcome;
mod payload;
pub mod requests;
mod run;
pub mod session;
pub mod target;
#[cfg(test)]
mod tests;
