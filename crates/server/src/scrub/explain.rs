//! Finds out what exactly disagrees in a stripe: reads it from all members while nothing is written to it, and
//! compares.
//!
//! The engine only keeps writes off the stripe ([`engine::control::message::Message::Inspect`]); the members are
//! read beside the data path, each by a thread of its own. If the stripe could be written before all of it was read,
//! the result proves nothing and is dropped.

use super::keeper::on_each;
use super::report::LbaRange;
use crate::news::News;
use crate::runtime::{Shared, lock};
use drives::drive::Drive;
use engine::control::message::Message;
use engine::control::record::MemberState;
use engine::event::Event;
use engine::layout::{Geometry, Level, Location};
use engine::units::{Slot, VolumeId};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;
use utoipa::ToSchema;

/// Ranges of bytes that are listed for each comparison.
const RANGES_MAX: usize = 16;
/// Differing bytes with fewer equal ones than this between them are listed as one range.
const GAP_BYTES: usize = 16;
/// The engine keeps a stripe still for at most 2 s, after the work already under way on it has ended.
const ANSWER_WITHIN: Duration = Duration::from_secs(5);
/// A new view ends an inspection, and the view changes when writing starts and stops.
const ATTEMPTS: usize = 5;
const SECTOR_BYTES: u64 = 512;

/// What a member holds of the stripe.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Held {
    /// The slot.
    pub slot: u8,
    /// The drive in it.
    pub name: String,
    /// `data`, `copy` or `parity`.
    pub holds: String,
    /// The sectors of the volume that it holds; absent for parity.
    pub lbas: Option<LbaRange>,
    /// First 512-byte sector on the drive.
    pub member_lba: u64,
    /// CRC-32C of the content.
    pub crc32c: u32,
}

/// Bytes that differ, counted from the beginning of the compared part of each chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ByteRange {
    /// The first byte.
    pub first: u64,
    /// The last one.
    pub last: u64,
}

/// Slots whose contents should agree and how they do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Comparison {
    /// The slots compared: a copy with the lowest slot's, or parity with all data.
    pub slots: Vec<u8>,
    /// Whether they agree in every byte.
    pub agree: bool,
    /// Where they differ; only the first ranges.
    pub differing: Vec<ByteRange>,
    /// Number of further ranges.
    pub left_out: u64,
    /// Total number of bytes that differ.
    pub differing_bytes: u64,
}

/// A stripe, read from all members at one moment.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Explanation {
    /// The volume.
    pub volume: String,
    /// The sector in the request.
    pub lba: u64,
    /// Number of the stripe.
    pub stripe: u64,
    /// Bytes of each member that were compared.
    pub length_bytes: u64,
    /// What each member holds.
    pub members: Vec<Held>,
    /// What was compared.
    pub comparisons: Vec<Comparison>,
    /// What follows from the comparisons, and what cannot be known.
    pub verdict: String,
}

/// Which part of a stripe, and the drives that hold it.
struct Stripe {
    shape: Geometry,
    row: u64,
    low: u32,
    high: u32,
    drives: Vec<(Arc<Drive>, String)>,
}

impl Shared {
    /// Passes news about an inspection on to the thread that waits for it; true if the news was about one.
    pub(crate) fn hear_inspection(&self, news: &News) -> bool {
        let (ticket, stands) = match news {
            News::Engine(Event::Inspectable { ticket }) => (*ticket, true),
            News::Engine(Event::InspectionEnded { ticket, held }) => (*ticket, *held),
            _ => return false,
        };
        if let Some(waiting) = lock(&self.scrubs.inspections).get(&ticket) {
            let _ = waiting.send(stands);
        }
        true
    }

    /// Reads and compares the stripe with sector `lba` of a volume. Blocks.
    ///
    /// # Errors
    /// One sentence: a drive is missing, does not answer, cannot be read or has recorded bad blocks there, or
    /// the stripe cannot be kept still.
    pub fn explain_stripe(&self, at: usize, name: &str, lba: u64) -> Result<Explanation, String> {
        for _ in 0..ATTEMPTS {
            let stripe = self.stripe(at, name, lba)?;
            if let Some(contents) = self.read_still(at, &stripe, lba)? {
                return Ok(stripe.compare(name, lba, &contents));
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(format!(
            "the stripe of LBA {lba} of {name} keeps changing; ask again when less is written there"
        ))
    }

    fn stripe(&self, at: usize, name: &str, lba: u64) -> Result<Stripe, String> {
        let snapshot = self.snapshot();
        let volume = &snapshot.record.volumes[at];
        let shape = volume.geometry;
        let drives = self.drives();
        let status = self.status();
        let drive_of = |slot: usize| {
            let member = volume.slots[slot]
                .member
                .filter(|&member| volume.slots[slot].current && !snapshot.failed.has(member))?;
            let number = usize::from(member.0);
            let known = snapshot.record.members.get(number)?;
            let drive = drives.get(number)?.clone()?;
            let called = status.members.get(number)?.name.clone();
            (known.state == MemberState::Active).then_some((drive, called))
        };
        let held = (0..volume.slots.len()).map(|slot| {
            drive_of(slot).ok_or_else(|| {
                format!(
                    "slot {slot} of {name} has no drive in sync; there is nothing to compare with"
                )
            })
        });
        let place = shape.locate(lba * SECTOR_BYTES);
        let band_bytes = shape.band_bytes();
        let low = place.in_chunk_bytes / band_bytes * band_bytes;
        let stripe = Stripe {
            shape,
            row: place.row,
            low,
            high: (low + band_bytes).min(shape.row_height_bytes(place.row)),
            drives: held.collect::<Result<_, _>>()?,
        };
        let from = shape.member_offset_bytes(stripe.row, low);
        let bad_blocks = &snapshot.record.bad_blocks;
        let is_bad = |member| bad_blocks.touch(member, from, stripe.length() as u64);
        let mut members = volume.slots.iter().map(|slot| slot.member);
        match members.position(|member| member.is_some_and(is_bad)) {
            Some(slot) => Err(format!(
                "{} has bad blocks on record in the stripe of LBA {lba} of {name}: what lies there is not its data; a scrub writes it back",
                stripe.drives[slot].1
            )),
            None => Ok(stripe),
        }
    }

    /// The content of every slot, while nothing is written there; `None` if the stripe was not still all the time.
    fn read_still(
        &self,
        at: usize,
        stripe: &Stripe,
        lba: u64,
    ) -> Result<Option<Vec<Vec<u8>>>, String> {
        let ticket = self.new_ticket();
        let (answer, answered) = channel();
        lock(&self.scrubs.inspections).insert(ticket, answer);
        let owner = stripe.shape.owner(stripe.row, self.shards());
        let send = |message| self.send(owner, message);
        send(Message::Inspect {
            ticket,
            volume: VolumeId(at as u8),
            offset_bytes: lba * SECTOR_BYTES,
        });
        let stands = answered.recv_timeout(ANSWER_WITHIN) == Ok(true);
        let contents = stands.then(|| stripe.read());
        send(Message::Inspected { ticket });
        let held = stands && answered.recv_timeout(ANSWER_WITHIN) == Ok(true);
        lock(&self.scrubs.inspections).remove(&ticket);
        match contents {
            Some(contents) if held => contents.map(Some),
            // The error names a drive; it may be one that took longer than a stripe can be kept still.
            Some(Err(sentence)) => Err(sentence),
            _ => Ok(None),
        }
    }
}

impl Stripe {
    fn length(&self) -> usize {
        (self.high - self.low) as usize
    }

    fn read(&self) -> Result<Vec<Vec<u8>>, String> {
        let from = self.shape.member_offset_bytes(self.row, self.low);
        let length = self.length();
        let drives = (0u8..).zip(self.drives.iter().map(|(drive, _)| drive.clone()));
        let mut found = on_each(&mut BTreeMap::new(), drives.collect(), move |drive| {
            drive
                .read_at(from, length)
                .map_err(|error| error.to_string())
        });
        let slots = (0u8..).zip(&self.drives);
        slots
            .map(|(slot, (_, name))| match found.remove(&slot) {
                Some(result) => result,
                None => Err(format!("{name} has not answered")),
            })
            .collect()
    }

    fn compare(&self, volume: &str, lba: u64, contents: &[Vec<u8>]) -> Explanation {
        let comparisons = self.comparisons(contents);
        let verdict = self.verdict(contents, &comparisons);
        Explanation {
            volume: volume.to_owned(),
            lba,
            stripe: self.row,
            length_bytes: self.length() as u64,
            members: self.members(contents),
            comparisons,
            verdict,
        }
    }

    fn members(&self, contents: &[Vec<u8>]) -> Vec<Held> {
        let from = self.shape.member_offset_bytes(self.row, self.low);
        let each = (0u8..).zip(self.drives.iter().zip(contents));
        each.map(|(slot, ((_, name), content))| {
            let data_index = self.shape.data_index(self.row, Slot(slot));
            let lbas = data_index.and_then(|data_index| self.lbas(data_index));
            Held {
                slot,
                name: name.clone(),
                holds: match (data_index, self.shape.level) {
                    (None, _) => "parity",
                    (Some(_), Level::Raid1 | Level::Raid10) => "copy",
                    (Some(_), _) => "data",
                }
                .to_owned(),
                lbas,
                member_lba: from / SECTOR_BYTES,
                crc32c: metadata::crc32c::crc32c(content),
            }
        })
        .collect()
    }

    /// The sectors in the compared part of a data chunk; `None` if it lies beyond the volume's end.
    fn lbas(&self, data_index: u8) -> Option<LbaRange> {
        let from = self.shape.volume_offset_bytes(Location {
            row: self.row,
            data_index,
            in_chunk_bytes: self.low,
        });
        let end = (from + self.length() as u64).min(self.shape.size_bytes);
        (from < end).then(|| LbaRange {
            first: from / SECTOR_BYTES,
            last: end / SECTOR_BYTES - 1,
        })
    }

    fn comparisons(&self, contents: &[Vec<u8>]) -> Vec<Comparison> {
        if self.shape.parity_slot(self.row).is_some() {
            let mut sum = vec![0; self.length()];
            for content in contents {
                sum.iter_mut()
                    .zip(content)
                    .for_each(|(sum, byte)| *sum ^= byte);
            }
            let slots = (0..self.shape.members).collect();
            return vec![Comparison::of(slots, &sum)];
        }
        let mut found = Vec::new();
        for data_index in 0..self.shape.data_members() {
            let mut copies = self.shape.data_slots(self.row, data_index).iter();
            let Some(first) = copies.next() else { continue };
            for copy in copies {
                let [one, other] = [first, copy].map(|slot| &contents[usize::from(slot.0)]);
                let difference: Vec<u8> = one.iter().zip(other).map(|(a, b)| a ^ b).collect();
                found.push(Comparison::of(vec![first.0, copy.0], &difference));
            }
        }
        found
    }

    fn verdict(&self, contents: &[Vec<u8>], comparisons: &[Comparison]) -> String {
        let name = |slot: u8| self.drives[usize::from(slot)].1.clone();
        let names = |slots: &[u8]| {
            let all: Vec<String> = slots.iter().map(|&slot| name(slot)).collect();
            all.join(", ")
        };
        let Some(worst) = comparisons.iter().find(|one| !one.agree) else {
            return "all members agree".to_owned();
        };
        if let Some(parity) = self.shape.parity_slot(self.row) {
            return format!(
                "parity on {} does not match the data: if one drive is wrong, any of {} would explain it, and \
                 which one cannot be known from a single parity; `scrub --repair` would take the data for \
                 right and write parity anew",
                name(parity.0),
                names(&worst.slots)
            );
        }
        let first = worst.slots[0];
        let source = format!(
            "`scrub --repair` would copy {} to the others of its mirror",
            name(first)
        );
        let copies: Vec<u8> = match self.shape.data_index(self.row, Slot(first)) {
            Some(data_index) => self
                .shape
                .data_slots(self.row, data_index)
                .iter()
                .map(|slot| slot.0)
                .collect(),
            None => worst.slots.clone(),
        };
        let alike = |slot: u8| {
            let like = |other: &&u8| contents[usize::from(**other)] == contents[usize::from(slot)];
            copies.iter().filter(like).copied().collect::<Vec<u8>>()
        };
        let largest = copies.iter().map(|&slot| alike(slot)).max_by_key(Vec::len);
        match largest {
            Some(majority) if 2 * majority.len() > copies.len() => format!(
                "{} hold the same and are the majority, which makes the others suspect but proves nothing; {source}",
                names(&majority)
            ),
            _ => format!(
                "{} differ, and which of them is right cannot be known from the copies; {source}",
                names(&worst.slots)
            ),
        }
    }
}

impl Comparison {
    /// The comparison of slots whose XOR is `difference`: zeros where they agree.
    fn of(slots: Vec<u8>, difference: &[u8]) -> Comparison {
        let mut ranges: Vec<ByteRange> = Vec::new();
        let mut differing_bytes = 0;
        let bytes = (0u64..).zip(difference).filter(|(_, byte)| **byte != 0);
        for (at, _) in bytes {
            differing_bytes += 1;
            match ranges.last_mut() {
                Some(range) if at - range.last <= GAP_BYTES as u64 => range.last = at,
                _ => ranges.push(ByteRange {
                    first: at,
                    last: at,
                }),
            }
        }
        let left_out = ranges.len().saturating_sub(RANGES_MAX) as u64;
        ranges.truncate(RANGES_MAX);
        Comparison {
            slots,
            agree: differing_bytes == 0,
            differing: ranges,
            left_out,
            differing_bytes,
        }
    }
}
