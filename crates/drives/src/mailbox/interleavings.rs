//! Messages, in many orders of the steps of their senders and the receiver.
//!
//! Shuttle switches threads at accesses to flags and locks. It sees an operation on a ring between shards as one step:
//! rings are `rtrb`'s, whose own tests run under Miri.
#![cfg(shuttle)]

use super::*;
use engine::units::VolumeId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use shuttle::thread;
use std::sync::atomic::{AtomicUsize, Ordering as Plain};

const ORDERS: usize = 20_000;

fn message(number: u64) -> Mail {
    Mail::Port(Box::new(number))
}

fn number(mail: Mail) -> u64 {
    match mail {
        Mail::Port(any) => *any.downcast().expect("a number"),
        other => panic!("unexpected {other:?}"),
    }
}

fn is_signalled(mailbox: &Mailbox) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(mailbox.wake_fd(), PollFlags::IN)];
    let at_once = Timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&at_once)).expect("an eventfd") == 1
}

/// How many threads have ended. Each thread counts itself, and the receiver reads the count.
type Ended = Arc<AtomicUsize>;

/// Sleeps until the next signal. Fails if all threads that could give one have ended.
fn sleep(mailbox: &Mailbox, ended: &Ended, senders: usize) {
    if !mailbox.fall_asleep() {
        return;
    }
    loop {
        let all_ended = ended.load(Plain::SeqCst) == senders;
        if is_signalled(mailbox) {
            break;
        }
        assert!(!all_ended, "slept through a message");
        thread::yield_now();
    }
    mailbox.wake_up();
    mailbox.clear_wake();
}

fn in_many_orders(run: impl Fn() + Send + Sync + 'static) {
    let run = Arc::new(run);
    let again = run.clone();
    shuttle::check_random(move || run(), ORDERS);
    shuttle::check_pct(move || again(), ORDERS, 3);
}

#[test]
fn no_message_meets_a_reader_that_sleeps_on() {
    const FROM_SHARD: u64 = 1 << 32;
    let sleeps = Arc::new(AtomicUsize::new(0));
    let seen = sleeps.clone();
    in_many_orders(move || {
        let [mut writer, mut reader] = exchange(2).unwrap().try_into().unwrap();
        let (sender, ended) = (reader.sender(), Ended::default());
        let (outside_ends, shard_ends) = (ended.clone(), ended.clone());
        let outside = thread::spawn(move || {
            (0..2).for_each(|n| sender.send(message(n)));
            outside_ends.fetch_add(1, Plain::SeqCst);
        });
        let shard = thread::spawn(move || {
            for n in 0..2 {
                writer.post(ShardId(1), message(FROM_SHARD | n));
                writer.deliver();
            }
            shard_ends.fetch_add(1, Plain::SeqCst);
            // The writer is kept, since the reader gives up a ring without a writer.
            writer
        });
        let mut next = [0, FROM_SHARD];
        while next != [2, FROM_SHARD | 2] {
            let Some(mail) = reader.receive() else {
                seen.fetch_add(1, Plain::SeqCst);
                sleep(&reader, &ended, 2);
                continue;
            };
            let number = number(mail);
            let expected = &mut next[usize::from(number >= FROM_SHARD)];
            assert_eq!(number, *expected, "out of order");
            *expected += 1;
        }
        outside.join().unwrap();
        shard.join().unwrap();
        assert!(reader.receive().is_none(), "a message too many");
    });
    assert!(sleeps.load(Plain::SeqCst) > 0, "the reader never slept");
}

/// The API attaches a drive to all shards, then the controller sends messages about it. Meanwhile a third thread with
/// unrelated messages may stop while it holds the lock.
#[test]
fn what_came_from_outside_is_opened_before_what_a_shard_wrote_later() {
    const CONTROLLER: u64 = 1 << 32;
    let known_some = Arc::new(AtomicUsize::new(0));
    let seen = known_some.clone();
    in_many_orders(move || {
        let [mut writer, mut reader] = exchange(2).unwrap().try_into().unwrap();
        let (sender, other, ended) = (reader.sender(), reader.sender(), Ended::default());
        let ends: [Ended; 3] = std::array::from_fn(|_| ended.clone());
        let [api_ends, other_ends, controller_ends] = ends;
        let attached = Arc::new(shuttle::sync::atomic::AtomicU64::new(0));
        let attaches = attached.clone();
        let api = thread::spawn(move || {
            for drive in 1..=2 {
                sender.send(message(drive));
                attaches.store(drive, Ordering::SeqCst);
            }
            api_ends.fetch_add(1, Plain::SeqCst);
        });
        let bystander = thread::spawn(move || {
            other.send(Mail::Engine(Message::WriteIntent(VolumeId(0))));
            other_ends.fetch_add(1, Plain::SeqCst);
        });
        let controller = thread::spawn(move || {
            for _ in 0..2 {
                let known = attached.load(Ordering::SeqCst);
                writer.post(ShardId(1), message(CONTROLLER | known));
                writer.deliver();
            }
            controller_ends.fetch_add(1, Plain::SeqCst);
            writer
        });
        let (mut attached, mut messages) = (0, 0);
        while messages < 5 {
            let Some(mail) = reader.receive() else {
                sleep(&reader, &ended, 3);
                continue;
            };
            messages += 1;
            match mail {
                Mail::Engine(_) => {}
                mail => match number(mail) {
                    message if message >= CONTROLLER => {
                        let known = message - CONTROLLER;
                        assert!(
                            known <= attached,
                            "drive {known} is known before it is attached"
                        );
                        seen.fetch_add(known as usize, Plain::SeqCst);
                    }
                    message => attached = message,
                },
            }
        }
        api.join().unwrap();
        bystander.join().unwrap();
        controller.join().unwrap();
    });
    assert!(
        known_some.load(Plain::SeqCst) > 0,
        "the controller knew of no drive in any order"
    );
}
