//! What plans add to predictions: engines of several cores, exports in front, arrays that are not whole.

use lab::schema::configuration::read_configurations;
use lab::schema::metric::{Metric, Statistic};
use lab::schema::setup::Level;
use planner::predict::library::Library;
use planner::predict::{Answer, Virtual};
use planner::sizing::endurance::amplification_at_most;
use std::collections::BTreeSet;

/// A quick answer about four P4510 of 2 TB on a recent machine.
fn answer(setup: &str, workload: &str) -> Answer {
    let text = format!(
        "schema = 1\n[setup.s]\ndrive = \"p4510-2tb\"\ncount = 4\nplatform = \"epyc-9554p-24\"\nhost = \
         \"linux-6.12\"\nstack = \"fullstripe\"\n{setup}\n[points]\np = {{ setup = \"s\", state = \"steady\", workload = \
         {{ bs = \"4k\", {workload} }} }}\n"
    );
    let points = read_configurations("p.toml", &text, &Library::default().catalogue());
    let points = points.unwrap_or_else(|error| panic!("{error}"));
    let predictor = Virtual {
        quick: true,
        ..Virtual::default()
    };
    let wanted = BTreeSet::from([Metric::Iops, Metric::Latency(Statistic::P99)]);
    predictor
        .answer(&points["p"], &wanted)
        .expect("it is modelled")
}

fn figure(answer: &Answer, metric: Metric) -> f64 {
    answer.summary[&metric].value
}

const READS: &str = "op = \"randread\", threads = 8, qd = 64, completion = \"polled\"";

#[test]
fn two_polled_cores_carry_four_drives_beyond_two_million() {
    let [one, two] =
        [1, 2].map(|cores| answer(&format!("level = 0\nengine_cores = {cores}"), READS));
    let [slow, fast] = [&one, &two].map(|answer| figure(answer, Metric::Iops));
    assert!(fast > 2.0e6 && fast > 1.15 * slow, "{slow} {fast}");
    let cores = two.cores.expect("processors are modelled");
    // Two polling cores are busy all the time.
    let engines = cores.kernel + cores.raid;
    assert!((1.98..=2.02).contains(&engines), "{cores:?}");
}

#[test]
fn parity_is_planned_by_several_cores_that_send_each_other_requests() {
    let load = "op = \"randwrite\", threads = 8, qd = 16";
    let [one, three] =
        [1, 3].map(|cores| answer(&format!("level = 5\nengine_cores = {cores}"), load));
    let [slow, fast] = [&one, &three].map(|answer| figure(answer, Metric::Iops));
    // The drives are the limit either way.
    assert!((0.8..=1.25).contains(&(fast / slow)), "{slow} {fast}");
}

#[test]
fn clients_of_other_processes_cost_the_export_book() {
    let [own, ublk, nbd] = ["", "export = \"ublk\"", "export = \"nbd\""]
        .map(|export| answer(&format!("level = 0\nengine_cores = 2\n{export}"), READS));
    let [own_iops, ublk_iops, nbd_iops] =
        [&own, &ublk, &nbd].map(|answer| figure(answer, Metric::Iops));
    assert!(
        own_iops > 1.5 * ublk_iops && ublk_iops > 1.5 * nbd_iops,
        "{own_iops} {ublk_iops} {nbd_iops}"
    );
    let [own, nbd] = [own, nbd].map(|answer| answer.cores.expect("processors are modelled"));
    assert!(
        nbd.client / nbd_iops > 5.0 * own.client / own_iops,
        "{own:?} {nbd:?}"
    );
}

#[test]
fn an_array_without_a_drive_reads_more_to_answer_less() {
    let load = "op = \"randread\", threads = 8, qd = 64";
    let [whole, degraded] = ["", "condition = \"degraded\""]
        .map(|condition| answer(&format!("level = 5\n{condition}"), load));
    let [whole, degraded] = [whole, degraded].map(|answer| figure(&answer, Metric::Iops));
    assert!(degraded < 0.8 * whole, "{whole} {degraded}");
}

#[test]
fn a_rebuild_keeps_its_limit_and_clients_feel_it() {
    let load = "op = \"randread\", threads = 2, qd = 8, demand_iops = 100000";
    let calm = answer("level = 5", load);
    assert!(calm.rebuild.is_none());
    let limited = answer(
        "level = 5\ncondition = \"rebuilding\"\nrebuild_mb_s = 100",
        load,
    );
    let pace = limited.rebuild.expect("it is under way");
    assert!((0.9e8..=1.1e8).contains(&pace.bytes_per_s), "{pace:?}");
    let free = answer("level = 5\ncondition = \"rebuilding\"", load);
    let free_pace = free.rebuild.expect("it is under way");
    assert!(
        free_pace.bytes_per_s > 3.0 * pace.bytes_per_s,
        "{free_pace:?}"
    );
    assert!(free_pace.total_bytes > 1_900_000_000_000, "{free_pace:?}");
    let p99 = |answer| figure(answer, Metric::Latency(Statistic::P99));
    assert!(
        p99(&free) > p99(&limited),
        "{} {}",
        p99(&free),
        p99(&limited)
    );
    assert!(
        p99(&limited) > p99(&calm),
        "{} {}",
        p99(&limited),
        p99(&calm)
    );
}

#[test]
fn more_drives_than_bays_are_no_plan() {
    let text = "schema = 1\n[setup.s]\ndrive = \"p4510-2tb\"\ncount = 5\nlevel = 0\nplatform = \
                \"s2600wft-6154-x16\"\nhost = \"linux-6.12\"\nstack = \"fullstripe\"\n[points]\np = { setup = \"s\", state = \
                \"steady\", workload = { bs = \"4k\", op = \"read\", threads = 1, qd = 1 } }\n";
    let points = read_configurations("p.toml", text, &Library::default().catalogue()).expect(text);
    let answer = Virtual::default().answer(&points["p"], &BTreeSet::new());
    assert_eq!(
        answer.expect_err("no bays").reason,
        "s2600wft-6154-x16: bays have lanes for 4 drives, but 5 are asked for"
    );
}

/// What the runs count lies between copies and parity alone and the calculator's bound, which gives each small write a log unit of
/// its own.
#[test]
fn drives_are_written_copies_parity_and_log_as_the_calculator_bounds_it() {
    let random = "op = \"randwrite\", threads = 8, qd = 16";
    let written = |setup: &str, workload: &str| answer(setup, workload).written_per_written;
    assert_eq!(written("level = 0", random), Some(1.0));
    assert_eq!(written("level = 10", random), Some(2.0));
    assert_eq!(written("level = 5", READS), None);
    let small = written("level = 5", random).expect("it writes");
    let most = amplification_at_most(Level::Raid5, 4, 128 << 10, 4096, false);
    assert!((3.0..=most).contains(&small), "{small}, at most {most}");
    // A mix writes as much for each byte that is written.
    let mix = "op = \"randmix\", read_pct = 70, threads = 8, qd = 16";
    assert_eq!(written("level = 10", mix), Some(2.0));
}
