use super::*;
use crate::claims::book::frozen;

const ANANDTECH: &str = include_str!("../../../suites/anandtech-2018.toml");

const SHORT: &str = r#"
schema = 1
name = "short"
title = "t"
order = "published"
runs = 5
[[phase]]
name = "mix"
state = "steady"
prepare = { op = "randwrite", bs = "4k", qd = 64, span_times = 2 }
workload = { op = "randmix", read_pct = 0, bs = "4k", threads = 4, qd = 1 }
sweep = { depth = [2, 8], read_pct = [100, 50] }
metrics = ["iops"]
[[plot]]
phase = "mix"
title = "p"
x = "read_pct"
y = "iops"
series = "depth"
"#;

fn refused(from: &str, to: &str) -> String {
    assert!(SHORT.contains(from), "{from}");
    let text = SHORT.replacen(from, to, 1);
    Suite::read("s.toml", &text).expect_err(to).to_string()
}

#[test]
fn a_sweep_is_all_combinations_in_order() {
    let suite = Suite::read("s.toml", SHORT).expect("it is right");
    let found: Vec<(u32, Option<u32>, Option<u8>)> = suite
        .steps(1)
        .iter()
        .map(|step| {
            (
                step.workload.threads,
                step.workload.qd,
                step.workload.read_pct,
            )
        })
        .collect();
    let [two, four] = [(2, Some(1)), (4, Some(2))];
    let with = |(threads, qd), percent| (threads, qd, Some(percent));
    assert_eq!(
        found,
        [
            with(two, 100),
            with(two, 50),
            with(four, 100),
            with(four, 50)
        ]
    );
    let values = &suite.steps(1)[3].values;
    assert_eq!(
        (values["depth"].as_str(), values["read_pct"].as_str()),
        ("8", "50")
    );
}

#[test]
fn a_drawn_order_has_the_same_steps() {
    let published = Suite::read("s.toml", ANANDTECH).expect("it is right");
    let mut drawn = published.clone();
    drawn.order = StepOrder::Randomised;
    assert_eq!(drawn.steps(1), drawn.steps(1));
    assert_ne!(drawn.steps(1), drawn.steps(2));
    assert_ne!(drawn.steps(1), published.steps(1));
    let sorted = |suite: &Suite| {
        let mut steps: Vec<(usize, Workload)> = suite
            .steps(1)
            .into_iter()
            .map(|step| (step.phase, step.workload))
            .collect();
        let phases: Vec<usize> = steps.iter().map(|step| step.0).collect();
        assert!(phases.is_sorted(), "phases keep their order");
        steps.sort();
        steps
    };
    assert_eq!(sorted(&drawn), sorted(&published));
}

#[test]
fn the_suite_of_seed_a_asks_for_every_point_of_its_claims() {
    let suite = Suite::read("anandtech-2018.toml", ANANDTECH).expect("it is right");
    let steps: BTreeSet<(State, Workload)> = suite
        .steps(0)
        .into_iter()
        .map(|step| {
            let window = (step.workload.skip_seconds, step.workload.seconds);
            assert_eq!(window, (Some(60), Some(180)));
            let mut workload = step.workload;
            (workload.skip_seconds, workload.seconds) = (None, None);
            (suite.phase[step.phase].state, workload)
        })
        .collect();
    assert_eq!(steps.len(), 4 * 10 + 2 * 33);
    let (questions, _) = frozen().expect("they have the form");
    let of_a = questions.iter().filter(|((seed, _), _)| seed == "A");
    let mut asked = 0;
    for ((_, name), question) in of_a {
        let wanted = &question.configuration;
        assert!(
            steps.contains(&(wanted.state, wanted.workload.clone())),
            "{name}"
        );
        asked += 1;
    }
    assert_eq!(asked, 159);
}

#[test]
fn each_rule_is_one_sentence() {
    for (from, to, expected) in [
        ("runs = 5", "runs = 0", "runs must be at least 1, is 0"),
        (
            "order = \"published\"",
            "order = \"random\"",
            "order does not know \"random\"; nearest: \"randomised\" or \"published\"",
        ),
        (
            "depth = [2, 8]",
            "depth = [6]",
            "phase \"mix\": sweep.depth must be above 0 and share out evenly among 4 threads, is 6",
        ),
        (
            "[100, 50]",
            "[101]",
            "phase \"mix\": read_pct must be from 0 to 100, is 101",
        ),
        (
            "x = \"read_pct\"",
            "x = \"bs\"",
            "plot \"p\": x must be a key that the phase sweeps, is \"bs\"",
        ),
        (
            "y = \"iops\"",
            "y = \"watts\"",
            "plot \"p\": y must be one of the phase's metrics, is \"watts\"",
        ),
        (
            "phase = \"mix\"",
            "phase = \"mx\"",
            "plot \"p\": phase does not know \"mx\"; nearest: \"mix\"",
        ),
        (
            "metrics = [\"iops\"]",
            "metrics = []",
            "phase \"mix\": metrics names no figure: nothing would be kept",
        ),
        (
            "op = \"randwrite\", bs",
            "op = \"read\", bs",
            "phase \"mix\": prepare.op must be \"write\" or \"randwrite\"",
        ),
    ] {
        assert_eq!(refused(from, to), format!("s.toml: {expected}"));
    }
    assert!(refused("metrics = [\"iops\"]", "metrics = [\"iosp\"]").contains("nearest: \"iops\""));
    assert!(refused("sweep = { depth", "sweep = { deepness").contains("nearest: \"depth\""));
    let many = format!("read_pct = [{}]", "1,".repeat(5001));
    let message = refused("read_pct = [100, 50]", &many);
    assert_eq!(message, "s.toml: sweep has 10002 steps, at most 10000");
}
