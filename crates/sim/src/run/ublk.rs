//! The kernel's side of block devices ([`crate::ublk`]): requests go to tags, answers come back, devices wait for the
//! next process, and no memory is with the kernel and a drive at once.

use super::attached::Attached;
use super::clients::{Place, Returned};
use super::{Failure, Run};
use crate::history::{Ask, Outage};
use crate::machine::Note;
use crate::ublk;
use crate::ublk::kernel::{Kernel, Numbered, TagAt, describe};
use crate::ublk::port::Port;
use engine::control::message::Command as Order;
use engine::request::{Failure as Refusal, Operation};
use exports::ublk::{Command, TagName};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;

/// The devices of a run.
pub(super) struct Devices {
    kernel: Kernel,
    /// The process has been told to leave requests to the next one, and the array is not stopping yet.
    is_leaving: bool,
}

impl Devices {
    /// Devices for the volumes.
    pub(super) fn new(devices: ublk::Devices, volumes: usize) -> Devices {
        Devices {
            kernel: Kernel::new(volumes, devices.depth),
            is_leaving: false,
        }
    }
}

impl Run<'_> {
    fn port(&self, shard: usize) -> Option<Rc<RefCell<Port>>> {
        let process = self.process.as_ref()?;
        process.ports.get(shard)?.tags().cloned()
    }

    fn ports(&self) -> Vec<Rc<RefCell<Port>>> {
        let ports = self.process.iter().flat_map(|process| &process.ports);
        ports.filter_map(|port| port.tags().cloned()).collect()
    }

    fn devices(&self) -> Option<&Devices> {
        match &self.attached {
            Attached::Ublk(devices) => Some(devices),
            Attached::Engine | Attached::VhostUser(_) => None,
        }
    }

    /// A process has been started: its tags have their first commands.
    pub(super) fn attach_devices(&mut self) -> Result<(), Failure> {
        if let Attached::Ublk(attached) = &mut self.attached {
            attached.is_leaving = false;
        }
        self.take_commands()
    }

    pub(super) fn has_free_tag(&self, ask: Ask) -> bool {
        let kernel = self.devices().map(|attached| &attached.kernel);
        kernel.is_some_and(|kernel| kernel.free_tag(ask.volume, ask.connection).is_some())
    }

    /// Gives a request to a free tag.
    pub(super) fn submit_to_device(&mut self, number: u32, ask: Ask) {
        let kernel = self.devices().map(|attached| &attached.kernel);
        let at = kernel.and_then(|kernel| kernel.free_tag(ask.volume, ask.connection));
        let Some(at) = at else {
            // Drives that hang may keep all memory of the tags then.
            let may_lack = self.history.mode.is_beyond();
            assert!(may_lack, "a request is submitted only if a tag is free");
            return;
        };
        self.give(at, (number, ask));
    }

    fn give(&mut self, at: TagAt, (number, ask): Numbered) {
        let shards = self.process.as_ref().map_or(1, |process| process.shards());
        let shard = usize::from(ask.connection) % shards;
        let port = self
            .port(shard)
            .expect("requests are given to a process, which has a port for each shard");
        let Attached::Ublk(attached) = &mut self.attached else {
            unreachable!("requests are given by a device");
        };
        let place = port.borrow().place(ask.volume, ask.connection);
        let place = place.expect("each queue is served by its shard");
        let buffer = attached.kernel.give(at, (number, ask));
        let buffer = buffer.expect("a tag has a command as soon as its process runs");
        let name = TagName { place, tag: at.tag };
        let flying = self.begin((number, ask), Place::Tag, Some(buffer), shard);
        port.borrow_mut().arrive(name, describe(&ask), buffer);
        self.machine.borrow_mut().knock(shard);
        self.flying.insert(u64::from(number), flying);
    }

    /// Handles what the tags told the kernel in the last turn.
    pub(super) fn look_at_devices(&mut self) -> Result<(), Failure> {
        self.take_commands()?;
        self.judge_memory()?;
        let has_left = self.ports().iter().all(|port| port.borrow().has_left());
        let is_leaving = self.devices().is_some_and(|it| it.is_leaving);
        if is_leaving && has_left {
            if let Attached::Ublk(attached) = &mut self.attached {
                attached.is_leaving = false;
            }
            self.order_now(Order::Stop);
        }
        Ok(())
    }

    fn take_commands(&mut self) -> Result<(), Failure> {
        for (shard, port) in self.ports().iter().enumerate() {
            let commands = port.borrow_mut().take_commands();
            for command in commands {
                let (volume, connection) = port.borrow().queue(command.name.place);
                let at = TagAt::new(volume, connection, command.name.tag);
                self.take_command(shard, at, command)?;
            }
            let counts = port.borrow_mut().take_counts();
            self.counts.ublk.add(&counts);
        }
        Ok(())
    }

    fn take_command(&mut self, shard: usize, at: TagAt, command: Command) -> Result<(), Failure> {
        let Command {
            name,
            answer,
            buffer,
            ..
        } = command;
        let Attached::Ublk(attached) = &mut self.attached else {
            return Ok(());
        };
        let request = attached.kernel.take(at, answer.is_some(), buffer);
        let request = request.map_err(Failure::Unsound)?;
        let note = Note::Tag(shard, name.number(), answer, buffer.0);
        self.machine.borrow_mut().note(&note);
        let (Some(answer), Some((number, ask))) = (answer, request) else {
            return Ok(());
        };
        let flying = self.flying.remove(&u64::from(number));
        let flying = flying.ok_or_else(|| {
            Failure::Unsound(format!(
                "request {number} is answered, and nobody waits for it"
            ))
        })?;
        let result = meaning(&ask, answer)
            .map_err(|text| Failure::Unsound(format!("request {number}: {text}")))?;
        self.settle(&flying, Returned::InMemory(buffer), result)?;
        // The kernel may write into what a tag offers, at any time.
        let length = ask.length_bytes as usize;
        let mut machine = self.machine.borrow_mut();
        machine.memory_mut(buffer, length).fill(0xC5);
        Ok(())
    }

    /// No memory is with two tags, and the kernel has none that a drive may read or write.
    fn judge_memory(&self) -> Result<(), Failure> {
        let Some(Devices { kernel, .. }) = self.devices() else {
            return Ok(());
        };
        let machine = self.machine.borrow();
        if let Some(at) = machine.memory_in_flight().find(|at| kernel.has(*at)) {
            let text = format!("the kernel has the memory at {at:?}, which a drive may still use");
            return Err(Failure::Unsound(text));
        }
        let mut in_engine = BTreeSet::new();
        for port in self.ports() {
            for buffer in port.borrow().in_engine() {
                if kernel.has(buffer) || !in_engine.insert(buffer.0) {
                    return Err(Failure::Unsound(format!("{buffer:?} is with two tags")));
                }
            }
        }
        Ok(())
    }

    /// Tells the process to leave all further requests to the next one. When all others are answered, the array is
    /// stopped.
    pub(super) fn leave_devices(&mut self) {
        for (shard, port) in self.ports().iter().enumerate() {
            port.borrow_mut().leave();
            self.machine.borrow_mut().knock(shard);
        }
        if let Attached::Ublk(attached) = &mut self.attached {
            attached.is_leaving = true;
        }
    }

    /// The process has ended, and with `power` the machine.
    pub(super) fn detach_devices(&mut self, outage: Outage, power: bool) {
        let Attached::Ublk(attached) = &mut self.attached else {
            return;
        };
        attached.kernel.process_ended(power);
        attached.is_leaving = false;
        if outage == Outage::Stop {
            self.counts.ublk.left += attached.kernel.unanswered().len() as u64;
        }
    }

    /// Gives the process the requests that the one before has not answered.
    pub(super) fn give_devices_again(&mut self) {
        if self.process.is_none() {
            return;
        }
        let kernel = self.devices().map(|attached| &attached.kernel);
        let unanswered = kernel.map(Kernel::unanswered).unwrap_or_default();
        for (at, request) in unanswered {
            if !self.flying.contains_key(&u64::from(request.0)) {
                self.counts.ublk.given_again += 1;
                self.give(at, request);
            }
        }
    }

    /// Removes the devices. Every request is answered then.
    pub(super) fn remove_devices(&mut self) -> Result<(), Failure> {
        let Attached::Ublk(attached) = &mut self.attached else {
            return Ok(());
        };
        let unanswered = attached.kernel.unanswered();
        if !unanswered.is_empty() {
            let text = format!("in the end requests are not answered: {unanswered:?}");
            return Err(Failure::Unsound(text));
        }
        attached.kernel.process_ended(true);
        let mut ended = self.ports().into_iter();
        ended
            .try_for_each(|port| port.borrow_mut().end())
            .map_err(Failure::Unsound)
    }
}

/// What an answer to the kernel says.
fn meaning(ask: &Ask, answer: i32) -> Result<Result<(), Refusal>, String> {
    let has_data = matches!(ask.operation, Operation::Read | Operation::Write);
    let done = if has_data { ask.length_bytes as i32 } else { 0 };
    match answer {
        _ if answer == done => Ok(Ok(())),
        -5 => Ok(Err(Refusal::Unrecoverable {
            offset_bytes: ask.offset_bytes,
        })),
        -22 => Ok(Err(Refusal::Misuse)),
        -30 => Ok(Err(Refusal::ReadOnly)),
        -95 => Ok(Err(Refusal::NotSupported)),
        _ => Err(format!("the answer to {ask:?} is {answer}")),
    }
}
