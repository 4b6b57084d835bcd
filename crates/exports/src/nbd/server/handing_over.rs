//! Hands the connections of a port over to the next process.
//!
//! From the beginning no connection is accepted; those that were just accepted come along. Each connection leaves as
//! soon as all that was received from it is answered. Clients that have not finished a write or taken their replies when
//! the time is over lose their connection, as all do when a port stops. Their time begins when the engine has answered their
//! requests, because until then the drives are late and not they. After a longer time all that are left lose their
//! connection: a request that is not answered in an upgrade is sent again by those that connect again, as this machine's
//! kernel does, and an error would be final.

use drives::ring::Ring;
use engine::units::Nanos;

use super::NbdPort;
use super::name::ConnectionName;
use super::setup::Problem;

/// How often connections that have not left are looked at.
pub(super) const LOOK_EVERY: Nanos = Nanos(2 * Nanos::MILLISECOND.0);

impl NbdPort {
    #[cold]
    pub(super) fn begin_hand_over(&mut self, now: Nanos, ring: &mut Ring) {
        self.listeners.hand_over(ring);
        let until = self.stopping.leave_until(now);
        self.each(|connection, shared| connection.begin_hand_over(until, shared, ring));
    }

    /// Cancels once more what is still being read, and breaks off what should have left by now.
    #[cold]
    pub(super) fn go_on_handing_over(&mut self, now: Nanos, ring: &mut Ring) {
        let until = self.stopping.leave_until(now);
        self.each(|connection, shared| {
            connection.stop_reading(ring);
            connection.leave_in_time(now, until, shared, ring);
        });
    }

    /// Breaks off all connections that are left.
    #[cold]
    pub(super) fn end_hand_over(&mut self, ring: &mut Ring) {
        self.each(|connection, shared| {
            connection.leave_out(Problem::HandOverTooLong, shared, ring);
        });
    }

    /// Lets a connection leave that can.
    #[cold]
    pub(super) fn hand_over_if_ready(&mut self, name: ConnectionName, ring: &mut Ring) {
        let frozen = self.with(name, |connection, shared| connection.frozen(shared, ring));
        if let Some(frozen) = frozen.flatten()
            && let Some(connection) = self.take_out(name)
        {
            let handed_over = connection.hand_over(frozen, &mut self.shared);
            self.stopping.keep(handed_over);
        }
    }
}
