//! `examine`: prints everything in the metadata of each drive, uninterpreted, or what else the drive holds
//! ([`container::examine`]).

mod text;

use crate::terminal::print::{print_json, print_note, print_text};
use anyhow::Result;
use container::examine;
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

/// Runs `examine`. Exit code 1 if a drive could not be read or its record is damaged.
///
/// # Errors
/// Standard output cannot be written.
pub fn run(args: &ExamineArgs) -> Result<ExitCode> {
    let all = examine::examine(&args.drives);
    let failed = all.is_damaged();
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
