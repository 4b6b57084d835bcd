//! Aerospike's certification test on a point: the largest multiple of its load that passes, and the figures there.
//!
//! The published test runs for a day. Here a run lasts as long as its limits need: they are shares of transactions, the
//! smallest a thousandth. Drives begin with full clean pools; if the load makes those shrink, they would be empty for
//! most of a day, and the run is repeated with empty ones.

use super::point::{Measured, Point, Start};
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
/// A pool that shrinks by less than this in a run does not run empty: buffers that fill and empty change it by about as
/// much.
const SINKS_BYTES: u64 = 8 << 20;
/// The multiple is found to within this share of it.
const ONE_IN: u32 = 200;

/// The run of this seed at the largest multiple that passes, and the commands of all runs, this one included.
///
/// # Errors
///
/// As [`Point::run`], and if even a tenth of 1x does not pass.
pub(super) fn measure(point: &Point, seed: u64) -> Result<(Measured, u64)> {
    let mut commands = 0;
    let mut run_at = |tenths| -> Result<Measured> {
        let (run, sunk_bytes) = point.measure_act(Start::AsPut, tenths, seed, WINDOW)?;
        commands += run.commands;
        if sunk_bytes < SINKS_BYTES {
            return Ok(run);
        }
        let (run, _) = point.measure_act(Start::Spent, tenths, seed, WINDOW)?;
        commands += run.commands;
        Ok(run)
    };
    let passes = |tenths| -> Result<bool> {
        let run = run_at(tenths)?;
        Ok(act::passes(&run.figures.service.merged()))
    };
    let tenths = act::largest_multiple(MOST, ONE_IN, passes)?;
    ensure!(
        tenths > 0,
        "not even a tenth of the load of ACT at 1x passes"
    );
    let run = run_at(tenths)?;
    Ok((run, commands))
}
