//! Drives that come back while the array is in service: an operator plugs the drive in again, removes the failed
//! member that it was, and adds the drive.
//!
//! A running process cannot use its handle of a drive that dropped out any more: the drive that is plugged in is
//! another device. So the member that it was gets a shell as its drive, which answers nothing. The drive joins
//! once its failure is durable on the others. If an outage comes before that, the drive is found with all its
//! content, as if it had never left. When it joins, it has lost power, and with it some of its unflushed writes.

use super::Run;
use crate::history::Order;
use crate::machine::Note;
use engine::control::message::{Command, Refused};
use engine::control::record::MemberState;
use engine::units::MemberId;

/// A drive that is coming back.
#[derive(Clone, Copy, Debug)]
pub(super) struct ComingBack {
    bay: usize,
    /// The member that it was in this process, if it was one.
    was: Option<MemberId>,
    stage: Stage,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    /// The array still has to notice that the drive is gone, or to put its failure on record.
    Failing,
    /// The operator has ordered the failed member to be removed.
    Removing,
    /// The drive has been added with this ticket, as lacking only what bitmaps mark.
    Offered(u64),
}

impl Run<'_> {
    /// Plugs the drive in a bay in again.
    pub(super) fn bring_back(&mut self, bay: usize) {
        let Some(process) = &self.process else { return };
        let is_gone = self.machine.borrow().drives[bay].faults.gone;
        let was = self.member(bay);
        let members = &process.record().members;
        let state = was.and_then(|was| members.get(was.0 as usize).map(|member| member.state));
        let serves = matches!(state, Some(MemberState::Active | MemberState::Spare));
        let is_needed = was.is_some_and(|was| self.is_leaving(was));
        let is_coming = self.coming_back.iter().any(|other| other.bay == bay);
        // A drive that was replaced joins at once or not at all: an outage must not leave it beside the drive in
        // its place.
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
            // The failed flush was reported for the device that it was before.
            faults.flush_failed = false;
        }
        self.coming_back.push(ComingBack {
            bay,
            was,
            stage: Stage::Failing,
        });
        self.go_on_bringing_back();
    }

    /// Bays of drives that are plugged in again and have not joined. After an outage they are found with their
    /// content.
    pub(super) fn bays_coming_back(&self) -> impl Iterator<Item = usize> {
        self.coming_back.iter().map(|coming| coming.bay)
    }

    /// Puts a shell in the drive's place: for the process, the old member answers nothing from now on and never
    /// returns.
    fn leave_shell(&mut self, bay: usize) {
        let shell = self.fresh_drive();
        self.touch(shell);
        self.removed.push(shell);
        let mut machine = self.machine.borrow_mut();
        // The process sends commands according to the member's abilities.
        machine.drives[shell].abilities = machine.drives[bay].abilities;
        machine.drives[shell].faults.gone = true;
        let bays = machine.bays.iter_mut();
        bays.filter(|other| **other == bay)
            .for_each(|other| *other = shell);
    }

    /// Takes the next step with all drives that are coming back.
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

    /// Takes one step of a drive's return. Returns whether it was the last.
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

    /// Adds a drive whose failure is on record. Returns whether that was the last step.
    fn join(&mut self, at: usize) -> bool {
        let bay = self.coming_back[at].bay;
        let note = format!("{:?} joins", Order::BringBack(bay));
        {
            let mut machine = self.machine.borrow_mut();
            machine.note(&Note::Action(&note));
            machine.drives[bay].lose_power();
        }
        // However it was tampered with while it was away, it counts as a new drive.
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

    /// Handles the controller's answer to an order. A drive that lacks more than bitmaps mark is made a plain
    /// spare.
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

    /// Notes whether a drive has joined. One that could not is taken out for good.
    fn take_out_or_in(&mut self, bay: usize, joined: bool) {
        self.absent.retain(|&other| other != bay);
        self.removed.retain(|&other| other != bay);
        if !joined {
            self.removed.push(bay);
        }
    }
}
