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
        "no source gives read_us, write_us and map_unit_kib",
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

/// A drive that no catalogue has, as options of `drive new`.
const SHEET: [&str; 14] = [
    "Example E1 3.84 TB",
    "--generation",
    "4",
    "--capacity",
    "3.84tb",
    "--read-kiops",
    "900",
    "--write-kiops",
    "150",
    "--read-mb-s",
    "6800",
    "--write-mb-s",
    "4000",
    "--active-w=18",
];

fn new(more: &[&str]) -> Said {
    fullstripe(&[["drive", "new"].as_slice(), &SHEET, more].concat())
}

#[test]
fn a_drive_from_a_data_sheet_is_planned_in_ranges() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("e1.toml");
    let file = path.to_str().expect("a name");
    let said = new(&["--source", "E1 product brief", "--output", file]);
    assert!(said.status.success(), "{said}");
    let text = std::fs::read_to_string(&path).expect("it is written");
    assert!(text.contains("id = \"example-e1-3.84-tb\""), "{text}");
    assert!(text.contains("title = \"E1 product brief\""), "{text}");
    assert!(text.contains("\nread_us = { low = 60, "), "{text}");

    // What is there already stays as it is.
    let again = new(&["--output", file]);
    assert_eq!(again.status.code(), Some(1), "{again}");
    assert!(again.err.contains("e1.toml exists already"), "{again}");
    assert_eq!(std::fs::read_to_string(&path).expect("it is there"), text);

    let one_drive = [
        "--level=none",
        "--count=1",
        "--op=randread",
        "--threads=1",
        "--qd=1",
    ];
    let plan = [
        "plan",
        "--drive",
        file,
        "--platform",
        "s2600wft-8170",
        "--no-cache",
        "--provenance",
    ];
    let report = json(&[plan.as_slice(), &one_drive].concat());
    let draws = report["points"][0]["drawn"]["metrics"]["iops"].as_array();
    let draws: Vec<f64> = draws
        .expect("a list")
        .iter()
        .filter_map(Value::as_f64)
        .collect();
    assert_eq!(draws.len(), 20, "{report}");
    let (least, most) = draws
        .iter()
        .fold((f64::MAX, f64::MIN), |(least, most), iops| {
            (least.min(*iops), most.max(*iops))
        });
    // The read latency is drawn from 60 to 115 us.
    assert!(most > 1.4 * least, "{draws:?}");
    let status = |key: &str| {
        let all = report["provenance"].as_array().expect("a list").iter();
        let mut found = all.filter(|known| known["key"] == key);
        found.next().expect(key)["status"].clone()
    };
    assert_eq!(status("ratings.read_kiops"), "sheet");
    assert_eq!(status("latency.read_us"), "prior");
}

#[test]
fn a_sheet_that_contradicts_itself_names_the_two_figures() {
    for (more, sentence) in [
        (
            ["--read-us", "9"].as_slice(),
            "read_us is 9; but class is tlc, and the fastest such drives take more than 40",
        ),
        (
            &["--lanes", "1"],
            "read_kiops is 900, which with 4 KiB each is 3686 MB/s; but the link carries 1969",
        ),
        (&["--idle-w", "20"], "idle_w is 20; but active_w is 18"),
    ] {
        let said = new(more);
        assert_eq!(said.status.code(), Some(1), "{said}");
        assert!(said.err.contains(sentence), "{said}");
        assert_eq!(said.out, "");
    }
}

#[test]
fn figures_that_are_missing_are_named_and_may_come_from_a_like_drive_or_a_file() {
    let said = fullstripe(&["drive", "new", "E2", "--capacity", "1tb"]);
    assert_eq!(said.status.code(), Some(1), "{said}");
    assert!(
        said.err.contains(
            "figures are missing: give --generation, --read-kiops, --write-kiops, --read-mb-s and --write-mb-s"
        ),
        "{said}"
    );
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("figures.toml");
    let file = path.to_str().expect("a name");
    std::fs::write(&path, "write_kiops = 100\n").expect("written");
    let like = ["drive", "new", "B2", "--like", "solidigm-d5-p5336-122.88tb"];
    let said = fullstripe(&[like.as_slice(), &["--from", file]].concat());
    assert!(said.status.success(), "{said}");
    assert!(said.out.contains("read_kiops = { value = 930, "), "{said}");
    assert!(
        said.out
            .contains("write_kiops = { value = 100, source = \"sheet\" }"),
        "{said}"
    );
    std::fs::write(&path, "writes = 100\n").expect("written");
    let said = fullstripe(&[like.as_slice(), &["--from", file]].concat());
    assert!(said.err.contains("figures.toml: writes "), "{said}");
}

#[test]
fn a_plan_of_a_drive_whose_sheet_lacks_a_rate_says_how_to_give_it() {
    let said = fullstripe(&[
        "plan",
        "--drive",
        "solidigm-d5-p5336-122.88tb",
        "--platform",
        "s2600wft-8170",
    ]);
    assert_eq!(said.status.code(), Some(1), "{said}");
    assert!(
        said.err
            .contains("the catalogue has no write_kiops of solidigm-d5-p5336-122.88tb")
            && said.err.contains("--like solidigm-d5-p5336-122.88tb"),
        "{said}"
    );
}

#[test]
fn a_prediction_from_a_data_sheet_says_that_it_is_of_a_usual_drive() {
    let folder = tempfile::tempdir().expect("a folder");
    let sheet = folder.path().join("e1.toml");
    let said = new(&["--output", sheet.to_str().expect("a name")]);
    assert!(said.status.success(), "{said}");
    let points = folder.path().join("points.toml");
    let text = "schema = 1\n[setup.s]\ndrive = \"./e1.toml\"\ncount = 1\nlevel = \"none\"\nplatform = \"s2600wft-8170\"\n\
                host = \"linux-6.12\"\nstack = \"none\"\n[points]\np = { setup = \"s\", state = \"steady\", workload = \
                { op = \"randread\", bs = \"4k\", threads = 1, qd = 1 } }\n";
    std::fs::write(&points, text).expect("written");
    let report = json(&["predict", points.to_str().expect("a name"), "--no-cache"]);
    assert!(
        report
            .to_string()
            .contains("is known from its data sheet only"),
        "{report}"
    );
}
