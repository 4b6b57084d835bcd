//! Clients that break the protocol, close in the middle, or send nothing.

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use super::client::{Client, expect_end, greet, option, pattern, request};
use super::rig::{MIB, Rig, impatient, wait_until};
use crate::nbd::server::{NbdLimits, Problem};
use crate::nbd::wire::*;

#[test]
fn garbage_ends_one_connection_and_no_other() {
    let rig = Rig::with(|_| ());
    let mut good = Client::simple(rig.connect(), "vol0");
    good.write(0, &[7; 4096], 0);

    let mut stream = rig.connect();
    greet(&mut stream);
    stream.write_all(&pattern(1, 5000)).unwrap();
    expect_end(&mut stream);

    let mut client = Client::simple(rig.connect(), "vol0");
    client.send(&request(CMD_READ, 0, 1, 0, 4096));
    // The server may close the connection in the middle of this write.
    let _ = client.stream.write_all(&pattern(2, 100_000));
    let mut rest = Vec::new();
    // The read may have been answered before the server saw the garbage.
    let _ = client.stream.read_to_end(&mut rest);
    assert!(rest.is_empty() || rest.len() == 16 + 4096);

    assert_eq!(good.read(0, 4096), [7; 4096]);
    wait_until("both protocol errors are counted", || {
        rig.stats(0).protocol_errors == 2
    });
    let problems = rig.problems.lock().unwrap().clone();
    assert!(
        problems
            .iter()
            .all(|problem| matches!(problem, Problem::Protocol(_))),
        "{problems:?}"
    );
    assert!(problems[1].to_string().contains("a request starts with"));
    drop((good, client, stream));
    rig.wait_until_idle();
}

#[test]
fn breaking_off_anywhere_costs_nothing() {
    let rig = Rig::with(|_| ());
    let mut good = Client::simple(rig.connect(), "vol1");
    for length in [0usize, 1, 4095, 60_000, 1 << 20] {
        // Closes in the middle of a payload.
        let mut client = Client::simple(rig.connect(), "vol0");
        client.send(&request(CMD_WRITE, 0, 1, 0, 2 << 20));
        client.send(&vec![0xdd; length]);
        drop(client);
    }
    for length in [1, 27] {
        // Closes in the middle of a header, and of the handshake.
        let mut client = Client::simple(rig.connect(), "vol0");
        client.send(&request(CMD_FLUSH, 0, 1, 0, 0)[..length]);
        let mut stream = rig.connect();
        greet(&mut stream);
        stream
            .write_all(&option(OPT_LIST, &[])[..length.min(15)])
            .unwrap();
    }
    good.write(0, &[3; 512], 0);
    assert_eq!(good.read(0, 512), [3; 512]);
    drop(good);
    rig.wait_until_idle();
    // No part of the broken writes was stored.
    let mut client = Client::simple(rig.connect(), "vol0");
    assert!(client.read(0, 2 << 20).iter().all(|byte| *byte == 0));
}

#[test]
fn memory_stays_until_the_engine_is_done_with_it() {
    let rig = Rig::with(|plan| plan.member_options = ",latency=300ms");
    let before = rig.report(0).available_bytes;
    let mut client = Client::simple(rig.connect(), "vol0");
    for cookie in 0..8 {
        client.send(&request(CMD_READ, 0, cookie, cookie * MIB, 1 << 20));
    }
    wait_until("all requests are in flight", || {
        rig.stats(0).requests_in_flight == 8
    });
    drop(client);
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(100) {
        let report = rig.report(0);
        let pinned = report.stats.requests_in_flight * MIB;
        assert!(before - report.available_bytes >= pinned, "{report:?}");
        std::thread::sleep(Duration::from_millis(1));
    }
    rig.wait_until_idle();
}

#[test]
fn clients_that_never_read_do_not_hold_up_others() {
    let rig = Rig::with(|plan| plan.pool_bytes = 64 << 20);
    let mut stuck: Vec<Client> = (0..3)
        .map(|_| Client::simple(rig.connect(), "vol0"))
        .collect();
    for client in &mut stuck {
        // More requests than fit into sockets, slots and memory, sent without blocking.
        client.stream.set_nonblocking(true).unwrap();
        for cookie in 0..5000 {
            let header = request(CMD_READ, 0, cookie, (cookie % 64) * MIB, 1 << 20);
            match client.stream.write(&header) {
                Ok(28) => {}
                other => {
                    println!("stopped after {cookie} requests: {other:?}");
                    break;
                }
            }
        }
    }
    wait_until("all three clients wait", || rig.stats(0).stalls >= 3);
    let stalls = rig.stats(0).stalls;
    let mut good = Client::simple(rig.connect(), "vol0");
    for round in 0..200 {
        let data = pattern(round, 65_536);
        good.write(round << 16, &data, 0);
        assert!(good.read(round << 16, 65_536) == data);
    }
    // A request of the largest size can always be served.
    let large = pattern(4, 4 << 20);
    good.write(0, &large, 0);
    assert!(good.read(0, 4 << 20) == large);
    println!("{stalls} stalls, {:?}", rig.report(0));
    drop((stuck, good));
    rig.wait_until_idle();
}

#[test]
fn a_handshake_has_to_end_in_time() {
    let rig = Rig::with(|plan| plan.limits = impatient());
    let mut through = Client::simple(rig.connect(), "vol0");
    let begin = Instant::now();
    let mut silent = rig.connect();
    greet(&mut silent);
    let mut talkative = rig.connect();
    greet(&mut talkative);
    expect_end(&mut silent);
    assert!(begin.elapsed() >= Duration::from_millis(290));
    let mut rest = Vec::new();
    let _ = talkative.read_to_end(&mut rest);
    wait_until("both timeouts are counted", || {
        rig.stats(0).handshakes_timed_out == 2
    });
    assert_eq!(rig.problems.lock().unwrap()[0], Problem::HandshakeTimeout);
    assert_eq!(
        through.read(0, 512).len(),
        512,
        "a client past its handshake has no such deadline"
    );
}

#[test]
fn a_full_port_refuses_until_somebody_leaves() {
    let limits = NbdLimits {
        connections_max: 2,
        ..NbdLimits::default()
    };
    let rig = Rig::with(|plan| plan.limits = limits);
    let first = Client::simple(rig.connect(), "vol0");
    let mut second = Client::simple(rig.connect(), "vol0");
    expect_end(&mut rig.connect());
    wait_until("the refusal is counted", || {
        rig.stats(0).connections_refused == 1
    });
    assert_eq!(
        rig.problems.lock().unwrap()[0],
        Problem::Full { connections_max: 2 }
    );
    drop(first);
    wait_until("the first connection is closed", || {
        rig.stats(0).connections_open == 1
    });
    let mut third = Client::simple(rig.connect(), "vol0");
    assert_eq!(third.read(0, 512), second.read(0, 512));
}

#[test]
fn single_bytes_add_up() {
    let rig = Rig::with(|_| ());
    let mut client = Client::simple(rig.connect(), "vol0");
    let mut bytes = request(CMD_WRITE, 0, 1, 0, 1024);
    bytes.extend(pattern(9, 1024));
    for (at, byte) in bytes.iter().enumerate() {
        client.send(&[*byte]);
        if at % 64 == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    assert_eq!(client.reply(|_| 0).cookie, 1);
    assert_eq!(client.read(0, 1024), pattern(9, 1024));
}
