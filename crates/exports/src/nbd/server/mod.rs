//! The NBD server: connections on a shard's ring, between clients' sockets and the shard's engine.
//!
//! A [`NbdPort`] serves any number of connections. It accepts them itself or gets them by message from another shard's
//! port, so that one listener feeds all shards. In the order in which a byte meets them:
//!
//! - `listeners`: accepting ([`Route`] spreads connections over shards).
//! - `connection`: one client's socket, session and state.
//! - `intake`: commands become requests; payload is received where the engine will use it.
//! - `requests`, `name`: the requests in flight of a connection, and their tags.
//! - `outbox`: replies leave in batches, and data is not copied.
//! - `memory`: how the shard's payload memory is shared.
//! - `setup`: options, messages, errors; `stats`: counters.
//!
//! # Limits
//!
//! A connection has at most 128 requests in flight and a share of the payload memory (see `memory`). At either limit
//! nothing more is read from it until replies have been sent. So a client that does not take its replies costs a
//! bounded amount of memory, and other clients are served. Nothing is allocated for a request; a connection allocates
//! when it begins.
//!
//! # Ends
//!
//! A client that has sent all its requests may close its sending direction and still gets its replies. A broken
//! connection is closed only when its requests have come back from the engine, because their memory is in use until
//! then. [`Stop`] ends all connections in order.

mod connection;
mod handing_over;
mod intake;
mod listeners;
mod memory;
mod moderation;
mod name;
mod outbox;
mod requests;
mod setup;
mod stats;
mod stop;
#[cfg(test)]
pub(super) mod tests;

pub use setup::{
    HandOver, HandedOver, NbdLimits, NbdPortError, NbdPortOptions, NewConnection, NewListener,
    NewOffer, Problem, Route, Stop, maximum_payload_bytes,
};
pub use stats::NbdStats;

use std::any::Any;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;

use drives::port::Port;
use drives::ring::Ring;
use engine::request::Completion;
use engine::units::{Buffer, Nanos, ShardId, VolumeId};
use engine::world::Input;

use super::{ExportList, Session};
use crate::export::Statistics;
use crate::ports::ExportPort;
use connection::{Connection, FEED_BYTES};
use listeners::Listeners;
use memory::Memory;
use name::{ConnectionName, RequestTag, RingOperation};
use stop::Stopping;

/// What all connections of a port share.
struct Shared {
    exports: Arc<ExportList>,
    volumes: Vec<VolumeId>,
    memory: Memory,
    stats: NbdStats,
    /// Buffer for received bytes that are given to a session.
    scratch: Box<[u8]>,
    /// Buffer for composing a sentence to a client.
    text: Vec<u8>,
    /// Connections to look at when the turn is over.
    marked: Vec<ConnectionName>,
    /// Connections that wait for memory or slots, in the order in which they are tried again.
    stalled: VecDeque<ConnectionName>,
    /// Reads that have to be repeated in other memory.
    held: VecDeque<(ConnectionName, u16)>,
    shutting_down: bool,
    on_problem: Box<dyn FnMut(&Problem) + Send>,
}

impl Shared {
    #[cold]
    fn offer(&mut self, exports: Arc<ExportList>) {
        // Memory and volumes were set up for the old list.
        assert!(
            exports.differs_in_abilities_at_most(&self.exports),
            "a new offer may change only the abilities of exports: {exports:?}"
        );
        self.exports = exports;
    }
}

/// A shard's NBD server. See the module's documentation.
pub struct NbdPort {
    connections: Vec<Option<Box<Connection>>>,
    /// How often each place among the connections has been used.
    generations: Vec<u32>,
    free: Vec<u16>,
    shared: Shared,
    listeners: Listeners,
    route: Route,
    /// Sockets of new connections for this port.
    arrivals: Vec<NewConnection>,
    /// Sockets of new connections for other shards.
    departures: VecDeque<(ShardId, OwnedFd)>,
    /// Connections in their handshake, and when it times out.
    handshakes: VecDeque<(Nanos, ConnectionName)>,
    handshake_timeout: Nanos,
    stopping: Stopping,
}

impl NbdPort {
    /// Makes a port.
    ///
    /// # Errors
    ///
    /// [`NbdPortError`] if exports, volumes and memory do not fit together.
    pub fn new(options: NbdPortOptions) -> Result<NbdPort, NbdPortError> {
        let exports = options.exports.as_slice().len();
        if options.volumes.len() != exports {
            return Err(NbdPortError::Volumes {
                exports,
                volumes: options.volumes.len(),
            });
        }
        let limits = options.limits;
        let memory = Memory::new(options.pool, &limits, &options.exports)?;
        let count = memory.connections_max();
        let mut listeners = Listeners::default();
        options
            .listeners
            .into_iter()
            .for_each(|socket| listeners.add(socket));
        Ok(NbdPort {
            connections: (0..count).map(|_| None).collect(),
            generations: vec![0; count],
            free: (0..count as u16).rev().collect(),
            shared: Shared {
                exports: options.exports,
                volumes: options.volumes,
                memory,
                stats: NbdStats::default(),
                scratch: vec![0; FEED_BYTES].into_boxed_slice(),
                text: Vec::with_capacity(8 << 10),
                marked: Vec::with_capacity(count),
                stalled: VecDeque::with_capacity(count),
                held: VecDeque::new(),
                shutting_down: false,
                on_problem: options.on_problem,
            },
            listeners,
            route: options.route,
            arrivals: Vec::new(),
            departures: VecDeque::new(),
            handshakes: VecDeque::with_capacity(count),
            handshake_timeout: limits.handshake_timeout,
            stopping: Stopping::new(&limits),
        })
    }

    /// The counters so far.
    #[must_use]
    pub fn stats(&self) -> NbdStats {
        NbdStats {
            pinned_bytes: self.shared.memory.pinned_bytes(),
            ..self.shared.stats
        }
    }

    /// How many connections there can be at once.
    #[must_use]
    pub fn connections_max(&self) -> usize {
        self.connections.len()
    }

    /// Calls `act` with a connection, if it still exists.
    #[inline]
    fn with<R>(
        &mut self,
        name: ConnectionName,
        act: impl FnOnce(&mut Connection, &mut Shared) -> R,
    ) -> Option<R> {
        let index = usize::from(name.index);
        if self.generations.get(index) != Some(&name.generation) {
            return None;
        }
        let connection = self.connections[index].as_mut()?;
        Some(act(connection, &mut self.shared))
    }

    #[cold]
    fn take_arrivals(&mut self, now: Nanos, ring: &mut Ring, inputs: &mut Vec<Input>) {
        for mut arrival in std::mem::take(&mut self.arrivals) {
            let goes_on = arrival.session.is_some();
            let session = match arrival.session.take() {
                Some(frozen) => Session::thaw(self.shared.exports.clone(), &frozen),
                None => Ok(Session::new(self.shared.exports.clone())),
            };
            let session = match session {
                Ok(session) => session,
                Err(error) => {
                    (self.shared.on_problem)(&Problem::NotTakenOver(error));
                    self.refuse(arrival, ring);
                    continue;
                }
            };
            let index = match self.free.pop() {
                Some(index) if !self.shared.shutting_down => index,
                full => {
                    self.free.extend(full);
                    if !self.shared.shutting_down {
                        let connections_max = self.connections.len();
                        (self.shared.on_problem)(&Problem::Full { connections_max });
                    }
                    self.refuse(arrival, ring);
                    continue;
                }
            };
            let socket = &arrival.socket;
            listeners::make_blocking(socket);
            // Replies are complete messages, so do not delay them. Local sockets have no such option and refuse.
            let _ = rustix::net::sockopt::set_tcp_nodelay(socket, true);
            // So that a client whose host has gone is noticed at some time.
            let _ = rustix::net::sockopt::set_socket_keepalive(socket, true);
            let name = ConnectionName {
                index,
                generation: self.generations[usize::from(index)],
            };
            let area = self.shared.memory.area(index);
            let mut connection = Connection::new(arrival, session, name, area, &self.shared);
            match goes_on {
                true => connection.advance(&mut self.shared, ring, inputs),
                false => connection.send(&mut self.shared, ring),
            }
            if self.stopping.hands_over() {
                let until = self.stopping.leave_until(now);
                connection.begin_hand_over(until, &mut self.shared, ring);
            }
            self.connections[usize::from(index)] = Some(Box::new(connection));
            self.handshakes
                .push_back((now.after(self.handshake_timeout), name));
            self.shared.stats.connections_accepted += 1;
            self.shared.stats.connections_open += 1;
        }
    }

    #[cold]
    fn refuse(&mut self, arrival: NewConnection, ring: &mut Ring) {
        self.shared.stats.connections_refused += 1;
        // Somebody may have another descriptor of the socket.
        ring.shutdown(arrival.socket.as_fd());
        ring.close(arrival.socket, RingOperation::Close.user_data());
    }

    /// Ends connections whose handshake takes too long, and forgets those that have completed it.
    #[cold]
    fn check_handshakes(&mut self, now: Nanos, ring: &mut Ring) {
        while let Some(&(deadline, name)) = self.handshakes.front() {
            let negotiates = self.with(name, |connection, _| connection.is_in_handshake());
            if negotiates == Some(true) {
                if now < deadline {
                    return;
                }
                self.shared.stats.handshakes_timed_out += 1;
                (self.shared.on_problem)(&Problem::HandshakeTimeout);
                self.with(name, |connection, shared| {
                    connection.break_off(shared, ring)
                });
            }
            self.handshakes.pop_front();
        }
    }

    /// Repeats reads whose memory is kept by drives, as far as there is other memory.
    #[cold]
    fn ask_again(&mut self, inputs: &mut Vec<Input>) {
        for _ in 0..self.shared.held.len() {
            let Some((name, slot)) = self.shared.held.pop_front() else {
                return;
            };
            let asked = self.with(name, |connection, shared| {
                connection.ask_again(slot, shared, inputs)
            });
            if asked == Some(false) {
                self.shared.held.push_back((name, slot));
            }
        }
    }

    /// Lets each connection that waits for room try again once.
    fn retry_stalled(&mut self, ring: &mut Ring, inputs: &mut Vec<Input>) {
        for _ in 0..self.shared.stalled.len() {
            let Some(name) = self.shared.stalled.pop_front() else {
                return;
            };
            self.with(name, |connection, shared| {
                connection.advance(shared, ring, inputs);
            });
        }
    }

    /// Closes a connection that is finished.
    #[inline]
    fn close_if_finished(&mut self, name: ConnectionName, ring: &mut Ring) {
        let finished = self.with(name, |connection, _| connection.is_finished());
        if finished == Some(true) {
            self.close(name, ring);
        }
    }

    #[cold]
    fn close(&mut self, name: ConnectionName, ring: &mut Ring) {
        if let Some(connection) = self.take_out(name) {
            let socket = connection.close(&mut self.shared);
            ring.close(socket, RingOperation::Close.user_data());
        }
    }

    /// Takes a connection out of its place, which becomes free.
    #[cold]
    fn take_out(&mut self, name: ConnectionName) -> Option<Box<Connection>> {
        let index = usize::from(name.index);
        let connection = self.connections[index].take()?;
        self.generations[index] = self.generations[index].wrapping_add(1);
        self.free.push(name.index);
        self.shared.stats.connections_open -= 1;
        Some(connection)
    }
}

impl Port for NbdPort {
    fn poll(&mut self, now: Nanos, ring: &mut Ring, inputs: &mut Vec<Input>) {
        self.listeners.accept(now, ring);
        if !self.arrivals.is_empty() {
            self.take_arrivals(now, ring, inputs);
        }
        if !self.handshakes.is_empty() {
            self.check_handshakes(now, ring);
        }
        if self.stopping.is_asked() {
            self.advance_stop(now, ring);
        }
        if !self.shared.held.is_empty() {
            self.ask_again(inputs);
        }
        if !self.shared.stalled.is_empty() && self.shared.memory.take_freed() {
            self.retry_stalled(ring, inputs);
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
        match RingOperation::from_user_data(user_data) {
            Some(RingOperation::Receive(name)) => {
                self.with(name, |connection, shared| {
                    connection.received(result, shared, ring, inputs);
                });
            }
            Some(RingOperation::Send(name)) => {
                self.with(name, |connection, shared| {
                    connection.sent(result, shared, ring, inputs);
                });
            }
            Some(RingOperation::Accept(number)) => {
                match self.listeners.accepted(number, result, ring) {
                    // Another shard may have handed its connections over already.
                    Ok(Some(socket)) if self.stopping.hands_over() => {
                        self.arrivals.push(NewConnection::new(socket));
                    }
                    Ok(Some(socket)) => match self.route.another_shard() {
                        Some(shard) => self.departures.push_back((shard, socket)),
                        None => self.arrivals.push(NewConnection::new(socket)),
                    },
                    Ok(None) => {}
                    Err(problem) => (self.shared.on_problem)(&problem),
                }
            }
            Some(RingOperation::Close) | None => {}
        }
    }

    #[inline]
    fn complete(&mut self, completion: Completion) {
        let tag = RequestTag(completion.tag);
        let connection = self.connections.get_mut(usize::from(tag.connection()));
        let expected = connection
            .and_then(Option::as_mut)
            .is_some_and(|connection| connection.completed(completion, &mut self.shared));
        debug_assert!(
            expected,
            "no open connection has a request for {completion:?}"
        );
    }

    #[cold]
    fn pin(&mut self, buffer: Buffer) {
        self.shared.memory.pin(buffer);
    }

    #[cold]
    fn release(&mut self, buffer: Buffer) {
        self.shared.memory.release(buffer);
    }

    fn flush(&mut self, ring: &mut Ring) {
        if self.shared.marked.is_empty() {
            return;
        }
        let mut marked = std::mem::take(&mut self.shared.marked);
        for name in marked.drain(..) {
            self.with(name, |connection, shared| connection.send(shared, ring));
            if self.stopping.hands_over() {
                self.hand_over_if_ready(name, ring);
            }
            self.close_if_finished(name, ring);
        }
        // Nothing above marks a connection, so the empty list is put back to keep its capacity.
        self.shared.marked = marked;
    }

    fn next_wake(&self) -> Option<Nanos> {
        let handshake = self.handshakes.front().map(|&(deadline, _)| deadline);
        // Whether room has become free since the stalled connections tried last.
        let retry = !self.shared.stalled.is_empty() && self.shared.memory.has_freed();
        let times = [
            retry.then_some(Nanos(0)),
            handshake,
            self.listeners.next_wake(),
            self.stopping.next_wake(),
        ];
        times.into_iter().flatten().min()
    }

    fn mail(&mut self, message: Box<dyn Any + Send>) {
        let message = match message.downcast::<NewConnection>() {
            Ok(connection) => return self.arrivals.push(*connection),
            Err(message) => message,
        };
        let message = match message.downcast::<NewListener>() {
            Ok(listener) => return self.listeners.add(listener.0),
            Err(message) => message,
        };
        let message = match message.downcast::<NewOffer>() {
            Ok(offer) => return self.shared.offer(offer.0),
            Err(message) => message,
        };
        let message = match message.downcast::<HandOver>() {
            Ok(hand_over) => return self.stopping.hand_over(*hand_over),
            Err(message) => message,
        };
        match message.downcast::<Stop>() {
            Ok(stop) => self.stopping.ask(*stop),
            Err(_) => unreachable!("a message of a type that no NBD port knows"),
        }
    }

    #[inline]
    fn next_message(&mut self) -> Option<(ShardId, Box<dyn Any + Send>)> {
        let (shard, connection) = self.departures.pop_front()?;
        Some((shard, Box::new(NewConnection::new(connection))))
    }
}

impl ExportPort for NbdPort {
    fn owns(&self, buffer: Buffer) -> bool {
        self.shared.memory.holds(buffer)
    }

    fn statistics(&self) -> Statistics {
        let stats = self.stats();
        Statistics {
            clients_accepted: stats.connections_accepted,
            clients_refused: stats.connections_refused
                + stats.handshakes_timed_out
                + stats.protocol_errors,
            requests: stats.requests,
            requests_failed: stats.requests_refused + stats.requests_failed,
            received_bytes: stats.received_bytes,
            sent_bytes: stats.sent_bytes,
            clients: stats.connections_open,
            requests_in_flight: stats.requests_in_flight,
            pinned_bytes: stats.pinned_bytes,
        }
    }
}
