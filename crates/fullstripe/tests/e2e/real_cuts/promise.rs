//! What a volume has to hold after a power cut, sector by sector.
//!
//! Each sector contains its number, the version of the write that wrote it, and bytes derived from both. For each
//! sector three things are known: the oldest version that it may hold (*sure*: from a FUA write, or acknowledged
//! before an answered FLUSH was sent); *later* versions, acknowledged or not; and, until the power is cut, the
//! version that a read must return (*now*). After a cut the sector holds the sure version or one of the later ones;
//! the first read shows which, and that one must stay until the next cut.

use crate::common::nbd;
use faultfs::journal;
use repeatable::random::{self, Stream};
use std::ops::Range;

pub const SECTOR_BYTES: usize = 512;
/// The version of a sector of zeros.
const ZEROS: u32 = 0;
/// Most requests of the load fall into so many sectors at the volume's start.
const HOT_SECTORS: usize = 3000;

/// A change of a sector that a power cut may undo.
#[derive(Clone, Copy, Debug)]
struct Later {
    version: u32,
    begun: u64,
    answered: Option<u64>,
    /// A trim: the sector holds zeros or what it held.
    is_trim: bool,
}

#[derive(Clone, Debug)]
struct Sector {
    /// `None`: it may hold anything.
    sure: Option<u32>,
    later: Vec<Later>,
    /// The version that a read must return, and since when that is known.
    now: Option<(u32, u64)>,
}

/// A request of the load.
#[derive(Clone, Debug)]
pub struct Request {
    pub kind: (u16, u16),
    pub first: usize,
    pub count: usize,
    pub version: u32,
    /// When it was sent.
    pub begun: u64,
}

/// What each sector of a volume may hold.
pub struct Promise {
    seed: u64,
    /// The sector that was wrong.
    pub wrong_sector: Option<usize>,
    random: Stream,
    grain: usize,
    next_version: u32,
    clock: u64,
    sectors: Vec<Sector>,
    busy: Vec<Range<usize>>,
}

impl Promise {
    /// For a volume of zeros; requests are multiples of `grain_bytes`.
    pub fn new(size_bytes: u64, grain_bytes: u32, seed: u64) -> Promise {
        let sector = Sector {
            sure: Some(ZEROS),
            later: Vec::new(),
            now: Some((ZEROS, 0)),
        };
        Promise {
            seed,
            wrong_sector: None,
            random: Stream::new(seed, "load", 0),
            grain: grain_bytes as usize / SECTOR_BYTES,
            next_version: 1,
            clock: 0,
            sectors: vec![sector; size_bytes as usize / SECTOR_BYTES],
            busy: Vec::new(),
        }
    }

    pub fn sectors(&self) -> usize {
        self.sectors.len()
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// What `count` sectors from `first` contain in `version`.
    pub fn content(&self, first: usize, count: usize, version: u32) -> Vec<u8> {
        let mut bytes = vec![0; count * SECTOR_BYTES];
        if version == ZEROS {
            return bytes;
        }
        for (sector, bytes) in (first..).zip(bytes.chunks_exact_mut(SECTOR_BYTES)) {
            let key = self.seed ^ (sector as u64) << 32 ^ u64::from(version);
            random::fill(key, bytes);
            bytes[..8].copy_from_slice(&(sector as u64).to_le_bytes());
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
        }
        bytes
    }

    /// Draws and begins the next request; `None` if it overlaps one that is under way.
    pub fn begin(&mut self) -> Option<Request> {
        use nbd::{FLAG_FUA, FLUSH, READ, TRIM, WRITE, WRITE_ZEROES};
        let mut up_to = |most: u64| 1 + self.random.below(most) as usize;
        let (kind, count) = match up_to(100) {
            1..20 => ((READ, 0), up_to(200)),
            20..42 => ((WRITE, 0), 8),
            42..54 => ((WRITE, 0), up_to(16)),
            54..64 => ((WRITE, 0), up_to(400)),
            64..72 => ((WRITE, FLAG_FUA), 8),
            72..78 => ((WRITE, FLAG_FUA), up_to(120)),
            78..84 => ((WRITE_ZEROES, 0), up_to(200)),
            84..86 => ((WRITE_ZEROES, FLAG_FUA), up_to(40)),
            86..92 => ((TRIM, 0), up_to(300)),
            _ => ((FLUSH, 0), 0),
        };
        let count = count.next_multiple_of(self.grain);
        let is_hot = self.random.chance(2, 3);
        let room = if is_hot {
            HOT_SECTORS.min(self.sectors.len())
        } else {
            self.sectors.len()
        };
        let places = (room - count) / self.grain;
        let first = self.random.below(places as u64 + 1) as usize * self.grain;
        let range = first..first + count;
        let meets = |other: &Range<usize>| other.start < range.end && range.start < other.end;
        if self.busy.iter().any(meets) {
            return None;
        }
        Some(self.begin_this(kind, if count == 0 { 0 } else { first }, count))
    }

    /// Begins a request, which must not overlap one that is under way.
    pub fn begin_this(&mut self, kind: (u16, u16), first: usize, count: usize) -> Request {
        let begun = self.tick();
        let version = match kind.0 {
            nbd::WRITE => {
                self.next_version += 1;
                self.next_version - 1
            }
            _ => ZEROS,
        };
        if changes(kind) {
            for sector in &mut self.sectors[first..first + count] {
                sector.now = None;
                sector.later.push(Later {
                    version,
                    begun,
                    answered: None,
                    is_trim: kind.0 == nbd::TRIM,
                });
            }
        }
        self.busy.push(first..first + count);
        Request {
            kind,
            first,
            count,
            version,
            begun,
        }
    }

    /// Notes that a request was answered with success.
    pub fn succeeded(&mut self, request: &Request) {
        let moment = self.tick();
        self.release(request);
        if request.kind.0 == nbd::FLUSH {
            self.flushed(request.begun);
        }
        if !changes(request.kind) {
            return;
        }
        for sector in &mut self.sectors[request.first..request.first + request.count] {
            if request.kind.1 & nbd::FLAG_FUA != 0 {
                sector.sure = Some(request.version);
                sector.later.clear();
            } else if let Some(last) = sector.later.last_mut() {
                last.answered = Some(moment);
            }
            if request.kind.0 != nbd::TRIM {
                sector.now = Some((request.version, moment));
            }
        }
    }

    /// Notes that a FLUSH, sent at `sent`, was answered with success.
    fn flushed(&mut self, sent: u64) {
        for sector in &mut self.sectors {
            let is_sure = |later: &Later| {
                !later.is_trim && later.answered.is_some_and(|answered| answered < sent)
            };
            if let Some(at) = sector.later.iter().rposition(is_sure) {
                sector.sure = Some(sector.later[at].version);
                sector.later.drain(..=at);
            }
            // A version that was read after the last change, and then flushed, is sure.
            if let Some((version, since)) = sector.now
                && since < sent
                && sector.later.iter().all(|later| later.begun < since)
            {
                sector.sure = Some(version);
                sector.later.clear();
            }
        }
    }

    /// Notes that a request was answered with an error, or never: each of its sectors may have been changed or not.
    pub fn failed(&mut self, request: &Request) {
        self.release(request);
    }

    fn release(&mut self, request: &Request) {
        let range = request.first..request.first + request.count;
        let at = self.busy.iter().position(|other| *other == range);
        self.busy.swap_remove(at.expect("it was begun"));
    }

    /// Notes a power cut. With `may_spoil`, sectors with later versions may hold anything, because a degraded RAID 5
    /// promises nothing about them.
    pub fn cut(&mut self, may_spoil: bool) {
        assert!(self.busy.is_empty(), "a request is still under way");
        for sector in &mut self.sectors {
            if may_spoil && !sector.later.is_empty() {
                sector.sure = None;
            }
            sector.now = None;
            // After the cut, a later FLUSH does not make these versions sure.
            sector
                .later
                .iter_mut()
                .for_each(|later| later.answered = None);
        }
    }

    /// Compares the data that a read returned; the error is a sentence about the first wrong sector.
    pub fn check(&mut self, first: usize, data: &[u8]) -> Result<(), String> {
        let moment = self.tick();
        for (number, bytes) in (first..).zip(data.chunks_exact(SECTOR_BYTES)) {
            let found = u32::from_le_bytes(bytes[8..12].try_into().expect("4"));
            let is_whole = bytes == self.content(number, 1, found);
            let sector = &mut self.sectors[number];
            let is_right = match sector.now {
                Some((version, _)) => is_whole && version == found,
                None if sector.sure.is_none() => true,
                None => {
                    let mut later = sector.later.iter();
                    is_whole
                        && (sector.sure == Some(found) || later.any(|one| one.version == found))
                }
            };
            if !is_right {
                self.wrong_sector = Some(number);
                return Err(self.complaint(number, bytes, is_whole));
            }
            if is_whole && sector.now.is_none() {
                sector.now = Some((found, moment));
            }
        }
        Ok(())
    }

    /// The version of a sector that has this tag.
    pub fn version_with_tag(&self, sector: usize, tag: u64) -> Option<u32> {
        let of = |version: &u32| journal::tag(&self.content(sector, 1, *version)) == tag;
        (0..self.next_version).find(of)
    }

    fn complaint(&self, number: usize, bytes: &[u8], is_whole: bool) -> String {
        let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().expect("4"));
        let Sector { sure, later, now } = &self.sectors[number];
        let how = if is_whole { "whole" } else { "not as written" };
        format!(
            "sector {number} of {} holds version {} of sector {} ({how}); it has to be {now:?} now, or sure \
             {sure:?} or later {later:?}; the newest version is {}",
            self.sectors.len(),
            word(8),
            word(0),
            self.next_version - 1,
        )
    }
}

/// Whether a request changes what the volume holds.
pub fn changes(kind: (u16, u16)) -> bool {
    matches!(kind.0, nbd::WRITE | nbd::WRITE_ZEROES | nbd::TRIM)
}

/// Where a sector begins.
pub fn at(sector: usize) -> u64 {
    (sector * SECTOR_BYTES) as u64
}
