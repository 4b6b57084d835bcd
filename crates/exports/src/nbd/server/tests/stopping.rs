//! How a port stops.

use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::client::{Client, expect_end, greet, pattern, request};
use super::rig::{MIB, Rig, impatient, wait_until};
use crate::nbd::wire::*;

#[test]
fn what_is_in_flight_is_finished_and_the_rest_refused() {
    let rig = Rig::with(|plan| plan.member_options = ",latency=100ms");
    let mut busy = Client::simple(rig.connect(), "vol0");
    let mut idle = Client::simple(rig.connect(), "vol1");
    let mut negotiating = rig.connect();
    greet(&mut negotiating);
    for cookie in 0..20 {
        busy.send(&request(CMD_READ, 0, cookie, cookie * MIB, 65_536));
    }
    // A write whose payload is partly sent is completed.
    busy.send(&request(CMD_WRITE, 0, 20, 0, 65_536));
    busy.send(&pattern(1, 30_000));
    wait_until("all requests have arrived", || rig.stats(0).requests == 21);
    let drained = rig.stop(0);
    wait_until("the socket refuses connections", || {
        UnixStream::connect(&rig.path).is_err()
    });
    busy.send(&pattern(1, 65_536)[30_000..]);
    busy.send(&request(CMD_READ, 0, 21, 0, 65_536));
    let mut answered = [false; 22];
    for _ in 0..22 {
        let reply = busy.reply(|cookie| if cookie < 20 { 65_536 } else { 0 });
        assert_eq!(
            reply.error,
            if reply.cookie == 21 { 108 } else { 0 },
            "{}",
            reply.cookie
        );
        answered[reply.cookie as usize] = true;
    }
    assert_eq!(answered, [true; 22]);
    busy.expect_end();
    idle.expect_end();
    expect_end(&mut negotiating);
    wait_until("the port has stopped", || drained.load(Ordering::SeqCst));
    rig.wait_until_idle();
    // A second stop is answered as well, and connections that come by message are closed.
    expect_end(&mut rig.connect_to(0));
    let again = rig.stop(0);
    wait_until("the second stop is answered", || {
        again.load(Ordering::SeqCst)
    });
}

#[test]
fn a_client_that_never_stops_asking_does_not_hold_up_the_end() {
    let rig = Rig::with(|plan| plan.limits = impatient());
    let mut client = Client::simple(rig.connect(), "vol0");
    let mut stream = client.stream.try_clone().unwrap();
    let asking = std::thread::spawn(move || {
        // Sends requests until the server closes the connection.
        let header = request(CMD_READ, 0, 1, 0, 512);
        while std::io::Write::write_all(&mut stream, &header).is_ok() {}
    });
    let reading = std::thread::spawn(move || {
        std::io::copy(&mut client.stream, &mut std::io::sink()).unwrap_or(0)
    });
    wait_until("the client has sent many requests", || {
        rig.stats(0).requests > 1000
    });
    let drained = rig.stop(0);
    wait_until("the port has stopped", || drained.load(Ordering::SeqCst));
    assert!(rig.stats(0).requests_refused > 0);
    asking.join().unwrap();
    reading.join().unwrap();
    rig.wait_until_idle();
}

#[test]
fn clients_that_take_nothing_are_left_after_the_grace() {
    let rig = Rig::with(|plan| plan.limits = impatient());
    let mut stuck = Client::simple(rig.connect(), "vol0");
    for cookie in 0..100 {
        stuck.send(&request(CMD_READ, 0, cookie, 0, 1 << 20));
    }
    let mut halfway = Client::simple(rig.connect(), "vol0");
    halfway.send(&request(CMD_WRITE, 0, 1, 0, 32 << 20));
    halfway.send(&vec![1; 5 << 20]);
    wait_until("a connection is stuck", || rig.stats(0).stalls > 0);
    let begin = Instant::now();
    let drained = rig.stop(0);
    wait_until("the port has stopped", || drained.load(Ordering::SeqCst));
    assert!(
        begin.elapsed() >= Duration::from_millis(390),
        "{:?}",
        begin.elapsed()
    );
    rig.wait_until_idle();
}

#[test]
fn a_port_without_clients_stops_at_once() {
    let rig = Rig::with(|plan| plan.shards = 2);
    let gone = Client::simple(rig.connect(), "vol0");
    gone.stream.shutdown(Shutdown::Both).unwrap();
    rig.wait_until_idle();
    let begin = Instant::now();
    for drained in [rig.stop(0), rig.stop(1)] {
        wait_until("the port has stopped", || drained.load(Ordering::SeqCst));
    }
    assert!(begin.elapsed() < Duration::from_secs(2));
}
