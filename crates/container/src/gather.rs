//! Waits for the drives of one array to appear, as they do at boot, each at a time of its own.
//!
//! An array starts as soon as all its members are there. Members that nobody marked failed are waited for; when none has
//! appeared for a while, the array starts without those that are missing, if a volume can start without them. Otherwise the
//! wait goes on: an enclosure may come later, or a drive that a process before this one still holds. A drive is recognised by
//! the record on it, whatever its name is. A device is looked at once, and again if another one takes its name; one that cannot
//! be read, perhaps because it has just appeared, is looked at again after a while. Devices are looked at side by side: one that
//! does not answer does not keep an array waiting whose members are all there.

use crate::decide::decide;
use crate::machine::{SYSFS_BLOCK, block_devices, container_of};
use crate::open::{one_to_look, to_look};
use crate::probe::Probed;
use crate::spare_note::container_noted;
use anyhow::{Result, anyhow};
use assembly::member::Member;
use metadata::imsm::choose::choose;
use metadata::imsm::start::StartOptions;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::{Duration, Instant};

/// How often the machine's devices are listed.
pub const LOOK_EVERY: Duration = Duration::from_millis(250);
/// How long a step waits for devices that it has asked, at most. Most answer within milliseconds.
const ANSWERS_WITHIN: Duration = Duration::from_millis(250);
/// When what could not be read, or could not start, is tried again.
const TRY_AGAIN_AFTER: Duration = Duration::from_secs(5);

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
    /// Look again after [`LOOK_EVERY`].
    Wait {
        /// How many members are there.
        count: usize,
        /// Whether no volume can start with these, although they were waited for long enough.
        too_few: bool,
        /// With `too_few`, what keeps the array from starting if it is not that members are missing.
        why: Option<String>,
    },
    /// Start the array on these drives. With `degraded`, members are missing that nobody marked failed.
    Start {
        /// Paths, by name.
        drives: Vec<String>,
        /// See [`StartOptions::degraded`].
        degraded: bool,
    },
}

/// What is known of a device.
#[derive(Debug)]
enum Known {
    /// It has not answered yet. It was asked `again` if it could not be read before.
    Asked { answer: Answer, again: bool },
    /// What it is to the array.
    Read(Part),
    /// It could not be read at this time.
    Unread(Instant),
}

/// What a device is to the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// Nothing.
    Stranger,
    /// Its record is the array's.
    Member,
    /// It notes that it is a spare of the array, which does not need it to start.
    Spare,
}

/// What a device is to the array, as soon as that is known; an error if it cannot be read.
pub type Answer = Receiver<Result<Part>>;

/// The drives of an array, as far as they have appeared.
#[derive(Debug)]
pub struct Gathering {
    patience: Duration,
    known: BTreeMap<Device, Known>,
    /// When the latest member appeared.
    latest: Option<Instant>,
    /// When it was last asked whether the array starts.
    asked: Option<Instant>,
    too_few: bool,
    /// What was answered when it was last asked whether the array starts, if that was an error.
    why: Option<String>,
}

/// What is asked about devices.
pub trait Look {
    /// All devices that can be members.
    ///
    /// # Errors
    /// They cannot be listed.
    fn devices(&self) -> Result<Vec<Device>>;

    /// Asks whether a device belongs to the array. Does not wait for the answer, which comes at some time.
    ///
    /// # Errors
    /// It cannot be asked.
    fn ask(&self, device: &Device) -> Result<Answer>;

    /// Whether all volumes start on these drives; or, with `degraded`, any volume, although members are missing that nobody
    /// marked failed.
    ///
    /// # Errors
    /// Something else than missing members keeps the array from starting: a drive cannot be read, or is there twice, or the
    /// drives contradict each other.
    fn starts(&self, drives: &[String], degraded: bool) -> Result<bool>;
}

impl Gathering {
    /// Nothing has appeared yet. Members are waited for until none has appeared for `patience`.
    #[must_use]
    pub fn new(patience: Duration) -> Gathering {
        Gathering {
            patience,
            known: BTreeMap::new(),
            latest: None,
            asked: None,
            too_few: false,
            why: None,
        }
    }

    /// Looks at the devices that are new.
    ///
    /// # Errors
    /// They cannot be listed.
    pub fn step(&mut self, look: &impl Look, now: Instant) -> Result<Step> {
        let has_come = self.look_at_new(look, now)?;
        let ours = self.known.iter().filter(|(_, known)| known.is_ours());
        let drives: Vec<String> = ours.map(|(device, _)| device.path.clone()).collect();
        if has_come {
            (self.latest, self.asked) = (Some(now), None);
        }
        let is_due = |at: Instant| now.duration_since(at) >= TRY_AGAIN_AFTER;
        let Some(latest) = self.latest.filter(|_| !drives.is_empty()) else {
            return Ok(self.wait(0));
        };
        if self.asked.is_none_or(is_due) || !self.too_few && self.is_over(latest, now) {
            self.asked = Some(now);
            if self.may_start(look, &drives, false) {
                return Ok(Step::start(drives, false));
            }
            self.too_few = self.is_over(latest, now);
            if self.too_few && self.may_start(look, &drives, true) {
                return Ok(Step::start(drives, true));
            }
        }
        Ok(self.wait(drives.len()))
    }

    fn may_start(&mut self, look: &impl Look, drives: &[String], degraded: bool) -> bool {
        let starts = look.starts(drives, degraded);
        self.why = starts.as_ref().err().map(|error| format!("{error:#}"));
        starts.unwrap_or(false)
    }

    /// The devices that have been looked at and that the start has settled: the array's members, and those that have nothing to do
    /// with it. Its spares are still to be taken.
    #[must_use]
    pub fn seen(&self) -> BTreeSet<Device> {
        let read = |known: &Known| matches!(known, Known::Read(Part::Member | Part::Stranger));
        let seen = self.known.iter().filter(|(_, known)| read(known));
        seen.map(|(device, _)| device.clone()).collect()
    }

    /// Whether members that have not appeared were waited for long enough. A device that has never answered may be one; one that
    /// could not be read is waited for no more, or an array would never start beside devices that hang.
    fn is_over(&self, latest: Instant, now: Instant) -> bool {
        let mut known = self.known.values();
        now.duration_since(latest) >= self.patience
            && !known.any(|known| matches!(known, Known::Asked { again: false, .. }))
    }

    fn wait(&self, count: usize) -> Step {
        Step::Wait {
            count,
            too_few: self.too_few && count > 0,
            why: self.why.clone().filter(|_| self.too_few && count > 0),
        }
    }

    /// Looks at devices that are new, or could not be read a while ago. Returns whether a member has appeared.
    fn look_at_new(&mut self, look: &impl Look, now: Instant) -> Result<bool> {
        let devices = look.devices()?;
        self.known.retain(|device, _| devices.contains(device));
        for device in devices {
            match self.known.get(&device) {
                Some(Known::Read(_) | Known::Asked { .. }) => continue,
                Some(Known::Unread(at)) if now.duration_since(*at) < TRY_AGAIN_AFTER => continue,
                _ => {}
            }
            let again = self.known.contains_key(&device);
            let known = match look.ask(&device) {
                Ok(answer) => Known::Asked { answer, again },
                Err(_) => Known::Unread(now),
            };
            self.known.insert(device, known);
        }
        Ok(self.hear(now))
    }

    /// Hears what devices answer that were asked. Returns whether one of them is a member.
    fn hear(&mut self, now: Instant) -> bool {
        let give_up = Instant::now() + ANSWERS_WITHIN;
        let mut has_come = false;
        for known in self.known.values_mut() {
            let Known::Asked { answer, .. } = known else {
                continue;
            };
            let left = give_up.saturating_duration_since(Instant::now());
            *known = match answer.recv_timeout(left) {
                Ok(Ok(part)) => Known::Read(part),
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => Known::Unread(now),
                Err(RecvTimeoutError::Timeout) => continue,
            };
            has_come |= known.is_ours();
        }
        has_come
    }
}

impl Known {
    fn is_ours(&self) -> bool {
        matches!(self, Known::Read(Part::Member))
    }
}

impl Step {
    fn start(drives: Vec<String>, degraded: bool) -> Step {
        Step::Start { drives, degraded }
    }
}

/// This machine, asked about the array whose container has this UUID.
#[derive(Debug)]
pub struct Here {
    /// As mdadm prints it.
    pub uuid: String,
    /// What is accepted besides members that are missing.
    pub accepted: StartOptions,
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

    fn ask(&self, device: &Device) -> Result<Answer> {
        let (sender, answer) = sync_channel(1);
        let (path, wanted) = (device.path.clone(), self.uuid.clone());
        let look = move || {
            let part = one_to_look(&path).map(|probed| part_of(&probed, &wanted));
            // The receiver is gone if the device is.
            let _ = sender.send(part);
        };
        std::thread::Builder::new().spawn(look)?;
        Ok(answer)
    }

    fn starts(&self, drives: &[String], degraded: bool) -> Result<bool> {
        let drives = to_look(drives)?;
        let candidates: Vec<_> = drives.iter().map(|drive| drive.candidate()).collect();
        let mut containers = choose(&candidates).containers;
        let Some(found) = containers.pop().filter(|_| containers.is_empty()) else {
            return Ok(false);
        };
        let assembly = found.outcome.map_err(|refusal| anyhow!("{refusal}"))?;
        let options = StartOptions {
            degraded,
            ..self.accepted
        };
        let decision = decide(&drives, &assembly, options, false);
        let mut volumes = 0..decision.modes.len();
        Ok(match degraded {
            true => volumes.any(|at| decision.starts(at)),
            false => volumes.all(|at| decision.starts(at)),
        })
    }
}

/// What a drive is to the array whose container has this UUID, as mdadm prints it.
#[must_use]
pub fn part_of(probed: &Probed, uuid: &str) -> Part {
    if container_of(probed).is_some_and(|found| found.to_string() == uuid) {
        return Part::Member;
    }
    match container_noted(probed).is_some_and(|noted| noted.to_string() == uuid) {
        true => Part::Spare,
        false => Part::Stranger,
    }
}

#[cfg(test)]
mod tests;
