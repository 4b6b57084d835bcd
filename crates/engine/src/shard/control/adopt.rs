//! A shard and the controller: adopting views, confirming epochs, reporting idleness.

use crate::control::Controller;
use crate::control::message::Message;
use crate::control::record::{ContainerView, JobKind, JobView};
use crate::flight::running::Work;
use crate::output::Output;
use crate::request::{Failure, Operation};
use crate::shard::Engine;
use crate::units::VolumeId;
use alloc::sync::Arc;

impl Engine {
    pub(crate) fn message(&mut self, message: Message) {
        match message {
            Message::Forward(forward) => self.forwarded(forward),
            Message::ForwardDone { ticket, result } => self.forward_done(ticket, result),
            Message::Pin(buffer) => self.desk.ask(Output::Pin(buffer)),
            Message::Release(buffer) => self.desk.ask(Output::Release(buffer)),
            Message::View(view) => self.adopt(view),
            Message::FailureDurable(members) => {
                self.members.failure_is_durable(members);
                self.refresh_volumes();
                self.settle_held();
            }
            Message::Inspect {
                ticket,
                volume,
                offset_bytes,
            } => self.inspect(ticket, volume, offset_bytes),
            Message::Inspected { ticket } => self.inspected(ticket),
            Message::BadBlocksSettled {
                token,
                change,
                outcome,
            } => {
                self.bad_blocks_settled(token, change, outcome);
                self.answered(token.index());
            }
            Message::WantRegions {
                shard,
                volume,
                regions,
            } => self.want_regions(shard, volume, regions),
            Message::RegionsMarked { volume, regions } => self.regions_marked(volume, regions),
            Message::CloseRegions { volume } => self.close_regions(volume),
            Message::RegionsClosed {
                shard,
                volume,
                busy,
            } => self.regions_closed(shard, volume, &busy),
            Message::RegionsCleared { volume, cleared } => self.regions_cleared(volume, &cleared),
            message => {
                let now = self.desk.now();
                self.own_controller().message(message, now);
            }
        }
    }

    /// Makes a view this shard's own. It is confirmed once all work that it forbids has drained.
    pub(crate) fn adopt(&mut self, view: Arc<ContainerView>) {
        // Before anything else: a shard that claims another's band after this must see that the view is adopted.
        self.order.claims.adopt(view.epoch);
        self.end_inspection(false);
        self.note_failed(view.failed);
        self.members.set_volatile(view.volatile);
        for at in 0..self.volumes.len() {
            let volume = &mut self.volumes[at];
            volume.follow(view.volumes[at].clone(), self.desk.now());
            volume.refresh(self.members.failed(), self.members.durable_failed());
            self.adopt_job(at, view.volumes[at].job);
            self.volumes[at].note_bad_blocks(view.bad_blocks.members());
            self.volumes[at].note_sync();
            self.follow_carriers(at);
            if self.volumes[at].view().stopping {
                self.refuse_blocked(at, Failure::Stopping);
            } else if self.volumes[at].view().writes_stopped {
                self.refuse_blocked(at, Failure::ReadOnly);
            } else if self.volumes[at].view().writes_allowed || self.volumes[at].view().failed {
                self.unblock(at);
            }
        }
        let epoch = view.epoch;
        self.volumes.adopt(view);
        self.desk.tell_controller(Message::EpochAdopted {
            shard: self.desk.id(),
            epoch,
        });
        self.watch_members();
        self.settle_held();
    }

    fn adopt_job(&mut self, at: usize, job: Option<JobView>) {
        if let Some(JobKind::Rebuild(slot)) = self.volumes[at].follow_job(job) {
            self.empty_log(at, slot);
        }
    }

    /// Refuses requests that waited for writes to be allowed, because they will not be.
    fn refuse_blocked(&mut self, at: usize, why: Failure) {
        for position in 0..self.volumes[at].writes().blocked().len() {
            self.refuse(self.volumes[at].writes().blocked()[position], why);
        }
        self.volumes[at].writes_mut().clear_blocked();
    }

    /// Whether writes without a lock are under way that began before there was a job.
    fn writes_unlocked(&self, at: usize) -> bool {
        let volume = VolumeId(at as u8);
        if self.volumes[at].shape().redundant() || self.volumes[at].job().is_none() {
            return false;
        }
        let single = |index: &u32| self.flight.single(*index).writes_to(volume);
        let planned = |index: &u32| {
            let running = self.flight.running(*index);
            match running.work() {
                Work::Direct { request } if running.outstanding() > 0 => {
                    let asked = self.admission[request].request();
                    asked.volume == volume && asked.operation == Operation::Write
                }
                _ => false,
            }
        };
        let (mut singles, mut plans) = (self.flight.single_numbers(), self.flight.plan_numbers());
        singles.any(|index| single(&index)) || plans.any(|index| planned(&index))
    }

    /// Confirms the latest epoch when nothing that it forbids is under way.
    #[inline]
    pub(crate) fn confirm_epoch(&mut self) {
        let Some(epoch) = self.volumes.unconfirmed() else {
            return;
        };
        let drained = self.volumes.iter().enumerate().all(|(at, volume)| {
            let stopped = !volume.view().stopping
                || self.flight.plans_used()
                    + self.admission.slots_used()
                    + self.flight.singles_used()
                    == 0;
            let fenced = volume.view().writes_allowed || volume.writes().running() == 0;
            stopped && fenced && !self.writes_unlocked(at)
        });
        if drained {
            self.volumes.confirm();
            self.desk.tell_controller(Message::EpochConfirmed {
                shard: self.desk.id(),
                epoch,
            });
        }
    }

    /// Tells the controller of volumes that have not been written to for a while.
    pub(crate) fn report_idle(&mut self) {
        for at in 0..self.volumes.len() {
            let (now, after) = (self.desk.now(), self.desk.options().clean_after);
            if self.volumes[at].writes_mut().report_idle(now, after) {
                self.tell_idle(at, true);
            }
        }
    }

    /// The controller, on the shard that has it. Messages to the controller are sent to no other shard.
    pub(crate) fn own_controller(&mut self) -> &mut Controller {
        let id = self.desk.id();
        let controller = self.controller.as_mut();
        controller.unwrap_or_else(|| panic!("shard {} has no controller", id.0))
    }
}
