//! Stacks: the code between a client's request and the drives' commands, each behind one small interface.
//!
//! | stack | is |
//! |---|---|
//! | [`fullstripe`] | the engine itself, shard by shard |
//! | [`faster`] | any of these, its work taking less time: for asking what limits |
//! | [`none`] | no RAID: requests go through the kernel to one drive |
//! | [`md_2018`] | a model of Linux md of 2018 |
//!
//! [`crate::run`] owns time, drives, clients and the host's prices; a stack owns what is between. What goes
//! in and out lies in each core's [`TimedWorld`]: inputs before a turn, commands and answers after it. A stack of
//! others is a small behavioural model of its own, never our engine with other constants.

pub mod faster;
pub mod fullstripe;
pub mod md_2018;
pub mod none;

use crate::machine::SharedPlatform;
use crate::world::TimedWorld;
use anyhow::{Result, bail};
use engine::plan::StepKind;
use engine::request::{Operation, Request};
use engine::stats::Stats;
use engine::world::Io;

/// How far a rebuild is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilt {
    /// Bytes of each drive that it has begun in this run.
    pub done_bytes: u64,
    /// Bytes of each drive that there are.
    pub total_bytes: u64,
}

/// What turns requests into commands for drives and into work.
pub trait Stack {
    /// Bytes that clients see.
    fn size_bytes(&self) -> u64;

    /// Drives that it works on.
    fn drives(&self) -> usize;

    /// Cores that its turns run on.
    fn cores(&self) -> usize;

    /// Whether its work for a client's thread runs on that thread's core, as a system call does, and not on
    /// cores of its own. Each thread then has the core of its number; cores beyond these are the stack's alone.
    fn is_on_clients_cores(&self) -> bool;

    /// Where on a drive its metadata lie.
    fn metadata_offset_bytes(&self) -> u64;

    /// What goes into this core's next turn and came out of its last one.
    fn world(&mut self, core: usize) -> &mut TimedWorld;

    /// Works off the inputs of this core's world, and says what that takes in nanoseconds, kernel's work on
    /// commands and answers not included.
    ///
    /// # Errors
    ///
    /// When something failed, although nothing fails in a run.
    fn turn(&mut self, core: usize, now_ns: u64) -> Result<u64>;

    /// From now on what the stack's work touches loads this machine's memory, beside what drives move. A stack whose
    /// work touches little needs no such thing.
    fn work_in(&mut self, _machine: SharedPlatform) {}

    /// When the memory that the last turn of this core worked on has moved all of it: the turn does not end before.
    fn touched_until_ns(&self, _core: usize) -> u64 {
        0
    }

    /// For how long the busiest of the lines that its cores share has been kept by changes; 0 where there are none.
    fn lines_busy_ns(&self) -> u64 {
        0
    }

    /// When this core wants a turn without any input.
    fn wake_ns(&self, core: usize) -> Option<u64>;

    /// How much of each drive a rebuild under way has done, and has to do; `None` where none is.
    fn rebuilt_bytes(&self) -> Option<Rebuilt> {
        None
    }

    /// What it counts of itself, all cores together. Requests and commands must be among it: the run's audit
    /// compares them with what clients and drives have seen.
    fn counters(&self) -> Stats;
}

/// Counts a request of a stack that reads and writes only. Returns whether it writes.
///
/// # Errors
///
/// When it does something else.
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
