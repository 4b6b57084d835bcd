//! One client's connection on the ring: receives, feeds its session, sends, and decides when it is finished.
//!
//! At most one receive and one send are in flight. A connection ends in one of two ways. If the client disconnects or
//! ends its input, accepted requests are still carried out and answered. If the connection is broken, or the client has
//! broken the protocol, nothing more is sent. In both cases the connection stays until the kernel and the engine no
//! longer use its memory.

mod ends;
mod handing_over;

use std::os::fd::{AsFd, OwnedFd};

use drives::ring::Ring;
use drives::world::clock;
use engine::request::{Completion, Failure};
use engine::units::{Nanos, VolumeId};
use engine::world::Input;

use super::Shared;
use super::intake::{Intake, Work};
use super::memory::{Area, RECEIVE_BYTES};
use super::moderation::Moderation;
use super::name::{ConnectionName, RequestTag, RingOperation};
use super::outbox::Outbox;
use super::requests::Requests;
use super::setup::{NewConnection, Problem};
use crate::nbd::wire::REQUEST_HEADER_BYTES;
use crate::nbd::{ErrorCode, Phase, Session};

/// Most bytes given to the session at once, so that they stay in the processor's first-level cache.
pub(super) const FEED_BYTES: usize = 8 << 10;
/// A remaining payload of at least this length is received into its final place. A shorter one is copied, because the
/// same receive then also gets the commands after it.
const DIRECT_BYTES_MIN: u32 = 16 << 10;
/// After a write of this length the next one is expected to be as long. Then little is received together with its
/// command, so that little is copied.
const LARGE_WRITE_BYTES: u32 = 32 << 10;
const RECEIVE_BYTES_BETWEEN_LARGE_WRITES: u32 = 4 << 10;

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const ECANCELED: i32 = 125;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    Nothing,
    /// Into the connection's area.
    Anything,
    /// Into the memory of the incoming write.
    Payload,
    /// Into the connection's area, and nothing but payload.
    Rest,
}

pub(super) struct Connection {
    arrival: NewConnection,
    session: Session,
    work: Work,
    outbox: Outbox,
    area: Area,
    receiving: Receiving,
    /// Decides when to receive; only for clients on this machine.
    moderation: Option<Moderation>,
    /// Requests taken since the last receive began.
    requests_taken: u32,
    /// The range of bytes in the area that the session has not taken: start, end.
    received: (u32, u32),
    /// Whether reading from the client has ended.
    input_ended: bool,
    /// Until when the connection may leave for the next process, if it does.
    leaves_until: Option<Nanos>,
    /// Whether nothing more is sent to the client.
    broken: bool,
    /// Whether it is in the list of connections to look at when the turn is over.
    marked: bool,
    /// Whether it is in the list of connections that wait for room.
    stalled: bool,
}

impl Connection {
    pub fn new(
        arrival: NewConnection,
        mut session: Session,
        name: ConnectionName,
        area: Area,
        shared: &Shared,
    ) -> Connection {
        if shared.shutting_down {
            session.begin_shutdown();
        }
        let mut outbox = Outbox::new();
        outbox.push_output(session.take_output().unwrap_or_default());
        let export = session.export();
        let work = Work {
            name,
            // This and the encoder are set when the client chooses an export.
            volume: export.map_or(VolumeId(0), |(index, _)| shared.volumes[index]),
            encoder: session.reply_encoder(),
            requests: Requests::new(),
            incoming: None,
            last_write_bytes: 0,
            text_in_use: false,
        };
        Connection {
            moderation: is_local(&arrival.socket).then(Moderation::new),
            requests_taken: 0,
            arrival,
            session,
            work,
            outbox,
            area,
            receiving: Receiving::Nothing,
            received: (0, 0),
            input_ended: false,
            leaves_until: None,
            broken: false,
            marked: false,
            stalled: false,
        }
    }

    /// Whether the client has not chosen an export yet.
    pub fn is_in_handshake(&self) -> bool {
        self.session.phase() == Phase::Handshake && !self.broken
    }

    /// Handles received bytes, then receives more.
    #[inline]
    pub fn advance(&mut self, shared: &mut Shared, ring: &mut Ring, inputs: &mut Vec<Input>) {
        self.stalled = false;
        let requests_before = shared.stats.requests;
        self.feed(shared, ring, inputs);
        self.requests_taken += (shared.stats.requests - requests_before) as u32;
        let owes = self.work.requests.answered_count() > 0 || self.outbox.has_output();
        if owes || self.leaves_until.is_some() || self.is_finished() {
            self.mark(shared);
        }
        self.receive(shared, ring);
    }

    fn feed(&mut self, shared: &mut Shared, ring: &mut Ring, inputs: &mut Vec<Input>) {
        while !self.input_ended && !self.broken && !self.outbox.has_output() {
            if self.store_payload(shared, inputs) {
                continue;
            }
            let (from, to) = self.received;
            let length = (to - from).min(self.feed_bytes());
            let piece = &mut shared.scratch[..length as usize];
            shared
                .memory
                .arena()
                .read(self.area.receive().at(from), piece);
            let mut intake = Intake {
                work: &mut self.work,
                area: self.area,
                memory: &mut shared.memory,
                stats: &mut shared.stats,
                text: &mut shared.text,
                inputs,
            };
            match self.session.feed(piece, &mut intake) {
                Ok(taken) => self.received.0 += taken as u32,
                Err(error) => {
                    shared.stats.protocol_errors += 1;
                    (shared.on_problem)(&Problem::Protocol(error));
                    return self.break_off(shared, ring);
                }
            }
            self.follow_session(shared);
            if self.session.is_waiting() {
                return self.stall(shared);
            }
            if self.received.0 == self.received.1 {
                return;
            }
        }
    }

    /// How many bytes to give to the session at once. After the header of a write comes payload, which
    /// [`Connection::store_payload`] moves with one copy less.
    #[inline]
    fn feed_bytes(&self) -> u32 {
        if self.work.last_write_bytes > 0 {
            REQUEST_HEADER_BYTES as u32
        } else {
            FEED_BYTES as u32
        }
    }

    /// Copies payload that arrived together with its command to where the engine will use it. False if there is none.
    #[inline]
    fn store_payload(&mut self, shared: &mut Shared, inputs: &mut Vec<Input>) -> bool {
        let (from, to) = self.received;
        let Some(remaining_bytes) = self.session.payload_remaining_bytes() else {
            return false;
        };
        let length_bytes = remaining_bytes.min(to - from);
        let Some(buffer) = self.work.incoming_buffer().filter(|_| length_bytes > 0) else {
            return false;
        };
        let arena = shared.memory.arena();
        arena.copy(self.area.receive().at(from), buffer, length_bytes);
        let remaining_bytes = self.session.payload_received(length_bytes);
        let stats = &mut shared.stats;
        self.work
            .stored(length_bytes, remaining_bytes, stats, inputs);
        self.received.0 += length_bytes;
        true
    }

    /// Takes the session's output, its chosen export, and its end.
    #[inline]
    fn follow_session(&mut self, shared: &Shared) {
        if let Some(output) = self.session.take_output() {
            self.outbox.push_output(output);
            if let Some((index, _)) = self.session.export() {
                self.work.volume = shared.volumes[index];
                self.work.encoder = self.session.reply_encoder();
            }
        }
        self.input_ended |= self.session.phase() == Phase::Ended;
    }

    fn stall(&mut self, shared: &mut Shared) {
        shared.stats.stalls += 1;
        self.stalled = true;
        shared.stalled.push_back(self.work.name);
    }

    /// Starts to receive, unless something else has to happen first.
    #[inline]
    fn receive(&mut self, shared: &mut Shared, ring: &mut Ring) {
        if self.receiving != Receiving::Nothing
            || self.input_ended
            || self.broken
            || self.stalled
            || self.outbox.has_output()
            || self.received.0 != self.received.1
        {
            return;
        }
        if self.leaves_until.is_some() {
            return self.receive_rest(shared, ring);
        }
        let user_data = RingOperation::Receive(self.work.name).user_data();
        if let Some(remaining_bytes) = self.session.payload_remaining_bytes()
            && remaining_bytes >= DIRECT_BYTES_MIN
            && let Some(buffer) = self.work.incoming_buffer()
        {
            self.receiving = Receiving::Payload;
            let socket = self.arrival.socket.as_fd();
            return ring.receive(socket, buffer, remaining_bytes, true, user_data);
        }
        self.receiving = Receiving::Anything;
        let length_bytes = if self.work.last_write_bytes >= LARGE_WRITE_BYTES {
            RECEIVE_BYTES_BETWEEN_LARGE_WRITES
        } else {
            RECEIVE_BYTES
        };
        let delay_us = self.delay_us(ring);
        let (socket, buffer) = (self.arrival.socket.as_fd(), self.area.receive());
        if delay_us == 0 {
            ring.receive(socket, buffer, length_bytes, false, user_data);
        } else {
            shared.stats.receives_delayed += 1;
            ring.receive_after(delay_us, socket, buffer, length_bytes, user_data);
        }
    }

    /// How long to let requests gather before the next receive.
    #[inline]
    fn delay_us(&mut self, ring: &Ring) -> u8 {
        let requests = std::mem::take(&mut self.requests_taken);
        match &mut self.moderation {
            // No requests came, so payload is coming; or the last was a large write, and the socket must not fill up.
            _ if requests == 0 || self.work.last_write_bytes >= DIRECT_BYTES_MIN => 0,
            Some(moderation) => {
                let client_is_busy = || ring.unread_bytes(self.arrival.socket.as_fd()) > 0;
                moderation.next_delay_us(requests, client_is_busy, clock)
            }
            None => 0,
        }
    }

    /// The receive in flight has completed.
    #[inline]
    pub fn received(
        &mut self,
        result: i32,
        shared: &mut Shared,
        ring: &mut Ring,
        inputs: &mut Vec<Input>,
    ) {
        let receiving = std::mem::replace(&mut self.receiving, Receiving::Nothing);
        if self.input_ended || self.broken {
            return self.mark(shared);
        }
        match result {
            0 => self.input_ended = true,
            1.. => {
                let length_bytes = result as u32;
                shared.stats.receives += 1;
                shared.stats.received_bytes += u64::from(length_bytes);
                if receiving == Receiving::Payload {
                    let remaining_bytes = self.session.payload_received(length_bytes);
                    let stats = &mut shared.stats;
                    self.work
                        .stored(length_bytes, remaining_bytes, stats, inputs);
                } else {
                    self.received = (0, length_bytes);
                }
            }
            _ if result == -EINTR || result == -EAGAIN => {}
            _ if result == -ECANCELED && self.leaves_until.is_some() => {}
            _ => self.break_off(shared, ring),
        }
        self.advance(shared, ring, inputs);
    }

    /// Takes the engine's answer to a request. False if the request was not in the engine.
    #[inline]
    pub fn completed(&mut self, completion: Completion, shared: &mut Shared) -> bool {
        let tag = RequestTag(completion.tag);
        if completion.result == Err(Failure::BufferHeld) {
            let expected = self.work.requests.hold(tag, &mut shared.memory);
            if expected {
                shared.held.push_back((self.work.name, tag.slot()));
            }
            return expected;
        }
        let expected = self.work.requests.complete(tag, completion.result);
        if expected {
            shared.stats.requests_in_flight -= 1;
            shared.stats.requests_failed += u64::from(completion.result.is_err());
            self.mark(shared);
        }
        expected
    }

    /// Repeats a read whose memory a drive keeps; false if there is no other memory now.
    #[cold]
    pub fn ask_again(&mut self, slot: u16, shared: &mut Shared, inputs: &mut Vec<Input>) -> bool {
        let (work, memory) = (&mut self.work, &mut shared.memory);
        let request = (!self.broken)
            .then(|| {
                work.requests
                    .ask_again(work.name, slot, work.volume, memory)
            })
            .flatten();
        if let Some(request) = request {
            shared.stats.requests_asked_again += 1;
            inputs.push(Input::Request(request));
        } else if self.broken || memory.is_exhausted() {
            work.requests.give_up(slot, ErrorCode::OutOfMemory);
            shared.stats.requests_in_flight -= 1;
            shared.stats.requests_failed += 1;
            self.mark(shared);
        } else {
            return false;
        }
        true
    }

    /// Sends the replies that have gathered, unless a message is being sent.
    #[inline]
    pub fn send(&mut self, shared: &mut Shared, ring: &mut Ring) {
        self.marked = false;
        if self.broken || self.outbox.is_sending() {
            return;
        }
        while self
            .outbox
            .compose(&self.work, self.area, shared.memory.arena())
        {
            if self.outbox.has_output() {
                // The completion of this send continues the handshake.
                return self.send_pieces(ring);
            }
            if !self.send_at_once(shared, ring) {
                return;
            }
        }
    }

    /// Sends the message without the ring. False if the ring has to send the rest, or if sending has failed.
    #[inline]
    fn send_at_once(&mut self, shared: &mut Shared, ring: &mut Ring) -> bool {
        match ring.send_at_once(self.arrival.socket.as_fd(), self.outbox.pieces()) {
            Ok(sent_bytes) => {
                let is_whole = self.count_sent(sent_bytes, shared);
                if !is_whole {
                    self.send_pieces(ring);
                }
                is_whole
            }
            Err(EINTR | EAGAIN) => {
                self.send_pieces(ring);
                false
            }
            Err(_) => {
                self.outbox.give_up();
                self.fail(ring);
                false
            }
        }
    }

    /// Notes that bytes of the message have been sent; true if the message is now complete.
    #[inline]
    fn count_sent(&mut self, sent_bytes: u32, shared: &mut Shared) -> bool {
        shared.stats.sends += 1;
        shared.stats.sent_bytes += u64::from(sent_bytes);
        let memory = &mut shared.memory;
        let is_whole = self.outbox.sent(sent_bytes, &mut self.work, memory);
        if is_whole {
            // A connection that waits for free slots of its own has some now.
            memory.set_freed();
        }
        is_whole
    }

    #[inline]
    fn send_pieces(&mut self, ring: &mut Ring) {
        let user_data = RingOperation::Send(self.work.name).user_data();
        ring.send_vectored(self.arrival.socket.as_fd(), self.outbox.pieces(), user_data);
    }

    /// The send in flight has completed.
    #[inline]
    pub fn sent(
        &mut self,
        result: i32,
        shared: &mut Shared,
        ring: &mut Ring,
        inputs: &mut Vec<Input>,
    ) {
        let is_passing = result == -EINTR || result == -EAGAIN;
        if self.broken || (result <= 0 && !is_passing) {
            self.outbox.give_up();
            return self.break_off(shared, ring);
        }
        if is_passing {
            return self.send_pieces(ring);
        }
        let was_output = self.outbox.has_output();
        if !self.count_sent(result as u32, shared) {
            return self.send_pieces(ring);
        }
        if was_output {
            self.advance(shared, ring, inputs);
        } else if self.work.requests.answered_count() > 0
            || self.leaves_until.is_some()
            || self.is_finished()
        {
            self.mark(shared);
        }
    }

    #[inline]
    fn mark(&mut self, shared: &mut Shared) {
        if !self.marked {
            self.marked = true;
            shared.marked.push(self.work.name);
        }
    }
}

/// Whether both ends are on this machine, so that the kernel knows what the client has read.
fn is_local(socket: &OwnedFd) -> bool {
    rustix::net::getsockname(socket)
        .is_ok_and(|address| address.address_family() == rustix::net::AddressFamily::UNIX)
}
