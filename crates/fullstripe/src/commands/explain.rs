//! `explain`: the plan of one request: which drives are read and written, in which order, and why.
//!
//! The plans come from the engine's own planners, which get the same input as in the engine ([`explain::report`]). The
//! array is that on the given drives, in its present state, or an imaginary one.

use crate::commands::arguments::{parse_chunk, parse_level, parse_size};
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use anyhow::{Result, anyhow, bail};
use engine::layout::Level;
use engine::plan::text::render;
use engine::units::Slot;
use explain::array::Array;
use explain::report::{self, Explanation, Operation};
use explain::{Asked, Background};
use std::fmt::Write as _;
use std::process::ExitCode;
use words::{count, exact_size, size};

/// Blanks before the continuation of a folded line, so that a step continues beside its drive.
const HANGING: usize = 4;

/// Most plans that are printed, because further ones repeat; JSON has them all.
const PLANS_SHOWN: usize = 8;

/// Arguments of `explain`.
#[derive(clap::Args, Debug)]
pub struct ExplainArgs {
    /// Name of the volume; left out with --level.
    #[arg(required_unless_present = "level")]
    volume: Option<String>,
    /// Its drives: PATH[,serial=S][,sector=N].
    #[arg(value_name = "DRIVE", conflicts_with = "level")]
    drives: Vec<String>,
    /// Explain a read of SIZE bytes at byte OFFSET of the volume, like 12k@1m.
    #[arg(
        long,
        value_name = "SIZE@OFFSET",
        conflicts_with = "write",
        required_unless_present = "write"
    )]
    read: Option<String>,
    /// Explain a write.
    #[arg(long, value_name = "SIZE@OFFSET")]
    write: Option<String>,
    /// Pretend that the drive in this slot has failed; can be given several times.
    #[arg(long, value_name = "SLOT")]
    failed: Vec<u8>,
    /// Explain for an imaginary array of this level, without drives.
    #[arg(long, value_parser = parse_level, requires = "members", conflicts_with = "volume")]
    level: Option<Level>,
    /// With --level: the number of drives.
    #[arg(long, requires = "level")]
    members: Option<u32>,
    /// With --level: the chunk size; 128k unless given.
    #[arg(long, value_parser = parse_chunk, requires = "level")]
    chunk: Option<u32>,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

/// Runs `explain`.
///
/// # Errors
/// There is no such volume, the request does not fit it, or the remaining drives cannot carry it out.
pub fn run(args: &ExplainArgs) -> Result<ExitCode> {
    let mut array = match args.level {
        Some(level) => Array::described(level, args.members.unwrap_or(0), args.chunk)?,
        None => Array::on_drives(args.volume.as_deref().unwrap_or_default(), &args.drives)?,
    };
    for &slot in &args.failed {
        array.fail(slot)?;
    }
    let (is_write, request) = match (&args.read, &args.write) {
        (Some(request), _) => (false, request),
        (None, Some(request)) => (true, request),
        (None, None) => bail!("name a request with --read or --write"),
    };
    let asked = parse_request(is_write, request)?;
    let explanation = report::explain(&array, asked)
        .map_err(|why| anyhow!(why.in_words(&format!("\"{request}\""), &array)))?;
    if args.json {
        print_json(&explanation)?;
    } else {
        let text = text(&array, &explanation);
        print_text(&Paper::output().fold(&text, HANGING))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// A request as the user writes it: `12k@1m`.
fn parse_request(is_write: bool, request: &str) -> Result<Asked> {
    let Some((size, offset)) = request.split_once('@') else {
        bail!("\"{request}\" is no request; write SIZE@OFFSET, like 12k@1m");
    };
    let length_bytes = parse_size(size).map_err(anyhow::Error::msg)?;
    let offset_bytes = if offset == "0" {
        0
    } else {
        parse_size(offset).map_err(anyhow::Error::msg)?
    };
    Ok(Asked {
        is_write,
        offset_bytes,
        length_bytes,
    })
}

/// The request and its plans, as text.
fn text(array: &Array, explanation: &Explanation) -> String {
    let mut text = head(array, explanation);
    let plans = &explanation.plans;
    for report in plans.iter().take(PLANS_SHOWN) {
        text.push('\n');
        if let Some(row) = report.row {
            let parity = report.parity_slot.map_or(String::new(), |slot| {
                format!(", parity on {}", array.drive_name(Slot(slot)))
            });
            let _ = writeln!(text, "row {row}{parity}");
        }
        let _ = writeln!(text, "{}", report.why);
        let names = |slot, _shadow| array.drive_name(slot);
        let steps = render(&report.plan, &array.shape, names).to_string();
        for line in steps.lines() {
            let _ = writeln!(text, "  {line}");
        }
    }
    let hidden = plans.len().saturating_sub(PLANS_SHOWN);
    if hidden > 0 {
        let _ = writeln!(
            text,
            "\n… and {} (all with --json)",
            count(hidden, "more plan")
        );
    }
    let totals = &explanation.totals;
    let _ = writeln!(
        text,
        "\nIn all {}: {} ({}), {} ({}).",
        count(plans.len(), "plan"),
        count(totals.reads as usize, "member read"),
        size(totals.read_bytes),
        count(totals.writes as usize, "member write"),
        size(totals.write_bytes)
    );
    if explanation.operation == Operation::Write && array.shape.level != Level::Raid0 {
        text.push_str(
            "The first write after a pause also marks the volume dirty on every member, before it.\n",
        );
    }
    text
}

fn head(array: &Array, explanation: &Explanation) -> String {
    let shape = &array.shape;
    let verb = match explanation.operation {
        Operation::Read => "Read",
        Operation::Write => "Write",
    };
    let chunk = match array.chunk_bytes() {
        0 => String::new(),
        bytes => format!(", chunk {}", size(bytes.into())),
    };
    let volume = array
        .name
        .as_ref()
        .map_or("of a".to_owned(), |name| format!("of volume {name},"));
    let mut text = format!(
        "{verb} {} at offset {} {volume} {} of {}{chunk}.\n",
        exact_size(explanation.length_bytes),
        exact_size(explanation.offset_bytes),
        shape.level,
        count(usize::from(shape.members), "drive")
    );
    if array.state.lost.0 != 0 {
        let _ = writeln!(text, "Lost: {}.", array.lost_in_words());
    }
    match array.state.background {
        Background::None => {}
        Background::Sync { done_bytes } => {
            let _ = writeln!(
                text,
                "Redundancy is established up to {} of each member.",
                size(done_bytes)
            );
        }
        Background::Rebuild { slot, done_bytes } => {
            let _ = writeln!(
                text,
                "{} is rebuilt up to {}.",
                array.drive_name(slot),
                size(done_bytes)
            );
        }
    }
    text
}
