//! A history as data: the array, and what happens to it when: requests, orders, faults and power cuts.
//!
//! It is drawn from a seed ([`draw`]). A history without some of its parts is still a history, so failures can be
//! shrunk.

pub mod draw;
mod hangs;
mod lies;
mod refusals;
mod returns;
mod scenes;
mod wide;

use crate::container::create::SECTOR;
use crate::drive::faults::Target;
use crate::drive::lies::Untruth;
use crate::machine::refusals::Update;
use crate::ublk::Devices;
use crate::vhost_user::Machines;
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
    /// Only faults that the array has to survive without any loss: see [`crate::budget`].
    Survivable,
    /// Any fault. Errors are allowed, wrong bytes are not.
    Beyond,
    /// As [`Mode::Survivable`], and drives lie about writes and flushes. Wrong bytes where a drive has lied are
    /// counted, and so is whether a client or a scrub noticed; all other rules of [`Mode::Survivable`] hold.
    Lying,
    /// As [`Mode::Survivable`], and lost drives come back while the array is in service.
    Returning,
    /// As [`Mode::Survivable`], with more shapes of arrays, drives with different abilities, and more kinds of
    /// faults.
    Wide,
    /// As [`Mode::Beyond`], with the arrays, drives and faults of [`Mode::Wide`].
    WideBeyond,
}

impl Mode {
    /// Whether errors are allowed; wrong bytes never are.
    #[must_use]
    pub fn is_beyond(self) -> bool {
        matches!(self, Mode::Beyond | Mode::WideBeyond)
    }

    /// Whether there are more shapes of arrays and more kinds of faults.
    #[must_use]
    pub fn is_wide(self) -> bool {
        matches!(self, Mode::Wide | Mode::WideBeyond)
    }
}

/// How clients reach the array.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// They hand their requests to the engine.
    Engine,
    /// They use block devices: see [`crate::ublk`].
    Ublk(Devices),
    /// They are virtual machines: see [`crate::vhost_user`].
    VhostUser(Machines),
}

/// A drive's abilities and kind.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Abilities {
    /// It can discard.
    pub discards: bool,
    /// A file or a device.
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
    /// Chunk size; ignored for RAID 1.
    pub chunk_bytes: u32,
    /// Bytes on each member.
    pub component_bytes: u64,
    /// Redundancy is valid from the creation on; otherwise it has to be established first.
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
    /// Abilities of drives by bay, repeated when the list is shorter. If it is empty, all drives have the default
    /// abilities.
    pub abilities: Vec<Abilities>,
    /// The drives hold an earlier owner's bytes.
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
    /// Drives that had dropped out are back, with their content.
    Return,
    /// The drive in this bay is empty, with an unchanged serial.
    Blank(usize),
    /// Another drive is in this bay, with an earlier owner's bytes.
    Foreign(usize),
    /// The drive in this bay is missing.
    Absent(usize),
    /// The metadata of the drive in this bay is torn.
    Torn(usize),
    /// The drive in this bay has its metadata of this many updates ago.
    Old(usize, u8),
    /// The power is cut again after this many writes and flushes of the next start.
    CutAgain(u8),
}

impl Meddling {
    /// The bay of the drive that this changes.
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

/// The purpose of a command to a drive.
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

/// Triggers an outage at a certain command instead of at a certain time.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strike {
    /// Which commands count.
    pub errand: Errand,
    /// How many such commands pass before the outage.
    pub spared: u8,
    /// Whether the outage comes when the command has been answered; otherwise when it has begun.
    pub answered: bool,
}

/// A part of a member that holds no data of volumes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Area {
    /// The record.
    Record,
    /// Its shadow.
    Shadow,
    /// The write-hole log of a volume, at this offset in it.
    Log(u8, u64),
    /// The bitmap of a volume.
    Bitmap(u8),
}

/// A fault.
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
    /// The metadata cannot express the next records with a certain kind of change: kind, number of records.
    Inexpressible(Update, u8),
    /// A drive loses its cache and answers this errno to every command, until it is plugged in again.
    Dies(usize, i32),
    /// A part of the metadata on a drive cannot be read.
    BadArea(usize, Area),
    /// A drive refuses to discard from now on.
    RefusesDiscards(usize),
    /// A drive's cache no longer survives a loss of power; this is reported to the array before it takes effect.
    TurnsVolatile(usize),
    /// The process stands still for this time; if the flag is set, the kernel's threads that answer for drives do
    /// so too.
    Standstill(u64, bool),
    /// The clock jumps.
    ClockJumps(i64),
    /// All members answer commands of a kind with the same errno, because the host has a problem.
    HostErrors(Target, i32),
    /// A drive lies about the next flush, or about the next write inside this range.
    Lie(usize, Untruth, Range<u64>),
    /// The process ends and is started again; in between the drives are tampered with.
    Outage(Outage, Vec<Meddling>),
    /// As [`Fault::Outage`], at the moment of a later command. It never happens if no such command comes.
    OutageAt(Strike, Outage, Vec<Meddling>),
}

impl Fault {
    /// The bay of the drive that may be failed because of this.
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

/// An order of an operator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Stop using the drive in this bay.
    Fail(usize),
    /// Add a new drive as a spare.
    AddSpare,
    /// Compare all redundancy.
    Scrub {
        /// The volume.
        volume: u8,
        /// Correct mismatches.
        repair: bool,
    },
    /// Copy a slot's drive to a new drive while it is in service.
    Replace {
        /// The volume.
        volume: u8,
        /// The slot.
        slot: u8,
    },
    /// Plug the drive in this bay in again, and add it to the array with its content.
    BringBack(usize),
    /// Limit background work.
    Rate(u64),
    /// Pause or resume the background work of a volume.
    Pause {
        /// The volume.
        volume: u8,
        /// Pause; otherwise resume.
        paused: bool,
    },
    /// Cancel the background work of a volume, if it can be cancelled.
    Cancel(u8),
    /// Fill the empty slot of a volume.
    Rebuild(u8),
}

/// A client's request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ask {
    /// The client; each always sends to the same shard.
    pub connection: u8,
    /// The volume.
    pub volume: u8,
    /// The operation.
    pub operation: Operation,
    /// Durable before it is acknowledged.
    pub fua: bool,
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u32,
}

/// Something that happens to the array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Act {
    /// A client sends a request.
    Ask(Ask),
    /// A fault happens.
    Fault(Fault),
    /// An operator gives an order.
    Order(Order),
}

/// An act and its time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Action {
    /// The earliest time.
    pub at_ns: u64,
    /// What happens.
    pub act: Act,
    /// Its number, unique in the history, assigned when the history is drawn; requests are known to the oracle by
    /// it.
    pub number: u32,
}

/// See the module's prose.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct History {
    /// Decides latencies, message delays and what happens to commands in flight.
    pub seed: u64,
    /// What faults may do.
    pub mode: Mode,
    /// The array.
    pub topology: Topology,
    /// How clients reach it.
    pub access: Access,
    /// The acts, in order of time.
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

    /// The abilities of the drive in a bay.
    #[must_use]
    pub fn abilities_of(&self, bay: usize) -> Abilities {
        let turns = self.abilities.len().max(1);
        self.abilities.get(bay % turns).copied().unwrap_or_default()
    }

    /// Whether a volume has no redundancy while another volume of the array has some.
    #[must_use]
    pub fn is_beside_redundancy(&self, volume: u8) -> bool {
        let has_none = |volume: &VolumeShape| volume.level == Level::Raid0;
        has_none(&self.volumes[usize::from(volume)]) && !self.volumes.iter().all(has_none)
    }

    /// How many members' worth of data a volume holds.
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

    /// First byte and length of a volume's extent on each member.
    #[must_use]
    pub fn extent(&self, volume: u8) -> (u64, u64) {
        let before = &self.volumes[..volume as usize];
        let start = before
            .iter()
            .map(|volume| (volume.component_bytes + LOG_BYTES).next_multiple_of(4096))
            .sum();
        (start, self.volumes[volume as usize].component_bytes)
    }

    /// Size of each drive: room for all volumes, and the end that the format reserves.
    #[must_use]
    pub fn drive_bytes(&self) -> u64 {
        let data: u64 = self
            .volumes
            .iter()
            .map(|volume| volume.component_bytes.next_multiple_of(1 << 20))
            .sum();
        // The format leaves gaps of 4 MiB between volumes.
        data + self.volumes.len() as u64 * (4 << 20) + (6 << 20)
    }
}

/// Space that the format keeps free after the data of each volume.
const LOG_BYTES: u64 = metadata::imsm::WRITE_HOLE_LOG_SECTORS * metadata::imsm::SECTOR_BYTES;
