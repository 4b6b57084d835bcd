//! One shard: the state machine ([`Engine`]), driven in any world by one loop ([`crate::turn::Shard`]).
//!
//! The rule of use: hand in every input with [`Engine::handle`], then drain [`Engine::poll`] until it
//! returns nothing, then ask [`Engine::next_wake`]. Work is planned when outputs are polled, not when
//! inputs arrive, so that requests which arrive together are planned together.

mod bitmaps;
mod check;
mod control;
mod jobs;
mod logs;
mod look;
mod occupancy;
mod plans;
mod repair;
mod requests;

use crate::admission::Admission;
use crate::bitmap::keeper::Keeper;
use crate::control::Controller;
use crate::control::record::Record;
use crate::desk::Desk;
use crate::flight::Flight;
use crate::flight::scratch::Scratch;
use crate::inspection::Inspection;
use crate::layout::Geometry;
use crate::limits::{
    CONTAINER_MEMBERS_MAX, FORWARDED_MAX, PLANS_RESERVED, REQUESTS_MAX, SHARDS_MAX,
    VOLUME_MEMBERS_MAX, VOLUMES_MAX,
};
use crate::log::Logs;
use crate::members::Members;
use crate::order::Order;
use crate::output::Output;
use crate::plan::{Segments, Step};
use crate::setup::Setup;
use crate::stats::Stats;
use crate::sweeps::Sweeps;
use crate::token::Token;
use crate::units::{Nanos, ShardId};
use crate::volumes::Volumes;
use crate::volumes::volume::Volume;
use crate::world::Input;
use alloc::sync::Arc;
use alloc::vec::Vec;

/// The state machine of one shard. See the module's prose.
pub struct Engine {
    desk: Desk,
    members: Members,
    volumes: Volumes,
    admission: Admission,
    order: Order,
    flight: Flight,
    hole_logs: Logs,
    /// The bitmaps that this shard writes: all of them on the controller's shard, none elsewhere.
    keepers: Vec<Keeper>,
    /// The stripe that an operator's tool is looking at, if there is one.
    inspection: Option<Inspection>,
    controller: Option<Controller>,
    sweeps: Sweeps,
}

/// How long a shard waits before it looks again at a band that another shard has claimed: about as long as a drive
/// needs for a command.
const CLAIM_RETRY: Nanos = Nanos(20_000);

impl Engine {
    /// Sets up a shard; the first shard also runs the controller.
    #[must_use]
    pub fn new(setup: Setup, now: Nanos) -> Engine {
        // Assembly refuses more drives than there are places for.
        assert!(
            setup.record.members.len() <= CONTAINER_MEMBERS_MAX,
            "the record has {} members",
            setup.record.members.len()
        );
        assert!(
            setup.record.volumes.len() <= VOLUMES_MAX,
            "the record has {} volumes",
            setup.record.volumes.len()
        );
        assert!(
            usize::from(setup.shards) <= SHARDS_MAX && setup.shard.0 < setup.shards,
            "shard {} of {}",
            setup.shard.0,
            setup.shards
        );
        let view = Arc::new(crate::control::first_view(&setup.record));
        let scratch_least = Setup::scratch_bytes_min(&setup.record.volumes);
        let steps = 4 * VOLUME_MEMBERS_MAX.min(
            setup
                .record
                .volumes
                .iter()
                .map(|volume| volume.geometry.members as usize)
                .max()
                .unwrap_or(1)
                + 4,
        );
        let volumes = setup
            .record
            .volumes
            .iter()
            .zip(&view.volumes)
            .map(|(record, view)| {
                Volume::new(record.geometry, view.clone(), REQUESTS_MAX + FORWARDED_MAX)
            });
        let mut engine = Engine {
            volumes: Volumes::new(volumes.collect(), view.clone()),
            keepers: Vec::new(),
            inspection: None,
            controller: None,
            sweeps: Sweeps::new(now),
            desk: Desk::new(&setup, now),
            members: Members::new(view.volatile),
            order: Order::new(&setup),
            admission: Admission::new(setup.shards),
            flight: Flight::new(
                steps,
                Scratch::new(setup.scratch.0, setup.scratch.1, scratch_least),
            ),
            hole_logs: Logs::new(),
        };
        engine.adopt(view);
        engine.open_logs(setup.record.volumes.iter().map(|volume| volume.log));
        let volumes = setup.record.volumes.iter();
        engine.open_bitmaps(volumes.map(|volume| volume.bitmap.as_ref()));
        if setup.shard == ShardId(0) {
            let mut controller = Controller::new(setup.record, setup.shards, setup.options);
            controller.start(now);
            engine.controller = Some(controller);
        }
        engine
    }

    /// Takes in what happened at `now`.
    #[inline]
    pub fn handle(&mut self, input: Input, now: Nanos) {
        self.desk.set_now(now);
        match input {
            Input::Request(request) => self.admit(request),
            Input::Done { token, result } if token.is_single() => self.single_done(token, result),
            Input::Done { token, result } if token.is_log() => self.log_done(token, result),
            Input::Done { token, result } => self.step_done(token, result),
            Input::Message(message) => self.message(message),
            Input::Persisted { member, result } => {
                self.own_controller().persisted(member, result, now);
            }
            Input::NotExpressible { member } => {
                self.own_controller().not_expressible(member, now);
            }
        }
    }

    /// Swaps `done`, which must be empty, for the outputs that the world has to carry out next, in order. Returns
    /// false if there are none until new input arrives. Carrying outputs out may cause further ones.
    #[inline]
    pub fn poll(&mut self, done: &mut Vec<Output>) -> bool {
        assert!(
            done.is_empty(),
            "the last outputs have not been carried out"
        );
        if !self.desk.has_outputs() && !self.pump() {
            return false;
        }
        self.desk.take_outputs(done);
        true
    }

    /// Lets time pass, for deadlines, background rates and idle marks. `more_answers` says that this turn brought
    /// inputs, so the next one may bring more answers of drives.
    #[inline]
    pub fn tick(&mut self, now: Nanos, more_answers: bool) {
        self.desk.set_now(now);
        if self.sweeps.is_due(now) && self.may_judge(more_answers) {
            self.sweep();
        }
    }

    /// When [`Engine::tick`] is wanted next.
    #[must_use]
    pub fn next_wake(&self) -> Option<Nanos> {
        let job = self
            .volumes
            .iter()
            .filter_map(|volume| volume.job()?.next_wake(self.desk.now()))
            .min();
        let busy = self.flight.plans_used() > 0
            || self.flight.singles_used() > 0
            || self.controller.is_some()
            || self
                .volumes
                .iter()
                .any(|volume| !volume.writes().is_idle_reported());
        let sweep = busy.then_some(self.sweeps.next());
        let hold = self.order.held_bands.first_end();
        // A shard that gives up a claim notifies nobody.
        let claim = self
            .order
            .ranges
            .waits_for_claims()
            .then(|| self.desk.now().after(CLAIM_RETRY));
        let decision = self.controller.as_ref().and_then(Controller::next_decision);
        [job, sweep, hold, claim, decision]
            .into_iter()
            .flatten()
            .min()
    }

    /// Continues all work that waits for something which may have become available.
    fn pump(&mut self) -> bool {
        self.abandon_overdue();
        self.order.ranges.retry_claims();
        self.retry_scratch();
        self.resume_stalled();
        self.resume_forwarding();
        self.continue_recovering();
        self.release_held_bands();
        self.dispatch_ready();
        self.run_logs();
        self.run_background();
        self.order.ranges.stop_waiting();
        self.confirm_epoch();
        self.run_controller();
        self.desk.has_outputs()
    }

    fn run_controller(&mut self) {
        let Some(controller) = &mut self.controller else {
            return;
        };
        controller.run(self.desk.now());
        while let Some(output) = controller.poll() {
            match output {
                crate::control::Output::Broadcast(message) => {
                    self.desk.tell_shards(&message);
                }
                crate::control::Output::Send(shard, message) => {
                    self.desk.send(shard, message);
                }
                crate::control::Output::Persist(member) => {
                    self.desk.stats.metadata_writes += 1;
                    self.desk.ask(Output::Persist(member));
                }
                crate::control::Output::Flush { ticket, members } => {
                    self.flush_members(ticket, members);
                    // `flush_members` has borrowed all of `self`: the next call takes the controller's other outputs.
                    return;
                }
                crate::control::Output::Event(event) => self.desk.emit(event),
            }
        }
    }

    /// Deadlines, idle marks, progress reports.
    fn sweep(&mut self) {
        self.desk.stats.sweeps += 1;
        self.check_deadlines();
        self.end_late_inspection();
        self.report_idle();
        self.report_progress();
        self.keep_bitmaps();
        if let Some(controller) = &mut self.controller {
            controller.tick(self.desk.now());
        }
    }

    /// The step that a token names.
    #[must_use]
    #[inline]
    pub fn step(&self, token: Token) -> &Step {
        &self.flight.running(token.index()).plan().steps()[token.step()]
    }

    /// The memory of the command or computation that a token names, in order.
    // Always inlined, as `RingWorld::io`, which iterates over it: whether the compiler does so by itself varies.
    #[inline(always)]
    pub fn memory(&self, token: Token) -> Segments<'_> {
        if token.is_single() {
            return Segments::alone(self.flight.single(token.index()).memory());
        }
        if token.is_log() {
            return self.log_memory(token);
        }
        let plan = self.flight.running(token.index()).plan();
        plan.segments_of(&plan.steps()[token.step()])
    }

    /// The record that the controller wants written, shard 0 only.
    #[must_use]
    pub fn record(&self) -> Option<&Record> {
        self.controller.as_ref().map(Controller::persisting)
    }

    /// The controller, shard 0 only.
    #[must_use]
    pub fn controller(&self) -> Option<&Controller> {
        self.controller.as_ref()
    }

    /// Which shard this is.
    #[must_use]
    #[inline]
    pub fn id(&self) -> ShardId {
        self.desk.id()
    }

    /// How many shards there are.
    #[must_use]
    #[inline]
    pub fn shards(&self) -> u8 {
        self.desk.shards()
    }

    /// Whether requests have to wait for plans.
    #[inline]
    pub(crate) fn is_out_of_plans(&self) -> bool {
        self.flight.plans_available() <= PLANS_RESERVED
    }

    /// A turn of the shard's loop has ended.
    #[inline]
    pub(crate) fn count_turn(&mut self, did_something: bool) {
        self.desk.stats.turns += u64::from(did_something);
    }

    /// This shard's counters.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.desk.stats
    }

    /// The time of the last input or tick.
    #[must_use]
    pub fn now(&self) -> Nanos {
        self.desk.now()
    }

    /// Requests under way, not counting those that wait for admission.
    #[must_use]
    pub fn requests_under_way(&self) -> usize {
        let waiting = self.admission.waiting();
        self.admission.slots_used()
            + self.flight.singles_used()
            + waiting.slots
            + waiting.forwarded_slots
    }

    /// The geometry of a volume.
    #[must_use]
    pub fn geometry(&self, volume: crate::units::VolumeId) -> Option<&Geometry> {
        self.volumes.get(volume.0 as usize).map(Volume::shape)
    }
}
