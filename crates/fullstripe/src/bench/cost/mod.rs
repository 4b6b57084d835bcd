//! `bench --cost-table`: what each class of the engine's work costs, in instructions and bytes touched.
//!
//! A planner that runs the engine in virtual time charges processor time for what the engine has
//! counted ([`engine::stats`]). This makes the price list, in five steps ([`measure`]):
//!
//! 1. [`scene`]s make the engine do much of one kind of work each: the engine itself, in its own loop,
//!    in a [`world`] that costs next to nothing, where answers come at once and time is virtual. So
//!    the price is that of RAID alone, without the kernel, the drives, the export and the client.
//! 2. [`count`] runs each scene in a process of its own, with N and with 2 N units of work, under a tool
//!    that counts instructions. The difference is free of what starting costs.
//! 3. [`fit`] finds the prices of the classes that explain all scenes of a level best, by least squares
//!    of relative errors, none negative. What the world itself costs has been measured without an
//!    engine and is subtracted before.
//! 4. Other scenes, which are in the [`catalogue`] for that alone, are predicted and counted.
//! 5. The [`table`] has it all: prices, machine, method, and how far off predictions are.
//!
//! Bytes that the processor itself touches, parity and log units, are priced over real memory ([`bytes`]).

mod bytes;
mod catalogue;
mod count;
mod fit;
mod measure;
mod scene;
mod table;
#[cfg(test)]
mod tests;
mod world;

use crate::terminal::print::print_text;
use anyhow::{Context, Result};
use engine::layout::Level;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// The arguments of `bench` that are about costs.
#[derive(clap::Args, Debug)]
#[group(id = "cost", multiple = false)]
pub struct CostArgs {
    /// Instead of measuring an array, count the instructions of each class of the engine's work, into
    /// the file of --output; needs valgrind, or a processor whose counters `perf` can read
    #[arg(long, requires = "output")]
    cost_table: bool,
    /// One scene of the cost table, as the cost table runs it
    #[arg(long, value_name = "NAME", hide = true, requires = "requests")]
    cost_scene: Option<String>,
}

impl CostArgs {
    /// Does what was asked, if anything was; of one level only, if one was named.
    ///
    /// # Errors
    ///
    /// One sentence when nothing here can count instructions, a scene fails, or the file cannot be
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
    let done = match bytes::run(name, units) {
        Some(done) => done?,
        None => scene::run(name, units)?,
    };
    print_text(&format!("{}\n", serde_json::to_string(&done)?))?;
    Ok(ExitCode::SUCCESS)
}

fn write_table(path: &Path, only: Option<Level>) -> Result<ExitCode> {
    let tool = count::Tool::choose()?;
    let table = measure::measure(&tool, only)?;
    let mut text = serde_json::to_string_pretty(&table)?;
    text.push('\n');
    std::fs::write(path, text)
        .with_context(|| format!("cannot write the cost table to {}", path.display()))?;
    print_text(&format!("{}\n", table.summary(path)))?;
    Ok(ExitCode::SUCCESS)
}
