//! Stops a port in three steps: notice, grace, end.
//!
//! From the beginning no connection is accepted, and every new request is answered with "shutting down". After the
//! notice nothing more is read, so that clients that keep sending requests do not delay the end; requests in flight are
//! still carried out and answered. After the grace, connections whose clients do not take their replies are closed.
//!
//! A port that hands its connections over (`handing_over`) has another step in place of notice and grace.

use drives::ring::Ring;
use engine::units::Nanos;

use super::connection::Connection;
use super::handing_over::LOOK_EVERY;
use super::setup::{HandOver, HandedOver, NbdLimits, Stop};
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
    HandingOver {
        next_look: Nanos,
        until: Nanos,
    },
    Ending,
}

pub(super) struct Stopping {
    stage: Stage,
    notice: Nanos,
    grace: Nanos,
    hand_over_within: Nanos,
    hand_over_within_max: Nanos,
    messages: Vec<Stop>,
    /// Where connections go that are handed over.
    keep: Option<HandOver>,
}

impl Stopping {
    pub fn new(limits: &NbdLimits) -> Stopping {
        Stopping {
            stage: Stage::Running,
            notice: limits.stop_notice,
            grace: limits.stop_grace,
            hand_over_within: limits.hand_over_within,
            hand_over_within_max: limits.hand_over_within_max,
            messages: Vec::new(),
            keep: None,
        }
    }

    pub fn ask(&mut self, message: Stop) {
        self.messages.push(message);
        if self.stage == Stage::Running {
            self.stage = Stage::Asked;
        }
    }

    /// A port that stops already does not hand over.
    pub fn hand_over(&mut self, message: HandOver) {
        if self.stage == Stage::Running {
            self.keep = Some(message);
            self.stage = Stage::Asked;
        }
    }

    #[inline]
    pub fn is_asked(&self) -> bool {
        self.stage != Stage::Running
    }

    /// Whether connections are handed over from now on, also those that come late.
    pub fn hands_over(&self) -> bool {
        self.keep.is_some() && self.stage != Stage::Asked
    }

    /// Until when a connection may leave.
    pub fn leave_until(&self, now: Nanos) -> Nanos {
        now.after(self.hand_over_within)
    }

    pub fn keep(&self, handed_over: HandedOver) {
        let keep = self.keep.as_ref();
        let keep = keep.expect("connections are handed over when a message has asked for it");
        (keep.0)(handed_over);
    }

    pub fn next_wake(&self) -> Option<Nanos> {
        match self.stage {
            Stage::Notice { until, .. } | Stage::Grace { until } => Some(until),
            Stage::HandingOver { next_look, .. } => Some(next_look),
            Stage::Running | Stage::Asked | Stage::Ending => None,
        }
    }

    /// The next stage, if it is due.
    fn next_stage(&self, now: Nanos) -> Option<Stage> {
        let next_look = now.after(LOOK_EVERY);
        match self.stage {
            Stage::Asked if self.keep.is_some() => Some(Stage::HandingOver {
                next_look,
                until: now.after(self.hand_over_within_max),
            }),
            Stage::Asked => Some(Stage::Notice {
                until: now.after(self.notice),
                grace_until: now.after(self.notice).after(self.grace),
            }),
            Stage::Notice { until, grace_until } if now >= until => {
                Some(Stage::Grace { until: grace_until })
            }
            Stage::Grace { until } if now >= until => Some(Stage::Ending),
            Stage::HandingOver { until, .. } if now >= until => Some(Stage::Ending),
            Stage::HandingOver {
                next_look: due,
                until,
            } if now >= due => Some(Stage::HandingOver { next_look, until }),
            _ => None,
        }
    }
}

impl NbdPort {
    #[cold]
    pub(super) fn advance_stop(&mut self, now: Nanos, ring: &mut Ring) {
        while let Some(stage) = self.stopping.next_stage(now) {
            let is_begin = self.stopping.stage == Stage::Asked;
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
                Stage::HandingOver { .. } if is_begin => self.begin_hand_over(now, ring),
                Stage::HandingOver { .. } => self.go_on_handing_over(now, ring),
                Stage::Ending if self.stopping.hands_over() => self.end_hand_over(ring),
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

    pub(super) fn each(&mut self, mut act: impl FnMut(&mut Connection, &mut Shared)) {
        for connection in self.connections.iter_mut().flatten() {
            act(connection, &mut self.shared);
        }
    }
}
