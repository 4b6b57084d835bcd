//! `bench --cost-table`: writes the costs of the engine's work ([`bench::cost`]) to a file.

use crate::terminal::print::{print_note, print_text};
use anyhow::{Context, Result};
use bench::cost;
use engine::layout::Level;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `bench` that are about costs.
#[derive(clap::Args, Debug)]
#[group(id = "cost", multiple = false)]
pub struct CostArgs {
    /// Instead of measuring an array, count the instructions of each class of the engine's work, and
    /// write them to the file of --output; needs valgrind, or a processor whose counters `perf` can read
    #[arg(long, requires = "output")]
    cost_table: bool,
    /// One scene of the cost table, as the cost table runs it
    #[arg(long, value_name = "NAME", hide = true, requires = "requests")]
    cost_scene: Option<String>,
}

impl CostArgs {
    /// Writes the cost table or runs a scene, if one was requested; `level` limits the table to one level.
    ///
    /// # Errors
    ///
    /// One sentence when no program on this machine can count instructions, a scene fails, or the file cannot be
    /// written.
    pub fn run(
        &self,
        level: Option<Level>,
        requests: Option<u64>,
        output: Option<&PathBuf>,
    ) -> Option<Result<ExitCode>> {
        if let Some(name) = &self.cost_scene {
            return Some(print_scene(name, requests.unwrap_or(1)));
        }
        let path = output.filter(|_| self.cost_table)?;
        Some(write_table(path, level))
    }
}

fn print_scene(name: &str, units: u64) -> Result<ExitCode> {
    print_text(&format!("{}\n", cost::scene(name, units)?))?;
    Ok(ExitCode::SUCCESS)
}

fn write_table(path: &Path, only: Option<Level>) -> Result<ExitCode> {
    let table = cost::table(only, &print_note)?;
    let mut text = serde_json::to_string_pretty(&table)?;
    text.push('\n');
    std::fs::write(path, text)
        .with_context(|| format!("cannot write the cost table to {}", path.display()))?;
    print_text(&format!("{}\n", table.summary(path)))?;
    Ok(ExitCode::SUCCESS)
}
