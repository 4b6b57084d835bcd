//! Clients' threads: each has a core of its own and issues the requests of its [`Generator`].

use engine::request::{Operation, Request};
use engine::units::{Buffer, VolumeId};
use lab::workload::Kind;
use lab::workload::generator::{Command, Generator};

/// Payload memory of a client: addresses only.
const PAYLOAD: Buffer = Buffer(1 << 40);

/// All threads, and their requests in flight.
pub struct Clients {
    generator: Generator,
    /// By thread: the request that it is preparing now.
    making: Vec<Option<Request>>,
    /// By thread: the time of its pending wake-up.
    wake_at_ns: Vec<Option<u64>>,
    /// By tag.
    requests: Vec<Option<Command>>,
    free_tags: Vec<u64>,
}

impl Clients {
    /// The threads of a generator, all of them idle.
    #[must_use]
    pub fn new(generator: Generator) -> Clients {
        Clients {
            making: vec![None; generator.threads() as usize],
            wake_at_ns: vec![None; generator.threads() as usize],
            generator,
            requests: Vec::new(),
            free_tags: Vec::new(),
        }
    }

    /// Number of threads.
    #[must_use]
    pub fn threads(&self) -> u32 {
        self.generator.threads()
    }

    /// Makes a thread begin to prepare its next request, if it has one now and is not preparing another. Returns
    /// whether it does.
    pub fn begin(&mut self, thread: u32, now_ns: u64) -> bool {
        let making = &mut self.making[thread as usize];
        if making.is_some() {
            return false;
        }
        let Some(command) = self.generator.next(thread, now_ns) else {
            return false;
        };
        let tag = self.free_tags.pop().unwrap_or_else(|| {
            self.requests.push(None);
            self.requests.len() as u64 - 1
        });
        self.requests[tag as usize] = Some(command);
        *making = Some(Request {
            tag,
            volume: VolumeId(0),
            operation: match command.kind {
                Kind::Read => Operation::Read,
                Kind::Write => Operation::Write,
            },
            fua: false,
            offset_bytes: command.offset_bytes,
            length_bytes: command.length_bytes,
            buffer: PAYLOAD,
        });
        true
    }

    /// Takes the request that a thread has prepared.
    pub fn made(&mut self, thread: u32) -> Option<Request> {
        self.making[thread as usize].take()
    }

    /// Notes the answer to a request, and returns the request. `None` if no request has this tag.
    pub fn answered(&mut self, tag: u64) -> Option<Command> {
        let command = self.requests.get_mut(tag as usize)?.take()?;
        self.free_tags.push(tag);
        self.generator.completed(command.thread);
        Some(command)
    }

    /// When to wake a thread that has nothing to do now. `None` if that is not in the future or the wake-up is
    /// pending already.
    pub fn sleep(&mut self, thread: u32, now_ns: u64) -> Option<u64> {
        let at_ns = self.generator.wake_ns(thread)?;
        let promised = &mut self.wake_at_ns[thread as usize];
        if at_ns <= now_ns || *promised == Some(at_ns) {
            return None;
        }
        *promised = Some(at_ns);
        Some(at_ns)
    }

    /// Number of requests that are due and have not been issued.
    pub fn backlog(&mut self, now_ns: u64) -> u64 {
        self.generator.backlog(now_ns)
    }
}
