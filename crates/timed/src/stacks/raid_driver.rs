//! A small behavioural model of a RAID driver of Windows of 2017: RAID 0 only.
//!
//! A request is translated on the core of the thread that makes it. Then comes a part that one core at a time does for
//! the whole array. After a delay that no core spends working, its pieces, cut at chunks, go to the drives; the request is
//! answered after the last of them. `docs/model.md` has the numbers.

use super::{Stack, count_command, count_request};
use crate::world::TimedWorld;
use anyhow::{Result, bail, ensure};
use engine::layout::Level;
use engine::plan::StepKind;
use engine::request::{Completion, Request};
use engine::stats::Stats;
use engine::token::Token;
use engine::units::MemberId;
use engine::world::{Input, Io};
use models::calendar::Calendar;
use models::raid_driver::DriverCosts;
use std::collections::VecDeque;

/// Inputs that a core takes in one turn.
const INPUTS_MAX: usize = 16;

/// A request that has not reached the drives yet.
struct Held {
    until_ns: u64,
    kind: StepKind,
    request: Request,
}

/// See the module's prose.
pub struct RaidDriver {
    members: u64,
    chunk_bytes: u64,
    component_bytes: u64,
    costs: DriverCosts,
    /// By thread.
    worlds: Vec<TimedWorld>,
    /// By thread: requests on their way through the driver, in order.
    held: Vec<VecDeque<Held>>,
    /// By tag: pieces that have not been answered.
    pieces: Vec<u64>,
    serial: Calendar,
    stats: Stats,
}

impl RaidDriver {
    /// An array of `members` drives, of each of which it uses `component_bytes`, for this many threads.
    ///
    /// # Errors
    ///
    /// When the level is not RAID 0, the only one that is modelled, or the chunk size divides no drive.
    pub fn new(
        level: Level,
        members: u8,
        component_bytes: u64,
        costs: DriverCosts,
        threads: u32,
    ) -> Result<RaidDriver> {
        ensure!(
            level == Level::Raid0,
            "RAID drivers of Windows are modelled as RAID 0 only"
        );
        let chunk_bytes = u64::from(costs.chunk_bytes);
        ensure!(
            chunk_bytes > 0 && component_bytes >= chunk_bytes,
            "a chunk of {chunk_bytes} bytes does not fit a drive of {component_bytes}"
        );
        Ok(RaidDriver {
            members: u64::from(members),
            chunk_bytes,
            component_bytes: component_bytes / chunk_bytes * chunk_bytes,
            costs,
            worlds: (0..threads).map(|_| TimedWorld::default()).collect(),
            held: (0..threads).map(|_| VecDeque::new()).collect(),
            pieces: Vec::new(),
            serial: Calendar::roomy(),
            stats: Stats::default(),
        })
    }

    /// Translates a request. Returns the time when that is done.
    fn take(&mut self, core: usize, request: Request, now_ns: u64, at_ns: u64) -> Result<u64> {
        let kind = match count_request(&mut self.stats, &request)? {
            true => StepKind::Write { fua: request.fua },
            false => StepKind::Read,
        };
        let begun_ns = at_ns + self.costs.request_ns;
        let done_ns = self.serial.reserve(now_ns, begun_ns, self.costs.serial_ns);
        let until_ns = done_ns + self.costs.delay_ns;
        self.held[core].push_back(Held {
            until_ns,
            kind,
            request,
        });
        Ok(done_ns)
    }

    /// Passes the pieces of a request on. Returns the time that this takes.
    fn pass_on(&mut self, core: usize, held: Held) -> u64 {
        let Held { kind, request, .. } = held;
        assert!(request.length_bytes > 0, "a read or write of nothing");
        let end_bytes = request.offset_bytes + u64::from(request.length_bytes);
        let mut at_bytes = request.offset_bytes;
        let mut pieces = 0;
        while at_bytes < end_bytes {
            let (chunk, within) = (at_bytes / self.chunk_bytes, at_bytes % self.chunk_bytes);
            let length_bytes = (end_bytes - at_bytes).min(self.chunk_bytes - within);
            let io = Io {
                token: Token(request.tag),
                member: MemberId((chunk % self.members) as u8),
                kind,
                offset_bytes: chunk / self.members * self.chunk_bytes + within,
                length_bytes,
            };
            count_command(&mut self.stats, &io);
            self.worlds[core].commands.push(io);
            at_bytes += length_bytes;
            pieces += 1;
        }
        let at = request.tag as usize;
        let slots = self.pieces.len().max(at + 1);
        self.pieces.resize(slots, 0);
        self.pieces[at] = pieces;
        let entered = &mut self.worlds[core].entered;
        entered
            .get_or_insert_default()
            .add(u64::from(request.length_bytes));
        (pieces - 1) * self.costs.command_ns
    }
}

impl Stack for RaidDriver {
    fn size_bytes(&self) -> u64 {
        self.component_bytes * self.members
    }

    fn drives(&self) -> usize {
        self.members as usize
    }

    fn cores(&self) -> usize {
        self.worlds.len()
    }

    fn is_on_clients_cores(&self) -> bool {
        true
    }

    fn metadata_offset_bytes(&self) -> u64 {
        self.component_bytes
    }

    #[inline]
    fn world(&mut self, core: usize) -> &mut TimedWorld {
        &mut self.worlds[core]
    }

    fn turn(&mut self, core: usize, now_ns: u64) -> Result<u64> {
        let mut at_ns = now_ns;
        for _ in 0..INPUTS_MAX {
            match self.worlds[core].inputs.pop_front() {
                Some(Input::Request(request)) => at_ns = self.take(core, request, now_ns, at_ns)?,
                Some(Input::Done {
                    token,
                    result: Ok(()),
                }) => {
                    let tag = token.0;
                    self.pieces[tag as usize] -= 1;
                    if self.pieces[tag as usize] == 0 {
                        let result = Ok(());
                        self.worlds[core]
                            .completions
                            .push(Completion { tag, result });
                    }
                }
                Some(other) => {
                    bail!("a RAID driver is told {other:?}, although nothing fails here")
                }
                None => break,
            }
        }
        // What this turn passes on leaves at its end.
        while let Some(held) = self.held[core].pop_front_if(|held| held.until_ns <= at_ns) {
            at_ns += self.pass_on(core, held);
        }
        Ok(at_ns - now_ns)
    }

    fn lines_busy_ns(&self) -> u64 {
        self.serial.busy_ns()
    }

    fn wake_ns(&self, core: usize) -> Option<u64> {
        self.held[core].front().map(|held| held.until_ns)
    }

    fn counters(&self) -> Stats {
        self.stats
    }
}
