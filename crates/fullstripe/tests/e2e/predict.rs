//! `predict` and `claims`, as a user runs them: figures with their intervals, the same on any number of threads, and
//! one clear sentence for input that is not understood.

use crate::common::{Said, run};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

const POINTS: &str = r#"
schema = 1
[setup.one]
drive = "p4510-8tb"
count = 1
level = "none"
platform = "oakgate"
host = "appliance"
stack = "none"
[points]
slow = { setup = "one", state = "steady", workload = { op = "randread", bs = "4k", threads = 1, qd = 64, demand_iops = 50000, seconds = 1 } }
fast = { setup = "one", state = "steady", workload = { op = "randread", bs = "4k", threads = 1, qd = 256, demand_iops = 700000, seconds = 1 } }
"#;

/// Runs the program without its cache of earlier answers.
fn fullstripe(words: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
    run(command.args(words).arg("--no-cache"), 300)
}

/// Writes `content` to a file of this name, and runs `predict` on it.
fn predict(name: &str, content: &str, options: &[&str]) -> Said {
    let place = tempfile::tempdir().expect("a folder");
    predict_in(place.path(), name, content, options)
}

/// As [`predict`], in a folder that also holds the cache of answers.
fn predict_in(place: &Path, name: &str, content: &str, options: &[&str]) -> Said {
    std::fs::write(place.join(name), content).expect("it is written");
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
    command.current_dir(place).env("XDG_CACHE_HOME", place);
    run(command.args(["predict", name]).args(options), 300)
}

/// All files below a folder.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = std::fs::read_dir(folder) else {
        return Vec::new();
    };
    let paths = entries.map(|entry| entry.expect("an entry").path());
    let of = |path: PathBuf| match path.is_dir() {
        true => files_below(&path),
        false => vec![path],
    };
    paths.flat_map(of).collect()
}

#[test]
fn an_answer_is_remembered_and_a_damaged_one_made_anew() {
    let place = tempfile::tempdir().expect("a folder");
    let cache = place.path().join("fullstripe");
    let points = POINTS.replace("demand_iops = 700000", "demand_iops = 7000");
    let told = |options: &[&str]| {
        let said = predict_in(place.path(), "p.toml", &points, options);
        assert!(said.status.success(), "{said}");
        // On a slow machine the program prints its progress.
        let notes = said.err.lines().filter(|line| !line.contains("points: "));
        (said.out, notes.collect::<String>())
    };
    let (first, _) = told(&["--json", "--no-cache"]);
    assert!(!cache.exists(), "--no-cache has written a cache");
    assert_eq!(told(&["--json"]), (first.clone(), String::new()));
    let files = files_below(&cache);
    assert_eq!(files.len(), 2, "{files:?}");
    assert_eq!(told(&["--json"]), (first.clone(), String::new()));
    let mut bytes = std::fs::read(&files[0]).expect("it is there");
    bytes[50] ^= 1;
    std::fs::write(&files[0], bytes).expect("it is written");
    let (out, err) = told(&["--json"]);
    assert_eq!(out, first);
    let name = files[0].display().to_string();
    assert!(
        err.contains(&name) && err.contains("it is damaged"),
        "{err}"
    );
    assert_eq!(told(&["--json"]), (first, String::new()));
}

#[test]
fn a_point_has_figures_on_any_number_of_threads() {
    let [one, three] =
        ["1", "3"].map(|jobs| predict("p.toml", POINTS, &["--json", "--jobs", jobs]));
    assert!(one.status.success(), "{one}");
    assert_eq!(one.out, three.out);
    let results: Value = serde_json::from_str(&one.out).expect("JSON");
    let points = results["points"].as_array().expect("a list");
    let [fast, slow] = [&points[0], &points[1]];
    assert_eq!(
        (&fast["name"], &slow["name"]),
        (&"fast".into(), &"slow".into())
    );
    let figure = |point: &Value, name: &str| point["metrics"][name]["value"].as_f64();
    assert_eq!(figure(slow, "demand_met"), Some(1.0), "{one}");
    assert_eq!(figure(fast, "demand_met"), Some(0.0), "{one}");
    let able = figure(fast, "iops").expect("a rate");
    assert!((600e3..=640e3).contains(&able), "{able}");
    assert_eq!(fast["seeds"].as_array().map(Vec::len), Some(5));
    assert!(fast["metrics"]["iops"]["interval"].is_array(), "{one}");
}

#[test]
fn requests_in_bursts_have_their_average_and_a_longer_wait() {
    let even = "demand_iops = 50000, seconds = 1";
    assert!(POINTS.contains(even));
    // For 30 ms of each 400 ms more than the drive can do; in whole bursts, a second is 1.2 seconds.
    let bursts = "demand_iops = 650000, on_ms = 30, off_ms = 370, seconds = 1";
    let points = POINTS
        .replace(even, bursts)
        .replace("demand_iops = 700000", "demand_iops = 48750");
    let said = predict("p.toml", &points, &["--json"]);
    let results: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said}"));
    let of = |at: usize, name: &str| results["points"][at]["metrics"][name]["value"].as_f64();
    let [even, bursts] = [0, 1].map(|at| of(at, "iops").expect("a rate"));
    assert!((bursts / even - 1.0).abs() < 0.01, "{bursts} {even}");
    assert_eq!(of(1, "demand_met"), Some(1.0), "{said}");
    assert_eq!(of(1, "seconds_held"), None, "{said}");
    let waits = [0, 1].map(|at| of(at, "latency_us.p99").expect("a latency"));
    assert!(waits[1] > 2.0 * waits[0], "{waits:?}");
}

#[test]
fn what_is_not_understood_is_a_sentence() {
    for (from, to, sentence) in [
        (
            "p4510-8tb",
            "p4510-8t",
            "p.toml: setup.one.drive does not know \"p4510-8t\"; nearest: \"p4510-8tb\", \"p4510-1tb\" or \"p4510-2tb\"",
        ),
        (
            "qd = 64",
            "qd = 0",
            "p.toml: points.slow.workload.qd must be from 1 to 65536, is 0",
        ),
        (
            "count = 1",
            "cuont = 1",
            "p.toml: setup.one.cuont is not a key here; nearest: \"count\", ",
        ),
        (
            "\"p4510-8tb\"",
            "\"mine.toml\"",
            "cannot read the drive mine.toml: No such file",
        ),
    ] {
        let said = predict("p.toml", &POINTS.replace(from, to), &[]);
        assert_eq!(said.status.code(), Some(1), "{said}");
        assert!(said.err.contains(sentence) && said.out.is_empty(), "{said}");
    }
    let said = fullstripe(&["claims", "--seed", "X"]);
    assert!(
        said.err.contains("--seed does not know \"X\"; nearest: "),
        "{said}"
    );
}

#[test]
fn what_is_not_modelled_has_not_passed() {
    let said = predict(
        "p.toml",
        &POINTS
            .replace("count = 1\nlevel = \"none\"", "count = 2\nlevel = 0")
            .replace("stack = \"none\"", "stack = \"rst-z270\""),
        &[],
    );
    assert_eq!(said.status.code(), Some(1), "{said}");
    assert!(said.out.contains("slow: not modelled: "), "{said}");
}

#[test]
fn drives_of_the_catalogue_are_predicted_from_their_sheets() {
    let points = POINTS.replace("\"p4510-8tb\"", "\"600p-512gb\"");
    let said = predict("p.toml", &points, &[]);
    assert!(said.status.success(), "{said}");
    let note = "600p-512gb is known from its data sheet only";
    assert!(said.out.contains(note), "{said}");
    let points = POINTS.replace("\"p4510-8tb\"", "\"samsung-pm9a3-1.93tb\"");
    let said = predict("p.toml", &points, &[]);
    let nearest = "does not know \"samsung-pm9a3-1.93tb\"; nearest: \"samsung-pm9a3-1.92tb\"";
    assert!(said.err.contains(nearest), "{said}");
}

#[test]
fn rows_have_the_same_keys_and_uses_are_not_added_up() {
    let said = fullstripe(&["claims", "--seed", "P", "--only", "V", "--json"]);
    assert!(said.status.success(), "{said}");
    let card: Value = serde_json::from_str(&said.out).expect("JSON");
    let rows = card["rows"].as_array().expect("a list");
    assert_eq!(rows.len(), 9);
    for row in rows {
        let keys: Vec<&str> = row
            .as_object()
            .expect("a row")
            .keys()
            .map(String::as_str)
            .collect();
        for key in [
            "id",
            "use",
            "fact",
            "interval",
            "predicted",
            "error",
            "verdict",
            "limited_by",
            "mechanism",
        ] {
            assert!(keys.contains(&key), "{key}: {row}");
        }
        assert_eq!(keys.len(), 9, "{row}");
        assert_eq!(row["use"], "V");
    }
    let facts = &card["totals"]["V"];
    assert_eq!(
        (&facts["facts"], &facts["not_modelled"]),
        (&6.into(), &0.into())
    );
    assert_eq!(card["totals"]["C"]["facts"], 0, "uses are not added up");
    assert_eq!(card["calculator"]["rows"].as_array().map(Vec::len), Some(9));
}

#[test]
fn rules_hold_and_remarks_say_why_they_are_not_scored() {
    let said = fullstripe(&["claims", "--only", "F", "--json"]);
    assert!(said.status.success(), "{said}");
    let card: Value = serde_json::from_str(&said.out).expect("JSON");
    let verdict = |id: &str| {
        let rules = card["rules"].as_array().expect("a list");
        let rule = rules.iter().find(|rule| rule["id"] == id);
        rule.expect(id)["verdict"].clone()
    };
    for id in [
        "A-70",
        "A-71",
        "A-72",
        "I-16",
        "O-08.mode",
        "O-09.refresh",
        "O-11",
        "O-34",
        "O-35",
        "P-01.rule",
        "P-02",
        "P-29",
        "P-33",
    ] {
        assert_eq!(verdict(id), "pass", "{id}: {}", card["broken_rules"]);
    }
    assert_eq!(verdict("O-16"), "not-modelled");
    assert_eq!(card["totals"]["F"]["passed"], 13);
    let said = fullstripe(&["claims", "--only", "U"]);
    assert!(
        said.out.contains("A-73  set up, but no result given"),
        "{said}"
    );
}
