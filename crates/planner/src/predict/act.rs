//! Aerospike's certification test on a point: the largest multiple of its load that passes, and the figures there.
//!
//! The published test runs for a day. Here a run lasts as long as its limits need: they are shares of transactions, the
//! smallest a thousandth. Drives begin with full clean pools; if the load makes those shrink, they would be empty for
//! most of a day, and the run is repeated with empty ones.

use super::point::{Measured, Point, Start};
use anyhow::{Context, Result, ensure};
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

/// Whether a run passes: transactions are fast enough, from the time at which they were to begin, and requests of all
/// sizes begin when they are to. The published tool ends a test that falls behind.
fn holds(run: &Measured) -> bool {
    let figures = &run.figures;
    act::passes(&figures.response.merged()) && figures.backlog * 100 <= figures.requests
}

/// The run of this seed at the largest multiple that passes, and the commands of all runs, this one included.
///
/// # Errors
///
/// As [`Point::run`], and if even a tenth of 1x does not pass.
pub(super) fn measure(point: &Point, seed: u64) -> Result<(Measured, u64)> {
    let (mut commands, mut best) = (0, None);
    let passes = |tenths| -> Result<bool> {
        let (run, of_run) = run_at(point, tenths, seed)?;
        commands += of_run;
        let passes = holds(&run);
        if passes {
            // Each multiple that passes is larger than those before.
            best = Some(run);
        }
        Ok(passes)
    };
    let tenths = act::largest_multiple(MOST, ONE_IN, passes)?;
    ensure!(
        tenths < MOST,
        "ACT at {}x passes, and more is not tried",
        MOST / 10
    );
    let run = best.context("not even a tenth of the load of ACT at 1x passes")?;
    Ok((run, commands))
}

/// The run at this multiple, in tenths, and the commands that it took, with those of a run before it with full pools.
fn run_at(point: &Point, tenths: u32, seed: u64) -> Result<(Measured, u64)> {
    let (full, sunk_bytes) = point.measure_act(Start::AsPut, tenths, seed, WINDOW)?;
    let commands = full.commands;
    if sunk_bytes < SINKS_BYTES {
        return Ok((full, commands));
    }
    let (empty, _) = point.measure_act(Start::Spent, tenths, seed, WINDOW)?;
    let commands = commands + empty.commands;
    Ok((empty, commands))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::predict::library::Library;
    use lab::schema::configuration::read_configurations;
    use lab::schema::metric::Metric;

    const LOAD: &str = r#"
schema = 1
[setup.one]
drive = "DRIVE"
count = 1
level = "none"
platform = "oakgate"
host = "appliance"
stack = "none"
[points]
act = { setup = "one", state = "steady", workload = { op = "act", threads = 16 } }
"#;

    fn point(drive: &str) -> Point {
        let library = Library::default();
        let text = LOAD.replace("DRIVE", drive);
        let points = read_configurations("act.toml", &text, &library.catalogue());
        let configuration = &points.expect("it is sound")["act"];
        Point::new(configuration, &library).expect("it is modelled")
    }

    #[test]
    fn the_largest_multiple_passes_and_a_tenth_more_does_not() {
        let point = point("9100max-2400gb");
        let (run, commands) = measure(&point, 1).expect("it runs");
        let multiple = run.figure(Metric::ActMultiple).expect("it was searched");
        assert!(multiple >= 1.0, "{multiple}");
        // Fewer than 5 % above a millisecond, at the limit not far below.
        let over = run
            .figure(Metric::OverOneMillisecond)
            .expect("there are some");
        assert!((2.0..5.0).contains(&over), "{over}");
        assert!(commands > run.commands);
        let above = (multiple * 11.0) as u32 + 1;
        let (run, _) = point
            .measure_act(Start::AsPut, above, 1, WINDOW)
            .expect("it runs");
        assert!(!holds(&run), "{above}");
    }

    #[test]
    fn a_load_that_falls_behind_does_not_pass() {
        // Its reads take hundreds of microseconds at most, however far behind it is.
        let point = point("p4800x-750gb");
        let (run, _) = measure(&point, 1).expect("it runs");
        let multiple = run.figure(Metric::ActMultiple).expect("it was searched");
        let iops = run.figure(Metric::Iops).expect("it has a rate");
        assert!(
            (iops / (2000.0 * multiple) - 1.0).abs() < 0.01,
            "{iops} {multiple}"
        );
        assert!(multiple < f64::from(MOST) / 20.0, "{multiple}");
    }

    #[test]
    fn a_load_beyond_the_steady_rate_is_judged_with_empty_pools() {
        let point = point("p4510-2tb");
        // Large writes are 3.1 MB/s at 1x; in the long run the drive writes 324 MB/s.
        let of_full_pools = |tenths| {
            let run = point.measure_act(Start::AsPut, tenths, 1, WINDOW);
            run.expect("it runs").0
        };
        let judged = |tenths| run_at(&point, tenths, 1).expect("it runs");
        let (below, commands) = judged(500);
        assert_eq!(
            (below.digest, commands),
            (of_full_pools(500).digest, below.commands)
        );
        let (beyond, commands) = judged(2_500);
        let full = of_full_pools(2_500);
        assert_ne!(beyond.digest, full.digest);
        assert_eq!(commands, full.commands + beyond.commands);
    }
}
