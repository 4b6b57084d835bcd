//! NBD over TCP with TLS, with real clients and the certificates that docs/security.md makes.

use crate::common::process::run;
use crate::common::{Bed, MIB, Said, Server, tool};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, Instant};

const PAGE: &str = include_str!("../../../../../docs/security.md");

/// Runs the page's lines in a new folder `name`, which then has the folders `tls` and `client`.
fn certificates(bed: &Bed, name: &str) {
    let (_, lines) = PAGE.split_once("\n```sh\n").expect("the page has lines");
    let (lines, _) = lines.split_once("\n```").expect("they have an end");
    let folder = bed.path(name);
    std::fs::create_dir(&folder).expect("a folder");
    let mut shell = tool("sh");
    // Its absence is told with the package that has it.
    tool("openssl");
    run(shell.args(["-ec", lines]).current_dir(folder), 60).ok();
}

/// Where the server listens for TCP, as `nbd` or `nbds`.
fn address(server: &Server<'_>, scheme: &str) -> String {
    let exports = server.at_start["exports"].as_array().expect("a list");
    let uris = exports.iter().filter_map(|uri| uri.as_str());
    let mut found = uris.filter_map(|uri| uri.strip_prefix(&format!("{scheme}://")));
    found
        .next()
        .expect("a TCP address")
        .split('/')
        .next()
        .expect("a host")
        .to_owned()
}

fn serve<'a>(bed: &'a Bed, more: &[&str]) -> Server<'a> {
    let tls = bed.path("ours/tls");
    let tls = tls.to_str().expect("a path of text");
    let with_tls = ["--nbd", "tcp:127.0.0.1:0", "--tls", tls, "--shards", "2"];
    bed.serve(bed.drives())
        .option(&with_tls)
        .option(more)
        .start()
}

fn nbdinfo(uri: &str) -> Said {
    run(tool("nbdinfo").args(["--size", uri]), 60)
}

/// Waits until the server has said these words.
#[track_caller]
fn hears(server: &Server<'_>, words: &str) {
    let deadline = Instant::now() + Duration::from_secs(30);
    while !server.words().contains(words) {
        assert!(
            Instant::now() < deadline,
            "\"{words}\" is missing: {}",
            server.words()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn data_comes_and_goes_encrypted() {
    let bed = Bed::new(3, 48 * MIB);
    bed.create("data", 5, bed.drives(), &[]);
    certificates(&bed, "ours");
    let server = serve(&bed, &[]);
    let client = bed.path("ours/client");
    let uri = format!(
        "nbds://{}/data?tls-certificates={}",
        address(&server, "nbds"),
        client.display()
    );
    let size: u64 = nbdinfo(&uri).ok().out.trim().parse().expect("a size");
    // Bytes that differ everywhere, as long as the volume.
    let mut state = 7u64;
    let content: Vec<u8> = std::iter::repeat_with(|| {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        (state >> 56) as u8
    })
    .take(size as usize)
    .collect();
    let (given, back) = (bed.path("given"), bed.path("back"));
    std::fs::write(&given, &content).expect("room for a file");
    let copy = |from: &Path, to: &str, connections: &str| {
        run(
            tool("nbdcopy")
                .args(["--flush", "--connections", connections])
                .arg(from)
                .arg(to),
            120,
        )
        .ok();
    };
    copy(&given, &uri, "4");
    copy(Path::new(&uri), back.to_str().expect("a path of text"), "1");
    assert!(
        std::fs::read(&back).expect("it is there") == content,
        "other bytes came back"
    );
    // Another project's client, with another library for TLS in between.
    let (host, port) = address(&server, "nbds")
        .rsplit_once(':')
        .map(|(host, port)| (host.to_owned(), port.to_owned()))
        .expect("a port");
    let credentials = format!(
        "tls-creds-x509,id=t,endpoint=client,dir={}",
        client.display()
    );
    let image = format!("driver=nbd,host={host},port={port},export=data,tls-creds=t");
    let compare = ["compare", "--object", &credentials, "--image-opts", &image];
    let given_too = format!(
        "driver=raw,file.driver=file,file.filename={}",
        given.display()
    );
    run(tool("qemu-img").args(compare).arg(given_too), 120).ok();
    // The same bytes are seen by a client of the Unix socket, and the server ends although a client is connected.
    let plain = run(tool("nbdcopy").arg(server.uri("data")).arg(&back), 120);
    plain.ok();
    assert!(
        std::fs::read(&back).expect("it is there") == content,
        "other bytes are in the volume"
    );
    server.stop();
}

#[test]
fn who_proves_no_identity_is_refused_with_a_sentence() {
    let bed = Bed::new(2, 16 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    certificates(&bed, "ours");
    certificates(&bed, "others");
    let server = serve(&bed, &[]);
    let host = address(&server, "nbds");
    let with = |folder: &str| {
        format!(
            "nbds://{host}/data?tls-certificates={}",
            bed.path(folder).display()
        )
    };

    assert!(!nbdinfo(&format!("nbd://{host}/data")).status.success());
    hears(
        &server,
        "was refused: it did not use TLS, which this address requires; connect with nbds://",
    );

    std::fs::create_dir(bed.path("none")).expect("a folder");
    std::fs::copy(
        bed.path("ours/tls/ca-cert.pem"),
        bed.path("none/ca-cert.pem"),
    )
    .expect("a copy");
    assert!(!nbdinfo(&with("none")).status.success());
    hears(&server, "was refused: it presented no certificate");

    let authority = bed.path("others/client/ca-cert.pem");
    std::fs::copy(bed.path("ours/tls/ca-cert.pem"), authority).expect("a copy");
    assert!(!nbdinfo(&with("others/client")).status.success());
    hears(&server, "was refused: its certificate is not valid here: ");

    let mut garbage = TcpStream::connect(&host).expect("it listens");
    garbage
        .write_all(b"\0\0\0\x03GET / HTTP/1.1\r\n\r\n")
        .expect("it is taken");
    // The greeting, and then the end.
    drop(garbage.read_to_end(&mut Vec::new()));
    hears(
        &server,
        "it sent no option where one was due, which breaks the NBD protocol",
    );

    // A client that says nothing holds up nobody.
    let _silent = TcpStream::connect(&host).expect("it listens");
    nbdinfo(&with("ours/client")).ok();
    assert!(!server.words().contains("panicked"), "{}", server.words());
    server.stop();
}

#[test]
fn more_clients_than_places_are_turned_away_until_places_are_free() {
    let bed = Bed::new(2, 16 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    certificates(&bed, "ours");
    let server = serve(&bed, &[]);
    let host = address(&server, "nbds");
    let connect = |_| TcpStream::connect(&host).expect("it listens");
    let silent: Vec<TcpStream> = (0..80).map(connect).collect();
    hears(
        &server,
        "an NBD connection with TLS was refused because there are 64 already",
    );
    drop(silent);
    let uri = format!(
        "nbds://{host}/data?tls-certificates={}",
        bed.path("ours/client").display()
    );
    let deadline = Instant::now() + Duration::from_secs(30);
    while !nbdinfo(&uri).status.success() {
        assert!(
            Instant::now() < deadline,
            "no place is free again: {}",
            server.words()
        );
    }
    server.stop();
}

#[test]
fn a_tcp_address_needs_tls_or_a_word_that_it_is_insecure() {
    let bed = Bed::new(2, 16 * MIB);
    bed.create("data", 1, bed.drives(), &[]);
    certificates(&bed, "ours");
    let serve = |options: &[&str]| {
        bed.serve(bed.drives())
            .option(&["--nbd", "tcp:127.0.0.1:0"])
            .option(options)
    };
    serve(&[]).refused("because NBD has no passwords; give --tls FOLDER");
    serve(&["--tls", "nowhere"]).refused("nowhere/ca-cert.pem: ");
    let key = bed.path("ours/tls/server-key.pem");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o640)).expect("its mode");
    serve(&["--tls", "ours/tls"]).refused("server-key.pem may be read by others");
    std::fs::set_permissions(&key, std::fs::Permissions::from_mode(0o600)).expect("its mode");
    std::fs::copy(bed.path("ours/client/client-key.pem"), &key).expect("a copy");
    serve(&["--tls", "ours/tls"])
        .refused("server-cert.pem and server-key.pem in ours/tls cannot be used");
    // Under its new name and its old one.
    for word in ["--insecure", "--listen"] {
        let server = serve(&[word]).start();
        nbdinfo(&format!("nbd://{}/data", address(&server, "nbd"))).ok();
        server.stop();
    }
}
