//! `drive new`: a drive that is not in the catalogue, from the figures of its data sheet, as a file for `plan --drive`.
//!
//! [`figures`] has the figures as options, and as a file (`--from`); [`ask`] asks for the missing ones in a terminal. What the sheet
//! does not say is written to the file as ranges that are usual of such drives ([`catalogue::prior`]).

mod ask;
mod figures;

use super::report::{self, DrivesReport};
use crate::commands::new_file::write_new;
use crate::terminal::print::{print_json, print_note, print_text};
use anyhow::{Result, bail};
use catalogue::draw::{DRAWS, Draw};
use catalogue::sheet::Family;
use catalogue::{Catalogue, Entry, in_file, written};
use clap::Args;
use figures::Figures;
use std::io::IsTerminal;
use std::path::PathBuf;

/// Arguments of `drive new`.
#[derive(Args, Debug)]
pub struct NewArgs {
    /// The drive's name, as its maker sells it.
    name: String,
    /// Take what is not given from this drive of the catalogue.
    #[arg(long, value_name = "ID")]
    like: Option<String>,
    /// Take what is not given from this file: TOML with options as keys, like read_kiops = 900.
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    #[command(flatten)]
    figures: Figures,
    /// Write the drive to this new file; unless given, to standard output.
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON, as `drive show`; needs --output.
    #[arg(long, requires = "output")]
    json: bool,
}

/// Runs `drive new`.
///
/// # Errors
/// A figure is missing or contradicts another, or the file exists or cannot be written.
pub fn run(args: &NewArgs) -> Result<()> {
    let catalogue = Catalogue::built_in();
    let like = args.like.as_deref().map(|id| catalogue.with_id(id));
    let like = like.transpose()?;
    let mut figures = args.figures.clone();
    if let Some(path) = &args.from {
        figures.complete_from(&figures::of_file(path)?);
    }
    let missing = figures.missing(like);
    if !missing.is_empty() {
        let is_asked = std::io::stdin().is_terminal() && std::io::stderr().is_terminal();
        if !is_asked {
            bail!(
                "{} missing: give {}",
                if missing.len() == 1 {
                    "a figure is"
                } else {
                    "figures are"
                },
                words::and(&missing)
            );
        }
        let (input, output) = (std::io::stdin().lock(), std::io::stderr());
        ask::complete(&mut figures, like, input, output)?;
    }
    let family = figures.given(&args.name, like)?.family(like);
    let text = written::text(&family);
    let shown = match &args.output {
        Some(path) => path.display().to_string(),
        None => "the drive".to_owned(),
    };
    check(&shown, &text)?;
    let Some(path) = &args.output else {
        return print_text(&text);
    };
    write_new(path, &text)?;
    let entry = Entry {
        family: &family,
        drive: &family.drives[0],
    };
    if args.json {
        return print_json(&DrivesReport::of([entry]));
    }
    print_note(&told(&shown, &family, entry));
    Ok(())
}

/// Fails unless the text is read as a drive that a plan can draw.
fn check(file: &str, text: &str) -> Result<()> {
    let (family, place) = in_file(file, text)?;
    let drive = &family.drives[place];
    let entry = Entry {
        family: &family,
        drive,
    };
    for draw in std::iter::once(Draw::Usual).chain((0..DRAWS).map(Draw::Number)) {
        catalogue::profile::family(file, entry, draw)?;
    }
    Ok(())
}

/// What is in the new file, and what to do with it.
fn told(file: &str, family: &Family, entry: Entry) -> String {
    format!(
        "{file}: {}, {}: {} of it, and {} of what is usual of such drives\nfullstripe plan --drive {file} --platform s2600wft-8170 \
         plans arrays of it",
        family.name,
        report::capacity(entry),
        words::count(entry.drive.ratings.len(), "figure"),
        words::count(family.priors.len(), "range"),
    )
}
