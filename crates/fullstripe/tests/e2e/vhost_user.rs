//! Virtual machines use volumes through vhost-user. Their kernel is played by [`Guest`]; real ones are in the lane of
//! virtual machines.

use crate::common::guest::{
    Connected, DISCARD, FEATURES, FLUSH, Guest, IDENTITY, QUEUE_SIZE, READ, WRITE, ZEROES, range,
};
use crate::common::{Bed, Loop, MIB, Server, is_root};
use serde_json::Value;
use std::io::{ErrorKind, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use vhost::VhostBackend;
use vhost::vhost_user::VhostUserFrontend;

const OK: u8 = 0;
const ERROR: u8 = 1;
const UNSUPPORTED: u8 = 2;

fn bed() -> Bed {
    let bed = Bed::new(3, 64 * MIB);
    bed.create("vol0", 5, bed.drives(), &[]);
    bed
}

fn serve(bed: &Bed) -> Server<'_> {
    serve_with(bed, &[])
}

fn serve_with<'a>(bed: &'a Bed, options: &[&str]) -> Server<'a> {
    let folder = bed.path("").display().to_string();
    let starting = bed.serve(bed.drives()).option(&["--vhost-user", &folder]);
    starting.option(options).start()
}

fn socket(bed: &Bed) -> PathBuf {
    bed.path("vol0.sock")
}

/// Bytes that tell where they belong.
fn pattern(seed: u8, length: usize) -> Vec<u8> {
    (0..length)
        .map(|at| (at / 512) as u8 ^ at as u8 ^ seed)
        .collect()
}

/// Waits until the server has said this.
fn wait_words(server: &Server, words: &str) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while !server.words().contains(words) {
        assert!(
            Instant::now() < give_up,
            "nobody says {words}: {}",
            server.words()
        );
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn connect(bed: &Bed, queues: usize) -> (Guest, Connected) {
    let mut guest = Guest::new(queues);
    let connected = guest.connect(&socket(bed), FEATURES);
    (guest, connected)
}

#[test]
fn a_guest_writes_reads_flushes_discards_and_zeroes() {
    let bed = bed();
    let server = serve(&bed);
    let (mut guest, mut connected) = connect(&bed, 1);
    let sectors = u64::from_le_bytes(connected.configuration(60)[..8].try_into().unwrap());
    let size_bytes = server.status()["volumes"][0]["size_bytes"].as_u64();
    assert_eq!(Some(sectors * 512), size_bytes);
    let data = pattern(1, 8192);
    assert_eq!(guest.ask(0, WRITE, 64, &data, 0), OK);
    assert_eq!(guest.ask(0, FLUSH, 0, &[], 0), OK);
    assert_eq!(guest.read(0, 64, 8192), data);
    // Others see the same.
    assert_eq!(server.client("vol0").read(64 * 512, 8192).unwrap(), data);
    assert_eq!(guest.ask(0, ZEROES, 0, &range(64, 8, 0), 0), OK);
    assert_eq!(guest.read(0, 64, 4096), [0; 4096]);
    assert_eq!(guest.read(0, 72, 4096), data[4096..]);
    assert_eq!(guest.ask(0, ZEROES, 0, &range(72, 8, 1), 0), OK);
    assert_eq!(guest.read(0, 72, 4096), [0; 4096]);
    assert_eq!(guest.ask(0, DISCARD, 0, &range(0, 256, 0), 0), OK);
    assert_eq!(guest.ask(0, IDENTITY, 0, &[], 20), OK);
    let identity = guest.data(0, 0, 20);
    assert!(identity.iter().all(u8::is_ascii_hexdigit), "{identity:?}");
    // What cannot be done is answered, and the next request too.
    assert_eq!(guest.ask(0, READ, sectors - 1, &[], 1024), ERROR);
    assert_eq!(guest.ask(0, WRITE, 0, &[1; 100], 0), ERROR);
    assert_eq!(guest.ask(0, 77, 0, &[], 512), UNSUPPORTED);
    assert_eq!(guest.ask(0, ZEROES, 0, &range(0, 8, 8), 0), UNSUPPORTED);
    assert_eq!(guest.ask(0, WRITE, 64, &data, 0), OK);
    let address = format!("vhost-user:{}", socket(&bed).display());
    let exports = &server.status()["exports"];
    assert!(
        exports.as_array().unwrap().contains(&Value::from(address)),
        "{exports}"
    );
    drop(connected);
    server.stop();
    assert!(!socket(&bed).exists());
}

/// A request of three megabytes is carried out in several pieces.
#[test]
fn a_request_may_be_longer_than_the_memory_for_one() {
    const LENGTH: usize = 3 << 20;
    const PLACE: u64 = 5 << 20;
    let bed = bed();
    let server = serve(&bed);
    let (mut guest, _connected) = connect(&bed, 1);
    let data = pattern(3, LENGTH);
    for (kind, flags) in [(WRITE, 1), (READ, 3)] {
        if kind == WRITE {
            guest.put(0, PLACE, &data);
        } else {
            guest.put(0, PLACE, &vec![0; LENGTH]);
        }
        let head = [
            &kind.to_le_bytes()[..],
            &[0; 4],
            &8u64.to_le_bytes(),
            &[0xee],
        ];
        guest.put(0, 0x4000, &head.concat());
        guest.describe(0, 0, (0x4000, 16), 1);
        guest.describe(0, 1, (PLACE, LENGTH as u32), flags);
        guest.describe(0, 2, (0x4010, 1), 2);
        guest.publish(0, 0);
        assert_eq!(guest.answer(0), (0, OK));
    }
    // Data of room 0 begins 32 bytes behind the room.
    let skip = (PLACE - 0x4000 - 32) as usize;
    assert!(guest.data(0, 0, skip + LENGTH)[skip..] == data);
    let through_nbd = server.client("vol0").read(4096, 1 << 20).unwrap();
    assert!(through_nbd == data[..1 << 20]);
    server.stop();
}

#[test]
fn a_guest_that_writes_nonsense_loses_its_queue_and_nothing_else() {
    let bed = bed();
    let server = serve(&bed);
    let good = [(0x4000, 16, 1), (0x4020, 512, 3), (0x4010, 1, 2)];
    let nonsense = [
        ("there is no descriptor", vec![(0x4000, 16, 1); 128]),
        ("no end", vec![(0x4000, 16, 1), (0x4000, 16, 1)]),
        (
            "is not memory of the guest",
            vec![(u64::MAX - 8, 16, 1), good[1], good[2]],
        ),
        ("too short", vec![(0x4000, 16, 1), (0x4000, 16, 0)]),
        (
            "to read behind parts to write",
            vec![good[1], good[0], good[2]],
        ),
        ("an indirect table", vec![(0x4000, 17, 4)]),
    ];
    let (mut guest, mut connected) = connect(&bed, 2);
    for (index, (words, parts)) in nonsense.into_iter().enumerate() {
        for (at, (address, length, flags)) in (0..).zip(&parts) {
            guest.describe(0, at, (*address, *length), *flags);
        }
        if words == "no end" {
            // Two descriptors that lead to each other: the second goes on at the first.
            guest.put(0, 16 + 14, &0u16.to_le_bytes());
        }
        guest.publish(0, 0);
        wait_words(
            &server,
            "queue 0 of volume vol0 is not served until its guest resets the device: ",
        );
        wait_words(&server, words);
        assert_eq!(guest.answers(0), 0);
        // The other queue is served all the same.
        let data = pattern(index as u8, 4096);
        assert_eq!(guest.ask(1, WRITE, 8, &data, 0), OK);
        assert_eq!(guest.read(1, 8, 4096), data);
        drop(connected);
        (0..2).for_each(|queue| guest.forget_rings(queue));
        connected = guest.connect(&socket(&bed), FEATURES);
        assert_eq!(guest.read(0, 8, 4096), data);
    }
    drop(connected);
    server.stop();
}

#[test]
fn queues_of_a_guest_are_spread_over_shards() {
    let bed = bed();
    let server = serve_with(&bed, &["--shards", "2"]);
    let (mut guest, mut connected) = connect(&bed, 4);
    assert_eq!(connected.frontend.get_queue_num().unwrap(), 64);
    for queue in 0..4 {
        for room in 0..40u16 {
            let data = pattern((queue * 40) as u8 + room as u8, 4096);
            let sector = (queue as u64 * 40 + u64::from(room)) * 8;
            guest.send(queue, room, WRITE, sector, &data, 0);
        }
    }
    for queue in 0..4 {
        let mut rooms: Vec<u16> = (0..40)
            .map(|_| guest.answer(queue))
            .map(|(room, status)| {
                assert_eq!(status, OK);
                room
            })
            .collect();
        rooms.sort_unstable();
        assert_eq!(rooms, (0..40).collect::<Vec<_>>());
    }
    for queue in 0..4 {
        for room in 0..40u16 {
            let data = pattern((queue * 40) as u8 + room as u8, 4096);
            let sector = (queue as u64 * 40 + u64::from(room)) * 8;
            assert!(guest.read(3 - queue, sector, 4096) == data);
        }
    }
    // A queue that is stopped says which request is next, and goes on there.
    let next = connected.frontend.get_vring_base(1).unwrap();
    assert_eq!(next, 80);
    guest.send(1, 0, READ, 0, &[], 512);
    assert_eq!(guest.answers(1), 0);
    guest.start(&mut connected, 1, QUEUE_SIZE);
    assert_eq!(guest.answer(1), (0, OK));
    drop(connected);
    server.stop();
}

/// Drives that take this long for everything.
fn slow(bed: &Bed) -> Vec<PathBuf> {
    let drives = bed.drives().iter();
    drives
        .map(|drive| PathBuf::from(format!("{},latency=150ms", drive.display())))
        .collect()
}

fn serve_slow(bed: &Bed) -> Server<'_> {
    let folder = bed.path("").display().to_string();
    bed.serve(&slow(bed))
        .option(&["--vhost-user", &folder])
        .start()
}

const REQUESTS: u16 = 24;

/// Writes that are far from each other, so that each takes several commands to slow drives.
fn send_writes(guest: &mut Guest) {
    for room in 0..REQUESTS {
        let data = pattern(room as u8, 4096);
        guest.send(0, room, WRITE, u64::from(room) * 2048, &data, 0);
    }
}

/// Each of these writes is answered once, and the data is there.
fn expect_writes(guest: &mut Guest) {
    let mut rooms: Vec<u16> = (0..REQUESTS)
        .map(|_| guest.answer(0))
        .map(|(room, status)| {
            assert_eq!(status, OK, "room {room}");
            room
        })
        .collect();
    rooms.sort_unstable();
    assert_eq!(rooms, (0..REQUESTS).collect::<Vec<_>>());
    for room in 0..REQUESTS {
        let sector = u64::from(room) * 2048;
        assert!(guest.read(0, sector, 4096) == pattern(room as u8, 4096));
    }
    assert_eq!((guest.answers(0), guest.in_flight(0)), (0, 0));
}

fn wait_until_some_are_taken(guest: &Guest) {
    let give_up = Instant::now() + Duration::from_secs(20);
    while guest.in_flight(0) == 0 {
        assert!(Instant::now() < give_up, "nothing is taken");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_front_end_that_vanishes_finds_its_answers_when_it_is_back() {
    let bed = bed();
    let server = serve_slow(&bed);
    let (mut guest, connected) = connect(&bed, 1);
    send_writes(&mut guest);
    wait_until_some_are_taken(&guest);
    drop(connected);
    assert!(guest.answers(0) < REQUESTS, "the drives are not slow");
    let connected = guest.connect(&socket(&bed), FEATURES);
    expect_writes(&mut guest);
    drop(connected);
    server.stop();
}

#[test]
fn a_server_that_is_killed_loses_no_request() {
    let bed = bed();
    let server = serve_slow(&bed);
    let (mut guest, connected) = connect(&bed, 1);
    send_writes(&mut guest);
    wait_until_some_are_taken(&guest);
    server.kill();
    assert!(
        guest.in_flight(0) > 0,
        "nothing was in flight when the server was killed"
    );
    drop(connected);
    bed.wait_released();
    let server = serve_slow(&bed);
    let connected = guest.connect(&socket(&bed), FEATURES);
    expect_writes(&mut guest);
    drop(connected);
    server.stop();
}

#[test]
fn a_server_that_is_stopped_answers_what_it_has_taken() {
    let bed = bed();
    let server = serve_slow(&bed);
    let (mut guest, connected) = connect(&bed, 1);
    send_writes(&mut guest);
    wait_until_some_are_taken(&guest);
    server.stop();
    assert_eq!(guest.in_flight(0), 0);
    drop(connected);
    let server = serve_slow(&bed);
    let connected = guest.connect(&socket(&bed), FEATURES);
    expect_writes(&mut guest);
    drop(connected);
    server.stop();
}

#[test]
fn a_volume_that_is_read_only_says_so() {
    let bed = bed();
    serve(&bed).stop();
    let server = serve_with(&bed, &["--read-only"]);
    let mut guest = Guest::new(1);
    let connected = guest.connect(&socket(&bed), FEATURES | 1 << 5);
    assert_eq!(guest.ask(0, WRITE, 0, &[1; 512], 0), ERROR);
    assert_eq!(guest.read(0, 0, 512), [0; 512]);
    drop(connected);
    server.stop();
}

#[test]
fn what_cannot_be_a_folder_of_sockets_is_refused() {
    let bed = bed();
    let missing = bed.path("missing").display().to_string();
    let starting = bed.serve(bed.drives()).option(&["--vhost-user", &missing]);
    starting.refused("is no folder; make it, or name another with --vhost-user");
    std::fs::write(socket(&bed), "data").unwrap();
    let folder = bed.path("").display().to_string();
    let starting = bed.serve(bed.drives()).option(&["--vhost-user", &folder]);
    starting.refused("exists and is not a socket; name another path with --vhost-user");
}

#[test]
fn a_front_end_that_speaks_nonsense_is_disconnected_and_the_next_one_is_served() {
    let bed = bed();
    let server = serve(&bed);
    let messages: [&[u8]; 4] = [
        b"GET / HTTP/1.1\r\n\r\n",
        &[0xff; 300],
        // A message of type 5 (SET_MEM_TABLE) with four bytes of content, and one that announces more than may be.
        &[5, 0, 0, 0, 1, 0, 0, 0, 4, 0, 0, 0, 1, 2, 3, 4],
        &[5, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0x7f],
    ];
    for message in messages {
        let mut stream = UnixStream::connect(socket(&bed)).unwrap();
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .unwrap();
        stream.write_all(message).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut answer = Vec::new();
        // It is closed, or reset where it has not read everything.
        if let Err(error) = stream.read_to_end(&mut answer) {
            assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{message:?}");
        }
        assert_eq!(answer, b"", "{message:?}");
    }
    wait_words(
        &server,
        "a vhost-user front end of volume vol0 was disconnected: ",
    );
    let (mut guest, connected) = connect(&bed, 1);
    assert_eq!(guest.ask(0, WRITE, 0, &[7; 512], 0), OK);
    drop(connected);
    server.stop();
}

/// The memory of a front end has to be what it says: touching what is behind the end of a file would end the server.
#[test]
fn memory_that_is_shorter_than_it_was_said_is_refused() {
    let bed = bed();
    let server = serve(&bed);
    let mut guest = Guest::new(1);
    let connected = guest.connect(&socket(&bed), FEATURES);
    let refused = guest.give_memory(&connected, 17 << 20);
    assert!(refused.is_err(), "memory that is not there was taken");
    drop(connected);
    let connected = guest.connect(&socket(&bed), FEATURES);
    assert_eq!(guest.ask(0, WRITE, 0, &[7; 512], 0), OK);
    // The same memory again, while a queue is served.
    guest.give_memory(&connected, 16 << 20).unwrap();
    assert_eq!(guest.read(0, 0, 512), [7; 512]);
    drop(connected);
    server.stop();
}

/// The settings file lets virtual machines use the volumes of an array, in a folder that a boot has removed.
#[test]
fn an_array_of_the_settings_file_has_sockets_too() {
    if !is_root("an array of the settings file with vhost-user") {
        return;
    }
    let bed = Bed::new(3, 64 * MIB);
    let loops: Vec<Loop> = (0..3).map(|at| Loop::over(bed.drive(at), &[])).collect();
    let devices: Vec<PathBuf> = loops.iter().map(|one| one.device().to_owned()).collect();
    let made = bed.create("vol0", 5, &devices, &["--json"]);
    let made: Value = serde_json::from_str(&made.out).unwrap();
    let (settings, folder) = (bed.path("settings.toml"), bed.path("run/vms"));
    let text = format!(
        "[array.fast]\nuuid = {}\nattach = 'off'\nmemory = '48m'\nnbd = ['unix:{}']\nvhost_user = '{}'\n",
        made["container_uuid"],
        bed.path("nbd").display(),
        folder.display()
    );
    std::fs::write(&settings, text).unwrap();
    let server = bed.serve_array("fast", &settings).start();
    let mut guest = Guest::new(1);
    let connected = guest.connect(&folder.join("vol0.sock"), FEATURES);
    assert_eq!(guest.ask(0, WRITE, 0, &[7; 512], 0), OK);
    drop(connected);
    server.stop();
}
