//! What the arrays of a plan hold, cost, use and risk: the options, and a block below each table of a plan.

use super::text::{duration, range};
use crate::terminal::fold::fold_within;
use crate::terminal::rows::folded;
use clap::Args;
use lab::statistics::interval::Interval;
use planner::plan::report::PlanPoint;
use planner::plan::size::SizeQuestion;
use planner::sizing::Sizing;
use planner::sizing::loss::SecondLoss;
use std::path::PathBuf;
use words::{count, number};

/// Blanks before a sentence of the block, and before its continuation.
const INDENT: &str = "  ";
const HANGING: usize = 4;

/// Options about spares, prices and failures.
#[derive(Args, Debug)]
pub struct SizeArgs {
    /// Drives that stand by in each array of RAID 1, 5 and 10: they are bought and powered, but do no work.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true)]
    pub spares: u32,
    /// File with prices of drives, as TOML: see docs/planning.md. The plan then says what a usable TB and a thousand IOPS cost.
    #[arg(long, value_name = "FILE")]
    pub prices: Option<PathBuf>,
    /// Drives that fail in a year, in percent; unless given, what is usual of such drives.
    #[arg(long, value_name = "PERCENT")]
    pub afr: Option<f64>,
}

impl SizeArgs {
    pub fn question(&self) -> SizeQuestion {
        SizeQuestion {
            spares: self.spares,
            prices: self.prices.clone(),
            annual_failure_percent: self.afr,
        }
    }
}

/// The block of one setup; `points` are its loads. Nothing about an array that lacks a drive: the whole array says it.
pub fn text(points: &[&PlanPoint], currency: Option<&str>, columns: Option<usize>) -> String {
    let sized = points.iter().find(|point| point.sizing.is_some());
    let Some(first) = sized.filter(|point| point.configuration.setup.condition.is_none()) else {
        return String::new();
    };
    let mut text = sentence(&bought(first, currency), columns);
    text += &table(points, currency, columns);
    text + &sentence(&losses(first), columns)
}

fn sentence(words: &str, columns: Option<usize>) -> String {
    fold_within(&format!("{INDENT}{words}\n"), columns, HANGING)
}

fn bought(point: &PlanPoint, currency: Option<&str>) -> String {
    let Some(sizing) = &point.sizing else {
        return String::new();
    };
    let mut words = count(sizing.drives as usize, "drive");
    if sizing.spares > 0 {
        words += &format!(" and {}", count(sizing.spares as usize, "spare"));
    }
    words += &format!(
        ", {:.3} TB usable",
        sizing.capacity.usable_bytes as f64 / 1e12
    );
    if let (Some(price), Some(currency)) = (&sizing.price, currency) {
        words += &format!(
            ": {} {currency}, {} {currency} for each usable TB",
            number(price.total),
            number(price.per_usable_tb)
        );
    }
    words
}

fn table(points: &[&PlanPoint], currency: Option<&str>, columns: Option<usize>) -> String {
    let mut head = vec!["LOAD".to_owned()];
    head.extend(currency.map(|currency| format!("{currency} / 1000 IOPS")));
    head.extend(["WATTS", "J / M I/O", "AMPLIFICATION", "DWPD", "YEARS"].map(str::to_owned));
    let mut rows = vec![head];
    for point in points {
        let figure = |of: &dyn Fn(&Sizing) -> Option<f64>| {
            point.sized(of).map_or_else(|| "-".to_owned(), range)
        };
        let mut row = vec![point.load.clone()];
        if currency.is_some() {
            row.push(figure(&|sizing| sizing.price.as_ref()?.per_thousand_iops));
        }
        row.push(figure(&|sizing| Some(sizing.power.watts)));
        row.push(figure(&|sizing| sizing.power.joules_per_million_io));
        row.push(figure(&|sizing| {
            Some(sizing.endurance.as_ref()?.amplification)
        }));
        row.push(figure(&|sizing| {
            Some(sizing.endurance.as_ref()?.drive_writes_per_day)
        }));
        row.push(figure(&|sizing| Some(sizing.endurance.as_ref()?.years)));
        rows.push(row);
    }
    folded(2, &rows, &[3], columns)
}

/// What is lost with the first drive, or with a second one meanwhile.
fn losses(point: &PlanPoint) -> String {
    let figure = |of: &dyn Fn(&Sizing) -> Option<f64>| point.sized(of);
    let second = |of: fn(&SecondLoss) -> f64| {
        figure(&|sizing| sizing.losses.second.as_ref().map(of)).map_or_else(String::new, chance)
    };
    let first = figure(&|sizing| Some(sizing.losses.first_per_year));
    let first = first.map_or_else(String::new, chance);
    let Some(sizing) = &point.sizing else {
        return String::new();
    };
    let Some(loss) = &sizing.losses.second else {
        return format!("the loss of any drive loses all: {first} a year");
    };
    let others = match loss.other_drives {
        1 => "its partner".to_owned(),
        others => format!("one of {others} others"),
    };
    let seconds = figure(&|sizing| Some(sizing.losses.second.as_ref()?.rebuild_seconds));
    let seconds = seconds.map_or_else(String::new, durations);
    let since = if sizing.spares == 0 {
        " once a new drive is there"
    } else {
        ""
    };
    format!(
        "a drive fails: {first} a year; rebuilt in {seconds} at best{since}, and meanwhile {others} fails: {}, or has a block that \
         cannot be read: {}",
        second(|loss| loss.drive),
        second(|loss| loss.block)
    )
}

/// The probability that a drive on which the array depends fails while this rebuild runs; `-` without a rebuild. That a block cannot
/// be read does not depend on the rebuild's pace.
pub fn second_drive(point: &PlanPoint) -> String {
    let drive = |sizing: &Sizing| Some(sizing.losses.second.as_ref()?.drive);
    let of_rebuild = point.rebuild.as_ref().and_then(|_| point.sized(drive));
    of_rebuild.map_or_else(|| "-".to_owned(), chance)
}

/// How the figures of the blocks are computed, for the end of a plan; nothing if there is no block.
pub fn formula(points: &[PlanPoint]) -> &'static str {
    let is_shown = |point: &PlanPoint| point.sizing.is_some();
    if !points.iter().any(is_shown) {
        return "";
    }
    "second loss: 1 - exp(-k r T) for k drives of failure rate r in T (Patterson, Gibson and Katz 1988), 1 - exp(-bits x UBER) for \
     blocks (JESD218); watts are those of drives, years those of a load that never pauses (docs/planning.md)\n"
}

/// A probability as people say it; of a range, the likelier end first.
pub fn chance(Interval { low, high }: Interval) -> String {
    let one_in = |share: f64| number(1.0 / share);
    match (low, high) {
        (_, high) if high <= 0.0 => "never".to_owned(),
        (low, high) if low <= 0.0 => format!("at most 1 in {}", one_in(high)),
        (low, high) if one_in(low) == one_in(high) => format!("1 in {}", one_in(high)),
        (low, high) => format!("1 in {} to {}", one_in(high), one_in(low)),
    }
}

fn durations(Interval { low, high }: Interval) -> String {
    let (low, high) = (duration(low), duration(high));
    if low == high {
        low
    } else {
        format!("{low} – {high}")
    }
}
