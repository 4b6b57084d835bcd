//! The oracle's own rules, on one sector.

use super::pattern::fill;
use super::*;

fn oracle() -> Oracle {
    Oracle::new(0, 4, Value::Zero)
}

fn bytes(request: u32) -> Vec<u8> {
    let mut bytes = vec![0; SECTOR_BYTES];
    if request > 0 {
        fill(request, 0, 1, &mut bytes);
    }
    bytes
}

fn write(oracle: &mut Oracle, request: u32, how: Ended) {
    oracle.write_begins(request, Value::Of(request), 1..2);
    oracle.write_ends(request, 1..2, how);
}

fn read(oracle: &mut Oracle, request: u32) -> Result<(), Wrong> {
    let began = oracle.read_begins();
    oracle.read_ends(began, 1, &bytes(request))
}

/// The requests, of 0 to 5, whose data a read may return, without deciding for one of them.
fn possible(oracle: &mut Oracle) -> Vec<u32> {
    let decides = std::mem::replace(&mut oracle.decides, false);
    let found = (0..6).filter(|&request| read(oracle, request).is_ok());
    let found = found.collect();
    oracle.decides = decides;
    found
}

#[test]
fn in_flight_both_acknowledged_only_the_new() {
    let mut oracle = oracle();
    oracle.write_begins(1, Value::Of(1), 1..2);
    assert_eq!(possible(&mut oracle), [0, 1]);
    oracle.write_ends(1, 1..2, Ended::Done);
    assert_eq!(possible(&mut oracle), [1]);
    let wrong = read(&mut oracle, 0).unwrap_err();
    assert_eq!(
        (wrong.found, wrong.allowed),
        (Some(Value::Zero), vec![Value::Of(1)])
    );
}

#[test]
fn a_process_crash_keeps_what_was_acknowledged_and_a_power_cut_what_was_durable() {
    for power in [false, true] {
        let mut oracle = oracle();
        write(&mut oracle, 1, Ended::Durable);
        write(&mut oracle, 2, Ended::Done);
        oracle.write_begins(3, Value::Of(3), 1..2);
        oracle.crash(power);
        let expected: &[u32] = if power { &[1, 2, 3] } else { &[2, 3] };
        assert_eq!(possible(&mut oracle), expected);
    }
}

#[test]
fn the_first_read_after_a_crash_decides() {
    let mut oracle = oracle();
    oracle.write_begins(1, Value::Of(1), 1..2);
    oracle.crash(true);
    assert_eq!(possible(&mut oracle), [0, 1]);
    read(&mut oracle, 0).unwrap();
    assert_eq!(possible(&mut oracle), [0]);
}

#[test]
fn a_flush_makes_durable_what_was_acknowledged_before_it_began() {
    let mut oracle = oracle();
    write(&mut oracle, 1, Ended::Done);
    let flush = oracle.flush_begins();
    write(&mut oracle, 2, Ended::Done);
    oracle.flush_ends(flush);
    oracle.crash(true);
    assert_eq!(possible(&mut oracle), [1, 2]);
}

#[test]
fn writes_that_overlap_in_time_leave_either_and_a_read_decides() {
    let mut oracle = oracle();
    oracle.write_begins(1, Value::Of(1), 1..2);
    oracle.write_begins(2, Value::Of(2), 1..2);
    oracle.write_ends(2, 1..2, Ended::Done);
    oracle.write_ends(1, 1..2, Ended::Done);
    assert_eq!(possible(&mut oracle), [1, 2]);
    read(&mut oracle, 2).unwrap();
    assert_eq!(possible(&mut oracle), [2]);
    write(&mut oracle, 3, Ended::Maybe);
    assert_eq!(possible(&mut oracle), [2, 3]);
}

#[test]
fn a_read_may_return_what_was_there_at_any_time_of_it() {
    let mut oracle = oracle();
    let early = oracle.read_begins();
    write(&mut oracle, 1, Ended::Durable);
    oracle.read_ends(early, 1, &bytes(0)).unwrap();
    let late = oracle.read_begins();
    assert!(oracle.read_ends(late, 1, &bytes(0)).is_err());
}

#[test]
fn what_an_earlier_owner_left_stays_once_it_was_seen() {
    let mut oracle = Oracle::new(0, 4, Value::LeftOver);
    assert_eq!(read(&mut oracle, 5), Ok(()));
    assert!(read(&mut oracle, 4).is_err());
    assert_eq!(read(&mut oracle, 5), Ok(()));
}

#[test]
fn what_was_in_flight_to_a_lost_drive_is_what_the_first_read_finds() {
    for (power, how, expected) in [
        (false, None, vec![1]),
        (false, Some(Ended::Done), vec![]),
        (false, Some(Ended::Maybe), vec![1]),
        (true, Some(Ended::Done), vec![1]),
        (true, Some(Ended::Durable), vec![]),
    ] {
        let mut oracle = oracle();
        oracle.write_begins(1, Value::Of(1), 1..2);
        if let Some(how) = how {
            oracle.write_ends(1, 1..2, how);
        }
        assert_eq!(oracle.crash(power), expected, "{power} {how:?}");
    }
    let mut oracle = oracle();
    write(&mut oracle, 1, Ended::Durable);
    oracle.may_hold_anything(1);
    let torn = [0xA5; SECTOR_BYTES];
    let mut found = |bytes: &[u8]| {
        let began = oracle.read_begins();
        oracle.read_ends(began, 1, bytes)
    };
    assert_eq!(found(&torn), Ok(()));
    assert_eq!(found(&torn), Ok(()));
    assert!(found(&bytes(1)).is_err());
}
