//! Whole measurements, but short ones: their figures must be consistent, however slow the machine is.

use super::config::{BenchJob, Config, Workload};
use super::outcome::BenchOutcome;
use super::{counted, job, measure, report};
use drives::completion::CompletionMode;
use engine::layout::Level;
use metadata::imsm::WriteHolePolicy;
use std::time::Duration;

pub(super) fn config(level: Level, member: &str, count: u8) -> Config {
    Config {
        level,
        member: member.to_owned(),
        count,
        workload: Workload {
            read_percent: 50,
            random: true,
        },
        block_bytes: 4096,
        queue_depth: 16,
        shards: 1,
        failed: None,
        chunk_bytes: 65_536,
        write_hole: WriteHolePolicy::Off,
        time: Duration::from_millis(200),
        completion: CompletionMode::Interrupt,
        overwrite: false,
    }
}

fn assert_sane(config: &Config, outcome: &BenchOutcome) {
    let BenchOutcome {
        array, latency_ns, ..
    } = outcome;
    assert!(
        array.iops > 0.0 && array.cores > 0.0,
        "{config:?}: {array:?}"
    );
    assert!(outcome.bare.iops > 0.0 && outcome.generator.iops > 0.0);
    assert!(latency_ns.p50 <= latency_ns.p99 && latency_ns.p99 <= latency_ns.max);
    // Latency times throughput is the number outstanding. The bounds are loose, because the rounds differ.
    let outstanding = array.iops * latency_ns.mean / 1e9;
    let depth = f64::from(config.queue_depth);
    assert!(
        outstanding > depth * 0.3 && outstanding < depth * 3.0,
        "{outstanding} of {depth}"
    );
    assert_eq!(outcome.rounds_iops.len(), 5);
    assert!(text_has_figures(&report::text(outcome)));
}

fn text_has_figures(text: &str) -> bool {
    ["IOPS", "latency in us", "roofline"]
        .iter()
        .all(|name| text.contains(name))
}

#[test]
fn every_level_on_memory() {
    for (level, count, ios) in [
        (Level::Raid0, 2, 1.0),
        (Level::Raid1, 2, 1.5),
        (Level::Raid10, 4, 1.5),
        (Level::Raid5, 4, 2.5),
    ] {
        let config = config(level, "ram:4m", count);
        let outcome = measure(&config).unwrap();
        assert_sane(&config, &outcome);
        assert!(
            (outcome.member_ios - ios).abs() < 0.3,
            "{level}: {}",
            outcome.member_ios
        );
        assert_eq!(outcome.roofline, "not limited by members");
    }
}

#[test]
fn shards_share_the_work_and_the_depth() {
    for level in [Level::Raid0, Level::Raid5] {
        let config = Config {
            shards: 2,
            ..config(level, "ram:4m", 3)
        };
        assert_sane(&config, &measure(&config).unwrap());
    }
}

#[test]
fn a_missing_member_is_read_around() {
    let workload = Workload {
        read_percent: 100,
        random: true,
    };
    let config = Config {
        failed: Some(1),
        workload,
        ..config(Level::Raid5, "ram:4m", 4)
    };
    let outcome = measure(&config).unwrap();
    assert_sane(&config, &outcome);
    assert!(
        (outcome.member_ios - 1.5).abs() < 0.1,
        "{}",
        outcome.member_ios
    );
}

#[test]
fn full_stripes_read_nothing() {
    let workload = Workload {
        read_percent: 0,
        random: false,
    };
    let block_bytes = 2 * 16_384;
    let config = Config {
        workload,
        block_bytes,
        chunk_bytes: 16_384,
        ..config(Level::Raid5, "ram:4m", 3)
    };
    let outcome = measure(&config).unwrap();
    assert_sane(&config, &outcome);
    assert!((outcome.member_bytes_per_byte - 1.5).abs() < 0.01);
}

#[test]
fn throttled_members_give_a_roofline_that_is_not_passed() {
    let workload = Workload {
        read_percent: 100,
        random: true,
    };
    let config = Config {
        workload,
        ..config(Level::Raid0, "null:1g,read-iops=5k,write-iops=5k", 2)
    };
    let outcome = measure(&config).unwrap();
    assert_eq!(outcome.roofline_iops, Some(10_000.0));
    assert!(
        outcome.efficiency.unwrap() < 1.1,
        "{:?}",
        outcome.rounds_iops
    );
}

#[test]
fn modelled_members_are_no_faster_than_their_models() {
    // Few enough requests that a debug build on a busy machine can keep up.
    for (level, read_percent) in [(Level::Raid0, 100), (Level::Raid5, 0)] {
        let workload = Workload {
            read_percent,
            random: true,
        };
        let config = Config {
            workload,
            ..config(level, "ram:4m,model=p4510-2tb", 3)
        };
        let outcome = measure(&config).unwrap();
        assert_sane(&config, &outcome);
        assert_eq!(outcome.raid_ns_per_io, None);
        let notes = outcome.notes.join("; ");
        assert!(
            notes.contains("those of the model, alone in a closed loop of depth"),
            "{notes}"
        );
        assert!(
            outcome.efficiency.unwrap() < 1.15,
            "{:?}",
            outcome.rounds_iops
        );
    }
}

#[test]
fn files_are_members_too() {
    let folder = tempfile::tempdir().unwrap();
    for index in 0..3 {
        let file = std::fs::File::create(folder.path().join(format!("d{index}.img"))).unwrap();
        file.set_len(4 << 20).unwrap();
    }
    let member = folder.path().join("d{}.img").display().to_string();
    let config = config(Level::Raid5, &member, 3);
    let outcome = measure(&config).unwrap();
    assert!(outcome.array.iops > 0.0);
    // The first dirty mark has been written behind the data.
    let bytes = std::fs::read(folder.path().join("d0.img")).unwrap();
    assert_eq!(&bytes[3 << 20..][..16], b"fullstripe bench");
}

#[test]
fn jobs_move_the_bytes_that_they_should() {
    for (level, count, slot) in [
        (Level::Raid1, 2, None),
        (Level::Raid10, 4, Some(1)),
        (Level::Raid5, 4, Some(3)),
    ] {
        let config = Config {
            failed: slot,
            ..config(level, "ram:8m", count)
        };
        let rebuilt = job::measure(&config, BenchJob::Rebuild).unwrap();
        assert!(rebuilt.rebuild_bytes_per_s.unwrap() > 0.0 && rebuilt.jobs_complete > 0);
        assert_eq!(rebuilt.scrub_bytes_per_s, None);
        assert!(rebuilt.text().contains("MB/s of the new member"));
        let scrubbed = job::measure(&config, BenchJob::Scrub).unwrap();
        assert!(scrubbed.scrub_bytes_per_s.unwrap() > 0.0 && scrubbed.jobs_complete > 0);
        let stats = serde_json::to_value(&scrubbed).unwrap()["stats"].clone();
        assert_eq!(stats["member_writes"], 0);
        assert_eq!(stats["mismatches"], 0);
    }
}

#[test]
fn shards_share_a_job() {
    let config = Config {
        shards: 2,
        ..config(Level::Raid5, "ram:8m", 3)
    };
    let rebuilt = job::measure(&config, BenchJob::Rebuild).unwrap();
    assert!(rebuilt.rebuild_bytes_per_s.unwrap() > 0.0);
}

#[test]
fn a_job_without_redundancy_is_refused() {
    let config = config(Level::Raid0, "ram:8m", 2);
    let error = job::measure(&config, BenchJob::Scrub).unwrap_err();
    assert!(error.to_string().contains("give --level 1, 5 or 10"));
}

/// New files as members, because the kernel releases the files of a closed ring only some time later.
fn four_files(folder: &std::path::Path) -> String {
    for index in 0..4 {
        let file = std::fs::File::create(folder.join(format!("d{index}.img"))).unwrap();
        file.set_len(4 << 20).unwrap();
    }
    folder.join("d{}.img").display().to_string()
}

/// A thread allocates only before its first request and after its last one.
#[test]
fn no_request_allocates() {
    let limited = "ram:4m,read-iops=500k,write-iops=500k";
    let modelled = "ram:4m,model=p4510-2tb";
    for member in ["ram:4m", limited, modelled, "files"] {
        for (level, failed, write_hole) in [
            (Level::Raid0, None, WriteHolePolicy::Off),
            (Level::Raid10, None, WriteHolePolicy::Off),
            (Level::Raid10, Some(1), WriteHolePolicy::Off),
            (Level::Raid10, None, WriteHolePolicy::Bitmap),
            (Level::Raid5, None, WriteHolePolicy::Off),
            (Level::Raid5, None, WriteHolePolicy::Log),
            (Level::Raid5, Some(1), WriteHolePolicy::Log),
            (Level::Raid5, None, WriteHolePolicy::Bitmap),
        ] {
            let allocations = |requests| {
                let folder = tempfile::tempdir().unwrap();
                let member = match member {
                    "files" => four_files(folder.path()),
                    member => member.to_owned(),
                };
                let config = Config {
                    failed,
                    write_hole,
                    overwrite: true,
                    ..config(level, &member, 4)
                };
                counted::measure(&config, requests).unwrap().allocations
            };
            let (many, few) = (allocations(3000), allocations(300));
            assert_eq!(many, few, "{level} on {member}, {failed:?}, {write_hole:?}");
        }
    }
}

#[test]
fn a_number_of_requests_is_the_same_work_every_time() {
    for (level, count) in [(Level::Raid0, 2), (Level::Raid1, 2), (Level::Raid5, 4)] {
        let config = config(level, "ram:4m", count);
        let once = counted::measure(&config, 1000).unwrap();
        let again = counted::measure(&config, 1000).unwrap();
        let stats = |outcome: &counted::CountedOutcome| {
            let mut counters = serde_json::to_value(&outcome.stats).unwrap();
            // Sweeps for deadlines follow the clock, four a second, so their number depends on the machine's speed.
            counters.as_object_mut().unwrap().remove("sweeps").unwrap();
            counters
        };
        assert_eq!(stats(&once), stats(&again));
        let counters = stats(&once);
        let done = counters["reads"].as_u64().unwrap() + counters["writes"].as_u64().unwrap();
        assert_eq!(done, 1000);
        assert!(once.text().contains("requests                      1000\n"));
    }
    let nothing = counted::measure(&config(Level::Raid0, "ram:4m", 2), 0).unwrap_err();
    assert!(nothing.to_string().contains("give at least 1"));
}

/// Members in memory answer while a request is carried out, and its next stage then begins in the same turn.
#[test]
fn a_request_over_members_in_memory_takes_one_turn() {
    for (level, member) in [(Level::Raid0, "null:1g"), (Level::Raid5, "ram:16m")] {
        let requests = 1000;
        let config = Config {
            workload: Workload {
                read_percent: 0,
                random: true,
            },
            queue_depth: 1,
            ..config(level, member, 4)
        };
        let counters = counted::measure(&config, requests).unwrap().stats;
        let turns = counters.sum(&["turns"]);
        assert!(
            (requests..requests + 20).contains(&turns),
            "{level:?}: {turns} turns"
        );
    }
}

/// Where requests wait for plans, a turn must not free plans faster than requests follow: queued writes would take them,
/// and nearly all writes would need plans.
#[test]
fn mirrored_writes_need_few_plans_where_more_are_outstanding_than_there_are_plans() {
    let config = Config {
        workload: Workload {
            read_percent: 0,
            random: true,
        },
        queue_depth: 4096,
        ..config(Level::Raid10, "null:64g", 4)
    };
    let requests = 100_000;
    let planned = counted::measure(&config, requests)
        .unwrap()
        .stats
        .sum(&["plans_write"]);
    assert!(
        planned < requests / 4,
        "{planned} of {requests} writes were planned"
    );
}
