//! `drive`, as a user runs it: the catalogue with the source of each figure, filters, and one sentence for wrong input.

use crate::common::{Said, run};
use serde_json::Value;
use std::process::Command;

fn fullstripe(arguments: &[&str]) -> Said {
    run(
        Command::new(env!("CARGO_BIN_EXE_fullstripe")).args(arguments),
        60,
    )
}

fn json(arguments: &[&str]) -> Value {
    let said = fullstripe(&[arguments, &["--json"]].concat());
    assert!(said.status.success(), "{said}");
    serde_json::from_str(&said.out).expect("JSON")
}

fn ids(report: &Value) -> Vec<&str> {
    let drives = report["drives"].as_array().expect("a list");
    let ids = drives.iter().map(|drive| drive["id"].as_str());
    ids.map(|id| id.expect("a text")).collect()
}

#[test]
fn every_figure_of_the_list_has_an_address() {
    let report = json(&["drive", "list"]);
    assert!(ids(&report).len() >= 24, "{report}");
    for drive in report["drives"].as_array().expect("a list") {
        let ratings = drive["ratings"].as_object().expect("an object");
        let figures = ratings
            .values()
            .chain([&drive["generation"], &drive["lanes"]]);
        for figure in figures {
            let values = figure["values"].as_array().expect("a list");
            assert!(!values.is_empty(), "{drive}");
            for value in values {
                let address = value["source"]["address"].as_str();
                assert!(
                    address.is_some_and(|address| address.starts_with("http")),
                    "{drive}"
                );
                assert!(
                    value["source"]["title"]
                        .as_str()
                        .is_some_and(|title| title.len() > 5)
                );
            }
        }
    }
}

#[test]
fn filters_narrow_the_list() {
    let large = json(&[
        "drive",
        "list",
        "--class",
        "tlc",
        "--at-least",
        "3.5",
        "--generation",
        "3",
    ]);
    let large = ids(&large);
    assert!(
        large.contains(&"p4510-8tb") && !large.contains(&"p4510-2tb"),
        "{large:?}"
    );
    let said = fullstripe(&["drive", "list", "--maker", "intel", "--at-most", "1"]);
    let mut rows = said.out.lines().map(|line| line.split_whitespace());
    let small = rows.find(|row| row.clone().next() == Some("p4510-1tb"));
    let small: Vec<_> = small.expect("a row").take(7).collect();
    assert_eq!(small, ["p4510-1tb", "tlc", "3.0", "x4", "1", "TB", "469"]);
    assert!(!said.out.contains("p4510-8tb"), "{said}");
    let none = fullstripe(&["drive", "list", "--at-least", "1000000"]);
    assert_eq!(none.out, "No drive of the catalogue is like that.\n");
}

#[test]
fn a_drive_is_shown_with_its_sources_and_compared() {
    let said = fullstripe(&["drive", "show", "p4510-2tb"]);
    for part in [
        "p4510-2tb: Intel SSD DC P4510, 2 TB, tlc, PCIe 3.0 x4, data-centre\n",
        "read_kiops ",
        "no source gives read_us and write_us",
        "https://www.anandtech.com/show/12435/",
        "fullstripe plan --drive p4510-2tb plans arrays of it.",
    ] {
        assert!(said.out.contains(part), "{part}: {said}");
    }
    let said = fullstripe(&["drive", "compare", "p4510-2tb", "p4510-8tb"]);
    let rows = said
        .out
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>());
    let rows: Vec<_> = rows.collect();
    assert!(
        rows.contains(&vec!["write_kiops", "79", "139.5", "(1.77", "x)"]),
        "{said}"
    );
    assert!(rows.contains(&vec!["read_mb_s", "3200", "3200"]), "{said}");
}

#[test]
fn a_drive_that_is_not_there_is_answered_with_the_nearest() {
    let said = fullstripe(&["drive", "show", "p4510-3tb"]);
    assert_eq!(said.status.code(), Some(1));
    assert!(
        said.err
            .contains("\"p4510-3tb\" is no drive of the catalogue; nearest: \"p4510-1tb\""),
        "{said}"
    );
    let said = fullstripe(&["drive", "compare", "p4510-2tb"]);
    assert_eq!(said.status.code(), Some(2), "{said}");
}
