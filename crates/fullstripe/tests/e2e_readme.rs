//! The README's ten lines, run as they are written.

mod common;

use common::process::tied;
use common::{Bed, is_root, run};
use std::path::Path;

const README: &str = include_str!("../../../README.md");

/// Smaller drives and a socket of the test's own; whatever fails, nothing is left behind.
fn script(bed: &Bed) -> String {
    let (_, rest) = README
        .split_once("## Ten lines to a file system")
        .expect("the heading");
    let lines = rest
        .split("```")
        .nth(1)
        .expect("a block of commands")
        .trim();
    assert_eq!(lines.lines().count(), 10, "{lines}");
    let program = Path::new(env!("CARGO_BIN_EXE_fullstripe"));
    let folder = program
        .parent()
        .expect("it lies in a folder")
        .display()
        .to_string();
    let socket = bed.path("nbd").display().to_string();
    let lines = lines
        .replace("$PWD/target/release", &folder)
        .replace("-s 1G", "-s 160M")
        .replace("/tmp/vol0.sock", &socket);
    let cleanup = "umount mnt; losetup -d $loop; fusermount3 -uz view; kill $(jobs -p)";
    format!("trap '{{ {cleanup}; }} 2>/dev/null || true' EXIT; set -e\n{lines}\n")
}

#[test]
fn ten_lines_lead_to_a_file_system_that_survives_a_drive() {
    if !is_root("ten_lines_lead_to_a_file_system_that_survives_a_drive") {
        return;
    }
    let bed = Bed::new(0, 0);
    let mut shell = tied(Path::new("/bin/bash"));
    shell.args(["-c", &script(&bed)]).current_dir(bed.path("."));
    shell.env("FULLSTRIPE_SOCKET", bed.path("api"));
    shell.env("XDG_STATE_HOME", bed.path("state"));
    let said = run(&mut shell, 150).ok();
    for words in [
        "Created volume vol0",
        "slot 3  d3.img  in sync",
        "the array is stopped",
    ] {
        assert!(said.out.contains(words), "{words}: {said}");
    }
    assert!(said.err.contains("check finished"), "{said}");
    // What the drive that was lost held is on the new one.
    let left = ["assemble", "d0.img", "d1.img", "d3.img", "d4.img"];
    let said = run(&mut bed.fullstripe(&left), 20).ok();
    assert!(said.out.contains("4 of 4  optimal"), "{said}");
}
