//! A load as a job file of fio, for a closed loop on a block device, a file, or a volume that is served over NBD.
//!
//! What fio does badly is refused, with the reason and with what does it better, instead of written into a file whose result
//! would look right: a demanded rate (fio drains what is in flight before each pause), the certification test ACT, hybrid
//! polling. Each thread of a load in order has a region of its own, as our own generators give it.

use crate::workload::{Api, Completion, Operation, Workload};
use std::fmt::Write as _;

/// Where a job's requests go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Target {
    /// A block device or a file.
    Path(String),
    /// A volume: `nbd+unix:///NAME?socket=PATH`, or `nbd://HOST/NAME`.
    Nbd(String),
}

impl Target {
    /// What the user wrote: a path, or the address of an NBD server.
    #[must_use]
    pub fn of(text: &str) -> Target {
        let is_address = text.starts_with("nbd:") || text.starts_with("nbd+unix:");
        if is_address {
            Target::Nbd(text.to_owned())
        } else {
            Target::Path(text.to_owned())
        }
    }
}

/// Seconds that are measured, and before them those that are not, unless a load says so: AnandTech's four minutes, the first of
/// which does not count.
const SECONDS: u32 = 180;
const SKIPPED_SECONDS: u32 = 60;

/// The job file of a load.
///
/// # Errors
/// fio cannot do this load, or does it so that its figures mislead: a sentence without its full stop.
pub fn text(name: &str, load: &Workload, target: &Target) -> Result<String, String> {
    refuse(load)?;
    refuse_names(name, target)?;
    let mut text = String::new();
    if writes(load) {
        let _ = writeln!(
            text,
            "# This job writes to {}: what is there is lost.",
            place(target)
        );
    }
    let _ = writeln!(text, "[{name}]");
    for (option, value) in options(load, target)? {
        let _ = writeln!(text, "{option}={value}");
    }
    Ok(text)
}

/// Whether the job of a load destroys what is on its target.
#[must_use]
pub fn writes(load: &Workload) -> bool {
    load.read_percent() != Some(100)
}

fn place(target: &Target) -> &str {
    match target {
        Target::Path(text) | Target::Nbd(text) => text,
    }
}

/// Refuses names that fio would take for something else: it cuts a value at `#` and `;`, trims it, and replaces `$` and what follows, so
/// requests would go to another file. In the name of a job anything could be hidden behind the end of its line.
fn refuse_names(job: &str, target: &Target) -> Result<(), String> {
    let is_plain = |letter: char| letter.is_ascii_alphanumeric() || " ._-".contains(letter);
    if !job.chars().all(is_plain) || job.trim() != job || job.is_empty() || job == "global" {
        return Err(format!(
            "fio cannot have a job called {job:?}; use letters, digits, blanks inside, dots, underscores and hyphens"
        ));
    }
    let place = place(target);
    if place.trim() != place || place.contains(['#', ';', '$']) || place.contains(char::is_control)
    {
        return Err(format!(
            "fio would take {place:?} for another file, because of a blank at its end or one of # ; $ in it; rename it, or use a link to it"
        ));
    }
    Ok(())
}

/// Most threads in order: fio places their regions in whole percent of the target.
const THREADS_IN_ORDER_MAX: u32 = 100;

fn refuse(load: &Workload) -> Result<(), String> {
    let is_in_order = matches!(
        load.op,
        Operation::Read | Operation::Write | Operation::SeqMix
    );
    let refused = if is_in_order && load.threads > THREADS_IN_ORDER_MAX {
        "fio has regions of whole percents only, so at most 100 threads can go in order"
    } else if load.op == Operation::Act {
        "fio has no certification test ACT; Aerospike's own program runs it"
    } else if load.op == Operation::Replay {
        "fio's own option read_iolog replays traces, in its own way; leave this load out"
    } else if load.is_open() {
        "fio lets everything in flight end before it pauses for a demanded rate, so its latencies under a rate are not those of clients \
         that keep asking; leave out demand_iops or demand_pct"
    } else if load.completion == Some(Completion::Hybrid) {
        "fio has no hybrid polling with io_uring; leave out completion"
    } else {
        return Ok(());
    };
    Err(refused.to_owned())
}

fn options(load: &Workload, target: &Target) -> Result<Vec<(&'static str, String)>, String> {
    let is_sync = load.api == Some(Api::Sync);
    let mut all: Vec<(&'static str, String)> = Vec::new();
    let mut set = |option, value: String| all.push((option, value));
    match target {
        Target::Path(path) => {
            // fio takes a colon for the end of a name.
            set("filename", path.replace(':', "\\:"));
            set(
                "ioengine",
                if is_sync { "psync" } else { "io_uring" }.to_owned(),
            );
            set("direct", "1".to_owned());
            if !is_sync {
                set("registerfiles", "1".to_owned());
            }
        }
        Target::Nbd(_) if is_sync || load.completion == Some(Completion::Polled) => {
            return Err("over NBD there is neither api = \"sync\" nor completion = \"polled\"; leave both out".to_owned());
        }
        Target::Nbd(uri) => {
            set("uri", uri.clone());
            set("ioengine", "nbd".to_owned());
        }
    }
    if load.completion == Some(Completion::Polled) {
        set("hipri", "1".to_owned());
    }
    set("rw", kind(load.op).to_owned());
    if let Some(reads) = load.read_pct {
        set("rwmixread", reads.to_string());
    }
    let bytes = load.bs.expect("every load but ACT has a size").bytes();
    set("bs", bytes.to_string());
    set("numjobs", load.threads.to_string());
    set("iodepth", load.qd.unwrap_or(1).to_string());
    match load.align.map(|align| align.bytes()) {
        Some(align) if align < bytes => set("offset", align.to_string()),
        Some(align) => set("blockalign", align.to_string()),
        None => {}
    }
    all.extend(region(load));
    all.extend(hot(load));
    all.extend(usual(load));
    Ok(all)
}

fn kind(op: Operation) -> &'static str {
    match op {
        Operation::RandRead => "randread",
        Operation::RandWrite => "randwrite",
        Operation::Read => "read",
        Operation::Write => "write",
        Operation::RandMix => "randrw",
        Operation::SeqMix => "rw",
        Operation::Act | Operation::Replay => unreachable!("it is refused"),
    }
}

/// Each thread in order has a region of its own; together they cover the target but for less than a percent of each.
fn region(load: &Workload) -> Vec<(&'static str, String)> {
    let in_order = matches!(
        load.op,
        Operation::Read | Operation::Write | Operation::SeqMix
    );
    if !in_order || load.threads == 1 {
        return Vec::new();
    }
    let percent = (100 / load.threads).max(1);
    let each = format!("{percent}%");
    vec![("size", each.clone()), ("offset_increment", each)]
}

/// Part of the requests goes to the beginning of the target.
fn hot(load: &Workload) -> Option<(&'static str, String)> {
    let (access, span) = (load.hot_access_pct?, load.hot_span_pct?);
    let zones = format!("zoned:{access}/{span}:{}/{}", 100 - access, 100 - span);
    Some(("random_distribution", zones))
}

/// What every job has: as long as a load says, other random numbers each time, content that does not compress, the histogram of
/// the time from submission on, and one result for all threads.
fn usual(load: &Workload) -> Vec<(&'static str, String)> {
    let seconds = |value: Option<u32>, usual: u32| value.unwrap_or(usual).to_string();
    let mut all = vec![
        ("time_based", "1".to_owned()),
        ("runtime", seconds(load.seconds, SECONDS)),
        (
            "ramp_time",
            seconds(
                load.skip_seconds,
                if load.seconds.is_some() {
                    0
                } else {
                    SKIPPED_SECONDS
                },
            ),
        ),
        ("randrepeat", "0".to_owned()),
        ("norandommap", "1".to_owned()),
        ("group_reporting", "1".to_owned()),
        ("lat_percentiles", "1".to_owned()),
        (
            "percentile_list",
            "50:90:95:99:99.9:99.99:99.999".to_owned(),
        ),
    ];
    if writes(load) {
        all.push(("refill_buffers", "1".to_owned()));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::size::Size;

    fn load(op: &str, more: &str) -> Workload {
        let text = format!("op = \"{op}\"\nbs = \"4k\"\nthreads = 4\nqd = 8\n{more}");
        toml::from_str(&text).unwrap_or_else(|why| panic!("{text}: {why}"))
    }

    fn of(load: &Workload) -> String {
        text("load", load, &Target::of("/dev/nvme0n1")).expect("fio can do it")
    }

    #[test]
    fn a_load_is_a_job_with_the_same_requests() {
        let job = of(&load(
            "randmix",
            "read_pct = 70\nseconds = 30\nskip_seconds = 5",
        ));
        assert!(
            job.starts_with("# This job writes to /dev/nvme0n1: what is there is lost.\n[load]\n"),
            "{job}"
        );
        for line in [
            "filename=/dev/nvme0n1",
            "ioengine=io_uring",
            "direct=1",
            "rw=randrw",
            "rwmixread=70",
            "bs=4096",
            "numjobs=4",
            "iodepth=8",
            "runtime=30",
            "ramp_time=5",
            "lat_percentiles=1",
            "refill_buffers=1",
        ] {
            assert!(job.lines().any(|other| other == line), "{line}: {job}");
        }
        let reads = of(&load("randread", ""));
        assert!(
            reads.starts_with("[load]\n") && reads.contains("runtime=180\nramp_time=60\n"),
            "{reads}"
        );
        assert!(
            !reads.contains("offset") && !reads.contains("refill_buffers"),
            "{reads}"
        );
    }

    #[test]
    fn regions_alignment_hot_parts_and_ways_of_submitting_are_kept() {
        let mut all = vec![
            (load("read", ""), "size=25%\noffset_increment=25%\n"),
            (load("randread", "align = \"8k\""), "blockalign=8192\n"),
            (load("randread", "align = \"512\""), "offset=512\n"),
            (
                load("randread", "hot_access_pct = 90\nhot_span_pct = 10"),
                "random_distribution=zoned:90/10:10/90\n",
            ),
            (load("randread", "completion = \"polled\""), "hipri=1\n"),
        ];
        let mut sync = load("randread", "api = \"sync\"");
        sync.qd = None;
        all.push((
            sync,
            "ioengine=psync\ndirect=1\nrw=randread\nbs=4096\nnumjobs=4\niodepth=1\n",
        ));
        for (load, lines) in all {
            let job = of(&load);
            assert!(job.contains(lines), "{lines}: {job}");
        }
        let mut one = load("write", "");
        one.threads = 1;
        one.bs = Size::new(128 << 10);
        assert!(!of(&one).contains("offset_increment") && of(&one).contains("bs=131072"));
    }

    #[test]
    fn a_volume_over_nbd_has_fios_own_client() {
        let target = Target::of("nbd+unix:///vol0?socket=/run/nbd.sock");
        let job = text("load", &load("randread", ""), &target).expect("fio can do it");
        assert!(
            job.contains("uri=nbd+unix:///vol0?socket=/run/nbd.sock\nioengine=nbd\n"),
            "{job}"
        );
        assert!(
            !job.contains("direct=") && !job.contains("filename="),
            "{job}"
        );
        let polled = text(
            "load",
            &load("randread", "completion = \"polled\""),
            &target,
        )
        .unwrap_err();
        assert!(polled.contains("over NBD there is neither"), "{polled}");
    }

    #[test]
    fn what_fio_does_badly_is_refused() {
        let of = |load: &Workload| text("load", load, &Target::of("file")).unwrap_err();
        let demanded = of(&load("randread", "demand_iops = 1000"));
        assert!(
            demanded.contains("leave out demand_iops or demand_pct"),
            "{demanded}"
        );
        let hybrid = of(&load("randread", "completion = \"hybrid\""));
        assert!(hybrid.contains("no hybrid polling"), "{hybrid}");
        let act: Workload =
            toml::from_str("op = \"act\"\nthreads = 4\ndemand_iops = 3000").expect("it is a load");
        assert!(of(&act).contains("ACT"));
    }

    #[test]
    fn names_that_fio_would_take_for_something_else_are_refused() {
        let reads = load("randread", "");
        for place in ["disk#1", "disk;1", "disk$ncpus", "disk ", " disk", "di\nsk"] {
            let refused = text("load", &reads, &Target::of(place)).unwrap_err();
            assert!(refused.contains("another file"), "{place:?}: {refused}");
        }
        for job in ["a\nexec_prerun=touch x\n;", "global", "a]b", "", " a"] {
            let refused = text(job, &reads, &Target::of("disk")).unwrap_err();
            assert!(refused.contains("cannot have a job called"), "{refused}");
        }
        assert!(
            text(
                "4k reads_8-x.1",
                &reads,
                &Target::of("/dev/disk/by-id/nvme-a:1")
            )
            .is_ok()
        );
        let mut wide = load("read", "");
        wide.threads = 101;
        let refused = text("load", &wide, &Target::of("disk")).unwrap_err();
        assert!(refused.contains("at most 100 threads"), "{refused}");
    }
}
