//! The queues of one shard: between the guests and the shard's engine, in place of the ring of a real port
//! ([`exports::vhost_user::VhostUserPort`]).

use super::{Death, Machines, VhostUserCounts};
use crate::machine::Machine;
use crate::ublk::connections_of;
use crate::ublk::memory::{Blocks, block};
use engine::request::{Completion, Failure, Operation};
use engine::units::{Buffer, Nanos, VolumeId};
use engine::world::Input;
use exports::vhost_user::driver::Driver;
use exports::vhost_user::{Broken, Opening, Queues, Rules};
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;

/// What only the device writes into the memory of a guest and its front end: see [`Driver::written_by_device`].
type Written = (Vec<u8>, Vec<u8>);

/// A queue whose answers became visible in the last turn.
struct Published {
    place: u16,
    /// Whether its guest is told.
    is_told: bool,
    /// What the device had written before; empty if the process may not die.
    before: Written,
}

/// See the module's prose.
pub struct Port {
    machine: Rc<RefCell<Machine>>,
    queues: Queues<Blocks>,
    /// By their place: volume and client of each queue.
    served: Vec<(u8, u8)>,
    kicks: VecDeque<u16>,
    /// The shard is told to take nothing more.
    is_leaving: bool,
    /// Whether it was told to its queues.
    has_ended: bool,
    inputs: Vec<Input>,
    /// By request: the memory that the engine has for it. Flushes and the like have none.
    in_engine: BTreeMap<u64, Buffer>,
    /// Whether each turn notes what was there before its answers were published.
    may_die: bool,
    published: Vec<Published>,
    counts: VhostUserCounts,
}

impl Port {
    /// Begins to serve the queues of a shard. `volumes` says size and sector of each volume.
    ///
    /// # Panics
    /// If the memory of a guest makes no sense any more.
    #[must_use]
    pub fn new(
        machine: Rc<RefCell<Machine>>,
        blocks: Blocks,
        (shard, shards): (u8, u8),
        volumes: impl Iterator<Item = (u64, u32)>,
    ) -> Port {
        blocks.spoils.set(true);
        let mut port = Port {
            machine,
            queues: Queues::new(blocks),
            served: Vec::new(),
            kicks: VecDeque::new(),
            is_leaving: false,
            has_ended: false,
            inputs: Vec::new(),
            in_engine: BTreeMap::new(),
            may_die: false,
            published: Vec::new(),
            counts: VhostUserCounts::default(),
        };
        for ((size_bytes, block_bytes), volume) in volumes.zip(0..) {
            for connection in connections_of(shard, shards) {
                let opening = port.opening((volume, connection), (size_bytes, block_bytes));
                let opening = opening.expect("guests keep the rules");
                port.counts.taken_over += opening.again.len() as u64;
                let place = usize::from(port.queues.begin(opening));
                assert_eq!(place, port.served.len());
                port.served.push((volume, connection));
            }
        }
        port
    }

    fn opening(
        &self,
        (volume, connection): (u8, u8),
        (size_bytes, block_bytes): (u64, u32),
    ) -> Result<Opening, Broken> {
        let machine = self.machine.borrow();
        let guests = machine.guests.as_ref();
        let guests = guests.expect("a history whose clients are guests has guests");
        let Machines { write_through, .. } = guests.machines();
        let driver = guests.driver(volume, connection);
        let (ring, in_flight, again) = driver.open()?;
        Ok(Opening {
            volume: VolumeId(volume),
            rules: Rules {
                size_bytes,
                block_bytes,
                write_through,
                identity: [b'f'; 20],
            },
            guest: driver.guest().clone(),
            ring,
            in_flight: Some(in_flight),
            again,
        })
    }

    /// The guest tells of a request in a queue, which the shard's next turn takes.
    ///
    /// # Panics
    /// If the shard does not serve the queue.
    pub fn kick(&mut self, volume: u8, connection: u8) {
        let queue = (volume, connection);
        let place = self.served.iter().position(|other| *other == queue);
        let place = place.expect("each queue is served by its shard");
        self.kicks.push_back(place as u16);
    }

    /// The shard is told to leave all further requests to the next process.
    pub fn leave(&mut self) {
        self.is_leaving = true;
    }

    /// Whether all requests that are not left to the next process have been answered.
    #[must_use]
    pub fn has_left(&self) -> bool {
        let mut places = (0..).take(self.served.len());
        self.has_ended && places.all(|place| self.queues.is_quiet(place))
    }

    /// Whether the shard should take another turn at once.
    #[must_use]
    pub fn may_go_on(&self) -> bool {
        self.queues.may_go_on() || self.is_leaving && !self.has_ended
    }

    /// The beginning of a turn: requests go to the engine.
    pub fn poll(&mut self, now: Nanos, inputs: &mut Vec<Input>) {
        self.published.clear();
        for place in std::mem::take(&mut self.kicks) {
            if !self.has_ended {
                self.queues.kicked(place);
            }
        }
        if self.is_leaving && !self.has_ended {
            self.has_ended = true;
            let places = (0..).take(self.served.len());
            places.for_each(|place| self.queues.end(place));
        }
        if self.queues.may_go_on() {
            self.queues.go_on(now, &mut self.inputs);
        }
        for input in std::mem::take(&mut self.inputs) {
            self.hand_in(&input);
            inputs.push(input);
        }
    }

    fn hand_in(&mut self, input: &Input) {
        let Input::Request(request) = input else {
            return self.complain(format!("queues give nothing but requests, not {input:?}"));
        };
        if !matches!(request.operation, Operation::Read | Operation::Write) {
            return;
        }
        let places = block(request.buffer);
        let mut machine = self.machine.borrow_mut();
        machine.let_go.retain(|pin| !places.contains(&pin.0));
        let is_used = machine.is_used_by_drives(&places);
        drop(machine);
        if is_used {
            self.complain(format!(
                "{request:?} begins, and a drive may still use its memory"
            ));
        }
        if self
            .in_engine
            .values()
            .any(|other| *other == request.buffer)
        {
            self.complain(format!("{request:?} has the memory of another request"));
        }
        self.in_engine.insert(request.tag, request.buffer);
    }

    /// The engine has answered a request, or a piece of it.
    pub fn completed(&mut self, completion: Completion) {
        let buffer = self.in_engine.remove(&completion.tag);
        if completion.result == Err(Failure::BufferHeld) {
            self.counts.held += 1;
            if !buffer.is_some_and(|buffer| self.was_pinned(buffer)) {
                self.complain(format!("the memory of {completion:?} is held by nobody"));
            }
        }
        self.queues.completed(completion);
    }

    /// Whether memory is pinned, or was pinned for its present request: the drive may have answered meanwhile.
    fn was_pinned(&self, buffer: Buffer) -> bool {
        let machine = self.machine.borrow();
        let mut pins = machine.pins.iter().chain(&machine.let_go);
        pins.any(|pin| block(buffer).contains(&pin.0))
    }

    /// A hung drive may use memory until [`Port::release`].
    pub fn pin(&mut self, buffer: Buffer) {
        self.queues.pin(buffer);
    }

    /// See [`Port::pin`].
    pub fn release(&mut self, buffer: Buffer) {
        self.queues.release(buffer);
    }

    /// The end of a turn: answers become visible.
    pub fn flush(&mut self) {
        let before = self.may_die.then(|| self.written());
        let before = |place: u16| {
            let before = before.as_ref().map(|all| &all[usize::from(place)]);
            before.cloned().unwrap_or_default()
        };
        let mut broken = None;
        let published = &mut self.published;
        self.queues.publish(|place, result| match result {
            Ok(is_told) => published.push(Published {
                place,
                is_told,
                before: before(place),
            }),
            Err(why) => broken = Some(why),
        });
        if let Some(why) = broken {
            self.complain(format!(
                "a queue of a guest that keeps the rules breaks: {why}"
            ));
        }
    }

    fn driver<'a>(&self, machine: &'a Machine, place: u16) -> &'a Driver {
        let (volume, connection) = self.served[usize::from(place)];
        let guests = machine.guests.as_ref();
        let guests = guests.expect("a history whose clients are guests has guests");
        guests.driver(volume, connection)
    }

    /// By place of the queues: what the device has written.
    fn written(&self) -> Vec<Written> {
        let machine = self.machine.borrow();
        let places = (0..).take(self.served.len());
        let written = |place| self.driver(&machine, place).written_by_device();
        places.map(written).collect()
    }

    /// Whether the process may be killed inside one of the next turns.
    pub fn may_die(&mut self, may_die: bool) {
        self.may_die = may_die;
    }

    /// Volume and client of the queues whose answers became visible in the last turn, if the process may be killed inside it.
    pub fn published(&self) -> Vec<(u8, u8)> {
        let published = self.published.iter().filter(|_| self.may_die);
        let queue = |one: &Published| self.served[usize::from(one.place)];
        published.map(queue).collect()
    }

    /// The process was killed inside the last turn: takes back what it has not done then. Returns the queue of a guest that
    /// can see answers and was not told of them.
    pub fn die(&mut self, death: Death) -> Option<(u8, u8)> {
        let visible = (death.published as usize).min(self.published.len());
        let machine = self.machine.borrow();
        for undone in &self.published[visible..] {
            self.driver(&machine, undone.place).undo(&undone.before);
        }
        drop(machine);
        self.published.truncate(visible);
        self.counts.killed_inside += 1;
        let untold = self.published.pop_if(|_| !death.is_told)?;
        self.counts.untold += 1;
        Some(self.served[usize::from(untold.place)])
    }

    /// Volume and client of the queues whose guests were told of answers since the last call.
    pub fn take_told(&mut self) -> Vec<(u8, u8)> {
        let published = std::mem::take(&mut self.published).into_iter();
        let told = published.filter(|one| one.is_told);
        told.map(|one| self.served[usize::from(one.place)])
            .collect()
    }

    /// The counts since the last call.
    pub fn take_counts(&mut self) -> VhostUserCounts {
        let mut counts = std::mem::take(&mut self.counts);
        counts.starved = self.queues.memory().refused.take();
        counts
    }

    /// The array has been stopped: every queue is forgotten. All memory has to be free then.
    ///
    /// # Errors
    /// What is left over.
    pub fn end(&mut self) -> Result<(), String> {
        for place in (0..).take(self.served.len()) {
            if !self.queues.is_quiet(place) {
                return Err(format!("queue {place} has requests after the end"));
            }
            self.queues.remove(place);
        }
        let counted = self.queues.statistics();
        let left = (counted.pinned_bytes, counted.requests_in_flight);
        if left != (0, 0) {
            return Err(format!(
                "queues have ended, and something is left: {left:?}"
            ));
        }
        if !self.queues.memory().is_all_free() {
            return Err("queues have ended, and not all of their memory is free".to_owned());
        }
        Ok(())
    }

    fn complain(&self, problem: String) {
        self.machine.borrow_mut().problems.push(problem);
    }
}
