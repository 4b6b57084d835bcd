//! `platform`: the machines that `plan` knows, the one at hand, and how drives are connected in them.

pub mod discover;
mod list;
mod show;

use anyhow::{Context, Result, bail};
use clap::{Args, Subcommand};
use models::document::{Refusal, read};
use models::library::is_file;
use models::nearest::nearest;
use models::platform::domain::Domain;
use models::platform::{Machine, Node};
use planner::predict::built_in::machines;
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
    /// Describe this machine as a platform: processors, memory, PCIe links and drives
    Discover(discover::DiscoverArgs),
    /// List the platforms that `plan` knows
    List(list::ListArgs),
    /// Show a platform's processors, memory and tree of PCIe links
    Show(show::ShowArgs),
}

/// Runs `platform`.
///
/// # Errors
/// There is no such platform, the machine at hand makes none, or standard output cannot be written.
pub fn run(args: &PlatformArgs) -> Result<ExitCode> {
    match &args.command {
        PlatformCommand::Discover(args) => discover::run(args)?,
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
    platforms: Vec<Platform>,
}

/// A platform with what follows from its tree.
#[derive(Serialize)]
struct Platform {
    #[serde(flatten)]
    machine: Machine,
    /// Its volume management devices (VMD), each with the bays and drives behind it.
    vmd_domains: Vec<Domain>,
}

impl PlatformsReport {
    fn of(machines: Vec<Machine>) -> PlatformsReport {
        let platforms = machines.into_iter().map(|machine| Platform {
            vmd_domains: machine.vmd_domains(),
            machine,
        });
        PlatformsReport {
            version: 1,
            platforms: platforms.collect(),
        }
    }
}

/// The platform that comes with the program by this id, or that this file describes.
///
/// # Errors
/// There is none; the sentence names the nearest ids. The file cannot be read, or describes no machine.
fn named(name: &str) -> Result<Machine> {
    if !is_file(name) {
        return with_id(machines(), name);
    }
    let text = std::fs::read_to_string(name).with_context(|| format!("cannot read {name}"))?;
    let machine: Machine = read(name, &text)?;
    let graph = machine.graph();
    graph.map_err(|error| Refusal::new(name, error.key, error.rule))?;
    Ok(machine)
}

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
