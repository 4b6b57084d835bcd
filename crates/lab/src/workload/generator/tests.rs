use super::super::meter::{Figures, Meter};
use super::super::tests::workload;
use super::*;
use std::collections::BTreeMap;

const SECOND_NS: u64 = 1_000_000_000;
const SPAN_BYTES: u64 = 1 << 40;

/// Carries out a workload in virtual time on `servers` servers, first come first served;
/// `service_ns` returns how long a request takes that starts at the given time.
fn run(
    generator: &mut Generator,
    workload: &Workload,
    servers: usize,
    end_ns: u64,
    mut service_ns: impl FnMut(u64) -> u64,
) -> (Figures, Vec<Command>) {
    let mut meter = Meter::new(workload, 0);
    let mut free_ns = vec![0u64; servers];
    let mut answers: BTreeMap<(u64, u32, u64), Command> = BTreeMap::new();
    let mut issued = Vec::new();
    let mut now_ns = 0;
    while now_ns < end_ns {
        for thread in 0..generator.threads() {
            while let Some(command) = generator.next(thread, now_ns) {
                let server = free_ns.iter_mut().min().expect("there are servers");
                let start_ns = now_ns.max(*server);
                *server = start_ns + service_ns(start_ns);
                answers.insert((*server, thread, command.index), command);
                issued.push(command);
            }
        }
        let wakes = (0..generator.threads()).filter_map(|thread| generator.wake_ns(thread));
        let due_ns = answers.first_key_value().map(|(key, _)| key.0);
        now_ns = wakes.chain(due_ns).min().expect("something comes next");
        while let Some(entry) = answers.first_entry()
            && entry.key().0 <= now_ns
            && now_ns < end_ns
        {
            let command = entry.remove();
            generator.completed(command.thread);
            meter.completed(&command, now_ns);
        }
    }
    (meter.finish(end_ns, generator.backlog(end_ns - 1)), issued)
}

#[test]
fn a_closed_loop_keeps_its_depth() {
    let workload = workload("op = 'randread'\nbs = '4k'\nthreads = 2\nqd = 4");
    let mut generator = Generator::new(&workload, SPAN_BYTES, 1).expect("valid");
    let (figures, issued) = run(&mut generator, &workload, 8, SECOND_NS, |_| 100_000);
    assert_eq!(generator.outstanding(), 8);
    // Eight at once, 10 000 times, less the last eight, which are answered when the window has closed.
    assert_eq!(figures.requests, 8 * 9999);
    assert_eq!(figures.bytes, figures.requests * 4096);
    assert!((figures.effective_depth() - 8.0).abs() < 0.001);
    assert_eq!(
        (figures.demand_met, figures.seconds_held, figures.backlog),
        (None, None, 0)
    );
    assert!(
        issued
            .iter()
            .all(|command| command.intended_ns == command.issued_ns)
    );
}

#[test]
fn a_stall_delays_all_that_should_have_started_meanwhile() {
    // Nine seconds at 1000 per second with a stall of one second. A generator that waits for the target
    // sees only as many slow requests as it has outstanding, but users see about a ninth of all as slow.
    let workload = workload("op = 'randread'\nbs = '4k'\nthreads = 1\nqd = 1\ndemand_iops = 1000");
    let mut generator = Generator::new(&workload, SPAN_BYTES, 1).expect("valid");
    let (figures, issued) = run(&mut generator, &workload, 1, 9 * SECOND_NS, |start_ns| {
        if start_ns == 4 * SECOND_NS {
            SECOND_NS
        } else {
            10_000
        }
    });
    assert_eq!(issued.len(), 9000);
    let slow = |latencies: &crate::statistics::histogram::BatchedLatencies| {
        let all = latencies.merged();
        all.count() - all.count_up_to(1_000_000)
    };
    assert_eq!(slow(&figures.service), 1);
    // A thousand that came due during the stall, and those that came due while the backlog drained.
    assert!(
        (1000..=1020).contains(&slow(&figures.response)),
        "{}",
        slow(&figures.response)
    );
    assert_eq!(figures.demand_met, Some(true));
    assert_eq!(figures.seconds_held, Some(4));
}

#[test]
fn a_demand_beyond_the_target_is_not_met_and_waits() {
    let workload =
        workload("op = 'randwrite'\nbs = '4k'\nthreads = 1\nqd = 256\ndemand_iops = 2000");
    let mut generator = Generator::new(&workload, SPAN_BYTES, 1).expect("valid");
    let (figures, _) = run(&mut generator, &workload, 1, 10 * SECOND_NS, |_| 1_000_000);
    assert_eq!(
        (figures.demand_met, figures.seconds_held),
        (Some(false), Some(0))
    );
    // 20 000 are demanded, one is answered per millisecond, and 256 are outstanding.
    assert_eq!(figures.requests + 256 + figures.backlog, 20_000);
    assert!((figures.iops() - 1000.0).abs() < 1.0);
}

#[test]
fn poisson_arrivals_at_one_server_are_the_queue_of_the_textbook() {
    // M/D/1 at half load: mean time in the system is (1 + load / (2 (1 - load))) services, here 1.5
    // ms.
    let workload = workload(
        "op = 'randread'\nbs = '4k'\nthreads = 4\nqd = 64\ndemand_iops = 500\narrivals = 'poisson'",
    );
    let mut generator = Generator::new(&workload, SPAN_BYTES, 1).expect("valid");
    let (figures, _) = run(&mut generator, &workload, 1, 400 * SECOND_NS, |_| 1_000_000);
    let estimate = figures.service_means.estimate().expect("enough");
    let (mean, half_width) = (estimate.mean, estimate.interval.half_width());
    assert!(
        (mean - 1_500_000.0).abs() < 3.0 * half_width,
        "{mean} +- {half_width}"
    );
    assert!(half_width < 50_000.0, "{half_width}");
    // With at most one request outstanding, the wait is part of the response time, not of the service time.
    let mut narrow = workload.clone();
    (narrow.threads, narrow.qd) = (1, Some(1));
    let mut generator = Generator::new(&narrow, SPAN_BYTES, 1).expect("valid");
    let (figures, _) = run(&mut generator, &narrow, 1, 400 * SECOND_NS, |_| 1_000_000);
    assert_eq!(figures.service.mean_ns(), Some(1_000_000.0));
    let response_ns = figures.response.mean_ns().expect("answers");
    assert!(
        (response_ns - 1_500_000.0).abs() < 60_000.0,
        "{response_ns}"
    );
}

#[test]
fn mixes_hold_their_share_and_sequences_their_regions() {
    let workload = workload("op = 'seqmix'\nread_pct = 70\nbs = '128k'\nthreads = 4\nqd = 2");
    let mut generator = Generator::new(&workload, SPAN_BYTES, 1).expect("valid");
    let (_, issued) = run(&mut generator, &workload, 8, SECOND_NS, |_| 100_000);
    let reads = issued
        .iter()
        .filter(|command| command.kind == Kind::Read)
        .count();
    let share = reads as f64 / issued.len() as f64;
    assert!((share - 0.7).abs() < 0.01, "{share}");
    for command in issued {
        let start_bytes = u64::from(command.thread) * (SPAN_BYTES / 4);
        assert_eq!(command.offset_bytes, start_bytes + command.index * 131_072);
    }
}

#[test]
fn the_alignment_shifts_every_request() {
    for (align, remainder) in [("512", 512), ("4k", 4096), ("64k", 0)] {
        let text = format!("op = 'randread'\nbs = '64k'\nalign = '{align}'\nthreads = 1\nqd = 1");
        let mut generator = Generator::new(&workload(&text), SPAN_BYTES, 1).expect("valid");
        for now_ns in 0..100 {
            let command = generator.next(0, now_ns).expect("a closed loop");
            assert_eq!(command.offset_bytes % 65_536, remainder);
            generator.completed(0);
        }
    }
}

#[test]
fn threads_and_purposes_draw_from_streams_of_their_own() {
    let first = |text: &str, thread: u32| {
        let mut generator = Generator::new(&workload(text), SPAN_BYTES, 1).expect("valid");
        generator
            .next(thread, 0)
            .expect("a closed loop")
            .offset_bytes
    };
    let reads = "op = 'randread'\nbs = '4k'\nthreads = 2\nqd = 1";
    let mix = "op = 'randmix'\nread_pct = 50\nbs = '4k'\nthreads = 8\nqd = 4";
    assert_eq!(first(reads, 1), first(mix, 1));
    assert_ne!(first(reads, 0), first(reads, 1));
}

#[test]
fn the_first_requests_are_fixed() {
    // The digest is the same on every machine, because stored predictions depend on these requests.
    let mix = workload("op = 'randmix'\nread_pct = 50\nbs = '4k'\nthreads = 2\nqd = 3");
    let mut generator = Generator::new(&mix, SPAN_BYTES, 42).expect("valid");
    let mut digest = 0u64;
    for thread in 0..2 {
        while let Some(command) = generator.next(thread, 0) {
            let is_read = u64::from(command.kind == Kind::Read);
            digest = repeatable::random::mix(digest ^ command.offset_bytes ^ is_read);
        }
    }
    assert_eq!(digest, FIRST_REQUESTS);
}

/// Computed outside of this program from the definition of the streams.
const FIRST_REQUESTS: u64 = 0x57EA_FBCA_7DCE_609F;

#[test]
fn a_trace_is_replayed_by_threads_in_turn_at_its_times() {
    let text = "10,h,0,Read,0,512,1\n20,h,0,Write,4096,1024,1\n30,h,0,Read,8192,512,1\n";
    let trace = Trace::parse("t", text).expect("it is a trace");
    // Twice as fast: at 0, 500 and 1000 ns.
    let mut replay = Generator::replay(&trace, (2, 1), 200, 1 << 20).expect("it fits");
    let first = replay.next(0, 0).expect("it is due");
    assert_eq!(
        (first.offset_bytes, first.length_bytes, first.kind),
        (0, 512, Kind::Read)
    );
    assert_eq!(replay.next(1, 499), None);
    assert_eq!(
        (replay.due_ns(0), replay.due_ns(1)),
        (Some(1000), Some(500))
    );
    assert_eq!(replay.wake_ns(0), None, "its queue is full");
    let second = replay.next(1, 700).expect("it is due");
    assert_eq!((second.intended_ns, second.issued_ns), (500, 700));
    assert_eq!((second.kind, second.length_bytes), (Kind::Write, 1024));
    assert_eq!(replay.backlog(999), 0);
    assert_eq!(replay.backlog(1000), 1);
    replay.completed(0);
    assert!(replay.next(0, 1500).is_some());
    replay.completed(0);
    assert_eq!(
        (replay.next(0, u64::MAX - 1), replay.backlog(9999)),
        (None, 0)
    );
    let refused = Generator::replay(&trace, (1, 1), 100, 8192).expect_err("it does not fit");
    assert!(refused.rule.contains("up to byte 8704"), "{refused:?}");
}
