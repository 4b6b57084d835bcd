//! Stops a port in three steps: notice, grace, end.
//!
//! From the beginning no connection is accepted, and every new request is answered with "shutting down". After the
//! notice nothing more is read, so that clients that keep sending requests do not delay the end; requests in flight are
//! still carried out and answered. After the grace, connections whose clients do not take their replies are closed.

use drives::ring::Ring;
use engine::units::Nanos;

use super::connection::Connection;
use super::setup::Stop;
use super::{NbdPort, Shared};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No stop is requested.
    Running,
    /// A stop is requested, but the clock has not been read since.
    Asked,
    Notice {
        until: Nanos,
        grace_until: Nanos,
    },
    Grace {
        until: Nanos,
    },
    Ending,
}

pub(super) struct Stopping {
    stage: Stage,
    notice: Nanos,
    grace: Nanos,
    messages: Vec<Stop>,
}

impl Stopping {
    pub fn new(notice: Nanos, grace: Nanos) -> Stopping {
        Stopping {
            stage: Stage::Running,
            notice,
            grace,
            messages: Vec::new(),
        }
    }

    pub fn ask(&mut self, message: Stop) {
        self.messages.push(message);
        if self.stage == Stage::Running {
            self.stage = Stage::Asked;
        }
    }

    #[inline]
    pub fn is_asked(&self) -> bool {
        self.stage != Stage::Running
    }

    pub fn next_wake(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Notice { until, .. } | Stage::Grace { until } => Some(until),
            Stage::Running | Stage::Asked | Stage::Ending => None,
        }
    }

    /// The next stage, if it is due.
    fn next_stage(&self, now: Nanos) -> Option<Stage> {
        match self.stage {
            Stage::Asked => Some(Stage::Notice {
                until: now.after(self.notice),
                grace_until: now.after(self.notice).after(self.grace),
            }),
            Stage::Notice { until, grace_until } if now >= until => {
                Some(Stage::Grace { until: grace_until })
            }
            Stage::Grace { until } if now >= until => Some(Stage::Ending),
            _ => None,
        }
    }
}

impl NbdPort {
    #[cold]
    pub(super) fn advance_stop(&mut self, now: Nanos, ring: &mut Ring) {
        while let Some(stage) = self.stopping.next_stage(now) {
            self.stopping.stage = stage;
            match stage {
                Stage::Notice { .. } => {
                    self.shared.shutting_down = true;
                    self.listeners.stop(ring);
                    self.each(|connection, _| connection.begin_shutdown());
                    // Requests that wait for room can be refused now.
                    self.shared.memory.set_freed();
                }
                Stage::Grace { .. } => self.each(Connection::end_input),
                Stage::Ending => {
                    self.each(|connection, shared| connection.break_off(shared, ring));
                }
                Stage::Running | Stage::Asked => {}
            }
        }
        let nothing_left = self.shared.stats.connections_open == 0
            && self.arrivals.is_empty()
            && self.listeners.are_closed();
        if nothing_left && self.stopping.stage != Stage::Asked {
            self.stopping
                .messages
                .drain(..)
                .for_each(|message| message.0());
        }
    }

    fn each(&mut self, mut act: impl FnMut(&mut Connection, &mut Shared)) {
        for connection in self.connections.iter_mut().flatten() {
            act(connection, &mut self.shared);
        }
    }
}
