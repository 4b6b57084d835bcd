use super::*;

fn settings() -> DrainSettings {
    DrainSettings {
        buffer_bytes: 1 << 20,
        program_bytes_per_s: 2_000_000_000,
        amplification_per_mille: 5000,
        pool_bytes: 500_000_000,
        burst_bytes: 0,
        burst_bytes_per_s: 0,
        episode_bytes: 4 << 20,
        program_ns: 1_000_000,
        capacity_bytes: 2_000_000_000_000,
        host_bytes_per_s_max: None,
    }
}

/// For writes of 4 KiB every `gap_ns` until `until_ns`, how late each lies in the buffer.
fn delays_ns(drain: &mut Drain, gap_ns: u64, until_ns: u64) -> Vec<u64> {
    let count = until_ns / gap_ns;
    (0..count)
        .map(|number| drain.admit(number * gap_ns, 4096, false) - number * gap_ns)
        .collect()
}

#[test]
fn a_burst_is_taken_at_once_until_the_buffer_is_full() {
    // Each nanosecond 4.096 bytes arrive and 2 are programmed, so 1 MiB is full after 500 us.
    let mut drain = Drain::new(settings(), false);
    let delays = delays_ns(&mut drain, 1000, 2_000_000);
    let first = delays
        .iter()
        .position(|&delay| delay > 0)
        .expect("it fills up");
    assert!((498..=502).contains(&first), "{first}");
    // From then on each write waits until as many bytes are programmed: 2048 ns instead of 1000.
    let grown = delays[1900] - delays[900];
    assert!((1_047_000..=1_049_000).contains(&grown), "{grown}");
    // Sequential writes need no collection: the bytes programmed are those written, less those still buffered.
    assert_eq!(
        drain.programmed_bytes() + drain.buffered_bytes(),
        2000 * 4096
    );
}

#[test]
fn a_demand_above_the_steady_rate_is_held_while_the_pool_lasts() {
    // Steady: 2000 / 5 = 400 MB/s. At 500 MB/s, collection gets 1500 and makes 375 clean, so that the pool
    // loses 125 MB/s: 500 MB last for 4 s.
    let mut drain = Drain::new(settings(), true);
    let gap_ns = 8192;
    let delays = delays_ns(&mut drain, gap_ns, 8_000_000_000);
    let first = delays
        .iter()
        .position(|&delay| delay > 1_000_000)
        .expect("it runs out");
    let held_s = first as f64 * gap_ns as f64 / 1e9;
    assert!((3.99..4.02).contains(&held_s), "{held_s}");
    // Afterwards only the steady rate is reached: the last write of 8 s is 1 s late.
    let late_s = *delays.last().expect("there are writes") as f64 / 1e9;
    assert!((0.99..1.02).contains(&late_s), "{late_s}");
}

#[test]
fn programs_are_what_the_host_wrote_times_amplification() {
    for gap_ns in [5000, 12_000, 40_000] {
        let mut drain = Drain::new(settings(), true);
        let end_ns = delays_ns(&mut drain, gap_ns, 3_000_000_000).len() as u64 * gap_ns;
        drain.pass(end_ns + 5_000_000_000);
        // After a pause the pool is full again, so the collection for every written byte is done.
        assert_eq!(drain.buffered_bytes(), 0);
        assert_eq!(drain.pool_bytes(), 500_000_000);
        let written = 3_000_000_000 / gap_ns * 4096;
        let ratio = drain.programmed_bytes() as f64 / written as f64;
        assert!((4.999..5.001).contains(&ratio), "{ratio}");
    }
}

#[test]
fn few_outstanding_writes_waste_time_between_episodes() {
    // A host that never has more than four writes of 20 us each under way gets less than the steady rate.
    let mut drain = Drain::new(settings(), true);
    let mut done_ns = [0_u64; 4];
    let mut written = 0_u64;
    let mut until = |drain: &mut Drain, depth: usize, end_ns: u64| {
        let before = written;
        loop {
            let slot = (0..depth)
                .min_by_key(|&slot| done_ns[slot])
                .expect("there are slots");
            if done_ns[slot] >= end_ns {
                return written - before;
            }
            done_ns[slot] = drain.admit(done_ns[slot] + 20_000, 4096, false);
            written += 4096;
        }
    };
    until(&mut drain, 4, 10_000_000_000);
    let few_bytes_per_s = until(&mut drain, 4, 15_000_000_000) / 5;
    assert!(
        (250_000_000..380_000_000).contains(&few_bytes_per_s),
        "{few_bytes_per_s}"
    );
}

#[test]
fn after_a_pause_the_pool_serves_again() {
    let mut drain = Drain::new(settings(), true);
    delays_ns(&mut drain, 4096, 3_000_000_000);
    assert_ne!(drain.regime, Regime::Background);
    drain.pass(drain.clock_ns + 2_000_000_000);
    assert_eq!(drain.regime, Regime::Background);
    assert_eq!(drain.pool_bytes(), 500_000_000);
}

#[test]
fn reads_take_time_from_programs() {
    let rate_with_reads = |taken_per_write_ns| {
        let mut drain = Drain::new(settings(), false);
        let mut at_ns = 0;
        for _ in 0..100_000 {
            drain.take(taken_per_write_ns);
            at_ns = drain.admit(at_ns, 4096, false);
        }
        at_ns
    };
    // Each write takes 2048 ns of programming, and the reads beside it take 1024 ns.
    let (alone_ns, shared_ns) = (rate_with_reads(0), rate_with_reads(1024));
    let ratio = shared_ns as f64 / alone_ns as f64;
    assert!((1.49..1.51).contains(&ratio), "{ratio}");
}

#[test]
fn a_worn_drive_takes_what_it_may() {
    let mut drain = Drain::new(
        DrainSettings {
            host_bytes_per_s_max: Some(30_000_000),
            ..settings()
        },
        true,
    );
    let delays = delays_ns(&mut drain, 10_000, 1_000_000_000);
    let end_ns = 1_000_000_000 + delays.last().expect("there are writes");
    let rate = (100_000.0 * 4096.0 - 1_048_576.0) / end_ns as f64;
    assert!((0.0299..0.0301).contains(&rate), "{rate}");
}

#[test]
fn one_capacity_of_random_writes_scatters_a_filled_drive() {
    let small = DrainSettings {
        capacity_bytes: 1_000_000_000,
        pool_bytes: 10_000_000,
        ..settings()
    };
    let mut drain = Drain::new(small, false);
    let mut at_ns = 0;
    let mut seconds = Vec::new();
    for _ in 0..5 {
        let start_ns = at_ns;
        for _ in 0..122_070 {
            at_ns = drain.admit(at_ns, 4096, false);
        }
        seconds.push(at_ns - start_ns);
    }
    // Each round writes half a capacity. While disorder rises from 0 to 0.5, a byte takes 2 programs on average,
    // from 0.5 to 1 it takes 4, and then 5.
    for (taken_ns, programs) in seconds.iter().zip([2.0, 4.0, 5.0, 5.0, 5.0]) {
        let ratio = *taken_ns as f64 / (250e6 * programs);
        assert!((0.97..1.03).contains(&ratio), "{seconds:?}");
    }
}

#[test]
fn a_spent_pool_is_where_a_long_load_above_the_steady_rate_ends() {
    // Compares writes without a pause, after the pool has run out, with writes from a spent pool at any moment of a
    // period: the rates are alike.
    let programmed = |phase: Option<u64>, from_ns: u64| {
        let mut drain = Drain::new(settings(), true);
        if let Some(phase) = phase {
            drain.spend_pool(phase);
        }
        let (mut now_ns, mut count) = (0, 0_u64);
        while now_ns < from_ns + 1_000_000_000 {
            now_ns = drain.admit(now_ns, 4096, false).max(now_ns);
            count += u64::from(now_ns >= from_ns);
        }
        count
    };
    let slow = programmed(None, 3_000_000_000);
    // 400 MB/s in writes of 4 KiB, give or take an episode.
    assert!((96_000..=99_500).contains(&slow), "{slow}");
    for eighths in 0..8 {
        let at_once = programmed(Some(WHOLE / 8 * eighths), 100_000_000);
        assert!(
            slow.abs_diff(at_once) <= 1100,
            "{eighths}: {slow} {at_once}"
        );
    }
}

#[test]
fn a_spent_pool_is_somewhere_in_its_period() {
    // Five programs per host byte: four fifths of a period are collection, and the last fifth serves writes from what
    // collection made clean.
    let clean = |phase: u64| {
        let mut drain = Drain::new(settings(), true);
        drain.spend_pool(phase);
        (drain.regime, drain.pool_bytes())
    };
    let episode = settings().episode_bytes;
    let fifth = WHOLE / 5;
    let near = |one: u64, other: u64| one.abs_diff(other) < 100;
    assert_eq!(clean(0), (Regime::Collecting, 0));
    let (regime, half) = clean(2 * fifth);
    assert!(
        regime == Regime::Collecting && near(half, episode / 2),
        "{half}"
    );
    let (regime, most) = clean(4 * fifth + fifth / 4);
    assert!(
        regime == Regime::Serving && near(most, episode / 4 * 3),
        "{most}"
    );
    let (regime, last) = clean(u64::MAX);
    assert!(regime == Regime::Serving && last < 100, "{last}");
    // If the pool is smaller than an episode, no more is clean than the pool holds.
    let small = DrainSettings {
        pool_bytes: 1 << 20,
        ..settings()
    };
    let mut drain = Drain::new(small, true);
    drain.spend_pool(2 * fifth);
    assert!(near(drain.pool_bytes(), 1 << 19), "{}", drain.pool_bytes());
    // Without scattered data there is nothing to collect.
    let mut in_order = Drain::new(settings(), false);
    in_order.spend_pool(2 * fifth);
    assert_eq!(
        (in_order.regime, in_order.pool_bytes()),
        (Regime::Background, 0)
    );
}

/// A drive with a pseudo-SLC cache of 1 GB that takes writes at three times the rate of programs.
fn with_cache() -> DrainSettings {
    DrainSettings {
        burst_bytes: 1_000_000_000,
        burst_bytes_per_s: 6_000_000_000,
        ..settings()
    }
}

/// Bytes accepted from `from_ns` to `until_ns`, in writes of 64 KiB without a pause.
fn accepted_bytes(drain: &mut Drain, from_ns: u64, until_ns: u64, in_order: bool) -> u64 {
    let mut bytes = 0;
    let mut at_ns = from_ns;
    while at_ns < until_ns {
        at_ns = drain.admit(at_ns, 65_536, in_order);
        bytes += 65_536;
    }
    bytes
}

#[test]
fn a_pseudo_slc_cache_takes_a_burst_and_then_the_rate_falls() {
    let mut drain = Drain::new(with_cache(), false);
    let near = |bytes: u64, expected: u64| bytes.abs_diff(expected) < 3 << 20;
    // 1 GB at 6 GB/s: 167 ms.
    let burst_bytes = accepted_bytes(&mut drain, 0, 150_000_000, true);
    assert!(near(burst_bytes, 900_000_000), "{burst_bytes}");
    accepted_bytes(&mut drain, 150_000_000, 200_000_000, true);
    let then_bytes = accepted_bytes(&mut drain, 200_000_000, 700_000_000, true);
    assert!(near(then_bytes, 1_000_000_000), "{then_bytes}");
    // A pause of a quarter of a second makes room for as much as is programmed in it, 0.5 GB.
    drain.pass(950_000_000);
    assert!(
        near(drain.pool_bytes(), 1_000_000_000),
        "{}",
        drain.pool_bytes()
    );
    let again_bytes = accepted_bytes(&mut drain, 950_000_000, 1_020_000_000, true);
    assert!(near(again_bytes, 420_000_000), "{again_bytes}");
}

#[test]
fn what_a_cache_has_taken_is_programmed_twice_and_takes_the_pool_when_it_is_moved() {
    let mut drain = Drain::new(with_cache(), true);
    let bytes = accepted_bytes(&mut drain, 0, 50_000_000, false);
    assert_eq!(drain.pool, settings().pool_bytes << FRACTION);
    assert_eq!(
        drain.programmed_bytes() + drain.buffered_bytes(),
        bytes,
        "into the cache"
    );
    drain.pass(100_000_000_000);
    assert_eq!(drain.cached, 0);
    assert_eq!(drain.pool_bytes(), 1_500_000_000);
    // Each byte once into the cache, once to its place, and four times for collection.
    let per_byte = drain.programmed_bytes() as f64 / bytes as f64;
    assert!((5.98..6.02).contains(&per_byte), "{per_byte}");
}

#[test]
fn a_full_cache_leaves_the_rate_of_the_long_run() {
    let rate = |settings, spends| {
        let mut drain = Drain::new(settings, true);
        if spends {
            drain.spend_pool(0);
        }
        let from_ns = 2_000_000_000;
        accepted_bytes(&mut drain, 0, from_ns, false);
        accepted_bytes(&mut drain, from_ns, 2 * from_ns, false) as f64 / 2e9
    };
    let [without, spent] = [settings(), with_cache()].map(|settings| rate(settings, true));
    assert!((0.39..0.41).contains(&without), "{without}");
    assert!((0.99..1.01).contains(&(spent / without)), "{spent}");
}
