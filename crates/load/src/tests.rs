//! Loads on targets whose behaviour is known: memory, limited members and modelled drives.

mod resuming;
mod traces;

use super::requests::Traces;
use super::session::{Found, Session};
use super::target::Target;
use lab::schema::measurement::Measurement;
use lab::schema::metric::{Metric, Statistic};
use lab::schema::results::Metrics;
use lab::workload::Workload;

fn load(text: &str) -> Workload {
    let load: Workload = toml::from_str(text).unwrap_or_else(|why| panic!("{text}: {why}"));
    load.check().unwrap_or_else(|why| panic!("{text}: {why:?}"));
    load
}

fn session(loads: &[(&str, &str)], runs: u32) -> Session {
    let loads = loads
        .iter()
        .map(|(name, text)| ((*name).to_owned(), load(text)));
    Session {
        loads: loads.collect(),
        traces: Traces::new(),
        runs,
        seconds: 1,
        skip_seconds: 0,
        seed: 1,
        by_fio: false,
    }
}

fn found(target: &str, session: &Session) -> Found {
    let mut target = Target::open(target, session.writes(), Some(target)).expect("it opens");
    let prepared = session.prepare(&mut target).expect("it fits");
    prepared.run(None, |_| ()).expect("it runs")
}

fn measurement(found: &Found, at: usize) -> &Measurement {
    let measurement = found.results.points[at].measurement.as_ref();
    measurement.expect("it was measured")
}

fn value(found: &Found, at: usize, metric: Metric) -> f64 {
    found.results.points[at].metrics[&metric].value
}

#[test]
fn a_demanded_rate_is_kept_and_latency_is_that_of_the_target() {
    let paced = "op = \"randread\"\nbs = \"4k\"\nthreads = 2\nqd = 16\ndemand_iops = 2000";
    let poisson = format!("{paced}\narrivals = \"poisson\"");
    let session = session(&[("paced", paced), ("poisson", &poisson)], 2);
    let found = found("ram:64m,latency=2ms", &session);
    assert!(found.failure.is_none());
    for at in 0..2 {
        let iops = value(&found, at, Metric::Iops);
        // A busy machine may delay the last of them beyond the end.
        assert!((1500.0..2200.0).contains(&iops), "{iops}");
        let [service, response] = [
            Metric::Latency(Statistic::Mean),
            Metric::Response(Statistic::Mean),
        ]
        .map(|metric| value(&found, at, metric));
        assert!(
            2000.0 <= service && service <= response,
            "{service} {response}"
        );
        let depth = measurement(&found, at).effective_queue_depth;
        assert!((depth - iops * service / 1e6).abs() < 0.1, "{depth}");
        assert_eq!(found.results.points[at].seeds, [1, 2]);
    }
    assert_eq!(value(&found, 0, Metric::DemandMet), 1.0);
}

#[test]
fn bursts_are_kept_with_their_pauses() {
    // 3000 requests per second for 100 ms of each 300 ms; a run is whole bursts, so 1.2 seconds.
    let text = "op = \"randread\"\nbs = \"4k\"\nthreads = 2\nqd = 16\ndemand_iops = 3000\non_ms = 100\noff_ms = 200";
    let session = session(&[("bursts", text)], 1);
    assert_eq!(session.time().as_millis(), 1200);
    let found = found("ram:64m,latency=1ms", &session);
    let iops = value(&found, 0, Metric::Iops);
    assert!((900.0..1010.0).contains(&iops), "{iops}");
    let seconds_held = found.results.points[0].metrics.get(&Metric::SecondsHeld);
    assert!(seconds_held.is_none(), "{seconds_held:?}");
}

#[test]
fn requests_that_wait_for_a_slow_target_count_from_their_intended_start() {
    // The target does 1000 requests per second at most, and 1500 are demanded: after a second, 500 are overdue.
    let text = "op = \"randread\"\nbs = \"4k\"\nthreads = 1\nqd = 4\ndemand_iops = 1500";
    let found = found("ram:64m,read-iops=1000", &session(&[("load", text)], 1));
    let iops = value(&found, 0, Metric::Iops);
    assert!((800.0..1100.0).contains(&iops), "{iops}");
    let service = value(&found, 0, Metric::Latency(Statistic::Max));
    let response = value(&found, 0, Metric::Response(Statistic::Max));
    assert!(
        response > 200_000.0 && response > 4.0 * service,
        "{service} {response}"
    );
    assert!(value(&found, 0, Metric::Backlog) > 300.0);
    assert_eq!(value(&found, 0, Metric::DemandMet), 0.0);
    let marks = &found.results.points[0].notes;
    assert!(
        marks.iter().any(|mark| mark.contains("was not reached")),
        "{marks:?}"
    );
}

#[test]
fn a_target_that_falls_too_far_behind_makes_a_run_invalid() {
    // 20 requests per second of 4000: ten seconds' worth is overdue after ten seconds of a run that would last a minute.
    let text =
        "op = \"randread\"\nbs = \"4k\"\nthreads = 1\nqd = 1\ndemand_iops = 4000\nseconds = 60";
    let found = found("ram:64m,read-iops=20", &session(&[("load", text)], 3));
    let outcome = measurement(&found, 0);
    let invalid = outcome.invalid.as_deref().expect("it is invalid");
    assert!(
        invalid.contains("does not keep up with 4000 requests per second"),
        "{invalid}"
    );
    assert!(found.results.points[0].metrics.is_empty() && outcome.runs.is_empty());
    assert_eq!(found.results.points[0].seeds.len(), 1, "it is not repeated");
}

#[test]
fn a_closed_loop_keeps_its_depth_and_a_mix_has_both_kinds() {
    let text = "op = \"randmix\"\nread_pct = 70\nbs = \"8k\"\nthreads = 2\nqd = 8";
    let found = found("ram:64m,latency=1ms", &session(&[("mix", text)], 1));
    let mean_us = value(&found, 0, Metric::Latency(Statistic::Mean));
    assert!(mean_us >= 1000.0, "{mean_us}");
    let outcome = measurement(&found, 0);
    assert!(
        (14.0..16.5).contains(&outcome.effective_queue_depth),
        "{outcome:?}"
    );
    let [reads, writes] = [&outcome.reads, &outcome.writes].map(|kind| kind[&Metric::Iops].value);
    let share = reads / (reads + writes);
    assert!((0.65..0.75).contains(&share), "{share}");
    let rate = value(&found, 0, Metric::BytesPerSecond) / value(&found, 0, Metric::Iops);
    assert!((rate - 8192.0).abs() < 1.0, "{rate}");
}

#[test]
fn what_is_written_is_on_the_target_and_no_two_blocks_are_equal() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    // Its last sector is left alone.
    file.as_file().set_len((8 << 20) + 512).expect("it grows");
    let name = file.path().to_str().expect("a path");
    let text = "op = \"write\"\nbs = \"16k\"\nthreads = 1\nqd = 4";
    let found = found(name, &session(&[("fill", text)], 1));
    assert!(found.failure.is_none(), "{:?}", found.failure);
    assert!(value(&found, 0, Metric::Iops) > 512.0);
    let content = std::fs::read(file.path()).expect("it can be read");
    let blocks: std::collections::BTreeSet<&[u8]> = content.chunks_exact(4096).collect();
    assert_eq!(
        blocks.len(),
        2048,
        "each block of 4 KiB is different from all others"
    );
    assert!(
        blocks
            .iter()
            .all(|block| block.iter().any(|byte| *byte != 0))
    );
}

#[test]
fn a_target_is_destroyed_only_if_its_name_is_repeated() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), vec![7; 8 << 20]).expect("it is written");
    let name = file.path().to_str().expect("a path");
    for (destroyed, said) in [
        (None, "say that it may be, with --destroy-data"),
        (Some("other"), "\"other\" was named"),
    ] {
        let refused = Target::open(name, true, destroyed)
            .err()
            .expect("it is refused")
            .to_string();
        assert!(refused.contains(said), "{refused}");
    }
    // Two that write, or one that writes and one that reads, are refused too.
    let first = Target::open(name, true, Some(name)).expect("it opens");
    assert!(Target::open(name, true, Some(name)).is_err());
    drop(first);
    assert_eq!(
        std::fs::read(file.path()).expect("it is read"),
        vec![7; 8 << 20]
    );
}

#[test]
fn areas_that_were_never_written_are_seen_before_reads_are_believed() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    file.as_file().set_len(4 << 20).expect("it grows");
    let name = file.path().to_str().expect("a path");
    let reads = session(
        &[(
            "load",
            "op = \"randread\"\nbs = \"4k\"\nthreads = 1\nqd = 4",
        )],
        1,
    );
    let marks = |found: &Found| {
        let conditions = found.results.conditions.as_ref();
        conditions.expect("it was measured").marks.join("\n")
    };
    let empty = found(name, &reads);
    assert!(
        marks(&empty).contains("200 of 200 blocks"),
        "{}",
        marks(&empty)
    );
    std::fs::write(file.path(), vec![7; 4 << 20]).expect("it is written");
    let full = found(name, &reads);
    assert!(!marks(&full).contains("blocks"), "{}", marks(&full));
}

#[test]
fn a_load_that_does_not_fit_is_refused_before_anything_runs() {
    let reads = |bs: &str| format!("op = \"randread\"\nbs = \"{bs}\"\nthreads = 1\nqd = 4");
    for (target, text, said) in [
        (
            "ram:1m,sector=4096",
            reads("512"),
            "requests of 512 bytes, and ram:1m,sector=4096 has sectors of 4096",
        ),
        ("null:1t", reads("64m"), "the largest is 32 MiB"),
        (
            "ram:1m",
            "op = \"randread\"\nbs = \"4k\"\nthreads = 1\nqd = 1\napi = \"sync\"".to_owned(),
            "leave these keys out",
        ),
        (
            "null:1t",
            "op = \"randread\"\nbs = \"1m\"\nthreads = 4096\nqd = 1024".to_owned(),
            "MiB are available",
        ),
        ("ram:1m", reads("4m"), "bs"),
        ("ram:1m", "op = \"act\"\nthreads = 2".to_owned(), "act"),
    ] {
        let session = session(&[("load", &text)], 1);
        let mut target = Target::open(target, false, None).expect("it opens");
        let refused = session.prepare(&mut target).err().expect("it is refused");
        let refused = format!("{refused:#}");
        assert!(
            refused.starts_with("load load") && refused.contains(said),
            "{refused}"
        );
    }
}

#[test]
fn loads_that_only_read_change_their_order_and_others_keep_it() {
    let names = ["a", "b", "c", "d", "e", "f"];
    let loads = |op: &str| -> Session {
        let text = format!("op = \"{op}\"\nbs = \"4k\"\nthreads = 1\nqd = 1");
        session(&names.map(|name| (name, text.as_str())), 3)
    };
    let orders = |session: &Session| [0, 1, 2].map(|repetition| session.order(repetition));
    let reads = orders(&loads("randread"));
    assert!(reads[0] != reads[1] && reads[1] != reads[2], "{reads:?}");
    assert_eq!(
        reads,
        orders(&loads("randread")),
        "they follow from the seed"
    );
    let writes = orders(&loads("randwrite"));
    assert!(writes.iter().all(|order| order.is_sorted()), "{writes:?}");
}

#[test]
fn fio_runs_closed_loops_and_this_program_demanded_rates() {
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), vec![7; 8 << 20]).expect("it is written");
    let name = file.path().to_str().expect("a path");
    let paced = "op = \"randread\"\nbs = \"4k\"\nthreads = 1\nqd = 4\ndemand_iops = 200";
    let mix = "op = \"randmix\"\nread_pct = 70\nbs = \"4k\"\nthreads = 1\nqd = 4";
    let mut session = session(&[("paced", paced), ("mix", mix)], 2);
    session.by_fio = true;
    let by_fio = found(name, &session);
    assert!(by_fio.failure.is_none(), "{:?}", by_fio.failure);
    let all = &by_fio.results.points[1].metrics;
    let [paced, mix] = [0, 1].map(|at| measurement(&by_fio, at));
    assert!(paced.generator.starts_with("fullstripe ") && paced.generator_iops.is_some());
    assert!(mix.generator.starts_with("fio ") && mix.generator_iops.is_none());
    let iops = |metrics: &Metrics| metrics[&Metric::Iops].value;
    let (all, reads, writes) = (iops(all), iops(&mix.reads), iops(&mix.writes));
    assert!(
        (all - reads - writes).abs() < 1.0 && reads > writes,
        "{mix:?}"
    );
    assert!((3.0..4.5).contains(&mix.effective_queue_depth), "{mix:?}");
    assert!(
        by_fio.results.points[1]
            .notes
            .iter()
            .any(|mark| mark.contains("2 of at least 5 runs")),
        "{mix:?}"
    );
    // fio knows nothing of modelled drives.
    let mut modelled = Target::open("ram:8m", true, None).expect("it opens");
    let refused = session.prepare(&mut modelled).err().expect("it is refused");
    assert!(
        refused.to_string().contains("leave out --fio"),
        "{refused:#}"
    );
}

#[test]
fn loads_that_write_are_judged_by_snias_rule() {
    let loads = |op: &str| format!("op = \"{op}\"\nbs = \"4k\"\nthreads = 1\nqd = 4");
    let (writes, reads) = (loads("randwrite"), loads("randread"));
    let session = session(&[("writes", &writes), ("reads", &reads)], 5);
    let limited = found("ram:8m,read-iops=2000,write-iops=2000", &session);
    let judged = measurement(&limited, 0).steady_state.expect("it writes");
    assert_eq!((judged.first_round, judged.last_round), (1, 5));
    assert!(judged.range_percent >= 0.0);
    let is_said = limited.results.points[0]
        .notes
        .iter()
        .any(|mark| mark.contains("SNIA"));
    assert_eq!(is_said, !judged.is_attained);
    assert!(
        measurement(&limited, 1).steady_state.is_none(),
        "reads change nothing"
    );
}

#[test]
fn a_share_of_the_maximum_is_demanded_of_what_was_measured() {
    // The target does 1000 requests per second at most.
    let half = "op = \"randread\"\nbs = \"4k\"\nthreads = 1\nqd = 4\ndemand_pct = 50";
    let tenth = half.replace("50", "10");
    let session = session(&[("half", half), ("tenth", &tenth)], 1);
    assert_eq!(session.maxima().len(), 1, "both need the same maximum");
    assert_eq!(session.time().as_secs(), 3);
    let found = found("ram:64m,read-iops=1000", &session);
    let [half, tenth] = [0, 1].map(|at| measurement(&found, at));
    let demanded = half.demanded_iops().expect("it is known");
    assert!((400..550).contains(&demanded), "{demanded}");
    assert_eq!(half.workload.demand_pct, Some(50), "as it was asked for");
    let tenth = tenth.demanded_iops().expect("it is known") as f64;
    assert!((tenth * 5.0 - demanded as f64).abs() <= 5.0, "{tenth}");
    let iops = value(&found, 0, Metric::Iops);
    assert!((iops / demanded as f64 - 1.0).abs() < 0.1, "{iops}");
}

#[test]
fn what_is_written_is_estimated_before() {
    let text = "op = \"randmix\"\nread_pct = 75\nbs = \"4k\"\nthreads = 1\nqd = 4";
    let demanded = format!("{text}\ndemand_iops = 1000");
    let both = session(&[("demanded", &demanded), ("closed", text)], 3);
    // Three runs of a second: 250 writes of 4 KiB each, and as much as the link lets pass.
    assert_eq!(
        both.written_about(Some(1e9)),
        Some(3.0 * (250.0 * 4096.0 + 1e9))
    );
    assert_eq!(both.written_about(None), None);
    let demanded = session(&[("demanded", &demanded)], 3);
    assert_eq!(demanded.written_about(None), Some(3.0 * 250.0 * 4096.0));
    let share = format!("{text}\ndemand_pct = 50");
    let share = session(&[("share", &share)], 3);
    assert_eq!(share.written_about(Some(1e9)), Some(4e9));
}
