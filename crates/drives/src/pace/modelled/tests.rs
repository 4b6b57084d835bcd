use super::*;
use repeatable::random::Stream;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

const BLOCK_BYTES: u64 = 4096;
/// An arbitrary time at which a shard's clock may stand when the shard begins.
const BEGIN: Nanos = Nanos(77_000_000_123);

fn profile() -> Profile {
    models::library::with_id("p4510-2tb").expect("the program includes this profile")
}

fn demand(kind: StepKind, block: u64) -> Demand {
    Demand {
        kind,
        offset_bytes: block * BLOCK_BYTES,
        length_bytes: BLOCK_BYTES,
    }
}

#[test]
fn commands_are_done_when_the_model_says() {
    let profile = profile();
    let modelled = Modelled::new(&profile, State::Steady, 3);
    let mut twin = Drive::new(&profile, State::Steady, profile.port, SEED, 3);
    let mut random = Stream::new(5, "commands", 0);
    let mut now_ns = 0;
    for _ in 0..20_000 {
        let (kind, operation) = match random.below(10) {
            0 => (StepKind::Flush, Operation::Flush),
            1 => (StepKind::Discard, Operation::Deallocate),
            2..=5 => (StepKind::Write { fua: true }, Operation::Write),
            _ => (StepKind::Read, Operation::Read),
        };
        let length_bytes = 512 << random.below(11);
        let offset_bytes = random.below(1 << 20) * 512;
        let done = modelled.admit(
            BEGIN.after(Nanos(now_ns)),
            Demand {
                kind,
                offset_bytes,
                length_bytes,
            },
        );
        let command = Command {
            operation,
            offset_bytes,
            length_bytes,
        };
        assert_eq!(done.since(BEGIN).0, twin.submit(command, now_ns).done_ns);
        now_ns += random.below(10_000);
    }
}

/// A closed loop of random reads, in virtual time. It looks for answers `turn()` after its last look or after the next
/// answer is due, whichever is later. Returns reads per second.
fn closed_loop(modelled: &Modelled, depth: usize, mut turn: impl FnMut() -> u64) -> f64 {
    let mut random = Stream::new(9, "blocks", 0);
    let mut read = || demand(StepKind::Read, random.below(1 << 28));
    let (mut now, mut done) = (BEGIN, 0u64);
    let end = BEGIN.after(Nanos(Nanos::SECOND.0 / 5));
    let mut waiting: BinaryHeap<Reverse<Nanos>> = (0..depth)
        .map(|_| Reverse(modelled.admit(now, read())))
        .collect();
    while now < end {
        let next = waiting.peek().map_or(now, |&Reverse(finish)| finish);
        now = now.max(next).after(Nanos(turn()));
        let mut due = 0;
        while let Some(&Reverse(finish)) = waiting.peek()
            && finish <= now
        {
            waiting.pop();
            modelled.delivered(now, finish);
            due += 1;
        }
        done += due;
        (0..due).for_each(|_| waiting.push(Reverse(modelled.admit(now, read()))));
    }
    done as f64 / (now.since(BEGIN).0 as f64 / 1e9)
}

#[test]
fn the_rate_is_the_drives_however_late_the_loop_looks() {
    let rate = |depth, turn_ns: u64| {
        let modelled = Modelled::new(&profile(), State::Steady, 0);
        let mut random = Stream::new(4, "turns", 0);
        closed_loop(&modelled, depth, move || random.below(2 * turn_ns + 1))
    };
    // If the times between looks exceeded the latency, they would limit the rate.
    for (depth, turns_ns) in [
        (1, [2_000, 30_000]),
        (32, [2_000, 30_000]),
        (512, [30_000, 100_000]),
    ] {
        let ideal = rate(depth, 0);
        for turn_ns in turns_ns {
            let found = rate(depth, turn_ns);
            let error = (found / ideal - 1.0).abs();
            assert!(
                error < 0.01,
                "QD {depth}: {found} instead of {ideal} when looking {turn_ns} ns late"
            );
        }
    }
}

#[test]
fn who_comes_later_waits_for_the_whole_latency() {
    let profile = profile();
    let modelled = Modelled::new(&profile, State::Steady, 0);
    let finish = modelled.admit(BEGIN, demand(StepKind::Read, 0));
    let late = finish.after(Nanos(60_000));
    modelled.delivered(late, finish);
    let later = late.after(Nanos(60_001));
    let next = modelled.admit(later, demand(StepKind::Read, 1_000_000));
    let latency = next.since(later).0;
    assert!(latency >= profile.read_latency_ns, "{latency} ns");
}
