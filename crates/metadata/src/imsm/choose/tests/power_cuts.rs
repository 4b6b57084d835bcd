//! Drives modelled as sectors. Records and shadows are written in order, and power cuts interrupt that anywhere, again
//! and again. The record that is chosen afterwards must contain every update that was acknowledged.
//!
//! The model writes as the product does: one half of the drives, then the rest; on each drive the
//! shadow, durable, then the record. A cut leaves any of the sectors of each drive's write in flight.
//! Each update gets a number, in a field of the record that nothing interprets, and the model keeps the number of its
//! predecessor. So it is known which updates a chosen record contains.

use super::*;
use crate::imsm::place::{Placement, decode_region, encode_image};
use crate::imsm::shadow::{decode, encode, has_room};
use crate::imsm::{RecordIdentity, RecordPrint, SECTOR_BYTES};
use alloc::collections::BTreeMap;
use std::println;

const DRIVE_SECTORS: u64 = 131_072;

/// Numbers that depend on the seed alone (xorshift).
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % sides
    }
}

type Sector = [u8; SECTOR_BYTES as usize];

#[derive(Clone)]
struct Disk {
    serial: Serial,
    sectors: BTreeMap<u64, Sector>,
}

/// One durable write: sectors that land in any order.
type Part = Vec<(u64, Sector)>;

fn placement() -> Placement {
    Placement::new(DRIVE_SECTORS * SECTOR_BYTES, SectorSize::Bytes512).unwrap()
}

fn part(offset_bytes: u64, bytes: &[u8]) -> Part {
    let sectors = bytes.chunks_exact(SECTOR_BYTES as usize);
    (offset_bytes / SECTOR_BYTES..)
        .zip(sectors.map(|sector| sector.try_into().unwrap()))
        .collect()
}

impl Disk {
    fn read(&self, offset_bytes: u64, length_bytes: u64) -> Vec<u8> {
        let first = offset_bytes / SECTOR_BYTES;
        let mut bytes = vec![0; length_bytes as usize];
        for (&at, sector) in self
            .sectors
            .range(first..first + length_bytes / SECTOR_BYTES)
        {
            let at = ((at - first) * SECTOR_BYTES) as usize;
            bytes[at..at + sector.len()].copy_from_slice(sector);
        }
        bytes
    }

    fn candidate(&self) -> Candidate {
        let sector = SectorSize::Bytes512;
        let (region, place) = (placement().region_to_read(), placement().shadow());
        let content =
            match decode_region(&self.read(region.offset_bytes, region.length_bytes), sector) {
                Ok(None) => Content::Nothing,
                Ok(Some(found)) => Content::Record(Box::new(found.mpb)),
                Err(error) => Content::Damaged(error),
            };
        let shadow = decode(
            &self.read(place.offset_bytes, place.length_bytes),
            &placement(),
            sector,
        );
        Candidate {
            name: format!("/dev/{}", self.serial),
            serial: self.serial,
            total_sectors: DRIVE_SECTORS,
            sector,
            content,
            shadow: shadow.ok().flatten().map(Box::new),
        }
    }

    fn record(mpb: &Mpb) -> Part {
        let image = encode_image(mpb, SectorSize::Bytes512).unwrap();
        part(placement().image(image.len()).offset_bytes, &image)
    }

    fn shadow(&self, mpb: &Mpb) -> Part {
        assert!(has_room(&placement(), mpb));
        let anchor = self.read(placement().anchor_offset_bytes(), SECTOR_BYTES);
        let replaced = RecordIdentity::of_header(&anchor).map(|identity| RecordPrint {
            identity,
            crc: None,
        });
        let bytes = encode(mpb, replaced, SectorSize::Bytes512).unwrap();
        part(placement().shadow().offset_bytes, &bytes)
    }

    fn land(&mut self, part: &Part) {
        self.sectors.extend(part.iter().copied());
    }

    /// Lets some of the sectors of a write in flight reach the drive.
    fn tear(&mut self, part: &Part, dice: &mut Dice) {
        let landed = dice.roll(1 << part.len());
        for (at, sector) in part.iter().enumerate() {
            if landed >> at & 1 == 1 {
                self.sectors.extend([*sector]);
            }
        }
    }

    /// Damages the record, or the shadow, behind the fields that identify it.
    fn damage(&mut self, of_shadow: bool, dice: &mut Dice) {
        let (first, sectors) = if of_shadow {
            (placement().shadow().offset_bytes / SECTOR_BYTES, 2)
        } else {
            (DRIVE_SECTORS - 3, 2)
        };
        let sector = self.sectors.entry(first + dice.roll(sectors) as u64);
        sector.or_insert([0; 512])[0x60 + dice.roll(8)] ^= 1 << dice.roll(8);
    }
}

/// The program that writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Writer {
    /// One half of the drives after the other, shadows first.
    Ours,
    /// All drives at once, without shadows, as md does.
    Foreign,
}

/// The drives and what has been acknowledged.
struct History {
    disks: Vec<Disk>,
    /// Drives that are written to.
    live: Vec<usize>,
    record: Mpb,
    /// For each update its predecessor; update 0 is its own.
    before: Vec<u32>,
    acknowledged: u32,
    dice: Dice,
}

impl History {
    fn new(mpb: &Mpb, seed: u64) -> Self {
        let disk = |disk: &crate::imsm::Disk| Disk {
            serial: disk.serial,
            sectors: BTreeMap::new(),
        };
        let mut history = Self {
            disks: mpb.disks.iter().map(disk).collect(),
            live: (0..mpb.disks.len()).collect(),
            record: mpb.clone(),
            before: vec![0],
            acknowledged: 0,
            dice: Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1),
        };
        history.update(Writer::Ours, false);
        history
    }

    /// Makes a new record with an update number of its own.
    fn change(&mut self, can_fail: bool) {
        if can_fail && self.live.len() > 1 && self.dice.roll(4) == 0 {
            let lost = self.live.remove(self.dice.roll(self.live.len()));
            let row = self.record.disk_index_of(&self.disks[lost].serial);
            self.record.mark_failed(row.unwrap()).unwrap();
        }
        let dirty = self.dice.roll(2) == 0;
        self.record.set_dirty(0, dirty).unwrap();
        self.record.bump_generation();
        self.before.push(self.record.cache_size);
        self.record.cache_size = self.before.len() as u32 - 1;
    }

    /// Writes a new record everywhere, or until the power is cut.
    fn update(&mut self, writer: Writer, cut: bool) {
        let rest = match writer {
            Writer::Ours => self.live.len().div_ceil(2),
            Writer::Foreign => self.live.len(),
        };
        let live = self.live.clone();
        let cut_in = cut.then(|| self.dice.roll(2));
        for (number, half) in [&live[..rest], &live[rest..]].into_iter().enumerate() {
            for &drive in half {
                let mut parts = vec![Disk::record(&self.record)];
                if writer == Writer::Ours {
                    parts.insert(0, self.disks[drive].shadow(&self.record));
                }
                self.write(drive, &parts, cut_in == Some(number));
            }
            if cut_in == Some(number) {
                return;
            }
        }
        self.acknowledged = self.record.cache_size;
    }

    fn write(&mut self, drive: usize, parts: &[Part], cut: bool) {
        let whole = if cut {
            self.dice.roll(parts.len() + 1)
        } else {
            parts.len()
        };
        let disk = &mut self.disks[drive];
        parts[..whole].iter().for_each(|part| disk.land(part));
        if let Some(part) = parts.get(whole) {
            disk.tear(part, &mut self.dice);
        }
    }

    /// What is chosen from the drives as they are, or why nothing is.
    fn choose(&self) -> Result<Assembly, String> {
        let candidates: Vec<Candidate> = self.disks.iter().map(Disk::candidate).collect();
        let found = choose(&candidates).containers.pop();
        let found = found.ok_or_else(|| String::from("no container"))?;
        found.outcome.map_err(|refusal| format!("{refusal}"))
    }

    fn contains(&self, mut update: u32, wanted: u32) -> bool {
        while update > wanted {
            update = self.before[update as usize];
        }
        update == wanted
    }

    /// Starts from what was chosen, as `assemble` does; returns false if that was cut off, too.
    fn restart(&mut self, mut assembly: Assembly, writer: Writer) -> bool {
        assembly.record_absences(|_| true).unwrap();
        let drive_of = |state: &MemberState| match state {
            MemberState::Present { drive } => Some(*drive),
            _ => None,
        };
        self.live = assembly.members.iter().filter_map(drive_of).collect();
        self.record = assembly.mpb;
        if assembly
            .unfinished
            .is_some_and(|unfinished| !self.finish(&unfinished))
        {
            return false;
        }
        self.change(false);
        let cut = self.dice.roll(3) == 0;
        self.update(writer, cut);
        !cut
    }

    /// Finishes an update; returns false if that was cut off.
    fn finish(&mut self, unfinished: &Unfinished) -> bool {
        let record = &unfinished.record;
        // If the record comes from the shadows, the records are written before the shadows.
        let shadows_in_pass = usize::from(unfinished.from_shadows);
        let cut_at = self.dice.roll(4 * unfinished.drives.len());
        for pass in 0..2 {
            for (at, &drive) in unfinished.drives.iter().enumerate() {
                let part = if pass == shadows_in_pass {
                    self.disks[drive].shadow(record)
                } else {
                    Disk::record(record)
                };
                let cut = cut_at == pass * unfinished.drives.len() + at;
                self.write(drive, &[part], cut);
                if cut {
                    return false;
                }
            }
        }
        true
    }
}

/// A mirror with two volumes: its record does not fit one sector.
fn mirror() -> Mpb {
    let mut mpb = two_volumes();
    mpb.cache_size = 0;
    mpb
}

/// What may happen in a history.
#[derive(Clone, Copy)]
struct Hazards {
    /// Other programs write, too.
    foreign: bool,
    /// Drives fail.
    failures: bool,
    /// Records are damaged.
    damage: bool,
    /// So are shadows.
    shadow_damage: bool,
}

/// One history. Returns how often the shadows served and how often they were refused.
fn live_through(mpb: &Mpb, seed: u64, hazards: Hazards) -> (usize, usize) {
    let mut history = History::new(mpb, seed);
    let mut served = 0;
    for _ in 0..10 {
        let writer = match history.dice.roll(2) {
            0 if hazards.foreign => Writer::Foreign,
            _ => Writer::Ours,
        };
        history.change(hazards.failures);
        let cut = history.dice.roll(2) == 0;
        history.update(writer, cut);
        if hazards.damage && history.dice.roll(3) == 0 {
            for disk in &mut history.disks {
                disk.damage(false, &mut history.dice);
                if hazards.shadow_damage && history.dice.roll(3) == 0 {
                    disk.damage(true, &mut history.dice);
                }
            }
        } else if !cut {
            continue;
        }
        loop {
            let assembly = match history.choose() {
                Ok(assembly) => assembly,
                Err(refusal) => {
                    let excused = hazards.foreign || hazards.damage;
                    assert!(excused, "seed {seed}: {refusal}");
                    return (served, 1);
                }
            };
            let chosen = assembly.mpb.cache_size;
            assert!(
                history.contains(chosen, history.acknowledged),
                "seed {seed}: update {chosen} was chosen, {} had been acknowledged",
                history.acknowledged
            );
            let from_shadows = |unfinished: &Unfinished| unfinished.from_shadows;
            served += usize::from(assembly.unfinished.as_ref().is_some_and(from_shadows));
            if history.restart(assembly, writer) {
                break;
            }
        }
    }
    (served, 0)
}

fn live_through_many(mpb: &Mpb, hazards: Hazards) -> (usize, usize) {
    let (mut served, mut refused) = (0, 0);
    for seed in 1..=1000 {
        let (more_served, more_refused) = live_through(mpb, seed, hazards);
        served += more_served;
        refused += more_refused;
    }
    println!("the shadows served {served} times, {refused} histories ended in a refusal");
    (served, refused)
}

const NO_HAZARDS: Hazards = Hazards {
    foreign: false,
    failures: false,
    damage: false,
    shadow_damage: false,
};

#[test]
fn a_power_cut_loses_no_acknowledged_record_and_no_container() {
    let hazards = Hazards {
        failures: true,
        ..NO_HAZARDS
    };
    // If a mirror has only one drive left and its record is torn, only the shadow is left.
    let (served, refused) = live_through_many(&mirror(), hazards);
    assert!(served > 20 && refused == 0);
    let (_, refused) = live_through_many(&golden::raid5(), NO_HAZARDS);
    assert_eq!(refused, 0);
}

#[test]
fn torn_records_everywhere_bring_back_nothing_older() {
    let hazards = Hazards {
        failures: true,
        damage: true,
        ..NO_HAZARDS
    };
    let (served, refused) = live_through_many(&mirror(), hazards);
    assert!(served > 1000 && refused == 0);
}

#[test]
fn other_writers_records_are_never_overruled_by_older_shadows() {
    for mpb in [mirror(), golden::raid5()] {
        let hazards = Hazards {
            foreign: true,
            damage: true,
            shadow_damage: true,
            ..NO_HAZARDS
        };
        let (served, refused) = live_through_many(&mpb, hazards);
        assert!(served > 20 && refused > 20);
    }
}
