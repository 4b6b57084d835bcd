//! A killed process: commands in flight have been carried out in part, and the write-hole log is replayed.
//!
//! Units of the log are encoded here in a form of this world's own: the engine does not know the format.

use super::{Array, Disk, MemoryWorld, Random, Shared};
use engine::control::record::LogArea;
use engine::layout::{Geometry, Location};
use engine::limits::LOG_HEADER_BYTES;
use engine::log::unit::{LogEntry, LogUnit};
use engine::plan::{Segment, StepKind};
use engine::units::{Buffer, Slot, SlotSet};

const SECTOR: usize = 512;
const MAGIC: u64 = 0x6675_6c6c_7374_7269;
const ENTRY_BYTES: usize = 24;
const HEADER: usize = LOG_HEADER_BYTES as usize;

fn checksum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, &byte: &u8| (sum ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, mix)
}

fn number(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

/// The image of a unit; see `World::encode_log`.
pub fn encode(
    shared: &mut Shared,
    unit: &LogUnit,
    partial_parities: impl Iterator<Item = Segment>,
    image: Buffer,
) {
    let mut parities = Vec::new();
    for segment in partial_parities {
        let from = segment.buffer.0 as usize;
        parities.extend_from_slice(&shared.memory[from..from + segment.length_bytes as usize]);
    }
    let listed: u32 = unit
        .entries
        .iter()
        .map(|entry| entry.partial_parity_bytes)
        .sum();
    assert_eq!(listed as usize, parities.len());
    let mut header = vec![0u8; HEADER];
    header[..8].copy_from_slice(&MAGIC.to_le_bytes());
    header[8..16].copy_from_slice(&unit.generation.to_le_bytes());
    header[16..24].copy_from_slice(&(unit.entries.len() as u64).to_le_bytes());
    let mut from = 0;
    for (at, entry) in unit.entries.iter().enumerate() {
        let bytes = entry.partial_parity_bytes as usize;
        let place = &mut header[32 + at * ENTRY_BYTES..][..ENTRY_BYTES];
        place[..8].copy_from_slice(&entry.data_offset_bytes.to_le_bytes());
        place[8..12].copy_from_slice(&entry.data_bytes.to_le_bytes());
        place[12..16].copy_from_slice(&entry.partial_parity_bytes.to_le_bytes());
        place[16..].copy_from_slice(&checksum(&parities[from..from + bytes]).to_le_bytes());
        from += bytes;
    }
    let sum = checksum(&header);
    header[24..32].copy_from_slice(&sum.to_le_bytes());
    let to = image.0 as usize;
    shared.memory[to..to + HEADER].copy_from_slice(&header);
    shared.memory[to + HEADER..to + HEADER + parities.len()].copy_from_slice(&parities);
}

/// Entries with their partial parities, as far as those are intact, and where the next header would be.
type Decoded = (u64, Vec<(LogEntry, Option<Vec<u8>>)>, usize);

fn decode(area: &[u8], at: usize) -> Option<Decoded> {
    let mut header = area.get(at..at + HEADER)?.to_vec();
    let sum = number(&header, 24);
    header[24..32].fill(0);
    if number(&header, 0) != MAGIC || checksum(&header) != sum {
        return None;
    }
    let mut next = at + HEADER;
    let mut entries = Vec::new();
    for index in 0..number(&header, 16) as usize {
        let place = &header[32 + index * ENTRY_BYTES..][..ENTRY_BYTES];
        let half = |at: usize| u32::from_le_bytes(place[at..at + 4].try_into().unwrap());
        let entry = LogEntry {
            data_offset_bytes: number(place, 0),
            data_bytes: half(8),
            partial_parity_bytes: half(12),
        };
        let bytes = area.get(next..next + entry.partial_parity_bytes as usize)?;
        let intact = checksum(bytes) == number(place, 16);
        entries.push((entry, intact.then(|| bytes.to_vec())));
        next += bytes.len();
    }
    Some((number(&header, 8), entries, next))
}

/// Recomputes parity from the last unit of every log; drives of `missing` slots are not touched. Returns
/// how many entries were carried out.
pub fn replay(disks: &mut [Disk], shape: &Geometry, area: LogArea, missing: SlotSet) -> usize {
    let mut replayed = 0;
    for slot in (0..shape.members)
        .map(Slot)
        .filter(|&slot| !missing.has(slot))
    {
        let from = area.offset_bytes as usize;
        let log = disks[slot.0 as usize].bytes[from..from + area.length_bytes as usize].to_vec();
        let (mut at, mut last) = (0, None::<Decoded>);
        while let Some(unit) = decode(&log, at) {
            if last.as_ref().is_some_and(|last| last.0 >= unit.0) {
                break;
            }
            at = unit.2;
            last = Some(unit);
        }
        for (entry, parity) in last.map_or(Vec::new(), |last| last.1) {
            if let Some(parity) = parity {
                replayed += usize::from(carry_out(disks, shape, missing, (slot, &entry, parity)));
            }
        }
    }
    replayed
}

fn carry_out(
    disks: &mut [Disk],
    shape: &Geometry,
    missing: SlotSet,
    (slot, entry, mut parity): (Slot, &LogEntry, Vec<u8>),
) -> bool {
    let place = shape.locate(entry.data_offset_bytes);
    assert_eq!(
        shape.parity_slot(place.row),
        Some(slot),
        "logged with its parity"
    );
    let chunks = match entry.partial_parity_bytes {
        0 => u32::from(shape.data_members()),
        bytes => entry.data_bytes / bytes,
    };
    let length = (entry.data_bytes / chunks) as usize;
    parity.resize(length, 0);
    let offset = shape.member_offset_bytes(place.row, place.in_chunk_bytes) as usize;
    for index in place.data_index..place.data_index + chunks as u8 {
        let data = shape.data_slots(place.row, index).iter().next().unwrap();
        if missing.has(data) {
            return false;
        }
        let bytes = &disks[data.0 as usize].bytes[offset..offset + length];
        parity
            .iter_mut()
            .zip(bytes)
            .for_each(|(sum, byte)| *sum ^= byte);
    }
    disks[slot.0 as usize].bytes[offset..offset + length].copy_from_slice(&parity);
    true
}

impl Array {
    /// Kills the process. Of every write in flight a random part of the sectors has reached its drive.
    pub fn crash(&mut self) -> Vec<Disk> {
        let mut random = Random(self.shared.borrow_mut().random.next());
        for shard in &mut self.shards {
            shard.world.tear(&mut random);
        }
        std::mem::take(&mut self.shared.borrow_mut().disks)
    }
}

impl MemoryWorld {
    fn tear(&mut self, random: &mut Random) {
        let mut shared = self.shared.borrow_mut();
        let Shared { disks, memory, .. } = &mut *shared;
        for pending in self.pending.drain(..) {
            let zeros = match pending.io.kind {
                StepKind::Write { .. } => false,
                StepKind::Zero { .. } | StepKind::Discard => true,
                _ => continue,
            };
            let mut bytes = Vec::new();
            for segment in &pending.memory {
                let from = segment.buffer.0 as usize;
                bytes.extend_from_slice(&memory[from..from + segment.length_bytes as usize]);
            }
            if zeros {
                bytes = vec![0; pending.io.length_bytes as usize];
            }
            let disk = &mut disks[pending.io.member.0 as usize];
            let share = 1 + random.below(4);
            for (sector, content) in bytes.chunks(SECTOR).enumerate() {
                if random.below(4) < share {
                    let at = pending.io.offset_bytes as usize + sector * SECTOR;
                    disk.bytes[at..at + content.len()].copy_from_slice(content);
                }
            }
        }
    }
}

/// A byte range of a volume as its drives hold it; chunks of `missing` slots are computed.
pub fn content(
    disks: &[Disk],
    shape: &Geometry,
    missing: SlotSet,
    offset: u64,
    length: u64,
) -> Vec<u8> {
    let sector = |offset: u64| -> Vec<u8> {
        let place: Location = shape.locate(offset);
        let at = shape.member_offset_bytes(place.row, place.in_chunk_bytes) as usize;
        let of = |slot: Slot| &disks[slot.0 as usize].bytes[at..at + SECTOR];
        let slot = shape
            .data_slots(place.row, place.data_index)
            .iter()
            .next()
            .unwrap();
        if !missing.has(slot) {
            return of(slot).to_vec();
        }
        let mut sum = vec![0; SECTOR];
        for other in (0..shape.members).map(Slot).filter(|&other| other != slot) {
            sum.iter_mut()
                .zip(of(other))
                .for_each(|(sum, byte)| *sum ^= byte);
        }
        sum
    };
    (offset..offset + length)
        .step_by(SECTOR)
        .flat_map(sector)
        .collect()
}

/// Rows whose parity is not the xor of their data.
pub fn bad_rows(disks: &[Disk], shape: &Geometry) -> Vec<u64> {
    let bad = |&row: &u64| {
        let from = shape.member_offset_bytes(row, 0) as usize;
        let range = from..from + shape.row_height_bytes(row) as usize;
        range.into_iter().any(|at| {
            let members = &disks[..shape.members as usize];
            members.iter().fold(0, |sum, disk| sum ^ disk.bytes[at]) != 0
        })
    };
    (0..shape.rows()).filter(bad).collect()
}
