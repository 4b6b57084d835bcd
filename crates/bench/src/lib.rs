//! Measures how fast the engine is on this machine, and how close that is to what its members allow.
//!
//! The engine runs in this process, in the same loop, over the same real world and with the same request type as when
//! it serves an export; only the client is different. The client is a [`drives::port::Port`] that keeps a number of
//! requests outstanding ([`generator`]). In the same run, alternating with the array, two more things are measured with
//! the same generator: the generator alone, which is an upper limit for everything else, and one bare member behind the
//! same interface but without the engine. What the array costs beyond the bare member is the cost of RAID.
//!
//! A figure means little without the figure that would be possible: [`roofline`] computes what the members allow, and
//! prints its formula. For a modelled member, [`modelled`] gets its speed from the model.
//!
//! In order: [`config`] is the checked request for a measurement; [`members`] opens and prepares the drives; [`run`]
//! measures generator, [`bare`] member and [`array`] in turn, each for a [`window`] of time; [`outcome`] computes the
//! figures; [`report`] prints them. [`job`] measures background jobs. [`counted`] runs a number of requests instead of
//! a time. [`cost`] makes the price list of the engine's work.

// `println!` and `eprintln!` panic if the output is closed, and a library has no business printing.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

mod array;
mod bare;
pub mod config;
mod cores;
pub mod cost;
pub mod counted;
mod generator;
pub mod job;
mod members;
mod modelled;
pub mod outcome;
pub mod report;
mod roofline;
mod run;
#[cfg(test)]
mod tests;
mod window;

pub use run::measure;

/// Counts allocations. Tests check how often a request allocates memory.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: drives::counting::CountingAllocator = drives::counting::CountingAllocator;
