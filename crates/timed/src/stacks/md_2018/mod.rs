//! A small behavioural model of Linux md of 2018, without any of md's code.
//!
//! The work of a request is done on the requesting thread's core for RAID 0, 1 and 10, and for reads of RAID 5,
//! which bypass the stripe cache. Writes of RAID 5 are cut into pages and left to one thread ([`stripes`]). Every
//! request changes a counter of the whole array, and all levels but RAID 0 also take a lock ([`SharedLine`]).
//! `docs/model.md` explains each part and the sources of its numbers.

mod stripes;

use super::{Stack, count_command, count_request};
use crate::array::Array;
use crate::world::TimedWorld;
use anyhow::{Result, anyhow, bail, ensure};
use engine::layout::Level;
use engine::plan::StepKind;
use engine::request::{Completion, Request};
use engine::stats::Stats;
use engine::token::Token;
use engine::units::MemberId;
use engine::world::{Input, Io};
use models::md::MdCosts;
use models::shared_line::SharedLine;
use std::ops::Range;
use stripes::Stripes;

/// Inputs that a client's core takes in one turn.
const INPUTS_MAX: usize = 16;
/// Changes of the array's counter by a request: up before the request is passed on, and down afterwards.
const PASSING_CHANGES: u64 = 2;
/// Changes for each time that a lock is taken: its own word, and the data that it protects.
const LOCK_CHANGES: u64 = 2;

/// A piece of a request in one chunk: the index of its data chunk in the row, and the range on the member.
#[derive(Clone, Copy, Debug)]
struct Piece {
    slot: u64,
    offset_bytes: u64,
    length_bytes: u64,
}

/// State of a member for read balancing: the number of commands in flight, and the end offset of the last
/// command. RAID 1 notes the offset when it passes a command on, RAID 10 when a command has been answered.
#[derive(Clone, Copy, Default, Debug)]
struct Head {
    pending: u64,
    at_bytes: u64,
}

/// A request that waits for answers.
#[derive(Clone, Copy, Default, Debug)]
struct Waiting {
    answers: u64,
    offset_bytes: u64,
    length_bytes: u64,
}

/// See the module's prose.
pub struct Md2018 {
    level: Level,
    members: u64,
    width: u64,
    chunk_bytes: u64,
    component_bytes: u64,
    costs: MdCosts,
    /// By thread; RAID 5's own comes last.
    worlds: Vec<TimedWorld>,
    heads: Vec<Head>,
    /// By tag.
    requests: Vec<Waiting>,
    counter: SharedLine,
    lock: SharedLine,
    stripes: Stripes,
    stats: Stats,
}

impl Md2018 {
    /// An array that is used by this many threads.
    ///
    /// # Errors
    ///
    /// When such an array is impossible, or a member is missing or being rebuilt.
    pub fn new(array: &Array, costs: MdCosts, threads: u32) -> Result<Md2018> {
        let geometry = array
            .geometry()
            .map_err(|error| anyhow!("the array: {error}"))?;
        ensure!(
            array.missing.is_none() && array.rebuilding.is_none(),
            "md-2018 is modelled with all members only"
        );
        let level = array.level;
        let chunk_bytes = match level {
            Level::Raid1 => geometry.component_bytes,
            _ => u64::from(geometry.chunk_bytes),
        };
        let (members, threads) = (u64::from(array.members), threads as usize);
        let cores = threads + usize::from(level == Level::Raid5);
        let line = SharedLine::new(cores, costs.line_ns, costs.sockets);
        Ok(Md2018 {
            level,
            members,
            width: u64::from(geometry.data_members()),
            chunk_bytes,
            component_bytes: geometry.component_bytes,
            worlds: (0..cores).map(|_| TimedWorld::default()).collect(),
            heads: vec![Head::default(); usize::from(array.members)],
            requests: Vec::new(),
            counter: line.clone(),
            lock: line,
            stripes: Stripes::new(members, chunk_bytes, threads, costs),
            costs,
            stats: Stats::default(),
        })
    }

    /// The pieces of a request, in order.
    fn pieces(&self, request: Waiting) -> impl Iterator<Item = Piece> + use<> {
        let (width, chunk_bytes) = (self.width, self.chunk_bytes);
        let mut at_bytes = request.offset_bytes;
        let end_bytes = at_bytes + request.length_bytes;
        std::iter::from_fn(move || {
            let (chunk, within) = (at_bytes / chunk_bytes, at_bytes % chunk_bytes);
            let length_bytes = (end_bytes - at_bytes).min(chunk_bytes - within);
            at_bytes += length_bytes;
            (length_bytes > 0).then_some(Piece {
                slot: chunk % width,
                offset_bytes: chunk / width * chunk_bytes + within,
                length_bytes,
            })
        })
    }

    /// The members that hold a piece.
    fn holders(&self, piece: Piece) -> Range<usize> {
        let copies = self.members / self.width;
        let first = match self.level {
            Level::Raid5 => self.stripes.member(piece.slot, piece.offset_bytes),
            _ => piece.slot * copies,
        };
        first as usize..(first + copies) as usize
    }

    /// The copy to read. RAID 10 takes the first idle member, or else the one with the nearest head. RAID 1 takes
    /// a member whose head is at the offset, or else an idle one, or else the one with the fewest commands in
    /// flight.
    fn copy(&self, holders: Range<usize>, offset_bytes: u64) -> usize {
        let first = holders.start;
        let distance = |at: &usize| self.heads[*at].at_bytes.abs_diff(offset_bytes);
        let pending = |at: &usize| self.heads[*at].pending;
        let idle = holders.clone().find(|at| pending(at) == 0);
        let chosen = match self.level {
            _ if !self.costs.balances_reads => None,
            Level::Raid10 => idle.or(holders.min_by_key(distance)),
            Level::Raid1 if holders.len() > 1 => {
                let there = holders.clone().find(|at| distance(at) == 0);
                there.or(idle).or(holders.min_by_key(pending))
            }
            _ => None,
        };
        chosen.unwrap_or(first)
    }

    /// Passes a request on. Returns the time when that is done.
    fn take(&mut self, core: usize, request: &Request, now_ns: u64, at_ns: u64) -> Result<u64> {
        let is_write = count_request(&mut self.stats, request)?;
        let is_redundant = self.level != Level::Raid0;
        // A redundant array also counts its writes, for its dirty mark.
        let changes = PASSING_CHANGES + u64::from(is_write && is_redundant);
        let mut at_ns = at_ns + self.costs.map_ns;
        at_ns = self.counter.change(now_ns, at_ns, core, changes);
        if is_redundant {
            at_ns = self.lock.change(now_ns, at_ns, core, LOCK_CHANGES);
        }
        let tag = request.tag;
        let mut waiting = Waiting {
            answers: 0,
            offset_bytes: request.offset_bytes,
            length_bytes: u64::from(request.length_bytes),
        };
        let is_for_thread = is_write && self.level == Level::Raid5;
        for piece in self.pieces(waiting) {
            if is_for_thread {
                waiting.answers += self.stripes.write(core, piece, tag);
                continue;
            }
            let mut holders = self.holders(piece);
            if !is_write || !self.costs.writes_copies {
                let copy = self.copy(holders, piece.offset_bytes);
                holders = copy..copy + 1;
            }
            waiting.answers += holders.len() as u64;
            holders.for_each(|member| self.command(core, member, piece, is_write, tag));
        }
        let at = tag as usize;
        let slots = self.requests.len().max(at + 1);
        self.requests.resize(slots, Waiting::default());
        self.requests[at] = waiting;
        let entered = &mut self.worlds[core].entered;
        entered.get_or_insert_default().add(waiting.length_bytes);
        if is_for_thread {
            let thread = self.worlds.len() - 1;
            self.worlds[core].wakes.push(thread as u16);
            return Ok(at_ns + waiting.answers * self.costs.page_add_ns);
        }
        Ok(at_ns + (waiting.answers - 1) * self.costs.command_ns)
    }

    fn command(&mut self, core: usize, member: usize, piece: Piece, is_write: bool, tag: u64) {
        let kind = match is_write {
            true => StepKind::Write { fua: false },
            false => StepKind::Read,
        };
        let io = Io {
            token: Token(tag << 8 | member as u64),
            member: MemberId(member as u8),
            kind,
            offset_bytes: piece.offset_bytes,
            length_bytes: piece.length_bytes,
        };
        self.heads[member].pending += 1;
        if self.level == Level::Raid1 {
            self.heads[member].at_bytes = io.offset_bytes + io.length_bytes;
        }
        count_command(&mut self.stats, &io);
        self.worlds[core].commands.push(io);
    }

    /// Notes that a member has answered a command.
    fn note_answer(&mut self, member: usize, tag: u64) {
        self.heads[member].pending -= 1;
        if self.level == Level::Raid10 {
            let mut pieces = self.pieces(self.requests[tag as usize]);
            let piece = pieces.find(|piece| self.holders(*piece).contains(&member));
            let end_bytes = piece.map(|piece| piece.offset_bytes + piece.length_bytes);
            self.heads[member].at_bytes = end_bytes.unwrap_or_default();
        }
    }

    /// Notes that a part of a request is done, and answers the client after the last one. Returns the time when
    /// that is done.
    fn answer(&mut self, core: usize, tag: u64, now_ns: u64, mut at_ns: u64) -> u64 {
        let waiting = &mut self.requests[tag as usize];
        waiting.answers -= 1;
        if waiting.answers == 0 {
            if self.level != Level::Raid0 {
                at_ns = self.lock.change(now_ns, at_ns, core, 1);
            }
            let result = Ok(());
            self.worlds[core]
                .completions
                .push(Completion { tag, result });
        }
        at_ns
    }

    /// A turn of RAID 5's thread.
    fn handle(&mut self, core: usize, now_ns: u64) -> u64 {
        let mut at_ns = self.lock.change(now_ns, now_ns, core, LOCK_CHANGES);
        let world = &mut self.worlds[core];
        world.kernel_is_paid = true;
        while let Some(input) = world.inputs.pop_front() {
            if let Input::Done { token, .. } = input {
                self.stripes.answered(token);
            }
        }
        at_ns += self.stripes.handle(&mut world.commands);
        world.wakes.append(&mut self.stripes.woken);
        let ios = world.commands.iter();
        ios.for_each(|io| count_command(&mut self.stats, io));
        for tag in std::mem::take(&mut self.stripes.written) {
            at_ns = self.answer(core, tag, now_ns, at_ns);
        }
        at_ns - now_ns
    }
}

impl Stack for Md2018 {
    fn size_bytes(&self) -> u64 {
        self.component_bytes * self.width
    }

    fn drives(&self) -> usize {
        self.heads.len()
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
        if self.level == Level::Raid5 && core == self.worlds.len() - 1 {
            return Ok(self.handle(core, now_ns));
        }
        let mut at_ns = now_ns;
        for _ in 0..INPUTS_MAX {
            match self.worlds[core].inputs.pop_front() {
                Some(Input::Request(request)) => {
                    at_ns = self.take(core, &request, now_ns, at_ns)?
                }
                Some(Input::Done {
                    token,
                    result: Ok(()),
                }) => {
                    let (member, tag) = ((token.0 & 0xff) as usize, token.0 >> 8);
                    self.note_answer(member, tag);
                    at_ns = self.answer(core, tag, now_ns, at_ns);
                }
                Some(other) => bail!("md-2018 is told {other:?}, although nothing fails here"),
                None => break,
            }
        }
        Ok(at_ns - now_ns)
    }

    fn lines_busy_ns(&self) -> u64 {
        self.counter.busy_ns().max(self.lock.busy_ns())
    }

    fn wake_ns(&self, core: usize) -> Option<u64> {
        (core == self.worlds.len() - 1 && self.stripes.has_work()).then_some(0)
    }

    fn counters(&self) -> Stats {
        self.stats
    }
}
