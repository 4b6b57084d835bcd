//! `drive`: the drives of the catalogue ([`catalogue`]), what their sources say, and how they compare.

mod compare;
mod list;
mod new;
mod report;
mod show;

use anyhow::Result;
use catalogue::sheet::{Class, Purpose, Rating};
use catalogue::{Catalogue, Entry};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Subcommand};
use std::process::ExitCode;

/// Arguments of `drive`.
#[derive(Args, Debug)]
pub struct DriveArgs {
    #[command(subcommand)]
    command: DriveCommand,
}

#[derive(Subcommand, Debug)]
enum DriveCommand {
    /// List the drives of the catalogue
    List(list::ListArgs),
    /// Show what is known of drives, with the source of each figure
    Show(show::ShowArgs),
    /// Show the figures of several drives side by side
    Compare(compare::CompareArgs),
    /// Make a file for `plan --drive` of a drive that is not in the catalogue, from the figures of its data sheet
    New(Box<new::NewArgs>),
}

/// Runs `drive`.
///
/// # Errors
/// There is no such drive, or standard output cannot be written.
pub fn run(args: &DriveArgs) -> Result<ExitCode> {
    match &args.command {
        DriveCommand::List(args) => list::run(args)?,
        DriveCommand::Show(args) => show::run(args)?,
        DriveCommand::Compare(args) => compare::run(args)?,
        DriveCommand::New(args) => new::run(args)?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The drives with these ids.
///
/// # Errors
/// One of them is not in the catalogue.
fn entries<'a>(catalogue: &'a Catalogue, ids: &[String]) -> Result<Vec<Entry<'a>>> {
    let found = ids.iter().map(|id| catalogue.with_id(id));
    Ok(found.collect::<Result<_, _>>()?)
}

fn classes() -> impl TypedValueParser<Value = Class> {
    one_of(Class::ALL)
}

fn purposes() -> impl TypedValueParser<Value = Purpose> {
    one_of(Purpose::ALL)
}

fn ratings() -> impl TypedValueParser<Value = Rating> {
    one_of(Rating::ALL)
}

/// The value whose word is given.
fn one_of<T: Copy + Send + Sync + 'static>(
    all: &'static [(T, &'static str)],
) -> impl TypedValueParser<Value = T> {
    let words = all.iter().map(|(_, word)| *word);
    PossibleValuesParser::new(words).map(|word| {
        let found = all.iter().find(|(_, known)| *known == word);
        found.expect("one of the possible values").0
    })
}
