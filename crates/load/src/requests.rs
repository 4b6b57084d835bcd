//! What a load requests: numbers that describe it, or a recorded trace.

use anyhow::{Context, Result, anyhow, ensure};
use engine::units::Nanos;
use lab::workload::generator::Generator;
use lab::workload::trace::Trace;
use lab::workload::{Operation, Workload};
use std::collections::BTreeMap;
use std::path::Path;
use words::size;

/// Traces by the names that loads have for them.
pub type Traces = BTreeMap<String, Trace>;

/// Largest file of a trace: about twenty million requests.
const TRACE_MAX_BYTES: u64 = 1 << 30;
/// Shortest and longest replay: less shows nothing, and nobody waits for more.
const REPLAY_MIN_NS: u64 = 1_000_000_000;
const REPLAY_MAX_NS: u64 = 31 * 24 * 3600 * 1_000_000_000;

/// Reads the traces of `loads`, whose names are relative to `folder` unless they are absolute.
///
/// # Errors
///
/// One cannot be read, is too large, or is no trace.
pub fn read_traces(loads: &[(String, Workload)], folder: &Path) -> Result<Traces> {
    let mut traces = Traces::new();
    for name in loads.iter().filter_map(|(_, load)| load.trace.as_ref()) {
        if !traces.contains_key(name) {
            traces.insert(name.clone(), read_trace(&folder.join(name))?);
        }
    }
    Ok(traces)
}

fn read_trace(path: &Path) -> Result<Trace> {
    let file = path.display().to_string();
    let failed = || format!("cannot read {file}");
    let found = std::fs::metadata(path).with_context(failed)?;
    ensure!(found.is_file(), "{file} is no file, so it is no trace");
    ensure!(
        found.len() <= TRACE_MAX_BYTES,
        "{file} has {}, and a trace has at most {}; use a part of it",
        size(found.len()),
        size(TRACE_MAX_BYTES)
    );
    let text = std::fs::read_to_string(path).with_context(failed)?;
    Ok(Trace::parse(&file, &text)?)
}

/// A load with its trace, if it replays one.
#[derive(Clone, Copy)]
pub(crate) struct Requests<'a> {
    pub load: &'a Workload,
    pub trace: Option<&'a Trace>,
}

impl<'a> Requests<'a> {
    /// # Panics
    ///
    /// If its trace was not read.
    pub fn new(load: &'a Workload, traces: &'a Traces) -> Requests<'a> {
        let trace = load.trace.as_ref().map(|name| &traces[name]);
        Requests { load, trace }
    }

    /// A load that replays nothing.
    pub fn drawn(load: &'a Workload) -> Requests<'a> {
        assert!(load.op != Operation::Replay, "a trace is replayed");
        Requests { load, trace: None }
    }

    /// The requests on a target of `span_bytes`.
    pub fn generator(&self, span_bytes: u64, seed: u64) -> Result<Generator> {
        let made = match self.trace {
            Some(trace) => {
                let shape = (self.load.threads, self.depth());
                Generator::replay(trace, shape, self.speed_percent(), span_bytes)
            }
            None => Generator::new(self.load, span_bytes, seed),
        };
        made.map_err(|broken| anyhow!("{} {}", broken.key, broken.rule))
    }

    /// Requests that a thread has outstanding.
    pub fn depth(&self) -> u32 {
        self.load.qd.unwrap_or(1)
    }

    fn speed_percent(&self) -> u32 {
        self.load.speed_pct.unwrap_or(100)
    }

    /// Bytes of the longest request.
    pub fn longest_bytes(&self) -> u32 {
        let of_load = || self.load.bs.map_or(0, |bs| bs.bytes());
        self.trace.map_or_else(of_load, Trace::longest_bytes)
    }

    /// Whether it destroys what is on the target.
    pub fn writes(&self) -> bool {
        match self.trace {
            Some(trace) => trace.written_bytes(u64::MAX) > 0,
            None => lab::fio::job::writes(self.load),
        }
    }

    /// How long a trace lasts at its speed; `None` for other loads.
    pub fn trace_length_ns(&self) -> Option<u64> {
        let length_ns = u128::from(self.trace?.length_ns());
        let at_speed_ns = length_ns * 100 / u128::from(self.speed_percent());
        Some(u64::try_from(at_speed_ns).unwrap_or(u64::MAX))
    }

    /// Checks that the part of a trace that is replayed is there, and that it is neither too short nor too long.
    pub fn check_length(&self) -> Result<()> {
        let Some(length_ns) = self.trace_length_ns() else {
            return Ok(());
        };
        let lasts = format!(
            "replays a trace that lasts {:.3} s at this speed",
            length_ns as f64 / 1e9
        );
        ensure!(
            length_ns <= REPLAY_MAX_NS,
            "{lasts}, which is more than {} days; use a part of it, or raise speed_pct",
            REPLAY_MAX_NS / 86_400_000_000_000
        );
        let ns = |seconds: u32| u64::from(seconds) * Nanos::SECOND.0;
        let skipped_ns = ns(self.load.skip_seconds.unwrap_or(0));
        let measured_ns = self.load.seconds.map_or(REPLAY_MIN_NS, ns);
        ensure!(
            skipped_ns + measured_ns <= length_ns,
            "{lasts}, and at least {} s are skipped and measured; use a longer trace, or lower speed_pct",
            (skipped_ns + measured_ns) / Nanos::SECOND.0
        );
        Ok(())
    }

    /// Roughly the bytes that a run of so many seconds writes: those that are demanded, but no more than `bytes_per_s`, the most that
    /// the target takes. `None` if neither is known.
    pub fn written_about(&self, seconds: f64, bytes_per_s: Option<f64>) -> Option<f64> {
        if let Some(trace) = self.trace {
            let recorded_ns = seconds * 1e7 * f64::from(self.speed_percent());
            return Some(trace.written_bytes(recorded_ns as u64) as f64);
        }
        let share = 1.0 - f64::from(self.load.read_percent()?) / 100.0;
        if share == 0.0 {
            return Some(0.0);
        }
        let bytes = f64::from(self.longest_bytes()) * share;
        let demanded = self.load.mean_demand().map(|rate| rate.iops() * bytes);
        let most = demanded.into_iter().chain(bytes_per_s).reduce(f64::min)?;
        Some(most * seconds)
    }

    /// Checks that all requests are whole sectors.
    pub fn check_sectors(&self, target: &str, sector_bytes: u64) -> Result<()> {
        for (what, size) in [
            ("requests", self.load.bs),
            ("an alignment", self.load.align),
        ] {
            let bytes = size.map_or(sector_bytes, |size| u64::from(size.bytes()));
            ensure!(
                bytes.is_multiple_of(sector_bytes),
                "has {what} of {bytes} bytes, and {target} has sectors of {sector_bytes}; use a multiple"
            );
        }
        let recorded = self
            .trace
            .into_iter()
            .flat_map(|trace| trace.requests().iter());
        for one in recorded {
            let (at, length) = (one.offset_bytes, u64::from(one.length_bytes));
            ensure!(
                at.is_multiple_of(sector_bytes) && length.is_multiple_of(sector_bytes),
                "replays a request of {length} bytes at byte {at}, and {target} has sectors of {sector_bytes}; use a target with \
                 smaller ones"
            );
        }
        Ok(())
    }
}
