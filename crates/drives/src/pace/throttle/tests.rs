use super::*;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const WRITE: StepKind = StepKind::Write { fua: false };

fn limits(read_iops: u64, latency_ns: u64) -> Limits {
    Limits {
        read_iops: Some(read_iops),
        latency: Nanos(latency_ns),
        ..Limits::default()
    }
}

/// A closed loop of `depth` reads that looks for answers every `turn` ns, in virtual time. Returns reads per second.
fn closed_loop(throttle: &Throttle, depth: usize, mut turn: impl FnMut() -> u64) -> f64 {
    let end = Nanos(10 * Nanos::SECOND.0);
    let mut now = Nanos(5_000);
    let mut heap: BinaryHeap<Reverse<Nanos>> = (0..depth)
        .map(|_| Reverse(throttle.admit(now, StepKind::Read, 4096)))
        .collect();
    let mut done = 0u64;
    while now < end {
        now = now.after(Nanos(turn()));
        let mut reaped = 0;
        while heap.peek().is_some_and(|&Reverse(finish)| finish <= now) {
            let Reverse(finish) = heap.pop().unwrap();
            throttle.delivered(now, finish);
            reaped += 1;
        }
        done += reaped;
        (0..reaped).for_each(|_| heap.push(Reverse(throttle.admit(now, StepKind::Read, 4096))));
    }
    done as f64 / (end.0 as f64 / 1e9)
}

fn noisy_turn(mean_ns: u64) -> impl FnMut() -> u64 {
    let mut state = 7u64;
    move || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(99);
        1 + (state >> 33) % (2 * mean_ns)
    }
}

#[test]
fn the_rate_holds_however_late_the_loop_looks() {
    for iops in [1_000, 90_000, 640_000] {
        for mean_turn_ns in [200, 10_000, 100_000] {
            let depth = 1 + (3 * mean_turn_ns * iops / 1_000_000_000) as usize;
            for depth in [depth, depth + 31] {
                let throttle = Throttle::new(limits(iops, 0));
                let rate = closed_loop(&throttle, depth, noisy_turn(mean_turn_ns));
                let error = (rate / iops as f64 - 1.0).abs();
                assert!(
                    error < 0.005,
                    "{rate} instead of {iops} at depth {depth}, {mean_turn_ns} ns"
                );
            }
        }
    }
}

#[test]
fn with_latency_and_little_depth_the_latency_decides() {
    // Four I/Os, each taking 100 us and 2 us of budget.
    let throttle = Throttle::new(limits(500_000, 100_000));
    let rate = closed_loop(&throttle, 4, noisy_turn(300));
    let wanted = 4.0 / 102e-6;
    assert!(
        (rate / wanted - 1.0).abs() < 0.01,
        "{rate} instead of {wanted}"
    );
}

#[test]
fn an_idle_drive_saves_nothing_up() {
    let throttle = Throttle::new(limits(1_000, 0));
    let first = throttle.admit(Nanos(0), StepKind::Read, 4096);
    assert_eq!(first, Nanos(1_000_000));
    throttle.delivered(first, first);
    let later = Nanos(9 * Nanos::SECOND.0);
    assert_eq!(
        throttle.admit(later, StepKind::Read, 4096),
        later.after(Nanos(1_000_000))
    );
    assert_eq!(
        throttle.admit(later, StepKind::Read, 4096),
        later.after(Nanos(2_000_000))
    );
}

#[test]
fn very_late_loops_lose_time() {
    let throttle = Throttle::new(limits(1_000, 0));
    let finish = throttle.admit(Nanos(0), StepKind::Read, 4096);
    let now = Nanos(Nanos::SECOND.0);
    throttle.delivered(now, finish);
    let next = throttle.admit(now, StepKind::Read, 4096);
    assert_eq!(next, Nanos(now.0 - LATENESS_MAX.0 + 1_000_000));
}

#[test]
fn reads_and_writes_share_one_budget_and_size_counts() {
    let throttle = Throttle::new(Limits {
        read_iops: Some(100_000),
        write_iops: Some(50_000),
        bandwidth_bytes_per_second: Some(100 << 20),
        latency: Nanos(7),
    });
    let admit = |kind, length| throttle.admit(Nanos(0), kind, length).0;
    // The bandwidth makes 4 KiB cost 39 us, more than either rate.
    assert_eq!(admit(StepKind::Read, 4096), 39_063 + 7);
    assert_eq!(admit(WRITE, 4096), 78_125 + 7);
    assert_eq!(admit(StepKind::Flush, 0), 7);
    // Zeroing moves no payload: one write, 20 us.
    assert_eq!(
        admit(
            StepKind::Zero {
                keep_allocated: true
            },
            1 << 30
        ),
        98_125 + 7
    );
    assert_eq!(admit(StepKind::Discard, 1 << 30), 118_125 + 7);
}

#[test]
fn partial_units_are_charged_whole() {
    let throttle = Throttle::new(limits(1_000_000, 0));
    assert_eq!(throttle.admit(Nanos(0), StepKind::Read, 512), Nanos(1_000));
    assert_eq!(throttle.admit(Nanos(0), StepKind::Read, 4097), Nanos(3_000));
    let unlimited = Throttle::new(limits(1_000_000, 0));
    assert_eq!(unlimited.admit(Nanos(50), WRITE, 1 << 20), Nanos(50));
}

#[test]
fn a_latency_alone_is_never_shortened() {
    let throttle = Throttle::new(Limits {
        latency: Nanos(100),
        ..Limits::default()
    });
    let finish = throttle.admit(Nanos(0), StepKind::Read, 4096);
    throttle.delivered(Nanos(5_000), finish);
    let next = throttle.admit(Nanos(5_000), StepKind::Read, 4096);
    assert_eq!(next, Nanos(5_100));
}
