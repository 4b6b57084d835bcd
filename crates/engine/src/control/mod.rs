//! The controller: one per container, on the first shard. It alone decides what the metadata says and
//! what shards may do.
//!
//! It is level-triggered: messages change the wanted state ([`Controller::message`]), and [`Controller::run`]
//! compares it with the reached state and takes the next steps. Two counters order everything: the *version* of
//! the record, durable on all live members once persisted ([`update`]), and the *epoch* of the view. A shard
//! *adopts* an epoch when it uses that view, and *confirms* it when work that the view forbids has drained. So
//! the rules read as conditions: a volume may be written to when the version that says dirty is durable; writes
//! that a failed member missed may be acknowledged when the version with its mark is durable and every shard has
//! adopted the epoch without it.

mod abilities;
pub mod bad_blocks;
pub mod command;
pub mod failure;
mod flush;
mod flush_purpose;
mod job_ends;
pub mod jobs;
pub mod marks;
pub mod message;
mod opening;
pub mod record;
pub mod recording;
mod refusal;
mod replace;
mod spares;
mod stop;
pub mod update;

use crate::control::record::{
    ContainerView, JobView, MemberRecord, MemberState, Record, SyncKind, VolumeRecord, VolumeView,
};
use crate::event::Event;
use crate::options::Options;
use crate::plan::RowView;
use crate::policy::MemberKind;
use crate::units::{MemberId, MemberSet, Nanos, ShardId, Slot, SlotSet, VolumeId};
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec;
use alloc::vec::Vec;
use flush_purpose::FlushPurpose;
use jobs::Jobs;
use marks::VolumeMarks;
use message::Message;
use update::Updater;

/// What the controller wants done.
#[derive(Clone, Debug)]
pub(crate) enum Output {
    /// Tell every shard.
    Broadcast(Message),
    /// Tell one shard.
    Send(ShardId, Message),
    /// Write the record to this member.
    Persist(MemberId),
    /// Flush these members, answer with [`Message::Flushed`].
    Flush { ticket: u32, members: MemberSet },
    /// Tell people.
    Event(Event),
}

/// A member's failure whose mark is not yet durable or whose epoch is not yet adopted by all shards.
#[derive(Clone, Copy, Debug)]
struct PendingFailure {
    member: MemberId,
    version: u64,
    epoch: u64,
}

/// The controller. See the module's prose.
#[derive(Debug)]
pub struct Controller {
    record: Record,
    updater: Updater,
    epoch: u64,
    /// By shard: the latest epoch that it has adopted.
    adopted: Vec<u64>,
    /// By shard: the latest epoch that it has confirmed.
    confirmed: Vec<u64>,
    /// The view has to be published again.
    stale_view: bool,
    marks: Vec<VolumeMarks>,
    failures: Vec<PendingFailure>,
    /// Failures of which it is not decided yet whether they go on record.
    undecided: Vec<failure::Undecided>,
    /// Failed members that must not be used, recorded or not.
    failed: MemberSet,
    announced: MemberSet,
    reported: spares::Reported,
    jobs: Jobs,
    /// A replacement whose record is on its way.
    switch: Option<replace::Switch>,
    /// The replaced drive, until no shard reads from it.
    leaving: Option<replace::Leaving>,
    recording: recording::Recording,
    opening: opening::Opening,
    flush: Option<(u32, FlushPurpose)>,
    /// When a flush last failed.
    flush_failed_at: Option<Nanos>,
    next_ticket: u32,
    options: Options,
    shards: u8,
    stopping: bool,
    stopped: bool,
    outputs: VecDeque<Output>,
    /// Something has changed since the conditions were last checked.
    moved: bool,
    now: Nanos,
}

/// The view that is used until the controller publishes its first one.
pub(crate) fn first_view(record: &Record) -> ContainerView {
    Controller::new(record.clone(), 1, Options::default()).view()
}

impl Controller {
    pub(crate) fn new(record: Record, shards: u8, options: Options) -> Controller {
        let failed = (0u8..)
            .zip(&record.members)
            .filter(|(_, member)| member.state == MemberState::Failed)
            .map(|(id, _)| MemberId(id))
            .collect();
        let marks = record.volumes.iter().map(VolumeMarks::new).collect();
        let jobs = Jobs::new(&record, shards, options.rate_bytes_per_s);
        Controller {
            updater: Updater::new(record.clone()),
            marks,
            jobs,
            switch: None,
            leaving: None,
            epoch: 0,
            adopted: vec![0; shards as usize],
            confirmed: vec![0; shards as usize],
            stale_view: false,
            failures: Vec::new(),
            undecided: Vec::new(),
            failed,
            announced: failed,
            reported: spares::Reported::default(),
            recording: recording::Recording::default(),
            opening: opening::Opening::default(),
            flush: None,
            flush_failed_at: None,
            next_ticket: 0,
            options,
            shards,
            stopping: false,
            stopped: false,
            outputs: VecDeque::new(),
            moved: true,
            now: Nanos(0),
            record,
        }
    }

    pub(crate) fn start(&mut self, now: Nanos) {
        self.now = now;
        self.await_health();
        if !self.announced.is_empty() {
            self.outputs
                .push_back(Output::Broadcast(Message::FailureDurable(self.announced)));
        }
        self.stale_view = true;
    }

    /// The record as it should be, whether or not it is durable yet.
    #[must_use]
    pub fn wanted(&self) -> &Record {
        &self.record
    }

    /// The record of the update under way, or of the last one.
    #[must_use]
    pub fn persisting(&self) -> &Record {
        self.updater.snapshot()
    }

    /// Whether the record as it stands is durable on all live members, and nothing is about to change it.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        self.updater.is_durable() && self.undecided.is_empty()
    }

    /// Whether a member has failed and is out of use, whether or not that is on record yet.
    #[must_use]
    pub fn has_failed(&self, member: MemberId) -> bool {
        self.failed.has(member)
    }

    /// Whether every shard has confirmed the current view.
    #[must_use]
    pub fn is_followed(&self) -> bool {
        !self.stale_view && self.all_confirmed(self.epoch)
    }

    /// Whether [`message::Command::Stop`] has been carried out.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.stopped
    }

    /// Whether a volume has lost more members than it survives.
    #[must_use]
    pub fn is_failed(&self, volume: VolumeId) -> bool {
        self.marks
            .get(volume.0 as usize)
            .is_some_and(|marks| marks.failed)
    }

    /// Whether a volume refuses writes because the metadata cannot express something that they depend on.
    #[must_use]
    pub fn has_stopped_writes(&self, volume: VolumeId) -> bool {
        self.marks
            .get(volume.0 as usize)
            .is_some_and(|marks| marks.writes_stopped)
    }

    /// The background job of a volume.
    #[must_use]
    pub fn job(&self, volume: VolumeId) -> Option<jobs::JobStatus> {
        self.jobs.status(volume.0 as usize)
    }

    /// The limit of background work, bytes of each member per second; 0 is unlimited.
    #[must_use]
    pub fn rate_bytes_per_s(&self) -> u64 {
        self.jobs.rate_bytes_per_s
    }

    pub(crate) fn poll(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    pub(crate) fn tick(&mut self, now: Nanos) {
        self.now = now;
        self.moved = true;
        for member in self
            .updater
            .overdue(now, self.options.member_deadline)
            .iter()
        {
            self.member_failed(member, crate::policy::ErrorClass::Path, 110);
        }
    }

    /// When the writes of the record that are under way began. The caller may correct it.
    pub(crate) fn began(&mut self) -> Option<&mut Nanos> {
        self.updater.began()
    }

    pub(crate) fn message(&mut self, message: Message, now: Nanos) {
        self.now = now;
        self.moved = true;
        match message {
            Message::WriteIntent(volume) => {
                self.marks[volume.0 as usize].intent = true;
                self.want_opening();
            }
            Message::Idle {
                shard,
                volume,
                idle,
            } => self.marks[volume.0 as usize].set_idle(shard, idle),
            Message::MemberFailed {
                member,
                class,
                errno,
            } => self.member_failed(member, class, errno),
            Message::EpochAdopted { shard, epoch } => {
                let adopted = &mut self.adopted[shard.0 as usize];
                *adopted = (*adopted).max(epoch);
            }
            Message::EpochConfirmed { shard, epoch } => {
                let confirmed = &mut self.confirmed[shard.0 as usize];
                *confirmed = (*confirmed).max(epoch);
            }
            Message::Progress {
                shard,
                volume,
                job,
                band,
                mismatches,
                failures,
                given_up,
            } => {
                let counts = (mismatches, failures);
                self.jobs.progress(shard, volume, job, band, counts);
                if given_up {
                    self.jobs.given_up(shard, volume, job);
                }
            }
            wanted @ Message::BadBlocks { .. } => self.bad_blocks_changed(&wanted),
            Message::CacheTurnedVolatile(member) => self.cache_turned_volatile(member),
            Message::DiscardRefused(member) => self.discard_refused(member),
            Message::AboutToFail(members) => self.reported.about_to_fail(members),
            Message::NotWritable(members) => self.reported.not_writable = members,
            Message::Flushed { ticket, outcome } => self.flushed(ticket, outcome),
            Message::Command { ticket, command } => {
                let result = self.command(command);
                self.event(Event::Answered { ticket, result });
            }
            Message::Forward(_)
            | Message::ForwardDone { .. }
            | Message::Pin(_)
            | Message::Release(_)
            | Message::View(_)
            | Message::Inspect { .. }
            | Message::Inspected { .. }
            | Message::BadBlocksSettled { .. }
            | Message::FailureDurable(_)
            | Message::WantRegions { .. }
            | Message::RegionsMarked { .. }
            | Message::CloseRegions { .. }
            | Message::RegionsClosed { .. }
            | Message::RegionsCleared { .. } => {
                unreachable!("{message:?} is not for the controller")
            }
        }
    }

    /// Takes every step whose condition holds.
    #[inline]
    pub(crate) fn run(&mut self, now: Nanos) {
        self.moved |= self.next_decision().is_some_and(|due| due <= now);
        while core::mem::take(&mut self.moved) {
            self.take_steps(now);
        }
    }

    fn take_steps(&mut self, now: Nanos) {
        self.now = now;
        self.run_refusal();
        self.run_switch();
        self.run_decisions();
        self.run_awaited_health();
        self.run_failures();
        self.run_marks();
        self.run_jobs();
        self.run_recording();
        self.run_opening();
        self.run_stop();
        if self.stale_view {
            self.publish();
        }
        if self.options.read_only || self.writes_nothing() {
            self.updater.skip();
            return;
        }
        if !self.undecided.is_empty() || self.would_outdate() {
            // A record without the failed mark would outdate the member, and could mark a volume clean without
            // it.
            return;
        }
        let mut switched = self.record_after_switch();
        let record = switched.as_mut().unwrap_or(&mut self.record);
        let members = MemberSet(record.active().0 & !self.failed.0);
        let first = self.updater.run(record, members, now);
        let generation = record.generation;
        self.record.generation = generation;
        if let Some(members) = first {
            self.persist(members);
        }
    }

    /// Whether no volume is ever written to, so that no change has to be recorded: a session that only reads
    /// leaves the metadata unchanged.
    fn writes_nothing(&self) -> bool {
        let mut volumes = self.record.volumes.iter();
        volumes.all(|volume| volume.read_only || volume.not_started)
    }

    fn persist(&mut self, members: MemberSet) {
        members
            .iter()
            .for_each(|member| self.outputs.push_back(Output::Persist(member)));
    }

    pub(crate) fn persisted(
        &mut self,
        member: MemberId,
        result: Result<(), crate::policy::MemberError>,
        now: Nanos,
    ) {
        self.now = now;
        self.moved = true;
        if let Err(error) = result {
            self.member_failed(member, error.class, error.errno);
        }
        let next = match result {
            Ok(()) => self.updater.answered(member, now),
            Err(_) => self.updater.lost(member, now),
        };
        if let Some(next) = next {
            self.persist(next);
        }
    }

    /// Notes that the record has changed. Returns the version that has to become durable.
    fn changed(&mut self) -> u64 {
        self.moved = true;
        self.updater.changed()
    }

    /// Notes that the view has to change. Returns the epoch that the shards will have to adopt and confirm.
    fn view_changed(&mut self) -> u64 {
        self.moved = true;
        self.stale_view = true;
        self.epoch + 1
    }

    fn all_adopted(&self, epoch: u64) -> bool {
        self.adopted.iter().all(|&adopted| adopted >= epoch)
    }

    fn all_confirmed(&self, epoch: u64) -> bool {
        self.confirmed.iter().all(|&confirmed| confirmed >= epoch)
    }

    fn publish(&mut self) {
        self.stale_view = false;
        self.epoch += 1;
        let view = Arc::new(self.view());
        self.outputs
            .push_back(Output::Broadcast(Message::View(view)));
    }

    fn view(&self) -> ContainerView {
        let all = |is_meant: fn(&MemberRecord) -> bool| {
            let members = (0u8..).zip(&self.record.members);
            let meant = members.filter(|(_, member)| is_meant(member));
            meant.map(|(id, _)| MemberId(id)).collect()
        };
        let volumes = (0..self.record.volumes.len())
            .map(|at| self.volume_view(at))
            .collect();
        ContainerView {
            epoch: self.epoch,
            volumes,
            failed: self.failed,
            volatile: all(|member| member.volatile_cache),
            files: all(|member| member.kind == MemberKind::File),
            bad_blocks: self.record.bad_blocks.clone(),
        }
    }

    fn volume_view(&self, at: usize) -> VolumeView {
        let volume = &self.record.volumes[at];
        let marks = &self.marks[at];
        let current = self.current_slots(volume);
        let job: Option<JobView> = self.jobs.view(at, self.shards, self.stopping);
        let unsynced = matches!(
            volume.sync.map(|sync| sync.kind),
            Some(SyncKind::Initial | SyncKind::Resync)
        );
        VolumeView {
            slots: volume.slots.iter().map(|slot| slot.member).collect(),
            row: RowView {
                readable: current,
                writable: current,
                shadowed: SlotSet(0),
                in_sync: !unsynced && !volume.then_resync,
                logged: volume.is_logged(),
                behind: self.record.behind(volume),
            },
            writes_allowed: marks.writes_allowed()
                && self.opening.is_done
                && !self.stopping
                && !volume.read_only,
            read_only: volume.read_only || volume.not_started,
            writes_stopped: marks.writes_stopped,
            discards: self.discards(at),
            failed: marks.failed,
            stopping: self.stopping,
            job,
        }
    }

    /// Slots whose drive is current and has not failed; none if the volume is not started.
    fn current_slots(&self, volume: &VolumeRecord) -> SlotSet {
        let lost = |slot: &Slot| {
            volume.slots[slot.0 as usize]
                .member
                .is_none_or(|member| self.failed.has(member))
        };
        volume
            .current_slots()
            .iter()
            .filter(|slot| !lost(slot) && !volume.not_started)
            .fold(SlotSet(0), SlotSet::with)
    }

    fn event(&mut self, event: Event) {
        self.outputs.push_back(Output::Event(event));
    }
}
