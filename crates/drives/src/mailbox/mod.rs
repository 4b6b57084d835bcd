//! Messages to a shard, and a shard's messages to others.
//!
//! A shard never waits for a lock here, and a thread that is not running delays only its own messages. Each two shards
//! are connected by a ring in each direction (`link`). Threads that are not shards put messages into queues under a
//! lock that the shard only tries ([`MailSender`], `outside`). A shard keeps messages to itself in its own queue. No
//! message is lost while shards run. A shard that ends drops messages that have not left it, so all shards end
//! together. Memory is allocated only for a burst that is longer than any before.
//!
//! # Order
//!
//! Messages of one sender keep their order. There is one promise beyond that: a message from a thread that is not a
//! shard is opened before any message of a shard that could depend on it. For example, the API attaches a drive to all
//! shards and then orders the controller to use it. When a shard opens the controller's messages about the drive, it
//! has already opened the attachment. To ensure this, a shard that sees messages of other shards takes in orders before
//! it opens those messages; if a sender holds the lock of the orders, the messages of shards wait. There is no order
//! between messages of different shards, nor between answers of members ([`Mail::Moved`]) and any other message. The
//! simulator delivers messages of shards accordingly.
//!
//! # Waking
//!
//! A receiver that spins sees new messages. One that sleeps in the kernel is woken through an eventfd, which senders
//! write only if the receiver has announced that it sleeps. A sender makes its message visible, then checks whether the
//! receiver sleeps; a receiver announces that it sleeps, then checks for messages. Both have a sequentially consistent
//! fence between the two steps, so at least one of them sees what the other has done: either the receiver stays awake
//! or it is signalled.

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
    /// The world serves this member from this drive from now on.
    Attach(MemberId, Arc<Drive>),
    /// The member is gone; its I/O in flight is still answered.
    Detach(MemberId),
    /// The answer of a member that has helper threads.
    Moved(Moved),
    /// For the port, which knows the type.
    Port(Box<dyn Any + Send>),
    /// For the encoder of records, which knows the type.
    Encoder(Box<dyn Any + Send>),
}

#[derive(Debug)]
struct Shared {
    outside: Outside,
    /// Whether the receiver sleeps and needs a signal.
    asleep: Apart<AtomicBool>,
    wake: OwnedFd,
}

/// Puts a value on cache lines of its own (two, because processors fetch lines in pairs), so that the receiver can poll
/// flags while senders take locks.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// The sending side for threads that are not shards; cheap to clone. A shard writes to other shards by
/// [`Mailbox::post`], because it must not wait for the lock that is taken here.
#[derive(Clone, Debug)]
pub struct MailSender(Arc<Shared>);

impl MailSender {
    /// Delivers `mail`. If the receiver no longer exists, the message is dropped with the mailbox.
    pub fn send(&self, mail: Mail) {
        self.0.outside.put(mail);
        self.wake_sleeper();
    }

    /// Signals a receiver that sleeps. The message must already be visible: see "Waking".
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

    /// Wakes a sleeping receiver although there is no mail.
    pub fn wake(&self) {
        // Fails only when the counter is full, and then the receiver is awake anyway.
        let _ = rustix::io::write(&self.0.wake, &1u64.to_ne_bytes());
    }
}

/// What one shard owns: its incoming messages, and the links to other shards.
#[derive(Debug)]
pub struct Mailbox {
    shared: Arc<Shared>,
    /// Messages that have been taken in but not received yet, and the shard's messages to itself.
    opened: VecDeque<Mail>,
    /// Whether orders could not be taken in because of a lock; then messages of shards have to wait for them.
    orders_are_late: bool,
    /// Messages from each other shard.
    incoming: Vec<Consumer<Mail>>,
    /// The shard whose messages were taken in last, as an index of `incoming`.
    current: usize,
    /// The link to each shard by number; `None` for this shard itself.
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

    /// A handle for threads that are not shards.
    #[must_use]
    pub fn sender(&self) -> MailSender {
        MailSender(self.shared.clone())
    }

    /// Writes to a shard, which may be this one. [`Mailbox::deliver`] sends the message.
    #[inline]
    pub fn post(&mut self, to: ShardId, mail: Mail) {
        match &mut self.outgoing[usize::from(to.0)] {
            Some(link) => link.post(mail),
            None => self.opened.push_back(mail),
        }
    }

    /// Sends the messages of this turn, as far as there is room for them. If there is not, [`Mailbox::holds_back`] is
    /// true, and this has to be called again soon.
    #[inline]
    pub fn deliver(&mut self) {
        self.outgoing.iter_mut().flatten().for_each(Link::deliver);
    }

    /// Whether messages to other shards have not been sent yet.
    #[must_use]
    pub fn holds_back(&self) -> bool {
        let mut links = self.outgoing.iter().flatten();
        links.any(|link| link.held_back() > 0)
    }

    /// Whether [`Mailbox::receive`] would, or may, return a message.
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

    /// The next message: first those already taken in, then those of one shard after the other, of each as many as are
    /// there when its turn comes.
    #[inline]
    pub fn receive(&mut self) -> Option<Mail> {
        if self.has_mail() { self.open() } else { None }
    }

    // Not inlined, because most turns have no messages.
    #[inline(never)]
    fn open(&mut self) -> Option<Mail> {
        if self.opened.is_empty() {
            // An empty queue starts at the beginning of its memory again, which is likely in the cache.
            self.opened.clear();
            self.look();
        }
        self.opened.pop_front()
    }

    /// Takes in the messages from outside, and those of the next shard that has written.
    fn look(&mut self) {
        let mut ready = 0;
        for _ in 0..self.incoming.len() {
            self.current = (self.current + 1) % self.incoming.len();
            ready = self.incoming[self.current].slots();
            if ready > 0 {
                break;
            }
        }
        // Only after the check above: a message seen there may have been written by a shard that knew of an order. That
        // order was sent earlier, so its flag is visible here, and it is taken in or known to be late.
        if self.shared.outside.has_messages() {
            self.orders_are_late = !self.shared.outside.take(&mut self.opened);
        }
        if ready > 0 && !self.orders_are_late {
            // All at once: taking single messages would make the writer's core lose its cached state of the ring each
            // time.
            let messages = self.incoming[self.current].read_chunk(ready);
            let messages = messages.expect("only this side takes messages out");
            self.opened.extend(messages);
        }
    }

    /// Announces that the receiver is about to sleep. If this returns false, there is mail and the receiver must not
    /// sleep; if it returns true, the next message makes [`Mailbox::wake_fd`] readable.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.shared.asleep.0.store(true, Ordering::Relaxed);
        fence(Ordering::SeqCst);
        if self.has_mail() {
            self.wake_up();
            return false;
        }
        true
    }

    /// Announces that the receiver is awake, so that senders need not write the eventfd.
    pub(crate) fn wake_up(&self) {
        self.shared.asleep.0.store(false, Ordering::Relaxed);
    }

    /// Becomes readable when a message comes while the receiver sleeps.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }

    /// Makes [`Mailbox::wake_fd`] unreadable until the next message.
    pub(crate) fn clear_wake(&self) {
        // An error means that there was nothing to clear.
        let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
    }
}
