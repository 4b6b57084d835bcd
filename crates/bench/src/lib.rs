//! How fast the engine is on this machine, and how near to what its members
//! allow.
//!
//! The engine runs in this process, in the same loop, over the same real world and with the same
//! request type as when it serves an export; only the client is different. It is a
//! [`drives::port::Port`] that keeps a number of requests outstanding ([`generator`]). In the same
//! run, in alternating order, two more things are measured with the same generator: the generator
//! alone, which is the ceiling of everything else, and one bare member behind the same interface
//! without the engine. What the array costs beyond the bare member is the price of RAID.
//!
//! A figure means little without the figure that was possible: [`roofline`] computes what the
//! members allow, by the formula that it also prints. [`modelled`] asks a modelled member's model for it.
//!
//! In order: [`config`] is what was asked, checked; [`members`] opens and prepares the drives,
//! [`run`] lets generator, [`bare`] member and [`array`] take turns, each for a [`window`] of time,
//! [`outcome`] boils it down, [`report`] prints it. Background jobs are measured by [`job`]; a number
//! of requests instead of a time is what [`counted`] is for; the price list of the engine's work is made
//! by [`cost`].

// `println!` and `eprintln!` panic where nobody reads, and a library has nobody to print for.
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

/// Tests count how often a request takes memory from the allocator.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: drives::counting::CountingAllocator = drives::counting::CountingAllocator;
