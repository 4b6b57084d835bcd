//! Drives that come back while the array serves: as an operator has it who plugs one in again, removes the failed
//! member that it was, and adds it.
//!
//! What a running process has of a drive that dropped out stays dead: the drive that is plugged in is another
//! device. So its bay gets a shell that answers nothing, for the member that it was. It joins once its failure is
//! durable on the others. Until then an outage brings it back as if nobody had done anything, with all that it
//! holds. When it joins it has lost power, and with it some of what it had not flushed.

use super::Run;
use crate::history::Order;
use crate::machine::Note;
use engine::control::message::{Command, Refused};
use engine::control::record::MemberState;
use engine::units::MemberId;

/// A drive on its way back.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComingBack {
    bay: usize,
    /// The member that it was in this process, if it was one.
    was: Option<MemberId>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The array still has to notice that it had gone, or to put that on record.
    Failing,
    /// The operator has ordered to remove the failed member.
    Removing,
    /// It has been offered under this ticket, as one that lacks only what bitmaps mark.
    Offered(u64),
}

impl Run<'_> {
    /// Somebody plugs the drive in a bay in again.
    pub(super) fn bring_back(&mut self, bay: usize) {
        let Some(process) = &self.process else { return };
        let is_gone = self.machine.borrow().drives[bay].faults.gone;
        let was = self.member(bay);
        let members = &process.record().members;
        let state = was.and_then(|was| members.get(was.0 as usize).map(|member| member.state));
        let serves = matches!(state, Some(MemberState::Active | MemberState::Spare));
        let is_needed = was.is_some_and(|was| self.is_leaving(was));
        let is_coming = self.coming_back.iter().any(|other| other.bay == bay);
        // One that was replaced joins at once or not at all: it must not be found beside the one in its place.
        let may_join = state != Some(MemberState::Absent) || process.controller().is_durable();
        if (serves && !is_gone) || is_needed || is_coming || !may_join {
            return;
        }
        self.counts.brought_back += 1;
        self.touch(bay);
        if let Some(was) = was {
            self.leave_shell(bay);
            if let Some(process) = &mut self.process {
                process.report_gone(was);
            }
        }
        {
            let faults = &mut self.machine.borrow_mut().drives[bay].faults;
            faults.come_back();
            // That was said of the device that it was.
            faults.flush_failed = false;
        }
        self.coming_back.push(ComingBack {
            bay,
            was,
            stage: Stage::Failing,
        });
        self.go_on_bringing_back();
    }

    /// Bays of drives that are plugged in again and have not joined: after an outage they are found as they are.
    pub(super) fn bays_coming_back(&self) -> impl Iterator<Item = usize> {
        self.coming_back.iter().map(|coming| coming.bay)
    }

    /// What the process knows as this drive answers nothing from now on, and is never there again.
    fn leave_shell(&mut self, bay: usize) {
        let shell = self.fresh_drive();
        self.touch(shell);
        self.removed.push(shell);
        let mut machine = self.machine.borrow_mut();
        // It is asked for what the member could do.
        machine.drives[shell].abilities = machine.drives[bay].abilities;
        machine.drives[shell].faults.gone = true;
        let bays = machine.bays.iter_mut();
        bays.filter(|other| **other == bay)
            .for_each(|other| *other = shell);
    }

    /// Goes on with drives that are coming back.
    pub(super) fn go_on_bringing_back(&mut self) {
        if self.stopping.is_some() {
            return;
        }
        for at in (0..self.coming_back.len()).rev() {
            if self.comes_back(at) {
                self.coming_back.remove(at);
            }
        }
    }

    /// One step of a drive's return; says whether that was the last.
    fn comes_back(&mut self, at: usize) -> bool {
        let coming = self.coming_back[at];
        let Some(process) = &mut self.process else {
            return true;
        };
        if let Stage::Offered(_) = coming.stage {
            return false;
        }
        let members = &process.record().members;
        let state = coming
            .was
            .and_then(|was| members.get(was.0 as usize))
            .map_or(MemberState::Absent, |member| member.state);
        match (coming.was, state) {
            _ if !process.controller().is_durable() => {}
            (Some(was), MemberState::Failed) if coming.stage == Stage::Failing => {
                process.order(Command::Remove(was));
                self.coming_back[at].stage = Stage::Removing;
            }
            (_, MemberState::Absent) => return self.join(at),
            _ => {}
        }
        false
    }

    /// Adds a drive whose failure is on record; says whether that was all.
    fn join(&mut self, at: usize) -> bool {
        let bay = self.coming_back[at].bay;
        let note = format!("{:?} joins", Order::BringBack(bay));
        {
            let mut machine = self.machine.borrow_mut();
            machine.note(&Note::Action(&note));
            machine.drives[bay].lose_power();
        }
        // Whatever was done to it while it was away, it counts as a new drive.
        self.meddled[bay] = false;
        let Some(process) = &mut self.process else {
            return true;
        };
        let joined = process.attach_again(bay, false);
        self.take_out_or_in(bay, joined.is_some());
        match joined {
            Some((_, ticket, true)) => {
                self.coming_back[at].stage = Stage::Offered(ticket);
                false
            }
            _ => true,
        }
    }

    /// The controller has answered an order. A drive that lacks more than bitmaps mark is made a plain spare.
    pub(super) fn answered(&mut self, ticket: u64, result: Result<(), Refused>) {
        let offered = |coming: &ComingBack| coming.stage == Stage::Offered(ticket);
        let Some(at) = self.coming_back.iter().position(offered) else {
            return;
        };
        let coming = self.coming_back.remove(at);
        match (result, &mut self.process) {
            (Ok(()), _) => self.machine.borrow_mut().taken_back += 1,
            (Err(_), Some(process)) => {
                let joined = process.attach_again(coming.bay, true);
                self.take_out_or_in(coming.bay, joined.is_some());
            }
            (Err(_), None) => {}
        }
    }

    /// A drive that could not be given to the array is taken out again, for good.
    fn take_out_or_in(&mut self, bay: usize, joined: bool) {
        self.absent.retain(|&other| other != bay);
        self.removed.retain(|&other| other != bay);
        if !joined {
            self.removed.push(bay);
        }
    }
}
