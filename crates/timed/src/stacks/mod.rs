//! Stacks: the code between a client's request and the drives' commands, each behind one small interface.
//!
//! | stack | is |
//! |---|---|
//! | [`fullstripe`] | the engine itself, shard by shard |
//! | [`faster`] | any of these with less time for its work, to find limits |
//! | [`none`] | no RAID: requests go through the kernel to one drive |
//! | [`md_2018`] | a model of Linux md of 2018 |
//! | [`raid_driver`] | a model of RAID drivers of Windows of 2017 |
//!
//! [`crate::run`] owns time, drives, clients and the host's prices; a stack owns what is between. Each core's
//! [`TimedWorld`] holds the inputs of its next turn, and the commands and answers of its last one. The stack of
//! another project is a small behavioural model of its own, never this engine with other constants.

pub mod faster;
pub mod fullstripe;
pub mod md_2018;
pub mod none;
pub mod raid_driver;

use crate::machine::SharedPlatform;
use crate::world::TimedWorld;
use anyhow::{Result, bail};
use engine::plan::StepKind;
use engine::request::{Operation, Request};
use engine::stats::Stats;
use engine::world::Io;

/// The progress of a rebuild.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// Bytes of each drive whose rebuild has begun in this run.
    pub done_bytes: u64,
    /// Bytes of each drive to rebuild in all.
    pub total_bytes: u64,
}

/// Turns requests into commands for drives and into processor work.
pub trait Stack {
    /// Bytes that clients see.
    fn size_bytes(&self) -> u64;

    /// Number of drives.
    fn drives(&self) -> usize;

    /// Number of cores that its turns run on.
    fn cores(&self) -> usize;

    /// Whether its work for a client's thread runs on that thread's core, as a system call does, and not on
    /// cores of its own. Each thread then has the core of its number; cores beyond these are the stack's alone.
    fn is_on_clients_cores(&self) -> bool;

    /// Offset of its metadata on a drive.
    fn metadata_offset_bytes(&self) -> u64;

    /// The inputs of this core's next turn and the outputs of its last one.
    fn world(&mut self, core: usize) -> &mut TimedWorld;

    /// Handles the inputs of this core's world. Returns the time that this takes in nanoseconds, without the
    /// kernel's work on commands and answers.
    ///
    /// # Errors
    ///
    /// When something failed, although nothing fails in a run.
    fn turn(&mut self, core: usize, now_ns: u64) -> Result<u64>;

    /// From now on the stack's work loads this machine's memory, in addition to the drives' transfers. A stack
    /// whose work touches little memory need not implement this.
    fn work_in(&mut self, _machine: SharedPlatform) {}

    /// When the memory has moved all bytes that the last turn of this core touched: the turn does not end before.
    fn touched_until_ns(&self, _core: usize) -> u64 {
        0
    }

    /// How long the busiest of the cache lines that its cores share has been occupied by changes; 0 without such
    /// lines.
    fn lines_busy_ns(&self) -> u64 {
        0
    }

    /// When this core wants a turn without any input.
    fn wake_ns(&self, core: usize) -> Option<u64>;

    /// The progress of a rebuild under way; `None` without one.
    fn rebuilt_bytes(&self) -> Option<Rebuilt> {
        None
    }

    /// Its counters, summed over all cores. They must include requests and commands, because the run's audit
    /// compares these with what clients and drives have seen.
    fn counters(&self) -> Stats;
}

/// Counts a request to a stack that only reads and writes. Returns whether it is a write.
///
/// # Errors
///
/// When the request is neither a read nor a write.
fn count_request(stats: &mut Stats, request: &Request) -> Result<bool> {
    let length_bytes = u64::from(request.length_bytes);
    match request.operation {
        Operation::Read => {
            stats.reads += 1;
            stats.read_bytes += length_bytes;
            Ok(false)
        }
        Operation::Write => {
            stats.writes += 1;
            stats.write_bytes += length_bytes;
            Ok(true)
        }
        other => bail!("this stack is asked to read and write only, not {other:?}"),
    }
}

/// Counts a read or a write of a member.
fn count_command(stats: &mut Stats, io: &Io) {
    let (commands, bytes) = match io.kind {
        StepKind::Read => (&mut stats.member_reads, &mut stats.member_read_bytes),
        _ => (&mut stats.member_writes, &mut stats.member_write_bytes),
    };
    *commands += 1;
    *bytes += io.length_bytes;
}
