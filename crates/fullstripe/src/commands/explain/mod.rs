//! `explain`: the plan of one request: which drives are read and written, in which order, and why.
//!
//! The plans come from the engine's own planners, which get the same input as in the engine ([`explain::cut`]). The array is
//! that on the given drives, in its present state, or an imaginary one.

mod text;

use crate::commands::arguments::parse_chunk;
use crate::commands::arguments::{parse_level, parse_size};
use crate::terminal::Paper;
use crate::terminal::print::{print_json, print_text};
use anyhow::{Result, bail};
use engine::layout::Level;
use explain::array::Array;
use explain::cut::{self, Asked};
use explain::report::report;
use std::process::ExitCode;
use words::exact_size;

/// Largest request explained; the plans of larger ones only repeat.
const REQUEST_BYTES_MAX: u64 = 64 << 20;

/// Blanks before the continuation of a folded line, so that a step continues beside its drive.
const HANGING: usize = 4;

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
    explain(args)
}

fn explain(args: &ExplainArgs) -> Result<ExitCode> {
    let mut array = match args.level {
        Some(level) => Array::described(level, args.members.unwrap_or(0), args.chunk)?,
        None => Array::on_drives(args.volume.as_deref().unwrap_or_default(), &args.drives)?,
    };
    for &slot in &args.failed {
        array.fail(slot)?;
    }
    let asked = asked(args, &array)?;
    let works = cut::plans(&array.shape, &array.state, asked).map_err(|_| {
        anyhow::anyhow!(
            "this request cannot be carried out: {} does not survive the loss of {}",
            array.shape.level,
            array.lost_in_words()
        )
    })?;
    let explanation = report(&array, asked, &works);
    if args.json {
        print_json(&explanation)?;
    } else {
        let text = text::of(&array, asked, &works, &explanation);
        print_text(&Paper::output().fold(&text, HANGING))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn asked(args: &ExplainArgs, array: &Array) -> Result<Asked> {
    let (is_write, text) = match (&args.read, &args.write) {
        (Some(text), _) => (false, text),
        (None, Some(text)) => (true, text),
        (None, None) => bail!("name a request with --read or --write"),
    };
    let Some((size, offset)) = text.split_once('@') else {
        bail!("\"{text}\" is no request; write SIZE@OFFSET, like 12k@1m");
    };
    let length_bytes = parse_size(size).map_err(anyhow::Error::msg)?;
    let offset_bytes = if offset == "0" {
        0
    } else {
        parse_size(offset).map_err(anyhow::Error::msg)?
    };
    let block_bytes = u64::from(array.shape.block_bytes);
    if !length_bytes.is_multiple_of(block_bytes) || !offset_bytes.is_multiple_of(block_bytes) {
        bail!(
            "\"{text}\": size and offset must be multiples of the block size, {block_bytes} bytes"
        );
    }
    if length_bytes > REQUEST_BYTES_MAX {
        bail!("\"{text}\" is too large to explain; ask for at most 64m");
    }
    let end = offset_bytes.checked_add(length_bytes);
    if end.is_none_or(|end| end > array.shape.size_bytes) {
        bail!(
            "\"{text}\" ends past the volume, which has {}",
            exact_size(array.shape.size_bytes)
        );
    }
    Ok(Asked {
        is_write,
        offset_bytes,
        length_bytes,
    })
}
