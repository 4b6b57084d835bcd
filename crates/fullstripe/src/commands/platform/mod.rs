//! `platform`: the machines that `plan` knows, and how drives are connected in them.

mod list;
mod show;

use anyhow::{Result, bail};
use clap::{Args, Subcommand};
use models::nearest::nearest;
use models::platform::{Machine, Node};
use serde::Serialize;
use std::process::ExitCode;

/// Arguments of `platform`.
#[derive(Args, Debug)]
pub struct PlatformArgs {
    #[command(subcommand)]
    command: PlatformCommand,
}

#[derive(Subcommand, Debug)]
enum PlatformCommand {
    /// List the platforms that `plan` knows
    List(list::ListArgs),
    /// Show a platform's processors, memory and tree of PCIe links
    Show(show::ShowArgs),
}

/// Runs `platform`.
///
/// # Errors
/// There is no such platform, or standard output cannot be written.
pub fn run(args: &PlatformArgs) -> Result<ExitCode> {
    match &args.command {
        PlatformCommand::List(args) => list::run(args)?,
        PlatformCommand::Show(args) => show::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Platforms, as JSON: in the form of their files, each number with its source and its use.
#[derive(Serialize)]
struct PlatformsReport {
    /// Version of this schema: 1.
    version: u32,
    platforms: Vec<Machine>,
}

impl PlatformsReport {
    fn of(platforms: Vec<Machine>) -> PlatformsReport {
        PlatformsReport {
            version: 1,
            platforms,
        }
    }
}

/// The platform with this id, of `all`.
///
/// # Errors
/// There is none; the sentence names the nearest ids.
fn with_id(all: Vec<Machine>, id: &str) -> Result<Machine> {
    let offered = nearest(id, all.iter().map(|machine| machine.platform.as_str()));
    let found = all.into_iter().find(|machine| machine.platform == id);
    match found {
        Some(machine) => Ok(machine),
        None => bail!("\"{id}\" is no platform; nearest: {offered}"),
    }
}

/// How many drives fit.
fn bays(machine: &Machine) -> f64 {
    machine
        .bays
        .iter()
        .map(|bays| bays.figures.count.value)
        .sum()
}

/// A link: `3.0 x16`.
fn link(generation: f64, lanes: f64) -> String {
    format!("{generation}.0 x{lanes}")
}

/// The node's own link.
fn link_of(node: &Node) -> String {
    link(node.figures.generation.value, node.figures.lanes.value)
}
