//! No RAID: a client's thread calls the kernel, which passes the request unchanged to one drive, and handles the
//! drive's answer on the same core. All costs are the host's ([`crate::host`]); the stack itself has none.

use super::{Stack, count_command, count_request};
use crate::world::TimedWorld;
use anyhow::{Result, bail};
use engine::plan::StepKind;
use engine::request::Completion;
use engine::stats::Stats;
use engine::token::Token;
use engine::units::MemberId;
use engine::world::{Input, Io};

/// One drive, and the threads that use it.
pub struct NoRaid {
    size_bytes: u64,
    /// By thread.
    worlds: Vec<TimedWorld>,
    counters: Stats,
}

impl NoRaid {
    /// A drive of `size_bytes`, used by this many threads.
    #[must_use]
    pub fn new(size_bytes: u64, threads: u32) -> NoRaid {
        NoRaid {
            size_bytes,
            worlds: (0..threads).map(|_| TimedWorld::default()).collect(),
            counters: Stats::default(),
        }
    }
}

impl Stack for NoRaid {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn drives(&self) -> usize {
        1
    }

    fn cores(&self) -> usize {
        self.worlds.len()
    }

    fn is_on_clients_cores(&self) -> bool {
        true
    }

    fn metadata_offset_bytes(&self) -> u64 {
        self.size_bytes
    }

    #[inline]
    fn world(&mut self, core: usize) -> &mut TimedWorld {
        &mut self.worlds[core]
    }

    fn turn(&mut self, core: usize, _now_ns: u64) -> Result<u64> {
        while let Some(input) = self.worlds[core].inputs.pop_front() {
            match input {
                Input::Request(request) => {
                    let kind = match count_request(&mut self.counters, &request)? {
                        true => StepKind::Write { fua: request.fua },
                        false => StepKind::Read,
                    };
                    let io = Io {
                        token: Token(request.tag),
                        member: MemberId(0),
                        kind,
                        offset_bytes: request.offset_bytes,
                        length_bytes: u64::from(request.length_bytes),
                    };
                    count_command(&mut self.counters, &io);
                    self.worlds[core].commands.push(io);
                }
                Input::Done { token, result } => {
                    if let Err(error) = result {
                        bail!("the drive answered {error:?}, although nothing fails here");
                    }
                    let tag = token.0;
                    let result = Ok(());
                    self.worlds[core]
                        .completions
                        .push(Completion { tag, result });
                }
                other => bail!("a drive alone is told {other:?}"),
            }
        }
        Ok(0)
    }

    fn wake_ns(&self, _core: usize) -> Option<u64> {
        None
    }

    fn counters(&self) -> Stats {
        self.counters
    }
}
