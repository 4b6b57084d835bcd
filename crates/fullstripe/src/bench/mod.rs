//! `fullstripe bench`: how fast the engine is on this machine, and how near to what its members
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
//! In order: [`args`] reads what was asked, [`config`] checks it, [`members`] opens and prepares the drives,
//! [`run`] lets generator, [`bare`] member and [`array`] take turns, each for a [`window`] of time,
//! [`outcome`] boils it down, [`report`] prints it. Background jobs are measured by [`job`]; a number
//! of requests instead of a time is what [`counted`] is for; the price list of the engine's work is made
//! by [`cost`].

mod args;
mod array;
mod bare;
pub(crate) mod config;
mod cores;
mod cost;
mod counted;
mod generator;
mod job;
mod members;
mod modelled;
pub(crate) mod outcome;
mod report;
mod roofline;
mod run;
#[cfg(test)]
mod tests;
mod window;

pub use args::BenchArgs;
pub(crate) use run::measure;

use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use serde::Serialize;
use std::process::ExitCode;

/// Measures what `args` ask for and prints the result.
///
/// # Errors
///
/// One sentence when something asked for is impossible, a member cannot be used, or a request
/// failed.
pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if let Some(done) = args.cost() {
        return done;
    }
    let config = args.config()?;
    if let Some(job) = args.job() {
        let outcome = job::measure(&config, job)?;
        return print(args, &outcome, &outcome.text());
    }
    if let Some(requests) = args.requests() {
        let outcome = counted::measure(&config, requests)?;
        return print(args, &outcome, &outcome.text());
    }
    let outcome = measure(&config)?;
    let text = Paper::output().fold(&report::text(&outcome), report::NAME_WIDTH);
    print(args, &outcome, &text)
}

fn print(args: &BenchArgs, outcome: &impl Serialize, text: &str) -> anyhow::Result<ExitCode> {
    if args.json() {
        print_json(outcome)?;
    } else {
        print_text(text)?;
    }
    Ok(ExitCode::SUCCESS)
}
