//! What a command line becomes, what it is told when it makes no sense, and how sweeps are drawn.

use super::args::PlanArgs;
use super::ask::asked;
use super::*;
use clap::Parser;
use lab::schema::metric::Metric;
use lab::schema::results::Value;
use lab::schema::setup::{Condition, Level};
use lab::statistics::interval::Interval;
use sim::predict::library::Library;
use std::collections::BTreeMap;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    plan: PlanArgs,
}

const DRIVES: &str = "--drive p4510-2tb --platform s2600wft-6154-x8";

fn ask(more: &str) -> Result<Asked> {
    let words = format!("plan {DRIVES} {more}");
    let line = Line::try_parse_from(words.split_whitespace()).expect(more);
    asked(&line.plan, &mut Library::default())
}

fn refused(more: &str) -> String {
    match ask(more) {
        Ok(_) => panic!("{more} makes sense"),
        Err(error) => format!("{error:#}"),
    }
}

#[test]
fn each_level_gets_the_suite_or_the_load_that_is_named() {
    let all = ask("").expect("defaults").cases;
    assert_eq!(all.len(), 3 * 4);
    let first = &all[0].configuration;
    assert_eq!((first.setup.level, first.setup.count), (Level::Raid0, 4));
    assert_eq!(
        (all[0].setup.as_str(), all[0].load.as_str()),
        ("RAID 0", "randread 4k")
    );
    let one =
        ask("--level 5 --op randmix --read-pct 70 --bs 8k --threads 2 --qd 3 --engine-cores 2");
    let [case] = one.expect("one load").cases.try_into().expect("one");
    let workload = &case.configuration.workload;
    assert_eq!(
        (workload.total_depth(), workload.read_percent()),
        (6, Some(70))
    );
    assert_eq!(case.configuration.setup.engine_cores, Some(2));
    let rebuilding = ask("--level 5 --op randread --rebuilding --rebuild-rate 100,0");
    let cases = rebuilding.expect("a rebuild").cases;
    let conditions = cases.iter().map(|case| {
        let setup = &case.configuration.setup;
        (setup.condition, setup.rebuild_mb_s)
    });
    let rebuilding = Some(Condition::Rebuilding);
    assert_eq!(
        conditions.collect::<Vec<_>>(),
        [(None, None), (rebuilding, Some(100)), (rebuilding, None)]
    );
}

#[test]
fn what_makes_no_sense_is_a_sentence() {
    for (more, sentence) in [
        (
            "--count 9",
            "--count must be at most 8, which is what s2600wft-6154-x8 has bays and lanes for, is 9",
        ),
        (
            "--level 5 --count 2",
            "--count must be from 3 to 255 at this level, is 2",
        ),
        (
            "--host linux-6",
            "--host does not know \"linux-6\"; nearest: \"linux-6.12\", \"linux-4.13\" or \"appliance\"",
        ),
        (
            "--bs 4k",
            "--op is missing: --bs, --read-pct and --demand say more about one load",
        ),
        (
            "--op randread --read-pct 5",
            "--read-pct goes with randmix and seqmix only",
        ),
        ("--op randread --qd 0", "--qd must be from 1 to 65536, is 0"),
        (
            "--chunk 48k",
            "--chunk must be a power of two from 4 to 1048576, is 48",
        ),
        (
            "--engine-cores 0",
            "--engine-cores must be from 1 to 64, is 0",
        ),
        (
            "--level 0 --degraded",
            "--degraded or --rebuilding needs a level that survives the loss of a drive: 1, 5 or 10",
        ),
        (
            "--sweep cuont=1..4",
            "--sweep does not know \"cuont\"; nearest: \"count\", \"chunk\" or \"qd\"",
        ),
        (
            "--sweep count",
            "--sweep: \"count\" has no range; write it like count=1..24",
        ),
        (
            "--sweep count=4..1",
            "--sweep: count: 4 to 1 goes backwards",
        ),
        (
            "--sweep chunk=big",
            "--sweep: chunk: \"big\" must be a number like 16k",
        ),
        (
            "--sweep count=1..8,qd=1..64k",
            "--sweep: qd: \"64k\" must be a number like 4",
        ),
        (
            "--sweep count=1..24,qd=1..1024",
            "--sweep asks for 264 points, and at most 128 are tried at each level",
        ),
        (
            "--workload none.toml",
            "cannot read none.toml: No such file or directory (os error 2)",
        ),
    ] {
        assert_eq!(refused(more), sentence, "{more}");
    }
}

#[test]
fn a_sweep_leaves_out_what_a_level_cannot_be_made_of() {
    let sweep = ask("--level 10 --sweep count=1..8,chunk=16k..64k").expect("a sweep");
    let varied: Vec<_> = sweep.cases.iter().map(|case| case.varied.clone()).collect();
    assert_eq!(varied.len(), 3 * 3);
    assert_eq!(varied[..4], [[4, 16], [6, 16], [8, 16], [4, 32]]);
    let setup = &sweep.cases[1].configuration.setup;
    assert_eq!((setup.count, setup.chunk_kib), (6, Some(16)));
    assert!(
        sweep.cases.iter().all(|case| case.load == "randread 4k"),
        "one load"
    );
    assert_eq!(
        refused("--level 10 --sweep count=1..3"),
        "--sweep: no level that was asked for can be made of any of these"
    );
}

/// A report of a sweep, with made-up figures.
fn drawn(columns: usize) -> String {
    let Asked { cases, sweep } = ask("--level 0 --sweep count=2..4").expect("a sweep");
    let mut report = Report::new(&cases, &BTreeMap::new(), &Library::default(), None);
    for (point, kiops) in report.points.iter_mut().zip([400.0, 800.0, 1000.0]) {
        let iops = Value::new(Metric::Iops, kiops * 1e3);
        point.metrics = BTreeMap::from([(Metric::Iops, iops)]);
        point.notes.clear();
    }
    plot::plots(&sweep.expect("it was asked"), &report, columns)
}

#[test]
fn a_sweep_is_drawn_as_wide_as_the_terminal_is() {
    let narrow = drawn(40);
    assert_eq!(
        narrow,
        "RAID 0, randread 4k: IOPS by count\n\
         2  ██████▉··············        400.0 k\n\
         3  █████████████▊·············  800.0 k\n\
         4  █████████████████▎·········  1.000 M\n   \
         █ predicted  · up to the ideal of 1.571 M at most\n\n"
    );
    for columns in [20, 40, 80, 200] {
        let text = drawn(columns);
        let widest = text
            .lines()
            .skip(1)
            .take(3)
            .map(|line| line.chars().count())
            .max();
        assert!(
            widest.is_some_and(|widest| widest <= columns.max(24)),
            "{columns}:\n{text}"
        );
    }
}

#[test]
fn a_rate_that_is_not_well_known_says_so() {
    let iops = |low: f64, high: f64| {
        let cases = ask("--level 0 --op randwrite").expect("one load").cases;
        let mut report = Report::new(&cases, &BTreeMap::new(), &Library::default(), None);
        let value = Value {
            interval: Some(Interval { low, high }),
            ..Value::new(Metric::Iops, 300e3)
        };
        report.points[0].metrics = BTreeMap::from([(Metric::Iops, value)]);
        text::text(&report, 80)
    };
    let vague = iops(285e3, 315e3);
    assert!(vague.contains(" 300.0 k ±5%  316.0 k "), "{vague}");
    let sure = iops(296e3, 304e3);
    assert!(sure.contains(" 300.0 k  316.0 k "), "{sure}");
}
