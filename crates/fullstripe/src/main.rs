//! The `fullstripe` command: see `fullstripe --help`.

// `println!` and `eprintln!` panic when the reader has closed the pipe; `terminal::print` does not.
#![cfg_attr(not(test), deny(clippy::print_stdout, clippy::print_stderr))]

use clap::{ArgMatches, ColorChoice, FromArgMatches, Parser, Subcommand};
use commands::exit_codes;
use drives::counting::CountingAllocator;
use std::ffi::OsString;
use std::os::unix::net::UnixStream;
use std::process::ExitCode;
use tokio::signal::unix::SignalKind;

mod client;
mod commands;
mod demo;
mod help;
mod manual;
mod terminal;

/// Counts allocations, so that `bench` can show that requests make none.
#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// RAID on the CPU for NVMe drives, in userspace, with no licence key.
#[derive(Parser)]
#[command(name = "fullstripe", version, max_term_width = 100, after_help = exit_codes::HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
    /// Colours: always, never, or auto (on terminals, unless NO_COLOR is set)
    #[arg(long, global = true, value_name = "WHEN", default_value_t = ColorChoice::Auto, hide_possible_values = true, hide_default_value = true)]
    color: ColorChoice,
}

#[derive(Subcommand)]
enum Command {
    /// Create a volume on drives
    Create(commands::create::CreateArgs),
    /// Serve an array until SIGTERM, SIGINT or `fullstripe stop`
    Serve(commands::serve::ServeArgs),
    #[command(flatten)]
    Client(client::ClientCommand),
    /// Show the arrays on this machine's drives
    List(commands::list::ListArgs),
    /// Show what the metadata of drives says
    Examine(commands::examine::ExamineArgs),
    /// Say what `serve` would do with these drives, without doing it
    Assemble(commands::assemble::AssembleArgs),
    /// Show the plan of one request: what is read and written, in which order, and why
    Explain(commands::explain::ExplainArgs),
    /// Delete a volume
    Destroy(commands::destroy::DestroyArgs),
    /// Change the write-hole protection of a volume that is not being served
    WriteHole(commands::write_hole::WriteHoleArgs),
    /// Have fullstripe serve an array at boot, and Linux md leave it alone
    Enable(commands::boot::enable::EnableArgs),
    /// Give an array that fullstripe serves at boot back to Linux md
    Release(commands::boot::release::ReleaseArgs),
    /// Check or show the settings file: the arrays that this machine serves at boot
    Config(commands::config::ConfigArgs),
    /// Try the alerts of the settings file: whom this machine tells of a failed drive
    Alert(commands::alert::AlertArgs),
    /// Switch the arrays that systemd serves to this program, while what uses their devices waits
    Upgrade(commands::upgrade::UpgradeArgs),
    /// Check whether this machine suits an array, and say what to change
    Doctor(commands::doctor::DoctorArgs),
    /// Save the metadata of drives to a file, or restore it
    Metadata(commands::metadata::MetadataArgs),
    /// Measure the engine's speed in this process, on newly created members
    Bench(commands::bench::BenchArgs),
    /// Test the engine in virtual time against every kind of drive failure
    Sim(commands::sim::SimArgs),
    /// List, show and compare drives that are on sale, or describe another by its data sheet
    Drive(commands::drive::DriveArgs),
    /// List and show the machines that plans know, and how drives are connected in them
    Platform(commands::platform::PlatformArgs),
    /// Plan an array: predict its performance on a platform, and what limits it
    Plan(commands::plan::PlanArgs),
    /// Run loads on drives, read what fio has measured, and say how far to trust it
    Lab(commands::lab::LabArgs),
    /// Predict the performance of the setups in a file, in virtual time
    Predict(commands::predict::PredictArgs),
    /// Score predictions against published measurements
    Claims(commands::claims::ClaimsArgs),
    /// Show, on files, that data survives failed drives and crashes, and that speed scales
    Demo(demo::DemoArgs),
    /// What udev and systemd ask at boot
    #[command(hide = true)]
    Boot(commands::boot::answers::BootArgs),
    /// What the server has a child of its own do with the kernel's NVMe target
    #[command(hide = true, name = server::nvmet::COMMAND)]
    NvmetHelper(commands::nvmet_helper::NvmetHelperArgs),
    /// Print the script that makes a shell complete commands, options and drives
    Completions(manual::CompletionsArgs),
    /// Write a manual page for each command
    Man(manual::ManArgs),
}

/// tokio panics if it lacks descriptors for the signals that it is to catch. It needs fewer than the six that are tried here.
///
/// # Errors
/// The limit of open files (`ulimit -n`) is too low for any command.
fn may_open_files() -> anyhow::Result<()> {
    let pairs: std::io::Result<Vec<_>> = (0..3).map(|_| UnixStream::pair()).collect();
    pairs.map(drop).map_err(|error| {
        anyhow::anyhow!("cannot begin: {error}; raise the limit of open files with ulimit -n")
    })
}

/// A write beyond the file size limit (`ulimit -f`) then fails with an error, which names the file. Without a handler
/// the signal SIGXFSZ would end the process. The signal is not ignored instead, because the commands of hooks would
/// inherit that.
fn outlive_file_size_limit() {
    const SIGXFSZ: i32 = 25;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_io()
        .build();
    if let Ok(runtime) = runtime {
        let _entered = runtime.enter();
        // The handler stays installed when this function returns.
        let _ = tokio::signal::unix::signal(SignalKind::from_raw(SIGXFSZ));
    }
}

fn main() -> ExitCode {
    if let Err(error) = may_open_files() {
        return exit_codes::report(&error, false);
    }
    manual::offer_completions(help::command);
    outlive_file_size_limit();
    let arguments: Vec<OsString> = std::env::args_os().collect();
    let command = help::command().color(color_of(&arguments));
    let parsed = command.try_get_matches_from(&arguments);
    let parsed = parsed.and_then(|matches| {
        let json = wants_json(&matches);
        Ok((Cli::from_arg_matches(&matches)?, json))
    });
    match parsed {
        Ok((line, json)) => {
            terminal::choose(line.color);
            run(line.command).unwrap_or_else(|error| exit_codes::report(&error, json))
        }
        Err(error) => exit_codes::report_usage(&error, &arguments),
    }
}

/// The choice of `--color` for help texts and usage errors, which are printed before anything has been parsed.
fn color_of(arguments: &[OsString]) -> ColorChoice {
    let words = || arguments.iter().take_while(|word| *word != "--");
    let after = words().zip(words().skip(1));
    let beside = after.filter(|(option, _)| *option == "--color");
    let beside = beside.filter_map(|(_, choice)| choice.to_str());
    let joined = words().filter_map(|word| word.to_str()?.strip_prefix("--color="));
    let choice = joined.chain(beside).next();
    choice
        .and_then(|choice| choice.parse().ok())
        .unwrap_or_default()
}

/// Whether `--json` was given to the command or to one of its subcommands.
fn wants_json(matches: &ArgMatches) -> bool {
    let here = matches.try_get_one::<bool>("json").ok().flatten();
    let below = matches.subcommand().map(|(_, matches)| matches);
    here == Some(&true) || below.is_some_and(wants_json)
}

fn run(command: Command) -> anyhow::Result<ExitCode> {
    match command {
        Command::Create(args) => commands::create::run(&args),
        Command::Serve(args) => commands::serve::run(&args),
        Command::Client(command) => client::run(&command),
        Command::List(args) => commands::list::run(&args),
        Command::Examine(args) => commands::examine::run(&args),
        Command::Assemble(args) => commands::assemble::run(&args),
        Command::Explain(args) => commands::explain::run(&args),
        Command::Destroy(args) => commands::destroy::run(&args),
        Command::WriteHole(args) => commands::write_hole::run(&args),
        Command::Enable(args) => commands::boot::enable::run(&args),
        Command::Release(args) => commands::boot::release::run(&args),
        Command::Config(args) => commands::config::run(&args),
        Command::Alert(args) => commands::alert::run(&args),
        Command::Upgrade(args) => commands::upgrade::run(&args),
        Command::Doctor(args) => commands::doctor::run(&args),
        Command::Metadata(args) => commands::metadata::run(&args),
        Command::Bench(args) => commands::bench::run(&args),
        Command::Sim(args) => commands::sim::run(&args),
        Command::Drive(args) => commands::drive::run(&args),
        Command::Platform(args) => commands::platform::run(&args),
        Command::Plan(args) => commands::plan::run(&args),
        Command::Lab(args) => commands::lab::run(&args),
        Command::Predict(args) => commands::predict::run(&args),
        Command::Claims(args) => commands::claims::run(&args),
        Command::Demo(args) => demo::run(&args),
        Command::Boot(args) => commands::boot::answers::run(&args),
        Command::NvmetHelper(args) => commands::nvmet_helper::run(&args),
        Command::Completions(args) => manual::completions(&args),
        Command::Man(args) => manual::man(&args, help::command()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COMMANDS: &str = include_str!("../../../docs/commands.md");

    /// The command lines in backquotes that begin with the program's name.
    fn lines_of(page: &str) -> Vec<&str> {
        let spans = page.split('`').skip(1).step_by(2);
        spans
            .filter(|span| span.starts_with("fullstripe "))
            .collect()
    }

    #[test]
    fn every_line_of_the_table_of_commands_is_understood() {
        let lines = lines_of(COMMANDS);
        assert!(lines.len() > 30, "{lines:?}");
        for line in lines {
            if let Err(error) = Cli::try_parse_from(line.split(' ')) {
                panic!("{line}: {error}");
            }
        }
    }

    #[test]
    fn help_has_colours_as_the_line_says() {
        let color = |line: &str| {
            let words: Vec<OsString> = line.split(' ').map(OsString::from).collect();
            color_of(&words)
        };
        assert_eq!(color("fullstripe --color never --help"), ColorChoice::Never);
        assert_eq!(color("fullstripe x --color=always"), ColorChoice::Always);
        for line in [
            "fullstripe",
            "fullstripe --color",
            "fullstripe -- --color never",
        ] {
            assert_eq!(color(line), ColorChoice::Auto, "{line}");
        }
    }

    #[test]
    fn every_row_of_the_table_of_commands_has_all_programs() {
        let rows = COMMANDS.lines().filter(|line| line.starts_with("| "));
        for row in rows {
            assert_eq!(row.matches(" | ").count(), 5, "{row}");
        }
    }
}
