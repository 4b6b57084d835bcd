//! A history as data: the array, and what clients, operators, drives and the power do to it, and when.
//!
//! A seed draws it ([`draw`]); leaving parts of it out leaves a history, so failures can be shrunk.

pub mod draw;
mod lies;
mod refusals;
mod returns;
mod scenes;
mod wide;

use crate::container::create::SECTOR;
use crate::drive::faults::Target;
use crate::drive::lies::Untruth;
use crate::machine::refusals::Update;
use engine::layout::Level;
use engine::policy::MemberKind;
use engine::request::Operation;
use metadata::imsm::SectorSize;
use std::ops::Range;

/// What the faults of a history may do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Mode {
    /// Nothing goes wrong.
    Calm,
    /// What the array has to survive without any loss: see [`crate::budget`].
    Survivable,
    /// Anything: errors are allowed, wrong bytes are not.
    Beyond,
    /// As [`Mode::Survivable`], and drives lie about writes and flushes. Wrong bytes where a drive has lied are
    /// counted, and so is who notices; anything else has to hold as ever.
    Lying,
    /// As [`Mode::Survivable`], and drives that were lost come back while the array serves.
    Returning,
    /// As [`Mode::Survivable`], with arrays of more shapes, drives that differ in what they can do, and faults of more
    /// kinds.
    Wide,
    /// As [`Mode::Beyond`], with the arrays, drives and faults of [`Mode::Wide`].
    WideBeyond,
}

impl Mode {
    /// Errors are allowed, and wrong bytes are not.
    #[must_use]
    pub fn is_beyond(self) -> bool {
        matches!(self, Mode::Beyond | Mode::WideBeyond)
    }

    /// Arrays have more shapes and faults more kinds.
    #[must_use]
    pub fn is_wide(self) -> bool {
        matches!(self, Mode::Wide | Mode::WideBeyond)
    }
}

/// What a drive can do, and what it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// It can discard.
    pub discards: bool,
    /// It is a file, or a device.
    pub kind: MemberKind,
}

impl Default for Abilities {
    fn default() -> Abilities {
        Abilities {
            discards: true,
            kind: MemberKind::Device,
        }
    }
}

/// One volume of the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct VolumeShape {
    /// RAID level.
    pub level: Level,
    /// Strip; ignored for RAID 1.
    pub chunk_bytes: u32,
    /// Bytes on each member.
    pub component_bytes: u64,
    /// The members agreed when the volume was made; otherwise redundancy has to be established first.
    pub born_in_sync: bool,
    /// A RAID 5 that keeps a write-hole log.
    pub logged: bool,
    /// It keeps a write-intent bitmap.
    pub marked: bool,
}

/// The array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Topology {
    /// Members.
    pub members: u8,
    /// Volumes on them.
    pub volumes: Vec<VolumeShape>,
    /// Shards of the process.
    pub shards: u8,
    /// Logical sectors of all drives.
    pub sector: SectorSize,
    /// By member: whether it has a volatile cache.
    pub volatile: Vec<bool>,
    /// By bay, in turn: what drives can do. Where nothing is said, all that there is.
    pub abilities: Vec<Abilities>,
    /// The drives hold what an earlier owner left.
    pub left_over: bool,
    /// Spares at the beginning.
    pub spares: u8,
    /// The engine's deadline for members.
    pub deadline_ns: u64,
    /// A volume without writes for this long is marked clean.
    pub clean_after_ns: u64,
    /// How often bits of bitmaps are cleared.
    pub clear_regions_every_ns: u64,
    /// Limit of background work; 0 is unlimited.
    pub rate_bytes_per_s: u64,
    /// Shortest time of a command.
    pub latency_ns: u64,
    /// Longest random addition.
    pub spread_ns: u64,
    /// Longest additional time of messages to the last shard.
    pub lag_ns: u64,
}

/// What is done to drives while the array is not running.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meddling {
    /// Drives that had dropped out are back, with what they held.
    Return,
    /// The drive in this bay is empty, though it says the same serial.
    Blank(usize),
    /// Another drive was put into this bay, with somebody else's bytes.
    Foreign(usize),
    /// The drive in this bay is not there.
    Absent(usize),
    /// The metadata of the drive in this bay is torn.
    Torn(usize),
    /// The metadata of the drive in this bay is what it was this many updates ago.
    Old(usize, u8),
    /// The power is cut once more after so many writes and flushes of the next start.
    CutAgain(u8),
}

impl Meddling {
    /// The drive that is not what it was afterwards.
    #[must_use]
    pub fn bay(self) -> Option<usize> {
        match self {
            Meddling::Return | Meddling::CutAgain(_) => None,
            Meddling::Blank(bay)
            | Meddling::Foreign(bay)
            | Meddling::Absent(bay)
            | Meddling::Torn(bay)
            | Meddling::Old(bay, _) => Some(bay),
        }
    }
}

/// How the array's process ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outage {
    /// The power is cut.
    PowerCut,
    /// The process crashes.
    Crash,
    /// It is stopped in order.
    Stop,
}

/// A command on its way to a drive, by what it is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Errand {
    /// Writes a part of the metadata: the record or its shadow.
    Metadata,
    /// Writes a unit of a write-hole log.
    Log,
    /// Flushes.
    Flush,
    /// Writes anything else.
    Write,
}

/// When an outage strikes: at a command, and not at an hour.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strike {
    /// Which commands count.
    pub errand: Errand,
    /// How many of them go by.
    pub spared: u8,
    /// The command is answered first; otherwise it has only begun.
    pub answered: bool,
}

/// What lies on a member beside data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    /// The record.
    Record,
    /// Its shadow.
    Shadow,
    /// The write-hole log of a volume, so many bytes into it.
    Log(u8, u64),
    /// The bitmap of a volume.
    Bitmap(u8),
}

/// Something that goes wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fault {
    /// The next commands of a kind fail with this errno.
    Errors(usize, Target, i32, u32),
    /// Sectors cannot be read: bay, first byte, bytes.
    BadSectors(usize, u64, u64),
    /// A drive answers nothing for a while: bay, nanoseconds.
    Hang(usize, u64),
    /// A drive is slow for a while: bay, factor, nanoseconds.
    Slow(usize, u64, u64),
    /// A drive drops out.
    DropOut(usize),
    /// The metadata cannot express the next records that change a certain thing, so many of them.
    Inexpressible(Update, u8),
    /// A drive loses what is in its cache and answers this errno to everything, until it is plugged in again.
    Dies(usize, i32),
    /// A part of the metadata on a drive cannot be read.
    BadArea(usize, Area),
    /// A drive discards no more.
    RefusesDiscards(usize),
    /// A drive's cache does not outlast the loss of power any more; the array is told first.
    TurnsVolatile(usize),
    /// The process stands still for so long, and with it the kernel's threads that answer for drives, or not.
    Standstill(u64, bool),
    /// The clock jumps.
    ClockJumps(i64),
    /// All members answer the next command of a kind with the same errno: the host is ill.
    HostErrors(Target, i32),
    /// A drive lies about the next flush, or about the next write within these bytes of it.
    Lie(usize, Untruth, Range<u64>),
    /// The process ends and is started again; in between somebody meddles with the drives.
    Outage(Outage, Vec<Meddling>),
    /// As [`Fault::Outage`], at the moment of a command to come. If none comes, it is never.
    OutageAt(Strike, Outage, Vec<Meddling>),
}

impl Fault {
    /// The drive that may be failed for it.
    #[must_use]
    pub fn bay(&self) -> Option<usize> {
        match *self {
            Fault::Errors(bay, ..)
            | Fault::BadSectors(bay, ..)
            | Fault::BadArea(bay, _)
            | Fault::Hang(bay, _)
            | Fault::Slow(bay, ..)
            | Fault::Dies(bay, _)
            | Fault::DropOut(bay)
            | Fault::Lie(bay, ..) => Some(bay),
            Fault::RefusesDiscards(_)
            | Fault::TurnsVolatile(_)
            | Fault::Standstill(..)
            | Fault::ClockJumps(_)
            | Fault::HostErrors(..)
            | Fault::Inexpressible(..)
            | Fault::Outage(..)
            | Fault::OutageAt(..) => None,
        }
    }
}

/// What an operator orders.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Stop using the drive in this bay.
    Fail(usize),
    /// A fresh drive becomes a spare.
    AddSpare,
    /// Compare everything; correct what does not match.
    Scrub {
        /// The volume.
        volume: u8,
        /// Correct.
        repair: bool,
    },
    /// Copy a slot to a fresh drive while it serves.
    Replace {
        /// The volume.
        volume: u8,
        /// The slot.
        slot: u8,
    },
    /// Plug the drive in this bay in again, and give it to the array as it is.
    BringBack(usize),
    /// Limit background work.
    Rate(u64),
    /// Let the background work of a volume wait, or go on.
    Pause {
        /// The volume.
        volume: u8,
        /// Wait.
        paused: bool,
    },
    /// End the background work of a volume, if it may be ended.
    Cancel(u8),
    /// Fill the empty slot of a volume.
    Rebuild(u8),
}

/// A client's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// Which client: it always asks the same shard.
    pub connection: u8,
    /// The volume.
    pub volume: u8,
    /// What.
    pub operation: Operation,
    /// Durable before it is acknowledged.
    pub fua: bool,
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u32,
}

/// Something that is done to the array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// A client asks.
    Ask(Ask),
    /// Something goes wrong.
    Fault(Fault),
    /// An operator orders.
    Order(Order),
}

/// An act and its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// Not before.
    pub at_ns: u64,
    /// What. Requests are numbered by their place in the drawn history.
    pub act: Act,
    /// The number of a request, unique in the history.
    pub number: u32,
}

/// See the module's prose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// Draws latencies, message delays and the fate of what is in flight.
    pub seed: u64,
    /// What faults may do.
    pub mode: Mode,
    /// The array.
    pub topology: Topology,
    /// What happens, in order of time.
    pub actions: Vec<Action>,
}

impl Topology {
    /// An array without anything special: one shard, drives with volatile caches, no limits, no spares.
    #[must_use]
    pub fn plain(members: u8, volumes: Vec<VolumeShape>) -> Topology {
        const MS: u64 = 1_000_000;
        Topology {
            members,
            volumes,
            shards: 1,
            sector: SECTOR,
            volatile: vec![true; usize::from(members)],
            abilities: Vec::new(),
            left_over: false,
            spares: 0,
            deadline_ns: 1_000 * MS,
            clean_after_ns: 20 * MS,
            clear_regions_every_ns: 5_000 * MS,
            rate_bytes_per_s: 0,
            latency_ns: 5_000,
            spread_ns: 5_000,
            lag_ns: 0,
        }
    }

    /// What the drive in a bay can do.
    #[must_use]
    pub fn abilities_of(&self, bay: usize) -> Abilities {
        let turns = self.abilities.len().max(1);
        self.abilities.get(bay % turns).copied().unwrap_or_default()
    }

    /// Whether a volume survives nothing, beside one that does.
    #[must_use]
    pub fn is_beside_redundancy(&self, volume: u8) -> bool {
        let has_none = |volume: &VolumeShape| volume.level == Level::Raid0;
        has_none(&self.volumes[usize::from(volume)]) && !self.volumes.iter().all(has_none)
    }

    /// Members that hold data of a volume.
    #[must_use]
    pub fn data_members(&self, volume: u8) -> u64 {
        let level = self.volumes[volume as usize].level;
        u64::from(level.data_members(self.members))
    }

    /// Bytes of a volume.
    #[must_use]
    pub fn size_bytes(&self, volume: u8) -> u64 {
        self.volumes[volume as usize].component_bytes * self.data_members(volume)
    }

    /// First byte and bytes of a volume on each member.
    #[must_use]
    pub fn extent(&self, volume: u8) -> (u64, u64) {
        let before = &self.volumes[..volume as usize];
        let start = before
            .iter()
            .map(|volume| (volume.component_bytes + LOG_BYTES).next_multiple_of(4096))
            .sum();
        (start, self.volumes[volume as usize].component_bytes)
    }

    /// Bytes of each drive: room for everything, and the end that the format reserves.
    #[must_use]
    pub fn drive_bytes(&self) -> u64 {
        let data: u64 = self
            .volumes
            .iter()
            .map(|volume| volume.component_bytes.next_multiple_of(1 << 20))
            .sum();
        // Gaps between volumes are 4 MiB where the format lays them out.
        data + self.volumes.len() as u64 * (4 << 20) + (6 << 20)
    }
}

/// What the format keeps free behind the data of each volume.
const LOG_BYTES: u64 = metadata::imsm::WRITE_HOLE_LOG_SECTORS * metadata::imsm::SECTOR_BYTES;
