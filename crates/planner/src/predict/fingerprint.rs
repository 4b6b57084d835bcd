//! One digest of all events in a few runs and of all their figures. It is the same on every machine, in every build,
//! with any number of threads.
//!
//! A test computes it in a debug build, and `fullstripe sim digest` in the build that is run; both compare it with
//! [`EXPECTED`]. It changes whenever a model, a profile, a price or the engine's behaviour does. The change that causes
//! this then updates [`EXPECTED`].

use super::library::Library;
use super::limits::Depth;
use super::many::{Wanted, answer_all};
use super::{Virtual, digest};
use anyhow::{Context, Result};
use lab::schema::configuration::read_configurations;
use lab::schema::metric::{Metric, Statistic};
use std::collections::BTreeSet;

/// The expected result of [`of_runs`].
pub const EXPECTED: u128 = 0xe210_2af5_fd7a_756f_a755_11f4_bded_0079;

/// Points of each kind: one drive under demand; arrays of the engine that read sequentially and that write with parity,
/// with links and processors around them.
const POINTS: &str = r#"
schema = 1

[setup.one]
drive = "p4510-8tb"
count = 1
level = "none"
platform = "oakgate"
host = "appliance"
stack = "none"

[setup.raid0]
drive = "p4510-2tb"
count = 4
level = 0
platform = "s2600wft-6154-x8"
host = "linux-4.13"
stack = "fullstripe"

[setup.raid5]
drive = "p4510-2tb"
count = 4
level = 5
platform = "epyc-9554p-24"
host = "linux-6.12"
stack = "fullstripe"

[points]
demand = { setup = "one", state = "steady", workload = { op = "randmix", read_pct = 70, bs = "4k", threads = 2, qd = 32, demand_iops = 20000, seconds = 1 } }
streams = { setup = "raid0", state = "filled", workload = { op = "read", bs = "128k", threads = 2, qd = 4, demand_iops = 3000, seconds = 1 } }
parity = { setup = "raid5", state = "steady", workload = { op = "randwrite", bs = "4k", threads = 2, qd = 8, demand_iops = 5000, arrivals = "poisson", seconds = 1 } }
"#;

/// Runs a few points on `jobs` threads, and computes the digest of their events and results.
///
/// # Errors
///
/// If one of them cannot be run, which a test rules out.
pub fn of_runs(jobs: usize) -> Result<u128> {
    let catalogue = Library::default().catalogue();
    let points = read_configurations("fingerprint", POINTS, &catalogue)?;
    let predictor = Virtual {
        limits: Depth::First,
        ..Virtual::default()
    };
    let metrics = BTreeSet::from([
        Metric::Iops,
        Metric::Watts,
        Metric::CpuCores,
        Metric::Latency(Statistic::Mean),
        Metric::Latency(Statistic::P99),
    ]);
    let wanted = points.into_values().map(|point| (point, metrics.clone()));
    let answered = answer_all(&predictor, &wanted.collect::<Wanted>(), jobs);
    let mut all = String::new();
    for (configuration, answer) in answered {
        let answer = answer.map_err(|missing| anyhow::anyhow!(missing.reason));
        let answer = answer.with_context(|| format!("{:?}", configuration.setup))?;
        // Debug output has every number to its last bit.
        all += &format!("{answer:?}\n");
    }
    Ok(digest(all.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everything_that_happens_is_the_same_on_one_thread_and_on_two() {
        let [one, two] = [1, 2].map(|jobs| of_runs(jobs).expect("they run"));
        assert_eq!(one, two);
        assert_eq!(one, EXPECTED, "{one:#034x}: see the module's prose");
    }
}
