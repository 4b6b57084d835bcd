//! Clients that misbehave or vanish, and a server whose output nobody reads.

use crate::common::checks::{ledger, load};
use crate::common::nbd::{self};
use crate::common::{Bed, MIB, Mix, Server, run};
use rustix::process::Signal;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::{Duration, Instant};

#[test]
fn garbage_and_half_closed_connections_hurt_nobody_else() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).option(&["--shards", "2"]).start();
    let load = load(&server, 12, Mix::Everything);
    let mut state = 0x2545_F491_4F6C_DD1D_u64;
    for round in 0..60 {
        let mut stream = UnixStream::connect(server.nbd_socket()).expect("it listens");
        stream
            .set_read_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        stream
            .set_write_timeout(Some(Duration::from_secs(20)))
            .expect("a timeout");
        let mut bytes = vec![0; 64 + round * 37];
        bytes.iter_mut().for_each(|byte| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8;
        });
        // The server may have hung up before everything is written.
        let _ = stream.write_all(if round % 3 == 0 { b"" } else { &bytes });
        if round % 2 == 0 {
            let _ = stream.shutdown(std::net::Shutdown::Write);
            let _ = stream.read_to_end(&mut Vec::new());
        }
    }
    for cut in [0, 1, 27, 28, 29, 2000] {
        let mut client = server.client("data");
        let mut request = 0x2560_9513_u32.to_be_bytes().to_vec();
        request.extend([0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 1]);
        request.extend(0u64.to_be_bytes());
        request.extend(4096u32.to_be_bytes());
        request.extend([1; 4096]);
        client
            .stream
            .write_all(&request[..cut])
            .expect("the server takes it");
        client.half_close();
        let mut rest = Vec::new();
        let _ = client.stream.read_to_end(&mut rest);
        assert!(
            rest.is_empty(),
            "an answer to a request cut at {cut}: {rest:?}"
        );
    }
    // Wrong magic in the middle of a session ends that session only.
    let mut client = server.client("data");
    assert!(client.read(0, 4096).is_ok());
    client
        .stream
        .write_all(&[0xEE; 280])
        .expect("the server takes it");
    let _ = client.stream.read_to_end(&mut Vec::new());
    // All requests sent before a half-close are answered.
    let mut client = server.client("data");
    for at in 0..20 {
        client
            .submit((nbd::READ, 0), at * 4096, 4096, &[])
            .expect("the server takes requests");
    }
    client.half_close();
    for _ in 0..20 {
        assert_eq!(client.receive().expect("an answer").error, 0);
    }
    load.wait_for(200, 30);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    server.stop();
}

#[test]
fn a_client_that_never_reads_its_replies_starves_only_itself() {
    let bed = Bed::new(3, 64 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).start();
    let mut deaf: Vec<_> = (0..3).map(|_| server.client("data")).collect();
    for client in &mut deaf {
        let timeout = Some(Duration::from_millis(500));
        client.stream.set_write_timeout(timeout).expect("a timeout");
        // Far more than the memory for payload: at some point the server stops accepting requests.
        for at in 0..2000u64 {
            if client
                .submit((nbd::READ, 0), at % 32 * MIB, 1 << 20, &[])
                .is_err()
            {
                break;
            }
        }
    }
    let load = load(&server, 13, Mix::Everything);
    load.wait_for(500, 40);
    let mut ledger = load.stop();
    server.verify("data", &mut ledger);
    // These clients do not keep the server from ending either.
    let since = Instant::now();
    server.stop();
    assert!(
        since.elapsed() < Duration::from_secs(30),
        "stopping took {:?}",
        since.elapsed()
    );
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["volumes"][0]["dirty"], false);
    server.verify("data", &mut ledger);
    server.stop();
}

/// How many sockets the server has open for NBD: those that it listens on, and one for each connection until it has closed
/// that.
fn nbd_sockets(server: &Server<'_>) -> usize {
    let path = server.nbd_socket().to_str().expect("a path of text");
    let list = std::fs::read_to_string("/proc/net/unix").expect("the kernel lists them");
    list.lines().filter(|line| line.ends_with(path)).count()
}

#[test]
fn clients_that_vanish_with_writes_in_flight_leave_whole_sectors() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let server = bed.serve(bed.drives()).option(&["--shards", "2"]).start();
    let mut ledger = ledger(&server, 0, 14);
    // Counted once, while no client was ever there: the server closes connections a moment after their clients do.
    let listening = nbd_sockets(&server);
    assert!(listening > 0, "the server listens");
    for _ in 0..5 {
        let clients = server.clients("data", 4);
        let sockets: Vec<UnixStream> = clients
            .iter()
            .map(|client| client.stream.try_clone().expect("a handle"))
            .collect();
        let load = ledger.load(clients, Mix::Everything);
        load.wait_for(50, 30);
        for socket in sockets {
            let _ = socket.shutdown(std::net::Shutdown::Both);
        }
        ledger = load.end().0;
        // Writes that arrived may still be under way; the server closes a connection when they have ended.
        let since = Instant::now();
        while nbd_sockets(&server) > listening {
            assert!(since.elapsed() < Duration::from_secs(20), "still open");
            std::thread::sleep(Duration::from_millis(5));
        }
        server.verify("data", &mut ledger);
    }
    server.order(&["scrub", "data", "--wait"]).ok();
    server.stop();
}

#[test]
fn a_server_that_nobody_listens_to_goes_on() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    let nbd = bed.path("nbd");
    let address = format!("unix:{}", nbd.display());
    let mut command = bed.fullstripe(&["serve", "--memory", "48m", "--nbd", &address, "--socket"]);
    command.arg(bed.path("api")).args(bed.drives());
    command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut process = crate::common::process::Guarded::start(&mut command);
    // Closes both pipes before the server prints anything.
    drop(process.child().stdout.take());
    drop(process.child().stderr.take());
    let since = Instant::now();
    let mut client = loop {
        match crate::common::Client::connect(&nbd, "data") {
            Ok(client) => break client,
            Err(error) => assert!(
                process.runs() && since.elapsed() < Duration::from_secs(20),
                "{error}"
            ),
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    assert_eq!(client.write(0, &[1; 4096]), Ok(()));
    let api = bed.path("api").display().to_string();
    run(
        &mut bed.fullstripe(&["fail", "data:1", "--socket", &api]),
        20,
    )
    .ok();
    assert_eq!(client.write(4096, &[2; 4096]), Ok(()));
    assert_eq!(client.read(0, 4096), Ok(vec![1; 4096]));
    process.signal(Signal::TERM);
    assert!(process.wait(Duration::from_secs(30)).success());
    let server = bed.serve(bed.drives()).start();
    assert_eq!(server.at_start["volumes"][0]["dirty"], false);
    server.stop();
}
