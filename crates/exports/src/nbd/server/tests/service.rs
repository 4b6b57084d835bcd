//! What clients that keep to the protocol see.

use std::collections::HashMap;
use std::io::Read;
use std::net::Shutdown;
use std::sync::Arc;

use drives::mailbox::Mail;
use engine::layout::Level;
use engine::units::MemberId;

use super::client::{Client, greet, option, option_reply, pattern, request};
use super::rig::{MIB, Rig, wait_until};
use crate::nbd::server::{NewConnection, NewListener, NewOffer};
use crate::nbd::wire::*;
use crate::nbd::{Abilities, Export, ExportList};

#[test]
fn every_size_comes_back_as_written() {
    let rig = Rig::with(|_| ());
    for structured in [false, true] {
        let mut client = if structured {
            Client::structured(rig.connect(), "vol0")
        } else {
            Client::simple(rig.connect(), "")
        };
        assert_eq!(client.size_bytes, rig.size_bytes);
        let mut offset = 512;
        for length in [
            512,
            4096,
            4608,
            20 << 10,
            52 << 10,
            64 << 10,
            200_704,
            32 << 20,
        ] {
            let data = pattern(offset + u64::from(structured), length as usize);
            client.write(offset, &data, 0);
            assert!(client.read(offset, length) == data, "{length} bytes");
            assert_eq!(client.read(offset + 512 * 3, 512).len(), 512);
            offset += u64::from(length);
        }
        wait_until("all bytes are counted", || {
            let stats = rig.stats(0);
            stats.received_bytes > 32 * MIB && stats.sent_bytes > 32 * MIB
        });
    }
    rig.wait_until_idle();
    assert_eq!(rig.problems.lock().unwrap().len(), 0);
}

#[test]
fn every_command_does_what_it_says() {
    let rig = Rig::with(|_| ());
    let mut client = Client::structured(rig.connect(), "vol0");
    let data = pattern(1, 1 << 20);
    client.write(0, &data, CMD_FLAG_FUA);
    assert_eq!(client.ask(CMD_FLUSH, 0, 0, 0).error, 0);
    let zeroes = client.ask(
        CMD_WRITE_ZEROES,
        CMD_FLAG_NO_HOLE | CMD_FLAG_FUA,
        4096,
        8192,
    );
    assert_eq!(zeroes.error, 0);
    let mut expected = data.clone();
    expected[4096..12_288].fill(0);
    assert!(client.read(0, 1 << 20) == expected);
    assert_eq!(
        client
            .ask(CMD_TRIM, CMD_FLAG_FUA, 512 << 10, 256 << 10)
            .error,
        0
    );
    let half = client.read(0, 512 << 10);
    assert!(half == expected[..512 << 10], "a trim stays in its range");
    // Zeroes the whole volume with one command, which is longer than any payload.
    let length = client.size_bytes as u32;
    assert_eq!(client.ask(CMD_WRITE_ZEROES, 0, 0, length).error, 0);
    assert!(client.read(0, 1 << 20).iter().all(|byte| *byte == 0));

    let status = client.ask(CMD_BLOCK_STATUS, CMD_FLAG_REQ_ONE, 1 << 20, 3 << 20);
    let mut extent = 1u32.to_be_bytes().to_vec();
    extent.extend((3u32 << 20).to_be_bytes());
    extent.extend(0u32.to_be_bytes());
    assert_eq!((status.error, status.data), (0, extent));
}

#[test]
fn broken_rules_are_answered_with_a_sentence_and_the_session_goes_on() {
    let rig = Rig::with(|_| ());
    let mut client = Client::structured(rig.connect(), "vol0");
    let end = client.size_bytes;
    let past_end = client.ask(CMD_READ, 0, end - 512, 1024);
    assert_eq!(past_end.error, 22);
    let text = String::from_utf8(past_end.data).unwrap();
    assert!(text.contains("past the end"), "{text}");
    assert_eq!(client.ask(CMD_CACHE, 0, 0, 512).error, 22);
    // The payload of a refused write is skipped.
    client.send(&request(CMD_WRITE, 0, 5, 1, 100_000));
    client.send(&vec![0x25; 100_000]);
    assert_eq!(client.reply(|_| 0).error, 22);
    // More refusals at once than the server has room for sentences.
    let many: Vec<u8> = (0..300)
        .flat_map(|cookie| request(99, 0, cookie, 0, 512))
        .collect();
    client.send(&many);
    for cookie in 0..300 {
        let reply = client.reply(|_| 0);
        assert_eq!((reply.cookie, reply.error), (cookie, 22));
    }
    assert_eq!(client.read(0, 512).len(), 512);
    wait_until("all refusals are counted", || {
        rig.stats(0).requests_refused == 303
    });
    assert_eq!(rig.stats(0).requests_failed, 0);
}

#[test]
fn exports_are_different_volumes_and_one_is_read_only() {
    let rig = Rig::with(|_| ());
    let mut first = Client::simple(rig.connect(), "vol0");
    let mut second = Client::simple(rig.connect(), "vol1");
    let mut read_only = Client::simple(rig.connect(), "vol0-ro");
    assert_eq!(second.size_bytes, 8 * MIB);
    first.write(0, &[1; 4096], 0);
    second.write(0, &[2; 4096], 0);
    assert_eq!(first.read(0, 4096), [1; 4096]);
    assert_eq!(second.read(0, 4096), [2; 4096]);
    assert_eq!(read_only.read(0, 4096), [1; 4096]);
    read_only.send(&request(CMD_WRITE, 0, 9, 0, 512));
    read_only.send(&[3; 512]);
    assert_eq!(read_only.reply(|_| 0).error, 1);
    assert_eq!(first.read(0, 4096), [1; 4096]);

    let mut stream = rig.connect();
    greet(&mut stream);
    std::io::Write::write_all(&mut stream, &option(OPT_LIST, &[])).unwrap();
    let names: Vec<Vec<u8>> = std::iter::from_fn(|| {
        let (kind, data) = option_reply(&mut stream);
        (kind == REP_SERVER).then_some(data)
    })
    .collect();
    assert_eq!(names.len(), 3);
    std::io::Write::write_all(&mut stream, &option(OPT_ABORT, &[])).unwrap();
    assert_eq!(option_reply(&mut stream).0, REP_ACK);
    super::client::expect_end(&mut stream);
}

/// Sends `count` requests at once, every third a write, and checks all replies and contents.
fn pipeline(client: &mut Client, count: u64, from: u64) {
    let length = |cookie: u64| 512 * (1 + (cookie as u32 * 7) % 40);
    let place = |cookie: u64| from + cookie * (20 << 10);
    let data = |cookie: u64| pattern(from ^ cookie, length(cookie) as usize);
    let mut stream = client.stream.try_clone().unwrap();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            for cookie in 0..count {
                let header = request(CMD_WRITE, 0, cookie, place(cookie), length(cookie));
                std::io::Write::write_all(&mut stream, &header).unwrap();
                std::io::Write::write_all(&mut stream, &data(cookie)).unwrap();
            }
        });
        let mut seen = vec![false; count as usize];
        for _ in 0..count {
            let reply = client.reply(|_| 0);
            assert_eq!(reply.error, 0);
            assert!(!std::mem::replace(&mut seen[reply.cookie as usize], true));
        }
    });
    let reads: Vec<u8> = (0..count)
        .flat_map(|cookie| request(CMD_READ, 0, cookie, place(cookie), length(cookie)))
        .collect();
    client.send(&reads);
    let mut replies = HashMap::new();
    for _ in 0..count {
        let reply = client.reply(length);
        assert_eq!(reply.error, 0);
        replies.insert(reply.cookie, reply.data);
    }
    for cookie in 0..count {
        assert!(replies[&cookie] == data(cookie), "request {cookie}");
    }
}

#[test]
fn more_requests_than_slots_are_all_answered() {
    let rig = Rig::with(|_| ());
    let mut client = Client::simple(rig.connect(), "vol0");
    pipeline(&mut client, 1000, 0);
    wait_until("the connection had to wait for slots", || {
        rig.stats(0).stalls > 0
    });
    let mut client = Client::structured(rig.connect(), "vol0");
    pipeline(&mut client, 1000, 32 * MIB);
}

#[test]
fn connections_on_two_shards_work_side_by_side() {
    let rig = Rig::with(|plan| plan.shards = 2);
    std::thread::scope(|scope| {
        for lane in 0..6 {
            let rig = &rig;
            scope.spawn(move || {
                let stream = if lane < 4 {
                    rig.connect()
                } else {
                    rig.connect_to(lane % 2)
                };
                let mut client = Client::simple(stream, "vol0");
                for round in 0..4 {
                    pipeline(&mut client, 200, lane as u64 * 16 * MIB + round * 4 * MIB);
                }
            });
        }
    });
    rig.wait_until_idle();
    for shard in 0..2 {
        assert_eq!(rig.stats(shard).connections_accepted, 3);
        assert!(rig.stats(shard).requests >= 3 * 4 * 400);
    }
}

#[test]
fn a_client_may_stop_sending_and_still_gets_its_replies() {
    let rig = Rig::with(|plan| plan.member_options = ",latency=50ms");
    let mut client = Client::simple(rig.connect(), "vol0");
    let requests: Vec<u8> = (0..50)
        .flat_map(|cookie| request(CMD_READ, 0, cookie, cookie << 16, 65_536))
        .collect();
    client.send(&requests);
    client.stream.shutdown(Shutdown::Write).unwrap();
    for _ in 0..50 {
        assert_eq!(client.reply(|_| 65_536).data, vec![0; 65_536]);
    }
    client.expect_end();
    rig.wait_until_idle();
}

#[test]
fn a_disconnect_is_answered_by_an_end_after_all_replies() {
    let rig = Rig::with(|_| ());
    let mut client = Client::simple(rig.connect(), "vol0");
    let mut bytes = request(CMD_READ, 0, 1, 0, 4096);
    bytes.extend(request(CMD_DISC, 0, 0, 0, 0));
    bytes.extend(b"what follows is nobody's business");
    client.send(&bytes);
    assert_eq!(client.reply(|_| 4096).data.len(), 4096);
    client.expect_end();
    rig.wait_until_idle();
    assert_eq!(rig.stats(0).protocol_errors, 0);
}

#[test]
fn what_the_engine_cannot_do_is_an_error_of_one_request() {
    let rig = Rig::with(|plan| plan.level = Level::Raid0);
    let mut simple = Client::simple(rig.connect(), "vol0");
    let mut structured = Client::structured(rig.connect(), "vol0");
    simple.write(0, &[1; 256 << 10], 0);
    rig.peers[0].send(Mail::Detach(MemberId(1)));
    // The second chunk lies on the second member.
    for client in [&mut simple, &mut structured] {
        let lost = client.ask(CMD_READ, 0, 64 << 10, 64 << 10);
        assert_eq!((lost.error, lost.data.len()), (5, 0));
        assert_eq!(client.read(0, 64 << 10), [1; 64 << 10]);
    }
    simple.send(&request(CMD_WRITE, 0, 7, 0, 192 << 10));
    simple.send(&[2; 192 << 10]);
    assert_eq!(simple.reply(|_| 0).error, 5);
    wait_until("all failures are counted", || {
        rig.stats(0).requests_failed == 3
    });
    drop((simple, structured));
    rig.wait_until_idle();
}

#[test]
fn sockets_made_not_to_block_are_made_to_wait() {
    let rig = Rig::with(|_| ());
    let (stream, server) = std::os::unix::net::UnixStream::pair().unwrap();
    server.set_nonblocking(true).unwrap();
    // A duplicate shares its flags with the socket.
    let watcher = server.try_clone().unwrap();
    rig.mail(0, NewConnection::new(server));
    let mut client = Client::simple(stream, "vol0");
    assert_eq!(client.read(0, 512).len(), 512);
    let flags = rustix::fs::fcntl_getfl(&watcher).unwrap();
    assert!(!flags.contains(rustix::fs::OFlags::NONBLOCK));
}

#[test]
fn a_port_listens_on_tcp_by_message() {
    let rig = Rig::with(|plan| plan.shards = 2);
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    rig.mail(1, NewListener(listener.into()));
    for _ in 0..4 {
        let mut stream = std::net::TcpStream::connect(address).unwrap();
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting).unwrap();
        assert_eq!(greeting[..8], SERVER_MAGIC.to_be_bytes());
    }
    wait_until("both shards have accepted two connections", || {
        (0..2).all(|shard| rig.stats(shard).connections_accepted == 2)
    });
    rig.wait_until_idle();
}

#[test]
fn a_new_offer_is_for_clients_that_connect_from_then_on() {
    let rig = Rig::with(|_| ());
    let mut old = Client::simple(rig.connect_to(0), "vol0");
    let without_trim = |export: &Export| Export {
        abilities: Abilities {
            trim: false,
            fast_zero: false,
            ..export.abilities
        },
        ..export.clone()
    };
    let exports = rig.exports.as_slice().iter().map(without_trim).collect();
    rig.mail(0, NewOffer(Arc::new(ExportList::new(exports).unwrap())));
    let mut new = Client::simple(rig.connect_to(0), "vol0");
    assert_eq!(new.ask(CMD_TRIM, 0, 0, 4096).error, 22);
    let fast = CMD_FLAG_FAST_ZERO;
    assert_eq!(new.ask(CMD_WRITE_ZEROES, fast, 0, 4096).error, 22);
    assert_eq!(new.ask(CMD_WRITE_ZEROES, 0, 0, 4096).error, 0);
    assert_eq!(old.ask(CMD_TRIM, 0, 0, 4096).error, 0);
    drop((old, new));
    rig.wait_until_idle();
}
