//! `plan`, as a user runs it: what limits the rate, what would limit it next, and one clear sentence for wrong input.

use crate::common::{Bed, Said, run};
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
        "RAID 0 against wide\n  environment: platform: s2600wft-6154-x8 against s2600wft-6154-x16\n  environment: narrowest link above the \
         drives: \"switch\", 6.4 GB/s for 4 drives against \"stack\", 11.6 GB/s for 4 drives\n  array: the same\n  read 128k: 0.55 \
         times as many requests; limited by uplink of \"switch\" against root port \"stack\"\n",
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

/// Sparse files of exactly the size that the sheet says, and all of them in each array.
#[test]
fn a_plan_states_the_size_that_create_makes() {
    const DRIVES: usize = 4;
    let plan = plan(&format!(
        "--drive p4510-1tb --platform epyc-9554p-24 --count {DRIVES} --level 0,5,10 --chunk 128k --op randread --threads 1 \
         --qd 1 --json"
    ));
    let report: Value = serde_json::from_str(&plan.out).expect("JSON");
    let points = report["points"].as_array().expect("a list");
    for (point, level) in points.iter().zip([0, 5, 10]) {
        let bed = Bed::new(DRIVES, 1_000_000_000_000);
        let created = bed.create("v", level, bed.drives(), &["--no-zero", "--json"]);
        let created: Value = serde_json::from_str(&created.out).expect("JSON");
        let size = created["size_bytes"].as_u64();
        assert!(size > Some(1_000_000_000_000), "{created}");
        assert_eq!(point["usable_bytes"].as_u64(), size, "RAID {level}");
        let capacity = &point["sizing"]["capacity"];
        assert_eq!(capacity["usable_bytes"].as_u64(), size, "RAID {level}");
    }
    assert_eq!(points.len(), 3);
}

const PLANNING: &str = include_str!("../../../../docs/planning.md");

/// The command, the prices and the output of the worked example.
#[test]
fn the_documents_example_of_sizing_is_what_the_command_prints() {
    let (_, section) = PLANNING
        .split_once("## What it costs, how long it lasts\n")
        .expect("the section");
    let command = section
        .lines()
        .find_map(|line| line.strip_prefix("    fullstripe plan "))
        .expect("the command");
    let mut blocks = section.split("```");
    let prices = blocks.nth(1).and_then(|block| block.strip_prefix("toml\n"));
    let printed = blocks.nth(1).expect("the output").trim_start();
    let place = tempfile::tempdir().expect("a folder");
    std::fs::write(
        place.path().join("prices.toml"),
        prices.expect("the prices"),
    )
    .expect("written");
    let mut command = self::command(command);
    let said = run(command.arg("--no-cache").current_dir(place.path()), 300);
    assert!(said.status.success(), "{said}");
    assert_eq!(said.out, printed, "docs/planning.md");
}

#[test]
fn a_drive_that_is_known_from_its_sheet_is_sized_in_ranges() {
    let place = tempfile::tempdir().expect("a folder");
    // Twenty draws are run once.
    let plan = |options: &str| run(command(options).env("XDG_CACHE_HOME", place.path()), 300);
    let options = "--drive micron-7500-max-6.4tb --count 4 --level 10 --spares 1 --platform epyc-9554p-24 --op randwrite \
                   --threads 1 --qd 4";
    let said = plan(&format!("{options} --json"));
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    let point = &report["points"][0];
    let draws = point["drawn"]["sizing"].as_array().expect("a list");
    assert_eq!(draws.len(), 20, "{said}");
    let shares = draws
        .iter()
        .map(|draw| draw["losses"]["annual_failure_share"].as_f64());
    let shares: Vec<f64> = shares.map(|share| share.expect("a share")).collect();
    assert!(shares.iter().any(|share| *share < 0.0035), "{shares:?}");
    assert!(shares.iter().any(|share| *share > 0.008), "{shares:?}");
    assert_eq!(point["sizing"]["spares"], 1);
    // What the sheet itself says is the same in all draws.
    for draw in draws {
        assert_eq!(draw["capacity"], point["sizing"]["capacity"]);
        assert_eq!(draw["endurance"]["amplification"], 2.0);
    }
    let told = plan(options);
    assert!(told.out.contains("4 drives and 1 spare, 12.8"), "{told}");
    assert!(told.out.contains("its partner fails: 1 in "), "{told}");
    let yours = plan(&format!("{options} --afr 1 --provenance"));
    assert!(
        yours.out.contains("reliability.annual_failure_percent"),
        "{yours}"
    );
    assert!(yours.out.contains("Patterson, Gibson and Katz"), "{yours}");
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
        (
            "--drive p4510-2tb --platform s2600wft-6154-x16 --level 5 --spares 1 --op randread",
            "--spares 1: RAID 5 of 4 drives and its spares need 5 bays, and s2600wft-6154-x16 has 4",
        ),
        (
            "--drive p4510-2tb --platform epyc-9554p-24 --afr 100 --op randread",
            "--afr must be from 0 to below 100 (percent of drives that fail in a year), is 100",
        ),
        (
            "--drive p4510-2tb --platform epyc-9554p-24 --prices /nowhere/prices.toml --op randread",
            "cannot read the prices /nowhere/prices.toml",
        ),
    ] {
        let said = plan(options);
        assert_eq!(said.status.code(), Some(1), "{said}");
        assert!(said.err.contains(sentence) && said.out.is_empty(), "{said}");
    }
}

#[test]
fn what_vroc_would_take_is_told_by_publication() {
    let options =
        "--drive p4510-2tb --count 8 --platform s2600wft-8170 --level 5 --op randread --as-vroc";
    let said = plan(&format!("{options}=boot"));
    assert!(said.status.success(), "{said}");
    for part in [
        "As Intel VROC: RAID 5 of 8 drives behind vmd-0 and vmd-1, to boot from\n",
        "  none            refuses   it has no level ",
        "  premium         accepts   it has levels 0, 1, 10 and 5, and takes drives of every maker ",
        "  refused, because its drives are behind vmd-0 and vmd-1: firmware boots an array only if one VMD has all its drives; a \
         switch behind that VMD may widen it to more than four (pcper)\n",
        "anandtech: AnandTech, The Intel SSD DC P4510 SSD Review Part 1",
        "No publication here is Intel's own table of keys.",
    ] {
        assert!(said.out.contains(part), "{part}\n{said}");
    }
    let said = plan(&format!("{options} --json"));
    let report: Value = serde_json::from_str(&said.out).expect("it is JSON");
    let answer = &report["vroc"][0];
    assert_eq!(answer["setup"], "RAID 5");
    assert_eq!(answer["purpose"], "data");
    assert_eq!(answer["broken"], serde_json::json!([]));
    let premium = |row: &&Value| row["key"] == "premium" && row["publication"] == "anandtech";
    let keys = answer["keys"].as_array().expect("keys");
    let row = keys.iter().find(premium).expect("it is there");
    assert_eq!(row["verdict"], "accepts");
    let single =
        "--drive p4510-2tb --count 1 --platform s2600wft-8170 --level none --op randread --as-vroc";
    let said = plan(single);
    assert_eq!(said.status.code(), Some(1), "{said}");
    assert!(said.err.contains("--as-vroc is about arrays"), "{said}");
}

#[test]
fn a_slot_that_is_not_split_takes_one_drive() {
    let shown = run(
        Command::new(env!("CARGO_BIN_EXE_fullstripe")).args([
            "platform",
            "show",
            "s2600wft-6154-x16",
        ]),
        60,
    );
    let manual = "slot \"x16 with an ASUS Hyper M.2 X16\" is split by a setting of the firmware; no drives are in it here";
    assert!(shown.out.contains(manual), "{shown}");
    let place = tempfile::tempdir().expect("a folder");
    let file = place.path().join("box.toml");
    let of_program = include_str!("../../../../profiles/platforms/s2600wft-6154-x16.toml");
    let write = |split: &str| {
        let text = of_program.replace("split = \"by-itself\"", &format!("split = \"{split}\""));
        std::fs::write(&file, text).expect("it is written");
    };
    let options = |count: u32| {
        let platform = file.display();
        format!("--drive p4510-2tb --count {count} --level 0 --op randread --platform {platform}")
    };
    write("no");
    let said = plan(&options(4));
    assert_eq!(said.status.code(), Some(1), "{said}");
    let sentence = "--count 4 is impossible: the slot \"x16 with a four-port retimer card\" of s2600wft-6154-x16 is not split, so \
                    it takes one drive without a switch, and 4 would be in it";
    assert!(said.err.contains(sentence), "{said}");
    write("by-setting");
    let said = plan(&options(4));
    let note = "has to be split among its drives by a setting of the firmware";
    assert!(said.status.success() && said.out.contains(note), "{said}");
    write("sometimes");
    let said = plan(&options(4));
    assert!(
        said.err
            .contains("slot.split does not know \"sometimes\"; nearest: \"by-itself\""),
        "{said}"
    );
}

#[test]
fn the_cheapest_arrays_that_hold_are_found_and_others_say_why_not() {
    let place = tempfile::tempdir().expect("a folder");
    let prices = place.path().join("prices.toml");
    let text = "schema = 1\ncurrency = \"EUR\"\n[drive]\np4510-1tb = 110\np4510-2tb = 210\np4800x-750gb = 700\n";
    std::fs::write(&prices, text).expect("it is written");
    let search = |wanted: &str, more: &str| {
        let mut command = command("--platform s2600wft-6154-x16 --no-cache");
        command.args(["--for", wanted]).arg("--prices").arg(&prices);
        run(command.args(more.split_whitespace()), 300)
    };
    let wanted = "8k 70/30 8k, p99 < 600us, 1.9 TB usable, two years";
    let said = search(wanted, "");
    assert!(said.status.success(), "{said}");
    let lines: Vec<&str> = said.out.lines().collect();
    assert!(
        lines[0].starts_with(&format!(
            "{wanted}: the cheapest arrays on s2600wft-6154-x16 that hold, of "
        )),
        "{said}"
    );
    assert!(
        lines[2].starts_with("  330  RAID 5 of 3 x p4510-1tb "),
        "{said}"
    );
    assert!(
        lines[3].starts_with("  420  RAID 1 of 2 x p4510-2tb "),
        "{said}"
    );
    assert!(
        said.out.contains("Why others do not, for no more money\n"),
        "{said}"
    );
    // The document shows this search.
    let document = include_str!("../../../../docs/planning.md");
    for line in lines {
        assert!(document.contains(line.trim_end()), "{line}\n{said}");
    }
    let said = search(wanted, "--json");
    let report: Value = serde_json::from_str(&said.out).expect("it is JSON");
    assert_eq!(report["found"][0]["drive"], "p4510-1tb");
    assert_eq!(report["currency"], "EUR");
    let impossible = search("8k reads 4k, 9 TB usable", "");
    assert_eq!(impossible.status.code(), Some(1), "{impossible}");
    let nearest = "no array on s2600wft-6154-x16 holds. The nearest of ";
    assert!(impossible.out.contains(nearest), "{impossible}");
    assert!(
        impossible
            .out
            .contains("RAID 5 of 4 x p4510-2tb for 840 EUR: "),
        "{impossible}"
    );
    for (wanted, more, sentence) in [
        ("8k reads", "", "--for does not understand \"8k reads\""),
        (
            "8k reads 4k",
            "--count 9",
            "no array of --level and --count",
        ),
    ] {
        let said = search(wanted, more);
        assert_eq!(said.status.code(), Some(1), "{said}");
        assert!(said.err.contains(sentence) && said.out.is_empty(), "{said}");
    }
    let said = plan("--for 8k --platform s2600wft-6154-x16");
    assert!(said.err.contains("--prices <FILE>"), "{said}");
}
