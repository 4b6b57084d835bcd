//! What makes figures of fio doubtful: known faults of its versions, options that measure something else than they seem to, and
//! figures that contradict each other.
//!
//! | rule | source |
//! |---|---|
//! | a rate drains what is in flight before each pause | fio's io_u.c of 2026; issues 635, 1394 and 1751 of axboe/fio |
//! | `io_submit_mode=offload` hangs or stops in 3.33 | runs of 3.33; axboe/fio 2058 |
//! | completion latencies with `sqthread_poll` are wrong before 3.34 | fio's commit c011bf12; a run of 3.33 |
//! | a steady state by fio is one criterion, not SNIA's two | fio's steadystate.c; SNIA PTS 2.0.2 |

use super::file::{FioFile, Run, Version};

/// The oldest version that the rules were checked with: that of Debian 12.
pub const OLDEST: Version = Version {
    major: 3,
    minor: 33,
};
/// The first version whose completion latencies are right with a polling thread of the kernel.
const SQPOLL_MENDED: Version = Version {
    major: 3,
    minor: 34,
};
/// Share of the demanded rate that counts as met.
const MET: f64 = 0.99;
/// Effective queue depths may exceed the configured one by this much: both figures are rounded, and begin at different moments.
const DEPTH_TOLERANCE: f64 = 1.1;

/// What makes the figures of a run doubtful, a sentence each.
#[must_use]
pub fn of(file: &FioFile, run: &Run) -> Vec<String> {
    let is_set = |option: &str| run.options.get(option).is_some_and(|value| value != "0");
    let mut marks = Vec::new();
    let mut say = |sentence: String| marks.push(sentence);
    if run.error != 0 {
        say(format!(
            "the job ended with error {}: its figures are of a part of it",
            run.error
        ));
    }
    if file.version < OLDEST {
        say(format!(
            "fio {} is older than {OLDEST}, the oldest version whose faults are known here",
            file.version
        ));
    }
    if is_set("sqthread_poll") && file.version < SQPOLL_MENDED {
        say(format!(
            "fio {} gets completion latencies wrong with sqthread_poll (mended in {SQPOLL_MENDED}): use a newer fio",
            file.version
        ));
    }
    if run
        .options
        .get("io_submit_mode")
        .is_some_and(|mode| mode == "offload")
    {
        say(
            "io_submit_mode=offload is unreliable with asynchronous engines: leave it out"
                .to_owned(),
        );
    }
    if ["rate", "rate_iops"].iter().any(|option| is_set(option)) {
        say(
            "fio lets everything in flight end before it pauses for its rate, so requests that should have waited are missing from the \
             latencies"
                .to_owned(),
        );
    }
    if let Some(demanded) = demanded_iops(run)
        && run.iops < MET * demanded
    {
        say(format!(
            "{demanded:.0} requests a second were demanded and {:.0} were done",
            run.iops
        ));
    }
    if is_set("steadystate") {
        say("fio's steady state is one criterion, not the two of SNIA".to_owned());
    }
    if !is_set("direct") && !is_set("buffered") && uses_the_page_cache(run) {
        say("without direct=1 these are figures of the page cache".to_owned());
    }
    if run.short_requests > 0 {
        say(format!(
            "{} requests transferred less than they should have",
            run.short_requests
        ));
    }
    marks.extend(of_percentiles(run));
    marks
}

fn of_percentiles(run: &Run) -> Option<String> {
    if run.told().bins.is_empty() {
        return Some(
            "there is no histogram: percentiles have no interval and those of several runs cannot be put together; \
             --output-format=json+ keeps it"
                .to_owned(),
        );
    }
    run.total.bins.is_empty().then(|| {
        "percentiles are from the kernel's acceptance to completion; lat_percentiles=1 counts from submission".to_owned()
    })
}

/// Requests per second that all threads of the job were to issue in this direction.
fn demanded_iops(run: &Run) -> Option<f64> {
    // RATE for both directions, or READS,WRITES,TRIMS.
    let rates: Vec<&str> = run.options.get("rate_iops")?.split(',').collect();
    let rate = match rates.as_slice() {
        [one] => one,
        several => several.get(run.direction as usize)?,
    };
    let rate: f64 = rate.parse().ok()?;
    (rate > 0.0).then(|| rate * run.number("numjobs").unwrap_or(1) as f64)
}

/// Whether the engine goes through the page cache unless told otherwise.
fn uses_the_page_cache(run: &Run) -> bool {
    let engine = run.options.get("ioengine").map_or("psync", String::as_str);
    [
        "psync", "sync", "vsync", "pvsync", "pvsync2", "libaio", "io_uring", "posixaio", "mmap",
    ]
    .contains(&engine)
}

/// That more was outstanding than could be.
pub fn of_depth(run: &Run, depth: f64) -> Option<String> {
    let of_each = run.number("iodepth").unwrap_or(1);
    let most = of_each * run.number("numjobs").unwrap_or(1);
    (depth > most as f64 * DEPTH_TOLERANCE).then(|| {
        format!(
            "rate and mean latency contradict each other: together they mean {depth:.1} outstanding requests, and at most {most} were \
             allowed"
        )
    })
}
