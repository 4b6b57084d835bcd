//! `drive compare`: the figures of several drives side by side, each with its ratio to the first drive's.

use super::report::{self, DrivesReport};
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::table::table;
use anyhow::Result;
use catalogue::sheet::{Figure, Rating};
use catalogue::{Catalogue, Entry};
use clap::Args;

/// Arguments of `drive compare`.
#[derive(Args, Debug)]
pub struct CompareArgs {
    /// Drives, as `drive list` names them; the others are compared with the first.
    #[arg(value_name = "ID", required = true, num_args = 2..)]
    ids: Vec<String>,
    /// Print JSON, with the source of each figure.
    #[arg(long)]
    json: bool,
}

/// Runs `drive compare`.
///
/// # Errors
/// There is no such drive, or standard output cannot be written.
pub fn run(args: &CompareArgs) -> Result<()> {
    let catalogue = Catalogue::built_in();
    let entries = super::entries(&catalogue, &args.ids)?;
    if args.json {
        return print_json(&DrivesReport::of(entries));
    }
    print_text(&text(&entries, Paper::output().columns))
}

fn text(entries: &[Entry], columns: Option<usize>) -> String {
    let mut head = vec!["FIGURE".to_owned()];
    head.extend(entries.iter().map(|entry| entry.drive.id.clone()));
    let mut rows = vec![head];
    let mut fact = |name: &str, of: fn(Entry) -> String| {
        let cells = entries.iter().map(|entry| of(*entry));
        rows.push(std::iter::once(name.to_owned()).chain(cells).collect());
    };
    fact("class", |entry| entry.family.class.to_string());
    fact("purpose", |entry| entry.family.purpose.to_string());
    fact("PCIe", report::link);
    let first_kib = entries[0].drive.write_size_kib();
    rows.extend(Rating::ALL.iter().filter_map(|(rating, word)| {
        let figures: Vec<_> = entries
            .iter()
            .map(|entry| entry.drive.ratings.get(rating))
            .collect();
        let sizes = entries.iter().map(|entry| entry.drive.write_size_kib());
        let is_known = figures.iter().any(Option::is_some);
        is_known.then(|| {
            let cells = figures.iter().zip(sizes).map(|(figure, size_kib)| {
                // Rates of writes of unlike sizes have no ratio.
                let is_alike = *rating != Rating::WriteKiops || size_kib == first_kib;
                cell(figures[0].filter(|_| is_alike), *figure)
            });
            std::iter::once((*word).to_owned()).chain(cells).collect()
        })
    }));
    let table = table(0, &rows, &[], columns);
    format!("{table}{}", report::note_on_bursts(entries.iter().copied()))
}

/// A figure, and how many times the first drive's it is, unless one of them is not known, is a range or a burst: ratios of
/// those would say more than the sources do.
fn cell(first: Option<&Figure>, figure: Option<&Figure>) -> String {
    let text = report::figure(figure);
    let is_exact = |figure: &&Figure| !figure.is_burst && figure.low() == figure.high();
    match (first.filter(is_exact), figure.filter(is_exact)) {
        (Some(first), Some(figure)) if first.low() != figure.low() => {
            format!("{text} ({:.2} x)", figure.low() / first.low())
        }
        _ => text,
    }
}
