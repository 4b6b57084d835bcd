//! `claims`: scores predictions against published figures ([`planner::claims`]).

mod dof;
mod text;

use super::progress::{HowArgs, PointsBar};
use crate::terminal::print::{print_json, print_text};
use anyhow::Result;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use lab::claims::book::{Use, frozen};
use planner::claims::{Choice, scored};
use std::process::ExitCode;

/// Arguments of `claims`.
#[derive(clap::Args, Debug)]
pub struct ClaimsArgs {
    /// Only rows of this use: V (evidence), C (constants may be fitted to them), F (rules); S (specification) and
    /// U (unusable, with the reason) are never scored.
    #[arg(long, value_name = "USE", value_parser = uses())]
    only: Option<Use>,
    /// Only rows of this publication, like M; can be given several times.
    #[arg(long, value_name = "ID")]
    seed: Vec<String>,
    /// Run each ordering among the V rows again without the mechanism that it names: an ordering that still holds is
    /// trivial.
    #[arg(long)]
    mechanisms: bool,
    /// Only the fitted constants: how many there are beside the published numbers, and how far off the prediction of
    /// each number is when the number is left out of the fit. Takes minutes.
    #[arg(long, conflicts_with = "mechanisms")]
    dof: bool,
    /// Predict drives that have a profile from their data sheets in the catalogue instead: what would have been known without
    /// their results.
    #[arg(long, conflicts_with_all = ["mechanisms", "dof"])]
    from_sheets: bool,
    #[command(flatten)]
    how: HowArgs,
    /// Print JSON; it contains no times measured on this machine.
    #[arg(long)]
    json: bool,
}

fn uses() -> impl TypedValueParser<Value = Use> {
    PossibleValuesParser::new(["V", "C", "F", "S", "U"]).map(|name| match name.as_str() {
        "V" => Use::V,
        "C" => Use::C,
        "F" => Use::F,
        "S" => Use::S,
        _ => Use::U,
    })
}

/// Runs `claims`.
///
/// # Errors
/// There is no such publication, or standard output cannot be written.
pub fn run(args: &ClaimsArgs) -> Result<ExitCode> {
    if args.dof {
        let (questions, whole) = frozen()?;
        dof::run(&whole, &questions, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let choice = Choice {
        only: args.only,
        seeds: args.seed.clone(),
        mechanisms: args.mechanisms,
        deep: args.how.deep,
        from_sheets: args.from_sheets,
    };
    let bar = PointsBar::default();
    let report = scored(&choice, args.how.work.work(), &bar)?;
    if args.json {
        print_json(&report)?;
    } else {
        print_text(&text::text(&report))?;
    }
    Ok(ExitCode::SUCCESS)
}
