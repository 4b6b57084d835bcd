//! Faults of wide histories only: drives that die with their caches, lose abilities, or have unreadable metadata;
//! a process that stands still, a clock that jumps, a host with a problem; and a RAID 0 beside a redundant
//! volume.

use super::{Failure, Run};
use crate::drive::faults::Target;
use crate::history::{Area, Fault, Outage};
use crate::machine::Ending;
use assembly::assemble::bitmap::bitmapped_volume;
use engine::control::message::Message;
use engine::control::record::{MemberRecord, MemberState};
use engine::layout::Geometry;
use engine::units::MemberId;
use engine::world::Input;
use metadata::imsm::place::Placement;

/// Errors of members within this time have to be put down to the host. The engine's own limit is longer; errors
/// between the two limits may be put down to either.
const TOGETHER_NS: u64 = 200_000_000;

/// A problem of the host: all members answer commands of a kind with the same errno, until the process has been
/// ended.
#[derive(Clone, Debug)]
pub(super) struct Illness {
    target: Target,
    /// When members failed.
    failed_at_ns: Vec<u64>,
    /// A volume has failed because of it.
    has_failed_volume: bool,
}

/// The state of a run for these faults.
#[derive(Clone, Debug, Default)]
pub(super) struct Wide {
    /// The present problem of the host.
    pub illness: Option<Illness>,
    /// By bay: a fault was injected for which the drive may be failed.
    touched: Vec<bool>,
    /// Bays of drives that have lost their caches and are not plugged in again.
    cacheless: Vec<usize>,
    /// Bays of drives whose caches turn volatile as soon as the array knows.
    turning: Vec<usize>,
}

impl Run<'_> {
    /// Whether requests to a volume may fail, although no read may be wrong: a RAID 0 beside a volume that
    /// survives the loss of a drive, or any volume beyond the budget.
    pub(super) fn is_lenient(&self, volume: u8) -> bool {
        self.history.mode.is_beyond() || self.history.topology.is_beside_redundancy(volume)
    }

    /// Whether a place on a member belongs to a lenient volume.
    pub(super) fn is_lenient_at(&self, offset_bytes: u64) -> bool {
        let mut volumes = (0u8..).zip(&self.shapes);
        let lies_in = |shape: &Geometry| {
            (shape.start_bytes..shape.start_bytes + shape.component_bytes).contains(&offset_bytes)
        };
        volumes.any(|(volume, shape)| self.is_lenient(volume) && lies_in(shape))
    }

    /// By volume: whether it is lenient.
    pub(super) fn lenient_volumes(&self) -> Vec<bool> {
        let volumes = 0..self.shapes.len() as u8;
        volumes.map(|volume| self.is_lenient(volume)).collect()
    }

    /// Whether some volume is lenient.
    pub(super) fn has_lenient(&self) -> bool {
        self.lenient_volumes().contains(&true)
    }

    /// Notes a fault for which a drive may be failed.
    pub(super) fn touch(&mut self, bay: usize) {
        let touched = &mut self.wide.touched;
        touched.resize(touched.len().max(bay + 1), false);
        touched[bay] = true;
    }

    /// Whether all is well and idle, so that a problem of the host with these commands would be the only fault.
    pub(super) fn may_host_be_ill(&self, target: Target) -> bool {
        let Some(process) = &self.process else {
            return false;
        };
        let idle = self.stopping.is_none() && self.awaited.is_none() && self.coming_back.is_empty();
        let nobody = |volume: &engine::control::record::VolumeRecord| {
            let members = u32::from(volume.geometry.members);
            volume.current_slots().count() == members
                && volume.sync.is_none()
                && !volume.then_resync
        };
        // Only drives with a volatile cache are flushed. If that is a single one, the host's problem looks like that
        // drive's failure, and the process may not end at any moment after it.
        let flushed =
            |member: &&MemberRecord| member.state == MemberState::Active && member.volatile_cache;
        let hits_one = target == Target::Flushes
            && process.record().members.iter().filter(flushed).count() == 1;
        idle && !hits_one
            && self.wide.cacheless.is_empty()
            && process.controller().is_durable()
            && process.record().volumes.iter().all(nobody)
            && self.allows(|state| !state.suspect.contains(&true))
    }

    /// Carries out a fault that only wide histories have. Returns false for other faults.
    pub(super) fn damage_widely(&mut self, fault: &Fault) -> bool {
        match *fault {
            Fault::Dies(bay, errno) => {
                let mut machine = self.machine.borrow_mut();
                let drive = &mut machine.drives[bay];
                drive.lose_power();
                drive.faults.gone = true;
                drive.faults.gone_errno = Some(errno);
                self.wide.cacheless.push(bay);
            }
            Fault::BadArea(bay, area) => self.spoil(bay, area),
            Fault::RefusesDiscards(bay) => {
                self.machine.borrow_mut().drives[bay]
                    .faults
                    .refuses_discards = true;
            }
            Fault::TurnsVolatile(bay) => self.turn_volatile(bay),
            Fault::Standstill(for_ns, kernel) => {
                let mut machine = self.machine.borrow_mut();
                machine.stand_still(for_ns, kernel);
                // The array learns of earlier faults later by this time.
                let now_ns = machine.queue.now_ns();
                let suspects = self.suspect_until_ns.iter_mut();
                suspects
                    .filter(|until| **until > now_ns)
                    .for_each(|until| *until += for_ns);
            }
            Fault::ClockJumps(by_ns) => self.machine.borrow_mut().clock_ahead_ns += by_ns,
            Fault::HostErrors(target, errno) => {
                let mut machine = self.machine.borrow_mut();
                let drives = machine.drives.iter_mut();
                drives.for_each(|drive| drive.faults.arm(target, errno, u32::MAX));
                drop(machine);
                (0..self.suspect_until_ns.len()).for_each(|bay| self.touch(bay));
                self.wide.illness = Some(Illness {
                    target,
                    failed_at_ns: Vec::new(),
                    has_failed_volume: false,
                });
            }
            _ => return false,
        }
        true
    }

    fn spoil(&mut self, bay: usize, area: Area) {
        let topology = &self.history.topology;
        let Ok(placement) = Placement::new(topology.drive_bytes(), topology.sector) else {
            return;
        };
        let sector_bytes = topology.sector.bytes() as u64;
        let mut machine = self.machine.borrow_mut();
        let offset_bytes = match area {
            Area::Record => placement.anchor_offset_bytes(),
            Area::Shadow => placement.shadow().offset_bytes,
            Area::Log(volume, into_bytes) => {
                let shape = &self.shapes[usize::from(volume)];
                shape.start_bytes + shape.component_bytes + into_bytes
            }
            Area::Bitmap(volume) => {
                let mpb = machine.persister.as_ref().map(|persister| persister.mpb());
                let place =
                    mpb.and_then(|mpb| bitmapped_volume(mpb, usize::from(volume), topology.sector));
                let Some(place) = place else { return };
                place.header_offset_bytes()
            }
        };
        let offset_bytes = offset_bytes - offset_bytes % sector_bytes;
        let faults = &mut machine.drives[bay].faults;
        faults.spoil(offset_bytes, sector_bytes.max(4096));
        faults.has_bad_metadata = true;
    }

    /// Reports to the array that a cache has turned volatile. Writes answered before the array knows are still
    /// safe.
    fn turn_volatile(&mut self, bay: usize) {
        let Some(member) = self.member(bay) else {
            return;
        };
        let mut machine = self.machine.borrow_mut();
        if !machine.drives[bay].volatile_cache {
            machine.tell(0, Input::Message(Message::CacheTurnedVolatile(member)));
            self.wide.turning.push(bay);
        }
    }

    /// Makes announced caches volatile, once every shard flushes them and no request from before is under way.
    pub(super) fn go_on_turning(&mut self) {
        if self.wide.turning.is_empty() || !self.flying.is_empty() {
            return;
        }
        let Some(process) = &self.process else { return };
        if !process.controller().is_followed() {
            return;
        }
        let members = &process.record().members;
        let mut machine = self.machine.borrow_mut();
        let bays = machine.bays.clone();
        self.wide.turning.retain(|bay| {
            let at = bays.iter().rposition(|other| other == bay);
            let knows = at
                .and_then(|at| members.get(at))
                .is_some_and(|member| member.volatile_cache);
            machine.drives[*bay].volatile_cache |= knows;
            !knows
        });
    }

    /// Checks that a failed member had a fault.
    pub(super) fn member_failed(&mut self, member: MemberId) -> Result<(), Failure> {
        if !self.history.mode.is_wide() {
            return Ok(());
        }
        let now_ns = self.now_ns();
        if let Some(illness) = &mut self.wide.illness {
            illness.failed_at_ns.push(now_ns);
        }
        let bay = self.machine.borrow().bays[usize::from(member.0)];
        if self.wide.touched.get(bay) == Some(&true) {
            return Ok(());
        }
        let text = format!("the drive in bay {bay} is failed, and nothing was wrong with it");
        Err(Failure::Unsound(text))
    }

    /// Notes that a volume has failed. Returns whether it may.
    pub(super) fn may_fail(&mut self, volume: u8) -> bool {
        if let Some(illness) = &mut self.wide.illness {
            illness.has_failed_volume = true;
            return true;
        }
        self.is_lenient(volume)
    }

    /// Ends pending changes of the drives between two processes. Returns whether the content of caches may be
    /// lost, and the problem of the host that is over.
    pub(super) fn between_lives(&mut self) -> (bool, Option<Illness>) {
        let mut machine = self.machine.borrow_mut();
        for bay in std::mem::take(&mut self.wide.turning) {
            machine.drives[bay].volatile_cache = true;
        }
        let illness = self.wide.illness.take();
        let mut lost = !self.wide.cacheless.is_empty();
        if let Some(illness) = &illness {
            machine
                .drives
                .iter_mut()
                .for_each(|drive| drive.faults.disarm());
            lost |= illness.target != Target::Reads;
        }
        (lost, illness)
    }

    /// Drives that are plugged in again no longer count as having lost their caches.
    pub(super) fn note_returned(&mut self) {
        let machine = self.machine.borrow();
        let cacheless = &mut self.wide.cacheless;
        cacheless.retain(|&bay| machine.drives[bay].faults.gone);
    }

    /// After a problem of the host: if members failed together, none of them may be on record as failed.
    pub(super) fn judge_blame(&self, illness: &Illness) -> Result<(), Failure> {
        let (Some(process), Some(first)) = (&self.process, illness.failed_at_ns.first()) else {
            return Ok(());
        };
        let together = illness
            .failed_at_ns
            .iter()
            .all(|at| at - first < TOGETHER_NS);
        let mut members = process.record().members.iter();
        let is_blamed = members.any(|member| member.state == MemberState::Failed);
        if together && illness.has_failed_volume && is_blamed {
            let text = "a member is on record as failed for what all of them answered";
            return Err(Failure::Unsound(text.to_owned()));
        }
        Ok(())
    }

    /// Ends a problem of the host by restarting the array.
    pub(super) fn recover_host(&mut self) -> Result<(), Failure> {
        if self.wide.illness.is_none() || self.history.mode.is_beyond() {
            return Ok(());
        }
        self.restart(Ending::Process, Outage::Crash, &[])
    }
}
