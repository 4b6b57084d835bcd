//! How the clients of a run reach the array. Those that use block devices ([`super::ublk`]) or are guests
//! ([`super::vhost_user`]) have ports in front of the engine; the others hand their requests to the engine.

use super::ublk::Devices;
use super::vhost_user::Served;
use super::{Failure, Run};
use crate::history::{Access, Act, Ask, Outage};

/// What the run keeps of the ports' other side.
pub(super) enum Attached {
    /// There are no ports.
    Engine,
    /// Block devices.
    Ublk(Devices),
    /// Guests.
    VhostUser(Served),
}

impl Attached {
    /// For the clients of a history with this many volumes.
    pub(super) fn new(seed: u64, access: Access, volumes: usize) -> Attached {
        match access {
            Access::Engine => Attached::Engine,
            Access::Ublk(devices) => Attached::Ublk(Devices::new(devices, volumes)),
            Access::VhostUser(_) => Attached::VhostUser(Served::new(seed)),
        }
    }

    /// Whether there are ports.
    pub(super) fn has_ports(&self) -> bool {
        !matches!(self, Attached::Engine)
    }
}

impl Run<'_> {
    /// A process has been started.
    pub(super) fn attach(&mut self) -> Result<(), Failure> {
        match self.attached {
            Attached::Engine => Ok(()),
            Attached::Ublk(_) => self.attach_devices(),
            Attached::VhostUser(_) => self.attach_guests(),
        }
    }

    /// Submits waiting requests as far as there is room for them. A request waits only for the tags or rooms of its own queue.
    pub(super) fn submit_to_ports(&mut self) {
        let mut at = 0;
        while let Some(&action) = self.waiting.get(at) {
            let action = &self.history.actions[action];
            match action.act {
                Act::Ask(ask) if !self.has_place(ask) => at += 1,
                Act::Ask(ask) => {
                    self.waiting.remove(at);
                    self.submit_to_port(action.number, ask);
                }
                _ => unreachable!("only requests wait"),
            }
        }
    }

    /// Whether the queue of a request has a free tag or room; without ports, there is nothing to wait for here.
    pub(super) fn has_place(&self, ask: Ask) -> bool {
        match self.attached {
            Attached::Engine => true,
            Attached::Ublk(_) => self.has_free_tag(ask),
            Attached::VhostUser(_) => self.has_free_room(ask),
        }
    }

    /// Submits a request whose queue has a place.
    pub(super) fn submit_to_port(&mut self, number: u32, ask: Ask) {
        match self.attached {
            Attached::Engine => unreachable!("there is no port"),
            Attached::Ublk(_) => self.submit_to_device(number, ask),
            Attached::VhostUser(_) => self.send_to_queue(number, ask),
        }
    }

    /// Handles what the ports have done in the last turn.
    pub(super) fn look_at_ports(&mut self) -> Result<(), Failure> {
        match self.attached {
            Attached::Engine => Ok(()),
            Attached::Ublk(_) => self.look_at_devices(),
            Attached::VhostUser(_) => self.look_at_guests(),
        }
    }

    /// Tells the process to leave all further requests to the next one. When all others are answered, the array is
    /// stopped.
    pub(super) fn leave(&mut self) {
        match self.attached {
            Attached::Engine => {}
            Attached::Ublk(_) => self.leave_devices(),
            Attached::VhostUser(_) => self.leave_guests(),
        }
    }

    /// The process has ended, and with `power` the machine.
    pub(super) fn detach(&mut self, outage: Outage, power: bool) {
        match self.attached {
            Attached::Engine => {}
            Attached::Ublk(_) => self.detach_devices(outage, power),
            Attached::VhostUser(_) => self.detach_guests(outage, power),
        }
    }

    /// The process gets the requests that the one before has not answered.
    pub(super) fn give_again(&mut self) {
        match self.attached {
            Attached::Engine => {}
            Attached::Ublk(_) => self.give_devices_again(),
            Attached::VhostUser(_) => self.begin_again(),
        }
    }

    /// Ends the ports of an array that has been stopped, once drives that hung have answered. Nothing may be left.
    pub(super) fn end_ports(&mut self) -> Result<(), Failure> {
        if !self.attached.has_ports() {
            return Ok(());
        }
        let patience_ns = 20 * self.history.topology.deadline_ns + 10_000_000_000;
        let deadline_ns = self.now_ns() + patience_ns;
        self.until(deadline_ns, "giving memory back", |run| {
            run.machine.borrow().pins.is_empty()
        })?;
        match self.attached {
            Attached::Engine => {}
            Attached::Ublk(_) => self.remove_devices()?,
            Attached::VhostUser(_) => self.end_guests()?,
        }
        match self.machine.borrow_mut().problems.pop() {
            Some(problem) => Err(Failure::Unsound(problem)),
            None => Ok(()),
        }
    }
}
