//! Drives with a pseudo-SLC cache: the burst, what follows it, and in which states there is one.

use crate::support::{Load, closed_loop, drive_of, family};
use models::drive::State;
use models::profile::Profile;
use models::tables::Tables;

const ID: &str = "p4510-2tb";

/// The P4510 of 2 TB with a cache of 4 GB that takes 3 GB/s before the 2 GB/s of its programs.
fn with_cache() -> Profile {
    let mut family = family();
    for (key, value) in [
        ("p4510-2tb.burst_gb", 4.0),
        ("p4510-2tb.burst_write_mb_s", 3000.0),
    ] {
        family.figure_mut(key).expect(key).value = value;
    }
    family.member(ID).unwrap_or_else(|error| panic!("{error}"))
}

/// 10⁹ bytes that are written in each of the first seconds.
fn gb_by_second(profile: &Profile, state: State) -> Vec<f64> {
    let load = Load::in_order(0, 1, 32);
    let outcome = closed_loop(&mut drive_of(profile, state), load, 0, 4000);
    let seconds = outcome.by_second.iter();
    seconds
        .map(|writes| (writes * load.length_bytes) as f64 / 1e9)
        .collect()
}

#[test]
fn a_run_of_a_fresh_or_filled_drive_shows_the_burst_and_the_cliff_and_a_steady_one_neither() {
    let near = |gb: f64, expected: f64| (gb / expected - 1.0).abs() < 0.02;
    for state in [State::Fresh, State::Filled] {
        let gb = gb_by_second(&with_cache(), state);
        // 3 GB in the first second; 1 GB at that rate and 1.33 GB after it in the next; then 2.
        assert!(near(gb[0], 3.0), "{state:?}: {gb:?}");
        assert!(near(gb[1], 2.33), "{state:?}: {gb:?}");
        assert!(near(gb[2], 2.0) && near(gb[3], 2.0), "{state:?}: {gb:?}");
    }
    let plain = family().member(ID).expect("it is there");
    for state in [State::Steady, State::Worn] {
        assert_eq!(
            gb_by_second(&with_cache(), state),
            gb_by_second(&plain, state)
        );
    }
}

#[test]
fn a_spent_drive_has_no_burst() {
    let load = Load::in_order(0, 1, 32);
    let rate = |spends| {
        let mut drive = drive_of(&with_cache(), State::Filled);
        if spends {
            drive.spend_pool();
        }
        closed_loop(&mut drive, load, 100, 1000).bytes_per_s() / 1e9
    };
    assert!((2.95..3.05).contains(&rate(false)), "{}", rate(false));
    assert!((1.98..2.02).contains(&rate(true)), "{}", rate(true));
}

#[test]
fn a_burst_that_no_drive_has_is_told() {
    for (figures, sentence) in [
        (
            [4.0, 0.0],
            "p4510-2tb: ratings.burst_gb and ratings.burst_write_mb_s have to be 0 both, or neither",
        ),
        (
            [3000.0, 3000.0],
            "p4510-2tb: ratings.burst_gb has to be at most the capacity",
        ),
        (
            [4.0, 1000.0],
            "p4510-2tb: ratings.burst_write_mb_s is below ratings.write_mb_s",
        ),
        (
            [4.0, 5000.0],
            "p4510-2tb: ratings.burst_write_mb_s needs 5000 MB/s, but the link has 3938 MB/s",
        ),
    ] {
        let mut family = family();
        for (key, value) in ["p4510-2tb.burst_gb", "p4510-2tb.burst_write_mb_s"]
            .into_iter()
            .zip(figures)
        {
            family.figure_mut(key).expect(key).value = value;
        }
        assert_eq!(family.member(ID).expect_err(sentence).to_string(), sentence);
    }
}
