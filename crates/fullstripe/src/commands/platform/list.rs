//! `platform list`: the machines that `plan` knows, one to a line.

use super::PlatformsReport;
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::table::{Give, table};
use anyhow::Result;
use clap::Args;
use models::platform::Machine;
use planner::predict::built_in::machines;

/// Arguments of `platform list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Print JSON, with the source of each figure.
    #[arg(long)]
    json: bool,
}

/// Runs `platform list`.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &ListArgs) -> Result<()> {
    let machines = machines();
    if args.json {
        return print_json(&PlatformsReport::of(machines));
    }
    print_text(&text(&machines, Paper::output().columns))
}

fn text(machines: &[Machine], columns: Option<usize>) -> String {
    let head = ["ID", "SOCKETS", "CORES", "BAYS", "PCIe", "WHAT IT IS"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(machines.iter().map(row));
    let gives = [
        Give::Stay,
        Give::Stay,
        Give::Stay,
        Give::Stay,
        Give::Stay,
        Give::Fold,
    ];
    table(0, &rows, &gives, columns)
}

fn row(machine: &Machine) -> Vec<String> {
    let processor = &machine.processor;
    let (sockets, cores) = (processor.sockets.value, processor.cores_per_socket.value);
    let generations = machine
        .bays
        .iter()
        .map(|bays| bays.figures.generation.value);
    vec![
        machine.platform.clone(),
        sockets.to_string(),
        (sockets * cores).to_string(),
        super::bays(machine).to_string(),
        format!("{}.0", generations.fold(0.0, f64::max)),
        machine.title.clone(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_platform_has_a_line() {
        let text = text(&machines(), None);
        let lines: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().take(5).collect())
            .collect();
        assert!(
            lines.contains(&vec!["s2600wft-8170", "2", "52", "12", "3.0"]),
            "{text}"
        );
        assert!(
            lines.contains(&vec!["epyc-9554p-24", "1", "64", "24", "5.0"]),
            "{text}"
        );
        assert_eq!(lines.len(), 1 + machines().len());
    }
}
