//! The `fullstripe` command: see `fullstripe --help`.

use clap::{Parser, Subcommand};
use std::process::ExitCode;

mod api;
mod bench;
mod commands;
mod container;
mod serve;

/// RAID on the CPU for NVMe drives, in userspace, with no licence key.
#[derive(Parser)]
#[command(name = "fullstripe", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure the engine in this process, on fresh members.
    Bench(bench::BenchArgs),
    /// Serve an array until SIGTERM, SIGINT or `fullstripe stop`.
    Serve(serve::ServeArgs),
}

fn main() -> ExitCode {
    let result = match Cli::parse().command {
        Command::Bench(args) => bench::run(&args),
        Command::Serve(args) => serve::run(&args),
    };
    match result {
        Ok(code) => code,
        Err(error) => {
            eprintln!("fullstripe: {error:#}");
            ExitCode::from(1)
        }
    }
}
