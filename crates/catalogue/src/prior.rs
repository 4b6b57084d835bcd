//! What is usual of drives: the figures that a plan takes where a data sheet says nothing.
//!
//! A prior is a range with its source. `profiles/priors.toml` has them by kind of memory, purpose and PCIe generation, and a
//! family's file may replace them in its table `priors`:
//!
//! ```toml
//! [priors]
//! pool_ppm = { low = 1000, usual = 2000, high = 4000, source = "measured on one drive of ours" }
//! ```

use crate::SCHEMA;
use crate::sheet::{Class, Family, Purpose, words_of};
use models::document::{Refusal, read};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::LazyLock;

/// The file of priors that comes with the program: its name and its text.
pub const FILE: (&str, &str) = (
    "profiles/priors.toml",
    include_str!("../../../profiles/priors.toml"),
);

words_of! {
    Prior {
        ReadUs => "read_us",
        WriteUs => "write_us",
        UnitShare => "unit_share",
        UnitSurplus => "unit_surplus",
        UnitTransferMbS => "unit_transfer_mb_s",
        ProgramKib => "program_kib",
        StripeKib => "stripe_kib",
        Suspends => "suspends",
        SuspendUs => "suspend_us",
        MapUnitKib => "map_unit_kib",
        PartialWriteFactor => "partial_write_factor",
        PoolPpm => "pool_ppm",
        SteadyShare => "steady_share",
        BurstShare => "burst_share",
        SectorShare => "sector_share",
        BufferKib => "buffer_kib",
        ReadAheadKib => "read_ahead_kib",
        CommandMaxKib => "command_max_kib",
        IoQueues => "io_queues",
        ShortMeanUs => "short_mean_us",
        ShortPerRead => "short_per_read",
        ShortPerWrite => "short_per_write",
        LongMeanUs => "long_mean_us",
        LongPerRead => "long_per_read",
        LongPerWrite => "long_per_write",
        IdleW => "idle_w",
        ActiveW => "active_w",
        EnduranceDwpd => "endurance_dwpd",
        WornWriteMbS => "worn_write_mb_s",
        WarrantyYears => "warranty_years",
        UnreadablePerBit => "unreadable_per_bit",
        AnnualFailurePercent => "annual_failure_percent",
    }
}

/// What a prior is about. The last word is its unit. Keys that a profile has too mean the same there
/// ([`models::profile`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Prior {
    /// Latency of a read of 4 KiB at queue depth 1.
    ReadUs,
    /// Latency of a write of 4 KiB at queue depth 1.
    WriteUs,
    /// The part of the read latency for which the unit is busy.
    UnitShare,
    /// Units for each one that rated reads keep busy on average.
    UnitSurplus,
    /// Bandwidth of one unit.
    UnitTransferMbS,
    /// What one program writes on one unit.
    ProgramKib,
    /// Consecutive bytes on one unit.
    StripeKib,
    /// Whether programs are suspended for reads: yes from one half on.
    Suspends,
    /// The delay of a read for which a program is suspended.
    SuspendUs,
    /// Granularity of the drive's map: a power of two.
    MapUnitKib,
    /// Cost of a map unit that a write covers only partly.
    PartialWriteFactor,
    /// Size of the clean pool, in millionths of the capacity.
    PoolPpm,
    /// What is left in the long run of a rate that is a burst.
    SteadyShare,
    /// Size of the pseudo-SLC cache, as a share of the capacity; 0 if there is none.
    BurstShare,
    /// The part of the controller's time for a 4 KiB command that goes into its data.
    SectorShare,
    /// Capacity of the write buffer.
    BufferKib,
    /// How far the drive reads ahead.
    ReadAheadKib,
    /// Largest command.
    CommandMaxKib,
    /// Queue pairs for I/O.
    IoQueues,
    /// Mean of short stalls.
    ShortMeanUs,
    /// Their probability per read.
    ShortPerRead,
    /// Their probability per write.
    ShortPerWrite,
    /// Mean of long stalls.
    LongMeanUs,
    /// Their probability per read.
    LongPerRead,
    /// Their probability per write.
    LongPerWrite,
    /// Power while idle.
    IdleW,
    /// Power at most while working.
    ActiveW,
    /// Drive writes a day during the warranty.
    EnduranceDwpd,
    /// The write rate past the rated endurance.
    WornWriteMbS,
    /// How long the warranty lasts, for which the endurance is rated.
    WarrantyYears,
    /// Sectors that cannot be read, for each bit that is read (UBER, JESD218).
    UnreadablePerBit,
    /// Drives of a hundred that fail in a year.
    AnnualFailurePercent,
}

/// Between what a figure usually lies.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    /// The least.
    pub low: f64,
    /// As many drives are below it as above.
    pub usual: f64,
    /// The most.
    pub high: f64,
    /// Where this comes from.
    pub source: String,
}

impl Range {
    /// The value below which this share of drives lies: 0 gives the least, one half the usual, 1 the most. In between, equal shares are
    /// equal factors, or equal steps if the range begins at 0.
    #[must_use]
    pub fn at(&self, share: f64) -> f64 {
        let (from, to, within) = if share < 0.5 {
            (self.low, self.usual, share * 2.0)
        } else {
            (self.usual, self.high, share * 2.0 - 1.0)
        };
        if from > 0.0 {
            from * (to / from).powf(within)
        } else {
            from + (to - from) * within
        }
    }

    /// What is wrong with it: the rest of a sentence.
    fn wrong(&self) -> Option<String> {
        let Range {
            low,
            usual,
            high,
            source,
        } = self;
        if !(0.0 <= *low && low <= usual && usual <= high && high.is_finite()) {
            let rule = format!(
                "has low = {low}, usual = {usual}, high = {high}: give them in this order, none below 0"
            );
            return Some(rule);
        }
        source
            .trim()
            .is_empty()
            .then(|| "has no source".to_string())
    }
}

/// The priors of a family's drives.
#[derive(Clone, Debug, PartialEq)]
pub struct Priors(BTreeMap<Prior, Range>);

impl Priors {
    /// Those of the class, purpose and generation of `family`, with the family's own in their place.
    #[must_use]
    pub fn of(family: &Family) -> Priors {
        let usual = Prior::ALL.iter().map(|(prior, word)| {
            let fitting = USUAL.iter().find(|entry| entry.fits(*prior, family));
            let range = fitting.unwrap_or_else(|| panic!("{}: no {word} fits every drive", FILE.0));
            (*prior, range.range())
        });
        let own = family.priors.iter();
        Priors(
            usual
                .chain(own.map(|(prior, range)| (*prior, range.clone())))
                .collect(),
        )
    }

    /// The range of a prior.
    #[must_use]
    pub fn range(&self, prior: Prior) -> &Range {
        &self.0[&prior]
    }
}

/// The range of a prior for a drive of which neither class, purpose nor generation is known.
///
/// # Panics
/// If the prior has no such entry. Those of [`crate::reliability`] have one.
#[must_use]
pub fn of_unknown(prior: Prior) -> Range {
    let is_for_all = |entry: &&Entry| {
        entry.key == prior
            && entry.class.is_none()
            && entry.purpose.is_none()
            && entry.generation.is_none()
    };
    let entry = USUAL.iter().find(is_for_all);
    let entry = entry.unwrap_or_else(|| panic!("{}: {prior} has no entry for all drives", FILE.0));
    entry.range()
}

/// Refuses priors that are no ranges; `file` is where they were found.
///
/// # Errors
/// One sentence with the key.
pub fn check(file: &str, priors: &BTreeMap<Prior, Range>) -> Result<(), Refusal> {
    let wrong = priors
        .iter()
        .find_map(|(prior, range)| Some((prior, range.wrong()?)));
    match wrong {
        Some((prior, rule)) => Err(Refusal::new(file, format!("priors.{prior}"), rule)),
        None => Ok(()),
    }
}

static USUAL: LazyLock<Vec<Entry>> = LazyLock::new(|| {
    let (file, text) = FILE;
    let priors: File = read(file, text).expect("a test reads the priors");
    assert_eq!(priors.schema, SCHEMA, "{file}: schema");
    priors.entries
});

/// The form of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: u32,
    #[serde(rename = "prior")]
    entries: Vec<Entry>,
}

/// A prior, and the drives that it is for: without a list, all.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    key: Prior,
    class: Option<Vec<Class>>,
    purpose: Option<Vec<Purpose>>,
    generation: Option<Vec<u32>>,
    low: f64,
    usual: f64,
    high: f64,
    source: String,
}

impl Entry {
    fn fits(&self, prior: Prior, family: &Family) -> bool {
        let has = |list: &Option<Vec<u32>>, one: u32| {
            list.as_ref().is_none_or(|list| list.contains(&one))
        };
        self.key == prior
            && (self.class.as_ref()).is_none_or(|list| list.contains(&family.class))
            && (self.purpose.as_ref()).is_none_or(|list| list.contains(&family.purpose))
            && has(&self.generation, family.generation.low() as u32)
    }

    fn range(&self) -> Range {
        Range {
            low: self.low,
            usual: self.usual,
            high: self.high,
            source: self.source.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_prior_of_the_program_is_a_range_with_a_source() {
        for entry in USUAL.iter() {
            assert_eq!(entry.range().wrong(), None, "{}", entry.key);
        }
    }

    #[test]
    fn half_of_the_drives_lie_below_the_usual_value() {
        let range = Range {
            low: 10.0,
            usual: 20.0,
            high: 80.0,
            source: "a test".to_owned(),
        };
        let shares = [0.0, 0.25, 0.5, 0.75, 1.0].map(|share| range.at(share).round());
        assert_eq!(shares, [10.0, 14.0, 20.0, 40.0, 80.0]);
        let from_nothing = Range { low: 0.0, ..range };
        assert_eq!(from_nothing.at(0.25), 10.0);
    }
}
