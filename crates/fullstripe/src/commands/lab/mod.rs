//! `lab`: how good a drive or an array is. So far it reads what fio has measured ([`read`]).

pub mod read;

use anyhow::Result;
use std::process::ExitCode;

/// Arguments of `lab`.
#[derive(clap::Args, Debug)]
pub struct LabArgs {
    #[command(subcommand)]
    what: What,
}

#[derive(clap::Subcommand, Debug)]
enum What {
    /// Show what fio has measured, with intervals, and what makes it doubtful
    Read(read::ReadArgs),
}

/// Runs `lab`.
///
/// # Errors
/// Those of its commands.
pub fn run(args: &LabArgs) -> Result<ExitCode> {
    match &args.what {
        What::Read(args) => read::run(args),
    }
}
