//! `drive list`: the drives of the catalogue, one to a line.

use super::report::{self, DrivesReport};
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::rows::folded;
use anyhow::Result;
use catalogue::filter::Filter;
use catalogue::sheet::{Class, Purpose, Rating};
use catalogue::{Catalogue, Entry};
use clap::Args;

/// Arguments of `drive list`.
#[derive(Args, Debug)]
pub struct ListArgs {
    /// Only drives of this maker.
    #[arg(long)]
    maker: Option<String>,
    /// Only drives with this kind of memory.
    #[arg(long, value_parser = super::classes())]
    class: Option<Class>,
    /// Only drives that are made for this.
    #[arg(long, value_parser = super::purposes())]
    purpose: Option<Purpose>,
    /// Only drives of this PCIe generation.
    #[arg(long, value_name = "N")]
    generation: Option<u8>,
    /// Only drives with at least this capacity, in TB (10¹² bytes).
    #[arg(long, value_name = "TB")]
    at_least: Option<f64>,
    /// Only drives with at most this capacity, in TB (10¹² bytes).
    #[arg(long, value_name = "TB")]
    at_most: Option<f64>,
    /// Print JSON, with the source of each figure.
    #[arg(long)]
    json: bool,
}

impl ListArgs {
    fn filter(&self) -> Filter {
        Filter {
            maker: self.maker.clone(),
            class: self.class,
            purpose: self.purpose,
            generation: self.generation,
            at_least_tb: self.at_least,
            at_most_tb: self.at_most,
        }
    }
}

/// Runs `drive list`.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &ListArgs) -> Result<()> {
    let catalogue = Catalogue::built_in();
    let filter = args.filter();
    let wanted: Vec<Entry> = catalogue
        .entries()
        .filter(|entry| filter.wants(*entry))
        .collect();
    if args.json {
        return print_json(&DrivesReport::of(wanted));
    }
    print_text(&text(&wanted, Paper::output().columns))
}

/// The columns between the id and the sources.
const RATES: [(Rating, &str); 5] = [
    (Rating::ReadKiops, "READ KIOPS"),
    (Rating::WriteKiops, "WRITE KIOPS"),
    (Rating::ReadMbS, "READ MB/s"),
    (Rating::WriteMbS, "WRITE MB/s"),
    (Rating::EnduranceDwpd, "DWPD"),
];
/// Columns before which a row is broken on a narrow terminal.
const BREAKS: [usize; 2] = [4, 6];

fn text(entries: &[Entry], columns: Option<usize>) -> String {
    if entries.is_empty() {
        return "No drive of the catalogue is like that.\n".to_owned();
    }
    let mut head = ["ID", "CLASS", "PCIe", "CAPACITY"]
        .map(str::to_owned)
        .to_vec();
    head.extend(RATES.map(|(_, title)| title.to_owned()));
    head.extend(["SOURCES", "PLAN"].map(str::to_owned));
    let mut rows = vec![head];
    rows.extend(entries.iter().map(|entry| row(*entry)));
    let table = folded(0, &rows, &BREAKS, columns);
    format!("{table}{}", report::note_on_bursts(entries.iter().copied()))
}

fn row(entry: Entry) -> Vec<String> {
    let Entry { family, drive } = entry;
    let mut row = vec![
        drive.id.clone(),
        family.class.word().to_owned(),
        report::link(entry),
        report::capacity(entry),
    ];
    row.extend(RATES.map(|(rating, _)| report::rating(entry, rating)));
    row.push(report::who(entry).to_owned());
    let plan = match (
        report::has_profile(entry),
        catalogue::profile::missing(drive).is_empty(),
    ) {
        (true, _) => "figures",
        (false, true) => "ranges",
        (false, false) => "-",
    };
    row.push(plan.to_owned());
    row
}
