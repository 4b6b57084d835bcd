use super::*;
use crate::arena::ArenaOptions;
use engine::units::Buffer;
use rustix::net::{AddressFamily, SocketFlags, SocketType, socketpair};
use std::os::fd::AsFd;

fn ring(options: RingOptions) -> Ring {
    let arena = |length_bytes| {
        Arena::new(ArenaOptions {
            length_bytes,
            prefault: false,
            lock: false,
        })
        .unwrap()
    };
    Ring::new(options, arena(2 << 20), arena(2 << 20)).unwrap()
}

/// Waits for `count` answers, in the order of arrival.
fn answers(ring: &mut Ring, count: usize) -> Vec<Completed> {
    let mut completed = Vec::new();
    let deadline = Instant::now() + Duration::from_secs(20);
    while completed.len() < count {
        assert!(Instant::now() < deadline, "got {completed:?}");
        ring.wait(Some(Nanos(10_000_000)));
        ring.reap(&mut completed, usize::MAX);
    }
    completed
}

fn sockets() -> (OwnedFd, OwnedFd) {
    socketpair(
        AddressFamily::UNIX,
        SocketType::STREAM,
        SocketFlags::CLOEXEC,
        None,
    )
    .unwrap()
}

#[test]
fn payload_travels_through_sockets_in_pieces() {
    let mut ring = ring(RingOptions::default());
    println!("{}", ring.report());
    let (left, right) = sockets();
    let start = ring.arena().start();
    ring.arena().write(start, b"headpayload");
    let pieces = [(start, 4), (start.at(4), 4), (start.at(8), 3)];
    ring.send_vectored(left.as_fd(), pieces, 77);
    ring.receive(right.as_fd(), start.at(4096), 11, true, 78);
    let mut seen: Vec<_> = answers(&mut ring, 2)
        .iter()
        .map(|c| (c.class, c.user_data, c.result))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [(CLASS_PORT, 77, 11), (CLASS_PORT, 78, 11)]);
    let mut bytes = [0; 11];
    ring.arena().read(start.at(4096), &mut bytes);
    assert_eq!(&bytes, b"headpayload");

    ring.send(right.as_fd(), start, 4, 1);
    ring.receive(left.as_fd(), start.at(8192), 100, false, 2);
    let mut seen: Vec<_> = answers(&mut ring, 2)
        .iter()
        .map(|c| (c.user_data, c.result))
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, [(1, 4), (2, 4)]);
}

#[test]
fn a_full_socket_takes_a_part_at_once_or_nothing() {
    let mut ring = ring(RingOptions::default());
    let (left, right) = sockets();
    let start = ring.arena().start();
    let bytes: Vec<u8> = (0..1 << 20).map(|at: u32| (at / 100) as u8).collect();
    ring.arena().write(start, &bytes);
    // Pieces that do not end where the socket's room ends.
    let pieces = (0..10).map(|n| (start.at(n * 100_001), 100_000));
    let sent = ring.send_at_once(left.as_fd(), pieces).unwrap() as usize;
    assert!(sent > 0 && sent < 1_000_000, "{sent}");
    let again = ring.send_at_once(left.as_fd(), [(start, 100_000)]);
    assert_eq!(again, Err(11), "EAGAIN");
    assert!(ring.unread_bytes(left.as_fd()) as usize >= sent);
    let mut received = vec![0; sent];
    let mut stream = std::os::unix::net::UnixStream::from(right);
    std::io::Read::read_exact(&mut stream, &mut received).unwrap();
    let expected = (0..10).flat_map(|n| &bytes[n * 100_001..][..100_000]);
    assert!(received.iter().eq(expected.take(sent)));
    assert_eq!(ring.unread_bytes(left.as_fd()), 0);
    drop(stream);
    let broken = ring.send_at_once(left.as_fd(), [(start, 1)]);
    assert_eq!(broken, Err(32), "EPIPE, and no signal");
    assert!(!ring.is_busy(), "a send at once leaves no answer to come");
}

#[test]
fn a_delayed_receive_finds_what_came_meanwhile() {
    for best_mode in [RingMode::Deferred, RingMode::Cooperative] {
        let mut ring = ring(RingOptions {
            best_mode,
            ..RingOptions::default()
        });
        let (left, right) = sockets();
        let start = ring.arena().start();
        let mut stream = std::os::unix::net::UnixStream::from(right);
        std::io::Write::write_all(&mut stream, b"one").unwrap();
        let begin = Instant::now();
        ring.receive_after(255, left.as_fd(), start, 100, 7);
        std::io::Write::write_all(&mut stream, b"two").unwrap();
        let answer = answers(&mut ring, 1)[0];
        assert_eq!((answer.user_data, answer.result), (7, 6));
        let waited = begin.elapsed() >= Duration::from_micros(255);
        assert!(waited || !ring.can_delay());
        assert!(!ring.is_busy(), "the delay itself is not answered");
        // Dropping a ring ends both the delay and the receive.
        ring.receive_after(255, left.as_fd(), start, 100, 8);
        ring.submit();
        drop(ring);
    }
}

#[test]
fn what_can_wait_reaches_the_kernel_after_some_turns() {
    let mut ring = ring(RingOptions::default());
    let (left, right) = sockets();
    let start = ring.arena().start();
    let mut stream = std::os::unix::net::UnixStream::from(right);
    std::io::Write::write_all(&mut stream, b"x").unwrap();
    ring.receive(left.as_fd(), start, 100, false, 1);
    for turn in 1..PATIENCE_TURNS {
        ring.submit_due();
        assert!(!ring.has_completions(), "turn {turn}");
    }
    ring.submit_due();
    assert!(
        ring.has_completions(),
        "the entry was not submitted in time"
    );
    assert_eq!(answers(&mut ring, 1)[0].result, 1);
    // An urgent entry takes the waiting ones along.
    ring.receive(left.as_fd(), start, 100, false, 2);
    std::io::Write::write_all(&mut stream, b"y").unwrap();
    ring.send(left.as_fd(), start, 4, 3);
    ring.submit_due();
    assert!(ring.has_completions());
    assert_eq!(answers(&mut ring, 2).len(), 2);
}

#[test]
fn memory_outside_the_arena_is_refused() {
    let mut ring = ring(RingOptions::default());
    let (left, _right) = sockets();
    let outside = Buffer(ring.arena().start().0 - 1);
    ring.send(left.as_fd(), outside, 4, 1);
    ring.receive(left.as_fd(), outside, 4, false, 2);
    ring.send_vectored(left.as_fd(), [(outside, 4)], 3);
    let start = ring.arena().start();
    ring.send_vectored(left.as_fd(), (0..40).map(|n| (start.at(n * 100), 50)), 4);
    let seen: Vec<_> = answers(&mut ring, 4)
        .iter()
        .map(|c| (c.user_data, c.result))
        .collect();
    assert_eq!(seen, [(1, -EFAULT), (2, -EFAULT), (3, -EFAULT), (4, -90)]);
    ring.receive_after(9, left.as_fd(), outside, 4, 5);
    assert_eq!(answers(&mut ring, 1)[0].result, -EFAULT);
    let at_once = ring.send_at_once(left.as_fd(), [(start, 1), (outside, 4)]);
    assert_eq!(at_once, Err(EFAULT));
    let many = (0..40).map(|n| (start.at(n * 100), 50));
    assert_eq!(ring.send_at_once(left.as_fd(), many), Err(90));
}

#[test]
fn connections_are_accepted_watched_cancelled_and_closed() {
    let mut ring = ring(RingOptions::default());
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    ring.accept(listener.as_fd(), 5);
    ring.submit();
    let client = std::os::unix::net::UnixStream::connect(&path).unwrap();
    let accepted = answers(&mut ring, 1)[0];
    assert_eq!(accepted.user_data, 5);
    let server = ring.take_accepted(accepted.result).expect("a connection");
    assert!(ring.take_accepted(accepted.result).is_none());

    ring.watch(server.as_fd(), 6);
    ring.submit();
    // It goes on although nothing is read.
    for _ in 0..3 {
        std::io::Write::write_all(&mut &client, b"x").unwrap();
        let told = answers(&mut ring, 1)[0];
        assert_eq!(told.user_data, 6);
        assert!(told.result > 0, "{told:?}");
    }
    ring.cancel(6);
    let ended = answers(&mut ring, 4);
    let ended: Vec<_> = ended.iter().filter(|c| c.class == CLASS_PORT).collect();
    assert_eq!((ended.len(), ended[0].user_data), (1, 6));
    assert_eq!(ended[0].result, -125);

    let start = ring.arena().start();
    ring.receive(server.as_fd(), start, 10, true, 7);
    ring.submit();
    ring.cancel(7);
    let all = answers(&mut ring, 4);
    let answer = all
        .iter()
        .find(|c| c.class == CLASS_PORT)
        .expect("an answer");
    assert_eq!(answer.user_data, 7);
    assert!(answer.result == 3 || answer.result == -125, "{answer:?}");
    ring.close(server, 8);
    assert!(
        answers(&mut ring, 1)
            .iter()
            .any(|c| c.user_data == 8 && c.result == 0)
    );
    drop(client);
}

/// A file can always be read, so there is nothing to wait for.
#[test]
fn a_watch_that_the_kernel_ends_says_so() {
    let mut ring = ring(RingOptions::default());
    let file = tempfile::tempfile().unwrap();
    ring.watch(file.as_fd(), 6);
    ring.submit();
    let ended = answers(&mut ring, 1)[0];
    assert_eq!((ended.user_data, ended.result), (6, WATCH_ENDED));
}

/// A hanging I/O is cancelled at its deadline, by its own number. Other I/O of the same file continues.
#[test]
fn a_members_io_is_cancelled_by_its_own_number() {
    const ECANCELED: i32 = 125;
    let mut ring = ring(RingOptions::default());
    let (left, _right) = sockets();
    let slot = ring.open_file(left.as_fd());
    for index in [0, 5] {
        let address = ring.arena().start().0 as *mut u8;
        let entry = opcode::Read::new(types::Fd(slot.number()), address, 512).build();
        // SAFETY: the first sector of the arena; nothing ends up in it.
        unsafe { ring.push_member(entry, slot, index) }
    }
    ring.submit();
    ring.cancel_member(5);
    let mut answered = answers(&mut ring, 2);
    answered.retain(|answer| answer.class == CLASS_MEMBER);
    let answered: Vec<_> = answered.iter().map(|a| (a.user_data, a.result)).collect();
    assert_eq!(answered, [(5, -ECANCELED)]);
}

#[test]
fn a_full_queue_loses_nothing() {
    for best_mode in [
        RingMode::Deferred,
        RingMode::Cooperative,
        RingMode::Interrupting,
    ] {
        let sizes = RingOptions {
            submission_entries: 4,
            completion_entries: 8,
            best_mode,
        };
        read_a_thousand_times(&mut ring(sizes));
    }
}

fn read_a_thousand_times(ring: &mut Ring) {
    let file = tempfile::tempfile().unwrap();
    file.set_len(1 << 20).unwrap();
    let slot = ring.open_file(file.as_fd());
    let start = ring.arena().start();
    for index in 0..1000 {
        let address = start.0 as *mut u8;
        let entry = opcode::Read::new(types::Fd(slot.number()), address, 512).build();
        // SAFETY: the first sector of the arena; what ends up in it does not matter.
        unsafe { ring.push_member(entry, slot, index) }
    }
    let mut seen: Vec<u64> = answers(ring, 1000)
        .iter()
        .map(|completed| {
            assert_eq!((completed.class, completed.result), (CLASS_MEMBER, 512));
            completed.user_data
        })
        .collect();
    seen.sort_unstable();
    assert_eq!(seen, (0..1000).collect::<Vec<_>>());
    assert!(!ring.is_busy());
    ring.close_file(slot);
}

#[test]
fn dropping_a_ring_ends_what_is_in_flight() {
    let mut ring = ring(RingOptions::default());
    let (left, right) = sockets();
    let start = ring.arena().start();
    let arena = Arc::downgrade(ring.arena());
    ring.receive(left.as_fd(), start, 100, true, 1);
    ring.submit();
    let before = Instant::now();
    drop(ring);
    assert!(before.elapsed() < DRAIN_MAX);
    assert!(
        arena.upgrade().is_none(),
        "the memory is released, not leaked"
    );
    drop(right);
}

#[test]
fn memory_that_the_kernel_has_not_let_go_of_is_kept() {
    let mut ring = ring(RingOptions::default());
    let arena = Arc::downgrade(ring.arena());
    ring.drain_max = Duration::from_millis(10);
    // Stands for an I/O of a hanging drive, which cannot be cancelled.
    ring.in_flight += 1;
    drop(ring);
    assert!(arena.upgrade().is_some(), "the drive may still write to it");
}

#[test]
fn operations_that_are_left_behind_keep_their_memory_and_are_not_waited_for() {
    let mut ring = ring(RingOptions::default());
    let arena = Arc::downgrade(ring.arena());
    ring.in_flight += 2;
    ring.leave_behind(2);
    let before = Instant::now();
    drop(ring);
    assert!(before.elapsed() < DRAIN_MAX);
    assert!(
        arena.upgrade().is_some(),
        "the kernel may still write to it"
    );
}

#[test]
fn waiting_ends_in_time() {
    let mut ring = ring(RingOptions::default());
    let before = Instant::now();
    ring.wait(Some(Nanos(20_000_000)));
    let waited = before.elapsed();
    assert!(
        waited >= Duration::from_millis(15) && waited < Duration::from_secs(5),
        "{waited:?}"
    );
}
