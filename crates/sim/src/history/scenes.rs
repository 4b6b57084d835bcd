//! Scenes: short sequences of acts that lead to the moments at which a bug would show.
//!
//! Acts that are drawn one by one rarely lose a drive, cut the power in the middle of the metadata update that
//! follows, and then read what was acknowledged in between. A scene does: it loads the array, arranges for an
//! outage at a certain command ([`Strike`]), and makes the array send that command. Scenes are inserted between
//! the other acts of a history, which continue after them.

use super::{
    Act, Action, Ask, Errand, Fault, Meddling, Order, Outage, Strike, Topology, VolumeShape,
};
use crate::drive::faults::Target;
use crate::random::Stream;
use engine::layout::Level;
use engine::request::Operation;

const KIB: u64 = 1 << 10;
const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const S: u64 = 1_000_000_000;

/// Largest number of other acts in a history with scenes, because scenes have many requests themselves.
const ACTS_MAX: usize = 30;

/// Inserts the scenes of a seed into the acts that were drawn for it.
pub fn insert(seed: u64, topology: &Topology, mut acts: Vec<Action>) -> Vec<Action> {
    let mut random = Stream::new(seed, "scenes", 0);
    let count = random.pick(&[0, 1, 2, 2]);
    if count == 0 {
        return acts;
    }
    acts.truncate(ACTS_MAX);
    let mut number = acts.len() as u32;
    for _ in 0..count {
        let mut scene = Scene {
            random: &mut random,
            topology,
            volume: 0,
            area_bytes: 0,
            acts: Vec::new(),
            at_ns: 0,
        };
        scene.play();
        let (scene_acts, length_ns) = (scene.acts, scene.at_ns);
        let at = random.below(acts.len() as u64 + 1) as usize;
        place(&mut acts, at, (scene_acts, length_ns), &mut number);
    }
    acts
}

/// Inserts a scene, whose times begin with its own, before the act with the index `at`. The acts behind it come later by
/// its length.
pub(super) fn place(
    acts: &mut Vec<Action>,
    at: usize,
    (scene, length_ns): (Vec<(u64, Act)>, u64),
    number: &mut u32,
) {
    let from_ns = at.checked_sub(1).map_or(0, |before| acts[before].at_ns);
    acts[at..].iter_mut().for_each(|act| act.at_ns += length_ns);
    let placed = scene.into_iter().map(|(at_ns, act)| {
        *number += 1;
        Action {
            at_ns: from_ns + at_ns,
            act,
            number: *number,
        }
    });
    let placed: Vec<Action> = placed.collect();
    acts.splice(at..at, placed);
}

struct Scene<'a> {
    random: &'a mut Stream,
    topology: &'a Topology,
    /// The volume that the scene uses.
    volume: u8,
    /// The part of the volume that requests go to: small, so that they overlap.
    area_bytes: u64,
    acts: Vec<(u64, Act)>,
    at_ns: u64,
}

impl Scene<'_> {
    fn play(&mut self) {
        self.volume = self.random.below(self.topology.volumes.len() as u64) as u8;
        let size = self.topology.size_bytes(self.volume);
        let areas = [4 * KIB, 24 * KIB, 96 * KIB, size];
        self.area_bytes = self.random.pick(&areas).min(size);
        match self.random.below(12) {
            0..=2 => self.loss(),
            3..=4 => self.writes_cut_off(),
            5 => self.clean(),
            6..=7 => self.rebuild(),
            8 => self.stop(),
            9 => self.absence(),
            10 => self.replace(),
            _ => self.bad_sectors(),
        }
    }

    fn shape(&self) -> VolumeShape {
        self.topology.volumes[self.volume as usize]
    }

    fn act(&mut self, act: Act) {
        self.acts.push((self.at_ns, act));
    }

    fn fault(&mut self, fault: Fault) {
        self.act(Act::Fault(fault));
    }

    fn pass(&mut self, most_ns: u64) {
        self.at_ns += self.random.below(most_ns + 1);
    }

    /// Lets a time pass that is comparable to the time of a command.
    fn pass_moment(&mut self) {
        let command_ns = self.topology.latency_ns + self.topology.spread_ns;
        let most_ns = self.random.pick(&[2 * US, command_ns / 4, 2 * command_ns]);
        self.pass(most_ns);
    }

    fn bay(&mut self) -> usize {
        self.random.below(u64::from(self.topology.members)) as usize
    }

    fn requests(&mut self, count: u64, odds_of_reads: u64) {
        let longest = self.random.pick(&[512, 4 * KIB, 16 * KIB, 128 * KIB]);
        let fua = self.random.pick(&[0, 0, 4, 16]);
        for _ in 0..count {
            let length = 512 * self.random.between(1, longest.min(self.area_bytes) / 512);
            let offset = 512 * self.random.below((self.area_bytes - length) / 512 + 1);
            let operation = if self.random.chance(odds_of_reads, 16) {
                Operation::Read
            } else if self.random.chance(1, 16) {
                Operation::WriteZeroes {
                    keep_allocated: true,
                    only_if_fast: false,
                }
            } else {
                Operation::Write
            };
            let fua = operation != Operation::Read && self.random.chance(fua, 16);
            self.ask(operation, fua, offset, length);
            if self.random.chance(1, 24) {
                self.ask(Operation::Flush, false, 0, 0);
            }
            self.pass_moment();
        }
    }

    fn writes(&mut self, from: u64, to: u64) {
        let count = self.random.between(from, to);
        self.requests(count, 1);
    }

    fn ask(&mut self, operation: Operation, fua: bool, offset_bytes: u64, length_bytes: u64) {
        let connection = self.random.below(4) as u8;
        self.act(Act::Ask(Ask {
            connection,
            volume: self.volume,
            operation,
            fua,
            offset_bytes,
            length_bytes: length_bytes as u32,
        }));
    }

    /// Arranges for an outage at one of the next commands.
    fn strike(&mut self, errands: &[Errand], most: u64) {
        let strike = Strike {
            errand: self.random.pick(errands),
            spared: self.spared(most),
            answered: self.random.chance(1, 2),
        };
        let outage = self.random.pick(&[Outage::PowerCut, Outage::Crash]);
        let meddling = self.aftermath();
        self.fault(Fault::OutageAt(strike, outage, meddling));
    }

    /// A number below `most`, mostly small, because the first commands are the critical ones.
    fn spared(&mut self, most: u64) -> u8 {
        let most = self.random.pick(&[1, 2, 4, 8, most]).min(most);
        self.random.below(most) as u8
    }

    /// Lost drives return, and sometimes the power is cut again during the start.
    fn aftermath(&mut self) -> Vec<Meddling> {
        let mut meddling = vec![Meddling::Return];
        if self.random.chance(1, 4) {
            meddling.push(Meddling::CutAgain(self.random.below(24) as u8));
        }
        meddling
    }

    /// A drive is lost under load, an outage happens while the loss is being recorded, and then the drive is
    /// back.
    fn loss(&mut self) {
        self.writes(2, 10);
        // The lowest slot is the source of reads and copies.
        let bay = if self.random.chance(1, 3) {
            0
        } else {
            self.bay()
        };
        let known = self.random.chance(1, 3);
        if !known {
            self.strike(&[Errand::Metadata, Errand::Metadata, Errand::Write], 8);
        }
        let fault = match self.random.below(4) {
            0 => Fault::Errors(bay, Target::Writes, self.random.pick(&[5, 110, 19]), 3),
            1 => Fault::Errors(bay, Target::Flushes, self.random.pick(&[5, 110]), 2),
            _ => Fault::DropOut(bay),
        };
        self.fault(fault);
        if known {
            self.writes(2, 4);
            self.pass(20 * MS);
            self.strike(&[Errand::Write, Errand::Log, Errand::Metadata], 12);
        }
        self.writes(3, 12);
        self.pass(5 * MS);
    }

    /// An outage happens during many writes to one area.
    fn writes_cut_off(&mut self) {
        let errands = if self.shape().logged {
            [Errand::Log, Errand::Write, Errand::Write, Errand::Flush]
        } else {
            [Errand::Write, Errand::Write, Errand::Write, Errand::Flush]
        };
        // Before data can be written, the volume has to be marked dirty.
        self.writes(1, 2);
        self.pass(5 * MS);
        self.strike(&errands, 24);
        self.writes(8, 24);
        self.pass(5 * MS);
    }

    /// Requests meet the fence of a volume that is being marked clean.
    fn clean(&mut self) {
        let clean_after_ns = self.topology.clean_after_ns;
        for _ in 0..self.random.between(1, 3) {
            self.writes(1, 3);
            self.at_ns += clean_after_ns;
            if self.random.chance(2, 3) {
                self.strike(&[Errand::Metadata, Errand::Flush, Errand::Write], 6);
            }
            let command_ns = self.topology.latency_ns + self.topology.spread_ns;
            self.pass(4 * command_ns + self.topology.lag_ns);
            self.writes(1, 6);
        }
        self.pass(2 * clean_after_ns);
    }

    /// A drive is rebuilt, and an outage happens at a checkpoint or at the end.
    fn rebuild(&mut self) {
        self.writes(2, 8);
        let bay = self.bay();
        self.fault(Fault::DropOut(bay));
        let seconds = self.random.between(1, 16);
        let rate = self.shape().component_bytes / seconds;
        let slow = self.random.chance(2, 3);
        if slow {
            self.act(Act::Order(Order::Rate(rate.max(4096))));
        }
        self.writes(1, 4);
        self.act(Act::Order(Order::AddSpare));
        let waits = if slow { seconds * S } else { 20 * MS };
        self.pass(waits);
        self.writes(1, 6);
        self.strike(&[Errand::Metadata, Errand::Metadata, Errand::Flush], 4);
        self.writes(1, 6);
        self.pass(waits);
        self.act(Act::Order(Order::Rate(0)));
        self.writes(1, 3);
    }

    /// An outage happens while the array is being stopped.
    fn stop(&mut self) {
        self.writes(2, 10);
        self.strike(&[Errand::Metadata, Errand::Flush, Errand::Write], 5);
        let meddling = self.aftermath();
        self.fault(Fault::Outage(Outage::Stop, meddling));
        self.pass(2 * MS);
    }

    /// The array runs without a drive for a while, and then the drive is back with its old content.
    fn absence(&mut self) {
        self.writes(1, 6);
        let bay = self.bay();
        let mut meddling = vec![Meddling::Absent(bay)];
        if self.random.chance(1, 3) {
            meddling.push(Meddling::CutAgain(self.random.below(12) as u8));
        }
        self.fault(Fault::Outage(Outage::Stop, meddling));
        self.pass(20 * MS);
        self.writes(2, 8);
        let outages = [Outage::PowerCut, Outage::Crash, Outage::Stop];
        let outage = self.random.pick(&outages);
        let meddling = self.aftermath();
        self.fault(Fault::Outage(outage, meddling));
        self.pass(20 * MS);
    }

    /// A drive is replaced in service; the old drive is lost, or an outage happens, or neither.
    fn replace(&mut self) {
        self.writes(1, 6);
        let slot = self.bay() as u8;
        self.act(Act::Order(Order::Replace {
            volume: self.volume,
            slot,
        }));
        self.writes(2, 10);
        match self.random.below(3) {
            0 => self.fault(Fault::DropOut(slot as usize)),
            1 => self.strike(&[Errand::Metadata, Errand::Metadata, Errand::Flush], 8),
            _ => {}
        }
        self.writes(4, 16);
        self.pass(50 * MS);
    }

    /// Reads meet unreadable blocks while writes are under way.
    fn bad_sectors(&mut self) {
        let volume = self.volume;
        let (start, component) = self.topology.extent(volume);
        let area = self.area_bytes.div_ceil(self.topology.data_members(volume));
        let area = area.next_multiple_of(512).min(component);
        for _ in 0..self.random.between(1, 4) {
            let bay = self.bay();
            let sectors = self.random.between(1, 8).min(area / 512);
            let offset = 512 * self.random.below(area / 512 - sectors + 1);
            self.fault(Fault::BadSectors(bay, start + offset, 512 * sectors));
            let count = self.random.between(4, 16);
            self.requests(count, 8);
        }
        if self.shape().level == Level::Raid5 && self.random.chance(1, 2) {
            self.act(Act::Order(Order::Scrub {
                volume,
                repair: true,
            }));
        }
    }
}
