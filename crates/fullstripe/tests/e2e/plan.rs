//! `plan`, as a user runs it: what limits the rate, what would limit it next, and one clear sentence for wrong input.

use crate::common::{Said, run};
use serde_json::Value;
use std::process::Command;

fn command(options: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
    command.arg("plan").args(options.split_whitespace());
    command
}

fn plan(options: &str) -> Said {
    run(command(options).arg("--no-cache"), 300)
}

const STREAM: &str = "--drive p4510-2tb --level 0 --op read --bs 128k --threads 4 --qd 16";

#[test]
fn the_narrow_switch_is_named_and_the_wide_slot_is_compared() {
    let place = tempfile::tempdir().expect("a folder");
    let other = place.path().join("wide.toml");
    let wide = "schema = 1\n[setup.wide]\ndrive = \"p4510-2tb\"\ncount = 4\nlevel = 0\nplatform = \
                \"s2600wft-6154-x16\"\nhost = \"linux-6.12\"\nstack = \"fullstripe\"\n";
    std::fs::write(&other, wide).expect("it is written");
    let compare = format!(
        "{STREAM} --platform s2600wft-6154-x8 --compare {}",
        other.display()
    );
    let remembered = |options: &str| run(command(options).env("XDG_CACHE_HOME", place.path()), 300);
    let said = remembered(&compare);
    assert!(said.status.success(), "{said}");
    for part in [
        "RAID 0: 4 x p4510-2tb on s2600wft-6154-x8, linux-6.12, fullstripe on 1 core, by interrupt, 8.00 TB usable",
        "uplink of \"switch\"; then, at ",
        "wide: 4 x p4510-2tb on s2600wft-6154-x16",
        "Compared",
        "\nread 128k: bytes a second\nRAID 0  ████",
        "█ predicted  · up to the ideal",
    ] {
        assert!(said.out.contains(part), "{part}\n{said}");
    }
    // The answer is remembered, including how fast it was computed.
    let json = remembered(&format!("{compare} --json"));
    assert_eq!(json.out, remembered(&format!("{compare} --json")).out);
    let report: Value = serde_json::from_str(&json.out).expect("JSON");
    let points = report["points"].as_array().expect("a list");
    let [narrow, wide] = points.as_slice() else {
        panic!("{json}");
    };
    let iops = |point: &Value| point["metrics"]["iops"]["value"].as_f64().expect("a rate");
    // 11.6 GB/s of the slot against 6.43 of the uplink.
    assert!((1.6..=1.9).contains(&(iops(wide) / iops(narrow))), "{json}");
    assert_eq!(narrow["limits"]["first"]["name"], "uplink of \"switch\"");
    assert!(
        narrow["ideal"]["iops"].as_f64() >= Some(iops(narrow)),
        "{json}"
    );
    assert!(narrow["cores"]["raid"].as_f64() > Some(0.0), "{json}");
    assert_eq!(wide["is_other"], true);
    let speed = &report["simulator"]["commands_per_user_cpu_second"];
    assert!(speed.as_f64() > Some(1000.0), "{json}");
}

#[test]
fn what_is_beyond_all_measurements_says_so() {
    let said = plan(
        "--drive p4510-4tb --platform epyc-9554p-24 --level none --count 1 --op randread --qd 4 --threads 1",
    );
    assert!(said.status.success(), "{said}");
    assert!(
        said.out
            .contains("no result of the platform epyc-9554p-24 is known here"),
        "{said}"
    );
    assert!(
        said.out
            .contains("queue depth, waiting for the drives' latency"),
        "{said}"
    );
}

#[test]
fn a_sweep_draws_a_bar_for_each_value() {
    let said = plan(&format!(
        "{STREAM} --platform s2600wft-6154-x8 --sweep count=2..3"
    ));
    assert!(said.status.success(), "{said}");
    assert!(
        said.out
            .starts_with("RAID 0, read 128k: IOPS by count\n2  █"),
        "{said}"
    );
    assert!(said.out.contains("\n3  █"), "{said}");
}

/// The rate falls where filling a stripe takes more requests than the engine merges.
#[test]
fn writes_in_order_that_read_first_are_told_with_their_reason() {
    let options =
        "--drive p4510-2tb --platform epyc-9554p-24 --level 5 --op write --threads 1 --qd 256";
    let said = plan(&format!("{options} --bs 4k --sweep count=2..4"));
    assert!(said.status.success(), "{said}");
    for part in [
        "left out at count 2: RAID 5 needs 3 to 64 drives\n",
        "RAID 5, write 4k, 4 drives: 1.0 bytes of old data and parity are read for each byte written, because a \
         stripe of 128 KiB on each of 3 drives takes 96 requests of 4 KiB, and the engine joins at most 64: --bs 8k \
         would fill it\n",
    ] {
        assert!(said.out.contains(part), "{part}\n{said}");
    }
    assert!(!said.out.contains("3 drives:"), "{said}");
    let cured = plan(&format!("{options} --bs 8k --count 4"));
    assert!(!cured.out.contains("are read for each byte"), "{cured}");
}

#[test]
fn what_makes_no_sense_is_a_sentence() {
    for (options, sentence) in [
        (
            "--drive p4510-3tb --platform epyc-9554p-24",
            "--drive does not know \"p4510-3tb\"; nearest: \"p4510-1tb\", \"p4510-2tb\" or \"p4510-4tb\"",
        ),
        (
            "--drive p4510-2tb --platform s2600wft-6154-x16 --count 5",
            "--count must be at most 4, which is what s2600wft-6154-x16 has bays and lanes for, is 5",
        ),
        (
            "--drive p4510-2tb --platform epyc-9554p-24 --level 0 --stack vroc-windows-2018 --op read",
            "--stack does not know \"vroc-windows-2018\"; nearest: \"vroc-windows-2017\", \"md-2018\" or \"rst-z270\"",
        ),
        (
            "--drive p4510-2tb --platform epyc-9554p-24 --level 0 --stack rst-z270 --host linux-4.13 --op read",
            "rst-z270 is a driver of the host windows-2017",
        ),
    ] {
        let said = plan(options);
        assert_eq!(said.status.code(), Some(1), "{said}");
        assert!(said.err.contains(sentence) && said.out.is_empty(), "{said}");
    }
}
