//! The array's process: its shards, its memory, and its start from the content of the drives.

use crate::container::probe::{Probed, probe};
use crate::history::Access;
use crate::machine::{Ending, Machine};
use crate::ports::AnyPort;
use crate::ublk;
use crate::ublk::memory::{BLOCK_BYTES, Blocks};
use crate::vhost_user;
use crate::world::SimWorld;
use anyhow::{Result, bail};
use assembly::assemble::assemble;
use assembly::assemble::bitmap::returning;
use assembly::log::{initialise_all, logged_volumes};
use assembly::member::Member;
use assembly::persist::Identity;
use assembly::write::write_record;
use engine::claims::Claims;
use engine::control::Controller;
use engine::control::message::{Command, Message};
use engine::control::record::{Record, Returning};
use engine::limits::BAND_BYTES_MAX;
use engine::options::Options;
use engine::policy::ErrorClass;
use engine::setup::Setup;
use engine::shard::Engine;
use engine::turn::Shard;
use engine::units::{Buffer, MemberId, ShardId};
use engine::world::Input;
use metadata::imsm::build::NewDrive;
use metadata::imsm::start::StartOptions;
use metadata::imsm::{Mpb, SectorSize};
use std::cell::RefCell;
use std::rc::Rc;

/// Requests that clients may have in flight together.
pub const SLOTS: usize = 24;
/// Largest request.
pub const REQUEST_BYTES_MAX: u32 = 1 << 20;
/// How often reading a drive's metadata is tried.
const TRIES: usize = 8;
/// From the end of one turn with work to the beginning of the next.
const TURN_NS: u64 = 1_500;

/// How a process is started.
#[derive(Clone, Copy, Debug)]
pub struct StartWith {
    /// Number of shards.
    pub shards: u8,
    /// The options of the start that the operator has given.
    pub accept: StartOptions,
    /// The engine's options.
    pub engine: Options,
    /// Sector size of all drives.
    pub sector: SectorSize,
    /// Scratch memory of each shard, in multiples of the engine's minimum, with which one parity plan runs at a
    /// time.
    pub scratch_times: u64,
    /// How clients reach it.
    pub access: Access,
}

impl StartWith {
    /// By shard: how many longest requests its clients' memory holds. Without ports, all shards share the memory of
    /// the first.
    fn blocks(&self, volumes: usize) -> Vec<usize> {
        match self.access {
            Access::Engine => vec![SLOTS],
            Access::Ublk(devices) => {
                let shards = 0..self.shards;
                let blocks = shards.map(|shard| devices.blocks(shard, self.shards, volumes));
                blocks.collect()
            }
            Access::VhostUser(machines) => {
                vec![usize::from(machines.blocks); usize::from(self.shards)]
            }
        }
    }
}

/// See the module's prose.
pub struct Process {
    machine: Rc<RefCell<Machine>>,
    shards: Vec<Shard<SimWorld>>,
    /// By shard: what clients use; empty if they hand their requests to the engine.
    pub ports: Vec<AnyPort>,
    payload_from: u64,
    next_ticket: u64,
    /// The metadata record at the start.
    mpb: Mpb,
    sector: SectorSize,
}

impl Process {
    /// Assembles the array from the drives in the given bays and starts to serve it.
    ///
    /// # Errors
    /// If the array must not be assembled or started.
    pub fn start(
        machine: &Rc<RefCell<Machine>>,
        bays: &[usize],
        with: StartWith,
    ) -> Result<Process> {
        let probed: Vec<Probed> = bays
            .iter()
            .filter_map(|&bay| {
                // Reads that fail are tried again, as an operator would do.
                (0..TRIES).find_map(|_| probe(machine, bay, with.sector))
            })
            .collect();
        let container = assemble(probed, with.accept, false)?;
        let bays = container.members.iter().map(|member| member.bay);
        let bays: Vec<usize> = bays.collect();
        let mpb = container.persister.mpb().clone();
        let scratch_bytes =
            with.scratch_times * Setup::scratch_bytes_min(&container.record.volumes);
        let scratch_from = u64::from(BAND_BYTES_MAX);
        let payload_from = scratch_from + scratch_bytes * u64::from(with.shards);
        let blocks = with.blocks(container.record.volumes.len());
        let memory_bytes = payload_from + blocks.iter().sum::<usize>() as u64 * BLOCK_BYTES;
        let memory_bytes = memory_bytes as usize;
        {
            let mut machine = machine.borrow_mut();
            let shards = with.shards as usize;
            machine.begin_life(shards, memory_bytes, bays, container.persister);
            // Assembly reports replayed logs, resyncs by bitmap and returned drives as notes.
            let count = |words: &str| {
                let notes = container.notes.iter();
                notes.filter(|note| note.contains(words)).count() as u64
            };
            machine.replays += count("write-hole log");
            machine.resyncs_by_bitmap += count("write-intent bitmap marks");
            machine.taken_back += count("comes back");
        }
        let now = machine.borrow().clock();
        let now_ns = machine.borrow().queue.now_ns();
        let ports = ports(machine, with, payload_from, &container.record, &blocks);
        let claims = Claims::new();
        let shard = |number: u8| {
            let scratch = scratch_from + scratch_bytes * u64::from(number);
            let setup = Setup {
                shard: ShardId(number),
                shards: with.shards,
                record: container.record.clone(),
                scratch: (Buffer(scratch), scratch_bytes),
                zeros: Buffer(0),
                options: with.engine,
                claims: claims.clone(),
            };
            let port = ports.get(usize::from(number)).cloned();
            let world = SimWorld::new(machine.clone(), ShardId(number), port);
            Shard::new(Engine::new(setup, now), world)
        };
        let shards = (0..with.shards).map(shard).collect();
        for number in 0..with.shards as usize {
            machine.borrow_mut().wake(number, now_ns);
        }
        Ok(Process {
            machine: machine.clone(),
            shards,
            ports,
            payload_from,
            next_ticket: 1,
            mpb,
            sector: with.sector,
        })
    }

    /// As [`Process::start`], but fails if a `needed` volume is not started.
    ///
    /// # Errors
    /// If the array must not be assembled, or a `needed` volume must not be started.
    pub fn start_all(
        machine: &Rc<RefCell<Machine>>,
        bays: &[usize],
        with: StartWith,
        needed: impl Fn(usize) -> bool,
    ) -> Result<Process> {
        let process = Process::start(machine, bays, with)?;
        let mut volumes = process.record().volumes.iter().enumerate();
        if let Some((at, _)) = volumes.find(|(at, volume)| volume.not_started && needed(*at)) {
            process.end(Ending::Process);
            bail!("volume {at} is not started, although others are");
        }
        Ok(process)
    }

    /// Ends the process without stopping the array in order.
    pub fn end(self, ending: Ending) {
        self.machine.borrow_mut().end_life(ending);
    }

    /// One shard takes a turn.
    pub fn turn(&mut self, shard: usize) {
        let busy = self.shards[shard].turn();
        if busy {
            self.shards[shard].engine.check();
        }
        let port = self.ports.get(shard);
        let busy = busy || port.is_some_and(AnyPort::may_go_on);
        let next = self.shards[shard].engine.next_wake();
        let mut machine = self.machine.borrow_mut();
        let now_ns = machine.queue.now_ns();
        if busy {
            machine.wake(shard, now_ns + TURN_NS);
        } else if let Some(at) = next {
            let at_ns = machine.virtual_ns(at);
            machine.wake(shard, at_ns.max(now_ns + TURN_NS));
        }
    }

    /// Number of shards.
    #[must_use]
    pub fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The controller.
    ///
    /// # Panics
    /// Never: the first shard has the controller.
    #[must_use]
    pub fn controller(&self) -> &Controller {
        self.shards[0]
            .engine
            .controller()
            .expect("shard 0 has the controller")
    }

    /// The record that the array wants to be durable.
    #[must_use]
    pub fn record(&self) -> &Record {
        self.controller().wanted()
    }

    /// Gives an order to the controller, which will answer with the returned ticket.
    pub fn order(&mut self, command: Command) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        let message = Message::Command { ticket, command };
        self.machine.borrow_mut().tell(0, Input::Message(message));
        ticket
    }

    /// Reports to the controller that a drive is gone.
    pub fn report_gone(&mut self, member: MemberId) {
        let message = Message::MemberFailed {
            member,
            class: ErrorClass::Gone,
            errno: crate::drive::faults::GONE,
        };
        self.machine.borrow_mut().tell(0, Input::Message(message));
    }

    /// Adds a new drive, which becomes a spare if the controller accepts it.
    pub fn attach(&mut self, bay: usize) -> Option<MemberId> {
        self.machine.borrow_mut().record_like_others(bay);
        let probed = probe(&self.machine, bay, self.sector)?;
        let (member, _) = self.join(&probed, None)?;
        Some(member)
    }

    /// Adds a drive that has been a member before: as a returning drive if it lacks only what bitmaps mark, and
    /// otherwise, or `by_force`, as a spare. Returns its number, the ticket of the order, and whether it was
    /// added as a returning drive.
    pub fn attach_again(&mut self, bay: usize, by_force: bool) -> Option<(MemberId, u64, bool)> {
        let probed = (0..TRIES).find_map(|_| probe(&self.machine, bay, self.sector))?;
        let returns = returning(&probed, &self.mpb).filter(|_| !by_force);
        if returns.is_none() {
            let drive = NewDrive {
                serial: probed.serial(),
                total_sectors: probed.placement().total_sectors(),
            };
            let spare = Mpb::spare(&drive, self.sector).ok()?;
            write_record(&spare, &[&probed]).ok()?;
        }
        let (member, ticket) = self.join(&probed, returns)?;
        Some((member, ticket, returns.is_some()))
    }

    fn join(&mut self, probed: &Probed, returns: Option<Returning>) -> Option<(MemberId, u64)> {
        let logged = {
            let machine = self.machine.borrow();
            logged_volumes(machine.persister.as_ref()?.mpb(), self.sector)
        };
        // An old log must not be replayed after the drive has joined.
        initialise_all(&logged, &[probed]).ok()?;
        let identity = Identity::of(probed);
        let mut machine = self.machine.borrow_mut();
        let member = MemberId(u8::try_from(machine.bays.len()).ok()?);
        machine.bays.push(probed.bay);
        if let Some(persister) = &mut machine.persister {
            persister.add_drive(identity);
        }
        drop(machine);
        let ticket = self.order(Command::AddSpare {
            member,
            size_bytes: probed.size_bytes(),
            volatile_cache: probed.volatile_cache(),
            kind: probed.kind(),
            discards: probed.discards(),
            returns,
        });
        Some((member, ticket))
    }

    /// The payload buffer of a client's request.
    #[must_use]
    pub fn payload(&self, slot: usize) -> Buffer {
        Buffer(self.payload_from + slot as u64 * u64::from(REQUEST_BYTES_MAX))
    }
}

/// The ports of all shards, if clients use any. `blocks` says how many longest requests the memory of each shard holds,
/// which lies from `from` on.
fn ports(
    machine: &Rc<RefCell<Machine>>,
    with: StartWith,
    mut from: u64,
    record: &Record,
    blocks: &[usize],
) -> Vec<AnyPort> {
    if with.access == Access::Engine {
        return Vec::new();
    }
    let port = |(shard, &count): (u8, &usize)| {
        let memory = Blocks::new(machine.clone(), from, count);
        from += count as u64 * BLOCK_BYTES;
        let block_bytes = with.sector.bytes() as u32;
        let volumes = record.volumes.iter();
        let volumes = volumes.map(|volume| (volume.geometry.size_bytes, block_bytes));
        let (machine, place) = (machine.clone(), (shard, with.shards));
        match with.access {
            Access::Engine => unreachable!("there are no ports"),
            Access::Ublk(devices) => {
                let port = ublk::port::Port::new(machine, memory, devices, place, volumes);
                AnyPort::Tags(Rc::new(RefCell::new(port)))
            }
            Access::VhostUser(_) => {
                let port = vhost_user::port::Port::new(machine, memory, place, volumes);
                AnyPort::Queues(Rc::new(RefCell::new(port)))
            }
        }
    };
    (0..).zip(blocks).map(port).collect()
}
