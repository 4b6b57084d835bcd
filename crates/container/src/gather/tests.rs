//! How long an array waits for its drives, on a machine of invented ones.

use super::*;
use std::cell::{Cell, RefCell};
use std::sync::mpsc::SyncSender;

/// A machine with an array of the members m0, m1 and m2, which starts with all of them, and without some of them with
/// `needed`. A device called b0 cannot be read, those whose names begin with h do not answer, and x0 is its spare. While
/// the member m9 is there, something else than missing members keeps it from starting.
struct Fake {
    hangs: RefCell<Vec<SyncSender<Result<Part>>>>,
    devices: RefCell<Vec<(&'static str, u64)>>,
    needed: usize,
    looked: Cell<usize>,
    began: Instant,
}

impl Fake {
    fn new(needed: usize) -> Fake {
        Fake {
            hangs: RefCell::default(),
            devices: RefCell::default(),
            needed,
            looked: Cell::new(0),
            began: Instant::now(),
        }
    }

    fn step(&self, gathering: &mut Gathering, seconds: u64) -> Step {
        let now = self.began + Duration::from_secs(seconds);
        gathering.step(self, now).unwrap()
    }

    fn appears(&self, name: &'static str, sequence: u64) {
        self.devices.borrow_mut().push((name, sequence));
    }
}

impl Look for Fake {
    fn devices(&self) -> Result<Vec<Device>> {
        let devices = self.devices.borrow();
        let device = |(name, sequence): &(&str, u64)| Device {
            path: format!("/dev/{name}"),
            sequence: Some(*sequence),
        };
        Ok(devices.iter().map(device).collect())
    }

    fn ask(&self, device: &Device) -> Result<Answer> {
        self.looked.set(self.looked.get() + 1);
        let (sender, answer) = sync_channel(1);
        if device.path.starts_with("/dev/h") {
            self.hangs.borrow_mut().push(sender);
            return Ok(answer);
        }
        let part = match device.path.get(..6) {
            Some("/dev/b") => Err(anyhow!("it cannot be read")),
            Some("/dev/m") => Ok(Part::Member),
            Some("/dev/x") => Ok(Part::Spare),
            _ => Ok(Part::Stranger),
        };
        sender.send(part).unwrap();
        Ok(answer)
    }

    fn starts(&self, drives: &[String], degraded: bool) -> Result<bool> {
        if drives.iter().any(|drive| drive == "/dev/m9") {
            return Err(anyhow!("m9 is there twice"));
        }
        Ok(drives.len() >= if degraded { self.needed } else { 3 })
    }
}

fn started(names: &[&str], degraded: bool) -> Step {
    let drives = names.iter().map(|name| format!("/dev/{name}"));
    Step::start(drives.collect(), degraded)
}

fn waits(count: usize) -> Step {
    Step::Wait {
        count,
        too_few: false,
        why: None,
    }
}

const PATIENCE: Duration = Duration::from_secs(30);

#[test]
fn an_array_starts_when_its_last_member_appears() {
    let (fake, mut gathering) = (Fake::new(2), Gathering::new(PATIENCE));
    assert_eq!(fake.step(&mut gathering, 0), waits(0));
    fake.appears("sda", 1);
    fake.appears("m1", 2);
    assert_eq!(fake.step(&mut gathering, 1000), waits(1));
    fake.appears("m0", 3);
    assert_eq!(fake.step(&mut gathering, 1029), waits(2));
    fake.appears("m2", 4);
    let all = started(&["m0", "m1", "m2"], false);
    assert_eq!(fake.step(&mut gathering, 1040), all);
    // Each device was looked at once.
    assert_eq!(fake.looked.get(), 4);
}

#[test]
fn missing_members_are_waited_for_since_the_last_that_appeared() {
    let (fake, mut gathering) = (Fake::new(2), Gathering::new(PATIENCE));
    fake.appears("m0", 1);
    assert_eq!(fake.step(&mut gathering, 0), waits(1));
    fake.appears("m2", 2);
    assert_eq!(fake.step(&mut gathering, 20), waits(2));
    assert_eq!(fake.step(&mut gathering, 49), waits(2));
    let two = started(&["m0", "m2"], true);
    assert_eq!(fake.step(&mut gathering, 50), two);
}

#[test]
fn an_array_that_cannot_start_with_what_is_there_waits_on() {
    let (fake, mut gathering) = (Fake::new(2), Gathering::new(PATIENCE));
    fake.appears("m0", 1);
    assert_eq!(fake.step(&mut gathering, 0), waits(1));
    let too_few = || Step::Wait {
        count: 1,
        too_few: true,
        why: None,
    };
    assert_eq!(fake.step(&mut gathering, 30), too_few());
    assert_eq!(fake.step(&mut gathering, 3000), too_few());
    // The others come at last; nobody waits any longer than for members that are missing.
    fake.appears("m1", 2);
    fake.appears("m2", 3);
    let all = started(&["m0", "m1", "m2"], false);
    assert_eq!(fake.step(&mut gathering, 3001), all);
}

#[test]
fn what_else_keeps_an_array_from_starting_is_told_when_it_was_waited_for_long_enough() {
    let (fake, mut gathering) = (Fake::new(2), Gathering::new(PATIENCE));
    for (at, name) in ["m0", "m1", "m2", "m9"].into_iter().enumerate() {
        fake.appears(name, at as u64);
    }
    assert_eq!(fake.step(&mut gathering, 0), waits(4));
    let twice = |seconds| {
        let mut gathering = Gathering::new(Duration::from_secs(seconds));
        fake.step(&mut gathering, 0);
        fake.step(&mut gathering, 30)
    };
    assert_eq!(twice(31), waits(4));
    let why = Some("m9 is there twice".to_owned());
    let told = Step::Wait {
        count: 4,
        too_few: true,
        why,
    };
    assert_eq!(twice(30), told);
    // The second path is gone.
    fake.devices.borrow_mut().pop();
    let all = started(&["m0", "m1", "m2"], false);
    assert_eq!(fake.step(&mut gathering, 40), all);
}

#[test]
fn a_spare_is_neither_waited_for_nor_settled() {
    let (fake, mut gathering) = (Fake::new(2), Gathering::new(PATIENCE));
    for (at, name) in ["sda", "x0"].into_iter().enumerate() {
        fake.appears(name, at as u64);
    }
    assert_eq!(fake.step(&mut gathering, 0), waits(0));
    for (at, name) in ["m0", "m1", "m2"].into_iter().enumerate() {
        fake.appears(name, 5 + at as u64);
    }
    let all = started(&["m0", "m1", "m2"], false);
    assert_eq!(fake.step(&mut gathering, 1), all);
    let seen: Vec<String> = gathering.seen().into_iter().map(|one| one.path).collect();
    assert_eq!(seen, ["/dev/m0", "/dev/m1", "/dev/m2", "/dev/sda"]);
}

#[test]
fn without_patience_an_array_starts_as_soon_as_it_can() {
    let (fake, mut gathering) = (Fake::new(2), Gathering::new(Duration::ZERO));
    fake.appears("m0", 1);
    assert!(matches!(fake.step(&mut gathering, 0), Step::Wait { .. }));
    fake.appears("m1", 2);
    assert_eq!(fake.step(&mut gathering, 1), started(&["m0", "m1"], true));
}

#[test]
fn without_any_member_nothing_starts_however_long_it_takes() {
    let (fake, mut gathering) = (Fake::new(1), Gathering::new(PATIENCE));
    fake.appears("sda", 1);
    assert_eq!(fake.step(&mut gathering, 0), waits(0));
    assert_eq!(fake.step(&mut gathering, 100_000), waits(0));
    // One that is gone again before it was enough.
    fake.appears("m0", 1);
    assert_eq!(fake.step(&mut gathering, 100_001), waits(1));
    fake.devices.borrow_mut().clear();
    assert_eq!(fake.step(&mut gathering, 200_000), waits(0));
}

#[test]
fn a_device_that_takes_the_name_of_another_is_looked_at() {
    let (fake, mut gathering) = (Fake::new(1), Gathering::new(PATIENCE));
    fake.appears("m0", 1);
    fake.step(&mut gathering, 0);
    fake.devices.borrow_mut()[0].1 = 2;
    assert_eq!(fake.step(&mut gathering, 29), waits(1));
    assert_eq!(fake.looked.get(), 2);
    // It has just appeared.
    assert_eq!(fake.step(&mut gathering, 58), waits(1));
    assert_eq!(fake.step(&mut gathering, 59), started(&["m0"], true));
}

#[test]
fn a_device_that_cannot_be_read_is_looked_at_again_after_a_while() {
    let (fake, mut gathering) = (Fake::new(1), Gathering::new(PATIENCE));
    fake.appears("b0", 1);
    for (second, looked) in [(0, 1), (4, 1), (5, 2), (9, 2), (10, 3)] {
        assert_eq!(fake.step(&mut gathering, second), waits(0));
        assert_eq!(fake.looked.get(), looked, "after {second} s");
    }
}
#[test]
fn a_device_that_does_not_answer_keeps_no_whole_array_waiting() {
    let (fake, mut gathering) = (Fake::new(2), Gathering::new(PATIENCE));
    for (at, name) in ["h0", "m0", "m1", "m2"].into_iter().enumerate() {
        fake.appears(name, at as u64);
    }
    let all = started(&["m0", "m1", "m2"], false);
    assert_eq!(fake.step(&mut gathering, 0), all);
    let seen: Vec<String> = gathering.seen().into_iter().map(|one| one.path).collect();
    assert_eq!(seen, ["/dev/m0", "/dev/m1", "/dev/m2"]);
}

#[test]
fn a_device_that_does_not_answer_may_be_the_missing_member() {
    let (fake, mut gathering) = (Fake::new(2), Gathering::new(Duration::ZERO));
    for (at, name) in ["h0", "m0", "m1"].into_iter().enumerate() {
        fake.appears(name, at as u64);
    }
    assert_eq!(fake.step(&mut gathering, 0), waits(2));
    assert_eq!(fake.step(&mut gathering, 9), waits(2));
    assert_eq!(fake.looked.get(), 3, "it is asked once");
    let failed = Err(anyhow!("it has not answered for 15 s"));
    fake.hangs.borrow_mut().remove(0).send(failed).unwrap();
    let two = started(&["m0", "m1"], true);
    assert_eq!(fake.step(&mut gathering, 15), two);
}

/// Each is asked again when it has not answered for a while, so at each moment one of them is being asked.
#[test]
fn devices_that_never_answer_keep_no_array_waiting_for_ever() {
    let (fake, mut gathering) = (Fake::new(2), Gathering::new(PATIENCE));
    let fails = || {
        let failed = Err(anyhow!("it has not answered for 15 s"));
        fake.hangs.borrow_mut().remove(0).send(failed).unwrap();
    };
    for (at, name) in ["h0", "m0", "m1"].into_iter().enumerate() {
        fake.appears(name, at as u64);
    }
    assert_eq!(fake.step(&mut gathering, 0), waits(2));
    fake.appears("h1", 3);
    assert_eq!(fake.step(&mut gathering, 10), waits(2));
    fails();
    assert_eq!(fake.step(&mut gathering, 15), waits(2));
    // The first is asked again, and then the second does not answer either.
    assert_eq!(fake.step(&mut gathering, 20), waits(2));
    fails();
    assert_eq!(fake.step(&mut gathering, 25), waits(2));
    let two = started(&["m0", "m1"], true);
    assert_eq!(fake.step(&mut gathering, 30), two);
    assert_eq!(fake.looked.get(), 6, "both are being asked again");
}
