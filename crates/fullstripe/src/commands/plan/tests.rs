//! How `plan` understands a command line, how it refuses a wrong one, and how sweeps are drawn.

use super::args::PlanArgs;
use super::sweep::parse_sweep;
use super::*;
use clap::Parser;
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::Value;
use lab::schema::setup::{Condition, Level};
use lab::statistics::interval::Interval;
use planner::plan::ask::{Asked, Question, asked};
use planner::plan::bands::Drawn;
use planner::plan::left_out;
use planner::plan::report::{PlannedReport, Rebuilding};
use planner::predict::library::Library;
use planner::sizing::capacity::capacity;
use planner::sizing::{DriveFigures, Load, Shape, UnitPrices, size as size_of};
use std::collections::BTreeMap;

#[derive(Debug, Parser)]
struct Line {
    #[command(flatten)]
    plan: PlanArgs,
}

const DRIVES: &str = "--drive p4510-2tb --platform s2600wft-6154-x8";

/// The question that a command line asks.
fn question(words: &str) -> Result<Question> {
    let line = Line::try_parse_from(words.split_whitespace()).expect(words);
    line.plan.question()
}

fn ask(more: &str) -> Result<Asked> {
    let words = format!("plan {DRIVES} {more}");
    asked(&question(&words)?, &mut Library::default())
}

fn refused(more: &str) -> String {
    match ask(more) {
        Ok(_) => panic!("{more} was not refused"),
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
            "--count 2 is impossible: RAID 5 needs 3 to 64 drives; give another --count or --level",
        ),
        (
            "--host linux-6",
            "--host does not know \"linux-6\"; nearest: \"linux-6.12\", \"linux-4.13\" or \"appliance\"",
        ),
        (
            "--bs 4k",
            "--op is missing: --bs, --read-pct and --demand describe the load of --op",
        ),
        (
            "--op randread --read-pct 5",
            "--read-pct goes with randmix and seqmix only",
        ),
        ("--op randread --qd 0", "--qd must be from 1 to 65536, is 0"),
        (
            "--level 5,10 --count 5",
            "--count 5 is impossible: RAID 10 needs an even number of drives from 4 to 64; give another --count or \
             --level",
        ),
        (
            "--level none --count 2",
            "--count 2 is impossible: no RAID needs exactly 1 drive; give another --count or --level",
        ),
        (
            "--level 0 --stack none",
            "--stack none and --level none go together only: give both, or leave out --stack",
        ),
        (
            "--count 1",
            "nothing is left to plan: RAID 0 needs 2 to 64 drives; RAID 5 needs 3 to 64 drives; RAID 10 needs an \
             even number of drives from 4 to 64; for one drive alone give --level none",
        ),
        (
            "--engine-cores 0",
            "--engine-cores must be from 1 to 16, is 0",
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
            "--sweep: chunk: big is no size; give bytes, or a number with k, m, g or t for KiB, MiB, GiB or TiB, \
             like 64k",
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
fn a_drive_of_the_catalogue_is_drawn_from_its_data_sheet() {
    let words = "plan --drive samsung-pm9a3-3.84tb --platform s2600wft-6154-x8";
    let mut library = Library::default();
    let cases = asked(&question(words).unwrap(), &mut library).expect("all rates are known");
    let drive = &cases.cases[0].configuration.setup.drive;
    let draws = library.draws(drive);
    assert_eq!(draws.len(), 20);
    assert!(
        draws
            .iter()
            .all(|draw| library.is_draw(draw) && library.profile(draw).is_ok())
    );
    assert!(!library.is_draw(drive));

    let known = "plan --drive p4510-2tb --platform s2600wft-6154-x8";
    let mut library = Library::default();
    let cases = asked(&question(known).unwrap(), &mut library).expect("it has a profile");
    let drive = cases.cases[0].configuration.setup.drive.clone();
    assert_eq!(library.draws(&drive), []);
    let fitted = library.profile(&drive).expect("it is there").clone();
    asked(
        &question(&format!("{known} --from-sheet")).unwrap(),
        &mut library,
    )
    .expect("it has a sheet");
    assert_eq!(library.draws(&drive).len(), 20);
    assert_ne!(library.profile(&drive), Ok(&fitted));
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
        "nothing is left to plan: RAID 10 needs an even number of drives from 4 to 64"
    );
}

/// The message about points that are left out.
fn left_out(more: &str) -> String {
    let question = question(&format!("plan {DRIVES} {more}")).expect(more);
    let asked = asked(&question, &mut Library::default()).expect(more);
    left_out::in_words(&asked.left_out, question.sweep.as_ref())
}

#[test]
fn what_is_left_out_is_told_with_its_reason() {
    for (more, sentence) in [
        ("", ""),
        (
            "--count 2",
            "left out: RAID 5 needs 3 to 64 drives; RAID 10 needs an even number of drives from 4 to 64\n",
        ),
        (
            "--count 3",
            "left out: RAID 10 needs an even number of drives from 4 to 64\n",
        ),
        (
            "--degraded",
            "left out: RAID 0 does not survive the loss of a drive\n",
        ),
        (
            "--level 5 --sweep count=1..4",
            "left out at count 1 and 2: RAID 5 needs 3 to 64 drives\n",
        ),
        (
            "--level 10 --sweep count=1..8,chunk=16k..64k",
            "left out at count 1, 2, 3, 5 and 7: RAID 10 needs an even number of drives from 4 to 64\n",
        ),
        (
            "--level 0 --sweep count=7..12",
            "left out at count 9 to 12: RAID 0: s2600wft-6154-x8 has bays and lanes for at most 8\n",
        ),
        (
            "--level 0 --sweep engine-cores=15..18",
            "left out at engine-cores 17 and 18: RAID 0: --engine-cores must be from 1 to 16\n",
        ),
    ] {
        assert_eq!(left_out(more), sentence, "{more}");
    }
}

#[test]
fn what_is_left_out_is_data_for_programs() {
    let asked = ask("--level 5 --sweep count=2..3").expect("a sweep");
    let mut report = PlannedReport::new(&asked.cases, &BTreeMap::new(), &Library::default(), None);
    report.left_out = asked.left_out;
    let json = serde_json::to_value(&report).expect("JSON");
    let expected = serde_json::json!([
        {"setup": "RAID 5", "varied": [2], "reason": "RAID 5 needs 3 to 64 drives"}
    ]);
    assert_eq!(json["left_out"], expected);
}

#[test]
fn sizes_without_a_unit_are_refused_with_what_was_meant() {
    for (more, sentence) in [
        ("--chunk 64", "did you mean 64k?"),
        ("--op read --bs 4", "did you mean 4k or 4m?"),
        ("--op read --bs 4kb", "did you mean 4k?"),
        (
            "--op read --bs 1000",
            "1000 is no whole number of sectors of 512 bytes",
        ),
    ] {
        let words = format!("plan {DRIVES} {more}");
        let error = Line::try_parse_from(words.split_whitespace()).expect_err(more);
        assert!(error.to_string().contains(sentence), "{error}");
    }
}

/// Every id that a refusal suggests is accepted as typed, and modelled.
#[test]
fn what_is_suggested_is_accepted() {
    for option in ["--drive", "--platform", "--host", "--stack"] {
        for wrong in [
            "p4510", "p3700", "optane", "x8", "epyc", "oak", "oakgat", "linux", "windows", "vroc",
            "rst-z27", "md", "x",
        ] {
            let line = |id: &str| {
                let mut words = vec!["plan", "--level", "0", "--op", "randread", "--count", "4"];
                for (other, usual) in [("--drive", "p4510-2tb"), ("--platform", "epyc-9554p-24")] {
                    if other != option {
                        words.extend([other, usual]);
                    }
                }
                words.extend([option, id]);
                question(&words.join(" ")).expect(id)
            };
            let Err(refusal) = asked(&line(wrong), &mut Library::default()) else {
                panic!("{wrong} was not refused");
            };
            let refusal = refusal.to_string();
            let (_, offered) = refusal.split_once("; nearest: ").expect("a suggestion");
            let offered: Vec<&str> = offered.split('"').skip(1).step_by(2).collect();
            assert!(!offered.is_empty(), "{refusal}");
            for id in offered {
                let mut library = Library::default();
                let asked = asked(&line(id), &mut library);
                let cases = asked.map(|asked| asked.cases).unwrap_or_else(|error| {
                    panic!("{option} {wrong} offers {id}, which is refused: {error}")
                });
                for case in cases {
                    let point = planner::predict::point::Point::new(&case.configuration, &library);
                    assert!(
                        point.is_ok(),
                        "{option} {wrong} offers {id}: {:?}",
                        point.err()
                    );
                }
            }
        }
    }
}

/// A report of a sweep, with made-up figures.
fn drawn(columns: usize) -> String {
    let sweep = parse_sweep("count=2..4").expect("a sweep");
    let cases = ask("--level 0 --sweep count=2..4").expect("a sweep").cases;
    let mut report = PlannedReport::new(&cases, &BTreeMap::new(), &Library::default(), None);
    for (point, kiops) in report.points.iter_mut().zip([400.0, 800.0, 1000.0]) {
        let iops = Value::new(Metric::Iops, kiops * 1e3);
        point.metrics = BTreeMap::from([(Metric::Iops, iops)]);
        point.notes.clear();
    }
    plot::plots(&sweep, &report, Some(columns))
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
        let mut report = PlannedReport::new(&cases, &BTreeMap::new(), &Library::default(), None);
        let value = Value {
            interval: Some(Interval { low, high }),
            ..Value::new(Metric::Iops, 300e3)
        };
        report.points[0].metrics = BTreeMap::from([(Metric::Iops, value)]);
        text::text(&report, None)
    };
    let vague = iops(285e3, 315e3);
    assert!(vague.contains(" 300.0 k ±5%  316.0 k "), "{vague}");
    let sure = iops(296e3, 304e3);
    assert!(sure.contains(" 300.0 k  316.0 k "), "{sure}");
}

#[test]
fn a_figure_of_draws_is_a_range_or_missing_but_never_one_number_that_looks_certain() {
    let cases = ask("--level 0 --op randwrite").expect("one load").cases;
    let mut report = PlannedReport::new(&cases, &BTreeMap::new(), &Library::default(), None);
    let p99 = Metric::Latency(Statistic::P99);
    report.points[0].metrics = BTreeMap::from([
        (Metric::Iops, Value::new(Metric::Iops, 300e3)),
        (p99, Value::new(p99, 4516.0)),
    ]);
    // Some draw had too few requests for the percentile.
    let drawn = Drawn {
        metrics: BTreeMap::from([(Metric::Iops, vec![100e3, 250e3, 320e3, 900e3])]),
        ..Drawn::default()
    };
    report.points[0].drawn = Some(drawn.ranged(&report.points[0].metrics));
    let text = text::text(&report, None);
    assert!(text.contains(" 250.0 k – 320.0 k "), "{text}");
    assert!(!text.contains("4516"), "{text}");
}

/// Predicted points for the snapshots: short and long words, an uncertain rate, a missing figure.
fn told(columns: Option<usize>) -> String {
    let cases = ask("--level 5").expect("the suite").cases;
    let mut report = PlannedReport::new(&cases, &BTreeMap::new(), &Library::default(), None);
    let kernel = "engine cores (mostly kernel)";
    let programs = "drives (programs and collection)";
    let figures = [
        (
            1_044e3,
            0.0,
            [488.0, 586.0, 720.0],
            kernel,
            "uplink of \"switch\"",
        ),
        (80.7e3, 3e3, [6355.0, 15.7e3, 0.0], programs, kernel),
        (
            49.1e3,
            0.0,
            [1304.0; 3],
            "uplink of \"switch\"",
            "root port \"stack\"",
        ),
        (31.8e3, 0.0, [2015.0, 3638.0, 3821.0], programs, "demand"),
    ];
    for (point, (iops, half, latencies, first, behind)) in report.points.iter_mut().zip(figures) {
        let value = Value {
            interval: Some(Interval::new(iops - half, iops + half)),
            ..Value::new(Metric::Iops, iops)
        };
        point.usable_bytes = 6_000_000_000_000;
        point.metrics = BTreeMap::from([
            (Metric::Iops, value),
            (
                Metric::BytesPerSecond,
                Value::new(Metric::BytesPerSecond, iops * 4096.0),
            ),
            (Metric::Watts, Value::new(Metric::Watts, 33.9)),
        ]);
        let statistics = [Statistic::Mean, Statistic::P99, Statistic::P99_9];
        for (statistic, value) in statistics.into_iter().zip(latencies) {
            let metric = Metric::Latency(statistic);
            if value > 0.0 {
                point.metrics.insert(metric, Value::new(metric, value));
            }
        }
        point.cores = Some(planner::predict::CoresByBook {
            client: 0.21,
            kernel: 0.89,
            raid: 0.11,
        });
        point.limits = serde_json::from_value(serde_json::json!({
            "first": { "name": first }, "behind": { "name": behind }, "behind_iops": iops * 1.5
        }))
        .expect("limits");
    }
    text::text(&report, columns)
}

/// Sized points for the snapshots: with prices and spares, without redundancy, of draws, and with a rebuild under way.
fn sized(columns: Option<usize>) -> String {
    let level = "--level 0,5 --op randwrite --spares 1";
    let mut cases = ask(level).expect("two setups").cases;
    let rebuilds =
        ask("--level 5 --op randwrite --rebuilding --rebuild-rate 200").expect("a rebuild");
    cases.extend(rebuilds.cases.into_iter().skip(1));
    let mut report = PlannedReport::new(&cases, &BTreeMap::new(), &Library::default(), None);
    report.currency = Some("EUR".to_owned());
    for point in &mut report.points {
        let setup = &point.configuration.setup;
        let survives = setup.level == Level::Raid5;
        let sizing = |failing: f64, dwpd: f64| {
            let drive = DriveFigures {
                capacity_bytes: 2_000_000_000_000,
                idle_watts: 5.0,
                endurance_dwpd: dwpd,
                warranty_years: 5.0,
                unreadable_per_bit: 1e-17,
                annual_failure_share: failing,
            };
            let shape = Shape {
                level: setup.level,
                drives: 4,
                spares: u32::from(survives),
            };
            let load = Load {
                iops: 80e3,
                drives_watts: 36.9,
                written_bytes_per_s: 330e6,
                amplification: Some(if survives { 3.9 } else { 1.0 }),
                written_drives: 4,
                rebuild_bytes_per_s: Some(if point.rebuild.is_some() { 2e8 } else { 2e9 }),
            };
            let prices = UnitPrices {
                drive: 210.0,
                platform: None,
            };
            let capacity =
                capacity(setup.level, 4, 128 << 10, 2_000_000_000_000).expect("possible");
            size_of(&drive, &shape, capacity, &load, Some(&prices))
        };
        point.metrics = BTreeMap::from([(Metric::Iops, Value::new(Metric::Iops, 80e3))]);
        point.notes.clear();
        let is_rebuild = setup.condition == Some(Condition::Rebuilding);
        let usual = sizing(0.0044, 0.7);
        let draws = [0.003, 0.003, 0.0044, 0.01, 0.01].map(|share| sizing(share, share * 100.0));
        point.usable_bytes = usual.capacity.usable_bytes;
        point.sizing = Some(usual);
        if is_rebuild {
            point.rebuild = Some(Rebuilding {
                bytes_per_s: 2e8,
                whole_drive_seconds: Some(1e4),
            });
            point.drawn = Some(Drawn {
                sizing: draws.into(),
                rebuild_bytes_per_s: vec![2e8; 5],
                ..Drawn::default()
            });
        }
    }
    text::text(&report, columns)
}

#[test]
fn what_an_array_holds_costs_and_risks_is_told_below_its_table() {
    insta::assert_snapshot!("sized_in_80_columns", sized(Some(80)));
    insta::assert_snapshot!("sized_in_any_number_of_columns", sized(None));
}

#[test]
fn a_chance_is_told_as_people_say_it() {
    let told = |low, high| size::chance(Interval::new(low, high));
    assert_eq!(told(1e-6, 1e-6), "1 in 1.000 M");
    assert_eq!(told(1e-5, 4e-5), "1 in 25.0 k to 100.0 k");
    assert_eq!(told(0.0, 1e-5), "at most 1 in 100.0 k");
    assert_eq!(told(0.0, 0.0), "never");
    assert_eq!(told(1.0, 1.0), "1 in 1.00");
}

#[test]
fn a_plan_fits_the_terminal_or_is_whole_where_there_is_none() {
    for columns in [80, 100, 119, 120] {
        let text = told(Some(columns));
        let widest = text.lines().map(|line| line.chars().count()).max();
        assert!(
            widest.is_some_and(|widest| widest <= columns),
            "{columns}:\n{text}"
        );
    }
    insta::assert_snapshot!("in_80_columns", told(Some(80)));
    insta::assert_snapshot!("in_119_columns", told(Some(119)));
    insta::assert_snapshot!("in_120_columns", told(Some(120)));
    insta::assert_snapshot!("in_any_number_of_columns", told(None));
}
