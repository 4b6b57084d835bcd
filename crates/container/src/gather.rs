//! Waits for the drives of one array to appear, as they do at boot, each at a time of its own.
//!
//! An array starts as soon as all its members are there. Members that nobody marked failed are waited for; when none has
//! appeared for a while, the array starts without those that are missing, if its redundancy allows that. While not one member
//! is there, nothing is decided: the machine may be one whose drives come later, or never. A drive is recognised by the record
//! on it, whatever its name is. A device is looked at once, and again if another one takes its name.

use crate::decide::decide;
use crate::machine::{SYSFS_BLOCK, block_devices, container_of};
use crate::open::{one_to_look, to_look};
use anyhow::Result;
use assembly::member::Member;
use metadata::imsm::choose::choose;
use metadata::imsm::start::StartOptions;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

/// How often the machine's devices are listed.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);

/// A block device. Another one that has the same path later has another sequence number.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Device {
    /// The kernel's name, as a path.
    pub path: String,
    /// The number that the kernel gave it when it appeared; kernels before 5.15 give none.
    pub sequence: Option<u64>,
}

/// What is to be done now.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// Look again after [`LOOK_EVERY`]; so many members are there.
    Wait(usize),
    /// Start the array on these drives. With `degraded`, members are missing that nobody marked failed.
    Start {
        /// Paths, by name.
        drives: Vec<String>,
        /// See [`StartOptions::degraded`].
        degraded: bool,
    },
}

/// The drives of an array, as far as they have appeared.
#[derive(Debug)]
pub struct Gathering {
    patience: Duration,
    /// Every device there is, and whether it belongs to the array.
    known: BTreeMap<Device, bool>,
    /// When the latest member appeared.
    latest: Option<Instant>,
}

/// What is asked about devices.
pub trait Look {
    /// All devices that can be members.
    ///
    /// # Errors
    /// They cannot be listed.
    fn devices(&self) -> Result<Vec<Device>>;

    /// Whether a device belongs to the array.
    fn belongs(&self, device: &Device) -> bool;

    /// Whether all volumes start on these drives, with no member missing that nobody marked failed.
    fn starts(&self, drives: &[String]) -> bool;
}

impl Gathering {
    /// Nothing has appeared yet. Members are waited for until none has appeared for `patience`.
    #[must_use]
    pub fn new(patience: Duration) -> Gathering {
        Gathering {
            patience,
            known: BTreeMap::new(),
            latest: None,
        }
    }

    /// Looks at the devices that are new.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn step(&mut self, look: &impl Look, now: impl Fn() -> Instant) -> Result<Step> {
        let devices = look.devices()?;
        self.known.retain(|device, _| devices.contains(device));
        let mut has_come = false;
        for device in devices {
            if self.known.contains_key(&device) {
                continue;
            }
            let is_ours = look.belongs(&device);
            has_come |= is_ours;
            self.known.insert(device, is_ours);
        }
        let ours = self.known.iter().filter(|(_, is_ours)| **is_ours);
        let drives: Vec<String> = ours.map(|(device, _)| device.path.clone()).collect();
        if has_come {
            self.latest = Some(now());
        }
        let Some(latest) = self.latest.filter(|_| !drives.is_empty()) else {
            return Ok(Step::Wait(0));
        };
        if has_come && look.starts(&drives) {
            return Ok(Step::Start {
                drives,
                degraded: false,
            });
        }
        Ok(match now().duration_since(latest) >= self.patience {
            true => Step::Start {
                drives,
                degraded: true,
            },
            false => Step::Wait(drives.len()),
        })
    }
}

/// This machine, asked about the array whose container has this UUID.
#[derive(Debug)]
pub struct Here {
    /// As mdadm prints it.
    pub uuid: String,
}

impl Look for Here {
    fn devices(&self) -> Result<Vec<Device>> {
        let with_sequence = |path: String| {
            // In sysfs a slash in a device's name is written as an exclamation mark.
            let name = path.trim_start_matches("/dev/").replace('/', "!");
            let file = Path::new(SYSFS_BLOCK).join(name).join("diskseq");
            let text = std::fs::read_to_string(file).ok();
            let sequence = text.and_then(|text| text.trim().parse().ok());
            Device { path, sequence }
        };
        let paths = block_devices(Path::new(SYSFS_BLOCK))?;
        Ok(paths.into_iter().map(with_sequence).collect())
    }

    fn belongs(&self, device: &Device) -> bool {
        // A device that cannot be read is none of ours until it can: it is looked at again when it appears anew.
        one_to_look(&device.path).is_ok_and(|probed| {
            container_of(&probed).is_some_and(|uuid| uuid.to_string() == self.uuid)
        })
    }

    fn starts(&self, drives: &[String]) -> bool {
        let Ok(drives) = to_look(drives) else {
            return false;
        };
        let candidates: Vec<_> = drives.iter().map(|drive| drive.candidate()).collect();
        let mut containers = choose(&candidates).containers;
        let found = containers.pop().filter(|_| containers.is_empty());
        let Some(assembly) = found.and_then(|found| found.outcome.ok()) else {
            return false;
        };
        let decision = decide(&drives, &assembly, StartOptions::default(), false);
        (0..decision.modes.len()).all(|at| decision.starts(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    /// A machine in which the array has members m0, m1 and m2, and starts with all of them or with two when the third is
    /// marked failed.
    struct Fake {
        devices: RefCell<Vec<(&'static str, u64)>>,
        needed: usize,
        asked: Cell<usize>,
        began: Instant,
        seconds: Cell<u64>,
    }

    impl Fake {
        fn new(needed: usize) -> Fake {
            Fake {
                devices: RefCell::default(),
                needed,
                asked: Cell::new(0),
                began: Instant::now(),
                seconds: Cell::new(0),
            }
        }

        fn step(&self, gathering: &mut Gathering, seconds: u64) -> Step {
            self.seconds.set(seconds);
            let now = || self.began + Duration::from_secs(self.seconds.get());
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

        fn belongs(&self, device: &Device) -> bool {
            self.asked.set(self.asked.get() + 1);
            device.path.starts_with("/dev/m")
        }

        fn starts(&self, drives: &[String]) -> bool {
            drives.len() >= self.needed
        }
    }

    fn started(names: &[&str], degraded: bool) -> Step {
        Step::Start {
            drives: names.iter().map(|name| format!("/dev/{name}")).collect(),
            degraded,
        }
    }

    const PATIENCE: Duration = Duration::from_secs(30);

    #[test]
    fn an_array_starts_when_its_last_member_appears() {
        let (fake, mut gathering) = (Fake::new(3), Gathering::new(PATIENCE));
        assert_eq!(fake.step(&mut gathering, 0), Step::Wait(0));
        fake.appears("sda", 1);
        fake.appears("m1", 2);
        assert_eq!(fake.step(&mut gathering, 1000), Step::Wait(1));
        fake.appears("m0", 3);
        assert_eq!(fake.step(&mut gathering, 1029), Step::Wait(2));
        fake.appears("m2", 4);
        let all = started(&["m0", "m1", "m2"], false);
        assert_eq!(fake.step(&mut gathering, 1040), all);
        // Each device was looked at once.
        assert_eq!(fake.asked.get(), 4);
    }

    #[test]
    fn missing_members_are_waited_for_since_the_last_that_appeared() {
        let (fake, mut gathering) = (Fake::new(3), Gathering::new(PATIENCE));
        fake.appears("m0", 1);
        assert_eq!(fake.step(&mut gathering, 0), Step::Wait(1));
        fake.appears("m2", 2);
        assert_eq!(fake.step(&mut gathering, 20), Step::Wait(2));
        assert_eq!(fake.step(&mut gathering, 49), Step::Wait(2));
        let two = started(&["m0", "m2"], true);
        assert_eq!(fake.step(&mut gathering, 50), two);
    }

    #[test]
    fn without_any_member_nothing_starts_however_long_it_takes() {
        let (fake, mut gathering) = (Fake::new(1), Gathering::new(PATIENCE));
        fake.appears("sda", 1);
        assert_eq!(fake.step(&mut gathering, 0), Step::Wait(0));
        assert_eq!(fake.step(&mut gathering, 100_000), Step::Wait(0));
        // One that is gone again before it was enough.
        let (fake, mut gathering) = (Fake::new(3), Gathering::new(PATIENCE));
        fake.appears("m0", 1);
        fake.step(&mut gathering, 0);
        fake.devices.borrow_mut().clear();
        assert_eq!(fake.step(&mut gathering, 100_000), Step::Wait(0));
    }

    #[test]
    fn a_device_that_takes_the_name_of_another_is_looked_at() {
        let (fake, mut gathering) = (Fake::new(2), Gathering::new(PATIENCE));
        fake.appears("m0", 1);
        fake.step(&mut gathering, 0);
        fake.devices.borrow_mut()[0].1 = 2;
        assert_eq!(fake.step(&mut gathering, 29), Step::Wait(1));
        assert_eq!(fake.asked.get(), 2);
        // It has just appeared.
        assert_eq!(fake.step(&mut gathering, 58), Step::Wait(1));
        assert_eq!(fake.step(&mut gathering, 59), started(&["m0"], true));
    }
}
