//! Faults and orders, as far as the budget allows them.

use super::{Failure, Run};
use crate::budget::State;
use crate::container::create::drive;
use crate::drive::store::Store;
use crate::history::{Fault, Meddling, Mode, Order, Outage};
use crate::machine::{Ending, Note};
use crate::random::Stream;
use engine::control::message::Command;
use engine::control::record::MemberState;
use engine::layout::Level;
use engine::units::{MemberId, Slot, VolumeId};
use metadata::imsm::place::Placement;

/// How long a member counts as suspect after the last thing that may make the array drop it.
const GRACE_NS: u64 = 1_500_000_000;

impl Run<'_> {
    /// Whether the budget allows something; `wanted` queries the state of the array.
    pub(super) fn allows(&self, wanted: impl Fn(&State<'_>) -> bool) -> bool {
        if self.history.mode.is_beyond() {
            return true;
        }
        if self.wide.illness.is_some() {
            return false;
        }
        let Some(process) = &self.process else {
            return false;
        };
        let machine = self.machine.borrow();
        let now_ns = machine.queue.now_ns();
        let suspect = |(member, &bay): (u8, &usize)| {
            let faults = &machine.drives[bay].faults;
            process.controller().has_failed(MemberId(member))
                || faults.gone
                || faults.is_armed()
                || faults.has_bad_sectors()
                || self.meddled[bay]
                || self.suspect_until_ns[bay] > now_ns
                || self.is_about_to_be_meddled_with(bay)
        };
        let defective = |bay: usize| {
            let faults = &machine.drives[bay].faults;
            faults.is_armed() || faults.has_bad_sectors()
        };
        let suspect: Vec<bool> = (0u8..).zip(&machine.bays).map(suspect).collect();
        let mut bays = machine.bays.iter().copied().chain(self.bays_coming_back());
        let has_defective = bays.any(defective);
        let lenient = self.lenient_volumes();
        wanted(&State {
            record: process.record(),
            suspect: &suspect,
            has_defective,
            durable_slots: &self.durable_slots,
            lenient: &lenient,
            is_durable: process.controller().is_durable(),
        })
    }

    /// Whether a stop has been ordered after which this drive will be tampered with.
    fn is_about_to_be_meddled_with(&self, bay: usize) -> bool {
        let meddling = self.stopping.iter().flatten();
        meddling.copied().any(|what| what.bay() == Some(bay))
    }

    /// The member that the drive in a bay serves as.
    pub(super) fn member(&self, bay: usize) -> Option<MemberId> {
        let machine = self.machine.borrow();
        let at = machine.bays.iter().rposition(|&other| other == bay)?;
        Some(MemberId(at as u8))
    }

    fn may_lose(&self, bay: usize) -> bool {
        let member = self.member(bay);
        // A process that stands still learns of the fault only when it continues.
        let goes_on = self.history.mode.is_beyond() || !self.machine.borrow().stands_still();
        goes_on
            && self.allows(|state| {
                member.is_none_or(|member| state.may_lose(member) && !self.is_leaving(member))
            })
    }

    /// Whether a drive has been replaced but its job has not ended: some shard may still read from it.
    pub(super) fn is_leaving(&self, member: MemberId) -> bool {
        let Some(process) = &self.process else {
            return false;
        };
        let volumes = (0..self.shapes.len() as u8).map(VolumeId);
        let mut jobs = volumes.filter_map(|volume| process.controller().job(volume));
        let members = &process.record().members;
        let record = members.get(usize::from(member.0));
        let is_out = record.is_none_or(|member| member.state == MemberState::Absent);
        is_out && jobs.any(|job| job.copied_to.is_some())
    }

    pub(super) fn fault(&mut self, fault: &Fault) -> Result<(), Failure> {
        let allowed = match fault {
            Fault::Errors(bay, ..)
            | Fault::BadSectors(bay, ..)
            | Fault::Hang(bay, _)
            | Fault::Slow(bay, ..)
            | Fault::BadArea(bay, _)
            | Fault::Dies(bay, _)
            | Fault::DropOut(bay) => self.may_lose(*bay),
            Fault::RefusesDiscards(_)
            | Fault::TurnsVolatile(_)
            | Fault::Standstill(..)
            | Fault::ClockJumps(_) => true,
            Fault::HostErrors(target, _) => {
                self.history.mode.is_beyond() || self.may_host_be_ill(*target)
            }
            // The budget is checked when the command comes, in `strike`.
            Fault::OutageAt(..) => true,
            // Redundancy does not protect from lies: their effects are only counted.
            Fault::Lie(..) => self.history.mode == Mode::Lying,
            // Writes may end with errors after such a fault, so it is beyond the budget.
            Fault::Inexpressible(..) => self.history.mode.is_beyond(),
            // An outage is what ends the problem of the host.
            Fault::Outage(outage, _) if self.wide.illness.is_some() => {
                self.stopping.is_none() && *outage != Outage::Stop
            }
            Fault::Outage(outage, _) => {
                self.stopping.is_none()
                    && (*outage == Outage::Stop || self.allows(|state| state.may_crash()))
            }
        };
        if !allowed || self.process.is_none() {
            self.counts.faults_skipped += 1;
            return Ok(());
        }
        self.counts.faults += 1;
        self.machine
            .borrow_mut()
            .note(&Note::Action(&format!("{fault:?}")));
        self.damage(fault);
        match fault {
            Fault::Outage(Outage::Crash, meddling) if self.dies_later(meddling) => Ok(()),
            Fault::Outage(outage, meddling) => self.outage(*outage, meddling),
            Fault::OutageAt(strike, outage, meddling) => {
                self.awaited = Some((*outage, meddling.clone()));
                self.machine.borrow_mut().tripwire = Some(*strike);
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn outage(&mut self, outage: Outage, meddling: &[Meddling]) -> Result<(), Failure> {
        let meddling = self.affordable(meddling, outage == Outage::Stop);
        match outage {
            Outage::Stop => {
                self.stop(meddling);
                Ok(())
            }
            Outage::Crash => self.restart(Ending::Process, outage, &meddling),
            Outage::PowerCut => self.restart(Ending::Power, outage, &meddling),
        }
    }

    /// Carries out the outage whose triggering command has come. It replaces an ordered stop that is under way.
    pub(super) fn strike(&mut self) -> Result<(), Failure> {
        let Some((outage, meddling)) = self.awaited.take() else {
            return Ok(());
        };
        if self.process.is_none() || !self.allows(|state| state.may_crash()) {
            self.counts.faults_skipped += 1;
            return Ok(());
        }
        self.counts.faults += 1;
        self.stopped = false;
        let is_stopping = self.stopping.take().is_some();
        if outage == Outage::Crash && !is_stopping && self.dies_later(&meddling) {
            return Ok(());
        }
        self.outage(outage, &meddling)
    }

    /// Ends a process that was killed inside a turn.
    pub(super) fn end_inside(&mut self, meddling: &[Meddling]) -> Result<(), Failure> {
        self.stopped = false;
        let meddling = self.affordable(meddling, false);
        self.restart(Ending::Process, Outage::Crash, &meddling)
    }

    fn damage(&mut self, fault: &Fault) {
        if let Some(bay) = fault.bay() {
            self.touch(bay);
        }
        let is_done = self.damage_widely(fault);
        let mut machine = self.machine.borrow_mut();
        let now_ns = machine.queue.now_ns();
        let (bay, until_ns) = match *fault {
            Fault::Errors(bay, target, errno, count) => {
                machine.drives[bay].faults.arm(target, errno, count);
                (bay, now_ns)
            }
            Fault::BadSectors(bay, offset_bytes, length_bytes) => {
                machine.drives[bay].faults.spoil(offset_bytes, length_bytes);
                (bay, now_ns)
            }
            Fault::Hang(bay, for_ns) => {
                machine.drives[bay].faults.hang(now_ns + for_ns);
                (bay, now_ns + for_ns)
            }
            Fault::Slow(bay, factor, for_ns) => {
                let until_ns = now_ns + for_ns;
                machine.drives[bay].faults.slow_down(factor, until_ns);
                (bay, until_ns + factor * crate::drive::faults::SLOWED_MAX_NS)
            }
            Fault::DropOut(bay) => {
                machine.drives[bay].faults.gone = true;
                (bay, now_ns)
            }
            Fault::Lie(bay, untruth, ref within) => {
                let lies = &mut machine.drives[bay].lies;
                return lies.plan(untruth, within.clone());
            }
            Fault::Inexpressible(update, count) => return machine.refusals.order(update, count),
            Fault::BadArea(bay, _) | Fault::Dies(bay, _) => (bay, now_ns),
            Fault::Outage(..) | Fault::OutageAt(..) => return,
            _ => {
                assert!(is_done, "no code carries out this fault: {fault:?}");
                return;
            }
        };
        let until = &mut self.suspect_until_ns[bay];
        *until = (*until).max(until_ns + GRACE_NS);
    }

    /// The part of some meddling that the budget allows: one drive at most.
    fn affordable(&self, meddling: &[Meddling], stopped: bool) -> Vec<Meddling> {
        let allowed = |what: &&Meddling| match what.bay() {
            None => true,
            Some(_) if self.loses_the_only_record(what) => false,
            Some(bay) => {
                let member = self.member(bay);
                self.allows(|state| {
                    let everyone_is_here = !state.suspect.contains(&true);
                    // A drive that is out of service keeps its own last record and gets no older one.
                    let serves = |member| {
                        state
                            .record
                            .volumes
                            .iter()
                            .all(|volume| volume.slot_of(member).is_some())
                    };
                    let may_be_old = match what {
                        Meddling::Old(bay, back) => {
                            member.is_some_and(serves)
                                && self.knew_another(*bay, usize::from(*back), serves)
                        }
                        _ => true,
                    };
                    everyone_is_here
                        && may_be_old
                        && member.is_none_or(|member| state.may_meddle(member, stopped))
                })
            }
        };
        meddling.iter().filter(allowed).copied().collect()
    }

    /// Whether this takes back the only record of a failure. It is not allowed even in modes beyond the budget: the failure could
    /// not be known any more.
    pub(super) fn loses_the_only_record(&self, what: &Meddling) -> bool {
        matches!(what, Meddling::Old(bay, _) if !self.has_witness_but(*bay))
    }

    /// Whether another drive that is current in some slot is present, and so has the newest record.
    fn has_witness_but(&self, bay: usize) -> bool {
        let Some(process) = &self.process else {
            return false;
        };
        let machine = self.machine.borrow();
        let is_here = |member: MemberId| {
            let other = machine.bays[member.0 as usize];
            other != bay && !machine.drives[other].faults.gone
        };
        let slots = process
            .record()
            .volumes
            .iter()
            .flat_map(|volume| &volume.slots);
        slots
            .filter(|slot| slot.current)
            .filter_map(|slot| slot.member)
            .any(is_here)
    }

    /// Whether the drive's record of `back` updates ago names another drive that is in service now. Without that,
    /// the old record would describe an array of its own, and an operator would have to choose between the two.
    fn knew_another(&self, bay: usize, back: usize, serves: impl Fn(MemberId) -> bool) -> bool {
        let machine = self.machine.borrow();
        let members = (0..).map(MemberId).zip(&machine.bays);
        let mut others = members.filter(|&(member, &other)| other != bay && serves(member));
        others.any(|(_, &other)| machine.record_named(bay, back, &machine.drives[other].serial))
    }

    pub(super) fn meddle(&mut self, what: Meddling) {
        let topology = &self.history.topology;
        self.accepts_loss |= what.bay().is_some();
        if let Some(bay) = what.bay() {
            self.touch(bay);
        }
        let mut machine = self.machine.borrow_mut();
        let size_bytes = topology.drive_bytes();
        let Ok(placement) = Placement::new(size_bytes, topology.sector) else {
            return;
        };
        match what {
            Meddling::Return => machine
                .drives
                .iter_mut()
                .for_each(|drive| drive.faults.come_back()),
            Meddling::Blank(bay) => {
                machine.drives[bay].replace_content(Store::new(size_bytes, None));
                self.meddled[bay] = true;
            }
            Meddling::Foreign(bay) => {
                let drive = &mut machine.drives[bay];
                drive.serial = format!("FOREIGN{bay}");
                let key = Stream::new(self.history.seed, "foreign", bay as u64).draw();
                drive.replace_content(Store::new(size_bytes, Some(key)));
                self.meddled[bay] = true;
            }
            Meddling::Absent(bay) => self.absent.push(bay),
            Meddling::CutAgain(left) => machine.start_left = Some(u32::from(left) + 1),
            Meddling::Torn(bay) => {
                // The checksum covers the whole record, so damage in the second half of the first sector is
                // enough.
                let at = placement.anchor_offset_bytes() + 256;
                machine.drives[bay].tamper(at, &[0x5A; 256]);
            }
            Meddling::Old(bay, back) => machine.bring_back_record(bay, usize::from(back)),
        }
    }

    fn stop(&mut self, meddling: Vec<Meddling>) {
        self.stopping = Some(meddling);
        self.order_stop();
    }

    /// Stops the array in order. Its ports first leave their requests to the next process.
    pub(super) fn order_stop(&mut self) {
        if self.attached.has_ports() {
            self.leave();
        } else {
            self.order_now(Command::Stop);
        }
    }

    /// Adds a new drive to the machine, with an earlier owner's bytes. Returns its bay.
    pub(super) fn fresh_drive(&mut self) -> usize {
        let mut machine = self.machine.borrow_mut();
        let bay = machine.drives.len();
        let mut fresh = drive(self.history.seed, &self.history.topology, bay, true);
        fresh.faults.is_strict = self.history.mode.is_wide();
        machine.drives.push(fresh);
        self.suspect_until_ns.push(0);
        self.meddled.push(false);
        bay
    }

    pub(super) fn order(&mut self, order: &Order) {
        if self.process.is_none() || self.stopping.is_some() || self.wide.illness.is_some() {
            return;
        }
        let note = format!("{order:?}");
        let command = match *order {
            Order::Fail(bay) => {
                let member = self.member(bay).filter(|_| self.may_lose(bay));
                if member.is_some() {
                    self.touch(bay);
                    // Until the order has been carried out, the record does not show the failure.
                    let until = &mut self.suspect_until_ns[bay];
                    *until = (*until).max(self.machine.borrow().queue.now_ns() + GRACE_NS);
                }
                member.map(Command::Fail)
            }
            Order::Scrub { volume, repair } => Some(Command::Scrub {
                volume: VolumeId(volume),
                repair,
            }),
            Order::Rate(rate) => Some(Command::Rate(rate)),
            Order::Pause { volume, paused } => Some(Command::Pause {
                volume: VolumeId(volume),
                paused,
            }),
            Order::Cancel(volume) => Some(Command::CancelJob(VolumeId(volume))),
            Order::Rebuild(volume) => Some(Command::Rebuild(VolumeId(volume))),
            Order::AddSpare => {
                self.add_spare();
                None
            }
            Order::BringBack(bay) => {
                self.bring_back(bay);
                None
            }
            Order::Replace { volume, slot } => {
                let is_mirrored = self.shapes[usize::from(volume)].level != Level::Raid5;
                self.replacing = self.bay_of(volume, slot).filter(|_| is_mirrored);
                self.add_spare().map(|to| Command::Replace {
                    volume: VolumeId(volume),
                    slot: Slot(slot),
                    to,
                })
            }
        };
        self.machine.borrow_mut().note(&Note::Action(&note));
        if let (Some(command), Some(process)) = (command, &mut self.process) {
            process.order(command);
        }
    }

    fn bay_of(&self, volume: u8, slot: u8) -> Option<usize> {
        let record = self.process.as_ref()?.record();
        let slot = record
            .volumes
            .get(volume as usize)?
            .slots
            .get(slot as usize)?;
        let bays = &self.machine.borrow().bays;
        bays.get(slot.member?.0 as usize).copied()
    }

    pub(super) fn add_spare(&mut self) -> Option<MemberId> {
        let bay = self.fresh_drive();
        self.process.as_mut()?.attach(bay)
    }
}
