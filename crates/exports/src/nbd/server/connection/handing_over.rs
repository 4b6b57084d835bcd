//! How a connection is handed over to the next process: nothing more is read than what belongs to the last message, all
//! that was received is answered, and then session and socket leave together.

use std::os::fd::AsFd;

use drives::ring::Ring;
use engine::units::Nanos;

use super::super::Shared;
use super::super::memory::RECEIVE_BYTES;
use super::super::name::RingOperation;
use super::super::setup::{HandedOver, Problem};
use super::{Connection, Receiving};
use crate::nbd::Frozen;

impl Connection {
    /// From now on reads nothing but the rest of a write that has begun; the client has `until` then. A client of a relay
    /// cannot be handed over, because the keys of its encryption are in this process: what was received from it is answered,
    /// and then its connection ends. It has as much time as the others to take its replies.
    pub fn begin_hand_over(&mut self, until: Nanos, shared: &mut Shared, ring: &mut Ring) {
        self.leaves_until = Some(until);
        if self.arrival.is_relayed {
            return self.end_input(shared);
        }
        self.stop_reading(ring);
        self.mark(shared);
    }

    /// Cancels a receive that may read beyond the message that has begun. To be repeated until it has ended: a receive that is
    /// delayed cannot be cancelled at once.
    pub fn stop_reading(&mut self, ring: &mut Ring) {
        if self.leaves_until.is_some() && self.receiving == Receiving::Anything {
            ring.cancel(RingOperation::Receive(self.work.name).user_data());
        }
    }

    /// Receives the rest of the write that has begun, and not a byte more.
    pub(super) fn receive_rest(&mut self, shared: &mut Shared, ring: &mut Ring) {
        let Some(remaining_bytes) = self.session.payload_remaining_bytes() else {
            return self.mark(shared);
        };
        let user_data = RingOperation::Receive(self.work.name).user_data();
        let socket = self.arrival.socket.as_fd();
        if let Some(buffer) = self.work.incoming_buffer() {
            self.receiving = Receiving::Payload;
            ring.receive(socket, buffer, remaining_bytes, true, user_data);
        } else {
            // There is no memory for it, so it is read to be dropped.
            self.receiving = Receiving::Rest;
            let length_bytes = remaining_bytes.min(RECEIVE_BYTES);
            ring.receive(socket, self.area.receive(), length_bytes, false, user_data);
        }
    }

    /// Whether all that was received is answered, and nothing is under way.
    fn is_quiet(&self) -> bool {
        self.receiving == Receiving::Nothing
            && !self.outbox.is_sending()
            && !self.outbox.has_output()
            && self.work.requests.in_engine() == 0
            && self.work.requests.answered_count() == 0
            && self.received.0 == self.received.1
            && !self.stalled
    }

    /// Whether the client cannot be the reason why it has not left: its requests are in the engine, or they wait for
    /// memory that other connections have.
    fn waits_for_others(&self) -> bool {
        let is_owed_nothing = self.work.requests.answered_count() == 0
            && !self.outbox.is_sending()
            && !self.outbox.has_output();
        self.work.requests.in_engine() > 0 || (self.stalled && is_owed_nothing)
    }

    /// Breaks it off if its client has kept it from leaving for too long. Until its requests are answered, the client has
    /// `until` then.
    pub fn leave_in_time(
        &mut self,
        now: Nanos,
        until: Nanos,
        shared: &mut Shared,
        ring: &mut Ring,
    ) {
        if self.waits_for_others() {
            self.leaves_until = Some(until);
        } else if self.leaves_until.is_some_and(|until| now >= until) {
            self.leave_out(Problem::NotHandedOver, shared, ring);
        }
    }

    /// Breaks it off, so that it is not handed over.
    pub fn leave_out(&mut self, problem: Problem, shared: &mut Shared, ring: &mut Ring) {
        if !self.broken {
            (shared.on_problem)(&problem);
            self.break_off(shared, ring);
        }
    }

    /// The session, if the connection can leave now. A session that cannot be frozen is broken off.
    pub fn frozen(&mut self, shared: &mut Shared, ring: &mut Ring) -> Option<Frozen> {
        let ends = self.broken || self.input_ended;
        if self.leaves_until.is_none() || ends || !self.is_quiet() {
            return None;
        }
        let frozen = self.session.freeze();
        if frozen.is_none() && self.session.payload_remaining_bytes().is_none() {
            (shared.on_problem)(&Problem::NotHandedOver);
            self.fail(ring);
        }
        frozen
    }

    /// Takes the connection apart. Its session was just frozen.
    pub fn hand_over(mut self, frozen: Frozen, shared: &mut Shared) -> HandedOver {
        self.work.requests.release_all(&mut shared.memory);
        HandedOver {
            volume: self.session.export().map(|_| self.work.volume),
            is_kernels: self.arrival.until_served.is_some(),
            session: frozen,
            socket: self.arrival.socket,
        }
    }
}
