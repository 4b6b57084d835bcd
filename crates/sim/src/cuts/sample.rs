//! States that are kept, so that other programs can be run on them: the content of the drives, how the array
//! started from it, and what may be read.
//!
//! All states of a scene are equally likely to be kept. The choice has a random stream of its own, so that the
//! examination of states is the same with and without it.

use super::images::Image;
use crate::container::create::serial;
use crate::drive::store::Page;
use crate::oracle::pattern::{SECTOR_BYTES, fill};
use crate::oracle::{Oracle, Value};
use crate::random::Stream;
use engine::control::record::{Record, SyncKind};
use std::ops::Range;

/// A state.
#[derive(Clone)]
pub struct Sample {
    /// The instant at which the power was cut, counted from 1.
    pub cut: u64,
    /// The state among those of that instant, counted from 1.
    pub state: u64,
    /// The drives in the order of their bays.
    pub drives: Vec<KeptDrive>,
    /// How the array started; `None` where no array had been created.
    pub start: Option<Start>,
}

/// A drive as the power cut left it.
#[derive(Clone)]
pub struct KeptDrive {
    /// Its serial.
    pub serial: String,
    /// Capacity.
    pub size_bytes: u64,
    /// Its written pages, each with its first byte. There are zeros everywhere else.
    pub pages: Vec<(u64, Box<Page>)>,
}

/// How the array started, and what its only volume may then contain.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Start {
    /// Members of the volume.
    pub members: u8,
    /// Slots without a drive whose content is current.
    pub missing: u8,
    /// Redundancy is being established or re-established.
    pub syncs: bool,
    /// The possible contents of the volume, sector by sector: the first has one possible value of each sector,
    /// the next a second value of the sectors that have one, and so on.
    pub contents: Vec<Vec<u8>>,
    /// Sectors that may hold anything.
    pub anything: Vec<Range<u64>>,
}

impl Start {
    /// How the first volume of `record` started, and what `oracle` expects of it.
    #[must_use]
    pub fn of(record: &Record, oracle: &Oracle) -> Start {
        let volume = &record.volumes[0];
        let rebuilds = |kind| matches!(kind, SyncKind::Rebuild(_));
        let members = volume.geometry.members;
        let mut start = Start {
            members,
            missing: members - volume.current_slots().count() as u8,
            syncs: volume.sync.is_some_and(|sync| !rebuilds(sync.kind)),
            contents: Vec::new(),
            anything: Vec::new(),
        };
        for sector in 0..oracle.sectors() {
            start.expect(sector, oracle);
        }
        start
    }

    fn expect(&mut self, sector: u64, oracle: &Oracle) {
        let mut values = oracle.possible(sector);
        values.dedup();
        let known = |value: &Value| matches!(value, Value::Zero | Value::Of(_));
        if !values.iter().all(known) {
            match self.anything.last_mut() {
                Some(last) if last.end == sector => last.end += 1,
                _ => self.anything.push(sector..sector + 1),
            }
        }
        values.retain(known);
        while self.contents.len() < values.len().max(1) {
            // A sector without another value repeats one from before.
            let like = self.contents.first().cloned();
            let bytes = oracle.sectors() as usize * SECTOR_BYTES;
            self.contents.push(like.unwrap_or_else(|| vec![0; bytes]));
        }
        let place = sector as usize * SECTOR_BYTES..(sector as usize + 1) * SECTOR_BYTES;
        for (at, content) in self.contents.iter_mut().enumerate() {
            let value = values.get(at).or(values.first());
            if let Some(Value::Of(request)) = value {
                fill(
                    *request,
                    oracle.volume(),
                    sector,
                    &mut content[place.clone()],
                );
            }
        }
    }
}

/// Chooses among states that arrive one after the other (reservoir sampling).
pub(super) struct Sampler {
    most: usize,
    seen: u64,
    random: Stream,
    /// The states kept so far.
    pub(super) kept: Vec<Sample>,
}

impl Sampler {
    /// Keeps `most` at most.
    pub(super) fn new(seed: u64, most: usize) -> Sampler {
        Sampler {
            most,
            seen: 0,
            random: Stream::new(seed, "samples", 0),
            kept: Vec::new(),
        }
    }

    /// To be called for each state: the place in `kept`, if the state is to be kept.
    pub(super) fn place(&mut self) -> Option<usize> {
        if self.most == 0 {
            return None;
        }
        self.seen += 1;
        if self.kept.len() < self.most {
            return Some(self.kept.len());
        }
        let place = self.random.below(self.seen) as usize;
        (place < self.most).then_some(place)
    }

    /// Keeps a state.
    pub(super) fn keep(&mut self, place: usize, sample: Sample) {
        self.kept.truncate(self.most);
        match self.kept.get_mut(place) {
            Some(kept) => *kept = sample,
            None => self.kept.push(sample),
        }
    }
}

/// The drives of a state.
pub(super) fn kept_drives(image: &Image, size_bytes: u64) -> Vec<KeptDrive> {
    let drives = image.stores.iter().enumerate();
    let drives = drives.map(|(bay, store)| KeptDrive {
        serial: serial(bay),
        size_bytes,
        pages: store.written().collect(),
    });
    drives.collect()
}
