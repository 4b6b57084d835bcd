//! The lab: results of the real fio that are read and compared, jobs for it, and loads that are run.

mod running;

use crate::common::{Bed, MIB, Said, run};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn lab_read(paths: &[&Path], json: bool) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
    command.args(["lab", "read"]).args(paths);
    run(
        if json {
            command.arg("--json")
        } else {
            &mut command
        },
        60,
    )
}

fn lab_compare(folder: &Path, first: &str, second: &str, more: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
    command
        .current_dir(folder)
        .args(["lab", "compare", first, second])
        .args(more);
    run(&mut command, 60)
}

/// Runs fio for a second on a small file in `folder`; its result is the file `name`.
fn fio(folder: &Path, name: &str, options: &[&str]) {
    let usual = [
        "--name=job",
        "--size=4m",
        "--bs=4k",
        "--runtime=1",
        "--time_based",
        "--filename=data",
        "--ioengine=libaio",
        "--iodepth=4",
        "--direct=1",
        "--group_reporting",
    ];
    let said = run(
        Command::new("fio")
            .current_dir(folder)
            .args(usual)
            .args(options)
            .arg(format!("--output={name}")),
        60,
    );
    assert!(said.status.success(), "{said}");
}

#[test]
fn what_fio_measured_is_what_is_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let plus = ["--output-format=json+", "--lat_percentiles=1"];
    std::fs::create_dir(path.join("runs")).unwrap();
    for number in 0..2 {
        let name = format!("runs/{number}.json");
        fio(
            path,
            &name,
            &[&plus[..], &["--rw=randrw", "--numjobs=2"]].concat(),
        );
    }
    let first = path.join("runs/0.json");
    let said = lab_read(&[&first], true);
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said}"));
    let text = std::fs::read_to_string(&first).unwrap();
    let written: Value = serde_json::from_str(&text).unwrap();
    let points = report["points"].as_array().unwrap();
    assert_eq!(points.len(), 2, "{said}");
    for (point, direction) in points.iter().zip(["read", "write"]) {
        let of_fio = &written["jobs"][0][direction];
        let figure = |name: &str| point["metrics"][name]["value"].as_f64().unwrap();
        assert_eq!(figure("iops"), of_fio["iops"].as_f64().unwrap());
        assert_eq!(point["requests"], of_fio["total_ios"]);
        let mean_us = of_fio["lat_ns"]["mean"].as_f64().unwrap() / 1e3;
        assert!((figure("latency_us.mean") / mean_us - 1.0).abs() < 1e-9);
        for (name, percent) in [("p50", "50.000000"), ("p99", "99.000000")] {
            let told_us = of_fio["lat_ns"]["percentile"][percent].as_f64().unwrap() / 1e3;
            let read_us = figure(&format!("latency_us.{name}"));
            // fio's buckets are up to 1.6 % wide, and it tells their upper ends.
            let ratio = read_us / told_us;
            assert!(
                (0.97..1.03).contains(&ratio),
                "{direction} {name}: {read_us} of {told_us}"
            );
        }
        assert_eq!(point["marks"], Value::Array(Vec::new()), "{said}");
    }
    // A folder with two runs of the same job.
    let said = lab_read(&[&path.join("runs")], true);
    let both: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(
        both["points"][0]["runs"].as_array().map(Vec::len),
        Some(2),
        "{said}"
    );
    let said = lab_read(&[&path.join("runs")], false);
    assert!(
        said.out.contains("randrw, reads") && said.out.contains("2 x 4"),
        "{said}"
    );
}

#[test]
fn two_folders_of_runs_are_compared() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    for (set, depth) in [
        ("one", "--iodepth=1"),
        ("two", "--iodepth=1"),
        ("deep", "--iodepth=2"),
    ] {
        std::fs::create_dir(path.join(set)).unwrap();
        let name = format!("{set}/0.json");
        fio(
            path,
            &name,
            &[
                "--output-format=json+",
                "--rw=randread",
                "--runtime=1",
                depth,
            ],
        );
    }
    let compare = |other: &str, more: &[&str]| lab_compare(path, "one", other, more);
    // One run of each shows nothing.
    let said = compare("two", &[]);
    assert!(
        said.out.contains("1 and 1") && said.out.contains("undecided"),
        "{said}"
    );
    // Twenty runs that are copies of one are the same.
    for (set, numbers) in [("one", 1..20), ("two", 0..20)] {
        for number in numbers {
            let copy = path.join(format!("{set}/{number}.json"));
            std::fs::copy(path.join("one/0.json"), copy).unwrap();
        }
    }
    let said = compare("two", &["--margin", "1%"]);
    assert!(
        said.out.contains("20 and 20") && said.out.contains("the same within 1 %"),
        "{said}"
    );
    let said = compare("two", &["--json"]);
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(report["comparisons"][0]["ratio"], 1.0, "{said}");
    let said = compare("deep", &[]);
    assert!(
        said.out
            .contains("no load is in both with the same options"),
        "{said}"
    );
    let said = compare("two", &["--margin", "0"]);
    assert!(
        said.err
            .contains("must be above 0 and at most 50 (percent)"),
        "{said}"
    );
}

#[test]
fn doubtful_figures_of_fio_are_marked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    fio(
        path,
        "rate.json",
        &["--output-format=json", "--rw=randread", "--rate_iops=50"],
    );
    let said = lab_read(&[&path.join("rate.json")], false);
    for mark in [
        "job (randread): fio lets everything in flight end before it pauses for its rate",
        "there is no histogram",
    ] {
        assert!(said.out.contains(mark), "{said}");
    }
}

#[test]
fn what_is_no_result_of_fio_is_refused_in_one_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    let said = lab_read(&[path], false);
    assert!(
        said.err.contains("has no file that ends with .json"),
        "{said}"
    );
    let file = path.join("other.json");
    std::fs::write(&file, "{\"iops\": 1}").unwrap();
    let said = lab_read(&[&file], false);
    assert!(
        said.err.contains("other.json") && said.err.contains("is no result of fio"),
        "{said}"
    );
    assert!(!said.status.success());
    let said = lab_read(&[&path.join("none.json")], false);
    assert!(
        said.err.contains("cannot read") && said.err.contains("none.json"),
        "{said}"
    );
}

const LOADS: &str = r#"
schema = 1
[workload.reads]
op = "randread"
bs = "4k"
threads = 2
qd = 4
seconds = 1
[workload."mix at 70"]
op = "randmix"
read_pct = 70
bs = "4k"
threads = 1
qd = 4
hot_access_pct = 90
hot_span_pct = 10
[workload.streams]
op = "write"
bs = "128k"
threads = 3
qd = 2
[workload.shifted]
op = "randread"
bs = "4k"
align = "512"
threads = 1
api = "sync"
qd = 1
"#;

#[test]
fn loads_are_exported_as_jobs_that_fio_understands_and_runs() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(path.join("loads.toml"), LOADS).unwrap();
    std::fs::write(path.join("data"), vec![7; 4 << 20]).unwrap();
    let export = |target: &str, output: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
        command.current_dir(path).args([
            "lab",
            "export",
            "loads.toml",
            "--fio",
            "--target",
            target,
            "-o",
            output,
        ]);
        run(&mut command, 60)
    };
    let said = export("data", "jobs");
    assert!(said.status.success(), "{said}");
    let lines: Vec<&str> = said.out.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    assert!(
        said.out
            .contains("jobs/streams.fio    # writes to the target"),
        "{said}"
    );
    assert!(said.out.contains("jobs/reads.fio\n"), "{said}");
    for name in ["reads", "mix-at-70", "streams", "shifted"] {
        let job = format!("jobs/{name}.fio");
        let said = run(
            Command::new("fio")
                .current_dir(path)
                .args(["--parse-only", &job]),
            60,
        );
        assert!(said.status.success(), "{job}: {said}");
    }
    // As the printed line says it.
    let line = lines
        .iter()
        .find(|line| line.ends_with("jobs/reads.fio"))
        .unwrap();
    let said = run(Command::new("sh").current_dir(path).args(["-c", line]), 60);
    assert!(said.status.success(), "{said}");
    let said = lab_read(&[&path.join("jobs/reads.json")], true);
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said}"));
    assert_eq!(report["points"][0]["options"]["iodepth"], "4", "{said}");
    assert_eq!(
        report["points"][0]["marks"],
        Value::Array(Vec::new()),
        "{said}"
    );
    let said = export("data", "jobs");
    assert!(said.err.contains("exists already"), "{said}");
    std::fs::write(
        path.join("loads.toml"),
        LOADS.replace("hot_span_pct = 10", "hot_span_pct = 10\ndemand_iops = 9"),
    )
    .unwrap();
    let said = export("data", "more");
    assert!(
        said.err
            .contains("loads.toml: workload.mix at 70: fio lets everything in flight end"),
        "{said}"
    );
    assert!(
        !path.join("more").exists(),
        "nothing is written if one load cannot be"
    );
}

#[test]
fn an_exported_load_runs_on_a_volume_over_nbd() {
    let bed = Bed::new(3, 64 * MIB);
    bed.create("data", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).start();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path();
    std::fs::write(
        path.join("loads.toml"),
        LOADS.replace("api = \"sync\"\n", ""),
    )
    .unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
    let uri = server.uri("data");
    command.current_dir(path).args([
        "lab",
        "export",
        "loads.toml",
        "--fio",
        "--target",
        &uri,
        "-o",
        "jobs",
    ]);
    let said = run(&mut command, 60);
    let line = said
        .out
        .lines()
        .find(|line| line.ends_with("jobs/reads.fio"));
    let line = line.unwrap_or_else(|| panic!("{said}"));
    let said = run(Command::new("sh").current_dir(path).args(["-c", line]), 60);
    assert!(said.status.success(), "{said}");
    server.stop();
    let said = lab_read(&[&path.join("jobs/reads.json")], true);
    let report: Value = serde_json::from_str(&said.out).unwrap_or_else(|_| panic!("{said}"));
    let point = &report["points"][0];
    assert!(
        point["requests"]
            .as_u64()
            .is_some_and(|requests| requests > 100),
        "{said}"
    );
    assert_eq!(point["options"]["uri"], uri, "{said}");
    assert_eq!(point["marks"], Value::Array(Vec::new()), "{said}");
}
