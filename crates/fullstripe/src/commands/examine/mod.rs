//! `examine`: prints everything in the metadata of each drive, uninterpreted, or what else the drive holds. Each drive
//! is examined by itself; `assemble` says what the drives make up together.

mod bitmap;
mod log;
mod record;
mod shadow;
mod text;

use crate::terminal::print::{print_json, print_note, print_text};
use anyhow::Result;
use container::foreign::{Ends, search};
use container::open::one_to_look;
use record::RecordReport;
use serde::Serialize;
use shadow::ShadowReport;
use std::process::ExitCode;

/// Arguments of `examine`.
#[derive(clap::Args, Debug)]
pub struct ExamineArgs {
    /// Drives to look at: PATH[,serial=S][,sector=N]. They are opened read-only.
    #[arg(value_name = "DRIVE", required = true)]
    drives: Vec<String>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// What a drive holds.
#[derive(Serialize)]
struct DriveReport {
    /// What the user called it.
    name: String,
    /// Its serial, in the form that the metadata stores.
    serial: String,
    size_bytes: u64,
    sector_bytes: u32,
    model: Option<String>,
    /// The record, if there is a valid one.
    record: Option<RecordReport>,
    /// Why the record is not valid, if there is a damaged one.
    damaged: Option<String>,
    /// The second copy of the record that only fullstripe keeps, if there is one.
    shadow: Option<ShadowReport>,
    /// Signatures of other formats. In an array, signatures at the start of the drive belong to the user's data.
    holds: Vec<String>,
}

#[derive(Serialize)]
struct Examined {
    /// Version of this schema: 1.
    version: u32,
    drives: Vec<DriveReport>,
    /// Drives that could not be read, a sentence each.
    unreadable: Vec<String>,
}

/// Runs `examine`. Exit code 1 if a drive could not be read or its record is damaged.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &ExamineArgs) -> Result<ExitCode> {
    examine(args)
}

fn examine(args: &ExamineArgs) -> Result<ExitCode> {
    let mut all = Examined {
        version: 1,
        drives: Vec::new(),
        unreadable: Vec::new(),
    };
    for spec in &args.drives {
        match look(spec) {
            Ok(report) => all.drives.push(report),
            Err(error) => all.unreadable.push(format!("{error:#}")),
        }
    }
    let failed =
        !all.unreadable.is_empty() || all.drives.iter().any(|drive| drive.damaged.is_some());
    if args.json {
        print_json(&all)?;
    } else {
        let texts: Vec<String> = all.drives.iter().map(text::of_drive).collect();
        print_text(&texts.join("\n"))?;
        for sentence in &all.unreadable {
            print_note(&format!("fullstripe: {sentence}"));
        }
    }
    Ok(ExitCode::from(u8::from(failed)))
}

fn look(spec: &str) -> Result<DriveReport> {
    let probed = one_to_look(spec)?;
    let ends = Ends::read(&probed)?;
    let (record, damaged) = match &probed.found {
        Ok(Some(found)) => (Some(record::of(&probed, found)), None),
        Ok(None) => (None, None),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(DriveReport {
        name: probed.drive.name().to_owned(),
        serial: probed.serial.to_string(),
        size_bytes: probed.drive.size_bytes(),
        sector_bytes: probed.drive.sector_bytes(),
        model: probed.drive.model(),
        record,
        damaged,
        shadow: shadow::of(&probed),
        holds: search(&ends)
            .into_iter()
            .map(|finding| finding.what)
            .collect(),
    })
}
