//! The command line of `plan`.

use super::here;
use super::size::SizeArgs;
use super::sweep::parse_sweep;
use crate::commands::arguments::{parse_chunk, parse_level, parse_size};
use crate::commands::progress::WorkArgs;
use crate::commands::vroc::purpose;
use clap::{Args, ValueEnum};
use lab::schema::configuration::State;
use lab::schema::setup::{self, Level};
use lab::workload::size::Size;
use lab::workload::{self, Operation};
use models::platform::Machine;
use planner::plan::ask::{COUNT, Question};
use planner::plan::loads::LoadQuestion;
use std::ops::RangeInclusive;
use std::path::PathBuf;
use words::check_range;

/// Possible sizes of a request, the same as [`Size`] allows.
const REQUEST_BYTES: RangeInclusive<u64> = 512..=64 << 20;

/// Arguments of `plan`.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// The drives, all alike: an id, or a profile or data sheet of your own (PATH or PATH#ID); with --here, those that are
    /// here unless given.
    #[arg(long, required_unless_present_any = ["here", "wanted"])]
    pub drive: Option<String>,
    /// Look for the cheapest arrays that do this, like "400k 70/30 8k, p99 < 1ms, 60 TB usable, two years", among the drives that
    /// --prices has: rate, reads/writes and size of requests, then limits of latency, capacity and endurance.
    #[arg(long = "for", value_name = "TEXT", requires = "prices", conflicts_with_all = ["from_sheet", "stack", "workload", "op", "bs", "read_pct", "demand", "degraded", "rebuilding", "compare", "sweep", "as_vroc", "provenance"])]
    pub wanted: Option<String>,
    /// Plan from the drive's data sheet in the catalogue although there is a profile of it.
    #[arg(long)]
    pub from_sheet: bool,
    /// Number of drives; unless given, 4, or with --here as many as there are, less the spares.
    #[arg(long, value_name = "N")]
    pub count: Option<u32>,
    /// RAID levels: 0, 1, 5, 10, or none for one drive without RAID; unless given, those of 0, 5 and 10 that are
    /// possible with this number of drives.
    #[arg(long, value_name = "L", value_delimiter = ',', value_parser = level)]
    pub level: Vec<Level>,
    /// The machine around the drives: an id, or a file of your own (PATH).
    #[arg(long, required_unless_present = "here")]
    pub platform: Option<String>,
    /// The machine is this one, as `platform discover` shows it.
    #[arg(long, conflicts_with = "platform")]
    pub here: bool,
    /// With --here, look below this folder, with copies of /sys and /proc of another machine.
    #[arg(
        long,
        value_name = "FOLDER",
        requires = "here",
        default_value = "/",
        hide_default_value = true
    )]
    pub root: PathBuf,
    /// Operating system and its drivers; linux-6.12 unless given, or the one that --stack is a driver of.
    #[arg(long)]
    pub host: Option<String>,
    /// The RAID implementation; unless given, fullstripe, or none with --level none.
    #[arg(long)]
    pub stack: Option<String>,
    /// Chunk size, like 64k; the stack's default unless given.
    #[arg(long, value_name = "SIZE", value_parser = chunk)]
    pub chunk: Option<u32>,
    /// Cores that run the engine; 1 unless given.
    #[arg(long, value_name = "N")]
    pub engine_cores: Option<u32>,
    /// How clients in other processes reach the engine; unless given, clients run in the engine's process.
    #[arg(long, value_enum)]
    pub export: Option<Export>,
    /// How completed I/O is noticed; interrupt unless given.
    #[arg(long, value_enum)]
    pub completion: Option<Completion>,
    #[command(flatten)]
    pub load: LoadArgs,
    /// How the drives were used before; unless given, steady for random loads and filled for sequential loads, as
    /// reviews prepare drives.
    #[arg(long, value_enum)]
    pub state: Option<DriveState>,
    /// With one drive missing.
    #[arg(long, conflicts_with = "rebuilding")]
    pub degraded: bool,
    /// With a new drive that is being rebuilt; at several rates unless --rebuild-rate is given.
    #[arg(long)]
    pub rebuilding: bool,
    /// Limits of the rebuild, in MB of each drive per second; 0 is unlimited.
    #[arg(
        long,
        value_name = "MB/s",
        value_delimiter = ',',
        requires = "rebuilding"
    )]
    pub rebuild_rate: Vec<u32>,
    /// Run the same loads on the setups in this file too (the format is that of `predict`), and compare.
    #[arg(long, value_name = "PLAN", conflicts_with = "sweep")]
    pub compare: Option<PathBuf>,
    /// Vary one or two of count, chunk, qd, threads, engine-cores: count=1..24,chunk=16k..256k.
    #[arg(long, value_name = "KEY=A..B")]
    pub sweep: Option<String>,
    /// Say also which keys Intel VROC would want for these arrays and which it would refuse; =boot if its firmware is to
    /// boot from them.
    #[arg(long, value_name = "PURPOSE", num_args = 0..=1, require_equals = true, default_missing_value = "data", value_parser = purpose, conflicts_with = "sweep")]
    pub as_vroc: Option<vroc::Purpose>,
    #[command(flatten)]
    pub size: SizeArgs,
    /// List also every figure that the plan is computed from, with its source.
    #[arg(long)]
    pub provenance: bool,
    #[command(flatten)]
    pub work: WorkArgs,
    /// Print JSON.
    #[arg(long)]
    pub json: bool,
}

impl PlanArgs {
    /// The question for the planner.
    ///
    /// # Errors
    /// `--sweep` does not have its form, or the machine at hand has no drives that can be planned.
    pub fn question(&self) -> anyhow::Result<Question> {
        let Asked {
            drive,
            count,
            platform,
            here,
            drives_are_here,
        } = self.asked()?;
        Ok(Question {
            drive,
            from_sheet: self.from_sheet,
            count: self.count.unwrap_or(count),
            levels: self.level.clone(),
            platform,
            here,
            drives_are_here,
            host: self.host.clone(),
            stack: self.stack.clone(),
            chunk_kib: self.chunk,
            engine_cores: self.engine_cores,
            export: self.export.map(Into::into),
            completion: self.completion.map(Into::into),
            load: self.load.question(),
            state: self.state.map(Into::into),
            degraded: self.degraded,
            rebuilding: self.rebuilding,
            rebuild_rates_mb_s: self.rebuild_rate.clone(),
            compare: self.compare.clone(),
            sweep: self.sweep.as_deref().map(parse_sweep).transpose()?,
            as_vroc: self.as_vroc,
            size: self.size.question(),
            provenance: self.provenance,
        })
    }
}

/// Drives and machine, as options name them or as they are here.
struct Asked {
    drive: String,
    /// The number of drives unless given.
    count: u32,
    platform: String,
    here: Option<Machine>,
    drives_are_here: bool,
}

impl PlanArgs {
    fn asked(&self) -> anyhow::Result<Asked> {
        if !self.here {
            return Ok(Asked {
                drive: self.drive.clone().expect("clap requires it without --here"),
                count: COUNT,
                platform: self
                    .platform
                    .clone()
                    .expect("clap requires it without --here"),
                here: None,
                drives_are_here: false,
            });
        }
        let (machine, drive) = here::machine(&self.root, self.drive.as_deref())?;
        Ok(Asked {
            drive,
            count: here::places(&machine)
                .saturating_sub(self.size.spares)
                .max(1),
            platform: machine.platform.clone(),
            here: Some(machine),
            drives_are_here: self.drive.is_none(),
        })
    }
}

impl LoadArgs {
    fn question(&self) -> LoadQuestion {
        LoadQuestion {
            workload: self.workload.clone(),
            op: self.op.map(Into::into),
            bs: self.bs,
            threads: self.threads,
            qd: self.qd,
            read_pct: self.read_pct,
            demand: self.demand,
        }
    }
}

/// The load of the array: a file, one load, or a small suite.
#[derive(Args, Debug)]
pub struct LoadArgs {
    /// File with named loads, as TOML: see docs/planning.md. Without this and --op, four usual loads are run.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["op", "bs", "threads", "qd", "read_pct", "demand"])]
    pub workload: Option<PathBuf>,
    /// Kind of the requests: randread, randwrite, read, write, randmix, seqmix.
    #[arg(long, value_enum)]
    pub op: Option<Op>,
    /// Bytes of a request, like 4k.
    #[arg(long, value_name = "SIZE", value_parser = request_size)]
    pub bs: Option<Size>,
    /// Threads of clients.
    #[arg(long, value_name = "N")]
    pub threads: Option<u32>,
    /// Requests outstanding per thread.
    #[arg(long, value_name = "N")]
    pub qd: Option<u32>,
    /// Reads among the requests of a mix, in percent.
    #[arg(long, value_name = "PERCENT")]
    pub read_pct: Option<u8>,
    /// Requests per second that clients issue, even if the array cannot keep up.
    #[arg(long, value_name = "IOPS")]
    pub demand: Option<u64>,
}

/// Kinds of requests.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "lowercase")]
pub enum Op {
    /// Reads at random.
    RandRead,
    /// Writes at random.
    RandWrite,
    /// Reads in order.
    Read,
    /// Writes in order.
    Write,
    /// Reads and writes at random.
    RandMix,
    /// Reads and writes in order.
    SeqMix,
}

impl From<Op> for Operation {
    fn from(op: Op) -> Operation {
        match op {
            Op::RandRead => Operation::RandRead,
            Op::RandWrite => Operation::RandWrite,
            Op::Read => Operation::Read,
            Op::Write => Operation::Write,
            Op::RandMix => Operation::RandMix,
            Op::SeqMix => Operation::SeqMix,
        }
    }
}

/// Ways of noticing completed I/O.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Completion {
    /// The drive interrupts, and a sleeping core wakes.
    Interrupt,
    /// A core polls all the time.
    Polled,
    /// A core sleeps for part of the expected time, then polls.
    Hybrid,
}

impl From<Completion> for workload::Completion {
    fn from(completion: Completion) -> workload::Completion {
        match completion {
            Completion::Interrupt => workload::Completion::Interrupt,
            Completion::Polled => workload::Completion::Polled,
            Completion::Hybrid => workload::Completion::Hybrid,
        }
    }
}

/// How clients reach the engine.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Export {
    /// NBD on a Unix socket.
    Nbd,
    /// A block device by ublk, which is not served yet.
    Ublk,
}

impl From<Export> for setup::Export {
    fn from(export: Export) -> setup::Export {
        match export {
            Export::Nbd => setup::Export::Nbd,
            Export::Ublk => setup::Export::Ublk,
        }
    }
}

/// Earlier use of the drives.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum DriveState {
    /// Never written.
    Fresh,
    /// Written once in order.
    Filled,
    /// Filled, then overwritten at random until the performance is stable.
    Steady,
    /// Past the rated endurance.
    Worn,
    /// Steady, and powered on just now: Optane drives then refresh their medium for hours.
    PoweredOn,
}

impl From<DriveState> for State {
    fn from(state: DriveState) -> State {
        match state {
            DriveState::Fresh => State::Fresh,
            DriveState::Filled => State::Filled,
            DriveState::Steady => State::Steady,
            DriveState::Worn => State::Worn,
            DriveState::PoweredOn => State::PoweredOn,
        }
    }
}

fn level(text: &str) -> Result<Level, String> {
    if text == "none" {
        return Ok(Level::Single);
    }
    let level = parse_level(text).map_err(|_| "must be 0, 1, 5, 10 or none".to_owned())?;
    Ok(Level::from(level))
}

/// A chunk in KiB.
pub fn chunk(text: &str) -> Result<u32, String> {
    parse_chunk(text).map(|bytes| bytes / 1024)
}

/// The size of a request in bytes.
fn request_size(text: &str) -> Result<Size, String> {
    let bytes = parse_size(text)?;
    check_range("a request", bytes, &REQUEST_BYTES)?;
    let size = u32::try_from(bytes).ok().and_then(Size::new);
    size.ok_or_else(|| format!("{text} is no whole number of sectors of 512 bytes"))
}
