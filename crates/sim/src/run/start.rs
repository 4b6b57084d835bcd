//! Starts, and what comes before them: the end of the process before, and what is done to the drives meanwhile.

use super::{Failure, Run};
use crate::history::{Meddling, Outage};
use crate::machine::{Ending, Note};
use crate::oracle::pattern::SECTOR_BYTES;
use crate::process::{Process, StartWith};
use engine::control::record::{MemberRecord, MemberState};
use engine::options::Options;
use engine::units::Nanos;
use metadata::imsm::start::StartOptions;

/// How often a start that a failing drive stops is tried at most: each uses up one of its errors.
const START_TRIES: usize = 100;

impl Run<'_> {
    /// Starts a process on the drives that are there.
    pub(super) fn start(&mut self) -> Result<(), Failure> {
        let topology = &self.history.topology;
        let bays: Vec<usize> = {
            let machine = self.machine.borrow();
            let there = |bay: &usize| {
                let taken_out = self.absent.contains(bay) || self.removed.contains(bay);
                !machine.drives[*bay].faults.gone && !taken_out
            };
            (0..machine.drives.len()).filter(there).collect()
        };
        let missing = bays.len() < self.machine.borrow().drives.len()
            || self.accepts_loss
            || self.has_bad_metadata();
        let with = StartWith {
            shards: topology.shards,
            accept: StartOptions {
                degraded: missing && !self.history.mode.is_beyond(),
                // Here drives are what they were when they left, or blank.
                trust_returned_drive: self.has_lenient(),
                ..StartOptions::default()
            },
            engine: Options {
                member_deadline: Nanos(topology.deadline_ns),
                clean_after: Nanos(topology.clean_after_ns),
                clear_regions_every: Nanos(topology.clear_regions_every_ns),
                rate_bytes_per_s: topology.rate_bytes_per_s,
                ..Options::default()
            },
            sector: topology.sector,
            scratch_times: 1,
        };
        self.counts.lives += 1;
        // A drive that fails now and then stops the start, and somebody starts it again.
        let machine = &self.machine;
        let is_armed = || {
            machine
                .borrow()
                .drives
                .iter()
                .any(|drive| drive.faults.is_armed())
        };
        let mut armed = is_armed();
        let lenient = self.lenient_volumes();
        let needed = |at: usize| !lenient[at];
        let start = || Process::start_all(&self.machine, &bays, with, needed);
        let mut started = start();
        if self.machine.borrow_mut().start_left.take() == Some(0) {
            if let Ok(process) = started {
                process.end(Ending::Power);
            } else {
                self.machine.borrow_mut().end_life(Ending::Power);
            }
            self.counts.lives += 1;
            started = start();
        }
        for _ in 1..START_TRIES {
            if started.is_err() && armed {
                armed = is_armed();
                started = start();
            }
        }
        match started {
            Ok(process) => {
                self.process = Some(process);
                self.durable_slots.clear();
                self.note_durable_slots();
                self.submit_waiting();
                Ok(())
            }
            Err(_) if self.history.mode.is_beyond() => {
                self.refused = true;
                Ok(())
            }
            Err(error) => match self.replacing.take() {
                // Cut off while the last drive of a mirror was being replaced: both have everything, neither
                // knows the other, and the operator says which one it is.
                Some(old) if !self.removed.contains(&old) => {
                    self.removed.push(old);
                    self.start()
                }
                _ => Err(Failure::Refused(format!("{error:#}"))),
            },
        }
    }

    /// Beyond the budget, a drive may have dropped what its flush or a write with FUA was to make durable, and another one
    /// have failed of the same: that is the host's, as far as anybody can tell, nothing of it is on record, and the drive
    /// serves at the next start.
    fn may_have_dropped_writes(&self) -> bool {
        let machine = self.machine.borrow();
        let mut drives = machine.drives.iter();
        self.history.mode.is_beyond() && drives.any(|drive| drive.faults.flush_failed)
    }

    /// Some drive's metadata cannot be read, and whoever starts the array knows.
    fn has_bad_metadata(&self) -> bool {
        let machine = self.machine.borrow();
        let mut drives = machine.drives.iter();
        drives.any(|drive| drive.faults.has_bad_metadata)
    }

    /// Ends the process, meddles with the drives, and starts another one.
    pub(super) fn restart(
        &mut self,
        ending: Ending,
        outage: Outage,
        meddling: &[Meddling],
    ) -> Result<(), Failure> {
        let note = format!("{outage:?} {meddling:?}");
        self.machine.borrow_mut().note(&Note::Action(&note));
        let dropped = self.may_have_dropped_writes();
        if let Some(process) = self.process.take() {
            self.remove_replaced(&process);
            process.end(ending);
        }
        self.forget_flying();
        self.coming_back.clear();
        let is_cut = |what: &Meddling| matches!(what, Meddling::CutAgain(_));
        let power = ending == Ending::Power || meddling.iter().any(is_cut);
        let (caches_lost, illness) = self.between_lives();
        let caches_lost = caches_lost || dropped;
        let lenient = self.lenient_volumes();
        let oracles = self.oracles.iter_mut().zip(&lenient);
        // Who stops in order flushes, but not a volume that has failed.
        let is_flushed = |lenient: bool| outage == Outage::Stop && !lenient;
        let in_flight: Vec<Vec<u64>> = oracles
            .map(|(oracle, &lenient)| oracle.crash(power || (caches_lost && !is_flushed(lenient))))
            .collect();
        self.absent.clear();
        self.machine
            .borrow_mut()
            .drives
            .iter_mut()
            .for_each(|drive| drive.faults.hang(0));
        for what in meddling {
            self.meddle(*what);
        }
        self.note_returned();
        self.start()?;
        self.admit_lost_writes(&in_flight);
        illness.map_or(Ok(()), |illness| self.judge_blame(&illness))
    }

    /// Somebody takes out the drives that have been replaced. If they stayed in, and nobody else were left
    /// of those that they know, nothing on the drives would tell which ones went on alone. A drive that was
    /// brought back has a new number and its old one: it is in as long as it is by any.
    fn remove_replaced(&mut self, process: &Process) {
        let machine = self.machine.borrow();
        let is_out = |member: &MemberRecord| member.state == MemberState::Absent;
        let members = || process.record().members.iter().zip(&machine.bays);
        let is_in = |bay| members().any(|(member, &at)| at == bay && !is_out(member));
        let replaced = members().filter(|(member, bay)| is_out(member) && !is_in(**bay));
        self.removed.extend(replaced.map(|(_, &bay)| bay));
    }

    /// What a log cannot bring back: data in flight to a member that is lost with the process. Whatever is
    /// read there first is what it holds from then on.
    pub(super) fn admit_lost_writes(&mut self, in_flight: &[Vec<u64>]) {
        let Some(process) = &self.process else { return };
        let volumes = process.record().volumes.iter();
        for ((volume, sectors), oracle) in volumes.zip(in_flight).zip(&mut self.oracles) {
            if volume.log.is_none() {
                continue;
            }
            let current = volume.current_slots();
            let is_lost = |sector: &&u64| {
                let place = volume.geometry.locate(**sector * SECTOR_BYTES as u64);
                let slots = volume.geometry.data_slots(place.row, place.data_index);
                slots.0 & !current.0 != 0
            };
            sectors
                .iter()
                .filter(is_lost)
                .for_each(|&sector| oracle.may_hold_anything(sector));
        }
    }
}
