//! The arrays that a search may choose from, cheapest first.

use super::Question;
use lab::schema::configuration::Configuration;
use lab::schema::setup::{Level, Reference, Setup};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Chunk sizes that are tried in this order, unless one is asked for: the default first.
const CHUNKS_KIB: [u32; 4] = [128, 64, 32, 16];

/// A drive, by its place among the question's, and a level.
pub(super) type Kind = (usize, Level);

/// Drives of one kind at one level; their number grows until the array holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Candidate {
    /// What drives and machine cost, spares included.
    pub price: f64,
    /// Drives of the array.
    pub count: u32,
    /// The drive, by its place among the question's.
    pub drive: usize,
    pub level: Level,
}

impl Candidate {
    /// Drives by which arrays of this level grow.
    pub(super) fn step(&self) -> u32 {
        if self.level == Level::Raid10 { 2 } else { 1 }
    }

    /// Its drive and level.
    pub(super) fn kind(&self) -> Kind {
        (self.drive, self.level)
    }
}

impl Eq for Candidate {}

impl Ord for Candidate {
    /// The greatest is the cheapest; of equal ones that with fewer drives, then that of the earlier drive and level.
    fn cmp(&self, other: &Candidate) -> Ordering {
        let by_price = other.price.total_cmp(&self.price);
        let by_count = other.count.cmp(&self.count);
        let rest = (other.drive, other.level).cmp(&(self.drive, self.level));
        by_price.then(by_count).then(rest)
    }
}

impl PartialOrd for Candidate {
    fn partial_cmp(&self, other: &Candidate) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Candidates of which the cheapest comes first.
pub(super) type Cheapest = BinaryHeap<Candidate>;

impl Question {
    /// The first candidate of each drive and level: with as few drives as the level can have, or the number that is asked for.
    pub(super) fn first(&self, prices: &[f64], bays: u32) -> Cheapest {
        let drives = prices.iter().enumerate();
        let all = drives.flat_map(|(drive, price)| {
            self.levels.iter().filter_map(move |&level| {
                let count = self.count.unwrap_or(level.drives_min());
                self.candidate(drive, *price, level, count, bays)
            })
        });
        all.collect()
    }

    /// The next candidate of the same drive and level, which has more drives; `None` beyond the bays.
    pub(super) fn next(&self, of: &Candidate, price: f64, bays: u32) -> Option<Candidate> {
        if self.count.is_some() {
            return None;
        }
        self.candidate(of.drive, price, of.level, of.count + of.step(), bays)
    }

    fn candidate(
        &self,
        drive: usize,
        price: f64,
        level: Level,
        count: u32,
        bays: u32,
    ) -> Option<Candidate> {
        let all = count.checked_add(self.sizer.spares_of(level))?;
        let is_possible = match level {
            Level::Raid1 => count == level.drives_min(),
            Level::Raid10 => count.is_multiple_of(2),
            Level::Single | Level::Raid0 | Level::Raid5 => true,
        };
        let is_possible = is_possible && count >= level.drives_min() && all <= bays;
        is_possible.then(|| Candidate {
            price: price * f64::from(all) + self.platform_price,
            count,
            drive,
            level,
        })
    }

    /// The candidate of the same drive and level with the most drives that fit.
    pub(super) fn largest(&self, of: &Candidate, price: f64, bays: u32) -> Candidate {
        let room = bays.saturating_sub(self.sizer.spares_of(of.level));
        let count = match of.level {
            Level::Raid1 => of.level.drives_min(),
            Level::Raid10 => room / 2 * 2,
            Level::Single | Level::Raid0 | Level::Raid5 => room,
        };
        let largest = self.candidate(of.drive, price, of.level, count, bays);
        largest.expect("fewer drives of the level fit")
    }

    /// Whether requests are at random.
    pub(super) fn is_random(&self) -> bool {
        use lab::workload::Operation::{RandMix, RandRead, RandWrite};
        matches!(self.wanted.op, RandMix | RandRead | RandWrite)
    }

    /// The chunk sizes that are tried. Requests at random whose size divides every chunk meet one drive, whatever the chunk, so one
    /// is enough; a RAID 1 has none.
    pub(super) fn chunks(&self, level: Level) -> Vec<Option<u32>> {
        let smallest = CHUNKS_KIB[CHUNKS_KIB.len() - 1] * 1024;
        let is_small = self.is_random() && smallest.is_multiple_of(self.wanted.bs.bytes());
        match self.chunk_kib {
            _ if level == Level::Raid1 => vec![None],
            Some(chunk) => vec![Some(chunk)],
            None if is_small => vec![Some(CHUNKS_KIB[0])],
            None => CHUNKS_KIB.map(Some).into(),
        }
    }

    /// What is run of a candidate with this chunk. Without `demand`, clients ask for as much as the array can do.
    pub(super) fn configuration(
        &self,
        candidate: &Candidate,
        chunk_kib: Option<u32>,
        demand: bool,
    ) -> Configuration {
        let mut workload = self.load.clone();
        workload.demand_iops = demand.then_some(self.wanted.iops);
        let drive = &self.drives[candidate.drive];
        Configuration {
            setup: self.setup(drive, candidate.level, candidate.count, chunk_kib),
            state: self.state,
            workload,
        }
    }

    /// The setup of an array.
    pub(super) fn setup(
        &self,
        drive: &str,
        level: Level,
        count: u32,
        chunk_kib: Option<u32>,
    ) -> Setup {
        Setup {
            drive: Reference::from(drive.to_owned()),
            count,
            level,
            platform: Reference::from(self.platform.clone()),
            host: self.host.clone(),
            stack: "fullstripe".to_owned(),
            chunk_kib,
            engine_cores: self.engine_cores,
            export: self.export,
            condition: None,
            rebuild_mb_s: None,
        }
    }
}
