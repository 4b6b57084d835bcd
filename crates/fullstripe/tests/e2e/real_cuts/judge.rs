//! What the file system's journal has to show, so that a power cut loses nothing that was promised.
//!
//! - Before a FUA write is answered it is durable on each member that holds a part of it: both copies of a
//!   mirror; in RAID 5 the data and, at the same offset of another member, parity.
//! - When a FLUSH is answered, everything that the members had answered before it was sent is durable.
//! - A record is written once its shadow and the record before it are durable, to at most half of the members at
//!   a time.

use super::load::Kept;
use super::promise::Promise;
use super::rig::{DRIVE_BYTES, Shape};
use faultfs::{Entry, Operation, journal::tag};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ops::Range;

/// What is judged: a journal, and the files that were members in sync from its beginning to its end.
pub struct Case<'a> {
    pub shape: &'a Shape,
    pub journal: &'a [Entry],
    pub members: &'a [usize],
    /// Whether `members` hold all copies and parity of the volume.
    pub is_whole: bool,
    /// Whether all drives have a shadow when the journal begins, so that each record must have its own.
    pub begins_at_rest: bool,
}

/// Bytes from the end of a drive at which the shadow of the record begins and ends.
const SHADOW: [u64; 2] = [2352 * 512, 2216 * 512];
const SIGNATURE: &[u8] = b"Intel Raid ISM Cfg Sig. ";
const GENERATION_AT: usize = 44;

impl Case<'_> {
    fn is_member(&self, entry: &Entry) -> bool {
        self.members.contains(&entry.file)
    }

    /// Checks all rules; the error is a sentence about the first one that is broken.
    pub fn judge(&self, promise: &Promise, kept: &[Kept]) -> Result<(), String> {
        let by_tag = self.places();
        for kept in kept {
            if kept.request.kind.0 == crate::common::nbd::FLUSH {
                self.flushed(kept)?;
            } else if kept.request.version > 0 && self.is_whole {
                self.durable_at_once(promise, kept, &by_tag)?;
            }
        }
        self.records()
    }

    /// For each tag of a sector, the entries that wrote it, and where.
    fn places(&self) -> HashMap<u64, Vec<(&Entry, u64)>> {
        let mut places: HashMap<u64, Vec<(&Entry, u64)>> = HashMap::new();
        for entry in self.journal.iter().filter(|entry| self.is_member(entry)) {
            for (tag, place) in entry.tags.iter().zip((entry.offset_bytes..).step_by(512)) {
                places.entry(*tag).or_default().push((entry, place));
            }
        }
        places
    }

    fn durable_at_once(
        &self,
        promise: &Promise,
        kept: &Kept,
        places: &HashMap<u64, Vec<(&Entry, u64)>>,
    ) -> Result<(), String> {
        let request = &kept.request;
        for sector in request.first..request.first + request.count {
            let bytes = promise.content(sector, 1, request.version);
            let found = places.get(&tag(&bytes)).map_or(&[][..], Vec::as_slice);
            let in_time = |entry: &Entry| entry.is_durable_at(kept.answered);
            let mut on: BTreeSet<usize> = BTreeSet::new();
            for (entry, place) in found.iter().filter(|(entry, _)| in_time(entry)) {
                on.insert(entry.file);
                if self.shape.level == 5 {
                    let is_parity = |other: &&Entry| {
                        other.file != entry.file
                            && self.is_member(other)
                            && other.changes()
                            && other.arrived > kept.sent
                            && (other.offset_bytes..other.end_bytes()).contains(place)
                            && in_time(other)
                    };
                    on.extend(self.journal.iter().find(is_parity).map(|other| other.file));
                }
            }
            if on.len() < 2 {
                return Err(format!(
                    "sector {sector} of a FUA write of version {} was answered at {}, but was durable then on the \
                     members {on:?} only: {:?}",
                    request.version,
                    kept.answered,
                    found
                        .iter()
                        .map(|(entry, _)| brief(entry))
                        .collect::<Vec<_>>(),
                ));
            }
        }
        Ok(())
    }

    fn flushed(&self, kept: &Kept) -> Result<(), String> {
        let too_late = |entry: &&Entry| {
            self.is_member(entry)
                && entry.changes()
                && entry.errno == 0
                && entry.answered.is_some_and(|answered| answered < kept.sent)
                && !entry.is_durable_at(kept.answered)
        };
        match self.journal.iter().find(too_late) {
            Some(entry) => Err(format!(
                "a FLUSH sent at {} was answered at {}, but this was not durable then: {}",
                kept.sent,
                kept.answered,
                brief(entry)
            )),
            None => Ok(()),
        }
    }

    /// Whether the last write before a record, among those to its place and its shadow's, was to the shadow.
    fn has_shadow(&self, record: &Entry, shadow: &Range<u64>) -> bool {
        let is_either = |entry: &&Entry| {
            entry.file == record.file
                && entry.operation == Operation::Write
                && entry.arrived < record.arrived
                && (shadow.contains(&entry.offset_bytes) || generation_of(entry).is_some())
        };
        let last = self.journal.iter().rev().find(is_either);
        last.is_some_and(|entry| shadow.contains(&entry.offset_bytes))
    }

    fn records(&self) -> Result<(), String> {
        let shadow = DRIVE_BYTES - SHADOW[0]..DRIVE_BYTES - SHADOW[1];
        let mut updates: BTreeMap<u32, Vec<&Entry>> = BTreeMap::new();
        for entry in self.journal {
            // Writes that arrived after the power cut had no effect.
            let is_write = entry.operation == Operation::Write && entry.errno == 0;
            if !self.is_member(entry) || !is_write {
                continue;
            }
            if let Some(generation) = generation_of(entry) {
                let is_open = |other: &&Entry| {
                    other.file == entry.file
                        && other.operation == Operation::Write
                        && shadow.contains(&other.offset_bytes)
                        && other.errno == 0
                        && other.arrived < entry.arrived
                        && !other.is_durable_at(entry.arrived)
                };
                if let Some(other) = self.journal.iter().find(is_open) {
                    return Err(format!(
                        "record {generation} was written ({}) before its shadow was durable ({})",
                        brief(entry),
                        brief(other)
                    ));
                }
                if self.begins_at_rest && !self.has_shadow(entry, &shadow) {
                    let entry = brief(entry);
                    return Err(format!(
                        "record {generation} was written without a shadow ({entry})"
                    ));
                }
                updates.entry(generation).or_default().push(entry);
            }
        }
        let half = self.shape.members().div_ceil(2);
        let mut before: Vec<&Entry> = Vec::new();
        for (generation, entries) in updates {
            for entry in &entries {
                let is_open =
                    |other: &&&Entry| !other.is_durable_at(entry.arrived) && other.errno == 0;
                if let Some(other) = before.iter().find(is_open) {
                    return Err(format!(
                        "record {generation} was written ({}) before the previous record was durable ({})",
                        brief(entry),
                        brief(other)
                    ));
                }
                let at_once = entries.iter().filter(|other| {
                    other.arrived <= entry.arrived && other.errno == 0 && is_open(other)
                });
                let at_once: BTreeSet<usize> = at_once.map(|other| other.file).collect();
                if at_once.len() > half {
                    return Err(format!(
                        "record {generation} was being written to the members {at_once:?} at once, at most \
                         {half} may be written at a time: {}",
                        brief(entry)
                    ));
                }
            }
            before = entries;
        }
        Ok(())
    }
}

/// The generation of the record that a write contains, if it is a write of a record.
pub fn generation_of(entry: &Entry) -> Option<u32> {
    [512, 4096].into_iter().find_map(|sector_bytes: usize| {
        let at = entry.content.len().checked_sub(sector_bytes)?;
        let anchor = &entry.content[at..];
        let is_anchor = entry.end_bytes() + sector_bytes as u64 == DRIVE_BYTES;
        let generation = &anchor[GENERATION_AT..GENERATION_AT + 4];
        (is_anchor && anchor.starts_with(SIGNATURE))
            .then(|| u32::from_le_bytes(generation.try_into().expect("4")))
    })
}

/// A short text for an entry.
pub fn brief(entry: &Entry) -> String {
    let Entry {
        file,
        operation,
        offset_bytes,
        length_bytes,
        dsync,
        arrived,
        answered,
        durable,
        errno,
        ..
    } = entry;
    format!(
        "{operation:?} of d{file} at {offset_bytes} + {length_bytes}, dsync {dsync}, came {arrived}, answered \
         {answered:?} with {errno}, durable {durable:?}"
    )
}
