//! Messages to a shard from other shards, the controller's clients and operators.
//!
//! Many senders, one receiver. Sending never blocks on the receiver and never loses anything: the queue
//! has room for [`ROOM`] messages from the start and grows beyond if it must. One lock covers it; the
//! receiver swaps the whole queue for an empty one, so it takes the lock once per turn, and only when a
//! flag says that something is there; a shard sends what it has for another once per turn, too
//! ([`MailSender::send_all`]). Messages of one sender keep their order.
//!
//! A receiver that spins sees the flag; one that sleeps in the kernel is woken through an eventfd, which
//! senders touch only when the receiver has said that it sleeps.

use crate::drive::Drive;
use crate::helpers::Moved;
use engine::control::message::Message;
use engine::limits::{CONTAINER_MEMBERS_MAX, SHARDS_MAX, VOLUMES_MAX};
use engine::units::MemberId;
use rustix::event::EventfdFlags;
use std::any::Any;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Messages that fit without growing: a burst from every shard about every member and volume.
const ROOM: usize = SHARDS_MAX * (CONTAINER_MEMBERS_MAX + VOLUMES_MAX);

/// A letter to a shard.
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
    queue: Apart<Mutex<VecDeque<Mail>>>,
    flags: Apart<Flags>,
    wake: OwnedFd,
}

#[derive(Debug)]
struct Flags {
    /// There is mail.
    waiting: AtomicBool,
    /// The receiver wants a signal.
    asleep: AtomicBool,
}

/// On cache lines of its own, two of them because processors fetch lines in pairs: the receiver keeps
/// looking at the flags while senders hold the lock.
#[derive(Debug)]
#[repr(align(128))]
struct Apart<T>(T);

/// The sending side; cheap to clone, usable from any thread.
#[derive(Clone, Debug)]
pub struct MailSender(Arc<Shared>);

impl MailSender {
    /// Delivers `mail`. Mail to a receiver that no longer exists is dropped with the mailbox.
    pub fn send(&self, mail: Mail) {
        self.deliver(|queue| queue.push_back(mail));
    }

    /// Delivers all letters in order, with one lock and at most one signal.
    pub fn send_all(&self, letters: &mut VecDeque<Mail>) {
        self.deliver(|queue| queue.append(letters));
    }

    #[inline]
    fn deliver(&self, put: impl FnOnce(&mut VecDeque<Mail>)) {
        {
            let mut queue = self
                .0
                .queue
                .0
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            put(&mut queue);
            // Sequentially consistent, as are the two accesses in `fall_asleep`: of a sender and a
            // receiver that is about to sleep at least one sees the other's flag.
            self.0.flags.0.waiting.store(true, Ordering::SeqCst);
        }
        if self.0.flags.0.asleep.swap(false, Ordering::SeqCst) {
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

/// The receiving side, owned by one shard.
#[derive(Debug)]
pub struct Mailbox {
    shared: Arc<Shared>,
    /// The queue swapped out last, being emptied.
    taken: VecDeque<Mail>,
}

impl Mailbox {
    /// An empty mailbox.
    ///
    /// # Errors
    ///
    /// When the process may not open another file descriptor.
    pub fn new() -> std::io::Result<Mailbox> {
        let wake = rustix::event::eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?;
        let shared = Arc::new(Shared {
            queue: Apart(Mutex::new(VecDeque::with_capacity(ROOM))),
            flags: Apart(Flags {
                waiting: AtomicBool::new(false),
                asleep: AtomicBool::new(false),
            }),
            wake,
        });
        Ok(Mailbox {
            shared,
            taken: VecDeque::with_capacity(ROOM),
        })
    }

    /// A handle for senders.
    #[must_use]
    pub fn sender(&self) -> MailSender {
        MailSender(self.shared.clone())
    }

    /// Whether [`Mailbox::receive`] would return something.
    #[must_use]
    #[inline]
    pub fn has_mail(&self) -> bool {
        !self.taken.is_empty() || self.shared.flags.0.waiting.load(Ordering::Relaxed)
    }

    /// The oldest letter.
    #[inline]
    pub fn receive(&mut self) -> Option<Mail> {
        if self.taken.is_empty() && self.shared.flags.0.waiting.load(Ordering::Relaxed) {
            self.swap();
        }
        self.taken.pop_front()
    }

    fn swap(&mut self) {
        // The next sender begins at its first line again, which is still in a cache.
        self.taken.clear();
        let mut queue = self
            .shared
            .queue
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        // Under the lock, so that no letter is in the queue without the flag.
        self.shared.flags.0.waiting.store(false, Ordering::SeqCst);
        std::mem::swap(&mut *queue, &mut self.taken);
    }

    /// Announces that the receiver is about to sleep. When this returns false there is mail, and it
    /// must not; when it returns true, the next letter makes [`Mailbox::wake_fd`] readable.
    pub(crate) fn fall_asleep(&self) -> bool {
        self.shared.flags.0.asleep.store(true, Ordering::SeqCst);
        if self.shared.flags.0.waiting.load(Ordering::SeqCst) || !self.taken.is_empty() {
            self.shared.flags.0.asleep.store(false, Ordering::SeqCst);
            return false;
        }
        true
    }

    /// The receiver is awake; senders need not touch the eventfd.
    pub(crate) fn wake_up(&self) {
        self.shared.flags.0.asleep.store(false, Ordering::SeqCst);
    }

    /// Readable when a letter came in during sleep.
    pub(crate) fn wake_fd(&self) -> BorrowedFd<'_> {
        self.shared.wake.as_fd()
    }

    /// Makes [`Mailbox::wake_fd`] unreadable until the next letter.
    pub(crate) fn clear_wake(&self) {
        // Nothing to read means nothing to clear.
        let _ = rustix::io::read(&self.shared.wake, &mut [0u8; 8]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counting::allocations;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};

    fn number(mail: Mail) -> u64 {
        match mail {
            Mail::Port(any) => *any.downcast::<u64>().unwrap(),
            other => panic!("unexpected {other:?}"),
        }
    }

    fn readable(mailbox: &Mailbox, timeout_seconds: i64) -> bool {
        let mut fds = [PollFd::from_borrowed_fd(mailbox.wake_fd(), PollFlags::IN)];
        let timeout = Timespec {
            tv_sec: timeout_seconds,
            tv_nsec: 0,
        };
        poll(&mut fds, Some(&timeout)).unwrap() == 1
    }

    #[test]
    fn nothing_is_lost_and_each_sender_keeps_its_order() {
        const SENDERS: u64 = 3;
        const EACH: u64 = 20_000;
        let mut mailbox = Mailbox::new().unwrap();
        let threads: Vec<_> = (0..SENDERS)
            .map(|who| {
                let sender = mailbox.sender();
                std::thread::spawn(move || {
                    (0..EACH).for_each(|n| sender.send(Mail::Port(Box::new(who << 32 | n))));
                })
            })
            .collect();
        let mut next = [0u64; SENDERS as usize];
        while next.iter().sum::<u64>() < SENDERS * EACH {
            match mailbox.receive().map(number) {
                Some(letter) => {
                    let expected = &mut next[(letter >> 32) as usize];
                    assert_eq!(letter & 0xFFFF_FFFF, *expected);
                    *expected += 1;
                }
                None if mailbox.fall_asleep() => {
                    assert!(readable(&mailbox, 20), "slept through a letter");
                    mailbox.wake_up();
                    mailbox.clear_wake();
                }
                None => {}
            }
        }
        threads
            .into_iter()
            .for_each(|thread| thread.join().unwrap());
        assert!(!mailbox.has_mail());
    }

    #[test]
    fn letters_sent_together_keep_their_place_among_the_others() {
        let mut mailbox = Mailbox::new().unwrap();
        let sender = mailbox.sender();
        let letter = |n: u64| Mail::Port(Box::new(n));
        sender.send(letter(0));
        let mut letters = VecDeque::from([letter(1), letter(2)]);
        sender.send_all(&mut letters);
        assert!(letters.is_empty());
        sender.send(letter(3));
        for expected in 0..4 {
            assert_eq!(mailbox.receive().map(number), Some(expected));
        }
        assert!(mailbox.fall_asleep());
        sender.send_all(&mut VecDeque::from([letter(4), letter(5)]));
        assert!(readable(&mailbox, 0));
    }

    #[test]
    fn an_awake_receiver_is_not_signalled() {
        let mut mailbox = Mailbox::new().unwrap();
        let sender = mailbox.sender();
        sender.send(Mail::Port(Box::new(1u64)));
        assert!(!readable(&mailbox, 0));
        assert!(!mailbox.fall_asleep(), "there is mail");
        assert_eq!(mailbox.receive().map(number), Some(1));
        assert!(mailbox.fall_asleep());
        sender.send(Mail::Port(Box::new(2u64)));
        assert!(readable(&mailbox, 0));
        mailbox.clear_wake();
        sender.send(Mail::Port(Box::new(3u64)));
        assert!(!readable(&mailbox, 0), "one signal per sleep");
    }

    #[test]
    fn a_hundred_times_more_letters_than_have_room_arrive_and_cost_memory_once() {
        const SENDERS: u32 = 4;
        const EACH: u32 = 100 * ROOM as u32 / SENDERS;
        let mut mailbox = Mailbox::new().unwrap();
        // The queue and the one it changes places with grow to the largest burst, each once.
        for burst in 0..4 {
            let senders: Vec<_> = (0..SENDERS)
                .map(|who| {
                    let sender = mailbox.sender();
                    std::thread::spawn(move || {
                        let before = allocations();
                        for index in 0..EACH {
                            let result = who as i32;
                            sender.send(Mail::Moved(Moved { index, result }));
                        }
                        allocations() - before
                    })
                })
                .collect();
            let grown: u64 = senders.into_iter().map(|one| one.join().unwrap()).sum();
            assert_eq!(
                grown > 0,
                burst < 2,
                "burst {burst} took memory {grown} times"
            );
            let before = allocations();
            let mut next = [0; SENDERS as usize];
            while let Some(Mail::Moved(moved)) = mailbox.receive() {
                let expected = &mut next[moved.result as usize];
                assert_eq!(moved.index, *expected);
                *expected += 1;
            }
            assert_eq!(next, [EACH; SENDERS as usize]);
            assert_eq!(allocations(), before);
            assert!(mailbox.taken.capacity() >= 100 * ROOM);
        }
    }
}
