//! How connections leave one port for another.

use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use engine::units::Nanos;

use super::client::{Client, expect_end, greet, pattern, request};
use super::rig::{MIB, Rig, impatient, wait_until};
use crate::nbd::server::{HandedOver, NewConnection, Problem};
use crate::nbd::wire::*;
use crate::nbd::{Frozen, ThawError};

/// All connections of shard 0, once none is left there.
fn handed_over(rig: &Rig) -> Vec<HandedOver> {
    let (kept, drained) = rig.hand_over(0);
    wait_until("all connections have left", || {
        drained.load(Ordering::SeqCst)
    });
    rig.wait_until_idle();
    std::mem::take(&mut *kept.lock().unwrap())
}

fn problems(rig: &Rig) -> Vec<Problem> {
    rig.problems.lock().unwrap().clone()
}

#[test]
fn clients_go_on_wherever_they_were() {
    let before = Rig::with(|plan| plan.member_options = ",latency=100ms");
    let after = Rig::new(Default::default());
    let mut busy = Client::simple(before.connect(), "vol0");
    let mut halfway = Client::structured(before.connect(), "vol0");
    let mut refused = Client::simple(before.connect(), "vol0-ro");
    // The lengths of their handshakes.
    let chosen_bytes = 30 + 93 + 33;
    for cookie in 0..20 {
        busy.send(&request(CMD_READ, 0, cookie, cookie * MIB, 65_536));
    }
    busy.send(&request(CMD_WRITE, 0, 20, 0, 65_536));
    busy.send(&pattern(1, 30_000));
    // The header of its next request has arrived in part, and so has the payload of a write that is refused.
    let header = request(CMD_READ, 0, 77, 0, 4096);
    halfway.send(&header[..11]);
    refused.send(&request(CMD_WRITE, 0, 5, 0, 4096));
    refused.send(&pattern(2, 1000));
    let silent = before.connect();
    let mut greeted = before.connect();
    greet(&mut greeted);
    // Without the payload of the write, which is counted when all of it is there.
    let sent_bytes = 20 * 28 + 28 + 11 + 28 + 1000 + 4;
    wait_until("all has arrived", || {
        let stats = before.stats(0);
        (
            stats.requests,
            stats.requests_refused,
            stats.connections_open,
        ) == (21, 1, 5)
            && stats.received_bytes >= chosen_bytes + sent_bytes
    });
    let (kept, drained) = before.hand_over(0);
    wait_until("those that owe nothing have left", || {
        kept.lock().unwrap().len() == 4
    });
    // The end of the write is read, and what follows it is not.
    busy.send(&pattern(1, 65_536)[30_000..]);
    busy.send(&request(CMD_FLUSH, 0, 21, 0, 0));
    let mut answered = [false; 21];
    for _ in 0..21 {
        let reply = busy.reply(|cookie| if cookie < 20 { 65_536 } else { 0 });
        assert_eq!(reply.error, 0, "{reply:?}");
        answered[reply.cookie as usize] = true;
    }
    assert_eq!(answered, [true; 21]);
    wait_until("the busy client has left", || {
        drained.load(Ordering::SeqCst)
    });
    before.wait_until_idle();
    assert_eq!(problems(&before), []);
    assert_eq!(before.stats(0).requests, 21);
    let kept = std::mem::take(&mut *kept.lock().unwrap());
    assert_eq!(kept.len(), 5);
    let in_handshake = kept.iter().filter(|one| one.volume.is_none()).count();
    assert_eq!(in_handshake, 2);
    kept.into_iter().for_each(|one| after.take_over(0, one));
    let reply = busy.reply(|_| 0);
    assert_eq!((reply.cookie, reply.error), (21, 0));
    halfway.send(&header[11..]);
    let reply = halfway.reply(|_| 4096);
    assert_eq!((reply.cookie, reply.error), (77, 0));
    refused.send(&pattern(2, 4096)[1000..]);
    refused.send(&request(CMD_READ, 0, 6, 0, 512));
    let reply = refused.reply(|_| 0);
    assert_eq!((reply.cookie, reply.error), (5, 1));
    assert_eq!(refused.reply(|_| 512).cookie, 6);
    // The first port has greeted them, and the second does the rest.
    let mut silent = Client::simple(silent, "vol0");
    silent.send(&request(CMD_READ, 0, 8, 0, 512));
    assert_eq!(silent.reply(|_| 512).error, 0);
    assert_eq!(problems(&before), []);
    assert_eq!(problems(&after), []);
}

#[test]
fn a_client_that_never_stops_asking_notices_nothing() {
    const REQUESTS: u64 = 6000;
    const DEPTH: u64 = 16;
    let rigs = [0; 4].map(|_| Rig::new(Default::default()));
    let mut client = Client::simple(rigs[0].connect(), "vol0");
    let asking = std::thread::spawn(move || {
        let ask = |client: &mut Client, cookie: u64| {
            client.send(&request(CMD_READ, 0, cookie, cookie % 100 * 4096, 4096));
        };
        (0..DEPTH).for_each(|cookie| ask(&mut client, cookie));
        let mut answered = vec![false; REQUESTS as usize];
        for count in 0..REQUESTS {
            let reply = client.reply(|_| 4096);
            assert_eq!(reply.error, 0);
            let seen = &mut answered[reply.cookie as usize];
            assert!(!std::mem::replace(seen, true), "{} twice", reply.cookie);
            if count + DEPTH < REQUESTS {
                ask(&mut client, count + DEPTH);
            }
        }
        client
    });
    for pair in rigs.windows(2) {
        wait_until("requests have arrived", || pair[0].stats(0).requests > 500);
        let mut kept = handed_over(&pair[0]);
        assert_eq!(kept.len(), 1);
        pair[1].take_over(0, kept.remove(0));
    }
    let client = asking.join().unwrap();
    let served = rigs.iter().map(|rig| rig.stats(0).requests);
    assert!(served.clone().all(|requests| requests > 500));
    wait_until("all are counted", || {
        rigs.iter().map(|rig| rig.stats(0).requests).sum::<u64>() == REQUESTS
    });
    drop(client);
}

#[test]
fn clients_that_hold_the_others_up_are_left() {
    let rig = Rig::with(|plan| plan.limits = impatient());
    let mut stuck = Client::simple(rig.connect(), "vol0");
    for cookie in 0..100 {
        stuck.send(&request(CMD_READ, 0, cookie, 0, 1 << 20));
    }
    let mut halfway = Client::simple(rig.connect(), "vol0");
    halfway.send(&request(CMD_WRITE, 0, 1, 0, 1 << 20));
    halfway.send(&vec![1; 1 << 19]);
    let idle = Client::simple(rig.connect(), "vol0");
    wait_until("a connection is stuck", || {
        rig.stats(0).stalls > 0 && rig.stats(0).connections_open == 3
    });
    let begin = Instant::now();
    let kept = handed_over(&rig);
    assert!(begin.elapsed() >= Duration::from_millis(290));
    assert_eq!(kept.len(), 1);
    assert_eq!(
        problems(&rig),
        [Problem::NotHandedOver, Problem::NotHandedOver]
    );
    drop(idle);
}

#[test]
fn a_client_behind_a_relay_gets_its_answers_and_then_the_end() {
    let rig = Rig::with(|plan| plan.member_options = ",latency=50ms");
    let (ours, ports) = UnixStream::pair().unwrap();
    rig.mail(0, NewConnection::relayed(ports));
    let mut client = Client::simple(ours, "vol0");
    client.send(&request(CMD_READ, 0, 3, 0, 4096));
    wait_until("the request has arrived", || rig.stats(0).requests == 1);
    assert_eq!(handed_over(&rig).len(), 0);
    assert_eq!(client.reply(|_| 4096).error, 0);
    client.expect_end();
    assert_eq!(problems(&rig), []);
}

#[test]
fn a_client_behind_a_relay_that_takes_no_replies_holds_nobody_up() {
    let rig = Rig::with(|plan| plan.limits = impatient());
    let (ours, ports) = UnixStream::pair().unwrap();
    rig.mail(0, NewConnection::relayed(ports));
    let mut client = Client::simple(ours, "vol0");
    for cookie in 0..16 {
        client.send(&request(CMD_READ, 0, cookie, 0, 1 << 20));
    }
    wait_until("the requests have arrived", || rig.stats(0).requests == 16);
    assert_eq!(handed_over(&rig).len(), 0);
    assert_eq!(problems(&rig), [Problem::NotHandedOver]);
}

/// Its time to take the replies begins when there are any.
#[test]
fn a_client_does_not_pay_for_slow_drives() {
    let rig = Rig::with(|plan| {
        plan.member_options = ",latency=2500ms";
        plan.limits.hand_over_within = Nanos(2 * Nanos::SECOND.0);
    });
    let mut client = Client::simple(rig.connect(), "vol0");
    // More than the socket takes at once.
    for cookie in 0..2 {
        client.send(&request(CMD_READ, 0, cookie, cookie * MIB, 1 << 20));
    }
    wait_until("the requests have arrived", || rig.stats(0).requests == 2);
    let (kept, drained) = rig.hand_over(0);
    wait_until("the drives have answered", || {
        rig.stats(0).requests_in_flight == 0
    });
    // The port looks at its connections several times meanwhile.
    std::thread::sleep(Duration::from_millis(50));
    for _ in 0..2 {
        assert_eq!(client.reply(|_| 1 << 20).error, 0);
    }
    wait_until("it has left", || drained.load(Ordering::SeqCst));
    assert_eq!(kept.lock().unwrap().len(), 1);
    assert_eq!(problems(&rig), []);
}

#[test]
fn a_client_does_not_pay_for_those_that_have_the_memory() {
    let rig = Rig::with(|plan| plan.limits.hand_over_within = Nanos(3 * Nanos::SECOND.0));
    // Each gets at most 64 MiB and at most half of what is free. The last one leaves 20 of 144 MiB.
    let stuck = [0; 3].map(|_| {
        let stalls = rig.stats(0).stalls;
        let mut stuck = Client::simple(rig.connect(), "vol0");
        for cookie in 0..100 {
            stuck.send(&request(CMD_READ, 0, cookie, 0, 1 << 20));
        }
        wait_until("it is stuck", || rig.stats(0).stalls > stalls);
        stuck
    });
    wait_until("the drives have answered", || {
        rig.stats(0).requests_in_flight == 0
    });
    let stalls = rig.stats(0).stalls;
    let mut client = Client::simple(rig.connect(), "vol0");
    client.send(&request(CMD_READ, 0, 7, 0, 32 << 20));
    wait_until("the other waits", || rig.stats(0).stalls > stalls);
    let (kept, drained) = rig.hand_over(0);
    assert_eq!(client.reply(|_| 32 << 20).error, 0);
    wait_until("it has left", || drained.load(Ordering::SeqCst));
    assert_eq!(kept.lock().unwrap().len(), 1);
    assert_eq!(problems(&rig), vec![Problem::NotHandedOver; 3]);
    drop(stuck);
}

/// An error would be final for a file system on the kernel's device, and the end of a connection is not.
#[test]
fn what_the_drives_do_not_answer_in_time_is_broken_off_and_not_answered() {
    let rig = Rig::with(|plan| {
        plan.member_options = ",latency=3s";
        plan.limits.hand_over_within_max = Nanos(300 * Nanos::MILLISECOND.0);
    });
    let mut client = Client::simple(rig.connect(), "vol0");
    client.send(&request(CMD_READ, 0, 3, 0, 4096));
    wait_until("the request has arrived", || rig.stats(0).requests == 1);
    let begin = Instant::now();
    let (kept, drained) = rig.hand_over(0);
    client.expect_end();
    assert!(begin.elapsed() < Duration::from_secs(2));
    wait_until("the drives have answered", || {
        drained.load(Ordering::SeqCst)
    });
    assert!(kept.lock().unwrap().is_empty());
    assert_eq!(problems(&rig), [Problem::HandOverTooLong]);
}

/// Another shard may pass a connection on while this one hands over.
#[test]
fn a_connection_that_comes_late_is_handed_over() {
    let rig = Rig::new(Default::default());
    let (kept, drained) = rig.hand_over(0);
    wait_until("nothing is left", || drained.load(Ordering::SeqCst));
    let mut late = rig.connect_to(0);
    wait_until("it has left", || kept.lock().unwrap().len() == 1);
    let said = Vec::new();
    assert_eq!(kept.lock().unwrap()[0].session, Frozen::Handshake { said });
    greet(&mut late);
}

#[test]
fn a_connection_that_does_not_fit_is_closed() {
    let before = Rig::new(Default::default());
    let smaller = Rig::with(|plan| plan.component_bytes = 32 * MIB);
    let mut client = Client::simple(before.connect(), "vol0");
    let size_bytes = client.size_bytes;
    let mut kept = handed_over(&before);
    smaller.take_over(0, kept.remove(0));
    expect_end(&mut client.stream);
    let differs = ThawError::Size {
        export: "vol0".to_owned(),
        size_bytes: smaller.size_bytes,
        told_bytes: size_bytes,
    };
    assert_eq!(problems(&smaller), [Problem::NotTakenOver(differs)]);
    smaller.wait_until_idle();
}
