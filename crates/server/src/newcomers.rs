//! Takes drives that appear while the array is served: members that came too late for its start or were plugged in again,
//! and spares: those that note that they are the array's ([`noted`]), and those of the settings whose device came late.
//!
//! The machine's block devices are listed every second, and each new one is read once. Devices are read side by side: one that
//! does not answer keeps none of the others waiting. A drive that was a current member
//! and has been used for nothing else since is taken back: with what the bitmaps mark where there are bitmaps, else by a
//! rebuild of the whole drive, if the array may rebuild by itself. A drive that failed in this process is taken back
//! too, because a device that appears anew was plugged in or reset. But a drive that keeps failing is not: each return
//! starts a rebuild, which other drives pay for.
//!
//! An empty drive is taken, or an operator is told how to add it, if it appears where a drive of the array was that has
//! failed or was removed: [`same_bay`].
//!
//! Devices that were there when the array started are left alone: what the start left out, an operator adds. A spare that the
//! array had before and that does not appear is told of: [`missed`].

mod missed;
mod noted;
mod same_bay;

use super::event_kinds::Kind;
use super::events::{Told, tell_spare_refused};
use super::remembering::Tell;
use super::runtime::Shared;
use super::status::{MemberStatus, Status};
use crate::api::schema::SpareRequest;
use crate::api::{Spares, command, refuse_content, refuse_users};
use anyhow::{Context, Result};
use container::bitmap::{former, returning};
use container::gather::{Device, Here, Look, Part, part_of};
use container::open::one_to_look;
use container::probe::{Probed, parse_spec};
use drives::spec::Target;
use engine::control::message::Command;
use engine::units::MemberId;
use metadata::imsm::start::StartOptions;
pub(super) use missed::Missed;
use same_bay::{BayStep, Bays, Newcomer};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How long a look waits for devices that were asked, at most. Most answer within milliseconds.
const ANSWERS_WITHIN: Duration = Duration::from_millis(250);
/// How much longer than the members' deadline a device is tried before it is given up: udev's programs may still use it.
const SETTLES_WITHIN: Duration = Duration::from_secs(30);
/// A drive that has failed so often in this process is not taken back any more.
const FAILURES_MAX: usize = 3;

/// What is known of drives that may come.
#[derive(Clone, Debug)]
pub struct Newcomers {
    /// UUID of the array's container, as mdadm prints it.
    pub uuid: String,
    /// Devices that were looked at before the start.
    pub seen: BTreeSet<Device>,
    /// Whether a drive without bitmaps is rebuilt whole.
    pub rebuild: bool,
    /// Whether an empty drive in the bay of one that failed or was removed becomes a spare; else an event tells how to add it.
    pub adopts_empty: bool,
    /// Specifications of spares whose device was missing at the start.
    pub spares: Vec<String>,
    /// How long after the start a spare that the array had before may come. Then an event says that it is missing.
    pub spares_come_within: Duration,
}

impl Newcomers {
    /// Watches for drives as long as the array is served, and for the spares of which `missed` knows. A member that does not answer
    /// for `deadline` is failed.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub(super) fn start(
        &self,
        shared: Arc<Shared>,
        spares: Arc<Spares>,
        tell: Tell,
        deadline: Duration,
        missed: Missed,
    ) -> Result<()> {
        let here = Here {
            uuid: self.uuid.clone(),
            accepted: StartOptions::default(),
        };
        let mut watch = Watch::new(self.clone(), shared, spares, tell);
        watch.tries_max = tries_max(deadline);
        watch.missed = missed.coming_within(self.spares_come_within);
        let thread = std::thread::Builder::new().name("newcomers".to_owned());
        let (serving, known) = (watch.shared.clone(), watch.spares.clone());
        // By a thread of its own, because a drive that does not answer keeps no other waiting.
        let noting = std::thread::Builder::new().name("spare-notes".to_owned());
        noting
            .spawn(move || noted::note_all(&serving, known.record_at_start()))
            .context("cannot start the thread that writes notes to spares")?;
        let look = move || {
            while !watch.shared.has_quit() {
                std::thread::sleep(LOOK_EVERY);
                // A list that cannot be read now is read a second later.
                if let Ok(devices) = here.devices() {
                    watch.look(devices);
                }
            }
        };
        thread
            .spawn(look)
            .context("cannot start the thread that looks for new drives")?;
        Ok(())
    }
}

/// The array, and what has been looked at.
struct Watch {
    newcomers: Newcomers,
    shared: Arc<Shared>,
    spares: Arc<Spares>,
    tell: Tell,
    /// Where the array's drives are, or were.
    bays: Bays,
    /// Spares that have not come.
    missed: Missed,
    /// The devices that could not be taken yet.
    tried: BTreeMap<Device, Tried>,
    /// How often a device is tried before it is given up.
    tries_max: u32,
    /// See [`ANSWERS_WITHIN`].
    answers_within: Duration,
    ask: Ask,
}

/// Reads a device. May take as long as the kernel does.
type Ask = Arc<dyn Fn(&str) -> Result<Probed> + Send + Sync>;

/// A device that could not be taken yet.
#[derive(Default)]
struct Tried {
    /// How often.
    count: u32,
    /// What is on it, once it answers.
    answer: Option<Receiver<Result<Probed>>>,
}

/// How often a device is tried, once with each look: the array may learn only at the deadline that a drive was pulled out, and
/// until then the drive that was plugged in again is one that the array has.
fn tries_max(deadline: Duration) -> u32 {
    let seconds = deadline.saturating_add(SETTLES_WITHIN).as_secs_f64();
    (seconds / LOOK_EVERY.as_secs_f64()).ceil() as u32
}

/// What is to be done with a drive of the array's container.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// The array has it, perhaps under another name, or has not noticed yet that it was pulled out.
    Wait,
    /// It is taken. If it failed in this process, the failed drive of this number is removed first.
    Take { failed: Option<u8> },
    /// It stays outside, for this reason.
    Refuse(String),
}

impl Watch {
    fn new(newcomers: Newcomers, shared: Arc<Shared>, spares: Arc<Spares>, tell: Tell) -> Watch {
        Watch {
            newcomers,
            shared,
            spares,
            tell,
            bays: Bays::of_this_machine(),
            missed: Missed::default(),
            tried: BTreeMap::new(),
            tries_max: tries_max(Duration::ZERO),
            answers_within: ANSWERS_WITHIN,
            ask: Arc::new(one_to_look),
        }
    }

    /// Looks at the devices that are new among `devices`.
    fn look(&mut self, devices: Vec<Device>) {
        self.bays.learn(&self.shared.drives());
        self.newcomers.seen.retain(|seen| devices.contains(seen));
        self.tried.retain(|tried, _| devices.contains(tried));
        for device in devices {
            if !self.newcomers.seen.contains(&device) {
                self.ask(device);
            }
        }
        for (device, probed) in self.hear() {
            let is_last = self.is_last(&device);
            if self.try_to_take(&device.path, &probed, is_last) {
                self.leave(device);
            }
        }
        let new: Vec<Device> = self.tried.keys().cloned().collect();
        for device in new {
            if self.is_last(&device) {
                self.leave(device);
            }
        }
        self.look_for_spares();
        let members = &self.shared.status().members;
        self.missed.look(members, Instant::now(), &*self.tell);
    }

    /// Has a new device read by a thread of its own, unless it is being read.
    fn ask(&mut self, device: Device) {
        let path = device.path.clone();
        let tried = self.tried.entry(device).or_default();
        tried.count += 1;
        if tried.answer.is_some() {
            return;
        }
        let (sender, answer) = channel();
        let ask = self.ask.clone();
        let read = move || {
            // The receiver is gone if the device is.
            let _ = sender.send(ask(&path));
        };
        // If no thread can be started now, the next look tries again.
        let began = std::thread::Builder::new().spawn(read);
        tried.answer = began.ok().map(|_| answer);
    }

    /// What is on the devices that have answered, or do so soon.
    fn hear(&mut self) -> Vec<(Device, Probed)> {
        let give_up = Instant::now() + self.answers_within;
        let mut heard = Vec::new();
        for (device, tried) in &mut self.tried {
            let Some(answer) = &tried.answer else {
                continue;
            };
            let left = give_up.saturating_duration_since(Instant::now());
            match answer.recv_timeout(left) {
                Err(RecvTimeoutError::Timeout) => continue,
                Ok(Ok(probed)) => heard.push((device.clone(), probed)),
                // It may just have appeared, and is read again.
                Ok(Err(_)) | Err(RecvTimeoutError::Disconnected) => {}
            }
            tried.answer = None;
        }
        heard
    }

    fn is_last(&self, device: &Device) -> bool {
        let tried = self.tried.get(device);
        tried.is_some_and(|tried| tried.count >= self.tries_max)
    }

    /// Nothing is left to do about a device.
    fn leave(&mut self, device: Device) {
        self.tried.remove(&device);
        self.newcomers.seen.insert(device);
    }

    /// Returns whether nothing is left to do about the device at `path`. What the array answers to an attempt is told at the last
    /// one only: before that, the cause may pass.
    fn try_to_take(&self, path: &str, probed: &Probed, is_last: bool) -> bool {
        match part_of(probed, &self.newcomers.uuid) {
            Part::Member => {}
            Part::Spare => return self.try_to_take_spare(path, probed, is_last),
            Part::Stranger => return self.try_in_same_bay(probed, path, is_last),
        }
        match self.step(probed, path) {
            Step::Wait => false,
            Step::Refuse(why) => {
                (self.tell)(not_taken(path, &why));
                true
            }
            Step::Take { failed } => match self.take(path, failed) {
                Ok(sentence) => {
                    (self.tell)(taken(path, &sentence));
                    true
                }
                Err(why) if is_last => {
                    (self.tell)(not_taken(path, &why));
                    true
                }
                Err(_) => false,
            },
        }
    }

    fn step(&self, probed: &Probed, path: &str) -> Step {
        let by_hand = format!("`fullstripe add-spare {path} --force` takes it all the same");
        let serial = probed.serial.to_string();
        let status = self.shared.status();
        let known: Vec<&MemberStatus> = (status.members.iter())
            .filter(|member| member.serial == serial)
            .collect();
        if known.iter().any(|member| is_used(member)) {
            return Step::Wait;
        }
        if known.len() >= FAILURES_MAX {
            return Step::Refuse(format!(
                "it has left the array {} times since the array was started; {by_hand}",
                known.len()
            ));
        }
        let mpb = self.spares.record_at_start();
        let Some(former) = former(probed, mpb) else {
            return Step::Refuse(format!(
                "what it holds is not just an older state of the array; {by_hand}, and overwrites what it holds"
            ));
        };
        if let Some(why) = may_not_be_filled(&status, usize::from(former.slot.0)) {
            return Step::Refuse(why);
        }
        if returning(probed, mpb).is_none() && !self.newcomers.rebuild {
            return Step::Refuse(format!(
                "no bitmap marks what it lacks, and `auto_rebuild` is off; {by_hand}"
            ));
        }
        let failed = known.iter().find(|member| member.state == "failed");
        Step::Take {
            failed: failed.map(|member| member.id),
        }
    }

    /// Removes the failed drive that it was, and adds it.
    fn take(&self, path: &str, failed: Option<u8>) -> Result<String, String> {
        if let Some(id) = failed.map(MemberId) {
            self.remove(id)?;
        }
        let taken = self.spares.take_back(&self.shared, path);
        taken.map(|done| done.text).map_err(|error| error.sentence)
    }

    /// As [`Watch::try_to_take`], of a drive that is none of the array's.
    fn try_in_same_bay(&self, probed: &Probed, path: &str, is_last: bool) -> bool {
        let status = self.shared.status();
        let Some(before) = self.bays.last_in_bay_of(path, &status) else {
            return true;
        };
        let content = match refuse_content(probed) {
            // It cannot be read; it has perhaps just appeared.
            Err(error) if !error.protects_data => return false,
            other => other.err().map(|error| error.sentence),
        };
        let newcomer = Newcomer {
            path,
            serial: probed.serial.to_string(),
            content,
            unfit: (self.spares.check(&status, probed).err()).map(|error| error.sentence),
            users: refuse_users(probed).err().map(|error| error.sentence),
        };
        let told = match same_bay::step(&status, before, &newcomer) {
            BayStep::Leave => return true,
            BayStep::Wait(_) if !is_last => return false,
            BayStep::Wait(why) | BayStep::Refuse(why) => same_bay::not_taken(path, before, &why),
            BayStep::Take if !self.newcomers.adopts_empty => same_bay::waits(path, before),
            BayStep::Take => match self.adopt(path, before) {
                Ok(sentence) => same_bay::adopted(path, before, &sentence),
                Err(why) if is_last => same_bay::not_taken(path, before, &why),
                Err(_) => return false,
            },
        };
        (self.tell)(told);
        true
    }

    /// Removes the failed drive that was there before, and adds the empty one.
    fn adopt(&self, path: &str, before: &MemberStatus) -> Result<String, String> {
        if before.state == "failed" {
            self.remove(MemberId(before.id))?;
        }
        let added = self.spares.add_empty(&self.shared, path);
        added.map(|done| done.text).map_err(|error| error.sentence)
    }

    fn remove(&self, failed: MemberId) -> Result<(), String> {
        command(&self.shared, Command::Remove(failed)).map_err(|why| why.to_string())?;
        self.shared.detach(failed);
        Ok(())
    }

    /// Adds spares whose device is there now.
    fn look_for_spares(&mut self) {
        let is_there = |spec: &String| match parse_spec(spec).map(|spec| spec.target) {
            Ok(Target::Path(path)) => path.exists(),
            _ => false,
        };
        let (come, missing) = self.newcomers.spares.drain(..).partition(is_there);
        self.newcomers.spares = missing;
        let come: Vec<String> = come;
        for spec in come {
            (self.tell)(match self.add(&spec) {
                Ok(sentence) => taken(&spec, &sentence),
                Err(why) => tell_spare_refused(&spec, &why),
            });
        }
    }

    fn add(&self, drive: &str) -> Result<String, String> {
        let request = SpareRequest {
            drive: drive.to_owned(),
            force: false,
        };
        let added = self.spares.add(&self.shared, &request);
        added.map(|done| done.text).map_err(|error| error.sentence)
    }
}

/// The event that a drive which has appeared was taken; `sentence` says as what.
fn taken(drive: &str, sentence: &str) -> Told {
    let mut told = Told::now();
    let text = format!("{drive} has appeared: {sentence}");
    told.set(Kind::DriveTaken, text, false);
    told.member = Some(drive.to_owned());
    told
}

/// The event that a drive of the array has appeared and is not taken.
fn not_taken(drive: &str, why: &str) -> Told {
    let mut told = Told::now();
    let text = format!("{drive} has appeared and is not taken back: {why}");
    told.set(Kind::DriveNotTaken, text, true);
    told.member = Some(drive.to_owned());
    told
}

fn is_used(member: &MemberStatus) -> bool {
    !matches!(member.state.as_str(), "failed" | "removed")
}

/// Why a drive may not fill this slot of all volumes; `None` if it may. A failed volume may need just what the drive holds.
fn may_not_be_filled(status: &Status, slot: usize) -> Option<String> {
    status.volumes.iter().find_map(|volume| {
        let is_empty = volume
            .slots
            .get(slot)
            .is_some_and(|slot| matches!(slot.state.as_str(), "failed" | "missing"));
        match (volume.state.as_str(), is_empty) {
            ("degraded", true) => None,
            ("degraded" | "optimal", false) => Some(format!(
                "another drive has its place, slot {slot} of volume {}",
                volume.name
            )),
            (state, _) => Some(format!(
                "volume {} is {state}, and may need what the drive holds; `fullstripe status` says what to do first",
                volume.name
            )),
        }
    })
}

#[cfg(test)]
mod tests;
