//! Many requests and replies at once: cut at any byte, half closed, or delayed for a moment.

use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use super::client::{Client, pattern, request};
use super::rig::{MIB, PATIENCE, Rig, wait_until};
use crate::nbd::server::NewConnection;
use crate::nbd::wire::*;

const AREA_BYTES: u64 = 4 * MIB;

/// Fills the first bytes of the volume and returns them.
fn fill(rig: &Rig) -> Vec<u8> {
    let data = pattern(11, AREA_BYTES as usize);
    Client::simple(rig.connect(), "vol0").write(0, &data, 0);
    data
}

/// Offset and length of the read with this cookie. Lengths vary, and offsets come in no order.
fn place(cookie: u64) -> (u64, u32) {
    let length = 512 * (1 + (cookie * 37) % 50);
    let offset = 512 * ((cookie * 1009) % ((AREA_BYTES - length) / 512));
    (offset, length as u32)
}

/// Read requests with these cookies; every seventh reaches past the end.
fn reads(client: &Client, cookies: std::ops::Range<u64>) -> Vec<u8> {
    let header = |cookie| {
        let (offset, length) = place(cookie);
        let from = if cookie % 7 == 6 {
            client.size_bytes
        } else {
            offset
        };
        request(CMD_READ, 0, cookie, from, length)
    };
    cookies.flat_map(header).collect()
}

/// Receives one reply to [`reads`], checks it, and returns its cookie.
fn take_reply(client: &mut Client, expected: &[u8]) -> u64 {
    let reply = client.reply(|cookie| place(cookie).1);
    let (offset, length) = place(reply.cookie);
    if reply.cookie % 7 == 6 {
        assert_eq!(reply.error, 22);
    } else {
        assert_eq!(reply.error, 0);
        let expected = &expected[offset as usize..][..length as usize];
        assert!(reply.data == expected, "cookie {}", reply.cookie);
    }
    reply.cookie
}

#[test]
fn replies_that_a_full_socket_cuts_stay_whole() {
    let rig = Rig::with(|_| ());
    let expected = fill(&rig);
    // Room for one page up to more than all replies need.
    for room_bytes in [2048, 10_000, 70_000, 8 << 20] {
        let (stream, server) = UnixStream::pair().unwrap();
        rustix::net::sockopt::set_socket_send_buffer_size(&server, room_bytes).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        rig.mail(0, NewConnection::new(server));
        let mut client = Client::structured(stream, "vol0");
        for round in 0..3 {
            let cookies = round * 200..round * 200 + 120;
            let requests = reads(&client, cookies.clone());
            client.send(&requests);
            // All requests are answered before the first reply is read.
            std::thread::sleep(Duration::from_millis(10));
            let mut seen: Vec<u64> = cookies
                .clone()
                .map(|_| take_reply(&mut client, &expected))
                .collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(cookies));
        }
    }
    rig.wait_until_idle();
}

#[test]
fn requests_beyond_the_slots_are_taken_as_soon_as_replies_have_left() {
    let rig = Rig::with(|_| ());
    let expected = fill(&rig);
    let (stream, server) = UnixStream::pair().unwrap();
    rustix::net::sockopt::set_socket_send_buffer_size(&server, 100_000).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    rig.mail(0, NewConnection::new(server));
    let mut client = Client::simple(stream, "vol0");
    let mut sender = client.stream.try_clone().unwrap();
    let requests = reads(&client, 0..20_000);
    let begin = Instant::now();
    std::thread::scope(|scope| {
        scope.spawn(|| sender.write_all(&requests).unwrap());
        for _ in 0..20_000 {
            take_reply(&mut client, &expected);
        }
    });
    println!("{:?}, {:?}", begin.elapsed(), rig.stats(0));
    assert!(rig.stats(0).stalls > 20);
}

#[test]
fn a_client_that_sends_no_more_gets_what_is_in_flight() {
    let rig = Rig::with(|plan| plan.member_options = ",latency=50ms");
    let expected = fill(&rig);
    let mut client = Client::simple(rig.connect(), "vol0");
    let requests = reads(&client, 0..100);
    client.send(&requests);
    client.stream.shutdown(Shutdown::Write).unwrap();
    let mut seen: Vec<u64> = (0..100)
        .map(|_| take_reply(&mut client, &expected))
        .collect();
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..100));
    client.expect_end();
    rig.wait_until_idle();
}

#[test]
fn a_client_that_takes_no_more_ends_alone() {
    let rig = Rig::with(|plan| plan.member_options = ",latency=50ms");
    let expected = fill(&rig);
    let mut other = Client::simple(rig.connect(), "vol0");
    for round in 0..4 {
        let mut client = Client::simple(rig.connect(), "vol0");
        let requests = reads(&client, 0..100);
        client.send(&requests);
        wait_until("the requests are in flight", || {
            rig.stats(0).requests_in_flight > 50
        });
        if round % 2 == 0 {
            client.stream.shutdown(Shutdown::Read).unwrap();
            // The client's socket stays open until the server has closed the connection.
            wait_until("the connection is closed", || {
                rig.stats(0).connections_open == 1
            });
        }
        drop(client);
        let (offset, length) = place(round);
        let expected = &expected[offset as usize..][..length as usize];
        assert!(other.read(offset, length) == expected);
    }
    drop(other);
    rig.wait_until_idle();
}

#[test]
fn a_client_behind_with_its_replies_is_served_in_batches() {
    let rig = Rig::with(|_| ());
    let expected = fill(&rig);
    let mut client = Client::simple(rig.connect(), "vol0");
    // With sixty requests in flight the client always has replies left to read.
    let first = reads(&client, 0..60);
    client.send(&first);
    let mut seen = Vec::new();
    for cookie in 60..6000 {
        seen.push(take_reply(&mut client, &expected));
        let next = reads(&client, cookie..cookie + 1);
        client.send(&next);
    }
    seen.extend((0..60).map(|_| take_reply(&mut client, &expected)));
    seen.sort_unstable();
    assert!(seen.into_iter().eq(0..6000));
    wait_until("a receive has been delayed", || {
        rig.stats(0).receives_delayed > 0
    });

    let delayed = rig.stats(0).receives_delayed;
    let mut patient = Client::simple(rig.connect(), "vol0");
    for cookie in 0..500 {
        let (offset, length) = place(cookie);
        let expected = &expected[offset as usize..][..length as usize];
        assert!(patient.read(offset, length) == expected);
    }
    assert_eq!(
        rig.stats(0).receives_delayed,
        delayed,
        "the server delayed receives from a client that waits"
    );
    // While both clients are silent, the server wakes only to look at its deadlines.
    std::thread::sleep(Duration::from_millis(100));
    let before = rig.report(0).turns;
    std::thread::sleep(Duration::from_millis(500));
    let turns = rig.report(0).turns - before;
    assert!(turns < 30, "{turns} turns of an idle server");
}
