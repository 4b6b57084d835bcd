//! Linux md of 2018 by what it does, with arithmetic of its own: a small model, none of its code.
//!
//! Whoever makes a request does its work, on that thread's core: RAID 0, 1 and 10, and reads of RAID 5, which go by
//! the stripe cache. Writes of RAID 5 are cut into pages and left to one thread ([`stripes`]). Every request changes
//! a counter of the whole array, and all levels but RAID 0 have a lock as well ([`SharedLine`]). What each is and where
//! its numbers come from: `docs/model.md`.

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
/// Changes of the array's counter by a request on its way down: it is held while it is passed on.
const PASSING_CHANGES: u64 = 2;
/// Changes by a lock that is taken: its word, and what it guards.
const LOCK_CHANGES: u64 = 2;

/// A piece of a request in one chunk: the place of its data among those of the row, and where on the member.
#[derive(Clone, Copy, Debug)]
struct Piece {
    slot: u64,
    offset_bytes: u64,
    length_bytes: u64,
}

/// What read balancing knows of a member: commands under way, and where one ends: RAID 1 notes that of a command that
/// it passes on, RAID 10 that of one that has been answered.
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
    /// An array that so many threads use.
    ///
    /// # Errors
    ///
    /// When there can be no such array, or a member is missing.
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

    /// The copy to read. RAID 10 takes the first that is idle, or else the one whose head is nearest; RAID 1 the one
    /// whose head is there, or one that is idle, or else the one with the least to do.
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

    /// A request is passed on. Returns when that is over.
    fn take(&mut self, core: usize, request: &Request, now_ns: u64, at_ns: u64) -> Result<u64> {
        let is_write = count_request(&mut self.stats, request)?;
        let is_redundant = self.level != Level::Raid0;
        // What has to be marked dirty counts its writes, too.
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

    /// A member has answered a command.
    fn note_answer(&mut self, member: usize, tag: u64) {
        self.heads[member].pending -= 1;
        if self.level == Level::Raid10 {
            let mut pieces = self.pieces(self.requests[tag as usize]);
            let piece = pieces.find(|piece| self.holders(*piece).contains(&member));
            let end_bytes = piece.map(|piece| piece.offset_bytes + piece.length_bytes);
            self.heads[member].at_bytes = end_bytes.unwrap_or_default();
        }
    }

    /// A part of a request is done; after the last one the client is told. Returns when that is over.
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
