//! The hidden command by which a server has a child of its own change the kernel's NVMe target: see [`server::nvmet`].

use crate::terminal::print::print_text;
use anyhow::Result;
use clap::Args;
use server::nvmet::carry_out;
use std::process::ExitCode;

/// What the server wants.
#[derive(Args, Debug)]
pub struct NvmetHelperArgs {
    /// The order, as JSON
    order: String,
}

/// Carries the order out, and prints the answer.
///
/// # Errors
/// One sentence.
pub fn run(args: &NvmetHelperArgs) -> Result<ExitCode> {
    print_text(&carry_out(&args.order)?)?;
    Ok(ExitCode::SUCCESS)
}
