//! Loads that are run, and their results.

use super::{lab_compare, lab_read};
use crate::common::{Said, run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

const RUN_LOADS: &str = "schema = 1
[workload.paced]
op = \"randread\"
bs = \"4k\"
threads = 1
qd = 16
demand_iops = 500
[workload.closed]
op = \"randread\"
bs = \"4k\"
threads = 1
qd = 2
";

fn lab_run(folder: &Path, more: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
    command
        .current_dir(folder)
        .args([
            "lab",
            "run",
            "loads.toml",
            "--seconds=1",
            "--skip-seconds=0",
        ])
        .args(more);
    run(&mut command, 60)
}

#[test]
fn loads_are_run_on_a_file_and_their_result_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("loads.toml"), RUN_LOADS).unwrap();
    std::fs::write(path.join("drive.img"), vec![7; 1 << 20]).unwrap();
    let said = lab_run(
        path,
        &["--target=drive.img", "--runs=2", "--output=result.json"],
    );
    assert!(said.status.success(), "{said}");
    assert!(
        said.out.starts_with("LOAD")
            && said.out.contains("\npaced")
            && said.out.contains("\nclosed"),
        "{said}"
    );
    assert!(said.out.contains("2 of at least 5 runs"), "{said}");
    let kept = std::fs::read_to_string(path.join("result.json")).unwrap();
    let kept: Value = serde_json::from_str(&kept).unwrap();
    let of = |name: &str| {
        let points = kept["points"].as_array().unwrap();
        let named = points.iter().find(|point| point["name"] == name);
        named.unwrap().clone()
    };
    let iops = of("paced")["metrics"]["iops"]["value"].as_f64().unwrap();
    assert!((300.0..600.0).contains(&iops), "{kept}");
    assert!(
        of("closed")["measurement"]["generator_iops"]
            .as_f64()
            .unwrap()
            > 1000.0,
        "{kept}"
    );
    // What is read is what was printed.
    let read = lab_read(&[&path.join("result.json")], false);
    let (first, table) = read.out.split_once('\n').unwrap();
    assert!(first.contains("result.json: drive.img, 20"), "{read}");
    assert_eq!(table, said.out, "{read}");
    let again = lab_run(path, &["--target=drive.img", "--output=result.json"]);
    assert!(again.err.contains("result.json exists already"), "{again}");
    // Nothing has written to it.
    assert_eq!(
        std::fs::read(path.join("drive.img")).unwrap(),
        vec![7; 1 << 20]
    );
}

#[test]
fn loads_that_write_want_the_name_of_what_they_destroy() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let writes = RUN_LOADS.replace("randread", "randwrite");
    std::fs::write(path.join("loads.toml"), writes).unwrap();
    std::fs::write(path.join("drive.img"), vec![7; 8 << 20]).unwrap();
    let said = lab_run(path, &["--target=drive.img"]);
    assert_eq!(said.status.code(), Some(4), "{said}");
    assert!(said.err.contains("--destroy-data drive.img"), "{said}");
    assert_eq!(
        std::fs::read(path.join("drive.img")).unwrap(),
        vec![7; 8 << 20]
    );
    let said = lab_run(
        path,
        &[
            "--target=drive.img",
            "--destroy-data=drive.img",
            "--runs=1",
            "--json",
        ],
    );
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said}"));
    assert!(
        report["points"][0]["metrics"]["iops"]["value"].as_f64() > Some(0.0),
        "{said}"
    );
    assert_ne!(
        std::fs::read(path.join("drive.img")).unwrap(),
        vec![7; 8 << 20]
    );
    let missing = lab_run(path, &["--target=nowhere.img"]);
    assert!(
        missing.err.contains("nowhere.img does not exist"),
        "{missing}"
    );
}

#[test]
fn results_of_this_program_are_compared_run_by_run() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(
        path.join("loads.toml"),
        RUN_LOADS.replace("qd = 2", "qd = 1"),
    )
    .unwrap();
    for (output, target) in [
        ("fast.json", "ram:64m,latency=1ms"),
        ("slow.json", "ram:64m,latency=2ms"),
    ] {
        let (target, output) = (format!("--target={target}"), format!("--output={output}"));
        let said = lab_run(path, &[&target, &output, "--runs=5"]);
        assert!(said.status.success(), "{said}");
    }
    let compare = || lab_compare(path, "fast.json", "slow.json", &["--json"]);
    let said = compare();
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said}"));
    let verdict = |name: &str, metric: &str| {
        let all = report["comparisons"].as_array().unwrap();
        let is_it = |one: &&Value| one["name"] == name && one["metric"] == metric;
        all.iter().find(is_it).map(|one| one["verdict"].clone())
    };
    assert_eq!(verdict("closed", "iops"), Some("lower".into()), "{said}");
    assert_eq!(
        verdict("closed", "latency_us.mean"),
        Some("higher".into()),
        "{said}"
    );
    // A demanded rate is kept, and its response latency is compared too.
    assert!(verdict("paced", "response_us.mean").is_some(), "{said}");
    assert_eq!(report["alone"], Value::Array(Vec::new()), "{said}");
    // Runs of another length are another measurement.
    let slow = std::fs::read_to_string(path.join("slow.json")).unwrap();
    let longer = slow.replace("\"measured_s\": 1.0", "\"measured_s\": 2.0");
    std::fs::write(path.join("slow.json"), longer).unwrap();
    let said = compare();
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(report["comparisons"], Value::Array(Vec::new()), "{said}");
    assert_eq!(report["alone"].as_array().map(Vec::len), Some(4), "{said}");
}

#[test]
fn a_load_that_is_invalid_is_told_in_comparisons_and_half_a_result_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let loads = RUN_LOADS.replace("demand_iops = 500", "demand_iops = 5000\nseconds = 12");
    std::fs::write(path.join("loads.toml"), loads).unwrap();
    for (output, target) in [("one.json", "ram:1m"), ("two.json", "ram:1m,read-iops=20")] {
        let (target, output) = (format!("--target={target}"), format!("--output={output}"));
        let said = lab_run(path, &[&target, &output, "--runs=1"]);
        assert!(said.status.success(), "{said}");
    }
    let said = lab_compare(path, "one.json", "two.json", &[]);
    assert!(
        said.out.contains("paced: invalid in the second: after 1"),
        "{said}"
    );
    assert!(!said.out.contains("only in one"), "{said}");
    let one = std::fs::read_to_string(path.join("one.json")).unwrap();
    for (text, sentence) in [
        (&one[..one.len() / 2], "half.json: line "),
        ("", "half.json is empty"),
    ] {
        std::fs::write(path.join("half.json"), text).unwrap();
        let said = lab_read(&[&path.join("half.json")], false);
        assert!(said.err.contains(sentence), "{said}");
        assert!(!said.err.contains("fio"), "{said}");
    }
}

#[test]
fn a_killed_run_goes_on_with_the_next_load() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("loads.toml"), RUN_LOADS).unwrap();
    std::fs::write(path.join("drive.img"), vec![7; 1 << 20]).unwrap();
    let arguments = ["--target=drive.img", "--runs=3", "--output=result.json"];
    let part = path.join("result.json.part");
    let nothing = lab_run(path, &[&arguments[..], &["--resume"]].concat());
    assert!(nothing.err.contains("nothing to go on with"), "{nothing}");
    assert!(!path.join("result.json").exists(), "{nothing}");
    let mut killed = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
    let mut killed = killed
        .current_dir(path)
        .args([
            "lab",
            "run",
            "loads.toml",
            "--seconds=1",
            "--skip-seconds=0",
        ])
        .args(arguments)
        .spawn()
        .unwrap();
    let lines = || std::fs::read_to_string(&part).map_or(0, |text| text.lines().count());
    let begun = Instant::now();
    while lines() < 3 {
        assert!(begun.elapsed() < Duration::from_secs(30), "no run is kept");
        std::thread::sleep(Duration::from_millis(10));
    }
    killed.kill().unwrap();
    killed.wait().unwrap();
    let again = lab_run(path, &arguments);
    assert!(again.err.contains("go on with it with --resume"), "{again}");
    let kept = lines() - 1;
    assert!((2..6).contains(&kept), "{kept}");
    let resumed = lab_run(path, &[&arguments[..], &["--resume", "--json"]].concat());
    let report: Value = serde_json::from_str(&resumed.out).unwrap_or_else(|_| panic!("{resumed}"));
    for point in report["points"].as_array().unwrap() {
        let runs = point["measurement"]["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3, "{resumed}");
    }
    assert!(resumed.out.contains("was interrupted"), "{resumed}");
    assert!(!part.exists(), "the result is complete");
    let kept = std::fs::read_to_string(path.join("result.json")).unwrap();
    assert_eq!(kept, resumed.out);
}
