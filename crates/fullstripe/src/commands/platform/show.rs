//! `platform show`: a machine's processors and memory, and its tree of PCIe links down to the bays.

use super::{PlatformsReport, link, link_of};
use crate::terminal::print::{print_json, print_text};
use anyhow::Result;
use clap::Args;
use models::platform::{Bays, Installed, Kind, Machine, Node, Split};
use models::tables::Tables;
use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Arguments of `platform show`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// A platform, as `platform list` names it, or a file.
    #[arg(value_name = "ID|FILE")]
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
    let machine = super::named(&args.id)?;
    if args.json {
        return print_json(&PlatformsReport::of(vec![machine]));
    }
    print_text(&text(&machine))
}

/// The machine as a tree, with the drives that are in it.
pub fn text(machine: &Machine) -> String {
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
    text += &domains(machine);
    text += &slots(machine);
    for gap in &machine.not_seen {
        let _ = writeln!(text, "  not seen: {gap}");
    }
    text + &format!(
        "figures: {}; --json gives each with its source\n",
        statuses(machine)
    )
}

/// The drives, or the bays, by the VMD that they are behind.
fn domains(machine: &Machine) -> String {
    let domains = machine.vmd_domains();
    if domains.is_empty() {
        return String::new();
    }
    let mut text = "  behind VMD, in PCI domains of their own: the firmware's list of devices and software without a driver for \
                    VMD lack these\n"
        .to_owned();
    for domain in domains {
        let number = domain
            .pci_domain
            .map_or_else(String::new, |number| format!(" (PCI domain {number})"));
        let inside = match domain.drives.as_slice() {
            [] => words::count(domain.bays.len(), "bay"),
            drives => words::and(drives),
        };
        let _ = writeln!(text, "    {}{number}: {inside}", domain.vmd);
    }
    text
}

/// The slots of which it is known how they are split among several drives.
fn slots(machine: &Machine) -> String {
    let mut text = String::new();
    for slot in &machine.slots {
        let split = match slot.split {
            None => continue,
            Some(Split::ByItself) => "is split by itself",
            Some(Split::BySetting) => "is split by a setting of the firmware",
            Some(Split::No) => "is not split: it takes one drive without a switch",
        };
        let here = match slot.node {
            Some(_) => "",
            None => "; no drives are in it here",
        };
        let _ = writeln!(text, "  slot \"{}\" {split}{here}", slot.name);
    }
    text
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
        let inside = |drive: &&Installed| {
            let row = drive.bay.rsplit_once('-').map(|(row, _)| row);
            row == Some(bays.name.as_str())
        };
        for drive in machine.drives.iter().filter(inside) {
            let _ = writeln!(text, "{indent}  {}", row_of_drive(drive));
        }
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

/// A drive, and its link if it is less than drive and slot support.
fn row_of_drive(drive: &Installed) -> String {
    let model = drive
        .model
        .as_deref()
        .unwrap_or("a drive of an unknown model");
    let row = format!(
        "{}: {model}, {}",
        drive.name,
        format_args!("{:.0} GB", drive.capacity_gb)
    );
    let row = match drive.queues {
        Some(queues) => format!("{row}, {}", words::count(queues as usize, "queue")),
        None => row,
    };
    let now = drive.generation.zip(drive.lanes);
    let possible = drive.possible_generation.zip(drive.possible_lanes);
    match (now, possible) {
        (Some(now), Some(possible)) if now != possible => {
            let said = |(generation, lanes): (u64, u64)| link(generation as f64, lanes as f64);
            format!(
                "{row}; its link runs at PCIe {} of {}",
                said(now),
                said(possible)
            )
        }
        _ => row,
    }
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
    use planner::predict::built_in::machines;

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
