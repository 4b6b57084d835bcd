//! What the arrays of a plan hold, cost, use and risk: [`crate::sizing`] with the figures of the plan's runs.
//!
//! Rates, power and bytes written come from the run of each point. The rebuild's pace does, too, if the point is a rebuild; for others
//! it is calculated from rated rates, without clients. If a drive is known from its data sheet only, each draw is sized with its
//! own run and its own ratings.

mod prices;

use super::ask::Case;
use super::bands::drawn;
use super::ideal::narrowest_bytes_per_s;
use super::report::PlannedReport;
use crate::predict::Answer;
use crate::predict::library::Library;
use crate::predict::many::Answered;
use crate::predict::point::{CHUNK_KIB, is_in_own_format};
use crate::provenance::Known;
use crate::sizing::capacity::{Capacity, capacity};
use crate::sizing::loss::{other_drives, rebuild_at_most_bytes_per_s};
use crate::sizing::{DriveFigures, Load, Shape, Sizing, UnitPrices, size};
use anyhow::{Result, anyhow, bail, ensure};
use assembly::level::in_format;
use engine::limits::CONTAINER_MEMBERS_MAX;
use lab::schema::configuration::Configuration;
use lab::schema::metric::Metric;
use lab::schema::setup::{Condition, Level, Setup};
use prices::PriceList;
use std::path::PathBuf;

/// The key of a drive's annual failure rate among the figures that a plan is computed from.
const ANNUAL_FAILURE: &str = "reliability.annual_failure_percent";

/// What a question says of sizing.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SizeQuestion {
    /// Drives that stand by, for each array that can use them.
    pub spares: u32,
    /// A file of prices, as TOML.
    pub prices: Option<PathBuf>,
    /// Drives of a hundred that fail in a year; by default what is usual of such drives.
    pub annual_failure_percent: Option<f64>,
}

/// Sizes the points of a plan.
#[derive(Debug)]
pub struct Sizer {
    spares: u32,
    prices: Option<PriceList>,
    annual_failure_percent: Option<f64>,
}

impl Sizer {
    /// A sizer for these cases.
    ///
    /// # Errors
    /// Spares that no array can use or no bay holds, an impossible rate, a file of prices that cannot be read, names what plans do not
    /// know, or lacks the price of a planned drive: one sentence.
    pub fn of(question: &SizeQuestion, cases: &[Case], library: &Library) -> Result<Sizer> {
        check_spares(question.spares, cases, library)?;
        Sizer::with_prices_of(question, cases, library)
    }

    /// A sizer for a search, which looks at every drive that has a price.
    ///
    /// # Errors
    /// An impossible rate, or a file of prices that cannot be read or names what plans do not know: one sentence.
    pub fn of_search(question: &SizeQuestion, library: &Library) -> Result<Sizer> {
        Sizer::with_prices_of(question, &[], library)
    }

    fn with_prices_of(question: &SizeQuestion, cases: &[Case], library: &Library) -> Result<Sizer> {
        if let Some(percent) = question.annual_failure_percent {
            ensure!(
                (0.0..100.0).contains(&percent),
                "--afr must be from 0 to below 100 (percent of drives that fail in a year), is {percent}"
            );
        }
        let prices = question.prices.as_deref();
        Ok(Sizer {
            spares: question.spares,
            prices: prices
                .map(|path| PriceList::read(path, cases, library))
                .transpose()?,
            annual_failure_percent: question.annual_failure_percent,
        })
    }

    /// Sizes the points of a report, which are those of `cases`, and states the size that `create` gives as what clients see.
    ///
    /// # Errors
    /// An array of this program's format that `create` would refuse.
    pub fn add(
        &self,
        report: &mut PlannedReport,
        cases: &[Case],
        answered: &Answered,
        library: &Library,
    ) -> Result<()> {
        assert_eq!(report.points.len(), cases.len(), "each case is a point");
        report.currency = self.prices.as_ref().map(|prices| prices.currency.clone());
        for (point, case) in report.points.iter_mut().zip(cases) {
            let Some(Ok(answer)) = answered.get(&case.configuration) else {
                continue;
            };
            if point.metrics.is_empty() {
                continue;
            }
            let drive = case.configuration.setup.drive.text();
            let prices = self.prices_of(drive, &case.configuration.setup);
            let sized = |configuration: &Configuration, answer: &Answer| {
                self.sized(configuration, answer, prices.as_ref(), library)
            };
            let sizing = sized(&case.configuration, answer)?;
            point.usable_bytes = sizing.capacity.usable_bytes;
            point.sizing = Some(sizing);
            if let Some(of_draws) = &mut point.drawn {
                let draws = drawn(&case.configuration, library);
                let all = draws.iter().map(|draw| {
                    let answer = answered.get(draw).and_then(|answer| answer.as_ref().ok());
                    let answer = answer.expect("a point with draws has an answer for each");
                    sized(draw, answer)
                });
                of_draws.sizing = all.collect::<Result<_>>()?;
            }
        }
        Ok(())
    }

    /// The drives that have a price.
    pub fn drives(&self) -> impl Iterator<Item = &str> {
        self.prices.iter().flat_map(PriceList::drives)
    }

    /// The price of a drive.
    ///
    /// # Errors
    /// It has none.
    pub fn price(&self, drive: &str) -> Result<f64> {
        let prices = self
            .prices
            .as_ref()
            .ok_or_else(|| anyhow!("there are no prices"))?;
        Ok(prices.price(drive)?)
    }

    /// The price of a platform; 0 if it has none.
    #[must_use]
    pub fn platform_price(&self, platform: &str) -> f64 {
        let prices = self.prices.as_ref();
        prices
            .and_then(|prices| prices.platform(platform))
            .unwrap_or(0.0)
    }

    /// The currency of all prices; empty without prices.
    #[must_use]
    pub fn currency(&self) -> &str {
        self.prices.as_ref().map_or("", |prices| &prices.currency)
    }

    /// The prices for a setup whose drives are bought as `drive`; its own name may be that of a draw. `None` without prices.
    #[must_use]
    pub fn prices_of(&self, drive: &str, setup: &Setup) -> Option<UnitPrices> {
        let prices = self.prices.as_ref();
        prices.map(|prices| prices.of(drive, setup))
    }

    /// What an array of the engine holds.
    ///
    /// # Errors
    /// `create` would refuse it, or its drive has no profile.
    pub fn usable_bytes(&self, setup: &Setup, library: &Library) -> Result<u64> {
        let drive = self.drive(setup, library)?;
        Ok(capacity_of(setup, drive.capacity_bytes, 0)?.usable_bytes)
    }

    /// What the array of a configuration holds, costs, uses and risks, with the figures of its run.
    ///
    /// # Errors
    /// An array of this program's format that `create` would refuse.
    pub fn sized(
        &self,
        configuration: &Configuration,
        answer: &Answer,
        prices: Option<&UnitPrices>,
        library: &Library,
    ) -> Result<Sizing> {
        let setup = &configuration.setup;
        let shape = self.shape(setup);
        let figure = |metric| answer.summary.get(&metric).map_or(0.0, |value| value.value);
        let percent = configuration.workload.read_percent().unwrap_or(100);
        let written_share = f64::from(100 - percent) / 100.0;
        let load = Load {
            iops: figure(Metric::Iops),
            drives_watts: figure(Metric::Watts),
            written_bytes_per_s: figure(Metric::BytesPerSecond) * written_share,
            amplification: answer.written_per_written,
            written_drives: setup.count - u32::from(setup.condition == Some(Condition::Degraded)),
            rebuild_bytes_per_s: match setup.condition {
                Some(Condition::Rebuilding) => answer
                    .rebuild
                    .map(|rebuild| rebuild.bytes_per_s)
                    .filter(|pace| *pace > 0.0),
                _ => Some(calculated_rebuild(setup, &shape, library)?),
            },
        };
        let drive = self.drive(setup, library)?;
        let capacity = capacity_of(setup, drive.capacity_bytes, answer.size_bytes)?;
        Ok(size(&drive, &shape, capacity, &load, prices))
    }

    fn shape(&self, setup: &Setup) -> Shape {
        Shape {
            level: setup.level,
            drives: setup.count,
            spares: self.spares_of(setup.level),
        }
    }

    /// Spares of an array of this level: none if it cannot use them.
    #[must_use]
    pub fn spares_of(&self, level: Level) -> u32 {
        match other_drives(level, level.drives_min()) {
            Some(_) => self.spares,
            None => 0,
        }
    }

    /// The figures of a setup's drive.
    ///
    /// # Errors
    /// It has no profile.
    pub fn drive(&self, setup: &Setup, library: &Library) -> Result<DriveFigures> {
        let profile = library
            .profile(&setup.drive)
            .map_err(|missing| anyhow!(missing.reason))?;
        let rated = library.rated(&setup.drive);
        let rated = rated.expect("each drive with a profile has its ratings beside it");
        let reliability = &rated.reliability;
        let usual_percent = reliability.annual_failure_percent.value;
        Ok(DriveFigures {
            capacity_bytes: profile.capacity_bytes,
            idle_watts: profile.idle_mw as f64 / 1e3,
            endurance_dwpd: rated.endurance_dwpd.value,
            warranty_years: reliability.warranty_years.value,
            unreadable_per_bit: reliability.unreadable_per_bit.value,
            annual_failure_share: self.annual_failure_percent.unwrap_or(usual_percent) / 100.0,
        })
    }

    /// Adds what sizing is computed from to the figures of a plan: formulas, prices, and the user's failure rate in place of the usual.
    pub fn add_provenance(&self, all: &mut Vec<Known>) {
        let of_user = |known: &mut Known, percent| {
            known.value = Some(percent);
            known.drawn = None;
            known.status = "yours".to_owned();
            known.source = "--afr".to_owned();
        };
        if let Some(percent) = self.annual_failure_percent {
            let rates = all.iter_mut().filter(|known| known.key == ANNUAL_FAILURE);
            rates.for_each(|known| of_user(known, percent));
        }
        all.extend(FORMULAS.map(|(key, source)| Known {
            of: "size".to_owned(),
            key: key.to_owned(),
            value: None,
            drawn: None,
            status: "formula".to_owned(),
            source: source.to_owned(),
        }));
        all.extend(self.prices.iter().flat_map(PriceList::known));
    }
}

/// The formulas of sizing, with their sources.
const FORMULAS: [(&str, &str); 4] = [
    (
        "usable capacity",
        "the layout of the metadata format, by the same function as \"fullstripe create\"",
    ),
    (
        "endurance",
        "years = DWPD x years of the warranty / drive writes a day by the RAID software; what flash is written beyond that is in the \
         rating, which is made under the load of JESD219 (JESD218, endurance rating)",
    ),
    (
        "second loss, drive",
        "1 - exp(-k r T), r = -ln(1 - AFR) / year: the term of the mean time to data loss of Patterson, Gibson and Katz, \"A Case \
         for Redundant Arrays of Inexpensive Disks (RAID)\", SIGMOD 1988",
    ),
    (
        "second loss, block",
        "1 - exp(-bits read x UBER), UBER as in JESD218; as in Hetzler, \"Series SSD: 2. System Level Reliability\", 2012. \
         Schroeder et al., FAST 2016, found no such relation in the field",
    ),
];

/// What an array holds: as `create` makes it, or as the stack of another format has it.
fn capacity_of(setup: &Setup, drive_bytes: u64, run_bytes: u64) -> Result<Capacity> {
    let Some(level) = setup.level.array() else {
        return Ok(capacity(setup.level, setup.count, 0, drive_bytes)?);
    };
    if is_in_own_format(&setup.stack) {
        let chunk_bytes = setup.chunk_kib.unwrap_or(CHUNK_KIB) * 1024;
        let capacity = capacity(setup.level, setup.count, chunk_bytes, drive_bytes);
        return capacity.map_err(|error| {
            let count = setup.count;
            anyhow!(
                "{} of {count} drives cannot be created: {error}",
                level.name()
            )
        });
    }
    Ok(Capacity {
        usable_bytes: run_bytes,
        member_bytes: run_bytes / in_format(level).data_members(setup.count as usize),
    })
}

fn calculated_rebuild(setup: &Setup, shape: &Shape, library: &Library) -> Result<f64> {
    let missing = |missing: lab::claims::predictor::NotModelled| anyhow!(missing.reason);
    let profile = library.profile(&setup.drive).map_err(missing)?;
    let graph = library.platform(&setup.platform).map_err(missing)?;
    Ok(rebuild_at_most_bytes_per_s(
        shape,
        profile.path_bytes_per_s as f64,
        profile.program_bytes_per_s as f64,
        narrowest_bytes_per_s(graph, setup.count as usize),
    ))
}

/// Refuses spares that no array of the plan can use, or that some machine has no bays for.
fn check_spares(spares: u32, cases: &[Case], library: &Library) -> Result<()> {
    if spares == 0 {
        return Ok(());
    }
    let setups = cases.iter().map(|case| &case.configuration.setup);
    let mut able = setups.filter(|setup| other_drives(setup.level, setup.count).is_some());
    let Some(first) = able.next() else {
        bail!("--spares goes with RAID 1, 5 and 10 only: no other level is rebuilt");
    };
    for setup in std::iter::once(first).chain(able) {
        let (level, count) = (setup.level.name(), setup.count);
        let all = count.saturating_add(spares) as usize;
        ensure!(
            all <= CONTAINER_MEMBERS_MAX,
            "--spares {spares} and {count} drives are {all}, and an array and its spares have at most \
             {CONTAINER_MEMBERS_MAX}"
        );
        let Ok(graph) = library.platform(&setup.platform) else {
            continue;
        };
        let (bays, platform) = (graph.bays.len(), setup.platform.text());
        ensure!(
            all <= bays,
            "--spares {spares}: {level} of {count} drives and its spares need {all} bays, and {platform} has {bays}"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests;
