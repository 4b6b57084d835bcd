//! The vhost-user queues of one shard, on its ring: kicks come in, and interrupts go out at the end of the turn, in which
//! all answers of the turn become visible at once.

use super::guest::Broken;
use super::queue::Opening;
use super::queues::Queues;
use crate::export::{Say, Statistics};
use crate::ports::ExportPort;
use drives::arena::Pool;
use drives::port::Port;
use drives::ring::{Ring, WATCH_ENDED};
use engine::request::Completion;
use engine::units::{Buffer, Nanos};
use engine::world::Input;
use rustix::io::Errno;
use std::any::Any;
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Names a queue for as long as it is served; no other queue of the process ever has the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct QueueId(pub u64);

/// A message: serve this queue.
pub(super) struct NewQueue {
    pub id: QueueId,
    /// For sentences: `queue 0 of volume vol0`.
    pub shown: String,
    pub opening: Opening,
    /// Readable when the driver has made chains available. Reading does not block.
    pub kick: File,
    /// Where interrupts are sent. Writing does not block.
    pub call: Option<File>,
    /// Where it is told that the queue does nothing any more. Writing does not block.
    pub error: Option<File>,
}

/// A message: send interrupts of this queue here from now on.
pub(super) struct NewCall {
    pub id: QueueId,
    pub call: Option<File>,
}

/// A message: take nothing more from this queue, answer what was taken, and say then which chain is next. Nothing is said
/// if the queue is not served.
pub(super) struct End {
    pub id: QueueId,
    pub next_available: Sender<u16>,
}

/// A message: end all queues, and call `ended` when all requests are answered.
pub(super) struct Stop {
    pub ended: Arc<dyn Fn() + Send + Sync>,
}

struct Served {
    id: QueueId,
    shown: String,
    kick: File,
    call: Option<File>,
    error: Option<File>,
    /// Whether the ring tells when there is a kick.
    is_watched: bool,
    is_ending: bool,
    /// Whether it was said that the queue has broken.
    is_said: bool,
    /// Who wants to know when it has ended.
    waits: Option<Sender<u16>>,
}

/// The queues of a shard. See the module's documentation.
pub struct VhostUserPort {
    queues: Queues,
    /// By the place of their queues.
    served: Vec<Option<Served>>,
    arrivals: Vec<NewQueue>,
    /// How many queues are being ended.
    ending: usize,
    /// Queues whose kicks are no longer to be watched.
    unwatch: Vec<u16>,
    stop: Option<Stop>,
    is_stopping: bool,
    say: Say,
}

/// Tells the other side of an eventfd. A counter that is full has told it already.
fn signal(file: Option<&File>) {
    if let Some(file) = file {
        let _ = rustix::io::write(file, &1u64.to_ne_bytes());
    }
}

impl VhostUserPort {
    /// A port without queues, whose payload lies in `pool`.
    pub(super) fn new(pool: Pool, say: Say) -> VhostUserPort {
        VhostUserPort {
            queues: Queues::new(pool),
            served: Vec::new(),
            arrivals: Vec::new(),
            ending: 0,
            unwatch: Vec::new(),
            stop: None,
            is_stopping: false,
            say,
        }
    }

    #[cold]
    fn take_arrivals(&mut self, ring: &mut Ring) {
        for arrival in std::mem::take(&mut self.arrivals) {
            // The front end finds its requests in its own memory, and the next server carries them out.
            if self.is_stopping {
                continue;
            }
            let place = self.queues.begin(arrival.opening);
            let at = usize::from(place);
            if self.served.len() <= at {
                self.served.resize_with(at + 1, || None);
            }
            ring.watch(arrival.kick.as_fd(), u64::from(place));
            self.served[at] = Some(Served {
                id: arrival.id,
                shown: arrival.shown,
                kick: arrival.kick,
                call: arrival.call,
                error: arrival.error,
                is_watched: true,
                is_ending: false,
                is_said: false,
                waits: None,
            });
        }
    }

    fn place(&self, id: QueueId) -> Option<u16> {
        let is_it = |served: &Option<Served>| served.as_ref().is_some_and(|served| served.id == id);
        self.served.iter().position(is_it).map(|at| at as u16)
    }

    #[cold]
    fn end(&mut self, place: u16) {
        let served = self.served[usize::from(place)].as_mut();
        let served = served.expect("the caller has found it");
        if !served.is_ending {
            served.is_ending = true;
            self.ending += 1;
            self.unwatch.push(place);
            self.queues.end(place);
        }
    }

    /// Forgets queues that have ended, and tells those who wait for it.
    #[cold]
    fn finish(&mut self) {
        for place in 0..self.served.len() {
            let has_ended = self.served[place].as_ref().is_some_and(|served| {
                served.is_ending && !served.is_watched && self.queues.is_quiet(place as u16)
            });
            if !has_ended {
                continue;
            }
            let next_available = self.queues.remove(place as u16);
            self.ending -= 1;
            let served = self.served[place].take();
            if let Some(waits) = served.and_then(|served| served.waits) {
                // The session may have ended meanwhile.
                let _ = waits.send(next_available);
            }
        }
        let is_empty = self.served.iter().all(Option::is_none);
        if is_empty && let Some(stop) = self.stop.take() {
            (stop.ended)();
        }
    }

    /// Whether a queue or the port may have ended.
    fn may_finish(&self) -> bool {
        self.ending > 0 || self.stop.is_some()
    }

    /// The watch of a queue's kicks has told of one, or has ended. The counter of kicks is not read, because the watch also
    /// tells of the next one without that, and each read is a system call.
    #[inline]
    fn kicked(&mut self, place: u16, result: i32, ring: &mut Ring) {
        if result < 0 {
            return self.unwatched(place, result, ring);
        }
        let served = self.served[usize::from(place)].as_ref();
        let served = served.expect("a queue is served until nothing watches it");
        if !served.is_ending {
            self.queues.kicked(place);
        }
    }

    /// The watch has ended: begins a new one if the counter of kicks can be read.
    #[cold]
    fn unwatched(&mut self, place: u16, result: i32, ring: &mut Ring) {
        let served = self.served[usize::from(place)].as_mut();
        let served = served.expect("a queue is served until nothing watches it");
        served.is_watched = false;
        if served.is_ending {
            return;
        }
        let mut count = [0; 8];
        let read = match result {
            WATCH_ENDED => rustix::io::read(&served.kick, &mut count),
            errno => Err(Errno::from_raw_os_error(-errno)),
        };
        match read {
            Ok(8) | Err(Errno::AGAIN) => {
                ring.watch(served.kick.as_fd(), u64::from(place));
                served.is_watched = true;
                self.queues.kicked(place);
            }
            other => {
                let errno = other.map_or_else(Errno::raw_os_error, |_| 0);
                self.queues.break_off(place, Broken::Kick(errno));
            }
        }
    }
}

impl Port for VhostUserPort {
    #[inline]
    fn poll(&mut self, now: Nanos, ring: &mut Ring, inputs: &mut Vec<Input>) {
        if !self.arrivals.is_empty() {
            self.take_arrivals(ring);
        }
        for place in self.unwatch.drain(..) {
            ring.cancel(u64::from(place));
        }
        if self.queues.may_go_on() {
            self.queues.go_on(now, inputs);
        }
        if self.may_finish() {
            self.finish();
        }
    }

    #[inline]
    fn completion(&mut self, user_data: u64, result: i32, ring: &mut Ring, _: &mut Vec<Input>) {
        self.kicked(user_data as u16, result, ring);
    }

    #[inline]
    fn complete(&mut self, completion: Completion) {
        self.queues.completed(completion);
    }

    fn pin(&mut self, buffer: Buffer) {
        self.queues.pin(buffer);
    }

    fn release(&mut self, buffer: Buffer) {
        self.queues.release(buffer);
    }

    #[inline]
    fn flush(&mut self, _: &mut Ring) {
        let (served, say) = (&mut self.served, &self.say);
        self.queues.publish(|place, published| {
            let served = served[usize::from(place)].as_mut();
            let served = served.expect("a queue is served until it has ended");
            match published {
                Ok(true) => signal(served.call.as_ref()),
                Ok(false) => {}
                Err(broken) => {
                    if !std::mem::replace(&mut served.is_said, true) {
                        signal(served.error.as_ref());
                        let shown = &served.shown;
                        say(&format_args!(
                            "{shown} is not served until its guest resets the device: {broken}"
                        ));
                    }
                }
            }
        });
    }

    fn next_wake(&self) -> Option<Nanos> {
        let has_ended = |(place, served): (usize, &Option<Served>)| {
            let served = served.as_ref();
            served.is_some_and(|served| served.is_ending && !served.is_watched)
                && self.queues.is_quiet(place as u16)
        };
        let is_empty = || self.served.iter().all(Option::is_none);
        let ends = self.ending > 0 && self.served.iter().enumerate().any(has_ended)
            || self.stop.is_some() && is_empty();
        (self.queues.may_go_on() || !self.unwatch.is_empty() || ends).then_some(Nanos(0))
    }

    fn mail(&mut self, message: Box<dyn Any + Send>) {
        let message = match message.downcast::<NewQueue>() {
            Ok(queue) => return self.arrivals.push(*queue),
            Err(message) => message,
        };
        let message = match message.downcast::<NewCall>() {
            Ok(new) => return self.call(*new),
            Err(message) => message,
        };
        let message = match message.downcast::<End>() {
            Ok(end) => return self.end_one(*end),
            Err(message) => message,
        };
        match message.downcast::<Stop>() {
            Ok(stop) => {
                self.is_stopping = true;
                self.stop = Some(*stop);
                let all = 0..self.served.len();
                all.filter(|place| self.served[*place].is_some())
                    .collect::<Vec<_>>()
                    .into_iter()
                    .for_each(|place| self.end(place as u16));
            }
            Err(_) => unreachable!("a message of a type that no vhost-user port knows"),
        }
    }
}

impl VhostUserPort {
    #[cold]
    fn call(&mut self, new: NewCall) {
        let arrival = self.arrivals.iter_mut().find(|one| one.id == new.id);
        if let Some(arrival) = arrival {
            arrival.call = new.call;
        } else if let Some(place) = self.place(new.id) {
            let served = self.served[usize::from(place)].as_mut();
            let served = served.expect("it has just been found");
            served.call = new.call;
            // What was answered before may not have been told.
            signal(served.call.as_ref());
        }
    }

    #[cold]
    fn end_one(&mut self, end: End) {
        if let Some(at) = self.arrivals.iter().position(|one| one.id == end.id) {
            let arrival = self.arrivals.swap_remove(at);
            let _ = end
                .next_available
                .send(arrival.opening.ring.next_available());
        } else if let Some(place) = self.place(end.id) {
            self.end(place);
            let served = self.served[usize::from(place)].as_mut();
            served.expect("it has just been found").waits = Some(end.next_available);
        }
    }
}

impl ExportPort for VhostUserPort {
    fn owns(&self, buffer: Buffer) -> bool {
        self.queues.own(buffer)
    }

    fn statistics(&self) -> Statistics {
        self.queues.statistics()
    }
}
