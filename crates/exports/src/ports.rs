//! The ports of a shard: all exports, combined into the one port that a shard's loop knows.
//!
//! Everything that a port sends out comes back to it. The ring's operations and the engine's requests carry the port's
//! number in the bits above those that the port uses; messages carry the number beside them; a buffer belongs to the
//! port that owns it. Port 0 adds no bits, so a shard with one export pays nothing for the possibility of more.

use crate::export::Statistics;
use crate::nbd::server::NbdPort;
use crate::ublk::UblkPort;
use crate::vhost_user::VhostUserPort;
use drives::port::{PORTS_MAX, Port, PortNumber};
use drives::ring::Ring;
use engine::request::Completion;
use engine::units::{Buffer, Nanos, ShardId};
use engine::world::Input;
use std::any::Any;

/// Bits of a request's tag that the port uses; the bits above hold the port's number.
pub const TAG_BITS: u32 = 60;
const TAG_MASK: u64 = (1 << TAG_BITS) - 1;

/// A port of an export.
pub trait ExportPort: Port {
    /// Whether `buffer` is memory of requests of this port.
    fn owns(&self, buffer: Buffer) -> bool;

    /// The counters so far.
    fn statistics(&self) -> Statistics;
}

/// The port of any export; a new kind of export adds a line here.
#[expect(
    clippy::large_enum_variant,
    reason = "a shard makes a few ports when it starts"
)]
pub enum AnyPort {
    /// See [`crate::nbd`].
    Nbd(NbdPort),
    /// See [`crate::ublk`].
    Ublk(UblkPort),
    /// See [`crate::vhost_user`].
    VhostUser(VhostUserPort),
}

/// Does the same for each kind of port.
macro_rules! each {
    ($any:expr, $port:ident => $do:expr) => {
        match $any {
            AnyPort::Nbd($port) => $do,
            AnyPort::Ublk($port) => $do,
            AnyPort::VhostUser($port) => $do,
        }
    };
}

impl Port for AnyPort {
    #[inline]
    fn poll(&mut self, now: Nanos, ring: &mut Ring, inputs: &mut Vec<Input>) {
        each!(self, port => port.poll(now, ring, inputs));
    }

    #[inline]
    fn completion(
        &mut self,
        user_data: u64,
        result: i32,
        ring: &mut Ring,
        inputs: &mut Vec<Input>,
    ) {
        each!(self, port => port.completion(user_data, result, ring, inputs));
    }

    #[inline]
    fn complete(&mut self, completion: Completion) {
        each!(self, port => port.complete(completion));
    }

    fn pin(&mut self, buffer: Buffer) {
        each!(self, port => port.pin(buffer));
    }

    fn release(&mut self, buffer: Buffer) {
        each!(self, port => port.release(buffer));
    }

    #[inline]
    fn flush(&mut self, ring: &mut Ring) {
        each!(self, port => port.flush(ring));
    }

    fn next_wake(&self) -> Option<Nanos> {
        each!(self, port => port.next_wake())
    }

    fn mail(&mut self, message: Box<dyn Any + Send>) {
        each!(self, port => port.mail(message));
    }

    #[inline]
    fn next_message(&mut self) -> Option<(ShardId, Box<dyn Any + Send>)> {
        each!(self, port => port.next_message())
    }
}

impl ExportPort for AnyPort {
    fn owns(&self, buffer: Buffer) -> bool {
        each!(self, port => port.owns(buffer))
    }

    fn statistics(&self) -> Statistics {
        each!(self, port => port.statistics())
    }
}

/// A message to one of a shard's ports.
pub struct ToPort {
    /// The number of the port.
    pub port: PortNumber,
    /// A message that this port knows.
    pub message: Box<dyn Any + Send>,
}

/// All ports of a shard, by number. See the module's documentation.
pub struct Ports<P = AnyPort> {
    ports: Vec<P>,
}

impl<P: ExportPort> Ports<P> {
    /// Combines these ports, numbered in this order.
    ///
    /// # Panics
    ///
    /// If there are more than [`PORTS_MAX`].
    #[must_use]
    pub fn new(ports: Vec<P>) -> Ports<P> {
        assert!(
            ports.len() <= PORTS_MAX,
            "a shard has at most {PORTS_MAX} ports"
        );
        Ports { ports }
    }

    /// The ports.
    pub fn as_slice(&self) -> &[P] {
        &self.ports
    }

    /// Calls `act` on a port that may start operations and send requests, and adds its number to them.
    #[inline]
    fn act(
        &mut self,
        number: PortNumber,
        ring: &mut Ring,
        inputs: &mut Vec<Input>,
        act: impl FnOnce(&mut P, &mut Ring, &mut Vec<Input>),
    ) {
        let before = inputs.len();
        ring.speak_for(number);
        let port = self.ports.get_mut(usize::from(number.get()));
        let port = port.expect("an operation belongs to a port, and ports are never removed");
        act(port, ring, inputs);
        if number.get() > 0 {
            name_requests(number, &mut inputs[before..]);
        }
    }

    fn owner(&mut self, buffer: Buffer) -> &mut P {
        let owner = self.ports.iter_mut().find(|port| port.owns(buffer));
        owner.expect("a request's buffer belongs to the port that sent the request")
    }

    fn numbers(&self) -> impl Iterator<Item = PortNumber> + use<P> {
        (0..self.ports.len()).map(PortNumber::new)
    }
}

/// Writes the port's number into the tags of its requests.
fn name_requests(number: PortNumber, inputs: &mut [Input]) {
    for input in inputs {
        if let Input::Request(request) = input {
            assert!(
                request.tag <= TAG_MASK,
                "a port's tags have at most {TAG_BITS} bits"
            );
            request.tag |= u64::from(number.get()) << TAG_BITS;
        }
    }
}

impl<P: ExportPort> Port for Ports<P> {
    const TIMED: bool = P::TIMED;

    #[inline]
    fn poll(&mut self, now: Nanos, ring: &mut Ring, inputs: &mut Vec<Input>) {
        for number in self.numbers() {
            self.act(number, ring, inputs, |port, ring, inputs| {
                port.poll(now, ring, inputs);
            });
        }
    }

    #[inline]
    fn completion(
        &mut self,
        user_data: u64,
        result: i32,
        ring: &mut Ring,
        inputs: &mut Vec<Input>,
    ) {
        let (number, user_data) = PortNumber::of_operation(user_data);
        self.act(number, ring, inputs, |port, ring, inputs| {
            port.completion(user_data, result, ring, inputs);
        });
    }

    #[inline]
    fn complete(&mut self, completion: Completion) {
        let number = (completion.tag >> TAG_BITS) as usize;
        let port = self.ports.get_mut(number);
        let port = port.expect("a request belongs to a port, and ports are never removed");
        port.complete(Completion {
            tag: completion.tag & TAG_MASK,
            ..completion
        });
    }

    #[cold]
    fn pin(&mut self, buffer: Buffer) {
        self.owner(buffer).pin(buffer);
    }

    #[cold]
    fn release(&mut self, buffer: Buffer) {
        self.owner(buffer).release(buffer);
    }

    #[inline]
    fn flush(&mut self, ring: &mut Ring) {
        for (at, port) in self.ports.iter_mut().enumerate() {
            ring.speak_for(PortNumber::new(at));
            port.flush(ring);
        }
    }

    fn next_wake(&self) -> Option<Nanos> {
        self.ports.iter().filter_map(Port::next_wake).min()
    }

    fn mail(&mut self, message: Box<dyn Any + Send>) {
        let Ok(message) = message.downcast::<ToPort>() else {
            unreachable!("a message that is addressed to no port");
        };
        let port = self.ports.get_mut(usize::from(message.port.get()));
        port.expect("a message is addressed to an existing port")
            .mail(message.message);
    }

    #[inline]
    fn next_message(&mut self) -> Option<(ShardId, Box<dyn Any + Send>)> {
        for (at, port) in self.ports.iter_mut().enumerate() {
            if let Some((shard, message)) = port.next_message() {
                let port = PortNumber::new(at);
                return Some((shard, Box::new(ToPort { port, message })));
            }
        }
        None
    }
}

/// Something that has counters for each export of a shard.
pub trait Counted {
    /// Writes the counters of each export, by number.
    fn count(&self, into: &mut [Statistics]);
}

impl<P: ExportPort> Counted for Ports<P> {
    fn count(&self, into: &mut [Statistics]) {
        for (place, port) in into.iter_mut().zip(&self.ports) {
            *place = port.statistics();
        }
    }
}

/// No export.
impl Counted for () {
    fn count(&self, _: &mut [Statistics]) {}
}

#[cfg(test)]
mod tests;
