//! The program under a tool that counts its instructions: it runs there, and the counts follow the work done.
//!
//! `make bench-gate` and the cost table depend on this, and no other test would notice if it broke.

use crate::common::{run, tool};
use serde_json::Value;

/// Instructions of the program with `arguments`, and what it printed.
fn counted(arguments: &str) -> (f64, Value) {
    let mut command = tool("valgrind");
    command
        .args([
            "--tool=cachegrind",
            "--cache-sim=no",
            "--cachegrind-out-file=/dev/null",
        ])
        .arg(env!("CARGO_BIN_EXE_fullstripe"))
        .args(arguments.split_whitespace());
    let said = run(&mut command, 300).ok();
    let line = said.err.lines().find(|line| line.contains(" refs:"));
    let count = line
        .and_then(|line| line.rsplit(' ').next())
        .expect("a count");
    let printed = serde_json::from_str(&said.out).expect("JSON");
    (count.replace(',', "").parse().expect("a number"), printed)
}

#[test]
fn twice_the_requests_take_twice_the_instructions_beyond_the_start() {
    let counts = [250, 500, 1000].map(|requests| {
        let line = "bench --level 5 --member ram:4m --count 3 --rw randwrite --json --requests";
        let (count, said) = counted(&format!("{line} {requests}"));
        assert_eq!(said["stats"]["writes"], requests);
        count
    });
    let (first, second) = (counts[1] - counts[0], counts[2] - counts[1]);
    let ratio = second / first;
    assert!((1.8..2.2).contains(&ratio), "{counts:?}");
}

/// The assumption behind the cost table, on a small example: the instructions of a mix follow from how often each
/// kind of work occurred in it, and from the cost of that kind alone. `make bench-gate` checks the table itself, within a tenth and
/// on the optimised program; in a build for tests what the table leaves out costs up to a tenth, as the compiler divides the code.
#[test]
fn a_mix_costs_what_its_parts_cost() {
    let scene = |name: &str| {
        let run = |units| counted(&format!("bench --cost-scene {name} --requests {units}"));
        // So many that what the start costs, which varies by thousands of instructions on a busy machine, does not count.
        let ((less, before), (more, after)) = (run(200), run(1200));
        let done = |counter: &str| {
            let count = |said: &Value| said["counters"][counter].as_f64().unwrap();
            count(&after) - count(&before)
        };
        (more - less, done("reads"), done("writes"))
    };
    let (reading, reads, no_writes) = scene("raid0-of-4-read-4k");
    let (writing, no_reads, writes) = scene("raid0-of-4-write-4k");
    assert_eq!((no_reads, no_writes), (0.0, 0.0));
    let (mixed, some_reads, some_writes) = scene("raid0-of-6-check-mix-8k");
    assert!(some_reads > some_writes && some_writes > 0.0);
    let predicted = reading / reads * some_reads + writing / writes * some_writes;
    let off = predicted / mixed - 1.0;
    assert!(off.abs() < 0.15, "{off:+.3}: {predicted} for {mixed}");
}
