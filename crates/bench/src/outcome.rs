//! Turns samples into figures: medians over the rounds, sums over the shards, and what follows from both.

use super::config::{Config, Workload};
use super::generator::histogram;
use super::members::Members;
use super::roofline::{Cost, MemberSpeed, Question, Roofline, roofline};
use anyhow::Context;
use engine::stats::Stats;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::collections::BTreeMap;

/// A core that is busy for more than this share of the time was the limit, and not the member that it waited for.
const CORE_BUSY: f64 = 0.9;

/// Work counted by the engine, by class.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub struct Counters(BTreeMap<&'static str, u64>);

impl Counters {
    pub(crate) fn of(stats: &Stats) -> Counters {
        Counters(stats.fields().into_iter().collect())
    }

    pub(crate) fn since(&self, earlier: &Counters) -> Counters {
        let before = |name| earlier.0.get(name).copied().unwrap_or(0);
        Counters(
            self.0
                .iter()
                .map(|(&name, &count)| (name, count - before(name)))
                .collect(),
        )
    }

    /// Names and counts.
    pub fn iter(&self) -> impl Iterator<Item = (&'static str, u64)> + '_ {
        self.0.iter().map(|(&name, &count)| (name, count))
    }

    pub(crate) fn add(&mut self, other: &Counters) {
        for (&name, &count) in &other.0 {
            *self.0.entry(name).or_default() += count;
        }
    }

    pub(crate) fn sum(&self, names: &[&str]) -> u64 {
        names.iter().filter_map(|name| self.0.get(name)).sum()
    }
}

/// The measurement of one thread.
pub(crate) struct Sample {
    pub seconds: f64,
    /// Time on a processor.
    pub processor_s: f64,
    pub requests: u64,
    /// Number of allocations by the thread.
    pub allocations: u64,
    pub counters: Counters,
    pub latency: Histogram<u64>,
}

/// The measurements of one round.
pub(crate) struct Round {
    pub generator: Sample,
    pub bare: Sample,
    /// One sample for each calibration.
    pub calibrated: Vec<Sample>,
    /// One sample for each shard.
    pub array: Vec<Sample>,
}

/// What the machine provided.
pub(crate) struct Setting {
    pub cores: Vec<usize>,
    pub ring: String,
    pub huge_pages: bool,
}

/// The rates of the array, of the bare member or of the generator.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Rates {
    /// Requests per second.
    pub iops: f64,
    /// Bytes per second.
    pub bytes_per_s: f64,
    /// Processor time of one request, in nanoseconds.
    pub ns_per_io: f64,
    /// Cores used.
    pub cores: f64,
}

impl Rates {
    fn of(samples: &[&Sample], block_bytes: u32) -> Rates {
        let iops: f64 = samples
            .iter()
            .map(|sample| sample.requests as f64 / sample.seconds)
            .sum();
        let cores: f64 = samples
            .iter()
            .map(|sample| sample.processor_s / sample.seconds)
            .sum();
        let ns_per_io = if iops > 0.0 { cores * 1e9 / iops } else { 0.0 };
        Rates {
            iops,
            bytes_per_s: iops * f64::from(block_bytes),
            ns_per_io,
            cores,
        }
    }

    fn median(rates: &[Rates]) -> Rates {
        let of = |field: fn(&Rates) -> f64| median(rates.iter().map(field).collect());
        Rates {
            iops: of(|rates| rates.iops),
            bytes_per_s: of(|rates| rates.bytes_per_s),
            ns_per_io: of(|rates| rates.ns_per_io),
            cores: of(|rates| rates.cores),
        }
    }
}

/// Latencies of requests, from the turn that issued them to the turn that noticed the completion.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LatencyNs {
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// The latency that 99 % of the requests stay within.
    pub p99: u64,
    /// The latency that 99.9 % stay within.
    pub p999: u64,
    /// The latency that 99.99 % stay within.
    pub p9999: u64,
    /// The latency that 99.999 % stay within.
    pub p99999: u64,
    /// The longest.
    pub max: u64,
}

impl LatencyNs {
    fn of(histogram: &Histogram<u64>) -> LatencyNs {
        let at = |quantile| histogram.value_at_quantile(quantile);
        LatencyNs {
            mean: histogram.mean(),
            p50: at(0.5),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            p99999: at(0.99999),
            max: histogram.max(),
        }
    }
}

/// What was asked for, as text and numbers.
#[derive(Clone, Debug, Serialize)]
pub struct Asked {
    /// RAID level.
    pub level: String,
    /// Specification of the members.
    pub member: String,
    /// Number of members.
    pub count: u8,
    /// Kind of requests.
    pub rw: String,
    /// Bytes of a request.
    pub block_bytes: u32,
    /// Requests outstanding, all shards together.
    pub queue_depth: u32,
    /// Data threads.
    pub shards: u8,
    /// A slot without a member.
    pub failed: Option<u8>,
    /// The array's chunk.
    pub chunk_bytes: u32,
    /// `log`, `bitmap` or `off`.
    pub write_hole: &'static str,
    /// Duration of the array's measurement, all rounds together.
    pub time_s: f64,
    /// Cores that the shards were pinned to; empty if there were too few.
    pub pinned_cores: Vec<usize>,
    /// How threads notice completed I/O.
    pub completion: String,
    /// The features of the kernel's ring.
    pub ring: String,
    /// Whether payload memory may lie on huge pages.
    pub huge_pages: bool,
}

/// The result of a bench. The array's figures come first in its JSON, because they are what was asked for.
#[derive(Clone, Debug, Serialize)]
pub struct BenchOutcome {
    /// What was asked for, and what the machine provided.
    pub config: Asked,
    /// Median over the rounds, as for `generator` and `bare`.
    #[serde(flatten)]
    pub array: Rates,
    /// Each round's requests per second.
    pub rounds_iops: Vec<f64>,
    /// Processor time per request that the array costs beyond the bare member: the median of the rounds' differences.
    /// `None` for members with limits or a model, because their threads sleep, or spin for short times, until a
    /// completion is due.
    pub raid_ns_per_io: Option<f64>,
    /// The limit that the members set; `None` if they set none or no formula fits.
    pub roofline_iops: Option<f64>,
    /// The formula of the roofline in words.
    pub roofline: String,
    /// The measured rate divided by the possible one.
    pub efficiency: Option<f64>,
    /// Member commands per request.
    pub member_ios: f64,
    /// Calls of the memory allocator per request, on the shards' threads.
    pub allocations_per_request: f64,
    /// Bytes moved to and from members per byte of the client.
    pub member_bytes_per_byte: f64,
    /// Latencies of requests.
    pub latency_ns: LatencyNs,
    /// The generator alone, whose requests complete at once: nothing measured here can be faster.
    pub generator: Rates,
    /// One member without the engine.
    pub bare: Rates,
    /// The engine's counters of all rounds and shards.
    pub stats: Counters,
    /// Notes on the figures, as sentences.
    pub notes: Vec<String>,
}

impl BenchOutcome {
    pub(crate) fn new(
        config: &Config,
        members: &Members,
        calibrations: &[Workload],
        rounds: &[Round],
        setting: Setting,
    ) -> anyhow::Result<BenchOutcome> {
        let rates = |of: fn(&Round) -> Vec<&Sample>| -> Vec<Rates> {
            rounds
                .iter()
                .map(|round| Rates::of(&of(round), config.block_bytes))
                .collect()
        };
        let arrays = rates(|round| round.array.iter().collect());
        let bares = rates(|round| vec![&round.bare]);
        let array = Rates::median(&arrays);
        let difference = arrays
            .iter()
            .zip(&bares)
            .map(|(array, bare)| array.ns_per_io - bare.ns_per_io);
        let mut notes = members.notes.clone();
        let speed = speed(config, members, calibrations, rounds, &mut notes);
        let limit = limit(config, speed);
        let generator = Rates::median(&rates(|round| vec![&round.generator]));
        if generator.cores < CORE_BUSY {
            notes.push(format!(
                "the machine is busy with other work: the generator, which never waits, got {:.2} \
                 of its core, so the IOPS are too low",
                generator.cores
            ));
        }
        let mut stats = Counters::default();
        let mut latency = histogram();
        let (mut requests, mut allocations) = (0, 0);
        for sample in rounds.iter().flat_map(|round| &round.array) {
            stats.add(&sample.counters);
            requests += sample.requests;
            allocations += sample.allocations;
            latency
                .add(&sample.latency)
                .context("latencies of one shape add up")?;
        }
        let commands = stats.sum(&["member_reads", "member_writes", "member_flushes"]);
        let bytes = stats.sum(&["member_read_bytes", "member_write_bytes"]) as f64;
        let requests = requests.max(1) as f64;
        Ok(BenchOutcome {
            config: asked(config, setting),
            rounds_iops: arrays.iter().map(|rates| rates.iops).collect(),
            raid_ns_per_io: (!members.have_pace()).then(|| median(difference.collect())),
            efficiency: limit.iops.map(|possible| array.iops / possible),
            roofline_iops: limit.iops,
            roofline: limit.words,
            member_ios: commands as f64 / requests,
            allocations_per_request: allocations as f64 / requests,
            member_bytes_per_byte: bytes / (requests * f64::from(config.block_bytes)),
            latency_ns: LatencyNs::of(&latency),
            generator,
            bare: Rates::median(&bares),
            stats,
            notes,
            array,
        })
    }
}

/// The speed of one member: from its limits, from its model, or as measured.
fn speed(
    config: &Config,
    members: &Members,
    calibrations: &[Workload],
    rounds: &[Round],
    notes: &mut Vec<String>,
) -> Option<MemberSpeed> {
    if let Some(modelled) = &members.modelled {
        return Some(modelled.speed(config));
    }
    let mut speed = MemberSpeed::of(&members.limits);
    for (at, workload) in calibrations.iter().enumerate() {
        let samples = rounds
            .iter()
            .map(|round| Rates::of(&[&round.calibrated[at]], config.block_bytes));
        let rates = Rates::median(&samples.collect::<Vec<Rates>>());
        if rates.cores > CORE_BUSY {
            notes.push(format!(
                "one member alone keeps a core busy ({:.0} IOPS of {workload}), so its own speed \
                 is unknown",
                rates.iops
            ));
            return None;
        }
        let cost = Cost::measured(u64::from(config.block_bytes), rates.iops);
        if workload.read_percent == 100 {
            speed.read = cost;
        } else {
            speed.write = cost;
        }
    }
    Some(speed)
}

fn limit(config: &Config, speed: Option<MemberSpeed>) -> Roofline {
    let Some(speed) = speed else {
        let words = "unknown, because the core limits even one member alone".to_owned();
        return Roofline { iops: None, words };
    };
    let question = Question {
        level: config.level,
        members: config.count,
        chunk_bytes: config.chunk_bytes,
        degraded: config.failed.is_some(),
        workload: config.workload,
        block_bytes: config.block_bytes,
        stream_depth: config.queue_depth / u32::from(config.shards),
        queue_depth: config.queue_depth,
    };
    roofline(&question, &speed)
}

pub(crate) fn asked(config: &Config, setting: Setting) -> Asked {
    Asked {
        level: config.level.to_string(),
        member: config.member.clone(),
        count: config.count,
        rw: config.workload.to_string(),
        block_bytes: config.block_bytes,
        queue_depth: config.queue_depth,
        shards: config.shards,
        failed: config.failed,
        chunk_bytes: config.chunk_bytes,
        write_hole: config.write_hole.word(),
        time_s: config.time.as_secs_f64(),
        pinned_cores: setting.cores,
        completion: config.completion.to_string(),
        ring: setting.ring,
        huge_pages: setting.huge_pages,
    }
}

pub(crate) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    match values.len() {
        0 => 0.0,
        count if count % 2 == 1 => values[count / 2],
        count => (values[count / 2 - 1] + values[count / 2]) / 2.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![]), 0.0);
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
    }

    #[test]
    fn counters_subtract_and_add() {
        let early = Counters::of(&Stats {
            reads: 5,
            ..Stats::default()
        });
        let late = Counters::of(&Stats {
            reads: 12,
            member_reads: 3,
            ..Stats::default()
        });
        let mut sum = late.since(&early);
        assert_eq!(sum.sum(&["reads", "member_reads"]), 10);
        sum.add(&late);
        assert_eq!(sum.sum(&["reads"]), 19);
    }

    #[test]
    fn shards_add_up() {
        let sample = |requests, processor_s| Sample {
            seconds: 2.0,
            processor_s,
            requests,
            allocations: 0,
            counters: Counters::default(),
            latency: histogram(),
        };
        let rates = Rates::of(&[&sample(1000, 1.0), &sample(3000, 2.0)], 4096);
        assert_eq!((rates.iops, rates.cores), (2000.0, 1.5));
        assert_eq!(rates.ns_per_io, 750_000.0);
        assert_eq!(rates.bytes_per_s, 2000.0 * 4096.0);
    }
}
