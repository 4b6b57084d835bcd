//! `platform discover`: the machine at hand as a platform for plans, with what of it cannot be seen.

use super::{PlatformsReport, show};
use crate::commands::new_file::write_new;
use crate::terminal::print::{print_json, print_note, print_text};
use anyhow::{Result, ensure};
use clap::Args;
use machine::files::Files;
use machine::seen::Seen;
use models::platform::Machine;
use planner::discovered::{platform, written};
use std::path::{Path, PathBuf};

/// Arguments of `platform discover`.
#[derive(Args, Debug)]
pub struct DiscoverArgs {
    /// Write the platform to this new file, for `plan --platform`.
    #[arg(short, long, value_name = "FILE.toml", value_parser = toml_file)]
    output: Option<PathBuf>,
    /// Take what the machine does not show from this platform; unless given, from the one that is most like the machine.
    #[arg(long, value_name = "ID")]
    like: Option<String>,
    /// Look below this folder, with copies of /sys and /proc of another machine.
    #[arg(
        long,
        value_name = "FOLDER",
        default_value = "/",
        hide_default_value = true
    )]
    root: PathBuf,
    /// Print JSON, with the source of each figure.
    #[arg(long)]
    json: bool,
}

/// `plan --platform` takes a name for a file if it has a slash or this ending.
fn toml_file(text: &str) -> Result<PathBuf, String> {
    match text.ends_with(".toml") {
        true => Ok(PathBuf::from(text)),
        false => Err("a platform is a TOML file; give it a name that ends with .toml".to_owned()),
    }
}

/// Runs `platform discover`.
///
/// # Errors
/// The machine has no NVMe drive, there is no platform `--like`, or the file exists or cannot be written.
pub fn run(args: &DiscoverArgs) -> Result<()> {
    let machine = machine_below(&args.root, args.like.as_deref())?;
    if let Some(path) = &args.output {
        write_new(path, &written::text(&machine))?;
    }
    if args.json {
        print_json(&PlatformsReport::of(vec![machine]))?;
    } else {
        print_text(&show::text(&machine))?;
    }
    if let Some(path) = &args.output {
        let file = path.display();
        print_note(&format!(
            "{file}: written; fullstripe plan --platform {file} plans arrays in this machine"
        ));
    }
    Ok(())
}

/// The machine whose `/sys` and `/proc` are below `root`.
///
/// # Errors
/// There is no such folder or no such platform, or the machine has no NVMe drive.
pub fn machine_below(root: &Path, like: Option<&str>) -> Result<Machine> {
    ensure!(
        root.join("sys").is_dir(),
        "{} has no folder \"sys\": name the folder that copies of /sys and /proc are in",
        root.display()
    );
    platform(&Seen::read(&Files::below(root)), "this-machine", like)
}
