//! RAID 5's stripe cache and the one thread that works on it. A stripe head holds a page of each member. Writes
//! attach their pages to heads. The thread handles a head in several passes: it reads missing pages, computes
//! parity, writes, and answers. If no head is free, threads queue until a quarter of the heads is free again.

use super::Piece;
use engine::plan::StepKind;
use engine::token::Token;
use engine::units::MemberId;
use engine::world::Io;
use models::md::MdCosts;
use std::collections::{BTreeMap, VecDeque};

const PAGE_BYTES: u64 = 4096;

/// The stage of a head.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
enum Stage {
    #[default]
    Rests,
    Reads,
    /// Parity is computed, and nothing written yet.
    Computed,
    Writes,
}

/// A stripe head. Sets of pages are bit sets by data slot; the bit of parity comes after the last data slot.
#[derive(Clone, Default, Debug)]
struct Head {
    page: Option<u64>,
    stage: Stage,
    is_active: bool,
    /// Sets of pages: as on the members; to be written; of the commands in flight. And the number of these
    /// commands.
    known: u64,
    wanted: u64,
    moving: u64,
    unanswered: u32,
    /// Requests that wait for `wanted` pages, and requests whose pages are being written.
    waiting: Vec<u64>,
    writing: Vec<u64>,
}

/// See the module's prose.
#[derive(Debug)]
pub struct Stripes {
    members: u64,
    chunk_bytes: u64,
    costs: MdCosts,
    heads: Vec<Head>,
    by_page: BTreeMap<u64, usize>,
    /// Heads to be handled, and idle heads, the longest idle first.
    to_handle: VecDeque<usize>,
    inactive: VecDeque<usize>,
    /// By thread: the queue of page, slot and request without a head yet.
    lines: Vec<VecDeque<(u64, u64, u64)>>,
    first: usize,
    is_short: bool,
    /// Requests of which a page has been written.
    pub written: Vec<u64>,
    /// Threads that waited for heads and have received some.
    pub woken: Vec<u16>,
}

impl Stripes {
    pub fn new(members: u64, chunk_bytes: u64, threads: usize, costs: MdCosts) -> Stripes {
        Stripes {
            members,
            chunk_bytes,
            costs,
            heads: vec![Head::default(); costs.stripe_cache_heads],
            by_page: BTreeMap::new(),
            to_handle: VecDeque::new(),
            inactive: (0..costs.stripe_cache_heads).collect(),
            lines: vec![VecDeque::new(); threads],
            first: 0,
            is_short: false,
            written: Vec::new(),
            woken: Vec::new(),
        }
    }

    /// The member of a slot, as in IMSM: parity moves from the last member to the first, and data fill the others
    /// in order.
    pub fn member(&self, slot: u64, offset_bytes: u64) -> u64 {
        let last = self.members - 1;
        let parity = last - offset_bytes / self.chunk_bytes % self.members;
        match slot {
            slot if slot == last => parity,
            slot => slot + u64::from(slot >= parity),
        }
    }

    pub fn has_work(&self) -> bool {
        !self.to_handle.is_empty()
    }

    /// Queues a piece that a thread writes. Returns the number of its pages.
    pub fn write(&mut self, thread: usize, piece: Piece, tag: u64) -> u64 {
        let end_bytes = piece.offset_bytes + piece.length_bytes;
        let pages = piece.offset_bytes / PAGE_BYTES..end_bytes.div_ceil(PAGE_BYTES);
        for page in pages.clone() {
            self.lines[thread].push_back((page, piece.slot, tag));
            self.serve_line(thread);
        }
        pages.end - pages.start
    }

    /// Attaches the first page of a thread's queue to a head, if possible. Returns whether it did.
    fn serve_line(&mut self, thread: usize) -> bool {
        let Some(&(page, slot, tag)) = self.lines[thread].front() else {
            return false;
        };
        let found = self.by_page.get(&page).copied();
        let Some(at) = found.or_else(|| self.take_head(page)) else {
            return false;
        };
        let head = &mut self.heads[at];
        if head.wanted >> slot & 1 == 1 {
            return false; // Two writes of one page come one after the other.
        }
        head.wanted |= 1 << slot;
        head.waiting.push(tag);
        if !head.is_active {
            head.is_active = true;
            let rests = self.inactive.iter().position(|other| *other == at);
            rests.and_then(|rests| self.inactive.remove(rests));
            self.to_handle.push_back(at);
        }
        self.lines[thread].pop_front();
        true
    }

    /// Takes the head that has been idle for longest, for another page.
    fn take_head(&mut self, page: u64) -> Option<usize> {
        let free = self.inactive.len();
        self.is_short = free == 0 || self.is_short && free * 4 <= self.heads.len();
        let at = *self.inactive.front().filter(|_| !self.is_short)?;
        self.heads[at].known = 0;
        if let Some(before) = self.heads[at].page.replace(page) {
            self.by_page.remove(&before);
        }
        self.by_page.insert(page, at);
        Some(at)
    }

    /// Notes that a member has answered a command of a head.
    pub fn answered(&mut self, token: Token) {
        let at = token.0 as usize;
        self.heads[at].unanswered -= 1;
        if self.heads[at].unanswered == 0 {
            self.to_handle.push_back(at);
        }
    }

    /// Handles a batch of heads. Returns the time that it takes.
    pub fn handle(&mut self, commands: &mut Vec<Io>) -> u64 {
        let count = self.costs.stripe_batch.min(self.to_handle.len());
        let mut takes_ns = count as u64 * self.costs.stripe_pass_ns;
        for _ in 0..count {
            let at = self.to_handle.pop_front();
            takes_ns += at.map_or(0, |at| self.look_at(at, commands));
        }
        self.serve_lines();
        takes_ns
    }

    /// Serves all queues, one page of each in turn, beginning with a different queue at each call.
    fn serve_lines(&mut self) {
        let threads = self.lines.len();
        self.first = (self.first + 1) % threads;
        let round = |first: usize| (first..first + threads).map(move |at| at % threads);
        let mut served = 1;
        while served > 0 {
            served = 0;
            for thread in round(self.first) {
                if self.serve_line(thread) {
                    served += 1;
                    if !self.woken.contains(&(thread as u16)) {
                        self.woken.push(thread as u16);
                    }
                }
            }
        }
    }

    fn look_at(&mut self, at: usize, commands: &mut Vec<Io>) -> u64 {
        let head = &mut self.heads[at];
        match head.stage {
            Stage::Computed => {
                head.stage = Stage::Writes;
                return self.command(at, StepKind::Write { fua: false }, commands);
            }
            Stage::Reads | Stage::Writes => head.known |= head.moving,
            Stage::Rests => {}
        }
        self.written.append(&mut head.writing);
        head.stage = Stage::Rests;
        if head.wanted == 0 {
            head.is_active = false;
            self.inactive.push_back(at);
            return 0;
        }
        // Read the pages to be overwritten and parity, or else the rest of the row: whichever is less; if equal,
        // the rest of the row.
        let parity = 1 << (self.members - 1);
        let modify = (head.wanted | parity) & !head.known;
        let reconstruct = (parity - 1) & !head.wanted & !head.known;
        let is_modify = modify.count_ones() < reconstruct.count_ones();
        head.moving = if is_modify { modify } else { reconstruct };
        if head.moving != 0 {
            head.stage = Stage::Reads;
            return self.command(at, StepKind::Read, commands);
        }
        // The written pages are copied; old and new data, or the whole row, are xored into parity.
        let written = u64::from(head.wanted.count_ones());
        let added = if is_modify {
            2 * written
        } else {
            self.members - 1
        };
        head.moving = std::mem::take(&mut head.wanted) | parity;
        std::mem::swap(&mut head.waiting, &mut head.writing);
        head.stage = Stage::Computed;
        self.to_handle.push_back(at);
        (written + added) * self.costs.page_ns
    }

    /// Issues commands for the `moving` pages. Returns the time that this takes.
    fn command(&mut self, at: usize, kind: StepKind, commands: &mut Vec<Io>) -> u64 {
        let moving = self.heads[at].moving;
        let offset_bytes = self.heads[at].page.unwrap_or(0) * PAGE_BYTES;
        let slots = (0..self.members).filter(|slot| moving >> slot & 1 == 1);
        commands.extend(slots.map(|slot| Io {
            token: Token(at as u64),
            member: MemberId(self.member(slot, offset_bytes) as u8),
            kind,
            offset_bytes,
            length_bytes: PAGE_BYTES,
        }));
        self.heads[at].unanswered = moving.count_ones();
        u64::from(moving.count_ones()) * self.costs.command_ns
    }
}
