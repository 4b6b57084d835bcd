//! One client's connection on the ring: receives, feeds its session, sends, and knows when it is over.
//!
//! There is at most one receive and one send under way. A connection ends in one of two ways. When the
//! client disconnects or sends no more, what was accepted is still carried out and answered. When the
//! connection is broken, or the client has broken the protocol, nothing more is sent. In both cases the
//! connection stays until the kernel and the engine are done with its memory.

use std::os::fd::{AsFd, OwnedFd};

use drives::ring::Ring;
use engine::request::Completion;
use engine::units::VolumeId;
use engine::world::Input;

use super::Shared;
use super::intake::{Intake, Work};
use super::memory::{Area, RECEIVE_BYTES};
use super::name::{ConnectionName, RequestTag, RingOperation};
use super::outbox::Outbox;
use super::requests::Requests;
use super::setup::Problem;
use crate::nbd::{Phase, Session};

/// Received bytes that are looked at together; they pass through the processor's first cache.
pub(super) const FEED_BYTES: usize = 8 << 10;
/// A rest of payload that is at least this long is received where it belongs; a shorter one is copied,
/// because the commands that follow it come with the same receive.
const DIRECT_BYTES_MIN: u32 = 16 << 10;
/// After a write this long the next one is expected to be as long, and little is received together with
/// its command, so that little is copied.
const LARGE_WRITE_BYTES: u32 = 32 << 10;
const RECEIVE_BYTES_BETWEEN_LARGE_WRITES: u32 = 4 << 10;

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Receiving {
    Nothing,
    /// Into the connection's area.
    Anything,
    /// Into the memory of the incoming write.
    Payload,
}

pub(super) struct Connection {
    socket: OwnedFd,
    session: Session,
    work: Work,
    outbox: Outbox,
    area: Area,
    receiving: Receiving,
    /// Bytes in the area that the session has not taken: from, to.
    received: (u32, u32),
    /// Nothing more is read from the client.
    input_ended: bool,
    /// Nothing more is sent to the client.
    broken: bool,
    /// In the list of connections to look at when the turn is over.
    marked: bool,
    /// In the list of connections that wait for room.
    stalled: bool,
}

impl Connection {
    pub fn new(socket: OwnedFd, name: ConnectionName, area: Area, shared: &Shared) -> Connection {
        let mut session = Session::new(shared.exports.clone());
        if shared.shutting_down {
            session.begin_shutdown();
        }
        let mut outbox = Outbox::new();
        outbox.push_output(session.take_output().unwrap_or_default());
        let work = Work {
            name,
            // Both are set when an export is chosen.
            volume: VolumeId(0),
            encoder: session.reply_encoder(),
            requests: Requests::new(),
            incoming: None,
            last_write_bytes: 0,
            text_in_use: false,
        };
        Connection {
            socket,
            session,
            work,
            outbox,
            area,
            receiving: Receiving::Nothing,
            received: (0, 0),
            input_ended: false,
            broken: false,
            marked: false,
            stalled: false,
        }
    }

    /// Whether the client has still to choose an export.
    pub fn is_in_handshake(&self) -> bool {
        self.session.phase() == Phase::Handshake && !self.broken
    }

    /// Goes on with what was received, then receives more.
    #[inline]
    pub fn advance(&mut self, shared: &mut Shared, ring: &mut Ring, inputs: &mut Vec<Input>) {
        self.stalled = false;
        self.feed(shared, ring, inputs);
        if self.work.requests.answered_count() > 0 || self.outbox.has_output() || self.is_finished()
        {
            self.mark(shared);
        }
        self.receive(ring);
    }

    fn feed(&mut self, shared: &mut Shared, ring: &mut Ring, inputs: &mut Vec<Input>) {
        while !self.input_ended && !self.broken && !self.outbox.has_output() {
            let (from, to) = self.received;
            let length = (to - from).min(FEED_BYTES as u32);
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

    /// Takes over the session's output, the export that was chosen, and its end.
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

    /// Starts to receive, unless something else comes first.
    #[inline]
    fn receive(&mut self, ring: &mut Ring) {
        if self.receiving != Receiving::Nothing
            || self.input_ended
            || self.broken
            || self.stalled
            || self.outbox.has_output()
            || self.received.0 != self.received.1
        {
            return;
        }
        let user_data = RingOperation::Receive(self.work.name).user_data();
        if let Some(remaining_bytes) = self.session.payload_remaining_bytes()
            && remaining_bytes >= DIRECT_BYTES_MIN
            && let Some(buffer) = self.work.incoming_buffer()
        {
            self.receiving = Receiving::Payload;
            let socket = self.socket.as_fd();
            return ring.receive(socket, buffer, remaining_bytes, true, user_data);
        }
        self.receiving = Receiving::Anything;
        let length_bytes = if self.work.last_write_bytes >= LARGE_WRITE_BYTES {
            RECEIVE_BYTES_BETWEEN_LARGE_WRITES
        } else {
            RECEIVE_BYTES
        };
        let socket = self.socket.as_fd();
        ring.receive(socket, self.area.receive(), length_bytes, false, user_data);
    }

    /// The receive under way has been answered.
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
            _ => self.break_off(shared, ring),
        }
        self.advance(shared, ring, inputs);
    }

    /// The engine has answered a request. False if it was not asked.
    #[inline]
    pub fn completed(&mut self, completion: Completion, shared: &mut Shared) -> bool {
        let tag = RequestTag(completion.tag);
        let expected = self.work.requests.complete(tag, completion.result);
        if expected {
            shared.stats.requests_in_flight -= 1;
            shared.stats.requests_failed += u64::from(completion.result.is_err());
            self.mark(shared);
        }
        expected
    }

    /// Sends what has gathered, unless a message is still on its way.
    #[inline]
    pub fn send(&mut self, shared: &mut Shared, ring: &mut Ring) {
        self.marked = false;
        if self.broken || self.outbox.is_sending() {
            return;
        }
        if self
            .outbox
            .compose(&self.work, self.area, shared.memory.arena())
        {
            self.send_pieces(ring);
        }
    }

    #[inline]
    fn send_pieces(&mut self, ring: &mut Ring) {
        let user_data = RingOperation::Send(self.work.name).user_data();
        ring.send_vectored(self.socket.as_fd(), self.outbox.pieces(), user_data);
    }

    /// The send under way has been answered.
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
        shared.stats.sends += 1;
        shared.stats.sent_bytes += result as u64;
        if !self
            .outbox
            .sent(result as u32, &mut self.work, &mut shared.memory)
        {
            return self.send_pieces(ring);
        }
        // A connection that waits for its own slots has some now.
        shared.memory.set_freed();
        if was_output {
            self.advance(shared, ring, inputs);
        } else if self.work.requests.answered_count() > 0 || self.is_finished() {
            self.mark(shared);
        }
    }

    /// Answers what the client asks from now on with "shutting down".
    pub fn begin_shutdown(&mut self) {
        self.session.begin_shutdown();
    }

    /// Reads nothing more; what was accepted is still answered.
    pub fn end_input(&mut self, shared: &mut Shared) {
        self.input_ended = true;
        if self.receiving != Receiving::Nothing {
            // Answers the receive. Fails only if the peer has gone, which does so as well.
            let _ = rustix::net::shutdown(&self.socket, rustix::net::Shutdown::Read);
        }
        self.mark(shared);
    }

    /// Ends the connection at once; replies that are not sent yet are lost.
    pub fn break_off(&mut self, shared: &mut Shared, ring: &mut Ring) {
        self.broken = true;
        ring.shutdown(self.socket.as_fd());
        self.mark(shared);
    }

    /// Whether nobody needs the connection any more.
    #[inline]
    pub fn is_finished(&self) -> bool {
        let is_idle = self.receiving == Receiving::Nothing
            && !self.outbox.is_sending()
            && self.work.requests.in_engine() == 0;
        let owes_nothing = self.work.requests.answered_count() == 0 && !self.outbox.has_output();
        is_idle && (self.broken || (self.input_ended && owes_nothing))
    }

    /// Gives back the memory of a finished connection, and its socket to be closed.
    pub fn close(mut self, shared: &mut Shared) -> OwnedFd {
        self.work.requests.release_all(&mut shared.memory);
        self.socket
    }

    #[inline]
    fn mark(&mut self, shared: &mut Shared) {
        if !self.marked {
            self.marked = true;
            shared.marked.push(self.work.name);
        }
    }
}
