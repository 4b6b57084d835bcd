//! The model with the P4510's profile: states, sizes, mixes, and in which direction each constant changes a figure.

use crate::support::{Arrivals, Load, LoadResult, closed_loop, drive_of, family, open_loop};
use models::drive::{Command, Completion, Drive, Operation, State};
use models::profile::{Family, Profile};
use models::tables::Tables;
use repeatable::random::mix;

fn member(id: &str) -> Profile {
    family()
        .member(id)
        .unwrap_or_else(|error| panic!("{error}"))
}

fn one(
    drive: &mut Drive,
    operation: Operation,
    offset_bytes: u64,
    length_bytes: u64,
) -> Completion {
    let command = Command {
        operation,
        offset_bytes,
        length_bytes,
    };
    drive.submit(command, 0)
}

#[test]
fn what_was_never_written_is_read_without_flash_and_says_so() {
    let profile = member("p4510-2tb");
    let mut fresh = drive_of(&profile, State::Fresh);
    let nothing = one(&mut fresh, Operation::Read, 0, 4096);
    assert!(nothing.unmapped);
    assert!(nothing.done_ns < profile.read_latency_ns - profile.read_unit_ns / 2);
    assert_eq!(fresh.totals().media_read_bytes, 0);
    one(&mut fresh, Operation::Write, 0, 4096);
    assert!(!one(&mut fresh, Operation::Read, 0, 4096).unmapped);
    assert!(one(&mut fresh, Operation::Read, 1_000_000_000_000, 4096).unmapped);
}

#[test]
fn small_and_misaligned_commands_cost_whole_map_units() {
    let profile = member("p4510-2tb");
    let mut drive = drive_of(&profile, State::Filled);
    one(&mut drive, Operation::Read, 0, 512);
    assert_eq!(drive.totals().media_read_bytes, 4096);
    one(&mut drive, Operation::Read, 512, 4096);
    assert_eq!(drive.totals().media_read_bytes, 4096 + 8192);
    // 512 bytes cost a whole unit twice: read, and written again.
    one(&mut drive, Operation::Write, 0, 512);
    assert_eq!(drive.totals().media_write_bytes, 8192);
    // 12 KiB at an offset of 512 cover two whole units, and two in part.
    one(&mut drive, Operation::Write, 65_536 + 512, 12_288);
    assert_eq!(drive.totals().media_write_bytes, 8192 + 2 * 4096 + 2 * 8192);
}

#[test]
fn misaligned_random_writes_reach_less() {
    let profile = member("p4510-2tb");
    let rate = |misaligned_bytes| {
        let load = Load {
            misaligned_bytes,
            ..Load::random(0, 8, 8)
        };
        closed_loop(&mut drive_of(&profile, State::Fresh), load, 20, 100).iops()
    };
    // As much as four map units instead of one: two are touched, each at twice the price.
    let ratio = rate(0) / rate(512);
    assert!((3.8..4.2).contains(&ratio), "{ratio}");
}

#[test]
fn a_command_above_the_largest_is_cut() {
    let profile = member("p4510-2tb");
    let mut drive = drive_of(&profile, State::Filled);
    one(&mut drive, Operation::Read, 0, 300_000);
    assert_eq!(drive.totals().reads, 3);
    assert_eq!(drive.totals().read_bytes, 300_000);
}

#[test]
fn a_flush_costs_a_command_and_time_never_runs_back() {
    let profile = member("p4510-2tb");
    let mut drive = drive_of(&profile, State::Steady);
    let first = one(&mut drive, Operation::Flush, 0, 0);
    assert!(first.done_ns < profile.write_latency_ns);
    let later = Command {
        operation: Operation::Read,
        offset_bytes: 0,
        length_bytes: 4096,
    };
    drive.submit(later, 1_000_000);
    assert!(drive.submit(later, 500).done_ns > 1_000_000);
}

#[test]
fn states_order_random_writes() {
    let profile = member("p4510-2tb");
    let rate = |state| {
        let mut drive = drive_of(&profile, state);
        closed_loop(&mut drive, Load::random(0, 8, 8), 2500, 300).iops()
    };
    let [filled, steady, worn] = [State::Filled, State::Steady, State::Worn].map(rate);
    // Nothing is collected, so the rate is that of flash.
    assert!((460e3..490e3).contains(&filled), "{filled}");
    assert!((0.97..1.03).contains(&(steady / 79e3)), "{steady}");
    assert!((7000.0..7400.0).contains(&worn), "{worn}");
}

#[test]
fn a_second_stream_ends_reading_ahead() {
    let profile = member("p4510-8tb");
    let rate = |threads| {
        let mut drive = drive_of(&profile, State::Filled);
        closed_loop(&mut drive, Load::in_order(100, threads, 1), 20, 200).bytes_per_s()
    };
    let [one, two, eight] = [1, 2, 8].map(rate);
    assert!(two < 0.9 * one && eight > 2.0 * two, "{one} {two} {eight}");
}

#[test]
fn suspending_programs_shortens_the_tail_of_reads_in_a_mix() {
    let tail_us = |suspends| {
        let profile = Profile {
            suspends,
            ..member("p4510-8tb")
        };
        let load = Load::random(70, 1, 256);
        let mut drive = drive_of(&profile, State::Steady);
        let outcome = open_loop(&mut drive, load, 100_000, Arrivals::Poisson, 100, 1000);
        outcome.percentile_us(99_900)
    };
    let ratio = tail_us(false) / tail_us(true);
    assert!(ratio > 3.0, "{ratio}");
}

#[test]
fn power_lies_between_idle_and_a_little_above_rated() {
    let profile = member("p4510-8tb");
    let mut drive = drive_of(&profile, State::Steady);
    assert_eq!(drive.energy_nj(1_000_000_000), 5_000_000_000);
    let load = Load::in_order(0, 4, 4);
    let mut drive = drive_of(&profile, State::Filled);
    let watts = closed_loop(&mut drive, load, 100, 500).watts;
    assert!((15.8..16.2).contains(&watts), "{watts}");
}

/// The digest of a run in every state; the same in debug and release builds, on every machine.
#[test]
fn the_same_commands_get_the_same_answers_for_ever() {
    let profile = member("p4510-2tb");
    let mut digest = 0;
    for (number, state) in [State::Fresh, State::Filled, State::Steady, State::Worn]
        .into_iter()
        .enumerate()
    {
        let mut drive = Drive::new(&profile, state, profile.port, 7, number as u64);
        let mixed = closed_loop(&mut drive, Load::random(60, 4, 4), 0, 60);
        let ordered = closed_loop(&mut drive, Load::in_order(50, 1, 2), 0, 60);
        digest = mix(digest ^ mixed.digest) ^ mix(ordered.digest);
    }
    assert_eq!(digest, 0xC849_CF64_1A67_F547, "{digest:#x}");
}

/// A constant, a figure that depends on it, and the sign: whether a higher constant raises or lowers the figure.
type Question = (&'static str, f64, fn(&Family) -> f64);

fn run(family: &Family, id: &str, state: State, load: Load, warm_ms: u64) -> LoadResult {
    let profile = family.member(id).unwrap_or_else(|error| panic!("{error}"));
    closed_loop(&mut drive_of(&profile, state), load, warm_ms, 100)
}

fn reads_at_depth_64(family: &Family) -> f64 {
    run(
        family,
        "p4510-8tb",
        State::Steady,
        Load::random(100, 8, 8),
        10,
    )
    .iops()
}

fn deep_reads(family: &Family) -> f64 {
    run(
        family,
        "p4510-8tb",
        State::Steady,
        Load::random(100, 8, 64),
        10,
    )
    .iops()
}

fn steady_writes(family: &Family) -> f64 {
    run(
        family,
        "p4510-8tb",
        State::Steady,
        Load::random(0, 8, 64),
        2500,
    )
    .iops()
}

fn single_writes(family: &Family) -> f64 {
    run(family, "p4510-8tb", State::Fresh, Load::random(0, 1, 1), 10).iops()
}

fn write_tail(family: &Family) -> f64 {
    let load = Load::random(0, 1, 1);
    run(family, "p4510-8tb", State::Fresh, load, 2000).percentile_us(99_000)
}

fn ordered_reads(family: &Family) -> f64 {
    run(
        family,
        "p4510-8tb",
        State::Filled,
        Load::in_order(100, 4, 1),
        10,
    )
    .bytes_per_s()
}

fn ordered_writes(family: &Family) -> f64 {
    run(
        family,
        "p4510-8tb",
        State::Filled,
        Load::in_order(0, 8, 4),
        10,
    )
    .bytes_per_s()
}

fn single_stream(family: &Family) -> f64 {
    run(
        family,
        "p4510-8tb",
        State::Filled,
        Load::in_order(100, 1, 1),
        10,
    )
    .bytes_per_s()
}

fn mixed_reads(family: &Family) -> f64 {
    run(
        family,
        "p4510-8tb",
        State::Steady,
        Load::random(50, 8, 1),
        100,
    )
    .iops()
}

/// Writes that a steady drive completes in three seconds: more, the longer its pool lasts.
fn pool_lasts(family: &Family) -> f64 {
    let profile = family
        .member("p4510-8tb")
        .unwrap_or_else(|error| panic!("{error}"));
    let mut drive = drive_of(&profile, State::Steady);
    let outcome = closed_loop(&mut drive, Load::random(0, 8, 16), 0, 3000);
    outcome.completed as f64
}

#[test]
fn every_constant_pulls_the_way_it_should() {
    let questions: [Question; 15] = [
        ("media.read_unit_us", -1.0, reads_at_depth_64),
        ("media.unit_transfer_mb_s", 1.0, ordered_reads),
        ("media.suspend_us", -1.0, mixed_reads),
        ("media.partial_write_factor", -1.0, |family| {
            let load = Load {
                misaligned_bytes: 512,
                ..Load::random(0, 8, 8)
            };
            run(family, "p4510-8tb", State::Fresh, load, 10).iops()
        }),
        ("latency.read_us", -1.0, reads_at_depth_64),
        ("latency.write_us", -1.0, single_writes),
        ("controller.sector_ns", -1.0, single_stream),
        ("controller.read_ahead_kib", 1.0, single_stream),
        ("stalls.short_per_write", 1.0, write_tail),
        ("stalls.short_mean_us", 1.0, write_tail),
        ("p4510-8tb.units", 1.0, reads_at_depth_64),
        ("p4510-8tb.read_kiops", 1.0, deep_reads),
        ("p4510-8tb.write_mb_s", 1.0, ordered_writes),
        ("p4510-8tb.steady_write_kiops", 1.0, steady_writes),
        ("p4510-8tb.pool_mb", 1.0, pool_lasts),
    ];
    for (name, direction, measure) in questions {
        let with = |factor: f64| {
            let mut family = family();
            // Makes room for the changes below, which the program time and the link would otherwise forbid.
            family.media.program_us.value /= 2.0;
            family.link.generation.value = 4.0;
            let figure = family
                .figure_mut(name)
                .unwrap_or_else(|| panic!("no {name}"));
            let whole = name.ends_with("units") || name.ends_with("kib");
            figure.value *= factor;
            if whole {
                figure.value = figure.value.round();
            }
            measure(&family)
        };
        let [less, same, more] = [0.8, 1.0, 1.25].map(with);
        assert!(
            (more - less) * direction > 0.0,
            "{name}: {less} {same} {more}"
        );
        assert!(
            (same - less) * direction >= 0.0,
            "{name}: {less} {same} {more}"
        );
        assert!(
            (more - same) * direction >= 0.0,
            "{name}: {less} {same} {more}"
        );
    }
}
