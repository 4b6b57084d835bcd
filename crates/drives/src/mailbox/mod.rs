//! Messages to a shard, and a shard's messages to others.
//!
//! A shard never waits for a lock here, and a thread that is off its processor delays its own messages only. Between
//! each two shards there is a ring in each direction (`link`). Threads that are no shards put messages into queues under
//! a lock that the shard only tries ([`MailSender`], `outside`). What a shard writes to itself it just keeps.
//! Nothing is lost while shards run: one that ends drops what has not left it, so all of them end together. Memory is
//! taken only by bursts that are longer than any before.
//!
//! # Order
//!
//! Messages of one sender keep their order. Beyond that there is one promise: a message from a thread that is
//! no shard is opened before any message of a shard that could know of it.
//! When the API attaches a drive to all shards and then orders the controller to use it, what the
//! controller writes about the drive is opened by shards that have it. So a shard that sees messages of others looks for
//! orders before it opens them, and when those cannot be looked at because a sender is at it, the others' messages
//! wait until they can. Between messages of different shards there is no order, nor between answers of
//! members ([`Mail::Moved`]) and anything else; the simulator delivers messages of shards accordingly.
//!
//! # Waking
//!
//! A receiver that spins sees new messages; one that sleeps in the kernel is woken through an eventfd, which
//! senders touch only when the receiver has said that it sleeps. A sender makes its message visible, then
//! looks whether the receiver sleeps; a receiver says that it sleeps, then looks for messages. Between the
//! two steps of both there is a sequentially consistent fence, so at least one of them sees what the
//! other has done: either the receiver stays awake or it is signalled.

#[cfg(test)]
mod interleavings;
mod link;
mod outside;
#[cfg(test)]
mod tests;

use crate::atomic::{AtomicBool, Ordering, fence};
use crate::drive::Drive;
use crate::helpers::Moved;
use engine::control::message::Message;
use engine::units::{MemberId, ShardId};
use link::Link;
use outside::Outside;
use rtrb::Consumer;
use rustix::event::EventfdFlags;
use std::any::Any;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

/// A message to a shard.
#[derive(Debug)]
pub enum Mail {
    /// For the engine.
    Engine(Message),
    /// The world shall serve this member from this drive from now on.
    Attach(MemberId, Arc<Drive>),
    /// The member is gone; its I/O in flight is still answered.
    Detach(MemberId),
    /// The answer of a member that has threads of its own.
    Moved(Moved),
    /// For the port, which knows the type.
    Port(Box<dyn Any + Send>),
    /// For what encodes the record, which knows the type.
    Encoder(Box<dyn Any + Send>),
}

#[derive(Debug)]
struct Shared {
    outside: Outside,
    /// The receiver wants a signal.
    asleep: Apart<AtomicBool>,
    wake: OwnedFd,
}

/// On cache lines of its own, two of them because processors fetch lines in pairs: the receiver keeps
/// looking at flags while senders hold locks.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// The sending side for threads that are no shards; cheap to clone. A shard writes to others by
/// [`Mailbox::post`], because it must not wait for the lock that is taken here.
#[derive(Clone, Debug)]
pub struct MailSender(Arc<Shared>);

impl MailSender {
    /// Delivers `mail`. Mail to a receiver that no longer exists is dropped with the mailbox.
    pub fn send(&self, mail: Mail) {
        self.0.outside.put(mail);
        self.wake_sleeper();
    }

    /// Signals a receiver that sleeps. What is to wake it has to be visible already: see "Waking".
    #[inline]
    fn wake_sleeper(&self) {
        fence(Ordering::SeqCst);
        let Apart(asleep) = &self.0.asleep;
        if asleep.load(Ordering::Relaxed) && asleep.swap(false, Ordering::Relaxed) {
            self.wake();
        }
    }

    /// Whether both deliver to the same receiver.
    pub(crate) fn is_same(&self, other: &MailSender) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Makes a sleeping receiver look around although there is no mail.
    pub fn wake(&self) {
        // Fails only when the counter is full, and then the receiver is awake anyway.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }
}

/// What one shard owns: the messages that it gets, and the way to the others.
#[derive(Debug)]
pub struct Mailbox {
    shared: Arc<Shared>,
    /// Its own messages to itself, and what it has taken in.
    opened: VecDeque<Mail>,
    /// Messages from outside were there that could not be taken in; those of shards may have to wait for them.
    orders_are_late: bool,
    /// From each other shard.
    incoming: Vec<Consumer<Mail>>,
    /// Whose messages were taken in last.
    current: usize,
    /// To each shard by number; nothing where that is this one.
    outgoing: Vec<Option<Link>>,
}

/// The mailboxes of shards that write to each other, by number.
///
/// # Errors
///
/// When the process may not open that many more file descriptors.
pub fn exchange(shards: usize) -> std::io::Result<Vec<Mailbox>> {
    let mut mailboxes = (0..shards)
        .map(|_| Mailbox::without_links())
        .collect::<std::io::Result<Vec<_>>>()?;
    for from in 0..shards {
        for to in 0..shards {
            let link = (from != to).then(|| {
                let (link, messages) = Link::new(mailboxes[to].sender());
                mailboxes[to].incoming.push(messages);
                link
            });
            mailboxes[from].outgoing.push(link);
        }
    }
    Ok(mailboxes)
}

impl Mailbox {
    /// The mailbox of a shard that is the only one.
    ///
    /// # Errors
    ///
    /// When the process may not open another file descriptor.
    pub fn new() -> std::io::Result<Mailbox> {
        let mut mailbox = Mailbox::without_links()?;
        mailbox.outgoing.push(None);
        Ok(mailbox)
    }

    fn without_links() -> std::io::Result<Mailbox> {
        let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared {
            outside: Outside::new(),
            asleep: Apart(AtomicBool::new(false)),
            wake,
        });
        Ok(Mailbox {
            shared,
            opened: VecDeque::with_capacity(2 * outside::ROOM),
            orders_are_late: false,
            incoming: Vec::new(),
            current: 0,
            outgoing: Vec::new(),
        })
    }

    /// A handle for senders that are no shards.
    #[must_use]
    pub fn sender(&self) -> MailSender {
        MailSender(self.shared.clone())
    }

    /// Writes to a shard, which may be this one. The message leaves by [`Mailbox::deliver`].
    #[inline]
    pub fn post(&mut self, to: ShardId, mail: Mail) {
        match &mut self.outgoing[usize::from(to.0)] {
            Some(link) => link.post(mail),
            None => self.opened.push_back(mail),
        }
    }

    /// Sends the messages of this turn, as far as there is room for them. Without,
    /// [`Mailbox::holds_back`] is true, and this has to be called again soon.
    #[inline]
    pub fn deliver(&mut self) {
        self.outgoing.iter_mut().flatten().for_each(Link::deliver);
    }

    /// Whether messages to other shards have not left.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        let mut links = self.outgoing.iter().flatten();
        links.any(|link| link.held_back() > 0)
    }

    /// Whether [`Mailbox::receive`] would return something, or may.
    #[must_use]
    #[inline]
    pub fn has_mail(&self) -> bool {
        !self.opened.is_empty() || self.shared.outside.has_messages() || self.may_read_on()
    }

    /// Whether there are messages of other shards that need not wait for orders.
    #[inline]
    fn may_read_on(&self) -> bool {
        let has_messages = |messages: &Consumer<Mail>| !messages.is_empty();
        !self.orders_are_late && self.incoming.iter().any(has_messages)
    }

    /// The next message: what is here already, then those of one shard after the other, of each as many as
    /// are there when its turn comes.
    #[inline]
    pub fn receive(&mut self) -> Option<Mail> {
        if self.has_mail() { self.open() } else { None }
    }

    // Apart, because most turns have no messages.
    #[inline(never)]
    fn open(&mut self) -> Option<Mail> {
        if self.opened.is_empty() {
            // Begins at the start of its memory again, which is near the processor.
            self.opened.clear();
            self.look();
        }
        self.opened.pop_front()
    }

    /// Takes in what has come from outside, and the messages of the next shard that has written.
    fn look(&mut self) {
        let mut ready = 0;
        for _ in 0..self.incoming.len() {
            self.current = (self.current + 1) % self.incoming.len();
            ready = self.incoming[self.current].slots();
            if ready > 0 {
                break;
            }
        }
        // Not before: what has been seen above may have been written by somebody who knew of an order.
        // That order was sent before, so its flag is visible here, and it is taken in or known to be late.
        if self.shared.outside.has_messages() {
            self.orders_are_late = !self.shared.outside.take(&mut self.opened);
        }
        if ready > 0 && !self.orders_are_late {
            // All at once: for each message alone the writer's core would lose what it knows of the ring.
            let messages = self.incoming[self.current].read_chunk(ready);
            let messages = messages.expect("only this side takes messages out");
            self.opened.extend(messages);
        }
    }

    /// Announces that the receiver is about to sleep. When this returns false there is mail, and it
    /// must not; when it returns true, the next message makes [`Mailbox::wake_fd`] readable.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.shared.asleep.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.has_mail() {
            self.wake_up();
            return false;
        }
        true
    }

    /// The receiver is awake; senders need not touch the eventfd.
    pub(crate) fn wake_up(&self) {
        self.shared.asleep.0.store(false, Ordering::Relaxed);
    }

    /// Readable when a message came in during sleep.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }

    /// Makes [`Mailbox::wake_fd`] unreadable until the next message.
    pub(crate) fn clear_wake(&self) {
        // Nothing to read means nothing to clear.
        let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
    }
}
