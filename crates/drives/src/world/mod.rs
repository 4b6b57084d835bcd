//! The real world: drives behind one io_uring, clients behind a port, other shards behind mailboxes.
//!
//! One [`RingWorld`] runs on one thread, which must also create it (a ring belongs to the thread that created it).
//! Members come and go by [`Mail::Attach`] and [`Mail::Detach`]. I/O to a member that is not attached is answered
//! `Gone` at once; I/O that is in flight at a detach is answered with the kernel's result.
//!
//! The shortest path of an I/O, to a null member, is one table look-up and one queue. RAM members copy within the turn.
//! Files and block devices go through the ring. Members with limits or a model answer when [`crate::pace`] says so.

mod attach;
mod linger;
mod log;
mod metadata;
mod options;
mod payload;
mod ram;
mod ready;
#[cfg(test)]
mod tests;
mod wait;

pub use log::{HEADER_BYTES as LOG_HEADER_BYTES, LogEncoder};

use crate::arena::{Arena, ArenaOptions, Pool};
use crate::completion::CompletionMode;
use crate::drive::Backing;
use crate::held::{Answer, HeldAnswers};
use crate::mailbox::{Mail, Mailbox};
use crate::port::Port;
use crate::ring::{CLASS_INTERNAL, CLASS_MEMBER, Completed, Ring, RingReport};
use crate::transfer::{GONE, MISUSE, Payload, Transfer, Transfers, Way};
use attach::{Attachments, Serving};
use engine::control::message::Message;
use engine::control::record::Record;
use engine::event::Event;
use engine::limits::REAP_MAX;
use engine::log::unit::LogUnit;
use engine::plan::Segment;
use engine::request::Completion;
use engine::token::Token;
use engine::units::{Buffer, MemberId, Nanos, ShardId};
use engine::world::{Input, Io, World};
use linger::Linger;
use metadata::Metadata;
pub use metadata::{Encode, Encoder, NotExpressible, Parts};
pub use options::{WorldError, WorldOptions};
use payload::{gather, with_addresses};
use ram::RamIo;
use ready::ReadyAnswers;
use rustix::time::ClockId;

/// The initial capacity for I/O in flight.
const TRANSFERS: usize = 8192;
/// Zeros to write to drives that cannot zero by themselves.
const ZEROS_BYTES: usize = 1 << 20;
/// Memory for metadata in flight, apart from payload so that it is always available.
const METADATA_BYTES: usize = 7 << 20;
/// Identifies the watch on the mailbox among the internal completions.
const WATCH_MAILBOX: u64 = 0;
const ECANCELED: i32 = 125;

/// See the module's documentation.
pub struct RingWorld<P: Port> {
    // First, because it must be dropped first: it waits until the kernel has finished with the memory of the rest.
    ring: Ring,
    transfers: Transfers,
    attachments: Attachments,
    metadata: Metadata,
    ram: RamIo,
    held: HeldAnswers,
    ready: ReadyAnswers,
    completed: Vec<Completed>,
    mailbox: Mailbox,
    mailbox_watched: bool,
    linger: Linger,
    port: P,
    encoder: Encoder,
    log_encoder: LogEncoder,
    log_header: Box<[u8; LOG_HEADER_BYTES]>,
    on_event: Box<dyn FnMut(Event) + Send>,
    completion: CompletionMode,
    /// The time that the port was told in this turn: reading the clock takes as long as half a request.
    reaped: Option<Nanos>,
}

impl<P: Port> RingWorld<P> {
    /// A world for the calling thread.
    ///
    /// # Errors
    ///
    /// [`WorldError`] when the kernel offers no io_uring or no memory.
    pub fn new(options: WorldOptions<P>) -> Result<RingWorld<P>, WorldError> {
        let internal = Arena::new(ArenaOptions {
            length_bytes: ZEROS_BYTES + METADATA_BYTES,
            prefault: true,
            lock: true,
        })?;
        let zeros = (internal.start(), ZEROS_BYTES as u64);
        let pool = Pool::new(internal.clone(), ZEROS_BYTES..ZEROS_BYTES + METADATA_BYTES);
        Ok(RingWorld {
            ring: Ring::new(options.ring, options.arena, internal)?,
            transfers: Transfers::new(TRANSFERS, zeros, options.mailbox.sender()),
            attachments: Attachments::new(),
            metadata: Metadata::new(pool),
            ram: RamIo::new(),
            held: HeldAnswers::with_capacity(TRANSFERS),
            ready: ReadyAnswers::with_capacity(TRANSFERS),
            completed: Vec::with_capacity(REAP_MAX),
            mailbox: options.mailbox,
            mailbox_watched: false,
            linger: Linger::new(),
            port: options.port,
            encoder: options.encoder,
            log_encoder: options.log_encoder,
            log_header: Box::new([0; LOG_HEADER_BYTES]),
            on_event: options.on_event,
            completion: options.completion,
            reaped: None,
        })
    }

    /// The mode and features that the kernel granted to the ring.
    #[must_use]
    pub fn report(&self) -> RingReport {
        self.ring.report()
    }

    /// The port.
    pub fn port(&mut self) -> &mut P {
        &mut self.port
    }

    fn open_message(&mut self, mail: Mail, inputs: &mut Vec<Input>) {
        match mail {
            Mail::Engine(message) => {
                self.linger.received(&message);
                inputs.push(Input::Message(message));
            }
            Mail::Attach(member, drive) => self.attach(member, drive),
            Mail::Detach(member) => self.detach(member),
            Mail::Moved(moved) => self.member_answered(moved.index, moved.result),
            Mail::Port(message) => self.port.mail(message),
            Mail::Encoder(message) => self.encoder.mail(message),
        }
    }

    /// Carries out deferred work of RAM members.
    #[inline]
    fn finish_ram(&mut self) {
        let world = (&**self.ring.arena(), &self.attachments);
        self.ram.finish(world);
    }

    /// An I/O to any member except a null member without a pace.
    fn io_to_drive(&mut self, index: u16, io: Io, memory: impl Iterator<Item = Segment>) {
        let attachment = self.attachments.at(index);
        let drive = &attachment.drive;
        if !drive.allows(io.kind, io.offset_bytes, io.length_bytes) {
            return self.answer(Answer::Done(io.token), MISUSE);
        }
        let finish = match drive.pace() {
            Some(pace) => pace.admit(clock(), (&io).into()),
            None => Nanos(0),
        };
        let errno = match (drive.backing(), attachment.way) {
            (Backing::File(_), Some(way)) => {
                let transfer = Transfer {
                    answer: Answer::Done(io.token),
                    attachment: index,
                    way,
                    sector_bytes: drive.sector_bytes(),
                    kind: io.kind,
                    payload: Payload::Nothing,
                    offset_bytes: io.offset_bytes,
                    left_bytes: io.length_bytes,
                    finish,
                    memory: None,
                };
                // The kernel may read or write the memory from now on.
                self.finish_ram();
                return self.start(transfer, memory);
            }
            (Backing::Ram(_), _) => {
                let world = (&**self.ring.arena(), &self.attachments);
                self.ram.start(world, index, io, memory)
            }
            _ => 0,
        };
        self.attachments.started(index);
        self.settle(Answer::Done(io.token), index, finish, errno);
    }

    /// Adds the payload to a transfer and starts it.
    fn start(&mut self, mut transfer: Transfer, memory: impl Iterator<Item = Segment>) {
        match gather(&mut self.ring, &transfer, memory) {
            Ok(payload) => transfer.payload = payload,
            Err(errno) => return self.answer(transfer.answer, errno),
        }
        self.launch(transfer);
    }

    /// Starts a transfer.
    fn launch(&mut self, mut transfer: Transfer) {
        let index = transfer.attachment;
        self.attachments.started(index);
        let drive = &self.attachments.at(index).drive;
        match (transfer.way, drive.fd()) {
            (Way::Inline, Some(fd)) => {
                let errno = self.transfers.carry_out(&mut self.ring, fd, &mut transfer);
                self.transfer_ended(transfer, errno);
            }
            _ => self
                .transfers
                .start(&mut self.ring, drive.helpers(), transfer),
        }
    }

    /// Takes the result of an I/O that has ended. The answer is due at `finish`, or at once if it is an error.
    fn settle(&mut self, answer: Answer, attachment: u16, finish: Nanos, errno: i32) {
        if finish > Nanos(0) && errno == 0 {
            self.held.push(finish, answer, attachment);
        } else {
            self.conclude(answer, attachment, errno);
        }
    }

    /// Takes an answer that is due.
    fn conclude(&mut self, answer: Answer, attachment: u16, errno: i32) {
        if !self.has_more_parts(answer, errno) {
            if errno == 0 && self.attachments.suspect(attachment) {
                self.ready.push_suspect(answer, attachment);
            } else {
                self.ready.push(answer, errno);
            }
        }
        self.attachments.ended(attachment, &mut self.ring);
        self.go_on_with_metadata(answer);
    }

    /// Checks that the files that have answered are still as long as they were.
    fn verify_files(&mut self) {
        while let Some(index) = self.attachments.next_suspect() {
            if let Err(error) = self.attachments.at(index).drive.is_alive() {
                self.ready.fail(index, error.errno);
            }
            self.attachments.ended(index, &mut self.ring);
        }
    }

    #[inline]
    fn answer(&mut self, answer: Answer, errno: i32) {
        if !self.has_more_parts(answer, errno) {
            self.ready.push(answer, errno);
        }
        self.go_on_with_metadata(answer);
    }

    /// Gives the answers that are due by `now`, up to about [`REAP_MAX`] in a turn. The rest stays in `held`, which has
    /// room for them, however many are due at once.
    fn release_held(&mut self, now: Nanos) {
        while self.ready.len() < REAP_MAX
            && let Some(held) = self.held.pop_due(now)
        {
            if let Some(pace) = self.attachments.at(held.attachment).drive.pace() {
                pace.delivered(now, held.finish);
            }
            self.conclude(held.answer, held.attachment, 0);
        }
    }

    /// Takes an answer of the ring or a helper.
    fn member_answered(&mut self, index: u32, result: i32) {
        let Some(attachment) = self.transfers.attachment(index) else {
            return;
        };
        let helpers = self.attachments.at(attachment).drive.helpers();
        let answered = self
            .transfers
            .answered(&mut self.ring, helpers, index, result);
        if let Some((transfer, errno)) = answered {
            self.transfer_ended(transfer, errno);
        }
    }

    fn transfer_ended(&mut self, transfer: Transfer, errno: i32) {
        if transfer.was_refused_discard() {
            self.discard_refused(transfer.attachment);
        }
        let errno = match errno {
            0 => 0,
            errno => self
                .attachments
                .at(transfer.attachment)
                .drive
                .meaning_of(errno),
        };
        self.settle(transfer.answer, transfer.attachment, transfer.finish, errno);
        if let Some(memory) = transfer.memory {
            self.metadata.free(memory);
            self.write_waiting_metadata();
        }
    }

    fn cancel_transfer(&mut self, index: u32) {
        let Some(attachment) = self.transfers.attachment(index) else {
            return;
        };
        let helpers = self.attachments.at(attachment).drive.helpers();
        if self.transfers.cancel(&mut self.ring, helpers, index) {
            self.member_answered(index, -ECANCELED);
        }
    }

    fn reap_ring(&mut self, inputs: &mut Vec<Input>) {
        let mut completed = std::mem::take(&mut self.completed);
        self.ring.reap(&mut completed, REAP_MAX);
        for Completed {
            class,
            user_data,
            result,
        } in completed.drain(..)
        {
            match class {
                CLASS_MEMBER => self.member_answered(user_data as u32, result),
                CLASS_INTERNAL if user_data == WATCH_MAILBOX => {
                    self.mailbox_watched = false;
                    self.mailbox.clear_wake();
                }
                CLASS_INTERNAL => {}
                _ => self
                    .port
                    .completion(user_data, result, &mut self.ring, inputs),
            }
        }
        self.completed = completed;
    }
}

impl<P: Port> World for RingWorld<P> {
    #[inline]
    fn now(&mut self) -> Nanos {
        self.reaped.take().unwrap_or_else(clock)
    }

    fn reap(&mut self, inputs: &mut Vec<Input>) {
        // Answers given below must be true, so complete deferred copies first.
        self.finish_ram();
        for _ in 0..REAP_MAX {
            match self.mailbox.receive() {
                Some(mail) => self.open_message(mail, inputs),
                None => break,
            }
        }
        if self.ring.is_busy() {
            self.reap_ring(inputs);
        }
        if !self.held.is_empty() {
            self.release_held(clock());
        }
        self.verify_files();
        self.ready.give(inputs, REAP_MAX);
        self.reaped = P::TIMED.then(clock);
        let now = self.reaped.unwrap_or(Nanos(0));
        self.port.poll(now, &mut self.ring, inputs);
    }

    #[inline]
    fn reap_answered(&mut self, inputs: &mut Vec<Input>) {
        if !self.ready.is_empty() {
            self.finish_ram();
            self.verify_files();
            self.ready.give(inputs, REAP_MAX);
        }
    }

    // Without this, inlining depends on the crate that instantiates the loop for its port; not inlined, it costs 2 %.
    #[inline(always)]
    fn io(&mut self, io: Io, memory: impl Iterator<Item = Segment>) {
        match self.attachments.serving(io.member) {
            Serving::Null { size_bytes } => {
                let end = io.offset_bytes.checked_add(io.length_bytes);
                let fits = end.is_some_and(|end| end <= size_bytes);
                self.answer(Answer::Done(io.token), if fits { 0 } else { MISUSE });
            }
            Serving::Drive(index) => self.io_to_drive(index, io, memory),
            Serving::Absent => self.answer(Answer::Done(io.token), GONE),
        }
    }

    fn cancel(&mut self, token: Token) {
        if let Some(held) = self.held.remove(token) {
            self.attachments.ended(held.attachment, &mut self.ring);
            self.answer(held.answer, ECANCELED);
        } else if let Some(index) = self.transfers.find(Answer::Done(token)) {
            self.cancel_transfer(index);
        }
    }

    fn xor(&mut self, target: Buffer, length_bytes: u32, sources: impl Iterator<Item = Segment>) {
        let (arena, length) = (&**self.ring.arena(), u64::from(length_bytes));
        let to = arena.pointer(target, length);
        with_addresses(arena, length, sources, |sources| {
            let world = (arena, &self.attachments);
            if self.ram.put_off_xor(world, (target, length), sources) {
                return;
            }
            // SAFETY: every range has been checked to lie in the arena; the engine's range locks keep
            // others off, and its planners let sources and target be equal or disjoint.
            unsafe { engine::xor::xor_into(to, sources, length_bytes as usize) }
        });
    }

    fn xor_is_zero(&mut self, length_bytes: u32, sources: impl Iterator<Item = Segment>) -> bool {
        self.finish_ram();
        let (arena, length) = (self.ring.arena(), u64::from(length_bytes));
        with_addresses(arena, length, sources, |sources| {
            // SAFETY: as in `xor`.
            unsafe { engine::xor::xor_is_zero(sources, length_bytes as usize) }
        })
    }

    fn encode_log(
        &mut self,
        unit: &LogUnit,
        partial_parities: impl Iterator<Item = Segment>,
        image: Buffer,
    ) {
        self.encode_unit(unit, partial_parities, image);
    }

    fn fill(&mut self, memory: Buffer, words: &[u64]) {
        self.finish_ram();
        let arena = self.ring.arena();
        for (at, word) in (0u32..).zip(words) {
            arena.write(memory.at(8 * at), &word.to_le_bytes());
        }
    }

    fn complete(&mut self, completion: Completion) {
        self.port.complete(completion);
    }

    fn pin(&mut self, buffer: Buffer) {
        self.port.pin(buffer);
    }

    fn release(&mut self, buffer: Buffer) {
        self.port.release(buffer);
    }

    fn send(&mut self, to: ShardId, message: Message) {
        self.linger.sent(&message);
        self.mailbox.post(to, Mail::Engine(message));
    }

    fn persist(&mut self, member: MemberId, record: &Record) {
        match self.encoder.encode(member, record) {
            Ok(parts) => self.write_metadata(member, parts),
            Err(NotExpressible) => self.answer(Answer::NotExpressible(member), 0),
        }
    }

    fn event(&mut self, event: Event) {
        (self.on_event)(event);
    }

    fn submit(&mut self) {
        self.port.flush(&mut self.ring);
        while let Some((shard, message)) = self.port.next_message() {
            self.mailbox.post(shard, Mail::Port(message));
        }
        self.ring.submit_due();
        self.mailbox.deliver();
    }

    fn wait(&mut self, until: Option<Nanos>) {
        self.wait_until(until);
    }
}

/// The monotonic clock that `World::now` returns.
#[must_use]
#[inline]
pub fn clock() -> Nanos {
    let now = rustix::time::clock_gettime(ClockId::Monotonic);
    Nanos(now.tv_sec as u64 * Nanos::SECOND.0 + now.tv_nsec as u64)
}
