//! Keeps docs/troubleshooting.md true: the program prints the messages that it quotes, and its commands cure them.
//!
//! An entry of the page is a heading of the third level, a block ` ```text ` with the message, in which `<words>` stand
//! for anything, and mostly a block ` ```sh ` with the cure. A [`Case`] provokes the message by a script; then the
//! cure's lines run as they stand on the page, and a last line checks what they have achieved.

mod cases;

use crate::common::Bed;
use crate::common::process::{Said, run, tied};
use cases::{CASES, Case, SETUP};
use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

const PAGE: &str = include_str!("../../../../docs/troubleshooting.md");
const WITHIN_S: u64 = 120;

/// An entry of the page.
struct Entry {
    chapter: &'static str,
    heading: &'static str,
    message: &'static str,
    cure: Option<&'static str>,
    prose: &'static str,
}

/// The beginning of every script. `fullstripe` there is the built binary, which the kernel ends with the shell.
const WORDS: &str = r#"
trap 'ended=$?; set +e; { kill -KILL $(jobs -p); wait; losetup -d $(cat loops); } 2> /dev/null; exit $ended' EXIT
export PATH=$PWD/bin:$PATH:/usr/sbin:/sbin HOME=$PWD XDG_STATE_HOME=$PWD/state FULLSTRIPE_SOCKET=$PWD/api
uri="nbd+unix:///vol0?socket=$PWD/nbd.sock"
drives() { truncate -s 64M d0.img d1.img d2.img d3.img d4.img d5.img; }
made() { drives; fullstripe create vol0 --level 5 --chunk 64k "$@" d0.img d1.img d2.img d3.img > made.txt; }
ready() { until fullstripe status > status.txt 2>&1; do kill -0 $!; sleep 0.1; done; }
up() { fullstripe serve --memory 16m "$@" 2> serve.txt & ready; }
all="d0.img d1.img d2.img d3.img"
down() { fullstripe stop --wait; wait $!; }
put() { qemu-io -f raw -c "write -P 7 ${1:-0} 256k" "$uri" > put.txt; }
crash() { kill -KILL $!; wait $! 2> /dev/null || true; flock $PWD/d0.img true; }
is() { fullstripe status --check | grep -F "$1"; }
need() { "$@" > /dev/null 2>&1 || { echo "$*" > lacks.txt; exit 0; }; }
root() { [ "$(id -u)" = 0 ] || { echo root > lacks.txt; exit 0; }; }
other() { setpriv --reuid 65534 --regid 65534 --clear-groups -- "$@"; }
no_io_uring() { python3 -c "
import ctypes, os, struct, sys
# Answers io_uring_setup (425) with an errno.
code = lambda *words: struct.pack('HBBI', *words)
text = code(0x20, 0, 0, 0) + code(0x15, 0, 1, 425) + code(6, 0, 0, 0x50000 | $1) + code(6, 0, 0, 0x7fff0000)
class Filter(ctypes.Structure):
    _fields_ = [('length', ctypes.c_ushort), ('text', ctypes.c_char_p)]
libc = ctypes.CDLL(None)
assert libc.prctl(38, 1, 0, 0, 0) == 0 and libc.prctl(22, 2, ctypes.byref(Filter(4, text)), 0, 0) == 0
os.execvp(sys.argv[1], sys.argv[1:])" "${@:2}"; }
"#;

/// The block that begins with a fence of this kind.
fn block(text: &'static str, kind: &str) -> Option<&'static str> {
    let (_, rest) = text.split_once(&format!("\n```{kind}\n"))?;
    let (lines, _) = rest.split_once("\n```").expect("the block has an end");
    Some(lines)
}

fn entries() -> Vec<Entry> {
    let chapters = PAGE.split("\n## ").skip(1);
    let in_chapter = |text: &'static str| {
        let chapter = text.lines().next().expect("a heading");
        let entries = text.split("\n### ").skip(1);
        entries.map(move |prose| {
            let heading = prose.lines().next().expect("a heading");
            Entry {
                chapter,
                heading,
                message: block(prose, "text").unwrap_or_else(|| panic!("{heading}: no message")),
                cure: block(prose, "sh"),
                prose,
            }
        })
    };
    chapters.flat_map(in_chapter).collect()
}

/// Whether a line is as quoted: `<words>` stand for anything.
fn is_as_quoted(quoted: &str, line: &str) -> bool {
    let mut parts = quoted.split('<');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = line.strip_prefix(first) else {
        return false;
    };
    let literals: Vec<&str> = parts
        .map(|part| part.split_once('>').map_or(part, |(_, literal)| literal))
        .collect();
    let Some((last, between)) = literals.split_last() else {
        return rest.is_empty();
    };
    for literal in between {
        match rest.split_once(literal) {
            Some((_, behind)) => rest = behind,
            None => return false,
        }
    }
    rest.ends_with(last)
}

#[test]
fn what_stands_in_angle_brackets_may_differ_and_nothing_else() {
    assert!(is_as_quoted("no array", "no array"));
    assert!(!is_as_quoted("no array", "no arrays"));
    assert!(is_as_quoted(
        "<drive> has <size>, not <size>",
        "d0 has 1 MiB, not 2 MiB"
    ));
    assert!(is_as_quoted("on <socket>; stop", "on /run/a; stop"));
    assert!(!is_as_quoted("on <socket>; stop", "on /run/a; stop it"));
    assert!(!is_as_quoted("on <socket>; stop", "is on /run/a; stop"));
}

#[test]
fn each_entry_is_provoked_here_or_says_that_it_is_not() {
    let entries = entries();
    let on_page: BTreeSet<&str> = entries.iter().map(|entry| entry.heading).collect();
    assert_eq!(on_page.len(), entries.len(), "a heading occurs twice");
    let here: BTreeSet<&str> = CASES.iter().map(|case| case.heading).collect();
    let unknown: Vec<_> = here.difference(&on_page).collect();
    assert!(unknown.is_empty(), "not on the page: {unknown:?}");
    for entry in &entries {
        let says_no = ["(By hand", "(Message and cure not tried.)"]
            .iter()
            .any(|words| entry.prose.contains(words));
        let case = CASES.iter().find(|case| case.heading == entry.heading);
        assert_eq!(case.is_none(), says_no, "{}", entry.heading);
        let is_run = case.is_some_and(|case| case.after.is_some());
        assert_eq!(entry.cure.is_some(), is_run, "{}", entry.heading);
        let says_no = entry.prose.contains("(Not tried") || says_no;
        assert_eq!(
            is_run, !says_no,
            "{}: the page must say whether its cure is tried",
            entry.heading
        );
    }
}

/// The lines of a cure, with a wait after `serve &` until the server is ready, as a person would.
fn typed(cure: &str) -> String {
    let line = |line: &str| match line.strip_suffix(" &") {
        Some(serve) if serve.contains("--memory") || serve.contains("api-1") => format!("{line}\n"),
        Some(serve) => format!("{serve} --memory 16m 2> served.txt &\nready\n"),
        None => format!("{line}\n"),
    };
    cure.lines().map(line).collect()
}

fn script(case: &Case, cure: Option<&str>) -> String {
    let Case {
        before, provoke, ..
    } = case;
    let cure = typed(cure.unwrap_or_default());
    let after = case.after.unwrap_or("true");
    format!(
        "{WORDS}\nset -e\n{before}\nset +e\n{{ {provoke}\n}} > said.txt 2>&1\nset -e\n{cure}\n\
         until ({after}); do sleep 0.2; done\n"
    )
}

fn try_case(entry: &Entry, case: &Case) -> Result<(), String> {
    let bed = Bed::new(0, 0);
    let real = env!("CARGO_BIN_EXE_fullstripe");
    let bin = bed.path("bin");
    std::fs::create_dir(&bin).expect("a folder");
    let word = bin.join("fullstripe");
    let tied_to_shell = format!("#!/bin/sh\nexec setpriv --pdeathsig KILL -- {real} \"$@\"\n");
    std::fs::write(&word, tied_to_shell).expect("a script");
    std::fs::set_permissions(&word, PermissionsExt::from_mode(0o755)).expect("its mode");
    std::fs::write(bed.path("figures.toml"), SETUP).expect("a file");
    let mut shell = tied(Path::new("/bin/bash"));
    shell
        .args(["-c", &script(case, entry.cure)])
        .current_dir(bed.path("."))
        .env("REAL", real);
    let ended = run(&mut shell, WITHIN_S);
    let read = |name: &str| std::fs::read_to_string(bed.path(name)).ok();
    if let Some(lacks) = read("lacks.txt") {
        println!("{}: skipped, it needs {lacks}", entry.heading);
        return Ok(());
    }
    judge(entry, &read("said.txt").unwrap_or_default(), &ended)
}

fn judge(entry: &Entry, said: &str, ended: &Said) -> Result<(), String> {
    let Entry {
        heading, message, ..
    } = entry;
    let (out, err) = (ended.out.trim(), ended.err.trim());
    let mut lines = said.lines();
    if !lines.any(|line| is_as_quoted(message, line.trim_end())) {
        return Err(format!(
            "{heading}: the page quotes\n{message}\nand the program says\n{said}\n{out}\n{err}"
        ));
    }
    let calm = [said, out, err]
        .iter()
        .all(|text| !text.contains("panicked"));
    match ended.status.success() && calm {
        true => Ok(()),
        false => Err(format!("{heading}: the cure fails\n{out}\n{err}")),
    }
}

#[track_caller]
fn try_chapter(chapter: &str) {
    let entries = entries();
    let mut results = Vec::new();
    for case in CASES {
        let entry = entries.iter().find(|entry| entry.heading == case.heading);
        let entry = entry.unwrap_or_else(|| panic!("not on the page: {}", case.heading));
        if entry.chapter == chapter {
            results.push(try_case(entry, case));
        }
    }
    assert!(!results.is_empty(), "no chapter {chapter}");
    let failures: Vec<String> = results.into_iter().filter_map(Result::err).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn making_an_array() {
    try_chapter("Making an array");
}

#[test]
fn starting_an_array() {
    try_chapter("Starting an array");
}

#[test]
fn the_process_and_its_machine() {
    try_chapter("The process and its machine");
}

#[test]
fn while_it_runs() {
    try_chapter("While it runs");
}

#[test]
fn clients() {
    try_chapter("Clients");
}

#[test]
fn planning() {
    try_chapter("Planning");
}
