//! Starts of the process, and what comes before them: the end of the previous process, and what is done to the
//! drives in between.

use super::{Failure, Run};
use crate::history::{Meddling, Outage};
use crate::machine::{Ending, Note};
use crate::oracle::pattern::SECTOR_BYTES;
use crate::process::{Process, StartWith};
use engine::control::record::{MemberRecord, MemberState};
use engine::options::Options;
use engine::units::Nanos;
use metadata::imsm::start::StartOptions;

/// How often a start that a failing drive prevents is tried; each try uses up one of the drive's errors.
const START_TRIES: usize = 100;

impl Run<'_> {
    /// Starts a process on the drives that are present.
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
                // In histories, returned drives are unchanged or blank.
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
            access: self.history.access,
        };
        self.counts.lives += 1;
        // A drive with armed errors can prevent the start, and an operator would try again.
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
                self.attach()?;
                self.submit_waiting();
                Ok(())
            }
            Err(_) if self.history.mode.is_beyond() => {
                self.refused = true;
                Ok(())
            }
            Err(error) => match self.replacing.take() {
                // The last drive of a mirror was being replaced: both drives have the whole content, neither
                // record names the other, and the operator chooses one.
                Some(old) if !self.removed.contains(&old) => {
                    self.removed.push(old);
                    self.start()
                }
                _ => Err(Failure::Refused(format!("{error:#}"))),
            },
        }
    }

    /// Whether a drive may have dropped the writes of a failed flush or FUA write.
    fn may_have_dropped_writes(&self) -> bool {
        let machine = self.machine.borrow();
        let mut drives = machine.drives.iter();
        drives.any(|drive| drive.faults.flush_failed)
    }

    /// Whether some drive's metadata cannot be read. The operator who starts the array knows that.
    fn has_bad_metadata(&self) -> bool {
        let machine = self.machine.borrow();
        let mut drives = machine.drives.iter();
        drives.any(|drive| drive.faults.has_bad_metadata)
    }

    /// Ends the process, tampers with the drives, and starts another process.
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
        // Beyond the budget another drive may have failed with the same errno. Then the array takes the host for the cause
        // and records neither failure, so a drive that has dropped writes is used at the next start.
        let caches_lost = caches_lost || (dropped && self.history.mode.is_beyond());
        self.detach(outage, power);
        let lenient = self.lenient_volumes();
        let oracles = self.oracles.iter_mut().zip(&lenient);
        // An ordered stop flushes all volumes but those that have failed.
        let is_flushed = |lenient: bool| outage == Outage::Stop && !lenient;
        let in_flight: Vec<Vec<u64>> = oracles
            .map(|(oracle, &lenient)| {
                // A lenient volume fails with its drive, whose failure is not recorded for it.
                let lost = (caches_lost && !is_flushed(lenient)) || (lenient && dropped);
                oracle.crash(power || lost)
            })
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
        self.give_again();
        illness.map_or(Ok(()), |illness| self.judge_blame(&illness))
    }

    /// Takes out the drives that have been replaced. If they stayed in and all other drives that their records
    /// name were gone, the drives could not tell which set is the newer array. A drive that was brought back has
    /// two member numbers, the old one and a new one. It stays in as long as one of them is in the record.
    fn remove_replaced(&mut self, process: &Process) {
        let machine = self.machine.borrow();
        let is_out = |member: &MemberRecord| member.state == MemberState::Absent;
        let members = || process.record().members.iter().zip(&machine.bays);
        let is_in = |bay| members().any(|(member, &at)| at == bay && !is_out(member));
        let replaced = members().filter(|(member, bay)| is_out(member) && !is_in(**bay));
        self.removed.extend(replaced.map(|(_, &bay)| bay));
    }

    /// Allows any content where a log cannot restore it: data in flight to a member that is lost together with
    /// the process. The first read decides the value.
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
