//! The cost of the engine's work: each of its counters has a price in instructions (`fullstripe bench
//! --cost-table`), and a processor has a time per instruction.
//!
//! Sums are whole femtoseconds, and fractions of a nanosecond are carried over, so results do not depend on how
//! work is divided into turns.

use anyhow::{Context, Result, ensure};
use engine::stats::Stats;
use serde::Deserialize;

const COUNTERS: usize = Stats::HELP.len();
const FEMTOSECONDS_IN_NS: f64 = 1e6;
/// The schema of cost tables that is read here.
const TABLE_SCHEMA: u32 = 1;
/// Femtoseconds in a nanosecond.
const NS_FS: u64 = 1_000_000;

/// The prices of the engine's counters, in time and in bytes of memory touched.
#[derive(Clone, Debug)]
pub struct Prices {
    /// Counters that cost time, and femtoseconds per count.
    costs_fs: Vec<(usize, u64)>,
    /// Counters, and bytes read and written per count.
    touches: Vec<(usize, u64)>,
}

impl Prices {
    /// Work that takes no time.
    #[must_use]
    pub fn nothing() -> Prices {
        Prices {
            costs_fs: Vec::new(),
            touches: Vec::new(),
        }
    }

    /// Adds the bytes that are read and written per count of a counter.
    ///
    /// # Errors
    ///
    /// When a name is not a counter.
    pub fn touching<'a>(
        mut self,
        bytes: impl IntoIterator<Item = (&'a str, u64)>,
    ) -> Result<Prices> {
        for (name, bytes) in bytes.into_iter().filter(|(_, bytes)| *bytes > 0) {
            self.touches.push((position(name)?, bytes));
        }
        Ok(self)
    }

    /// Prices from instructions by counter, on a processor that takes `instruction_ns` for one. Counters that are
    /// not named cost nothing.
    ///
    /// # Errors
    ///
    /// When a name is not a counter, or a price is negative, not a number, or a second or more.
    pub fn new<'a>(
        instructions: impl IntoIterator<Item = (&'a str, f64)>,
        instruction_ns: f64,
    ) -> Result<Prices> {
        let mut prices = Prices::nothing();
        for (name, instructions) in instructions {
            let at = position(name)?;
            let price_fs = instructions * instruction_ns * FEMTOSECONDS_IN_NS;
            ensure!(
                (0.0..1e15).contains(&price_fs),
                "{name}: {instructions} instructions of {instruction_ns} ns are no price"
            );
            prices.costs_fs.retain(|(other, _)| *other != at);
            prices.costs_fs.push((at, price_fs.round() as u64));
        }
        Ok(prices)
    }

    /// Prices of a RAID level from a cost table (JSON, as `fullstripe bench --cost-table` writes it).
    ///
    /// # Errors
    ///
    /// When the text is not such a table, or lacks the level, and as [`Prices::new`].
    pub fn of_table(table: &str, level: u8, instruction_ns: f64) -> Result<Prices> {
        let table: Table = serde_json::from_str(table).context("a cost table")?;
        ensure!(
            table.schema == TABLE_SCHEMA,
            "the cost table has schema {}, and {TABLE_SCHEMA} is read here",
            table.schema
        );
        let found = table.levels.iter().find(|found| found.level == level);
        let found = found.with_context(|| format!("the cost table has no RAID {level}"))?;
        let classes = || found.classes.iter();
        let prices = Prices::new(
            classes().map(|class| (class.name.as_str(), class.instructions)),
            instruction_ns,
        )?;
        prices.touching(classes().map(|class| {
            let bytes = class.bytes_read + class.bytes_written;
            (class.name.as_str(), bytes.round() as u64)
        }))
    }
}

/// The index of a counter among all counters.
fn position(name: &str) -> Result<usize> {
    let at = Stats::HELP.iter().position(|(known, _)| *known == name);
    at.with_context(|| format!("{name}: the engine counts no such thing"))
}

/// The parts of a cost table that are read here; the rest says how it was made.
#[derive(Deserialize)]
struct Table {
    schema: u32,
    levels: Vec<Level>,
}

#[derive(Deserialize)]
struct Level {
    level: u8,
    classes: Vec<Class>,
}

#[derive(Deserialize)]
struct Class {
    name: String,
    instructions: f64,
    bytes_read: f64,
    bytes_written: f64,
}

/// The cost of some work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Work {
    /// Time of a processor that never waits for memory.
    pub instructions_ns: u64,
    /// Bytes of memory that the work reads and writes.
    pub touched_bytes: u64,
}

/// The price of a counter, and its value when it was last charged.
#[derive(Clone, Debug)]
struct Charged {
    counter: usize,
    price: u64,
    before: u64,
}

impl Charged {
    fn of(prices: &[(usize, u64)]) -> Vec<Charged> {
        let each = prices.iter().map(|&(counter, price)| Charged {
            counter,
            price,
            before: 0,
        });
        each.collect()
    }

    /// The price of everything counted since the last call.
    fn charge(&mut self, now: &[u64; COUNTERS]) -> u64 {
        let now = now[self.counter];
        (now - std::mem::replace(&mut self.before, now)) * self.price
    }
}

/// Turns work into time, for one shard.
#[derive(Clone, Debug)]
pub struct Meter {
    costs_fs: Vec<Charged>,
    touches: Vec<Charged>,
    carried_fs: u64,
}

impl Meter {
    /// A meter of a shard that has not worked yet.
    #[must_use]
    pub fn new(prices: &Prices) -> Meter {
        Meter {
            costs_fs: Charged::of(&prices.costs_fs),
            touches: Charged::of(&prices.touches),
            carried_fs: 0,
        }
    }

    /// The cost of everything counted since the last call.
    pub fn charge(&mut self, stats: &Stats) -> Work {
        let now = stats.values();
        let charge =
            |all: &mut [Charged]| -> u64 { all.iter_mut().map(|one| one.charge(&now)).sum() };
        let sum_fs = self.carried_fs + charge(&mut self.costs_fs);
        self.carried_fs = sum_fs % NS_FS;
        Work {
            instructions_ns: sum_fs / NS_FS,
            touched_bytes: charge(&mut self.touches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_below_a_nanosecond_is_carried_over() {
        let prices = Prices::new([("reads", 3.0), ("turns", 1.0)], 0.25).unwrap();
        let mut meter = Meter::new(&prices);
        let mut stats = Stats::default();
        let mut charged = 0;
        for _ in 0..1000 {
            stats.reads += 1;
            charged += meter.charge(&stats).instructions_ns;
        }
        assert_eq!(charged, 750);
        stats.turns += 4;
        assert_eq!(meter.charge(&stats).instructions_ns, 1);
    }

    #[test]
    fn bytes_are_those_of_what_was_counted_since() {
        let prices = Prices::nothing().touching([("xor_bytes", 1), ("log_bytes", 2), ("reads", 0)]);
        let mut meter = Meter::new(&prices.unwrap());
        let mut stats = Stats {
            xor_bytes: 12_288,
            reads: 9,
            ..Stats::default()
        };
        assert_eq!(meter.charge(&stats).touched_bytes, 12_288);
        stats.log_bytes = 4096;
        assert_eq!(meter.charge(&stats).touched_bytes, 8192);
        assert_eq!(meter.charge(&stats).touched_bytes, 0);
        assert!(Prices::nothing().touching([("xor_bites", 1)]).is_err());
    }

    #[test]
    fn a_price_names_a_counter_and_is_a_number() {
        let unknown = Prices::new([("raeds", 3.0)], 0.25).unwrap_err();
        assert_eq!(
            unknown.to_string(),
            "raeds: the engine counts no such thing"
        );
        for price in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Prices::new([("reads", price)], 0.25).is_err(), "{price}");
        }
    }
}
