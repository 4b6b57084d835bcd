//! What lies between the clients of a shard and its engine: nothing, or the port of an export.

use crate::{ublk, vhost_user};
use engine::request::Completion;
use engine::units::{Buffer, Nanos};
use engine::world::Input;
use std::cell::RefCell;
use std::rc::Rc;

/// The port of a shard. The run has it, too: it plays those who use the port.
#[derive(Clone)]
pub enum AnyPort {
    /// The tags of block devices.
    Tags(Rc<RefCell<ublk::port::Port>>),
    /// The queues of guests.
    Queues(Rc<RefCell<vhost_user::port::Port>>),
}

macro_rules! each {
    ($port:expr, $one:ident => $does:expr) => {
        match $port {
            AnyPort::Tags(port) => {
                let mut $one = port.borrow_mut();
                $does
            }
            AnyPort::Queues(port) => {
                let mut $one = port.borrow_mut();
                $does
            }
        }
    };
}

impl AnyPort {
    /// The tags, if it has tags.
    #[must_use]
    pub fn tags(&self) -> Option<&Rc<RefCell<ublk::port::Port>>> {
        match self {
            AnyPort::Tags(port) => Some(port),
            AnyPort::Queues(_) => None,
        }
    }

    /// The queues, if it has queues.
    #[must_use]
    pub fn queues(&self) -> Option<&Rc<RefCell<vhost_user::port::Port>>> {
        match self {
            AnyPort::Queues(port) => Some(port),
            AnyPort::Tags(_) => None,
        }
    }

    /// Whether the shard should take another turn at once.
    #[must_use]
    pub fn may_go_on(&self) -> bool {
        match self {
            AnyPort::Tags(port) => port.borrow().may_go_on(),
            AnyPort::Queues(port) => port.borrow().may_go_on(),
        }
    }

    /// The beginning of a turn: requests go to the engine.
    pub fn poll(&self, now: Nanos, inputs: &mut Vec<Input>) {
        match self {
            AnyPort::Tags(port) => port.borrow_mut().poll(inputs),
            AnyPort::Queues(port) => port.borrow_mut().poll(now, inputs),
        }
    }

    /// The engine has answered a request.
    pub fn completed(&self, completion: Completion) {
        each!(self, port => port.completed(completion));
    }

    /// A hung drive may use memory until [`AnyPort::release`].
    pub fn pin(&self, buffer: Buffer) {
        each!(self, port => port.pin(buffer));
    }

    /// See [`AnyPort::pin`].
    pub fn release(&self, buffer: Buffer) {
        each!(self, port => port.release(buffer));
    }

    /// The end of a turn: answers go to the clients.
    pub fn flush(&self) {
        each!(self, port => port.flush());
    }
}
