//! Order, full rings, wake-ups, messages that are never received, and memory.

use super::link::RING_MESSAGES;
use super::outside::ROOM;
use super::*;
use crate::counting::allocations;
use engine::units::VolumeId;
#[cfg(not(miri))]
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

fn message(number: u64) -> Mail {
    Mail::Port(Box::new(number))
}

fn number(mail: Mail) -> u64 {
    match mail {
        Mail::Port(any) => *any.downcast::<u64>().unwrap(),
        other => panic!("unexpected {other:?}"),
    }
}

/// A message that needs no allocation.
fn small_message(who: i32, index: u32) -> Mail {
    Mail::Moved(Moved { index, result: who })
}

/// Miri has no `poll`.
#[cfg(miri)]
fn readable(mailbox: &Mailbox, timeout_seconds: i64) -> bool {
    let begin = Instant::now();
    loop {
        let mut count = [0; 8];
        if rustix::io::read(&mailbox.shared.wake, &mut count).is_ok() {
            return rustix::io::write(&mailbox.shared.wake, &count).is_ok();
        }
        if begin.elapsed() >= Duration::from_secs(timeout_seconds as u64) {
            return false;
        }
        std::thread::yield_now();
    }
}

#[cfg(not(miri))]
fn readable(mailbox: &Mailbox, timeout_seconds: i64) -> bool {
    let mut fds = [PollFd::from_borrowed_fd(mailbox.wake_fd(), PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: timeout_seconds,
        tv_nsec: 0,
    };
    poll(&mut fds, Some(&timeout)).unwrap() == 1
}

fn sleep(mailbox: &Mailbox) {
    if mailbox.fall_asleep() {
        assert!(readable(mailbox, 20), "slept through a message");
        mailbox.wake_up();
        mailbox.clear_wake();
    }
}

fn pair() -> [Mailbox; 2] {
    exchange(2).unwrap().try_into().unwrap()
}

fn receive_all(mailbox: &mut Mailbox) -> Vec<u64> {
    std::iter::from_fn(|| mailbox.receive())
        .map(number)
        .collect()
}

/// Checks that each sender's messages come in order. A message's upper half is its sender.
struct InOrder {
    next: Vec<u64>,
    each: u64,
}

impl InOrder {
    fn new(senders: u64, each: u64) -> InOrder {
        let next = vec![0; senders as usize];
        InOrder { next, each }
    }

    fn take(&mut self, message: u64) {
        let expected = &mut self.next[(message >> 32) as usize];
        assert_eq!(message & 0xFFFF_FFFF, *expected);
        *expected += 1;
    }

    fn has_all(&self) -> bool {
        self.next.iter().all(|&next| next == self.each)
    }
}

#[test]
fn nothing_is_lost_and_each_sender_from_outside_keeps_its_order() {
    const SENDERS: u64 = 3;
    const EACH: u64 = 20_000;
    let mut mailbox = Mailbox::new().unwrap();
    let threads: Vec<_> = (0..SENDERS)
        .map(|who| {
            let sender = mailbox.sender();
            std::thread::spawn(move || {
                (0..EACH).for_each(|n| sender.send(message(who << 32 | n)));
            })
        })
        .collect();
    let mut order = InOrder::new(SENDERS, EACH);
    while !order.has_all() {
        match mailbox.receive() {
            Some(mail) => order.take(number(mail)),
            None => sleep(&mailbox),
        }
    }
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    assert!(!mailbox.has_mail());
}

/// Shards that write to each other and sleep whenever nothing comes, and a thread that writes to all of them, in bursts
/// from one message to more than a ring holds. A lost wake-up would stop the test.
#[test]
fn shards_that_sleep_hear_of_every_message() {
    const SHARDS: u64 = 3;
    const OUTSIDE: u64 = SHARDS;
    const EACH: u64 = 30_000;
    let mailboxes = exchange(SHARDS as usize).unwrap();
    let senders: Vec<_> = mailboxes.iter().map(Mailbox::sender).collect();
    std::thread::scope(|scope| {
        for (who, mut mailbox) in (0..).zip(mailboxes) {
            scope.spawn(move || {
                // A shard's messages to itself are among them.
                let mut order = InOrder::new(SHARDS + 1, EACH);
                let (mut sent, mut bursts) = (0, [1, 2, 3, 40, 700].into_iter().cycle());
                let mut has_held_back = false;
                while !order.has_all() || mailbox.holds_back() {
                    let burst = bursts.next().unwrap().min(EACH - sent);
                    for n in sent..sent + burst {
                        (0..SHARDS as u8)
                            .for_each(|to| mailbox.post(ShardId(to), message(who << 32 | n)));
                    }
                    sent += burst;
                    mailbox.deliver();
                    has_held_back |= mailbox.holds_back();
                    let mut messages = 0;
                    while let Some(mail) = mailbox.receive() {
                        order.take(number(mail));
                        messages += 1;
                    }
                    // A shard that has sent everything sleeps, so each further message has to wake it.
                    if messages == 0 && sent == EACH && !mailbox.holds_back() && !order.has_all() {
                        sleep(&mailbox);
                    }
                }
                assert!(has_held_back, "no burst was longer than a ring");
            });
        }
        scope.spawn(|| {
            for n in 0..EACH {
                for sender in &senders {
                    sender.send(message(OUTSIDE << 32 | n));
                }
                if n % 64 == 0 {
                    std::thread::yield_now();
                }
            }
        });
    });
}

/// Repeatedly sends two messages at about the moment at which the reader looks for messages and falls asleep. Each
/// time the reader must have received them, or have stayed awake, or have been signalled.
fn meet(reader: &mut Mailbox, mut send: impl FnMut(u64) + Send) {
    const FOR: Duration = Duration::from_millis(if cfg!(miri) { 60_000 } else { 500 });
    // Under Miri one process runs only a few rounds; each process has its own seed.
    const ROUNDS_MAX: u64 = if cfg!(miri) { 8 } else { 1_000_000 };
    let (begun, ended) = (AtomicU64::new(0), AtomicU64::new(0));
    let is_over = AtomicBool::new(false);
    let wait_for = |round: u64, counter: &AtomicU64| {
        let mut looks = 0;
        while counter.load(Ordering::Acquire) < round && !is_over.load(Ordering::Relaxed) {
            looks += 1;
            if looks % 1000 == 0 {
                std::thread::yield_now();
            }
        }
    };
    let hesitate = |turns: u64| (0..turns).for_each(|_| std::hint::spin_loop());
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 1..=ROUNDS_MAX {
                wait_for(round, &begun);
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                hesitate(round % 7);
                send(2 * round);
                hesitate(round % 5);
                send(2 * round + 1);
                ended.store(round, Ordering::Release);
            }
        });
        // Ends the other thread even if this one fails.
        let _over = Over(&is_over);
        let begin = Instant::now();
        for round in 1..=ROUNDS_MAX {
            if begin.elapsed() > FOR {
                break;
            }
            let mut messages = Vec::with_capacity(2);
            begun.store(round, Ordering::Release);
            hesitate(round % 31);
            messages.extend(reader.receive().map(number));
            let is_asleep = reader.fall_asleep();
            wait_for(round, &ended);
            if is_asleep {
                assert!(
                    readable(reader, 0),
                    "round {round}: slept through a message"
                );
            }
            reader.wake_up();
            reader.clear_wake();
            messages.extend(receive_all(reader));
            assert_eq!(messages, [2 * round, 2 * round + 1], "round {round}");
        }
    });
}

struct Over<'a>(&'a AtomicBool);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn no_message_of_a_shard_meets_a_reader_that_sleeps_on() {
    let [mut writer, mut reader] = pair();
    meet(&mut reader, |number| {
        writer.post(ShardId(1), message(number));
        writer.deliver();
    });
}

#[test]
fn no_message_from_outside_meets_a_reader_that_sleeps_on() {
    let [mut reader, _other] = pair();
    let sender = reader.sender();
    meet(&mut reader, |number| sender.send(message(number)));
}

#[test]
fn what_does_not_fit_waits_with_its_sender_and_keeps_its_place() {
    let [mut writer, mut reader] = pair();
    let count = 3 * RING_MESSAGES as u64 + 7;
    for n in 0..count {
        writer.post(ShardId(1), message(n));
    }
    assert!(!reader.has_mail(), "nothing leaves before the turn ends");
    writer.deliver();
    assert!(writer.holds_back());
    writer.deliver();
    let mut seen = receive_all(&mut reader);
    assert_eq!(seen.len(), RING_MESSAGES);
    // Messages written now come after those that wait.
    writer.post(ShardId(1), message(count));
    while writer.holds_back() {
        writer.deliver();
        seen.extend(receive_all(&mut reader));
    }
    assert_eq!(seen, (0..=count).collect::<Vec<_>>());
}

#[test]
fn a_full_ring_has_room_for_as_many_as_have_been_taken_in() {
    let [mut writer, mut reader] = pair();
    let count = RING_MESSAGES as u64 + 10;
    for n in 0..count {
        writer.post(ShardId(1), message(n));
    }
    writer.deliver();
    let held_back = |writer: &Mailbox| writer.outgoing[1].as_ref().unwrap().held_back();
    assert_eq!(held_back(&writer), 10);
    // With the first message the reader takes in all that are in the ring.
    assert_eq!(reader.receive().map(number), Some(0));
    writer.deliver();
    assert_eq!(held_back(&writer), 0);
    assert_eq!(receive_all(&mut reader), (1..count).collect::<Vec<_>>());
}

#[test]
fn shards_take_turns_at_being_read() {
    let mut mailboxes = exchange(3).unwrap();
    for round in 0..3 {
        for from in [0, 1] {
            mailboxes[from].post(ShardId(2), message(10 * from as u64 + round));
            mailboxes[from].deliver();
        }
    }
    let first = number(mailboxes[2].receive().unwrap());
    // A message that arrives from the sender being read waits until the other sender's messages have been read.
    let (read, other) = (first as usize / 10, 1 - first as usize / 10);
    mailboxes[read].post(ShardId(2), message(10 * read as u64 + 3));
    mailboxes[read].deliver();
    let places = |who: usize, range: std::ops::Range<u64>| range.map(move |n| 10 * who as u64 + n);
    let expected: Vec<_> = places(read, 1..3)
        .chain(places(other, 0..3))
        .chain(places(read, 3..4))
        .collect();
    assert_eq!(receive_all(&mut mailboxes[2]), expected);
}

#[test]
fn messages_to_the_shard_itself_need_no_ring() {
    let [mut mailbox, _other] = pair();
    mailbox.post(ShardId(0), message(1));
    assert!(!mailbox.holds_back());
    assert!(!mailbox.fall_asleep(), "there is mail");
    assert_eq!(receive_all(&mut mailbox), [1]);
}

#[test]
fn an_awake_receiver_is_not_signalled() {
    let [mut writer, mut reader] = pair();
    let sender = reader.sender();
    let mut send_either_way = |is_shard: bool, number| {
        if is_shard {
            writer.post(ShardId(1), message(number));
            writer.deliver();
        } else {
            sender.send(message(number));
        }
    };
    for is_shard in [false, true] {
        send_either_way(is_shard, 1);
        assert!(!readable(&reader, 0));
        assert!(!reader.fall_asleep(), "there is mail");
        assert_eq!(receive_all(&mut reader), [1]);
        assert!(reader.fall_asleep());
        send_either_way(is_shard, 2);
        assert!(readable(&reader, 0));
        reader.clear_wake();
        send_either_way(is_shard, 3);
        assert!(!readable(&reader, 0), "one signal per sleep");
        assert_eq!(receive_all(&mut reader), [2, 3]);
    }
}

/// The API attaches a drive to all shards, then the controller sends messages about it. A shard that receives one of
/// these has the drive.
#[test]
fn what_came_from_outside_is_opened_before_what_shards_wrote_later() {
    const DRIVES: u64 = 100_000;
    const CONTROLLER: u64 = 1 << 32;
    let [mut writer, reader] = pair();
    let sender = reader.sender();
    let attached = AtomicU64::new(0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for drive in 1..=DRIVES {
                sender.send(message(drive));
                attached.store(drive, Ordering::Release);
            }
        });
        scope.spawn(|| {
            let mut known = 0;
            while known < DRIVES {
                if !writer.holds_back() {
                    known = attached.load(Ordering::Acquire);
                    writer.post(ShardId(1), message(CONTROLLER | known));
                }
                writer.deliver();
            }
            while writer.holds_back() {
                writer.deliver();
            }
        });
        // Dropped when this thread fails, so that the writer ends as well.
        let mut reader = reader;
        let (mut attached, mut known) = (0, 0);
        while known < DRIVES {
            match reader.receive().map(number) {
                Some(message) if message >= CONTROLLER => {
                    known = message - CONTROLLER;
                    assert!(
                        known <= attached,
                        "drive {known} is known before it is attached"
                    );
                }
                Some(message) => attached = message,
                None => sleep(&reader),
            }
        }
    });
}

#[test]
fn a_sender_that_stands_still_stops_nobody_and_is_heard_later() {
    let [mut writer, mut reader] = pair();
    let sender = reader.sender();
    sender.send(message(1));
    writer.post(ShardId(1), message(2));
    writer.deliver();
    let shared = reader.shared.clone();
    let held = shared.outside.stand_still();
    // Messages of shards must not overtake those from outside, but members' answers and the shard's own are read.
    assert!(reader.receive().is_none());
    sender.send(small_message(0, 9));
    assert!(matches!(reader.receive(), Some(Mail::Moved(_))));
    reader.post(ShardId(1), message(3));
    assert_eq!(receive_all(&mut reader), [3]);
    // The sender does not keep the shard from sleeping either; the next message wakes it.
    assert!(reader.fall_asleep());
    drop(held);
    sender.send(Mail::Engine(Message::WriteIntent(VolumeId(0))));
    assert!(readable(&reader, 0));
    reader.wake_up();
    assert_eq!(reader.receive().map(number), Some(1));
    assert!(matches!(reader.receive(), Some(Mail::Engine(_))));
    assert_eq!(receive_all(&mut reader), [2]);
}

#[test]
fn messages_that_nobody_reads_are_dropped_with_the_mailbox() {
    let [mut writer, reader] = pair();
    let content = Arc::new(());
    let message = || Mail::Port(Box::new(content.clone()));
    reader.sender().send(message());
    for _ in 0..2 * RING_MESSAGES {
        writer.post(ShardId(1), message());
    }
    writer.deliver();
    assert_eq!(Arc::strong_count(&content), 2 + 2 * RING_MESSAGES);
    drop(reader);
    writer.deliver();
    assert!(
        !writer.holds_back(),
        "messages to a mailbox that is gone are kept"
    );
    drop(writer);
    assert_eq!(Arc::strong_count(&content), 1);
}

#[test]
fn a_hundred_times_more_messages_than_have_room_arrive_and_cost_memory_once() {
    const SENDERS: u32 = 4;
    const EACH: u32 = 100 * ROOM as u32 / SENDERS;
    let mut mailbox = Mailbox::new().unwrap();
    for burst in 0..4 {
        let senders: Vec<_> = (0..SENDERS as i32)
            .map(|who| {
                let sender = mailbox.sender();
                std::thread::spawn(move || {
                    let before = allocations();
                    (0..EACH).for_each(|index| sender.send(small_message(who, index)));
                    allocations() - before
                })
            })
            .collect();
        let mut grown: u64 = senders.into_iter().map(|one| one.join().unwrap()).sum();
        let before = allocations();
        let mut next = [0; SENDERS as usize];
        while let Some(Mail::Moved(moved)) = mailbox.receive() {
            let expected = &mut next[moved.result as usize];
            assert_eq!(moved.index, *expected);
            *expected += 1;
        }
        assert_eq!(next, [EACH; SENDERS as usize]);
        grown += allocations() - before;
        assert_eq!(
            grown > 0,
            burst == 0,
            "burst {burst} took memory {grown} times"
        );
    }
}
