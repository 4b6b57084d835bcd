//! Drives that write in place, without a buffer: the Optane drives' profiles.

use crate::support::{Load, closed_loop, drive_of};
use models::drive::{Command, Drive, Operation, State};
use models::library::with_id;
use models::profile::Profile;

const US: u64 = 1_000;
const KIB: u64 = 1 << 10;

fn optane() -> Profile {
    with_id("p4800x-750gb").unwrap_or_else(|error| panic!("{error}"))
}

/// The same without chance.
fn without_stalls() -> Profile {
    let mut profile = optane();
    profile.without_stalls();
    profile
}

/// When a command is done that arrives at `now_ns`.
fn done_ns(drive: &mut Drive, operation: Operation, range: (u64, u64), now_ns: u64) -> u64 {
    let command = Command {
        operation,
        offset_bytes: range.0,
        length_bytes: range.1,
    };
    drive.submit(command, now_ns).done_ns
}

#[test]
fn an_idle_drive_answers_after_its_latency() {
    let profile = without_stalls();
    let mut drive = drive_of(&profile, State::Steady);
    let read_ns = done_ns(&mut drive, Operation::Read, (0, 4096), 0);
    assert_eq!(read_ns, profile.read_latency_ns);
    let at_ns = 1_000 * US;
    let write_ns = done_ns(&mut drive, Operation::Write, (0, 4096), at_ns) - at_ns;
    // The unit read before, so it turns to programs first.
    assert_eq!(write_ns, profile.write_latency_ns + profile.suspend_ns);
    let at_ns = 2_000 * US;
    let write_ns = done_ns(&mut drive, Operation::Write, (0, 4096), at_ns) - at_ns;
    assert_eq!(write_ns, profile.write_latency_ns);
}

#[test]
fn nothing_is_answered_before_the_medium_has_it() {
    let profile = without_stalls();
    let mut drive = drive_of(&profile, State::Steady);
    let mut last_ns = 0;
    for command in 1..=100 {
        let range = (command * 128 * KIB, 128 * KIB);
        last_ns = last_ns.max(done_ns(&mut drive, Operation::Write, range, 0));
        // Bytes answered so far, at the rate of programs: there is no burst.
        let programs_ns = command * 128 * KIB * 1_000_000_000 / profile.program_bytes_per_s;
        assert!(last_ns >= programs_ns, "{command}: {last_ns} {programs_ns}");
    }
}

#[test]
fn writes_that_fill_no_map_unit_cost_more() {
    let profile = without_stalls();
    let mut drive = drive_of(&profile, State::Steady);
    let mut takes_ns = |range, at_ns| done_ns(&mut drive, Operation::Write, range, at_ns) - at_ns;
    let whole_ns = takes_ns((0, 4096), 1_000 * US);
    let part_ns = takes_ns((0, 2048), 2_000 * US);
    // A part of a unit is read first; less data arrive, which saves less.
    assert!(part_ns > whole_ns && part_ns <= whole_ns + profile.read_unit_ns);
    let aligned_ns = takes_ns((0, 128 * KIB), 3_000 * US);
    let shifted_ns = takes_ns((512, 128 * KIB), 4_000 * US);
    let ratio = shifted_ns as f64 / aligned_ns as f64;
    assert!((1.3..1.6).contains(&ratio), "{ratio}");
    let media_bytes = drive.totals().media_write_bytes;
    // 4 KiB over a border cover two units in part, also within a stripe.
    let mut wide = without_stalls();
    wide.stripe_bytes = 16 * KIB;
    let mut wide = drive_of(&wide, State::Steady);
    let mut wide_ns = |range, at_ns| done_ns(&mut wide, Operation::Write, range, at_ns) - at_ns;
    let [aligned_ns, over_ns] = [
        wide_ns((0, 4096), 1_000 * US),
        wide_ns((512, 4096), 2_000 * US),
    ];
    assert!(
        over_ns > aligned_ns + profile.program_ns,
        "{over_ns} {aligned_ns}"
    );
    // Two units of the small writes, 32 of the aligned one, and 33 at their higher price.
    let shifted_bytes = 33 * 4096 * profile.partial_write_per_mille / 1000;
    assert_eq!(media_bytes, 34 * 4096 + shifted_bytes);
}

#[test]
fn a_worn_drive_writes_slowly_and_reads_as_before() {
    let load = |read_percent, depth| Load::random(read_percent, 8, depth);
    let rate = |state, read_percent| {
        let mut drive = drive_of(&optane(), state);
        closed_loop(&mut drive, load(read_percent, 16), 200, 1_200).iops()
    };
    let worn_mb_s = rate(State::Worn, 0) * 4096.0 / 1e6;
    assert!((29.0..31.0).contains(&worn_mb_s), "{worn_mb_s}");
    let reads = rate(State::Worn, 100) / rate(State::Steady, 100);
    assert!((0.999..1.001).contains(&reads), "{reads}");
}

#[test]
fn its_energy_counts_what_it_has_programmed() {
    let profile = without_stalls();
    let energy_nj = |writes| {
        let mut drive = drive_of(&profile, State::Steady);
        for write in 0..writes {
            done_ns(
                &mut drive,
                Operation::Write,
                (write * 4096, 4096),
                write * 10 * US,
            );
        }
        drive.energy_nj(100_000 * US)
    };
    let programmed_nj = energy_nj(1000) - energy_nj(0);
    let expected_nj = 1000 * 4096 * profile.program_pj_per_byte / 1000;
    assert!(programmed_nj.abs_diff(expected_nj) <= 1, "{programmed_nj}");
}

#[test]
fn a_refresh_after_power_on_takes_its_share_and_ends() {
    let profile = without_stalls();
    let done_ns = |is_powered_on: bool, now_ns: u64| {
        let mut drive = Drive::new(&profile, State::Steady, profile.port, 1, 0);
        if is_powered_on {
            drive.power_on();
        }
        let read = |number: u64| Command {
            operation: Operation::Read,
            offset_bytes: number * 4096,
            length_bytes: 4096,
        };
        let done = (0..10_000).map(|number| drive.submit(read(number), now_ns).done_ns);
        done.max().unwrap() - now_ns
    };
    let usual_ns = done_ns(false, 0) as f64;
    let slower = done_ns(true, 0) as f64 / usual_ns;
    // A tenth of the medium's time is gone, and the medium is the limit of 4 KiB reads.
    assert!((1.09..1.12).contains(&slower), "{slower}");
    let hour_ns = 3_600_000_000_000;
    assert!(done_ns(true, 3 * hour_ns - 1) as f64 > 1.05 * usual_ns);
    assert_eq!(done_ns(true, 3 * hour_ns) as f64, usual_ns);
}
