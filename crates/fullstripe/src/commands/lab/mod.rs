//! `lab`: how good a drive or an array is. It runs loads ([`run`](mod@run)), writes them as job files of fio ([`export`]), shows what it
//! or fio has measured ([`read`]), and compares it ([`compare`]).

pub mod compare;
pub mod export;
mod files;
pub mod read;
pub mod run;
mod table;

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
    /// Compare two sets of results by the ranks of their runs
    Compare(compare::CompareArgs),
    /// Write loads as job files of fio; `lab read` shows what fio measures with them
    Export(export::ExportArgs),
    /// Show what fio or "lab run" has measured, with intervals, and what makes it doubtful
    Read(read::ReadArgs),
    /// Run loads on a drive, a file or a modelled drive, and say how far to trust the figures
    Run(run::RunArgs),
}

/// Runs `lab`.
///
/// # Errors
/// Those of its commands.
pub fn run(args: &LabArgs) -> Result<ExitCode> {
    match &args.what {
        What::Compare(args) => compare::run(args),
        What::Export(args) => export::run(args),
        What::Read(args) => read::run(args),
        What::Run(args) => run::run(args),
    }
}
