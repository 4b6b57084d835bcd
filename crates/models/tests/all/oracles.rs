//! The drive model against queueing theory and conservation laws, whose results do not depend on its code.

use crate::support::{Arrivals, Load, closed_loop, drive_of, family, open_loop};
use models::drive::{Command, Drive, Operation, State};
use models::port::Port;
use models::profile::Profile;
use models::stalls::Component;

const SERVICE_NS: u64 = 50_000;
const SEEDS: u64 = 5;
/// Student's t for 97.5 % with four degrees of freedom.
const STUDENT: f64 = 2.776;

/// A drive with units only: no controller, no data path, no port, no fixed time.
fn bare(units: usize) -> Profile {
    let nothing = Component::default();
    Profile {
        units,
        command_ns: 0,
        sector_ns: 0,
        read_latency_ns: SERVICE_NS,
        read_unit_ns: SERVICE_NS,
        path_bytes_per_s: 0,
        port: Port::unlimited(),
        read_stalls: [nothing; 2],
        write_stalls: [nothing; 2],
        ..family().member("p4510-8tb").expect("the profile is sound")
    }
}

/// The same with exponential service times: every read stalls, and takes no other time.
fn bare_exponential(units: usize) -> Profile {
    let always = Component {
        rate: 1.0,
        mean_ns: SERVICE_NS,
    };
    Profile {
        read_latency_ns: 0,
        read_unit_ns: 0,
        read_stalls: [always, Component::default()],
        ..bare(units)
    }
}

/// The mean over several seeds has to meet the theory within three half-widths of its 95 % interval, and
/// that interval has to be narrow enough to be meaningful.
fn assert_meets(theory: f64, measure: impl Fn(u64) -> f64) {
    let values: Vec<f64> = (1..=SEEDS).map(measure).collect();
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let variance = values
        .iter()
        .map(|value| (value - mean).powi(2))
        .sum::<f64>()
        / (n - 1.0);
    let half_width = STUDENT * (variance / n).sqrt();
    assert!(
        half_width < 0.04 * theory,
        "too wide: {mean} +- {half_width}"
    );
    let distance = (mean - theory).abs();
    // The model's times are whole nanoseconds, so a small difference is allowed.
    assert!(
        distance <= 3.0 * half_width + 1e-4 * theory,
        "theory {theory}, model {mean} +- {half_width}"
    );
}

fn mean_latency_us(profile: &Profile, utilisation: f64, units: u64, seed: u64) -> f64 {
    let demand_iops = utilisation * units as f64 * 1e9 / SERVICE_NS as f64;
    let load = Load {
        seed,
        ..Load::random(100, 1, 1_000_000)
    };
    let mut drive = Drive::new(profile, State::Steady, profile.port, seed, 0);
    let arrivals = Arrivals::Poisson;
    open_loop(&mut drive, load, demand_iops as u64, arrivals, 200, 4000).mean_us()
}

#[test]
fn one_unit_is_m_d_1() {
    for utilisation in [0.3, 0.6, 0.8] {
        let service_us = SERVICE_NS as f64 / 1e3;
        let theory = service_us * (1.0 + utilisation / (2.0 * (1.0 - utilisation)));
        assert_meets(theory, |seed| {
            mean_latency_us(&bare(1), utilisation, 1, seed)
        });
    }
}

#[test]
fn many_units_under_random_load_are_each_m_d_1() {
    let theory = 50.0 * (1.0 + 0.5 / (2.0 * 0.5));
    assert_meets(theory, |seed| mean_latency_us(&bare(16), 0.5, 16, seed));
}

#[test]
fn one_unit_with_exponential_service_is_m_m_1() {
    let theory = 50.0 / (1.0 - 0.6);
    assert_meets(theory, |seed| {
        mean_latency_us(&bare_exponential(1), 0.6, 1, seed)
    });
}

#[test]
fn a_closed_loop_over_exponential_units_is_mean_value_analysis() {
    // Balanced product-form network: N customers keep N / (N + D - 1) of D stations busy.
    for (units, depth) in [(1, 4), (8, 4), (8, 32), (36, 64)] {
        let customers = depth as f64;
        let share = customers / (customers + units as f64 - 1.0);
        let theory = share * units as f64 * 1e9 / SERVICE_NS as f64;
        assert_meets(theory, |seed| {
            let profile = bare_exponential(units);
            let mut drive = Drive::new(&profile, State::Steady, profile.port, seed, 0);
            let load = Load {
                seed,
                ..Load::random(100, 1, depth)
            };
            closed_loop(&mut drive, load, 100, 1500).iops()
        });
    }
}

#[test]
fn a_narrow_port_saturates_at_its_bandwidth_in_each_direction() {
    for (read_pct, state) in [(100, State::Steady), (0, State::Fresh)] {
        let mut profile = bare(64);
        profile.write_latency_ns = 0;
        let port = Port {
            to_host_bytes_per_s: 1_000_000_000,
            to_drive_bytes_per_s: 800_000_000,
            command_overhead_bytes: 64,
        };
        profile.port = port;
        let mut drive = drive_of(&profile, state);
        let iops = closed_loop(&mut drive, Load::random(read_pct, 1, 256), 10, 200).iops();
        let bytes_per_s = if read_pct == 100 { 1e9 } else { 8e8 };
        let share = iops * (4096.0 + 64.0) / bytes_per_s;
        assert!((0.998..1.002).contains(&share), "{share}");
    }
}

#[test]
fn the_controller_caps_and_everything_stays_below_its_capacity() {
    let profile = family().member("p4510-8tb").expect("the profile is sound");
    let mut drive = drive_of(&profile, State::Steady);
    let outcome = closed_loop(&mut drive, Load::random(100, 8, 64), 0, 400);
    let cap = 1e9 / profile.controller_ns(4096) as f64;
    assert!(
        (0.99..1.0).contains(&(outcome.iops() / cap)),
        "{}",
        outcome.iops()
    );
    // A little longer than the run, because outstanding commands are booked beyond the last answer.
    let span_ns = 401_000_000;
    let busy = drive.busy_times();
    assert!(busy.controller_ns <= span_ns);
    assert!(busy.path_ns <= span_ns && busy.to_host_ns <= span_ns);
    assert!(busy.units_ns <= span_ns * profile.units as u64);
}

#[test]
fn littles_law_holds_to_the_nanosecond() {
    let profile = family().member("p4510-2tb").expect("the profile is sound");
    for (read_pct, state) in [
        (100, State::Steady),
        (70, State::Steady),
        (0, State::Filled),
    ] {
        let mut drive = drive_of(&profile, state);
        let outcome = closed_loop(&mut drive, Load::random(read_pct, 4, 8), 0, 200);
        // The sum of all times in the system equals the integral of the number of commands in it.
        assert_eq!(outcome.little.0, outcome.little.1);
        let mut drive = drive_of(&profile, state);
        let load = Load::random(read_pct, 1, 64);
        let outcome = open_loop(&mut drive, load, 90_000, Arrivals::Paced, 0, 200);
        assert_eq!(outcome.little.0, outcome.little.1);
    }
}

#[test]
fn bytes_are_conserved() {
    let profile = family().member("p4510-2tb").expect("the profile is sound");
    let mut drive = drive_of(&profile, State::Steady);
    closed_loop(&mut drive, Load::random(50, 8, 4), 0, 3000);
    let totals = drive.totals();
    assert_eq!(totals.read_bytes, totals.reads * 4096);
    assert_eq!(totals.media_read_bytes, totals.read_bytes);
    assert_eq!(totals.media_write_bytes, totals.writes * 4096);
    // The bytes programmed are those that the host wrote, and `extra` bytes for each byte that collection
    // made clean.
    let drain = drive.drain();
    let extra = profile.amplification_per_mille as f64 / 1e3 - 1.0;
    let drained = totals.media_write_bytes - drain.buffered_bytes();
    let won = drain.pool_bytes() as f64 - profile.pool_bytes as f64 + drained as f64;
    let expected = drained as f64 + won * extra;
    let ratio = drain.programmed_bytes() as f64 / expected;
    assert!((0.9999..1.0001).contains(&ratio), "{ratio}");
}

#[test]
fn a_single_command_takes_its_rated_latency() {
    let profile = Profile {
        read_stalls: [Component::default(); 2],
        write_stalls: [Component::default(); 2],
        ..family().member("p4510-8tb").expect("the profile is sound")
    };
    let mut drive = drive_of(&profile, State::Filled);
    for (at_ns, operation, latency_ns) in [
        (0, Operation::Read, profile.read_latency_ns),
        (10_000_000, Operation::Write, profile.write_latency_ns),
    ] {
        let command = Command {
            operation,
            offset_bytes: 8192,
            length_bytes: 4096,
        };
        let completion = drive.submit(command, at_ns);
        assert_eq!(completion.done_ns - at_ns, latency_ns);
        assert!(!completion.unmapped);
    }
}
