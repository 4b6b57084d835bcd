//! Plants bugs one after the other and runs histories of faults until one fails. People run `scripts/planted.sh`, which
//! calls this program.
//!
//! usage: planted [--wide] FROM TO all|first [BUG...]
//!
//! Runs the seeds from FROM up to but not including TO, in histories that an array has to survive: all of them, or
//! until the first that fails. With --wide the histories are those of [`Mode::Wide`]. A BUG called - means no bug.
//! Without BUG, the seeds run without a bug and then with each bug. Prints a line for each: its name, the number of
//! seeds that failed, the number that ran, the first that failed, and how.

use engine::layout::Level;
use planted::{Bug, plant};
use sim::campaign::{Campaign, Summary};
use sim::history::Mode;
use std::process::ExitCode;

/// Levels with redundancy, which seeds use in turn.
const LEVELS: [Level; 4] = [Level::Raid5, Level::Raid1, Level::Raid10, Level::Raid5];

/// Number of seeds that run before the program checks whether one has failed.
const BATCH: u64 = 24;

/// The name that means no bug.
const NONE: &str = "-";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (mode, arguments) = match &arguments[..] {
        [wide, others @ ..] if wide == "--wide" => (Mode::Wide, others),
        others => (Mode::Survivable, others),
    };
    let [from, to, how, names @ ..] = arguments else {
        return usage();
    };
    let (Ok(from), Ok(to)) = (from.parse(), to.parse()) else {
        return usage();
    };
    let mut bugs = vec![None];
    if names.is_empty() {
        bugs.extend(Bug::ALL.iter().copied().map(Some));
    } else {
        bugs.clear();
    }
    for name in names {
        if name == NONE {
            bugs.push(None);
            continue;
        }
        let Some(bug) = Bug::ALL.iter().find(|bug| bug.name() == name) else {
            eprintln!("there is no bug {name}");
            return usage();
        };
        bugs.push(Some(*bug));
    }
    // The failures tell what the bugs break, so panics are not printed.
    std::panic::set_hook(Box::new(|_| {}));
    for bug in bugs {
        plant(bug);
        let (failed, run, first) = look(from..to, how == "first", mode);
        let name = bug.map_or(NONE, Bug::name);
        println!("{name}\t{failed}\t{run}\t{first}");
    }
    ExitCode::SUCCESS
}

fn usage() -> ExitCode {
    eprintln!("usage: planted [--wide] FROM TO all|first [BUG...]");
    ExitCode::from(2)
}

/// Number of seeds that failed, number that ran, and a description of the first failure.
fn look(seeds: std::ops::Range<u64>, until_first: bool, mode: Mode) -> (usize, u64, String) {
    let (mut failed, mut run, mut first) = (0, 0, "-\t-".to_owned());
    let mut at = seeds.start;
    while at < seeds.end && !(until_first && failed > 0) {
        // A seed has the same level whichever other seeds run.
        let end = seeds.end.min((at / BATCH + 1) * BATCH);
        let summary = batch(at..end, mode);
        if let Some(failure) = summary.failures.first().filter(|_| failed == 0) {
            first = format!("{}\t{}", failure.seed, failure.failure);
        }
        failed += summary.failures.len();
        run += summary.histories;
        at = end;
    }
    (failed, run, first.replace('\n', " "))
}

fn batch(seeds: std::ops::Range<u64>, mode: Mode) -> Summary {
    let turn = seeds.start / BATCH % LEVELS.len() as u64;
    let campaign = Campaign {
        seeds,
        level: Some(LEVELS[turn as usize]),
        mode: Some(mode),
        jobs: std::thread::available_parallelism().map_or(1, usize::from),
        twice: false,
    };
    campaign.run_without_shrinking(|_| {}, |_| {})
}
