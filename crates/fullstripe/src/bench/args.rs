//! What was asked for: the command line, and the same as a checked [`Config`].

use crate::commands::write_hole::WriteHole;
use anyhow::{Context, bail, ensure};
use drives::completion::CompletionMode;
use drives::spec::{MemberSpec, Target, parse_size};
use engine::layout::Level;
use engine::limits::VOLUME_MEMBERS_MAX;
use std::fmt;
use std::time::Duration;

/// Most shards of a bench.
const SHARDS_MAX: u8 = 4;
/// Most requests outstanding at once; beyond, only memory is measured.
const QUEUE_DEPTH_MAX: u32 = 16_384;
/// Largest request: the largest block of payload memory.
const BLOCK_BYTES_MAX: u32 = 32 << 20;
/// Payload memory of all requests together.
const PAYLOAD_BYTES_MAX: u64 = 8 << 30;
/// Below this not even the rounds' warm-up is over.
const TIME_MIN: Duration = Duration::from_millis(50);
const TIME_MAX: Duration = Duration::from_secs(3600);

/// Measure the engine in this process, on fresh members.
#[derive(clap::Args, Debug)]
pub struct BenchArgs {
    /// RAID level: 0, 1, 5 or 10
    #[arg(long, value_parser = parse_level)]
    level: Level,
    /// What each member is: ram:256m, null:64g (both take
    /// ,read-iops=50k,write-iops=20k,bandwidth=2g,latency=80us), or a path in which {} stands for
    /// the member's number from 0 on; its content is overwritten
    #[arg(long, value_name = "SPEC")]
    member: String,
    /// Number of members
    #[arg(long)]
    count: u8,
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
    /// This slot's member is missing from the start; with --rw rebuild, the slot that is filled
    #[arg(long, value_name = "SLOT")]
    failed: Option<u8>,
    /// Chunk of the array
    #[arg(long, value_name = "SIZE", default_value = "64k", value_parser = parse_bytes)]
    chunk: u32,
    /// What protects a RAID 5 when a crash interrupts a write
    #[arg(long, value_enum, default_value = "off")]
    write_hole: WriteHole,
    /// How long the array is measured; the comparisons take as long again by half
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
}

impl BenchArgs {
    /// Whether JSON is wanted.
    pub fn json(&self) -> bool {
        self.json
    }

    /// The background job that is to be measured, if it is not requests.
    pub fn job(&self) -> Option<BenchJob> {
        match self.rw {
            Measured::Requests(_) => None,
            Measured::Job(job) => Some(job),
        }
    }

    /// The number of requests, if they are to be counted and not timed.
    pub fn requests(&self) -> Option<u64> {
        self.requests
    }

    /// What is asked for, checked.
    ///
    /// # Errors
    ///
    /// See [`Config::check`].
    pub fn config(&self) -> anyhow::Result<Config> {
        let config = Config {
            level: self.level,
            member: self.member.clone(),
            count: self.count,
            workload: match self.rw {
                Measured::Requests(workload) => workload,
                Measured::Job(_) => Workload::READS,
            },
            block_bytes: self.bs,
            queue_depth: self.qd,
            shards: self.shards,
            failed: self.failed,
            chunk_bytes: self.chunk,
            log: self.write_hole == WriteHole::Log,
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

/// What to measure.
#[derive(Clone, Debug)]
pub(crate) struct Config {
    /// RAID level.
    pub level: Level,
    /// A member specification; `{}` in it stands for the member's number.
    pub member: String,
    /// Number of members.
    pub count: u8,
    /// Kind of requests.
    pub workload: Workload,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Requests outstanding, all shards together.
    pub queue_depth: u32,
    /// Engine threads.
    pub shards: u8,
    /// A slot without a member.
    pub failed: Option<u8>,
    /// The array's chunk.
    pub chunk_bytes: u32,
    /// Whether there is a write-hole log.
    pub log: bool,
    /// How long the array is measured, all rounds together.
    pub time: Duration,
    /// What threads do when there is nothing to do.
    pub completion: CompletionMode,
    /// Overwrite files and block devices that hold data.
    pub overwrite: bool,
}

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Measured {
    Requests(Workload),
    Job(BenchJob),
}

/// A background job that can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum BenchJob {
    /// One slot's member is filled from the others.
    Rebuild,
    /// All members are read and compared.
    Scrub,
}

/// The mix and order of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Workload {
    /// 0 to 100; the rest are writes.
    pub read_percent: u8,
    /// Random offsets; otherwise each shard goes through its part of the volume in order.
    pub random: bool,
}

impl Workload {
    /// Random reads.
    pub const READS: Workload = Workload {
        read_percent: 100,
        random: true,
    };
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.read_percent, self.random) {
            (100, true) => f.write_str("randread"),
            (0, true) => f.write_str("randwrite"),
            (100, false) => f.write_str("read"),
            (0, false) => f.write_str("write"),
            (percent, _) => write!(f, "rw:{percent}"),
        }
    }
}

impl Config {
    /// Checks what can be checked without opening a member; the geometry is checked with them.
    ///
    /// # Errors
    ///
    /// One sentence about the first thing that is impossible.
    pub fn check(&self) -> anyhow::Result<()> {
        let Config {
            block_bytes,
            queue_depth,
            shards,
            count,
            ..
        } = *self;
        ensure!(
            block_bytes > 0 && block_bytes.is_multiple_of(512) && block_bytes <= BLOCK_BYTES_MAX,
            "--bs {block_bytes} is impossible; give a multiple of 512 bytes up to 32m"
        );
        ensure!(
            (1..=QUEUE_DEPTH_MAX).contains(&queue_depth),
            "--qd {queue_depth} is impossible; give 1 to {QUEUE_DEPTH_MAX}"
        );
        ensure!(
            (1..=SHARDS_MAX).contains(&shards),
            "--shards {shards} is impossible; give 1 to {SHARDS_MAX}"
        );
        ensure!(
            queue_depth >= u32::from(shards),
            "--qd {queue_depth} leaves a shard without requests; give at least --shards {shards}"
        );
        ensure!(
            u64::from(queue_depth) * self.payload_block_bytes() <= PAYLOAD_BYTES_MAX,
            "--qd {queue_depth} times --bs {block_bytes} is more than {} GiB of payload; lower one",
            PAYLOAD_BYTES_MAX >> 30
        );
        ensure!(
            usize::from(count) <= VOLUME_MEMBERS_MAX && count > 0,
            "--count {count} is impossible; give 1 to {VOLUME_MEMBERS_MAX}"
        );
        if let Some(failed) = self.failed {
            ensure!(
                failed < count,
                "--failed {failed} names no slot of {count} members; give 0 to {}",
                count - 1
            );
        }
        ensure!(
            (TIME_MIN..=TIME_MAX).contains(&self.time),
            "--time of {:?} is impossible; give 50ms to 1h",
            self.time
        );
        (0..count).try_for_each(|index| self.spec(index).map(drop))
    }

    /// Payload memory of one request.
    pub fn payload_block_bytes(&self) -> u64 {
        u64::from(self.block_bytes.max(4096).next_power_of_two())
    }

    /// What the member with number `index` is.
    ///
    /// # Errors
    ///
    /// When the text is no specification, or several members would be the same file.
    pub fn spec(&self, index: u8) -> anyhow::Result<MemberSpec> {
        let text = self.member.replace("{}", &index.to_string());
        let spec: MemberSpec = text.parse().context("--member")?;
        if matches!(spec.target, Target::Path(_)) && self.count > 1 && !self.member.contains("{}") {
            bail!(
                "--member {} is one path for {} members; write {{}} where each \
                 member's number goes",
                self.member,
                self.count
            );
        }
        Ok(spec)
    }

    /// The requests outstanding of one shard.
    pub fn shard_queue_depth(&self, shard: u8) -> u32 {
        let shards = u32::from(self.shards);
        self.queue_depth / shards + u32::from(u32::from(shard) < self.queue_depth % shards)
    }
}

fn parse_level(text: &str) -> Result<Level, String> {
    match text.to_ascii_lowercase().trim_start_matches("raid") {
        "0" => Ok(Level::Raid0),
        "1" => Ok(Level::Raid1),
        "5" => Ok(Level::Raid5),
        "10" => Ok(Level::Raid10),
        _ => Err("there is no such level; give 0, 1, 5 or 10".to_owned()),
    }
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
                "no such level; give 0, 1, 5 or 10",
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
                "--count 0 is impossible; give 1 to 64",
            ),
            (
                "--level 0 --member ram:1m --count 65",
                "--count 65 is impossible",
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
