//! placeholder
use std::process::ExitCode;
/// Placeholder.
#[derive(clap::Args)]
pub struct BenchArgs {}
/// Placeholder.
pub fn run(_args: &BenchArgs) -> anyhow::Result<ExitCode> {
    Ok(ExitCode::SUCCESS)
}
