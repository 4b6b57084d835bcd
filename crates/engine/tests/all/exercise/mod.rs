//! The fuzzer's exercise, which ordinary tests call too: it starts an array in memory, and takes any bytes as a script
//! of what clients, drives, operators and time do to it. Whatever that is, nothing may panic, every request and every
//! order is answered once, reads return what was written, and a stop ends with nothing left behind.
//!
//! After every turn the whole state is checked ([`engine::shard::Engine::check`]). The exercise does nothing that the
//! engine forbids its caller, like answering a command twice. Whether reads and writes succeed as long as redundancy
//! holds, and what a crash leaves, is checked by the histories of faults (`sim`), which know which drive did what.
//!
//! - [`script`]: bytes as choices; [`start`]: the array that they start.
//! - [`requests`], [`orders`], [`drives`]: what clients, operators and drives do to the array.
//! - [`model`]: what has to be read back.

mod drives;
mod model;
mod orders;
mod requests;
mod script;
mod start;

use crate::memory::Array;
use engine::control::Controller;
use engine::control::message::{Command, Message};
use engine::event::Event;
use engine::occupancy::Occupancy;
use engine::units::{MemberId, VolumeId};
use model::Model;
use requests::Flying;
use script::Script;
use std::collections::BTreeSet;
use std::ops::AddAssign;

/// Most actions of one script.
const ACTIONS_MAX: usize = 400;
/// When all drives answer, everything ends within this time: several times the longest deadline.
const PATIENCE_MS: u64 = 60_000;
const STEP_MS: u64 = 20;

/// The outcome of a script, so that tests see what scripts reach.
#[derive(Clone, Copy, Default, Debug)]
pub struct ScriptOutcome {
    /// Requests that were carried out.
    pub carried_out: usize,
    /// Requests that were answered with errors.
    pub errors: usize,
    /// Blocks that read back as they were written.
    pub right_blocks: usize,
    /// Orders that were accepted.
    pub accepted: usize,
    /// Orders that were refused.
    pub refused: usize,
    /// Drives that have failed.
    pub failed_members: usize,
    /// Volumes that have failed.
    pub failed_volumes: usize,
    /// Background jobs that ran to their end.
    pub ended_jobs: usize,
}

struct Exercise {
    array: Array,
    models: Vec<Model>,
    /// No drive has joined with a false claim of what it holds. After one has, content is not compared.
    is_true: bool,
    flying: Vec<Flying>,
    next_write: u64,
    next_ticket: u64,
    /// Orders that have not been answered.
    ordered: BTreeSet<u64>,
    /// Numbers that drives have had.
    members: BTreeSet<MemberId>,
    /// Drives that were there at the start.
    first_members: u8,
    is_stopped: bool,
    /// One in so many possible faults is injected.
    faults_every: u64,
    outcome: ScriptOutcome,
}

/// Runs any bytes as a script against an array.
///
/// # Panics
/// When it finds a mistake.
pub fn fuzz_one(data: &[u8]) -> ScriptOutcome {
    let mut script = Script::new(data);
    let array = start::start(&mut script);
    let faults_every = script.pick(&[1, 3, 10]);
    let mut exercise = Exercise::new(array, faults_every);
    for _ in 0..ACTIONS_MAX {
        if script.is_over() {
            break;
        }
        exercise.act(&mut script);
    }
    exercise.end();
    exercise.outcome
}

impl Exercise {
    fn new(array: Array, faults_every: u64) -> Exercise {
        let engine = &array.shards[0].engine;
        let shapes = (0..).map_while(|volume| engine.geometry(VolumeId(volume)));
        let models = shapes.map(|shape| Model::new(shape.size_bytes)).collect();
        let first_members = array.shared.borrow().disks.len() as u8;
        Exercise {
            array,
            models,
            is_true: true,
            flying: Vec::new(),
            next_write: 1,
            next_ticket: 1 << 32,
            ordered: BTreeSet::new(),
            members: (0..first_members).map(MemberId).collect(),
            first_members,
            is_stopped: false,
            faults_every,
            outcome: ScriptOutcome::default(),
        }
    }

    fn act(&mut self, script: &mut Script) {
        match script.below(32) {
            0..=11 => self.ask(script),
            12..=17 => self.turn(script),
            18..=19 => self.pass_time(script),
            20..=25 if !script.one_in(self.faults_every) => self.turn(script),
            20..=24 => self.happen_to_drive(script),
            25 => self.happen_to_records(script),
            26..=30 => self.order(script),
            _ => self.inspect(script),
        }
        self.reap();
    }

    fn turn(&mut self, script: &mut Script) {
        let shard = script.below(self.array.shards.len() as u64) as usize;
        match script.below(8) {
            0..=5 => {
                for _ in 0..1 + script.below(8) {
                    self.array.turn();
                    self.reap();
                }
            }
            6 => self.array.turn_alone(shard),
            _ => self.array.turn_without_mail(shard),
        }
    }

    fn pass_time(&mut self, script: &mut Script) {
        if script.one_in(8) {
            // The process stands still, or a clock jumps.
            let milliseconds = script.pick(&[100, 400, 10_000, 3_600_000]);
            self.array.shared.borrow_mut().now += milliseconds * 1_000_000;
        } else {
            let steps = script.pick(&[1, 2, 10, 40]);
            self.wait_until(steps * STEP_MS, |_| false);
        }
    }

    /// Lets `milliseconds` pass, or less if `is_over` holds before; returns whether it holds.
    fn wait_until(
        &mut self,
        milliseconds: u64,
        mut is_over: impl FnMut(&mut Exercise) -> bool,
    ) -> bool {
        for _ in 0..milliseconds / STEP_MS {
            if is_over(self) {
                return true;
            }
            self.array.wait_ms(STEP_MS);
            self.reap();
        }
        is_over(self)
    }

    /// Takes in the array's answers and events.
    fn reap(&mut self) {
        self.reap_answers();
        let events = std::mem::take(&mut self.array.shared.borrow_mut().events);
        for event in events {
            match event {
                Event::Answered { ticket, result } => {
                    let is_known = self.ordered.remove(&ticket);
                    assert!(is_known, "order {ticket} is answered twice");
                    match result {
                        Ok(()) => self.outcome.accepted += 1,
                        Err(_) => self.outcome.refused += 1,
                    }
                }
                Event::MemberFailed { .. } => self.outcome.failed_members += 1,
                Event::VolumeFailed(_) => self.outcome.failed_volumes += 1,
                Event::JobEnded { complete: true, .. } => self.outcome.ended_jobs += 1,
                Event::Stopped => self.is_stopped = true,
                _ => {}
            }
        }
    }

    /// Drives carry out every command, everything is answered and read back, and the array stops.
    fn end(&mut self) {
        self.heal_drives();
        let is_answered = self.wait_until(PATIENCE_MS, |exercise| {
            exercise.flying.is_empty() && exercise.ordered.is_empty()
        });
        assert!(
            is_answered,
            "never answered: {:?}, and orders {:?}",
            self.flying, self.ordered
        );
        self.read_all();
        self.give(Command::Stop);
        let is_stopped = self.wait_until(PATIENCE_MS, |exercise| {
            exercise.is_stopped && exercise.ordered.is_empty()
        });
        assert!(is_stopped, "the stop does not end");
        let is_empty = |exercise: &mut Exercise| {
            let mut shards = exercise.array.shards.iter();
            shards.all(|shard| shard.engine.occupancy() == Occupancy::default())
        };
        if !self.wait_until(PATIENCE_MS, is_empty) {
            let shards = self.array.shards.iter();
            let occupancy: Vec<Occupancy> = shards.map(|shard| shard.engine.occupancy()).collect();
            panic!("the stopped shards hold: {occupancy:#?}");
        }
        assert_eq!(
            self.array.left_behind(),
            0,
            "commands counted as left behind, though all drives have answered"
        );
        let shared = self.array.shared.borrow();
        assert!(
            shared.pins.is_empty(),
            "memory is pinned, though all drives have answered"
        );
    }

    fn controller(&self) -> &Controller {
        let controller = self.array.shards[0].engine.controller();
        controller.expect("the first shard has the controller")
    }

    fn send(&mut self, shard: usize, message: Message) {
        self.array.shared.borrow_mut().mail[shard].push_back(message);
    }
}

/// Sums the outcomes of several scripts.
impl AddAssign for ScriptOutcome {
    fn add_assign(&mut self, other: ScriptOutcome) {
        self.carried_out += other.carried_out;
        self.errors += other.errors;
        self.right_blocks += other.right_blocks;
        self.accepted += other.accepted;
        self.refused += other.refused;
        self.failed_members += other.failed_members;
        self.failed_volumes += other.failed_volumes;
        self.ended_jobs += other.ended_jobs;
    }
}
