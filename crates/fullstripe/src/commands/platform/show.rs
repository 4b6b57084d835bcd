//! `platform show`: a machine's processors and memory, and its tree of PCIe links down to the bays.

use super::{PlatformsReport, link, link_of};
use crate::terminal::print::{print_json, print_text};
use anyhow::Result;
use clap::Args;
use models::platform::{Bays, Kind, Machine, Node};
use models::tables::Tables;
use planner::predict::library::machines;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Arguments of `platform show`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// A platform, as `platform list` names it.
    #[arg(value_name = "ID")]
    id: String,
    /// Print JSON, with the source of each figure.
    #[arg(long)]
    json: bool,
}

/// Runs `platform show`.
///
/// # Errors
/// There is no such platform, or standard output cannot be written.
pub fn run(args: &ShowArgs) -> Result<()> {
    let machine = super::with_id(machines(), &args.id)?;
    if args.json {
        return print_json(&PlatformsReport::of(vec![machine]));
    }
    print_text(&text(&machine))
}

fn text(machine: &Machine) -> String {
    let Machine {
        platform,
        title,
        processor,
        memory,
        interconnect,
        ..
    } = machine;
    let mut text = format!(
        "{platform}: {title}\n  processors: {} of {} cores at {} GHz\n  memory: {} GB/s of each socket\n",
        words::count(processor.sockets.value as usize, "socket"),
        processor.cores_per_socket.value,
        processor.clock_ghz.value,
        memory.socket_gb_s.value
    );
    if processor.sockets.value > 1.0 {
        let _ = writeln!(
            text,
            "  between sockets: {} GB/s each way, {} ns",
            interconnect.direction_gb_s.value, interconnect.latency_ns.value
        );
    }
    for socket in 0..processor.sockets.value as usize {
        let name = format!("socket-{socket}");
        let _ = writeln!(text, "  {name}");
        text += &below(machine, &name, 2);
    }
    text + &format!(
        "figures: {}; each with its source: fullstripe platform show {platform} --json\n",
        statuses(machine)
    )
}

/// What is connected to `parent`, and all that is behind it.
fn below(machine: &Machine, parent: &str, depth: usize) -> String {
    let mut text = String::new();
    let indent = "  ".repeat(depth);
    for node in machine.nodes.iter().filter(|node| node.parent == parent) {
        let _ = writeln!(text, "{indent}{}: {}", node.name, what(node));
        text += &below(machine, &node.name, depth + 1);
    }
    for bays in machine.bays.iter().filter(|bays| bays.parent == parent) {
        let _ = writeln!(text, "{indent}{}: {}", bays.name, row_of_bays(bays));
    }
    text
}

fn what(node: &Node) -> String {
    let kind = match node.kind {
        Kind::RootPort => "root port",
        Kind::Vmd => "volume management device (VMD)",
        Kind::Retimer => "retimer",
        Kind::Switch => "switch",
        Kind::Chipset => "chipset",
    };
    format!("{kind}, PCIe {}", link_of(node))
}

fn row_of_bays(bays: &Bays) -> String {
    let figures = &bays.figures;
    format!(
        "{}, PCIe {} each",
        words::count(figures.count.value as usize, "bay"),
        link(figures.generation.value, figures.lanes.value)
    )
}

/// How many figures have each status.
fn statuses(machine: &Machine) -> String {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    machine.each_figure(&mut |_, _, figure| *counts.entry(figure.r#use.word()).or_default() += 1);
    let counted: Vec<String> = counts
        .iter()
        .map(|(status, count)| format!("{count} {status}"))
        .collect();
    words::and(&counted)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bay_is_in_the_tree() {
        for machine in machines() {
            let text = text(&machine);
            for bays in &machine.bays {
                let line = format!("{}: {}", bays.name, row_of_bays(bays));
                assert!(text.contains(&line), "{text}");
            }
        }
    }

    #[test]
    fn a_tree_shows_what_shares_a_link() {
        let machine = super::super::with_id(machines(), "s2600wft-6154-x8").expect("it is there");
        let text = text(&machine);
        let switch = text
            .lines()
            .find(|line| line.contains(": switch, PCIe 3.0 x8"));
        assert!(switch.is_some(), "{text}");
        let error = super::super::with_id(machines(), "s2600wft-6154").unwrap_err();
        assert!(
            error.to_string().contains("nearest: \"s2600wft-"),
            "{error}"
        );
    }
}
