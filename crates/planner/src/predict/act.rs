//! Aerospike's certification test on a point: the largest multiple of its load that passes, and the figures there.
//!
//! The published test runs for a day. Here drives begin as that day would leave them, with empty clean pools, and a run
//! lasts as long as its limits need: they are shares of transactions, the smallest a thousandth.

use super::point::{Measured, Point};
use anyhow::{Result, ensure};
use lab::workload::act;
use timed::run::Window;

/// The part of a run that is measured: at the multiples that drives reach, tens of thousands of transactions.
const WINDOW: Window = Window {
    from_ns: 200_000_000,
    until_ns: 1_200_000_000,
};
/// The largest multiple that is tried, in tenths: four million transactions a second.
const MOST: u32 = 20_000;
/// The multiple is found to within this share of it.
const ONE_IN: u32 = 200;

/// The run of this seed at the largest multiple that passes, and the commands of all runs on the way there.
///
/// # Errors
///
/// As [`Point::run`], and if even a tenth of 1x does not pass.
pub(super) fn measure(point: &Point, seed: u64) -> Result<(Measured, u64)> {
    let mut commands = 0;
    let passes = |tenths| -> Result<bool> {
        let run = point.measure_act(tenths, seed, WINDOW)?;
        commands += run.commands;
        Ok(act::passes(&run.figures.service.merged()))
    };
    let tenths = act::largest_multiple(MOST, ONE_IN, passes)?;
    ensure!(
        tenths > 0,
        "not even a tenth of the load of ACT at 1x passes"
    );
    let run = point.measure_act(tenths, seed, WINDOW)?;
    Ok((run, commands))
}
