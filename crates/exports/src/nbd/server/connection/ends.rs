//! How a connection ends.

use std::os::fd::{AsFd, OwnedFd};

use drives::ring::Ring;

use super::super::Shared;
use super::{Connection, Receiving};

impl Connection {
    /// From now on answers requests of the client with "shutting down".
    pub fn begin_shutdown(&mut self) {
        self.session.begin_shutdown();
    }

    /// Reads nothing more; accepted requests are still answered.
    pub fn end_input(&mut self, shared: &mut Shared) {
        self.input_ended = true;
        if self.receiving != Receiving::Nothing {
            // Completes the receive. Fails only if the peer has gone, and then the receive completes too.
            let _ = rustix::net::shutdown(&self.arrival.socket, rustix::net::Shutdown::Read);
        }
        self.mark(shared);
    }

    /// Ends the connection at once; replies that have not been sent are lost.
    pub fn break_off(&mut self, shared: &mut Shared, ring: &mut Ring) {
        self.fail(ring);
        self.mark(shared);
    }

    /// As [`Connection::break_off`], but for use while the list of marked connections is processed.
    pub(super) fn fail(&mut self, ring: &mut Ring) {
        self.broken = true;
        ring.shutdown(self.arrival.socket.as_fd());
    }

    /// Whether the connection can be closed.
    #[inline]
    pub fn is_finished(&self) -> bool {
        let is_idle = self.receiving == Receiving::Nothing
            && !self.outbox.is_sending()
            && self.work.requests.in_engine() == 0;
        let owes_nothing = self.work.requests.answered_count() == 0 && !self.outbox.has_output();
        is_idle && (self.broken || (self.input_ended && owes_nothing))
    }

    /// Frees the memory of a finished connection, and returns its socket for closing.
    pub fn close(mut self, shared: &mut Shared) -> OwnedFd {
        self.work.requests.release_all(&mut shared.memory);
        self.arrival.socket
    }
}
