//! The checked request for a measurement: the array, its members, and the load.

use anyhow::{Context, bail, ensure};
use drives::completion::CompletionMode;
use drives::spec::{MemberSpec, Target};
use engine::layout::Level;
use metadata::imsm::WriteHolePolicy;
use std::fmt;
use std::time::Duration;

/// Most shards of a bench.
const SHARDS_MAX: u8 = 4;
/// Most requests outstanding at once. With more, only memory would be measured.
const QUEUE_DEPTH_MAX: u32 = 16_384;
/// Largest request, which is the largest block of payload memory.
const BLOCK_BYTES_MAX: u32 = 32 << 20;
/// Most payload memory of all requests together.
const PAYLOAD_BYTES_MAX: u64 = 8 << 30;
/// With less, not even the warm-ups of all rounds would end.
const TIME_MIN: Duration = Duration::from_millis(50);
const TIME_MAX: Duration = Duration::from_secs(3600);

/// What to measure.
#[derive(Clone, Debug)]
pub struct Config {
    /// RAID level.
    pub level: Level,
    /// A member specification, in which `{}` stands for the member's number.
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
    /// Whether there is a write-hole log or a bitmap.
    pub write_hole: WriteHolePolicy,
    /// Duration of the array's measurement, all rounds together.
    pub time: Duration,
    /// What threads do while they have no work.
    pub completion: CompletionMode,
    /// Whether files and block devices that hold data may be overwritten.
    pub overwrite: bool,
}

/// A background job that can be measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum BenchJob {
    /// One slot's member is rebuilt from the others.
    Rebuild,
    /// All members are read and compared.
    Scrub,
}

/// Mix and order of requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Workload {
    /// Share of reads from 0 to 100; the rest are writes.
    pub read_percent: u8,
    /// Whether offsets are random; otherwise each shard writes or reads its part of the volume sequentially.
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
    /// Checks everything that can be checked without opening a member. The geometry is checked when members are opened.
    ///
    /// # Errors
    ///
    /// If something is impossible: one sentence about the first such thing.
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

    /// The specification of the member with number `index`.
    ///
    /// # Errors
    ///
    /// If the text is not a specification, or several members would be the same file.
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

    /// Requests outstanding on one shard.
    pub fn shard_queue_depth(&self, shard: u8) -> u32 {
        let shards = u32::from(self.shards);
        self.queue_depth / shards + u32::from(u32::from(shard) < self.queue_depth % shards)
    }
}
