//! A hundred times more requests, bytes and connections than a port has room for: each is answered correctly or refused
//! at once, and the shard allocates no more memory for them.

use std::io::Write;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use super::client::{Client, expect_end, greet, pattern, request};
use super::rig::{MIB, Rig, wait_until};
use crate::nbd::server::requests::REQUESTS_MAX;
use crate::nbd::server::{NbdLimits, Problem};
use crate::nbd::wire::*;

/// Fills the first bytes of the volume and returns them.
fn fill(rig: &Rig, length_bytes: u64) -> Vec<u8> {
    let data = pattern(11, length_bytes as usize);
    let mut client = Client::simple(rig.connect(), "vol0");
    for (at, part) in data.chunks(1 << 20).enumerate() {
        client.write(at as u64 * MIB, part, 0);
    }
    drop(client);
    rig.wait_until_idle();
    data
}

fn limited(connections_max: u16) -> NbdLimits {
    NbdLimits {
        connections_max,
        ..NbdLimits::default()
    }
}

/// The highest value seen while `work` ran.
fn most_of<T: Send>(
    rig: &Rig,
    what: impl Fn(&Rig) -> u64 + Sync,
    work: impl FnOnce() -> T + Send,
) -> (u64, T) {
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let watch = scope.spawn(|| {
            let mut most = 0;
            while !ended.load(Ordering::Relaxed) {
                most = most.max(what(rig));
                std::thread::yield_now();
            }
            most
        });
        let result = work();
        ended.store(true, Ordering::Relaxed);
        (watch.join().unwrap(), result)
    })
}

/// Sends `count` reads of `length_bytes` at once, at places of `expected`, and compares their data.
fn read_all(client: &mut Client, count: u64, length_bytes: u32, expected: &[u8]) {
    let places = expected.len() as u64 / u64::from(length_bytes);
    let place = |cookie: u64| cookie * 7 % places * u64::from(length_bytes);
    let mut sender = client.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for cookie in 0..count {
                let header = request(CMD_READ, 0, cookie, place(cookie), length_bytes);
                sender.write_all(&header).unwrap();
            }
        });
        let mut seen = vec![false; count as usize];
        for _ in 0..count {
            let reply = client.reply(|_| length_bytes);
            assert_eq!(reply.error, 0);
            let from = place(reply.cookie) as usize;
            let expected = &expected[from..from + length_bytes as usize];
            assert!(reply.data == expected, "cookie {}", reply.cookie);
            let seen = &mut seen[reply.cookie as usize];
            assert!(!std::mem::replace(seen, true), "answered twice");
        }
    });
}

fn in_flight(rig: &Rig) -> u64 {
    rig.stats(0).requests_in_flight
}

/// How often each shard's thread has allocated so far, including the turn that answered last.
fn taken(rig: &Rig) -> Vec<u64> {
    let told = |shard: usize| {
        // The turn that is under way may have begun before the last answer, so the next one counts.
        for _ in 0..2 {
            let turns = rig.report(shard).turns;
            rig.peers[shard].wake();
            wait_until("another turn", || rig.report(shard).turns > turns);
        }
        rig.report(shard).allocations
    };
    (0..rig.peers.len()).map(told).collect()
}

/// The requests pass the session, the engine and the ring, and the other shard if that owns the row.
#[test]
fn no_request_takes_memory() {
    const EACH: u64 = 2000;
    let rig = Rig::with(|plan| plan.shards = 2);
    let mut clients = [0, 1].map(|shard| Client::simple(rig.connect_to(shard), "vol0"));
    let mut round = |seed| {
        for at in 0..EACH {
            let offset = at * 37 % 1024 * 4096;
            let fua = if at % 16 == 0 { CMD_FLAG_FUA } else { 0 };
            for (who, client) in (0..).zip(&mut clients) {
                let data = pattern(seed + who + at, 4096);
                client.write(offset, &data, fua);
                assert_eq!(client.read(offset, 4096), data);
                if at % 32 == 0 {
                    assert_eq!(client.ask(CMD_FLUSH, 0, 0, 0).error, 0);
                }
            }
        }
        taken(&rig)
    };
    // One-time allocations happen in the first round.
    let before = round(0);
    assert_eq!(round(EACH), before);
    assert!((0..2).all(|shard| rig.stats(shard).requests > 4 * EACH));
}

#[test]
fn a_hundred_times_more_requests_than_one_connection_has_slots() {
    let rig = Rig::with(|plan| plan.member_options = ",latency=2ms");
    let expected = fill(&rig, 4 * MIB);
    let count = 100 * REQUESTS_MAX as u64;
    let mut client = Client::simple(rig.connect(), "vol0");
    let mut taken = 0;
    for round in 0..2 {
        let (most, ()) = most_of(&rig, in_flight, || {
            read_all(&mut client, count, 512, &expected)
        });
        assert_eq!(
            most, REQUESTS_MAX as u64,
            "requests in flight fill exactly the slots"
        );
        let before = std::mem::replace(&mut taken, rig.report(0).allocations);
        assert!(round == 0 || taken == before, "memory was allocated again");
    }
    assert!(rig.stats(0).stalls >= 100);
    drop(client);
    rig.wait_until_idle();
}

#[test]
fn a_hundred_times_more_requests_than_all_connections_have_slots() {
    const CONNECTIONS: u64 = 16;
    let rig = Rig::with(|plan| {
        plan.limits = limited(CONNECTIONS as u16);
        plan.member_options = ",latency=2ms";
    });
    let expected = fill(&rig, 4 * MIB);
    let clients = || Mutex::new(Client::simple(rig.connect(), "vol0"));
    let clients: Vec<_> = (0..CONNECTIONS).map(|_| clients()).collect();
    let each = 100 * REQUESTS_MAX as u64;
    let mut taken = 0;
    // Queues that swap places grow in the first rounds.
    for round in 0..3 {
        let (most, ()) = most_of(&rig, in_flight, || {
            std::thread::scope(|scope| {
                for client in &clients {
                    scope.spawn(|| read_all(&mut client.lock().unwrap(), each, 512, &expected));
                }
            });
        });
        let slots = CONNECTIONS * REQUESTS_MAX as u64;
        println!(
            "{most} of {slots} in flight, {} allocations",
            rig.report(0).allocations - taken
        );
        assert!(most > slots / 2 && most <= slots, "{most}");
        let before = std::mem::replace(&mut taken, rig.report(0).allocations);
        // A queue may still grow when it is fuller than ever before, but not in proportion to the requests.
        assert!(
            round < 2 || taken < before + each / 100,
            "memory was allocated again"
        );
    }
    drop(clients);
    rig.wait_until_idle();
}

#[test]
fn a_hundred_times_more_payload_than_there_is_memory() {
    const CONNECTIONS: u64 = 8;
    const POOL_BYTES: u64 = 16 * MIB;
    let rig = Rig::with(|plan| {
        plan.limits = limited(CONNECTIONS as u16);
        plan.pool_bytes = POOL_BYTES as usize;
        plan.member_options = ",latency=1ms";
    });
    let expected = fill(&rig, 32 * MIB);
    let free_bytes = rig.report(0).available_bytes;
    let held_bytes = |rig: &Rig| free_bytes - rig.report(0).available_bytes;
    let (most, ()) = most_of(&rig, held_bytes, || {
        std::thread::scope(|scope| {
            for _ in 0..CONNECTIONS {
                scope.spawn(|| {
                    let mut client = Client::simple(rig.connect(), "vol0");
                    let count = 100 * POOL_BYTES / CONNECTIONS / MIB;
                    read_all(&mut client, count, 1 << 20, &expected);
                });
            }
        });
    });
    assert!(most > POOL_BYTES / 2, "only {most} bytes were in use");
    assert!(rig.stats(0).stalls > 0, "no connection had to wait");
    rig.wait_until_idle();
}

#[test]
fn a_hundred_times_more_connections_than_there_may_be() {
    const CONNECTIONS: usize = 8;
    let rig = Rig::with(|plan| plan.limits = limited(CONNECTIONS as u16));
    let expected = fill(&rig, MIB);
    let refused_before = rig.stats(0).connections_refused;
    let mut clients: Vec<Client> = (0..CONNECTIONS)
        .map(|_| Client::simple(rig.connect(), "vol0"))
        .collect();
    // The refused clients do not close their sockets.
    let mut more: Vec<UnixStream> = (0..99 * CONNECTIONS).map(|_| rig.connect()).collect();
    more.iter_mut().for_each(expect_end);
    let refused = || rig.stats(0).connections_refused - refused_before;
    wait_until("all refusals are counted", || {
        refused() == 99 * CONNECTIONS as u64
    });
    assert_eq!(rig.stats(0).connections_open, CONNECTIONS as u64);
    let full = Problem::Full {
        connections_max: CONNECTIONS,
    };
    assert_eq!(*rig.problems.lock().unwrap(), vec![full; 99 * CONNECTIONS]);
    for client in &mut clients {
        read_all(client, 10, 4096, &expected);
    }
    drop((clients, more));
    rig.wait_until_idle();
    // A connection in the middle of its handshake takes a place, too.
    let mut streams: Vec<UnixStream> = (0..CONNECTIONS).map(|_| rig.connect()).collect();
    streams.iter_mut().for_each(greet);
    expect_end(&mut rig.connect());
    drop(streams);
    rig.wait_until_idle();
    assert_eq!(
        Client::simple(rig.connect(), "vol0").read(0, 512),
        expected[..512]
    );
}
