//! What [`Mode::Wide`] draws in addition to the other modes: more shapes of arrays, drives with different
//! abilities, and more kinds of faults. All of it comes from random streams of its own, so that the histories of
//! the other modes do not change.

use super::lies::put;
use super::{
    Abilities, Act, Action, Area, Ask, Fault, Meddling, Mode, Order, Outage, Topology, VolumeShape,
    returns,
};
use crate::drive::faults::Target;
use crate::random::Stream;
use engine::layout::Level;
use engine::policy::MemberKind;
use engine::request::Operation;
use metadata::imsm::SectorSize;

const MS: u64 = 1_000_000;
const KIB: u64 = 1 << 10;

/// Errnos with a meaning: those in the engine's table, and those that Linux returns for I/O.
const ERRNOS: [i32; 24] = [
    4, 5, 5, 6, 9, 11, 12, 16, 19, 22, 27, 28, 30, 38, 52, 61, 62, 84, 95, 105, 110, 121, 122, 125,
];
/// The last of asm-generic/errno.h.
const ERRNO_LAST: u64 = 133;

/// Gives the array of a seed more members, another sector size, more shards, drives with different abilities, and
/// sometimes a RAID 0 beside a redundant volume.
pub fn shape(seed: u64, topology: &mut Topology) {
    let mut random = Stream::new(seed, "wide shape", 0);
    let first = topology.volumes[0].level;
    let mixed = topology.volumes.iter().any(|volume| volume.level != first);
    let members = u64::from(topology.members);
    topology.members = match first {
        Level::Raid0 => random.between(2, 8),
        Level::Raid1 => 2,
        Level::Raid10 => random.pick(&[4, 6, 6, 8, 8]),
        Level::Raid5 if mixed => random.pick(&[4, 6, 8]),
        Level::Raid5 if random.chance(2, 3) => random.between(6, 12),
        Level::Raid5 => members,
    } as u8;
    if first != Level::Raid0 && random.chance(1, 4) {
        topology.volumes.truncate(1);
        let chunk_bytes = random.pick(&[4 * KIB, 16 * KIB]);
        let at = random.below(2) as usize;
        topology.volumes.insert(
            at,
            VolumeShape {
                level: Level::Raid0,
                chunk_bytes: chunk_bytes as u32,
                component_bytes: chunk_bytes * random.between(2, 16),
                born_in_sync: true,
                logged: false,
                marked: false,
            },
        );
    }
    if random.chance(1, 2) {
        topology.shards = random.between(4, 8) as u8;
    }
    if random.chance(1, 3) {
        topology.sector = SectorSize::Bytes4096;
    }
    // The program accepts no shorter deadline. With a shorter one, a standstill hardly longer than the engine's
    // interval between deadline checks would fail members.
    topology.deadline_ns = random.pick(&[1000 * MS, 2000 * MS]);
    let all_volatile = random.chance(1, 2);
    let volatile = (0..topology.members).map(|_| all_volatile || random.chance(1, 3));
    topology.volatile = volatile.collect();
    let (mixed_kinds, all_discard) = (random.chance(1, 2), random.chance(1, 2));
    // Five more than the members, for drives that join later.
    let abilities = (0..topology.members + 5).map(|_| Abilities {
        discards: all_discard || random.chance(3, 4),
        kind: if mixed_kinds && random.chance(1, 2) {
            MemberKind::File
        } else {
            MemberKind::Device
        },
    });
    topology.abilities = abilities.collect();
}

/// Inserts the additional faults and orders of a seed into its acts.
pub fn insert(seed: u64, mode: Mode, topology: &Topology, mut acts: Vec<Action>) -> Vec<Action> {
    let mut drawing = Drawing {
        random: Stream::new(seed, "wide", 0),
        mode,
        topology,
    };
    if drawing.random.chance(1, 6) {
        acts = returns::insert(seed, topology, acts);
    }
    // Weights of the kinds: some do not occur at all, others often.
    let mut kinds = [0; 10];
    for odds in &mut kinds {
        *odds = drawing.random.pick(&[0, 1, 4]);
    }
    for _ in 0..drawing.random.between(1, 8) {
        let at = drawing.random.below(acts.len() as u64 + 1) as usize;
        let total: u64 = kinds.iter().sum();
        let mut roll = drawing.random.below(total.max(1));
        let kind = kinds.iter().position(|&odds| {
            let is_it = roll < odds;
            roll = roll.saturating_sub(odds);
            is_it
        });
        let more = drawing.acts(kind.unwrap_or(0));
        for (at, act) in (at..).zip(more) {
            let pause_ns = drawing.pause_ns(&act);
            put(&mut acts, at, act);
            acts[at..].iter_mut().for_each(|act| act.at_ns += pause_ns);
        }
    }
    if topology.sector == SectorSize::Bytes4096 {
        acts.iter_mut().for_each(|action| align(topology, action));
    }
    acts
}

/// Aligns a request or fault to whole sectors of 4,096 bytes.
fn align(topology: &Topology, action: &mut Action) {
    const SECTOR: u64 = 4096;
    match &mut action.act {
        Act::Ask(ask) if ask.length_bytes > 0 => {
            let end = ask.offset_bytes + u64::from(ask.length_bytes);
            let end = end.next_multiple_of(SECTOR);
            ask.offset_bytes -= ask.offset_bytes % SECTOR;
            let most = crate::process::REQUEST_BYTES_MAX.into();
            let length = (end - ask.offset_bytes).min(most);
            ask.length_bytes = length as u32;
            debug_assert!(end <= topology.size_bytes(ask.volume));
        }
        Act::Fault(Fault::BadSectors(_, offset_bytes, length_bytes)) => {
            let end = (*offset_bytes + *length_bytes).next_multiple_of(SECTOR);
            *offset_bytes -= *offset_bytes % SECTOR;
            *length_bytes = end - *offset_bytes;
        }
        _ => {}
    }
}

struct Drawing<'a> {
    random: Stream,
    mode: Mode,
    topology: &'a Topology,
}

impl Drawing<'_> {
    fn bay(&mut self) -> usize {
        let bays = self.topology.members + self.topology.spares;
        self.random.below(u64::from(bays)) as usize
    }

    fn volume(&mut self) -> u8 {
        self.random.below(self.topology.volumes.len() as u64) as u8
    }

    /// A pause before an act: by then the acts before it have begun, or have been answered, or are on record.
    fn pause_ns(&mut self, act: &Act) -> u64 {
        let pauses = match act {
            Act::Fault(Fault::Outage(..)) => [0, 2 * MS, 250 * MS, 1000 * MS],
            _ => [0, 0, 20_000, 2 * MS],
        };
        self.random.pick(&pauses)
    }

    fn errno(&mut self) -> i32 {
        if self.random.chance(1, 3) {
            self.random.between(1, ERRNO_LAST) as i32
        } else {
            self.random.pick(&ERRNOS)
        }
    }

    fn target(&mut self) -> Target {
        self.random.pick(&[
            Target::Reads,
            Target::Flushes,
            Target::Plain,
            Target::Durable,
            Target::Zeroes,
            Target::Discards,
        ])
    }

    fn acts(&mut self, kind: usize) -> Vec<Act> {
        let bay = self.bay();
        match kind {
            0 => self.errors(bay),
            1 => {
                let area = self.area();
                vec![Act::Fault(Fault::BadArea(bay, area))]
            }
            2 => self.death(bay),
            3 => self.trims(bay),
            4 => vec![Act::Fault(Fault::TurnsVolatile(bay))],
            5 => {
                let deadline = self.topology.deadline_ns;
                let lengths = [MS, 90 * MS, deadline / 2, 2 * deadline, 7 * deadline];
                let for_ns = self.random.pick(&lengths);
                let kernel = self.random.chance(2, 3);
                vec![Act::Fault(Fault::Standstill(for_ns, kernel))]
            }
            6 => {
                let deadline = self.topology.deadline_ns as i64;
                let jumps = [
                    1_000_000,
                    deadline / 2,
                    2 * deadline,
                    3_600_000_000_000,
                    -1_000_000,
                    -deadline,
                    -5_000_000_000,
                ];
                vec![Act::Fault(Fault::ClockJumps(self.random.pick(&jumps)))]
            }
            7 => self.host_errors(),
            _ => self.orders(),
        }
    }

    /// Commands of a kind fail with any errno, and requests follow that cause such commands.
    fn errors(&mut self, bay: usize) -> Vec<Act> {
        let (target, errno) = (self.target(), self.errno());
        let count = self.random.pick(&[1, 1, 2, 4, 12]);
        let mut acts = vec![Act::Fault(Fault::Errors(bay, target, errno, count))];
        acts.extend(self.asks(target));
        if self.random.chance(1, 4) {
            acts.push(self.outage());
        }
        acts
    }

    fn outage(&mut self) -> Act {
        let outage = self.random.pick(&[Outage::PowerCut, Outage::Crash]);
        Act::Fault(Fault::Outage(outage, vec![Meddling::Return]))
    }

    /// Some requests that cause commands of a kind.
    fn asks(&mut self, target: Target) -> Vec<Act> {
        let zeroes = Operation::WriteZeroes {
            keep_allocated: true,
            only_if_fast: false,
        };
        let (operation, fua) = match target {
            Target::Reads => (Operation::Read, false),
            Target::Flushes => (Operation::Flush, false),
            Target::Zeroes => (zeroes, false),
            Target::Discards => (Operation::Trim, false),
            Target::Plain | Target::Writes => (Operation::Write, false),
            Target::Durable => (Operation::Write, true),
        };
        let volume = self.volume();
        let count = self.random.between(1, 6);
        let asks = (0..count).map(|_| self.ask(volume, operation, fua));
        asks.collect()
    }

    fn ask(&mut self, volume: u8, operation: Operation, fua: bool) -> Act {
        let size = self.topology.size_bytes(volume);
        let longest = self.random.pick(&[512, 4 * KIB, 64 * KIB, 256 * KIB]);
        let length = 512 * self.random.between(1, longest.min(size) / 512);
        let offset = 512 * self.random.below((size - length) / 512 + 1);
        let is_flush = operation == Operation::Flush;
        Act::Ask(Ask {
            connection: self.random.below(8) as u8,
            volume,
            operation,
            fua,
            offset_bytes: if is_flush { 0 } else { offset },
            length_bytes: if is_flush { 0 } else { length as u32 },
        })
    }

    fn area(&mut self) -> Area {
        let volume = self.volume();
        let shape = self.topology.volumes[usize::from(volume)];
        match self.random.below(4) {
            0 => Area::Record,
            1 => Area::Shadow,
            _ if shape.logged => {
                let units = self.random.pick(&[0, 0, 1, 2, 8]);
                Area::Log(volume, units * 4 * KIB)
            }
            _ if shape.marked => Area::Bitmap(volume),
            _ => Area::Record,
        }
    }

    /// A drive loses its cache and dies. Often the process ends before that is on record.
    fn death(&mut self, bay: usize) -> Vec<Act> {
        let errno = self.errno();
        let volume = self.volume();
        let mut acts = Vec::new();
        for _ in 0..self.random.between(0, 6) {
            acts.push(self.ask(volume, Operation::Write, false));
        }
        acts.push(Act::Fault(Fault::Dies(bay, errno)));
        for _ in 0..self.random.between(0, 4) {
            let fua = self.random.chance(1, 4);
            acts.push(self.ask(volume, Operation::Write, fua));
        }
        if self.random.chance(2, 3) {
            acts.push(self.outage());
        }
        acts
    }

    /// Trims before and after a drive begins to refuse discards.
    fn trims(&mut self, bay: usize) -> Vec<Act> {
        let volume = self.volume();
        let mut acts = vec![self.ask(volume, Operation::Trim, false)];
        if self.random.chance(2, 3) {
            acts.push(Act::Fault(Fault::RefusesDiscards(bay)));
        }
        for _ in 0..self.random.between(1, 6) {
            let operation = self.random.pick(&[Operation::Trim, Operation::Write]);
            acts.push(self.ask(volume, operation, false));
        }
        if self.random.chance(1, 3) {
            acts.push(Act::Fault(Fault::DropOut(bay)));
            acts.push(self.ask(volume, Operation::Read, false));
        }
        acts
    }

    /// A problem of the host makes all drives fail, and the process is ended.
    fn host_errors(&mut self) -> Vec<Act> {
        let (target, errno) = (self.target(), self.errno());
        let mut acts = vec![Act::Fault(Fault::HostErrors(target, errno))];
        acts.extend(self.asks(target));
        if self.mode == Mode::Wide {
            acts.push(self.outage());
        }
        acts
    }

    fn orders(&mut self) -> Vec<Act> {
        let volume = self.volume();
        let order = match self.random.below(8) {
            0 | 1 => Order::Scrub {
                volume,
                repair: self.random.chance(1, 2),
            },
            2 => Order::Cancel(volume),
            3 => Order::Rebuild(volume),
            4 | 5 => Order::Pause {
                volume,
                paused: true,
            },
            6 => Order::Pause {
                volume,
                paused: false,
            },
            _ => {
                let slot = self.random.below(u64::from(self.topology.members)) as u8;
                Order::Replace { volume, slot }
            }
        };
        vec![Act::Order(order)]
    }
}
