//! Runs an exact number of requests once: for profilers, and for counting instructions.
//!
//! Engine, loop, world and generator are those of a timed run, but the run ends after a number of requests and the
//! generator's seed is always the same. On null and RAM members nothing then depends on the clock, so two runs do the
//! same work. The work of a process before and after the requests cancels out in the difference between a run of 2 N
//! requests and one of N. `benchmarks/gate` and the cost table count in this way.

use super::config::Config;
use super::members::Members;
use super::outcome::{Asked, Counters, Setting, asked};
use super::run::Bench;
use super::window::{DRAIN_LOOK, PATIENCE};
use anyhow::{bail, ensure};
use drives::counting::allocations;
use drives::mailbox::Mailbox;
use engine::claims::Claims;
use serde::Serialize;

/// The result of a counted run.
#[derive(Clone, Debug, Serialize)]
pub struct CountedOutcome {
    /// What was asked for, and what the machine provided.
    pub config: Asked,
    /// Number of requests, as asked for.
    pub requests: u64,
    /// Calls of the memory allocator on the shard's thread, from its first turn to its last.
    pub allocations: u64,
    /// The engine's counters.
    pub stats: Counters,
}

impl CountedOutcome {
    /// The result as text for people.
    pub fn text(&self) -> String {
        let commands = self
            .stats
            .sum(&["member_reads", "member_writes", "member_flushes"]);
        format!(
            "{} of {} x {}: {} of {} bytes, queue depth {}\n\n\
             requests                      {}\n\
             member commands               {commands}\n\
             allocations                   {}\n",
            self.config.level,
            self.config.count,
            self.config.member,
            self.config.rw,
            self.config.block_bytes,
            self.config.queue_depth,
            self.requests,
            self.allocations,
        )
    }
}

/// Runs `requests` requests through the array of `config`.
///
/// # Errors
///
/// If a member cannot be used or fails, or a request fails: one sentence.
pub fn measure(config: &Config, requests: u64) -> anyhow::Result<CountedOutcome> {
    ensure!(requests > 0, "--requests 0 is no work; give at least 1");
    let members = Members::open(config)?;
    let bench = Bench::new(config, &members)?;
    bench.alone(c"shard", || bench.counted(requests))
}

impl Bench<'_> {
    fn counted(&self, requests: u64) -> anyhow::Result<CountedOutcome> {
        let mailbox = Mailbox::new()?;
        let mut shard = self.shard(0, 0, mailbox, Claims::new())?;
        shard.load().limit(requests);
        let before = allocations();
        let mut progress = (0, shard.load().now());
        while !shard.load().is_over() {
            shard.turn();
            let (completed, now) = (shard.load().completed(), shard.load().now());
            if completed > progress.0 {
                progress = (completed, now);
            } else if now.since(progress.1) > PATIENCE {
                bail!(
                    "no request was answered for {} s; look at the members",
                    PATIENCE.0 / 1_000_000_000
                );
            }
            shard.load().wake_at(now.after(DRAIN_LOOK));
        }
        shard.check_members()?;
        if let Some(failure) = shard.load().failure() {
            bail!("a request failed: {failure:?}");
        }
        let setting = Setting {
            cores: self.cores.clone(),
            ring: shard.report.to_string(),
            huge_pages: self.arena.report().huge_pages,
        };
        Ok(CountedOutcome {
            config: asked(self.config, setting),
            requests,
            allocations: allocations() - before,
            stats: shard.counters(),
        })
    }
}
