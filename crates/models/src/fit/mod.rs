//! How the fitted constants of the P4510's profile were found, repeatable by anybody, and what the model predicts for
//! numbers that it was not fitted to.
//!
//! ```text
//! cargo run --release -p models --example fit_p4510           # rows with the profile as it stands
//! cargo run --release -p models --example fit_p4510 -- fit    # searches the fitted constants again
//! fullstripe claims --dof                                     # leaves out one number after the other
//! ```
//!
//! The same profile and the same code give the same numbers on every machine. The drive is modelled alone ([`loads`]).
//! Predictions do not use this module: the published numbers in it are C rows, which may be fitted to.

pub mod loads;
mod rows;

pub use rows::{Row, rows};

use crate::profile::{Family, Member};
use crate::tables::Tables;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use rows::{Bench, D2, D8};
use serde::Serialize;

const READ_UNIT: &str = "media.read_unit_us";
const STEADY_WRITES: &str = "p4510-8tb.steady_write_kiops";
const POOL: &str = "p4510-8tb.pool_mb";
const SHORT_STALLS: &str = "stalls.short_per_write";

/// The value of a constant without one of its rows.
#[derive(Clone, Copy)]
enum Otherwise {
    /// The constant is fitted to its other row.
    Refit,
    /// The value that it would have without a fit.
    Value(f64),
    /// Unknown, because no other source gives it.
    Nothing,
}

/// A number that a constant was fitted to: row, published value, constant, the constant without this row, and the
/// function that measures the row.
type Fitted = (
    &'static str,
    f64,
    &'static str,
    Otherwise,
    fn(&mut Bench) -> f64,
);

/// All such numbers. Without M-06, steady writes are as the drive's maker rates them (A-04); without M-10, there are no
/// short stalls; M-07 alone gives the size of the clean pool. The bandwidth of a unit was fitted to a shape (A-45).
const FITTED: [Fitted; 5] = [
    (
        "M-02",
        210.0,
        READ_UNIT,
        Otherwise::Refit,
        rows::greatest_read_mean_us,
    ),
    (
        "M-03",
        290.0,
        READ_UNIT,
        Otherwise::Refit,
        rows::read_tail_us,
    ),
    (
        "M-06",
        150e3,
        STEADY_WRITES,
        Otherwise::Value(139.5),
        rows::steady_writes,
    ),
    (
        "M-07.held",
        57.5,
        POOL,
        Otherwise::Nothing,
        rows::seconds_held,
    ),
    (
        "M-10",
        380.0,
        SHORT_STALLS,
        Otherwise::Value(0.0),
        rows::write_tail_us,
    ),
];

/// The error of a value: the absolute logarithm of its ratio to the published one.
fn error(value: f64, published: f64) -> f64 {
    repeatable::logarithm::natural_logarithm(value / published).abs()
}

fn set(family: &mut Family, name: &str, value: f64) {
    family
        .figure_mut(name)
        .expect("the profile has this key")
        .value = value;
}

/// Number of units and duration of a program. Both follow from ratings alone once the read time of a unit is known. The
/// controller has 12 channels, so units come in dozens. The 2 TB drive has the least number of units that reaches its
/// rated random reads; its rated writes then give the duration of a program, which all sizes share. Every other size
/// has the least number that reaches its rated reads and writes.
fn derive_units(family: &mut Family) {
    // Rounded up by hand, because `ceil` needs the standard library.
    let of_dozens = |units: f64| ((units / 12.0 - 1e-9) as u64 + 1) as f64 * 12.0;
    let read_unit_us = family.media.read_unit_us.value;
    let program_kb = family.media.program_kib.value * 1.024;
    let units_for_reads = |member: &Member| member.ratings.read_kiops.value * read_unit_us / 1e3;
    let reference = family.members.iter().find(|member| member.id == D2);
    let reference = reference.expect("the profile has this drive");
    let reference_units = of_dozens(units_for_reads(reference));
    let program_us = reference_units * program_kb * 1e3 / reference.ratings.write_mb_s.value;
    family.media.program_us.value = program_us;
    for member in &mut family.members {
        let for_writes = member.ratings.write_mb_s.value * program_us / program_kb / 1e3;
        member.ratings.units.value = of_dozens(units_for_reads(member).max(for_writes));
    }
}

/// Flash time of a read, from what M-02 and M-03 say about queueing in front of the units, within A-21.
///
/// If one of the two rows is left out, only the other one counts.
fn fit_read_unit(family: &mut Family, left_out: Option<&str>, told: &mut dyn FnMut(String)) {
    let mut best = (f64::MAX, 0.0);
    for step in 16..=32 {
        let read_unit_us = f64::from(step) * 2.5;
        set(family, "media.read_unit_us", read_unit_us);
        derive_units(family);
        let mut bench = Bench::new(family.clone(), 0);
        let mean_us = bench.demand(100, 600, 1, 2).mean_us();
        let tail_us = bench.demand(100, 400, 1, 2).percentile_us(99_900);
        let at_64 = bench.iops(D8, 100, 64) / bench.iops(D8, 100, 512);
        let mut misfit = 0.0;
        let mut holds = at_64 <= 0.95;
        for (row, value, published) in [("M-02", mean_us, 210.0), ("M-03", tail_us, 290.0)] {
            if left_out != Some(row) {
                let error = error(value, published);
                misfit += error * error;
                holds &= value <= published;
            }
        }
        told(format!(
            "read_unit_us {read_unit_us:4}: M-02 {mean_us:6.1} M-03 {tail_us:6.1} A-21 {at_64:.3} \
             error {misfit:.4}{}",
            if holds { "" } else { " (outside)" }
        ));
        if holds && misfit < best.0 {
            best = (misfit, read_unit_us);
        }
    }
    set(family, "media.read_unit_us", best.1);
    derive_units(family);
    told(format!(
        "media.read_unit_us = {}, program_us = {:.1}",
        best.1, family.media.program_us.value
    ));
    for member in &family.members {
        told(format!(
            "{}.units = {}",
            member.id, member.ratings.units.value
        ));
    }
}

/// Bandwidth of a unit for longer reads: the greatest one at which eight outstanding sequential reads of 128 KiB do not
/// saturate the drive (A-45).
fn fit_transfer(family: &mut Family, told: &mut dyn FnMut(String)) {
    for mb_s in (200..=400).rev().step_by(25) {
        set(family, "media.unit_transfer_mb_s", f64::from(mb_s));
        let mut bench = Bench::new(family.clone(), 0);
        let share = bench.rate(D8, 100, 8) / bench.rate(D8, 100, 512);
        told(format!("unit_transfer_mb_s {mb_s}: A-45.before {share:.3}"));
        if share <= 0.95 {
            return;
        }
    }
}

/// Fits one constant to one published value, by halving an interval in which the measured value rises.
fn bisect(
    family: &mut Family,
    name: &str,
    (mut low, mut high): (f64, f64),
    published: f64,
    measure: fn(&mut Bench) -> f64,
    told: &mut dyn FnMut(String),
) {
    for _ in 0..8 {
        let middle = (low + high) / 2.0;
        set(family, name, middle);
        if measure(&mut Bench::new(family.clone(), 0)) < published {
            low = middle;
        } else {
            high = middle;
        }
    }
    set(family, name, (low + high) / 2.0);
    told(format!("{name} = {}", (low + high) / 2.0));
}

/// Finds every fitted constant again, and reports its progress to `told`.
///
/// # Panics
/// When the family lacks one of the reviewed drives.
pub fn fit(family: &mut Family, told: &mut dyn FnMut(String)) {
    fit_read_unit(family, None, told);
    fit_transfer(family, told);
    let writes = |bench: &mut Bench| bench.demand(0, 200, 60, 5).iops();
    bisect(family, STEADY_WRITES, (120.0, 180.0), 150e3, writes, told);
    // Half a second more, because the demand fails somewhere in the second after the last whole one.
    let held = |bench: &mut Bench| rows::seconds_held(bench) + 0.5;
    bisect(family, POOL, (1000.0, 5000.0), 57.5, held, told);
    let tail_us = 0.98 * 380.0;
    bisect(
        family,
        SHORT_STALLS,
        (0.001, 0.02),
        tail_us,
        rows::write_tail_us,
        told,
    );
}

/// The result of leaving one row out of the fit.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LeftOut {
    /// The row.
    pub id: &'static str,
    /// The published value.
    pub published: f64,
    /// The constant that the row is a source of.
    pub constant: &'static str,
    /// The constant without the row; `None` if no other source gives it.
    pub refitted: Option<f64>,
    /// What the model then predicts for the row.
    pub predicted: Option<f64>,
    /// The absolute logarithm of the ratio of prediction and published value.
    pub error: Option<f64>,
}

/// Leaves out one number of the fit after the other: its constant is fitted to the other rows alone, or has the value
/// that it would have without any fit. All other constants stay unchanged.
///
/// # Panics
/// When the family lacks one of the reviewed drives.
#[must_use]
pub fn leave_one_out(family: &Family, told: &mut dyn FnMut(String)) -> Vec<LeftOut> {
    let mut all = Vec::new();
    for (id, published, constant, otherwise, measure) in FITTED {
        told(format!("{id} left out"));
        let mut other = family.clone();
        match otherwise {
            Otherwise::Refit => fit_read_unit(&mut other, Some(id), told),
            Otherwise::Value(value) => set(&mut other, constant, value),
            Otherwise::Nothing => {}
        }
        let is_known = !matches!(otherwise, Otherwise::Nothing);
        let predicted = is_known.then(|| measure(&mut Bench::new(other.clone(), 0)));
        let refitted = other.figure_mut(constant).map(|figure| figure.value);
        all.push(LeftOut {
            id,
            published,
            constant,
            refitted: refitted.filter(|_| is_known),
            predicted,
            error: predicted.map(|value| error(value, published)),
        });
    }
    all
}
