//! `sim faults`, as a user runs it: the same result on any number of threads, and one clear sentence for
//! what it does not take.

mod common;

use common::{Said, run};
use serde_json::Value;
use std::process::Command;

fn faults(options: &[&str]) -> Said {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
    run(command.args(["sim", "faults"]).args(options), 120)
}

#[test]
fn the_result_does_not_depend_on_the_number_of_threads() {
    let seeds = ["--json", "--seeds", "700..724"];
    let one = faults(&[&seeds[..], &["--jobs", "1"]].concat());
    let three = faults(&[&seeds[..], &["--jobs", "3"]].concat());
    assert!(one.status.success(), "{one}");
    assert_eq!(one.out, three.out);
    let report: Value = serde_json::from_str(&one.out).expect("JSON");
    assert_eq!(report["passed"], true);
    assert_eq!(report["histories"], 24);
    assert_eq!(report["failures"], Value::Array(Vec::new()));
    for counted in ["requests", "faults", "lives", "happenings", "virtual_ms"] {
        assert!(
            report["counts"][counted].as_u64() > Some(24),
            "{counted}: {one}"
        );
    }
    let other = faults(&["--json", "--seeds", "701..725"]);
    let other: Value = serde_json::from_str(&other.out).expect("JSON");
    assert_ne!(report["hash"], other["hash"]);
}

#[test]
fn a_level_and_a_mode_choose_what_is_run() {
    let options = ["--seeds", "3..13", "--level", "10", "--mode", "calm"];
    let said = faults(&[&options[..], &["--twice"]].concat());
    assert!(said.status.success(), "{said}");
    assert!(
        said.out
            .starts_with("10 histories held, each run twice; hash "),
        "{said}"
    );
    assert!(
        said.out.contains(" (0 failed), 0 faults (0 left out), "),
        "{said}"
    );
    assert!(said.out.contains(" histories per core-minute"), "{said}");
}

#[test]
fn what_cannot_be_run_is_refused_in_a_sentence() {
    for (options, why) in [
        (&["--seeds", "9..9"][..], "9..9 names no seeds"),
        (&["--seeds", "x"], "'x' is not a seed"),
        (&["--seeds", "1", "--level", "6"], "6"),
        (&["--seeds", "1", "--jobs", "0"], "0 is not in 1..=1024"),
        (
            &["--seeds", "1", "--mode", "worse"],
            "calm, survivable, beyond",
        ),
        (&[], "--seeds <A..B>"),
    ] {
        let said = faults(options);
        assert_eq!(said.status.code(), Some(2), "{said}");
        assert!(said.err.contains(why) && said.out.is_empty(), "{said}");
    }
}
