//! The table itself: prices by level and class, and how well they predict.

use super::bytes::BytePrices;
use super::count::Sample;
use super::fit::{Equation, Fit, fit};
use super::scene::{WORLD_COMMANDS, WORLD_REQUESTS};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;

/// Version of the file's form. A reader refuses other versions.
pub const SCHEMA: u32 = 1;

/// See the module's prose.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Table {
    /// Version of this schema.
    pub schema: u32,
    /// The version of the program that was counted.
    pub fullstripe: String,
    /// How it was compiled: a debug build has other prices than a release build.
    pub build: String,
    /// The processor's name.
    pub machine: String,
    /// The instructions that computed parity.
    pub parity_by: String,
    /// How it was counted.
    pub method: String,
    /// The counting world's own prices.
    pub world: WorldPrices,
    /// Counters without a price at any level: events that occur once, such as the loss of a drive.
    pub unpriced: Vec<String>,
    /// Prices by level.
    pub levels: Vec<LevelPrices>,
}

/// The counting world's own prices. No other price contains them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct WorldPrices {
    /// Instructions of a request.
    pub instructions_per_request: f64,
    /// Instructions of a command for a member.
    pub instructions_per_command: f64,
}

impl WorldPrices {
    /// The instructions of a scene without those of the world.
    fn without(&self, sample: &Sample) -> f64 {
        sample.instructions
            - self.instructions_per_request * sample.count(WORLD_REQUESTS)
            - self.instructions_per_command * sample.count(WORLD_COMMANDS)
    }
}

/// The prices of a level.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct LevelPrices {
    pub level: u8,
    /// Number of scenes that the prices were fitted to; then the errors in these scenes.
    pub scenes: usize,
    pub median_relative_error: f64,
    pub worst_relative_error: f64,
    pub worst_scene: String,
    /// Errors in scenes that the prices were not fitted to.
    pub checks: Vec<Check>,
    pub classes: Vec<Price>,
}

/// A mix that the prices were not fitted to.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Check {
    pub scene: String,
    /// Instructions of one request.
    pub counted: f64,
    pub predicted: f64,
    pub relative_error: f64,
}

/// The price of one event of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Price {
    /// The engine's counter.
    pub name: String,
    pub instructions: f64,
    /// Payload bytes that the processor reads and writes.
    pub bytes_read: f64,
    pub bytes_written: f64,
    /// How often the class occurred in the scenes that the price comes from.
    pub samples: u64,
}

/// Scenes by name.
pub(super) type Samples = [(String, Sample)];

impl LevelPrices {
    /// The prices that fit `samples` best, with their errors in `checks`.
    pub(super) fn new(
        level: u8,
        world: WorldPrices,
        samples: &Samples,
        checks: &Samples,
        per_byte: BytePrices,
    ) -> LevelPrices {
        let mut totals: BTreeMap<&str, u64> = BTreeMap::new();
        for (name, count) in samples.iter().flat_map(|(_, done)| &done.work.counters) {
            *totals.entry(name).or_default() += count;
        }
        totals
            .retain(|name, count| *count > 0 && *name != WORLD_REQUESTS && *name != WORLD_COMMANDS);
        let works: Vec<&str> = totals
            .keys()
            .copied()
            .filter(|name| !is_bytes(name))
            .collect();
        let equation = |(_, sample): &(String, Sample)| Equation {
            counts: works.iter().map(|name| sample.count(name)).collect(),
            total: world.without(sample),
        };
        let equations: Vec<Equation> = samples.iter().map(equation).collect();
        let Fit { prices, errors } = fit(&equations, works.len());
        let judged = checks.iter().map(|check| {
            let equation = equation(check);
            let requests = check.1.count(WORLD_REQUESTS);
            Check {
                scene: check.0.clone(),
                counted: rounded(equation.total / requests),
                predicted: rounded(equation.predicted(&prices) / requests),
                relative_error: rounded(equation.relative_error(&prices)),
            }
        });
        let price = |(name, samples): (&&str, &u64)| {
            let found = works.iter().zip(&prices).find(|(work, _)| *work == name);
            let instructions = found.map_or(0.0, |(_, price)| *price);
            per_byte.priced(name, instructions, *samples)
        };
        let (worst, worst_relative_error) =
            (errors.iter().enumerate()).fold((0, 0.0), |worst, (at, &error)| {
                if error > worst.1 { (at, error) } else { worst }
            });
        let mut sorted = errors.clone();
        sorted.sort_by(f64::total_cmp);
        LevelPrices {
            level,
            scenes: samples.len(),
            median_relative_error: rounded(sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)),
            worst_relative_error: rounded(worst_relative_error),
            worst_scene: samples
                .get(worst)
                .map_or(String::new(), |(name, _)| name.clone()),
            checks: judged.collect(),
            classes: totals.iter().map(price).collect(),
        }
    }

    /// The largest error of a prediction among the checks.
    pub fn worst_check(&self) -> f64 {
        let errors = self.checks.iter().map(|check| check.relative_error);
        errors.fold(0.0, f64::max)
    }
}

/// Counters of bytes. Their price is measured over real memory, if the processor touches the bytes.
pub fn is_bytes(class: &str) -> bool {
    class.ends_with("_bytes")
}

/// Rounds to four decimal places; more would mean nothing.
pub fn rounded(number: f64) -> f64 {
    (number * 10_000.0).round() / 10_000.0
}

impl Table {
    /// A summary for the user.
    pub fn summary(&self, path: &Path) -> String {
        let prices: usize = self.levels.iter().map(|level| level.classes.len()).sum();
        let mut text = format!("{prices} prices written to {}", path.display());
        for level in &self.levels {
            let _ = write!(
                text,
                "\nRAID {}: off by {:.1} % in half of its {} scenes, by {:.1} % in the worst ({}); \
                 mixes that made no price: at most {:.1} %",
                level.level,
                100.0 * level.median_relative_error,
                level.scenes,
                100.0 * level.worst_relative_error,
                level.worst_scene,
                100.0 * level.worst_check()
            );
        }
        text
    }
}
