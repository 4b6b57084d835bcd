//! Runs a history: the array serves its clients under faults and orders, is then healed, and then checked.

mod attached;
mod clients;
mod counts;
pub(crate) mod cut;
mod faults;
mod heal;
mod judge;
mod lies;
mod returns;
mod start;
mod ublk;
mod vhost_user;
mod wide;

use crate::container::create::create;
use crate::history::{Access, Act, Ask, History, Meddling, Mode, Outage};
use crate::machine::{Ending, Happening, Machine};
use crate::oracle::{Oracle, Value};
use crate::process::{Process, SLOTS};
use crate::vhost_user::guests::Guests;
use attached::Attached;
use clients::Flying;
pub use counts::Counts;
use engine::control::record::VolumeRecord;
use engine::event::Event;
use engine::layout::Geometry;
use engine::units::SlotSet;
use engine::world::Input;
pub use lies::LieCounts;
use returns::ComingBack;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::rc::Rc;
use wide::Wide;

/// Log entries after which a history counts as stuck.
const HAPPENINGS_MAX: u64 = 4_000_000;

/// What went wrong with the array.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// A read returned wrong bytes.
    WrongBytes(String),
    /// A request failed although the array could have served it.
    FailedRequest(String),
    /// The array was not assembled although it could have been.
    Refused(String),
    /// Something did not end within the time that it may take.
    Stuck(String),
    /// The final content of the drives or the engine's behaviour is wrong.
    Unsound(String),
    /// The same history took another course when it was run again.
    Unrepeatable(String),
    /// An assertion of the engine did not hold.
    Panicked(String),
}

impl Failure {
    /// The kind of failure, which shrinking preserves.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Failure::WrongBytes(_) => "wrong bytes",
            Failure::FailedRequest(_) => "failed request",
            Failure::Refused(_) => "refused",
            Failure::Stuck(_) => "stuck",
            Failure::Unsound(_) => "unsound",
            Failure::Unrepeatable(_) => "unrepeatable",
            Failure::Panicked(_) => "panicked",
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Failure::WrongBytes(text)
        | Failure::FailedRequest(text)
        | Failure::Refused(text)
        | Failure::Stuck(text)
        | Failure::Unsound(text)
        | Failure::Unrepeatable(text)
        | Failure::Panicked(text)) = self;
        write!(f, "{}: {text}", self.kind())
    }
}

/// The result of a history.
#[derive(Clone, Debug)]
pub struct HistoryOutcome {
    /// Hash of everything that happened.
    pub hash: u64,
    /// What went wrong, if anything.
    pub failure: Option<Failure>,
    /// How often what happened.
    pub counts: Counts,
    /// The end of the log, if it was kept.
    pub log: Vec<String>,
}

/// A history under way.
pub(crate) struct Run<'a> {
    history: &'a History,
    machine: Rc<RefCell<Machine>>,
    process: Option<Process>,
    shapes: Vec<Geometry>,
    oracles: Vec<Oracle>,
    next_action: usize,
    /// Requests that wait for a payload slot or a process.
    waiting: VecDeque<usize>,
    /// Reads that have to be repeated with other memory.
    again: VecDeque<(u32, Ask)>,
    flying: BTreeMap<u64, Flying>,
    slots: Vec<usize>,
    /// Slots whose memory a hung drive may still use.
    pinned: Vec<usize>,
    /// Set while an ordered stop is under way: what is done to the drives after it.
    stopping: Option<Vec<Meddling>>,
    stopped: bool,
    /// The outage that a later command triggers, and what is done to the drives then.
    awaited: Option<(Outage, Vec<Meddling>)>,
    /// By bay: a member with a fault counts as lost until this time.
    suspect_until_ns: Vec<u64>,
    /// By volume: slots that were current when the record was last durable everywhere. A crash may bring back a
    /// record in which only these are current.
    durable_slots: Vec<SlotSet>,
    /// By bay: the drive has been tampered with and counts as lost until it is out of the record.
    meddled: Vec<bool>,
    /// Bays of drives that are missing at the next start.
    absent: Vec<usize>,
    /// Bays of drives that were replaced in service.
    removed: Vec<usize>,
    /// Drives that have been plugged in again and have not joined yet.
    coming_back: Vec<ComingBack>,
    /// The bay of the drive that an operator has ordered to be replaced, in a mirror.
    replacing: Option<usize>,
    /// A drive has been tampered with so that it may be evicted: the operator knows, and starts without it.
    accepts_loss: bool,
    next_number: u32,
    refused: bool,
    wide: Wide,
    /// What clients use to reach the array.
    attached: Attached,
    /// A scrub has corrected mismatches.
    repaired: bool,
    counts: Counts,
}

/// Runs a history; with `words`, the end of its log is kept.
#[must_use]
pub fn run(history: &History, words: bool) -> HistoryOutcome {
    let mut run = match Run::new(history, words) {
        Ok(run) => run,
        Err(failure) => {
            return HistoryOutcome {
                hash: 0,
                failure: Some(failure),
                counts: Counts::default(),
                log: Vec::new(),
            };
        }
    };
    let failure = run.whole().err();
    run.count_lies();
    let machine = run.machine.borrow();
    let mut counts = run.counts;
    counts.happenings = machine.journal.entries();
    counts.replays = machine.replays;
    counts.inexpressible = machine.refusals.count;
    counts.resyncs_by_bitmap = machine.resyncs_by_bitmap;
    counts.taken_back = machine.taken_back;
    counts.virtual_ms = machine.queue.now_ns() / 1_000_000;
    HistoryOutcome {
        hash: machine.journal.hash(),
        failure,
        counts,
        log: machine.journal.tail().map(str::to_owned).collect(),
    }
}

impl<'a> Run<'a> {
    fn new(history: &'a History, words: bool) -> Result<Run<'a>, Failure> {
        let topology = &history.topology;
        let unsound = |error: anyhow::Error| Failure::Unsound(format!("{error:#}"));
        let (drives, shapes) = create(history.seed, topology).map_err(unsound)?;
        let first = if topology.left_over {
            Value::LeftOver
        } else {
            Value::Zero
        };
        let oracles = shapes.iter().enumerate().map(|(at, shape)| {
            let mut oracle = Oracle::new(at as u8, shape.size_bytes / 512, first);
            oracle.decides = !history.mode.is_beyond() && !topology.is_beside_redundancy(at as u8);
            oracle
        });
        let bays = drives.len();
        let mut machine = Machine::new(history.seed, drives, words);
        machine.lag_ns = topology.lag_ns;
        if let Access::VhostUser(machines) = history.access {
            machine.guests = Some(Guests::new(machines, shapes.len()));
        }
        // Without redundancy, a dropped write-back is a loss that a drive does not report at the next start.
        let drops = !matches!(history.mode, Mode::Calm | Mode::Beyond);
        let drives = machine.drives.iter_mut();
        drives.for_each(|drive| {
            drive.faults.drops = drops;
            drive.faults.is_strict = history.mode.is_wide();
        });
        if history.mode.is_wide() {
            // Room for a clock that goes back.
            machine.clock_ahead_ns = 3_600_000_000_000;
        }
        Ok(Run {
            history,
            oracles: oracles.collect(),
            attached: Attached::new(history.seed, history.access, shapes.len()),
            shapes,
            machine: Rc::new(RefCell::new(machine)),
            process: None,
            next_action: 0,
            waiting: VecDeque::new(),
            again: VecDeque::new(),
            flying: BTreeMap::new(),
            slots: (0..SLOTS).collect(),
            pinned: Vec::new(),
            stopping: None,
            stopped: false,
            awaited: None,
            suspect_until_ns: vec![0; bays],
            durable_slots: Vec::new(),
            meddled: vec![false; bays],
            absent: Vec::new(),
            removed: Vec::new(),
            coming_back: Vec::new(),
            replacing: None,
            next_number: history.actions.iter().map(|a| a.number).max().unwrap_or(0) + 1,
            accepts_loss: false,
            refused: false,
            wide: Wide::default(),
            repaired: false,
            counts: Counts::default(),
        })
    }

    fn whole(&mut self) -> Result<(), Failure> {
        self.start()?;
        self.schedule_action();
        let last = self.history.actions.last().map_or(0, |action| action.at_ns);
        let patience_ns = 100 * self.history.topology.deadline_ns + 60_000_000_000;
        self.until(last + patience_ns, "the history", |run| {
            run.next_action == run.history.actions.len()
                && run.waiting.is_empty()
                && run.again.is_empty()
                && run.is_idle()
                && run.stopping.is_none()
        })?;
        self.heal()
    }

    /// Whether every request that was submitted is answered, and its client knows it.
    fn is_idle(&self) -> bool {
        self.flying.is_empty() && !self.has_unseen()
    }

    fn now_ns(&self) -> u64 {
        self.machine.borrow().queue.now_ns()
    }

    /// Lets virtual time pass until `done`, at most until `deadline_ns`.
    fn until(
        &mut self,
        deadline_ns: u64,
        what: &str,
        done: impl Fn(&Run<'a>) -> bool,
    ) -> Result<(), Failure> {
        while !done(self) && !self.refused {
            let happening = self.machine.borrow_mut().queue.take();
            let Some(happening) = happening else {
                return Err(Failure::Stuck(format!("{what}: nothing happens any more")));
            };
            if self.now_ns() > deadline_ns
                || self.machine.borrow().journal.entries() > HAPPENINGS_MAX
            {
                let (flying, waiting) = (self.flying.len(), self.waiting.len());
                return Err(Failure::Stuck(format!(
                    "{what} has not ended in time: {flying} requests in flight, {waiting} waiting"
                )));
            }
            self.happen(happening)?;
        }
        Ok(())
    }

    fn happen(&mut self, happening: Happening) -> Result<(), Failure> {
        match happening {
            Happening::Turn { life, shard } => {
                if self.machine.borrow_mut().takes_turn(life, shard)
                    && let Some(process) = &mut self.process
                {
                    process.turn(shard);
                    let killed = self.is_killed_inside(shard)?;
                    self.look()?;
                    if let Some(meddling) = killed {
                        self.end_inside(&meddling)?;
                    }
                }
            }
            Happening::Answer { life, command } => {
                let mut machine = self.machine.borrow_mut();
                if life == machine.life {
                    machine.answer(command);
                }
            }
            Happening::Deliver { life, to, message } => {
                let mut machine = self.machine.borrow_mut();
                if life == machine.life {
                    machine.tell(to, Input::Message(message));
                }
            }
            Happening::Act => self.act()?,
            Happening::Strike { life } => {
                if life == self.machine.borrow().life {
                    self.strike()?;
                }
            }
        }
        Ok(())
    }

    /// Handles the answers and events of the engine.
    fn look(&mut self) -> Result<(), Failure> {
        let (completions, events) = {
            let mut machine = self.machine.borrow_mut();
            (
                std::mem::take(&mut machine.completions),
                std::mem::take(&mut machine.events),
            )
        };
        self.note_durable_slots();
        if let Some(problem) = self.machine.borrow_mut().problems.pop() {
            return Err(Failure::Unsound(problem));
        }
        for completion in completions {
            self.completed(completion)?;
        }
        self.look_at_ports()?;
        for event in events {
            self.told(event)?;
        }
        self.take_back_slots();
        self.go_on_turning();
        self.go_on_bringing_back();
        if let Some(mut meddling) = self.stopping.take_if(|_| self.stopped) {
            self.stopped = false;
            // A drive may have dropped out since the stop was ordered.
            meddling.retain(|what| !self.loses_the_only_record(what));
            self.restart(Ending::Process, Outage::Stop, &meddling)?;
        }
        Ok(())
    }

    /// Updates `durable_slots`: slots that are current in the record count once the record is durable and every
    /// shard has confirmed the view.
    fn note_durable_slots(&mut self) {
        let Some(process) = &self.process else { return };
        let controller = process.controller();
        let current = process.record().volumes.iter();
        let current = current.map(VolumeRecord::current_slots);
        // In a process that has just been started, all shards have the current view.
        let is_followed = controller.is_followed() || self.durable_slots.is_empty();
        if controller.is_durable() && is_followed {
            self.durable_slots.clear();
            self.durable_slots.extend(current);
        } else {
            // A slot that was lost and is filled again has to become durable again.
            let durable = self.durable_slots.iter_mut();
            durable
                .zip(current)
                .for_each(|(durable, now)| durable.0 &= now.0);
        }
    }

    fn told(&mut self, event: Event) -> Result<(), Failure> {
        match event {
            Event::Stopped => self.stopped = true,
            Event::Answered { ticket, result } => self.answered(ticket, result),
            // `Unrecoverable` alone says little: a scrub whose member fails reports it for intact rows too.
            // Failed requests and the final content are checked separately.
            Event::BadBlocksRecorded(_) if self.history.mode.is_beyond() => {
                self.counts.blocks_recorded += 1;
            }
            Event::Mismatch {
                volume,
                member_offset_bytes,
                ..
            } if self.history.mode == Mode::Lying => {
                return self.scrub_differs(volume.0, member_offset_bytes);
            }
            // A replacement could not copy this range of a RAID 0.
            Event::BadBlocksRecorded(range) if self.is_lenient_at(range.offset_bytes) => {}
            Event::MemberFailed { member, .. } => return self.member_failed(member),
            Event::VolumeFailed(volume) if self.may_fail(volume.0) => {}
            Event::Mismatch { .. }
            | Event::VolumeFailed(_)
            | Event::BadBlocksRecorded(_)
            | Event::BadBlockLogFull(_)
                if !self.history.mode.is_beyond() =>
            {
                return Err(Failure::Unsound(format!("the engine says {event:?}")));
            }
            _ => {}
        }
        Ok(())
    }

    fn schedule_action(&mut self) {
        if let Some(action) = self.history.actions.get(self.next_action) {
            let mut machine = self.machine.borrow_mut();
            machine.queue.at(action.at_ns, Happening::Act);
        }
    }

    fn act(&mut self) -> Result<(), Failure> {
        let at = self.next_action;
        let Some(action) = self.history.actions.get(at) else {
            return Ok(());
        };
        self.next_action += 1;
        match &action.act {
            Act::Ask(_) => {
                self.waiting.push_back(at);
                self.submit_waiting();
            }
            Act::Fault(fault) => self.fault(fault)?,
            Act::Order(order) => self.order(order),
        }
        self.schedule_action();
        Ok(())
    }
}
