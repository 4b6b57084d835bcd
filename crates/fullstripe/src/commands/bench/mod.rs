//! `bench`: measures how fast the engine is on this machine ([`bench`]).

mod args;
mod cost;

pub use args::BenchArgs;

use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use serde::Serialize;
use std::process::ExitCode;

/// Measures what `args` ask for and prints the result.
///
/// # Errors
///
/// One sentence when the requested configuration is impossible, a member cannot be used, or a request
/// failed.
pub fn run(args: &BenchArgs) -> anyhow::Result<ExitCode> {
    if let Some(done) = args.cost() {
        return done;
    }
    let config = args.config()?;
    if let Some(job) = args.job() {
        let outcome = bench::job::measure(&config, job)?;
        return print(args, &outcome, &outcome.text());
    }
    if let Some(requests) = args.requests() {
        let outcome = bench::counted::measure(&config, requests)?;
        return print(args, &outcome, &outcome.text());
    }
    let outcome = bench::measure(&config)?;
    let text = Paper::output().fold(&bench::report::text(&outcome), bench::report::NAME_WIDTH);
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
