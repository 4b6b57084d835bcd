//! The end of a history: faults end, lost drives are replaced, and within a bounded time the array has to be
//! whole again.

use super::{Failure, Run};
use crate::history::{Ask, Meddling, Mode, Outage};
use crate::machine::{Ending, Happening};
use engine::control::message::Command;
use engine::control::record::{MemberState, Record};
use engine::request::Operation;
use engine::units::MemberId;

/// Virtual time in which an array has to become whole.
const WHOLE_WITHIN_NS: u64 = 120_000_000_000;
/// Virtual time in which an array has to stop.
const STOP_WITHIN_NS: u64 = 60_000_000_000;
/// Time between two checks of the array.
const LOOK_EVERY_NS: u64 = 20_000_000;

impl Run<'_> {
    pub(super) fn heal(&mut self) -> Result<(), Failure> {
        self.stay_alive();
        self.recover_host()?;
        self.outlast_hangs()?;
        let mut machine = self.machine.borrow_mut();
        machine.tripwire = None;
        machine.drives.iter_mut().for_each(|drive| {
            drive.faults.calm();
            drive.lies.calm();
        });
        drop(machine);
        self.watch();
        if self.history.mode.is_beyond() {
            return self.last_look();
        }
        self.become_whole()?;
        if self.history.mode == Mode::Lying {
            self.scrub_everything()?;
        }
        self.read_everything()?;
        self.stop_for_good()?;
        self.judge_drives()?;
        self.restart(Ending::Process, Outage::Stop, &[Meddling::Return])?;
        self.read_everything()?;
        self.stop_for_good()
    }

    /// Waits until hangs and standstills are over. A drive that holds commands for longer than the deadline is
    /// failed, which is a fault, and faults have to end before the array is checked for being whole. Orders given
    /// in a standstill would wait until it ends.
    fn outlast_hangs(&mut self) -> Result<(), Failure> {
        self.machine.borrow_mut().tripwire = None;
        let now_ns = self.now_ns();
        let end_ns = {
            let machine = self.machine.borrow();
            let drives = machine.drives.iter();
            let ends = drives.map(|drive| drive.faults.answers_by_ns());
            ends.max().unwrap_or(0).max(machine.stands_until_ns())
        };
        if end_ns <= now_ns {
            return Ok(());
        }
        self.pass(end_ns - now_ns, end_ns)
    }

    /// After faults beyond the budget: every successful read has to be right, before and after a restart with all
    /// drives.
    fn last_look(&mut self) -> Result<(), Failure> {
        if self.process.is_some() {
            self.read_everything()?;
        }
        self.refused = false;
        self.restart(Ending::Process, Outage::Crash, &[Meddling::Return])?;
        if self.process.is_some() {
            self.read_everything()?;
        }
        Ok(())
    }

    /// Reports drives that dropped out, even if no command went to them.
    fn watch(&mut self) {
        let gone: Vec<MemberId> = {
            let machine = self.machine.borrow();
            let gone = |(at, &bay): (usize, &usize)| {
                let gone = machine.drives[bay].faults.gone;
                gone.then_some(MemberId(at as u8))
            };
            machine.bays.iter().enumerate().filter_map(gone).collect()
        };
        if let Some(process) = &mut self.process {
            gone.into_iter()
                .for_each(|member| process.report_gone(member));
        }
    }

    pub(super) fn order_now(&mut self, command: Command) {
        if let Some(process) = &mut self.process {
            process.order(command);
        }
    }

    fn become_whole(&mut self) -> Result<(), Failure> {
        self.order_now(Command::Rate(0));
        let orders_pauses = self.history.mode.is_wide();
        for at in (0..self.shapes.len()).filter(|_| orders_pauses) {
            self.order_now(Command::Pause {
                volume: volume_id(at),
                paused: false,
            });
        }
        let deadline_ns = self.now_ns() + WHOLE_WITHIN_NS;
        loop {
            self.pass_a_while(deadline_ns)?;
            let Some(process) = &self.process else {
                return Err(Failure::Stuck("there is no process".to_owned()));
            };
            let record = process.record();
            let jobs = (0..record.volumes.len())
                .any(|at| process.controller().job(volume_id(at)).is_some());
            let strict = |at: usize| !self.is_lenient(at as u8);
            let mut judged = record.volumes.iter().enumerate();
            let whole = judged.all(|(at, volume)| {
                let members = u32::from(volume.geometry.members);
                let is_whole = volume.current_slots().count() == members
                    && volume.sync.is_none()
                    && !volume.then_resync;
                is_whole || !strict(at)
            });
            if whole && !jobs && process.controller().is_durable() && self.flying.is_empty() {
                return Ok(());
            }
            if wants_spare(record, strict) {
                self.add_spare();
            }
            if self.now_ns() > deadline_ns {
                let text = format!("the array does not become whole: {:?}", self.states());
                return Err(Failure::Stuck(text));
            }
        }
    }

    fn states(&self) -> Vec<String> {
        let Some(process) = &self.process else {
            return Vec::new();
        };
        let volumes = process.record().volumes.iter();
        volumes
            .map(|volume| format!("{:?} {:?}", volume.slots, volume.sync))
            .collect()
    }

    /// Lets the time until the next check pass.
    pub(super) fn pass_a_while(&mut self, deadline_ns: u64) -> Result<(), Failure> {
        self.pass(LOOK_EVERY_NS, deadline_ns)
    }

    /// Lets `for_ns` pass.
    fn pass(&mut self, for_ns: u64, deadline_ns: u64) -> Result<(), Failure> {
        let until_ns = self.now_ns() + for_ns;
        self.machine.borrow_mut().queue.at(until_ns, Happening::Act);
        self.until(deadline_ns + for_ns, "healing", |run| {
            run.now_ns() >= until_ns
        })
    }

    pub(super) fn read_everything(&mut self) -> Result<(), Failure> {
        for volume in 0..self.shapes.len() {
            let size_bytes = self.shapes[volume].size_bytes;
            let mut offset_bytes = 0;
            while offset_bytes < size_bytes {
                let length_bytes = (96 << 10).min(size_bytes - offset_bytes) as u32;
                let number = self.next_number;
                self.next_number += 1;
                let ask = Ask {
                    connection: (number % 4) as u8,
                    volume: volume as u8,
                    operation: Operation::Read,
                    fua: false,
                    offset_bytes,
                    length_bytes,
                };
                if !self.has_room(ask) {
                    self.wait_for_answers()?;
                }
                self.submit(number, ask);
                offset_bytes += u64::from(length_bytes);
            }
        }
        self.wait_for_answers()
    }

    fn wait_for_answers(&mut self) -> Result<(), Failure> {
        let patience_ns = 20 * self.history.topology.deadline_ns + 10_000_000_000;
        let deadline_ns = self.now_ns() + patience_ns;
        self.until(deadline_ns, "reading", Run::is_idle)
    }

    fn stop_for_good(&mut self) -> Result<(), Failure> {
        self.stopped = false;
        self.order_stop();
        let deadline_ns = self.now_ns() + STOP_WITHIN_NS;
        self.until(deadline_ns, "stopping", |run| run.stopped)?;
        self.end_ports()
    }
}

fn volume_id(at: usize) -> engine::units::VolumeId {
    engine::units::VolumeId(at as u8)
}

/// Whether some slot is lost and no drive is available for it.
fn wants_spare(record: &Record, strict: impl Fn(usize) -> bool) -> bool {
    let has_spare = record
        .members
        .iter()
        .any(|member| member.state == MemberState::Spare);
    let lost = |slot: &engine::control::record::SlotRecord| {
        !slot.current
            && slot
                .member
                .is_none_or(|member| record.members[member.0 as usize].state != MemberState::Active)
    };
    let idle = record.volumes.iter().all(|volume| volume.sync.is_none());
    !has_spare
        && idle
        && (record.volumes.iter().enumerate())
            .any(|(at, volume)| strict(at) && volume.slots.iter().any(lost))
}
