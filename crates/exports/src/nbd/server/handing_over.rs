//! Hands the connections of a port over to the next process.
//!
//! From the beginning no connection is accepted; those that were just accepted come along. Each connection leaves as
//! soon as all that was received from it is answered. Clients that have not finished a write or taken their replies when
//! the time is over lose their connection, as all do when a port stops. Those whose requests are in the engine are waited
//! for, because the drives are late and not they.

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
        self.each(|connection, shared| {
            connection.stop_reading(ring);
            if connection.is_late(now) {
                (shared.on_problem)(&Problem::NotHandedOver);
                connection.break_off(shared, ring);
            }
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
