//! The command line of `bench`; a checked [`Config`] comes out of it.

use super::cost::CostArgs;
use crate::commands::arguments::{parse_chunk, parse_level};
use crate::commands::write_hole::WriteHole;
use anyhow::{anyhow, bail, ensure};
use bench::config::{BenchJob, Config, Workload};
use drives::completion::CompletionMode;
use drives::spec::parse_size;
use engine::layout::Level;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Measure the engine's speed in this process, on newly created members.
#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    /// RAID level: 0, 1, 5 or 10
    #[arg(long, value_parser = parse_level, required_unless_present = "cost")]
    level: Option<Level>,
    /// What each member is: ram:256m, null:64g (both take
    /// ,read-iops=50k,write-iops=20k,bandwidth=2g,latency=80us, or ,model=p4510-2tb,state=steady), or a
    /// path in which {} stands for the member's number from 0 on; its content is overwritten
    #[arg(long, value_name = "SPEC", required_unless_present = "cost")]
    member: Option<String>,
    /// Number of members
    #[arg(long, required_unless_present = "cost")]
    count: Option<u32>,
    /// Workload: randread, randwrite, read, write, or rw:PCT, random with PCT percent reads; or a
    /// background job without clients: rebuild, scrub
    #[arg(long, default_value = "randread", value_parser = parse_operation)]
    rw: Measured,
    /// Bytes of one request
    #[arg(long, value_name = "SIZE", default_value = "4k", value_parser = parse_bytes)]
    bs: u32,
    /// Requests outstanding, all shards together
    #[arg(long, value_name = "N", default_value_t = 32)]
    qd: u32,
    /// Engine threads, each on its own core
    #[arg(long, value_name = "N", default_value_t = 1)]
    shards: u8,
    /// Slot whose member is missing from the start; with --rw rebuild, the slot that is rebuilt
    #[arg(long, value_name = "SLOT")]
    failed: Option<u8>,
    /// Chunk size of the array
    #[arg(long, value_name = "SIZE", default_value = "64k", value_parser = parse_chunk)]
    chunk: u32,
    /// Protection of writes that a crash interrupts
    #[arg(long, value_enum, default_value = "off")]
    write_hole: WriteHole,
    /// How long the array is measured; the comparisons add about half of that
    #[arg(long, default_value = "5s", value_parser = parse_time)]
    time: Duration,
    /// Issue exactly N requests, once and without comparisons, instead of measuring a time: for
    /// profilers and for counting instructions
    #[arg(long, value_name = "N", conflicts_with = "time")]
    requests: Option<u64>,
    /// How threads learn of completed I/O: interrupt, polling, hybrid, or hybrid:MICROSECONDS
    #[arg(long, default_value = "interrupt", value_name = "MODE")]
    completion: CompletionMode,
    /// Use files and block devices although they hold data, and overwrite it
    #[arg(long)]
    overwrite: bool,
    /// Print JSON
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    cost: CostArgs,
    /// File for the cost table
    #[arg(short, long, value_name = "FILE", requires = "cost_table")]
    output: Option<PathBuf>,
}

impl BenchArgs {
    /// Whether to print JSON.
    pub fn json(&self) -> bool {
        self.json
    }

    /// Runs the cost table or scene, if one was requested, and returns its outcome.
    pub fn cost(&self) -> Option<anyhow::Result<ExitCode>> {
        self.cost
            .run(self.level, self.requests, self.output.as_ref())
    }

    /// The background job to measure; none if requests are measured.
    pub fn job(&self) -> Option<BenchJob> {
        match self.rw {
            Measured::Requests(_) => None,
            Measured::Job(job) => Some(job),
        }
    }

    /// The exact number of requests to issue; none if a time is measured.
    pub fn requests(&self) -> Option<u64> {
        self.requests
    }

    /// The checked configuration.
    ///
    /// # Errors
    ///
    /// See [`Config::check`].
    pub fn config(&self) -> anyhow::Result<Config> {
        let (Some(level), Some(member), Some(count)) = (self.level, &self.member, self.count)
        else {
            bail!("an array is missing; give --level, --member and --count");
        };
        let drives = count as usize;
        level
            .check_members(drives)
            .map_err(|error| anyhow!("--count: {error}"))?;
        let config = Config {
            level,
            member: member.clone(),
            count: u8::try_from(drives)?,
            workload: match self.rw {
                Measured::Requests(workload) => workload,
                Measured::Job(_) => Workload::READS,
            },
            block_bytes: self.bs,
            queue_depth: self.qd,
            shards: self.shards,
            failed: self.failed,
            chunk_bytes: self.chunk,
            write_hole: self.write_hole.policy(),
            time: self.time,
            completion: self.completion,
            overwrite: self.overwrite,
        };
        config.check()?;
        if self.requests.is_some() {
            ensure!(
                self.shards == 1 && self.job().is_none(),
                "--requests counts the requests of one shard; leave out --shards, and give --rw a \
                 workload"
            );
        }
        Ok(config)
    }
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Measured {
    Requests(Workload),
    Job(BenchJob),
}

fn parse_operation(text: &str) -> Result<Measured, String> {
    match text {
        "rebuild" => Ok(Measured::Job(BenchJob::Rebuild)),
        "scrub" => Ok(Measured::Job(BenchJob::Scrub)),
        _ => parse_workload(text).map(Measured::Requests),
    }
}

fn parse_workload(text: &str) -> Result<Workload, String> {
    let workload = |read_percent, random| {
        Ok(Workload {
            read_percent,
            random,
        })
    };
    match text {
        "randread" => workload(100, true),
        "randwrite" => workload(0, true),
        "read" => workload(100, false),
        "write" => workload(0, false),
        _ => {
            let percent = text
                .strip_prefix("rw:")
                .and_then(|percent| percent.parse().ok());
            match percent.filter(|&percent| percent <= 100) {
                Some(percent) => workload(percent, true),
                None => Err(
                    "give randread, randwrite, read, write, rebuild, scrub, or rw: and the \
                             percentage of reads, like rw:70"
                        .to_owned(),
                ),
            }
        }
    }
}

fn parse_bytes(text: &str) -> Result<u32, String> {
    let size = parse_size(text).and_then(|size| u32::try_from(size).ok());
    size.ok_or_else(|| "give bytes, or a number with k or m for KiB or MiB, like 64k".to_owned())
}

fn parse_time(text: &str) -> Result<Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_ms = match unit {
        "ms" => Some(1),
        "" | "s" => Some(1000),
        "m" => Some(60_000),
        _ => None,
    };
    let number: Option<u64> = number.parse().ok();
    let ms = number
        .zip(unit_ms)
        .and_then(|(number, unit_ms)| number.checked_mul(unit_ms));
    ms.map(Duration::from_millis)
        .ok_or_else(|| "give a time like 500ms, 5s or 2m".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use drives::spec::Target;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn config(text: &str) -> Result<Config, String> {
        let words = std::iter::once("bench").chain(text.split_whitespace());
        let line = Line::try_parse_from(words).map_err(|error| error.to_string())?;
        line.args.config().map_err(|error| format!("{error:#}"))
    }

    #[test]
    fn the_whole_line() {
        let line = "--level 5 --member ram:64m,read-iops=1k --count 4 --rw rw:70 --bs 8k --qd 9 \
                    --shards 2 --failed 3 --chunk 128k --time 2m --completion polling --json";
        let config = config(line).unwrap();
        assert_eq!(config.level, Level::Raid5);
        assert_eq!(
            config.workload,
            Workload {
                read_percent: 70,
                random: true
            }
        );
        assert_eq!((config.block_bytes, config.chunk_bytes), (8192, 131_072));
        assert_eq!([0, 1].map(|shard| config.shard_queue_depth(shard)), [5, 4]);
        assert_eq!(config.failed, Some(3));
        assert_eq!(
            (config.time, config.completion),
            (Duration::from_secs(120), CompletionMode::Polling)
        );
    }

    #[test]
    fn workloads_print_as_they_are_written() {
        for text in ["randread", "randwrite", "read", "write", "rw:70", "rw:1"] {
            assert_eq!(parse_workload(text).unwrap().to_string(), text);
        }
    }

    #[test]
    fn paths_are_numbered() {
        let config = config("--level 0 --member /tmp/d{}.img,serial=S{} --count 3").unwrap();
        let spec = config.spec(2).unwrap();
        assert_eq!(spec.target, Target::Path("/tmp/d2.img".into()));
        assert_eq!(spec.serial.as_deref(), Some("S2"));
    }

    #[test]
    fn what_is_impossible_is_said_in_one_sentence() {
        for (line, wanted) in [
            (
                "--level 6 --member ram:1m --count 4",
                "is no level here; use 0, 1, 5 or 10",
            ),
            (
                "--level 0 --member rum --count 2",
                "one path for 2 members; write {} where",
            ),
            (
                "--level 0 --member ram:x --count 2",
                "--member: member \"ram:x\": ram: cannot be",
            ),
            (
                "--level 0 --member ram:1m --count 0",
                "--count: RAID 0 needs 1 to 64 drives, not 0",
            ),
            (
                "--level 5 --member ram:1m --count 300",
                "--count: RAID 5 needs 3 to 64 drives, not 300",
            ),
            (
                "--level 0 --member ram:1m --count 2 --bs 1000",
                "--bs 1000 is impossible; give a",
            ),
            (
                "--level 0 --member ram:1m --count 2 --bs 64m",
                "multiple of 512 bytes up to 32m",
            ),
            (
                "--level 0 --member ram:1m --count 2 --bs 0",
                "give bytes, or a number",
            ),
            (
                "--level 0 --member ram:1m --count 2 --qd 0",
                "--qd 0 is impossible; give 1 to",
            ),
            (
                "--level 0 --member ram:1m --count 2 --qd 1 --shards 2",
                "a shard without requests",
            ),
            (
                "--level 0 --member ram:1m --count 2 --qd 9999 --bs 4m",
                "8 GiB of payload; lower",
            ),
            (
                "--level 0 --member ram:1m --count 2 --shards 5",
                "--shards 5 is impossible",
            ),
            (
                "--level 5 --member ram:1m --count 3 --failed 3",
                "names no slot of 3 members",
            ),
            (
                "--level 0 --member ram:1m --count 2 --time 1ms",
                "give 50ms to 1h",
            ),
            (
                "--level 0 --member ram:1m --count 2 --time x",
                "give a time like 500ms",
            ),
            (
                "--level 0 --member ram:1m --count 2 --rw rw:101",
                "give randread, randwrite",
            ),
            (
                "--level 0 --member ram:1m --count 2 --shards 2 --requests 9",
                "--requests counts the requests of one shard",
            ),
            (
                "--level 0 --member ram:1m --count 2 --rw scrub --requests 9",
                "--requests counts the requests of one shard",
            ),
            (
                "--level 0 --member ram:1m --count 2 --time 1s --requests 9",
                "cannot be used with '--requests <N>'",
            ),
            (
                "--level 0 --member ram:1m --count 2 --completion nap",
                "give interrupt, polling, hybrid, or",
            ),
        ] {
            let message = config(line).unwrap_err();
            assert!(message.contains(wanted), "{line}: {message}");
        }
    }
}
