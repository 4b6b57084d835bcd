//! How many commands per second one drive model completes on one core, without the loop around it.
//!
//! ```text
//! cargo run --release -p models --example drive_speed
//! ```

// The module holds more loads than this example uses.
#[allow(dead_code, unused_imports)]
#[path = "../tests/all/support/mod.rs"]
mod support;

use models::drive::{Command, Operation, State};
use repeatable::random::mix;
use std::time::Instant;
use support::{Load, drive_of, family};

const COMMANDS: u64 = 4_000_000;

fn commands_per_s(state: State, load: Load) -> f64 {
    let profile = family()
        .member("p4510-8tb")
        .unwrap_or_else(|error| panic!("{error}"));
    let mut drive = drive_of(&profile, state);
    let slots = profile.capacity_bytes / load.length_bytes - 1;
    // Like a closed loop, without its cost: the command submitted QD commands ago has completed.
    let mut done_ns = vec![0; (load.threads * load.depth) as usize];
    let depth = done_ns.len();
    let mut now_ns = 0;
    let started = Instant::now();
    for number in 0..COMMANDS {
        let slot = if load.in_order {
            number / load.threads + number % load.threads * (slots / load.threads)
        } else {
            mix(number) % slots
        };
        let is_read = number * 7 % 100 < load.read_pct;
        let answered_ns = &mut done_ns[number as usize % depth];
        now_ns = now_ns.max(*answered_ns);
        let command = Command {
            operation: if is_read {
                Operation::Read
            } else {
                Operation::Write
            },
            offset_bytes: slot * load.length_bytes,
            length_bytes: load.length_bytes,
        };
        *answered_ns = drive.submit(command, now_ns).done_ns;
    }
    COMMANDS as f64 / started.elapsed().as_secs_f64()
}

fn main() {
    for (name, state, load) in [
        (
            "4 KiB random reads, QD 128",
            State::Steady,
            Load::random(100, 8, 16),
        ),
        (
            "4 KiB random writes, QD 32",
            State::Steady,
            Load::random(0, 8, 4),
        ),
        (
            "4 KiB 70/30 mix, QD 64",
            State::Steady,
            Load::random(70, 8, 8),
        ),
        (
            "128 KiB reads in order, QD 16",
            State::Filled,
            Load::in_order(100, 8, 2),
        ),
    ] {
        let per_s = commands_per_s(state, load);
        println!("{name}: {:.2} M commands per second", per_s / 1e6);
    }
}
