//! Commands of the documents, run as they are written: the README's ten lines, and the recovery after a crash. The kernel of
//! the tests may have no block devices for volumes. So a loop device stands in for them here; the virtual machine's lane
//! runs the README's lines as they are (`scripts/vm/cases/readme.py`).

use crate::common::process::{Said, tied};
use crate::common::{Bed, is_root, run};
use std::path::Path;

const README: &str = include_str!("../../../../README.md");
const USING: &str = include_str!("../../../../docs/using.md");
const TEN_LINES: &str = "## Ten lines to a file system";
const WITHOUT_DEVICE: &str = "## A file system without a block device";
const BACK: &str = "umount mnt; losetup -d $loop; fusermount3 -u view; fullstripe stop --wait";

/// The commands below a heading.
fn block<'a>(document: &'a str, heading: &str) -> &'a str {
    let (_, rest) = document.split_once(heading).expect("the heading");
    let lines = rest.split("```").nth(1);
    lines.expect("a block of commands").trim()
}

/// `lines` with smaller drives and a socket of the test's own. The script cleans up even if a line fails.
fn script(bed: &Bed, lines: &str) -> String {
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

fn run_lines(bed: &Bed, lines: &str) -> Said {
    let mut shell = tied(Path::new("/bin/bash"));
    shell
        .args(["-c", &script(bed, lines)])
        .current_dir(bed.path("."));
    shell.env("FULLSTRIPE_SOCKET", bed.path("api"));
    shell.env("XDG_STATE_HOME", bed.path("state"));
    run(&mut shell, 150).ok()
}

/// The README's ten lines, with a file system through a loop device.
fn ten_lines() -> Vec<String> {
    let with_device = block(README, TEN_LINES).lines();
    let lines: Vec<String> = with_device
        .filter(|line| !line.starts_with("fullstripe serve"))
        .map(|line| match line {
            _ if line.starts_with("export PATH") => {
                line.replace("; modprobe ublk_drv || modprobe nbd", "")
            }
            _ if line.starts_with("fullstripe attach") => block(USING, WITHOUT_DEVICE).to_owned(),
            "umount mnt; fullstripe stop --wait" => BACK.to_owned(),
            _ => line.to_owned(),
        })
        .collect();
    assert_eq!(lines.len(), 9, "{lines:?}");
    lines
}

#[test]
fn ten_lines_lead_to_a_file_system_that_survives_a_drive() {
    if !is_root("ten_lines_lead_to_a_file_system_that_survives_a_drive") {
        return;
    }
    let bed = Bed::new(0, 0);
    let lines = ten_lines().join("\n");
    assert!(
        lines.contains("mount $loop mnt") && lines.ends_with(BACK),
        "{lines}"
    );
    let said = run_lines(&bed, &lines);
    for words in [
        "Created volume vol0",
        "slot 3  d3.img  in sync",
        "the array is stopped",
    ] {
        assert!(said.out.contains(words), "{words}: {said}");
    }
    assert!(said.err.contains("check finished"), "{said}");
    // The new drive has taken the place of the lost one.
    let left = ["assemble", "d0.img", "d1.img", "d3.img", "d4.img"];
    let said = run(&mut bed.fullstripe(&left), 20).ok();
    assert!(said.out.contains("4 of 4  optimal"), "{said}");
}

#[test]
fn a_mounted_file_system_is_there_again_after_a_crash() {
    if !is_root("a_mounted_file_system_is_there_again_after_a_crash") {
        return;
    }
    let bed = Bed::new(0, 0);
    let ten = ten_lines();
    let mount = ten.iter().position(|line| line.contains("mount $loop mnt"));
    let until_mounted = ten[..=mount.expect("it is mounted")].join("\n");
    let recovery = block(USING, "## When the serving process has died");
    let lines = format!(
        "{until_mounted}
echo kept > mnt/synced; sync
server=$(jobs -p | head -1); kill -9 $server
wait $server || true; (echo lost > mnt/later; sync) 2> /dev/null || true
{recovery}
echo it says $(cat mnt/synced); {BACK}"
    );
    let said = run_lines(&bed, &lines);
    for words in ["vol0 is optimal", "it says kept", "the array is stopped"] {
        assert!(said.out.contains(words), "{words}: {said}");
    }
}
