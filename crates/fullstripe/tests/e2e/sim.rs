//! `sim faults` and `sim cuts`, as a user runs them: the same result on any number of threads, and one clear
//! sentence for wrong input.

use crate::common::{Said, run};
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
            .starts_with("all 10 histories hold, each run twice\n"),
        "{said}"
    );
    assert!(
        said.out.contains("of which 0 were answered with an error")
            && said.out.contains("\nfaults: 0 "),
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

#[test]
fn states_after_a_power_cut_are_kept_for_others_to_judge() {
    let place = tempfile::tempdir().expect("a folder");
    let folder = place.path().join("states").display().to_string();
    let words = "sim cuts --level 1 --operation partial --quick --jobs 1 --samples 3 --keep";
    let cuts = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
        run(command.args(words.split(' ')).arg(&folder), 120)
    };
    let said = cuts();
    assert!(said.status.success(), "{said}");
    let file = |name: &str| std::fs::read(format!("{folder}/{name}")).expect("it was written");
    let kept: Value = serde_json::from_slice(&file("kept.json")).expect("JSON");
    let states = kept["states"].as_array().expect("a list");
    assert_eq!(states.len(), 3);
    for state in states {
        assert_eq!(state["operation"], "partial");
        let drives = state["drives"].as_array().expect("a list");
        let spec = |drive: &Value| {
            let (file, serial) = (drive["file"].as_str(), drive["serial"].as_str());
            format!(
                "{folder}/{},serial={}",
                file.expect("a path"),
                serial.expect("a name")
            )
        };
        let mut command = Command::new(env!("CARGO_BIN_EXE_fullstripe"));
        let said = run(
            command
                .args(["examine", "--json"])
                .args(drives.iter().map(spec)),
            20,
        );
        let found: Value = serde_json::from_str(&said.out).expect("JSON");
        let volume = &found["drives"][1]["record"]["volumes"][0];
        assert_eq!(volume["level"], 1, "{said}");
        let contents = state["start"]["contents"].as_array().expect("a list");
        assert!(!contents.is_empty());
        for content in contents {
            let bytes = file(content.as_str().expect("a path")).len();
            assert_eq!(volume["size_bytes"], bytes, "{said}");
        }
    }
    let said = cuts();
    assert!(
        said.err.contains("is not empty; give a new one to --keep"),
        "{said}"
    );
}
