//! Clients' threads: each has a core of its own and issues what its [`Generator`] says.

use engine::request::{Operation, Request};
use engine::units::{Buffer, VolumeId};
use lab::workload::Kind;
use lab::workload::generator::{Command, Generator};

/// Payload memory of a client: addresses only.
const PAYLOAD: Buffer = Buffer(1 << 40);

/// All threads, and their requests under way.
pub struct Clients {
    generator: Generator,
    /// By thread: what it is making just now.
    making: Vec<Option<Request>>,
    /// By thread: when it has been promised to be woken.
    wake_at_ns: Vec<Option<u64>>,
    /// By tag.
    requests: Vec<Option<Command>>,
    free_tags: Vec<u64>,
}

impl Clients {
    /// The threads of a generator, none of which does anything yet.
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

    /// A thread begins to make its next request, if it has one now and is not at another. Returns whether it
    /// does.
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

    /// The request that a thread has made.
    pub fn made(&mut self, thread: u32) -> Option<Request> {
        self.making[thread as usize].take()
    }

    /// A request has been answered: which one that was. `None` if there is none of that tag.
    pub fn answered(&mut self, tag: u64) -> Option<Command> {
        let command = self.requests.get_mut(tag as usize)?.take()?;
        self.free_tags.push(tag);
        self.generator.completed(command.thread);
        Some(command)
    }

    /// When a thread that has nothing to do now is to be woken, if that is in the future and has not been
    /// asked for yet.
    pub fn sleep(&mut self, thread: u32, now_ns: u64) -> Option<u64> {
        let at_ns = self.generator.wake_ns(thread)?;
        let promised = &mut self.wake_at_ns[thread as usize];
        if at_ns <= now_ns || *promised == Some(at_ns) {
            return None;
        }
        *promised = Some(at_ns);
        Some(at_ns)
    }

    /// Requests that are due and have not been issued.
    pub fn backlog(&mut self, now_ns: u64) -> u64 {
        self.generator.backlog(now_ns)
    }
}
