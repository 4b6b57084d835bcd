//! Runs loads in real time on a drive, a file, memory or a modelled drive, and measures what they do.
//!
//! The requests are those of [`lab::workload::generator`], which virtual time runs too. A load with a demanded rate has intended
//! start times that do not depend on the target: a request that cannot start in time waits, and its response latency counts
//! from the intended start. A generator that waits for a slow target instead, as fio does under a rate, leaves out the requests
//! that would have waited.
//!
//! [`target`] opens what is measured, and refuses what a load would destroy unasked. [`session`] repeats all loads: in a fresh
//! order each time if they only read, otherwise in the order of the file. [`job`] has the runs of each load made, by this program
//! ([`run`]) or by fio ([`by_fio`]), and keeps what they find; a [`journal`] on disk keeps it too, so that an interrupted session
//! goes on. A run has a thread of the machine for each thread of the load ([`issuer`], with the memory of [`payload`]); they begin
//! together at a [`gate`], and issue the [`requests`] of the load or of its trace. [`outcome`] puts the runs of a load together,
//! [`environment`] says under which conditions they ran, and [`marks`] what makes figures doubtful.

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
