//! Listening sockets, each with at most one accept in flight.

use std::os::fd::{AsFd, OwnedFd};

use drives::ring::Ring;
use engine::units::Nanos;

use super::name::RingOperation;
use super::setup::Problem;

/// Pause after an accept that failed because the process or the system lacks a resource.
const PAUSE: Nanos = Nanos(100 * Nanos::MILLISECOND.0);

const EINTR: i32 = 4;
const EAGAIN: i32 = 11;
const ENOMEM: i32 = 12;
const ENFILE: i32 = 23;
const EMFILE: i32 = 24;
const EPROTO: i32 = 71;
const ECONNABORTED: i32 = 103;
const ENOBUFS: i32 = 105;

#[derive(Debug)]
struct Listener {
    socket: OwnedFd,
    accepting: bool,
}

#[derive(Debug, Default)]
pub(super) struct Listeners {
    listeners: Vec<Option<Listener>>,
    /// Whether some listener has no accept in flight although it should.
    idle: bool,
    /// Nothing is accepted before this time.
    pause_until: Option<Nanos>,
    /// Whether an accept failed for lack of a resource; the next call with the time begins a pause.
    pause_wanted: bool,
    stopping: bool,
    /// Whether a connection that is accepted while stopping is served.
    keeping: bool,
}

impl Listeners {
    pub fn add(&mut self, socket: OwnedFd) {
        if self.stopping || self.listeners.len() > usize::from(u16::MAX) {
            return;
        }
        make_blocking(&socket);
        self.idle = true;
        self.listeners.push(Some(Listener {
            socket,
            accepting: false,
        }));
    }

    /// Whether all listeners are closed.
    pub fn are_closed(&self) -> bool {
        self.listeners.iter().all(Option::is_none)
    }

    /// When [`Listeners::accept`] has to be called.
    pub fn next_wake(&self) -> Option<Nanos> {
        self.pause_until
    }

    /// Starts an accept on each listener that has none in flight.
    #[inline]
    pub fn accept(&mut self, now: Nanos, ring: &mut Ring) {
        if self.idle {
            self.accept_idle(now, ring);
        }
    }

    fn accept_idle(&mut self, now: Nanos, ring: &mut Ring) {
        if std::mem::take(&mut self.pause_wanted) {
            self.pause_until = Some(now.after(PAUSE));
        }
        if self.pause_until.is_some_and(|until| now < until) {
            return;
        }
        self.pause_until = None;
        self.idle = false;
        for (number, listener) in (0..).zip(&mut self.listeners) {
            if let Some(listener) = listener
                && !listener.accepting
            {
                listener.accepting = true;
                let user_data = RingOperation::Accept(number).user_data();
                ring.accept(listener.socket.as_fd(), user_data);
            }
        }
    }

    /// Takes the result of an accept: returns the connection, or the problem.
    pub fn accepted(
        &mut self,
        number: u16,
        result: i32,
        ring: &mut Ring,
    ) -> Result<Option<OwnedFd>, Problem> {
        let connection = (result >= 0).then(|| ring.take_accepted(result)).flatten();
        let Some(listener) = self.listeners.get_mut(usize::from(number)) else {
            return Ok(connection);
        };
        if self.stopping {
            *listener = None;
            return Ok(connection.filter(|_| self.keeping));
        }
        if let Some(listener) = listener {
            listener.accepting = false;
        }
        self.idle = true;
        match -result {
            ..=0 | EINTR | EAGAIN | ECONNABORTED | EPROTO => Ok(connection),
            errno @ (EMFILE | ENFILE | ENOBUFS | ENOMEM) => {
                self.pause_wanted = true;
                Err(Problem::Accept {
                    errno,
                    gives_up: false,
                })
            }
            errno => {
                *listener = None;
                Err(Problem::Accept {
                    errno,
                    gives_up: true,
                })
            }
        }
    }

    /// Like [`Listeners::stop`], but a connection that is accepted meanwhile is returned.
    pub fn hand_over(&mut self, ring: &mut Ring) {
        self.keeping = true;
        self.stop(ring);
    }

    /// Closes all listeners; a listener with an accept in flight is closed when that has completed.
    pub fn stop(&mut self, ring: &mut Ring) {
        self.stopping = true;
        self.idle = false;
        self.pause_until = None;
        for (number, listener) in (0..).zip(&mut self.listeners) {
            if listener.as_ref().is_some_and(|listener| listener.accepting) {
                ring.cancel(RingOperation::Accept(number).user_data());
            } else {
                *listener = None;
            }
        }
    }
}

/// Makes a socket blocking. The ring does the waiting; operations on a non-blocking socket would fail with `EAGAIN`.
pub(super) fn make_blocking(socket: &OwnedFd) {
    if let Ok(flags) = rustix::fs::fcntl_getfl(socket)
        && flags.contains(rustix::fs::OFlags::NONBLOCK)
    {
        let _ = rustix::fs::fcntl_setfl(socket, flags - rustix::fs::OFlags::NONBLOCK);
    }
}
