//! The state of scrubs: positions, schedules, reports. The book has no clock and does no I/O.
//!
//! A scrub is started by an operator or by its schedule, and ends when the engine says so. If the process ends
//! earlier, the scrub is *unfinished*: the next process gives [`Command::ContinueScrub`] with the position kept here,
//! in the same mode and with the counts so far. Findings beyond that position are found again, but counted only
//! once.

use super::every::ScrubEvery;
use super::kept::{Kept, Schedule, ScrubStatus, Unfinished};
use super::report::{Finding, PlaceOutcome, ScrubFindings};
use engine::control::jobs::JobStatus;
use engine::control::message::Command;
use engine::control::record::{Record, SlotRecord};
use engine::event::{Event, JobName};
use engine::layout::Geometry;
use engine::limits::GRAIN_BYTES;
use engine::units::{MemberId, Slot, SlotSet, VolumeId};

/// How long to wait before an order that was refused is given again.
const ORDER_AGAIN_AFTER_S: u64 = 5;
/// A clock that gets ahead of the other one by more than this between two looks has been set.
const SET_BY_S: u64 = 60;

/// A volume in the book.
#[derive(Debug)]
pub struct VolumeBook {
    /// Its shape.
    pub shape: Geometry,
    /// The part that is stored on the drives.
    pub kept: Kept,
    /// Its drives by slot.
    slots: Vec<Option<MemberId>>,
    /// The engine has been ordered to continue the unfinished scrub.
    continuing: bool,
    /// The engine is working on the scrub.
    runs: bool,
    /// Mismatches counted before the engine's present run.
    counted_before: u64,
    /// There were more findings than could be reported.
    missed_some: bool,
    no_order_before_s: u64,
    /// How often the volume is scrubbed without an order.
    every: ScrubEvery,
    /// An operator has given or ended a schedule since this process began.
    is_ordered_here: bool,
    /// When the array began to be served, or the clock was set ahead later; seconds since 1970, 0 until that is known.
    start_s: u64,
}

/// What the book is given about the engine's state.
pub struct Look<'a> {
    /// What the engine works on, by volume.
    pub jobs: &'a [Option<JobStatus>],
    /// Which volumes may be scrubbed: whole, and not read-only.
    pub whole: &'a [bool],
    /// The slots of each volume, and what their drives are called.
    pub slots: &'a [Vec<(Option<MemberId>, String)>],
    /// Seconds since 1970.
    pub now_s: u64,
    /// Seconds of a clock that nobody sets.
    pub elapsed_s: u64,
}

/// See the module's documentation.
#[derive(Debug)]
pub struct Book {
    /// By volume.
    pub volumes: Vec<VolumeBook>,
    /// Counts the changes of the part that is stored.
    pub revision: u64,
    /// Counts the changes that are more than progress: starts, ends, orders.
    pub turns: u64,
    /// Names of drives by volume and slot, for new reports.
    names: Vec<Vec<String>>,
    /// Both clocks at the last look: seconds since 1970, and those of the clock that nobody sets.
    clocks: Option<(u64, u64)>,
}

impl Book {
    /// A book of the volumes of `record`, without any scrubs; `drives` are the names of the drives, by member.
    #[must_use]
    pub fn new(record: &Record, uuids: &[String], drives: &[String]) -> Book {
        let name = |slot: &SlotRecord| {
            let name = slot
                .member
                .and_then(|member| drives.get(usize::from(member.0)));
            name.cloned().unwrap_or_default()
        };
        let volume = |(volume, uuid): (&engine::control::record::VolumeRecord, &String)| {
            let shape = volume.geometry;
            VolumeBook {
                shape,
                kept: Kept {
                    uuid: uuid.clone(),
                    shape: super::kept::shape_key(&shape),
                    ..Kept::default()
                },
                slots: volume.slots.iter().map(|slot| slot.member).collect(),
                continuing: false,
                runs: false,
                counted_before: 0,
                missed_some: false,
                no_order_before_s: 0,
                every: ScrubEvery::default(),
                is_ordered_here: false,
                start_s: 0,
            }
        };
        let volumes: Vec<VolumeBook> = record.volumes.iter().zip(uuids).map(volume).collect();
        Book {
            names: record
                .volumes
                .iter()
                .map(|volume| volume.slots.iter().map(name).collect())
                .collect(),
            volumes,
            revision: 0,
            turns: 0,
            clocks: None,
        }
    }

    /// Whether the clock has been set ahead since the last look, as when a machine that has no battery for its clock learns the
    /// time from the network. A machine that has slept looks the same.
    fn was_set_ahead(&mut self, look: &Look<'_>) -> bool {
        let before = self.clocks.replace((look.now_s, look.elapsed_s));
        before.is_some_and(|(now_s, elapsed_s)| {
            let passed_s = look.elapsed_s.saturating_sub(elapsed_s);
            look.now_s > now_s.saturating_add(passed_s).saturating_add(SET_BY_S)
        })
    }

    /// The part that is stored, as text of at most `bytes_max` bytes; if it does not fit, findings are left out first.
    #[must_use]
    pub fn text(&self, bytes_max: usize) -> Vec<u8> {
        let mut all: Vec<Kept> = self.volumes.iter().map(|one| one.kept.clone()).collect();
        loop {
            let text = serde_json::to_vec(&all).unwrap_or_default();
            let longest = all
                .iter_mut()
                .filter_map(|kept| kept.report.as_mut())
                .max_by_key(|report| report.findings.len());
            match longest {
                Some(report) if text.len() > bytes_max && !report.findings.is_empty() => {
                    report.findings.truncate(report.findings.len() * 3 / 4);
                }
                _ => return text,
            }
        }
    }

    /// Takes over what earlier processes stored, for volumes that still have the same UUID and shape. What has been
    /// started or scheduled in this process takes precedence.
    pub fn load(&mut self, text: &[u8]) {
        let all: Vec<Kept> = serde_json::from_slice(text).unwrap_or_default();
        for kept in all {
            let same =
                |one: &&mut VolumeBook| one.kept.uuid == kept.uuid && one.kept.shape == kept.shape;
            let Some(volume) = self.volumes.iter_mut().find(same) else {
                continue;
            };
            let own = &mut volume.kept;
            if !volume.is_ordered_here {
                (own.schedule, own.is_ordered_off) = (kept.schedule, kept.is_ordered_off);
            }
            own.automatic = kept.automatic;
            if own.report.is_none() {
                own.report = kept.report;
                own.unfinished = kept.unfinished;
                own.before = kept.before;
            } else if own.before.is_none() {
                own.before = kept.last();
            }
        }
    }

    /// Takes account of an event, and returns it as it is to be reported.
    pub fn hear(&mut self, event: Event, now_s: u64) -> Event {
        match event {
            Event::JobStarted { volume, job, .. } if scrubs(job).is_some() => {
                self.begun(volume, job, now_s);
            }
            Event::JobEnded {
                volume,
                job,
                complete,
                mismatches,
                failures,
            } if scrubs(job).is_some() => {
                let mismatches = self.ended(volume, complete, mismatches, now_s);
                return Event::JobEnded {
                    volume,
                    job,
                    complete,
                    mismatches,
                    failures,
                };
            }
            _ => self.found(event),
        }
        event
    }

    fn begun(&mut self, volume: VolumeId, job: JobName, now_s: u64) {
        let Some(one) = self.volumes.get_mut(usize::from(volume.0)) else {
            return;
        };
        one.runs = true;
        if std::mem::take(&mut one.continuing) && one.kept.report.is_some() {
            if let Some(report) = &mut one.kept.report {
                report.continued += 1;
            }
        } else {
            one.kept.before = one.kept.last();
            one.kept.report = Some(ScrubFindings {
                repair: scrubs(job) == Some(true),
                started_s: now_s,
                members: self.names[usize::from(volume.0)].clone(),
                ..ScrubFindings::default()
            });
            one.kept.unfinished = Some(Unfinished {
                kept_bytes: 0,
                paused: false,
            });
        }
        one.counted_before = one.mismatches();
        one.missed_some = false;
        self.turn();
    }

    fn turn(&mut self) {
        self.revision += 1;
        self.turns += 1;
    }

    /// Returns the number of mismatches of the whole scrub, including earlier processes.
    fn ended(&mut self, volume: VolumeId, complete: bool, counted: u64, now_s: u64) -> u64 {
        let Some(one) = self.volumes.get_mut(usize::from(volume.0)) else {
            return counted;
        };
        (one.runs, one.continuing) = (false, false);
        one.kept.unfinished = None;
        let at_most = one.counted_before + counted;
        let Some(report) = &mut one.kept.report else {
            return counted;
        };
        if one.missed_some {
            report.mismatches = report.mismatches.max(at_most);
        }
        (report.ended_s, report.complete) = (Some(now_s), complete);
        let mismatches = report.mismatches;
        self.turn();
        mismatches
    }

    fn found(&mut self, event: Event) {
        match event {
            Event::Mismatch {
                volume,
                member_offset_bytes,
                slots,
                repaired,
                ..
            } => {
                let outcome = if repaired {
                    PlaceOutcome::Corrected
                } else {
                    PlaceOutcome::Mismatch
                };
                self.add(volume, |one| Finding {
                    outcome,
                    extent_offset_bytes: member_offset_bytes,
                    length_bytes: one.band_length_bytes(member_offset_bytes),
                    slots: slots.0,
                });
            }
            Event::Unrecoverable {
                volume,
                offset_bytes,
            } => self.add(volume, |one| {
                let place = one.shape.locate(offset_bytes);
                let row_bytes = place.row * u64::from(one.shape.chunk_bytes);
                Finding {
                    outcome: PlaceOutcome::Unrecoverable,
                    extent_offset_bytes: row_bytes + u64::from(place.in_chunk_bytes),
                    length_bytes: GRAIN_BYTES,
                    slots: SlotSet::all(one.shape.members).0,
                }
            }),
            Event::ReadRepaired {
                member,
                offset_bytes,
                length_bytes,
            } => self.rewritten(member, offset_bytes, length_bytes),
            _ => {}
        }
    }

    fn rewritten(&mut self, member: MemberId, offset_bytes: u64, length_bytes: u32) {
        let held = |one: &VolumeBook| {
            let slot = one.slots.iter().position(|&slot| slot == Some(member))?;
            let from = offset_bytes.checked_sub(one.shape.start_bytes)?;
            (from < one.shape.component_bytes).then_some((Slot(slot as u8), from))
        };
        let place = |(at, one): (usize, &VolumeBook)| Some((VolumeId(at as u8), held(one)?));
        if let Some((volume, (slot, extent_offset_bytes))) =
            self.volumes.iter().enumerate().find_map(place)
        {
            self.add(volume, |_| Finding {
                outcome: PlaceOutcome::Rewritten,
                extent_offset_bytes,
                length_bytes,
                slots: SlotSet(0).with(slot).0,
            });
        }
    }

    /// Adds a finding to the volume's scrub, if one is running.
    fn add(&mut self, volume: VolumeId, finding: impl FnOnce(&VolumeBook) -> Finding) {
        let Some(one) = self.volumes.get_mut(usize::from(volume.0)) else {
            return;
        };
        let finding = finding(one);
        if one.runs
            && let Some(report) = &mut one.kept.report
            && report.add(finding)
        {
            self.revision += 1;
        }
    }

    /// Takes account of the positions of scrubs, and returns the orders that are due.
    pub fn look(&mut self, look: &Look<'_>) -> Vec<Command> {
        let mut orders = Vec::new();
        let was_set_ahead = self.was_set_ahead(look);
        let idle = look.jobs.iter().all(Option::is_none);
        for (at, one) in self.volumes.iter_mut().enumerate() {
            // A clock that was ahead at the start must not postpone scrubs until it gets there.
            one.start_s = match was_set_ahead {
                // What is overdue by the new time begins as after a start, and not on all arrays at once.
                true => look.now_s,
                false => one.start_s.min(look.now_s),
            };
            one.slots = look.slots[at].iter().map(|(member, _)| *member).collect();
            self.names[at] = look.slots[at]
                .iter()
                .map(|(_, name)| name.clone())
                .collect();
            if let Some(job) = look.jobs[at].filter(|job| scrubs(job.name).is_some()) {
                let stands = Unfinished {
                    kept_bytes: job.kept_bytes,
                    paused: job.paused,
                };
                let known = one.kept.unfinished;
                if one.runs && known.is_some() && known != Some(stands) {
                    one.kept.unfinished = Some(stands);
                    self.revision += 1;
                    self.turns += u64::from(known.map(|one| one.paused) != Some(stands.paused));
                }
            }
            let may = idle && look.whole[at] && !one.runs && look.now_s >= one.no_order_before_s;
            if may && orders.is_empty() {
                one.give_orders(VolumeId(at as u8), look.now_s, &mut orders);
            }
        }
        orders
    }

    /// Reports of single blocks were dropped because there were too many.
    pub fn missed_some(&mut self) {
        self.volumes
            .iter_mut()
            .for_each(|one| one.missed_some = true);
    }

    /// The engine refused the orders of the last look.
    pub fn refused(&mut self) {
        self.volumes
            .iter_mut()
            .for_each(|one| one.continuing &= one.runs);
    }

    /// Changes the schedule of a volume's scrubs as an operator orders it. Returns whether that also counts for later
    /// servers; else the settings count again for the next one.
    pub fn set_schedule(&mut self, volume: usize, schedule: Option<Schedule>) -> bool {
        let one = &mut self.volumes[volume];
        one.kept.schedule = schedule;
        one.kept.is_ordered_off = schedule.is_none();
        one.is_ordered_here = true;
        self.turn();
        !matches!(self.volumes[volume].every, ScrubEvery::Set(_))
    }

    /// Has volumes with redundancy scrubbed so often from now on, unless an operator orders otherwise. It is called when the
    /// array begins to be served, after [`Book::load`].
    pub fn set_every(&mut self, every: ScrubEvery, now_s: u64) {
        let with_redundancy = self.volumes.iter_mut().filter(|one| one.shape.redundant());
        let mut is_changed = false;
        for one in with_redundancy {
            (one.every, one.start_s) = (every, now_s);
            is_changed |= every.apply(&mut one.kept, now_s);
        }
        if is_changed {
            self.turn();
        }
    }
}

impl VolumeBook {
    fn mismatches(&self) -> u64 {
        self.kept.report.as_ref().map_or(0, |one| one.mismatches)
    }

    /// Mismatches of the running scrub that were found by earlier processes.
    #[must_use]
    pub fn mismatches_before(&self) -> u64 {
        if self.runs { self.counted_before } else { 0 }
    }

    /// The length on each member of the band at this offset, which a scrub compares at once.
    fn band_length_bytes(&self, extent_offset_bytes: u64) -> u32 {
        let left = self
            .shape
            .component_bytes
            .saturating_sub(extent_offset_bytes);
        left.min(u64::from(self.shape.band_bytes())) as u32
    }

    /// The schedule that counts, and when its next scrub is due.
    fn next(&self) -> Option<(Schedule, u64)> {
        self.every
            .next(&self.kept, self.is_ordered_here, self.start_s)
    }

    fn give_orders(&mut self, volume: VolumeId, now_s: u64, orders: &mut Vec<Command>) {
        let repair = self.kept.report.as_ref().is_some_and(|one| one.repair);
        if let Some(Unfinished { kept_bytes, paused }) = self.kept.unfinished {
            self.continuing = true;
            orders.push(Command::ContinueScrub {
                volume,
                repair,
                from_bytes: kept_bytes,
            });
            if paused {
                orders.push(Command::Pause {
                    volume,
                    paused: true,
                });
            }
        } else if let Some((schedule, next_s)) = self.next()
            && now_s >= next_s
        {
            let repair = schedule.repair;
            orders.push(Command::Scrub { volume, repair });
        }
        if !orders.is_empty() {
            self.no_order_before_s = now_s + ORDER_AGAIN_AFTER_S;
        }
    }

    /// For `status`; `None` if there is nothing to show.
    #[must_use]
    pub fn status(&self) -> Option<ScrubStatus> {
        let Kept {
            unfinished, report, ..
        } = &self.kept;
        let next = self.next();
        if next.is_none() && report.is_none() {
            return None;
        }
        let last = self.kept.last();
        Some(ScrubStatus {
            every_s: next.map(|(schedule, _)| schedule.every_s),
            scheduled_repair: next.is_some_and(|(schedule, _)| schedule.repair),
            next_s: next
                .filter(|_| unfinished.is_none())
                .map(|(_, next_s)| next_s),
            last_started_s: last.map(|one| one.started_s),
            last_ended_s: last.map(|one| one.ended_s),
            last_complete: last.is_some_and(|one| one.complete),
            last_mismatches: last.map_or(0, |one| one.mismatches),
            last_unrecoverable: last.map_or(0, |one| one.unrecoverable),
            unfinished_bytes: unfinished.map(|one| one.kept_bytes),
        })
    }
}

/// `Some` if a job is a scrub: whether it also repairs.
fn scrubs(job: JobName) -> Option<bool> {
    match job {
        JobName::Check => Some(false),
        JobName::Repair => Some(true),
        JobName::InitialSync | JobName::Resync | JobName::Rebuild | JobName::Replace => None,
    }
}

#[cfg(test)]
mod tests;
