//! `lab export`: loads as job files of fio ([`lab::fio::job`]).

use crate::commands::new_file::write_new;
use crate::terminal::print::print_text;
use anyhow::{Context, Result, anyhow};
use lab::fio::job::{Target, text, writes};
use planner::plan::loads::of_file;
use std::path::PathBuf;
use std::process::ExitCode;
use words::quoted_for_shell;

/// Arguments of `lab export`.
#[derive(clap::Args, Debug)]
pub struct ExportArgs {
    /// Loads by name, as TOML: a file as `plan --workload` takes it.
    loads: PathBuf,
    /// As job files of fio.
    #[arg(long, required = true)]
    fio: bool,
    /// Where the requests go: a block device, a file, or a volume over NBD (nbd+unix:///NAME?socket=PATH). Nothing is run.
    #[arg(long, value_name = "PATH|NBD")]
    target: String,
    /// The folder for the job files, one for each load.
    #[arg(long, short, value_name = "FOLDER")]
    output: PathBuf,
}

/// Runs `lab export`.
///
/// # Errors
/// The loads cannot be read, fio cannot do one of them, or a job file is there already or cannot be written.
pub fn run(args: &ExportArgs) -> Result<ExitCode> {
    let target = Target::of(&args.target);
    let mut files = Vec::new();
    for (name, load) in of_file(&args.loads)? {
        let job = text(&name, &load, &target)
            .map_err(|why| anyhow!("{}: workload.{name}: {why}", args.loads.display()))?;
        let file = args
            .output
            .join(format!("{}.fio", name.replace(['/', ' '], "-")));
        files.push((file, job, writes(&load)));
    }
    let failed = || format!("cannot make the folder {}", args.output.display());
    std::fs::create_dir_all(&args.output).with_context(failed)?;
    let mut said = String::new();
    for (file, job, writes) in files {
        write_new(&file, &job)?;
        let result = file.with_extension("json");
        let [job, result] =
            [&file, &result].map(|path| quoted_for_shell(&path.display().to_string()));
        let warning = if writes {
            "    # writes to the target"
        } else {
            ""
        };
        said += &format!("fio --output-format=json+ --output={result} {job}{warning}\n");
    }
    print_text(&said)?;
    Ok(ExitCode::SUCCESS)
}
