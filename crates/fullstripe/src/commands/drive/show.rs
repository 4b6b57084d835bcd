//! `drive show`: every figure of a drive with its source.

use super::report::{self, DrivesReport};
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::table::{Give, table};
use anyhow::Result;
use catalogue::sheet::{Figure, Rating, Source};
use catalogue::{Catalogue, Entry};
use clap::Args;
use std::fmt::Write as _;

/// Arguments of `drive show`.
#[derive(Args, Debug)]
pub struct ShowArgs {
    /// Drives, as `drive list` names them.
    #[arg(value_name = "ID", required = true)]
    ids: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `drive show`.
///
/// # Errors
/// There is no such drive, or standard output cannot be written.
pub fn run(args: &ShowArgs) -> Result<()> {
    let catalogue = Catalogue::built_in();
    let entries = super::entries(&catalogue, &args.ids)?;
    if args.json {
        return print_json(&DrivesReport::of(entries));
    }
    let columns = Paper::output().columns;
    let texts: Vec<String> = entries.iter().map(|entry| text(*entry, columns)).collect();
    print_text(&texts.join("\n"))
}

/// Figures that sheets give only of drives for which they matter, so that their absence says nothing.
const OF_SOME: [Rating; 3] = [Rating::WriteSizeKib, Rating::BurstGb, Rating::BurstWriteMbS];

fn text(entry: Entry, columns: Option<usize>) -> String {
    let Entry { family, drive } = entry;
    let mut text = format!(
        "{}: {}, {}, {}, PCIe {}, {}\n",
        drive.id,
        family.name,
        report::capacity(entry),
        family.class,
        report::link(entry),
        family.purpose
    );
    if !drive.aliases.is_empty() {
        let _ = writeln!(text, "  also known as {}", words::and(&drive.aliases));
    }
    let mut rows = vec![["FIGURE", "VALUE", "SOURCE"].map(str::to_owned).to_vec()];
    for (rating, figure) in &drive.ratings {
        rows.extend(lines(*rating, figure));
    }
    text += &table(2, &rows, &[], columns);
    let ratings = Rating::ALL.iter();
    let absent: Vec<&str> = ratings
        .filter(|(rating, _)| !drive.ratings.contains_key(rating))
        .filter(|(rating, _)| !OF_SOME.contains(rating))
        .map(|(_, word)| *word)
        .collect();
    if !absent.is_empty() {
        let _ = writeln!(text, "  no source gives {}", words::and(&absent));
    }
    let note = report::note_on_bursts([entry]);
    if !note.is_empty() {
        let _ = write!(text, "  {note}");
    }
    text.push_str("Sources:\n");
    text += &table(
        2,
        &sources(entry),
        &[Give::Stay, Give::Stay, Give::Stay, Give::Fold, Give::Stay],
        columns,
    );
    let missing = catalogue::profile::missing(drive);
    let missing: Vec<&str> = missing.iter().map(|rating| rating.word()).collect();
    let plan = if report::has_profile(entry) {
        format!("fullstripe plan --drive {} plans arrays of it.\n", drive.id)
    } else if missing.is_empty() {
        format!(
            "fullstripe plan --drive {} plans arrays of it; figures are ranges, for only its data sheet is known.\n",
            drive.id
        )
    } else {
        format!("Without {} there is no plan of it.\n", words::and(&missing))
    };
    text + &plan
}

/// A line for each value of a figure.
fn lines(rating: Rating, figure: &Figure) -> Vec<Vec<String>> {
    let mark = if figure.is_burst { "*" } else { "" };
    let line = |(value, source): (f64, &str)| {
        vec![
            rating.word().to_owned(),
            format!("{}{mark}", report::number(value)),
            source.to_owned(),
        ]
    };
    figure.said().map(line).collect()
}

/// The sources that the drive's figures cite, in the order of the file.
fn sources(entry: Entry) -> Vec<Vec<String>> {
    let Entry { family, drive } = entry;
    let mut rows = vec![
        ["SOURCE", "KIND", "DATE", "TITLE", "ADDRESS"]
            .map(str::to_owned)
            .to_vec(),
    ];
    let is_cited = |source: &&Source| {
        let figures = drive.ratings.values();
        let mut figures = figures.chain([&family.generation, &family.lanes]);
        figures.any(|figure| figure.said().any(|(_, id)| id == source.id))
    };
    rows.extend(family.sources.iter().filter(is_cited).map(|source| {
        vec![
            source.id.clone(),
            source.kind.to_string(),
            source.date.clone(),
            source.title.clone(),
            source.address.clone(),
        ]
    }));
    rows
}
