//! What the tags of a shard's queues are doing, without I/O: requests come in, commands to the kernel go out.
//!
//! A tag goes round. Its command completes with a request; the engine carries that out; the next command answers it.
//!
//! # Memory
//!
//! Each tag owns memory for the longest request. Before its next command offers the memory to the kernel again, no drive
//! may use it any more: if a hung drive still does (`pinned`), the tag gets other memory, and waits if there is none.

use super::command::{Command, TagName};
use super::descriptor::{Asked, Refusal, Rules, failure_answer};
use crate::export::Statistics;
use crate::memory::Memory;
use crate::pinned::{Payload, Pinned};
use drives::arena::Pool;
use drives::ublk::Descriptor;
use engine::request::{Completion, Failure, Operation, Request};
use engine::units::{Buffer, VolumeId};
use engine::world::Input;
use std::collections::VecDeque;

/// What a tag is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The kernel has its command and will complete it with a request.
    WithKernel,
    /// The engine has its request.
    InEngine(Asked),
    /// A read which waits for other memory, because a hung drive may still write into the memory that it had.
    Held(Asked),
    /// The answer is known, and goes to the kernel with the tag's next command.
    Answered {
        /// The request, if it was carried out and has data: then its length counts.
        carried_out: Option<Asked>,
        answer: i32,
    },
    /// The kernel has given it a request, which is left to the next process.
    Left,
    /// The queue has ended.
    Ended,
}

#[derive(Debug)]
struct Tag {
    state: State,
    /// Memory for the longest request. `None` while the tag waits for other memory, and when it has ended.
    payload: Option<Payload>,
}

/// A queue that the shard serves.
#[derive(Debug)]
struct Served {
    volume: VolumeId,
    rules: Rules,
    tags: Vec<Tag>,
    /// Tags that have not ended.
    living: u16,
}

/// All tags of a shard, and their memory. See the module's documentation.
#[derive(Debug)]
pub struct Tags<M = Pool> {
    served: Vec<Option<Served>>,
    pool: M,
    pinned: Pinned,
    /// Tags that are answered with the next commands.
    answered: Vec<TagName>,
    /// Tags that wait for memory: held reads, and answers to requests whose memory a drive still uses.
    waiting: VecDeque<TagName>,
    /// Whether memory has become free since waiting tags have tried last.
    freed: bool,
    /// Whether requests are left to the next process.
    leaving: bool,
    statistics: Statistics,
}

impl<M: Memory> Tags<M> {
    /// No queue yet; the memory of tags comes from `pool`.
    #[must_use]
    pub fn new(pool: M) -> Tags<M> {
        Tags {
            served: Vec::new(),
            pool,
            pinned: Pinned::new(),
            answered: Vec::new(),
            waiting: VecDeque::new(),
            freed: false,
            leaving: false,
            statistics: Statistics::default(),
        }
    }

    /// Begins to serve a queue of `depth` tags. Appends the first command of each, and returns the queue's place. `None`
    /// if the memory does not suffice; then nothing has changed.
    pub fn begin(
        &mut self,
        volume: VolumeId,
        rules: Rules,
        depth: u16,
        commands: &mut Vec<Command>,
    ) -> Option<u16> {
        let length_bytes = rules.request_bytes_max;
        let payloads = self.allocate_many(depth, length_bytes)?;
        let place = self.free_place();
        let first = payloads.iter().zip(0..).map(|(payload, tag)| Command {
            name: TagName { place, tag },
            answer: None,
            buffer: payload.buffer,
            length_bytes,
        });
        commands.extend(first);
        let with_kernel = |payload| Tag {
            state: State::WithKernel,
            payload: Some(payload),
        };
        self.served[usize::from(place)] = Some(Served {
            volume,
            rules,
            tags: payloads.into_iter().map(with_kernel).collect(),
            living: depth,
        });
        self.answered.reserve(usize::from(depth));
        self.waiting.reserve(usize::from(depth));
        self.statistics.clients_accepted += 1;
        self.statistics.clients += 1;
        Some(place)
    }

    /// Whether there is memory for a queue of `depth` tags.
    pub fn has_room(&mut self, depth: u16, request_bytes_max: u32) -> bool {
        let payloads = self.allocate_many(depth, request_bytes_max);
        let has_room = payloads.is_some();
        let payloads = payloads.into_iter().flatten();
        payloads.for_each(|payload| self.let_go(payload));
        has_room
    }

    fn free_place(&mut self) -> u16 {
        let free = self.served.iter().position(Option::is_none);
        let place = free.unwrap_or_else(|| {
            self.served.push(None);
            self.served.len() - 1
        });
        u16::try_from(place).expect("far fewer queues than 65536")
    }

    fn allocate_many(&mut self, count: u16, length_bytes: u32) -> Option<Vec<Payload>> {
        let mut payloads = Vec::with_capacity(usize::from(count));
        for _ in 0..count {
            let Some(payload) = self.allocate(length_bytes) else {
                payloads
                    .into_iter()
                    .for_each(|payload| self.let_go(payload));
                return None;
            };
            payloads.push(payload);
        }
        Some(payloads)
    }

    fn allocate(&mut self, length_bytes: u32) -> Option<Payload> {
        let block_bytes = u64::from(length_bytes);
        let buffer = self.pool.allocate(block_bytes)?;
        Some(Payload {
            buffer,
            block_bytes,
        })
    }

    /// Frees memory, unless a drive still uses it.
    fn let_go(&mut self, payload: Payload) {
        if let Some(payload) = self.pinned.keep(payload) {
            self.pool.free(payload.buffer);
            self.freed = true;
        }
    }

    #[inline]
    fn served(&mut self, place: u16) -> &mut Served {
        let served = self.served.get_mut(usize::from(place));
        let served = served.and_then(Option::as_mut);
        served.expect("a tag belongs to a queue that is served")
    }

    #[inline]
    fn tag(&mut self, name: TagName) -> &mut Tag {
        let tag = self.served(name.place).tags.get_mut(usize::from(name.tag));
        tag.expect("a queue has only the tags with which it began")
    }

    /// A tag's command has completed with a request. It goes to the engine, or is refused: then the tag is answered.
    ///
    /// # Errors
    /// Why it is refused.
    ///
    /// # Panics
    /// If the tag has no command with the kernel.
    #[inline]
    pub fn requested(
        &mut self,
        name: TagName,
        descriptor: &Descriptor,
        inputs: &mut Vec<Input>,
    ) -> Result<(), Refusal> {
        let (rules, leaving) = (self.served(name.place).rules, self.leaving);
        let tag = self.tag(name);
        assert_eq!(
            tag.state,
            State::WithKernel,
            "a tag has one request at a time: {name:?}"
        );
        if leaving {
            tag.state = State::Left;
            return Ok(());
        }
        match rules.judge(descriptor) {
            Ok(asked) => {
                self.ask(name, asked, inputs);
                self.statistics.requests += 1;
                self.statistics.requests_in_flight += 1;
                Ok(())
            }
            Err(refusal) => {
                self.answer(name, None, refusal.answer());
                self.statistics.requests_failed += 1;
                Err(refusal)
            }
        }
    }

    /// Gives the engine what a tag is asked, with the tag's memory.
    #[inline]
    fn ask(&mut self, name: TagName, asked: Asked, inputs: &mut Vec<Input>) {
        let served = self.served(name.place);
        let volume = served.volume;
        let tag = &mut served.tags[usize::from(name.tag)];
        tag.state = State::InEngine(asked);
        inputs.push(Input::Request(Request {
            tag: name.number(),
            volume,
            operation: asked.operation,
            fua: asked.fua,
            offset_bytes: asked.offset_bytes,
            length_bytes: asked.length_bytes,
            buffer: tag.payload.expect("a tag with a request has memory").buffer,
        }));
    }

    #[inline]
    fn answer(&mut self, name: TagName, carried_out: Option<Asked>, answer: i32) {
        self.tag(name).state = State::Answered {
            carried_out,
            answer,
        };
        self.answered.push(name);
    }

    /// The engine has answered a request.
    ///
    /// # Panics
    /// If the tag has no request in the engine.
    #[inline]
    pub fn completed(&mut self, completion: Completion) {
        let name = TagName::of(completion.tag);
        let State::InEngine(asked) = self.tag(name).state else {
            panic!(
                "{name:?} has no request in the engine: {:?}",
                self.tag(name).state
            );
        };
        if completion.result == Err(Failure::BufferHeld) {
            return self.hold(name, asked);
        }
        self.statistics.requests_in_flight -= 1;
        match completion.result {
            Ok(()) => {
                let length_bytes = u64::from(asked.length_bytes);
                match asked.operation {
                    Operation::Read => self.statistics.sent_bytes += length_bytes,
                    Operation::Write => self.statistics.received_bytes += length_bytes,
                    _ => {}
                }
                self.answer(name, Some(asked), asked.success());
            }
            Err(failure) => {
                self.statistics.requests_failed += 1;
                self.answer(name, None, failure_answer(failure));
            }
        }
    }

    /// A hung drive keeps the memory of a read: it is repeated in other memory.
    #[cold]
    fn hold(&mut self, name: TagName, asked: Asked) {
        let tag = self.tag(name);
        tag.state = State::Held(asked);
        let kept = tag.payload.take().expect("a tag with a request has memory");
        self.let_go(kept);
        self.waiting.push_back(name);
        // There may be other memory at once.
        self.freed = true;
    }

    /// A tag's command has ended without a request. True if it was the last tag of its queue, which is served no more.
    ///
    /// # Panics
    /// If the tag has no command with the kernel.
    #[cold]
    pub fn ended(&mut self, name: TagName) -> bool {
        let tag = self.tag(name);
        assert_eq!(
            tag.state,
            State::WithKernel,
            "only a command that was given ends: {name:?}"
        );
        tag.state = State::Ended;
        let payload = tag.payload.take().expect("a tag with a command has memory");
        self.let_go(payload);
        let served = self.served(name.place);
        served.living -= 1;
        let is_last = served.living == 0;
        if is_last {
            self.served[usize::from(name.place)] = None;
            self.statistics.clients -= 1;
        }
        is_last
    }

    /// From now on requests of the kernel are not carried out and not answered: they are left to the next process. Those
    /// that the engine has are still answered.
    pub fn leave(&mut self) {
        self.leaving = true;
    }

    /// Whether requests are left to the next process, and all others have been answered.
    #[must_use]
    pub fn has_left(&self) -> bool {
        let is_quiet =
            |tag: &Tag| matches!(tag.state, State::WithKernel | State::Left | State::Ended);
        let mut all = self.served.iter().flatten().flat_map(|served| &served.tags);
        self.leaving && all.all(is_quiet)
    }

    /// How many commands the kernel has.
    #[must_use]
    pub fn with_kernel(&self) -> usize {
        let all = self.served.iter().flatten().flat_map(|served| &served.tags);
        all.filter(|tag| tag.state == State::WithKernel).count()
    }

    /// Whether no queue is served.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.served.iter().all(Option::is_none)
    }

    /// Appends the commands that answer requests.
    #[inline]
    pub fn take_commands(&mut self, commands: &mut Vec<Command>) {
        let mut answered = std::mem::take(&mut self.answered);
        for name in answered.drain(..) {
            match self.command(name) {
                Some(command) => commands.push(command),
                None => self.waiting.push_back(name),
            }
        }
        // Nothing above answers a tag, so the empty list is put back to keep its capacity.
        self.answered = answered;
    }

    /// The command that answers a tag's request; `None` if the tag needs other memory for it and there is none.
    #[inline]
    fn command(&mut self, name: TagName) -> Option<Command> {
        let tag = self.tag(name);
        let State::Answered {
            carried_out,
            answer,
        } = tag.state
        else {
            panic!("{name:?} has no answer: {:?}", tag.state);
        };
        let payload = tag.payload.expect("a tag with an answer has memory");
        if self.pinned.is_used(&payload) {
            self.exchange(name, carried_out)?;
        }
        let length_bytes = self.served(name.place).rules.request_bytes_max;
        let tag = self.tag(name);
        tag.state = State::WithKernel;
        Some(Command {
            name,
            answer: Some(answer),
            buffer: tag.payload.expect("a tag with an answer has memory").buffer,
            length_bytes,
        })
    }

    /// Gives a tag other memory, because a hung drive may still use what it has. What was read goes with it. `None` if
    /// there is no memory.
    #[cold]
    fn exchange(&mut self, name: TagName, carried_out: Option<Asked>) -> Option<()> {
        let length_bytes = self.served(name.place).rules.request_bytes_max;
        let new = self.allocate(length_bytes)?;
        let old = self.tag(name).payload.replace(new);
        let old = old.expect("a tag with an answer has memory");
        if let Some(read) = carried_out.filter(|asked| asked.operation == Operation::Read) {
            self.pool.copy(old.buffer, new.buffer, read.length_bytes);
        }
        self.let_go(old);
        Some(())
    }

    /// Whether a tag that waits for memory may find some now.
    #[inline]
    #[must_use]
    pub fn may_go_on(&self) -> bool {
        self.freed && !self.waiting.is_empty()
    }

    /// Lets each tag that waits for memory try again once: held reads go to the engine, answers become commands.
    #[cold]
    pub fn go_on(&mut self, inputs: &mut Vec<Input>, commands: &mut Vec<Command>) {
        self.freed = false;
        for _ in 0..self.waiting.len() {
            let Some(name) = self.waiting.pop_front() else {
                return;
            };
            let went_on = match self.tag(name).state {
                State::Held(asked) => self.ask_again(name, asked, inputs),
                _ => self.command(name).map(|command| commands.push(command)),
            };
            if went_on.is_none() {
                self.waiting.push_back(name);
            }
        }
    }

    /// Repeats a held read in other memory; `None` if there is none.
    #[cold]
    fn ask_again(&mut self, name: TagName, asked: Asked, inputs: &mut Vec<Input>) -> Option<()> {
        let length_bytes = self.served(name.place).rules.request_bytes_max;
        let payload = self.allocate(length_bytes)?;
        self.tag(name).payload = Some(payload);
        self.ask(name, asked, inputs);
        Some(())
    }

    /// A drive that hangs may use the memory at `buffer` until [`Tags::release`].
    #[cold]
    pub fn pin(&mut self, buffer: Buffer) {
        self.pinned.pin(buffer);
    }

    /// See [`Tags::pin`].
    #[cold]
    pub fn release(&mut self, buffer: Buffer) {
        if let Some(payload) = self.pinned.release(buffer) {
            self.pool.free(payload.buffer);
        }
        // Also where nothing becomes free: a tag may wait because of exactly this memory, which is its own.
        self.freed = true;
    }

    /// Whether `buffer` is memory of these tags.
    #[must_use]
    pub fn own(&self, buffer: Buffer) -> bool {
        self.pool.holds(buffer)
    }

    /// The memory of tags.
    #[must_use]
    pub fn memory(&self) -> &M {
        &self.pool
    }

    /// The counters so far.
    #[must_use]
    pub fn statistics(&self) -> Statistics {
        Statistics {
            pinned_bytes: self.pinned.bytes(),
            ..self.statistics
        }
    }
}

#[cfg(test)]
mod tests;
