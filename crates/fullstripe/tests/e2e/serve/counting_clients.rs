//! The metrics about clients, as monitoring reads them.

use crate::common::{Bed, MIB, Server};
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// The page for Prometheus.
fn metrics(server: &Server<'_>) -> String {
    let mut stream = UnixStream::connect(server.api_socket()).expect("the API listens");
    let request = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
    stream.write_all(request.as_bytes()).expect("it is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

/// The value of a metric about NBD clients.
fn of_clients(server: &Server<'_>, name: &str) -> u64 {
    let page = metrics(server);
    let start = format!("fullstripe_export_{name}{{export=\"nbd\"}} ");
    let line = page.lines().find_map(|line| line.strip_prefix(&start));
    let figure = line.unwrap_or_else(|| panic!("no {name} in {page}"));
    figure.parse().expect("a number")
}

fn wait_for(server: &Server<'_>, name: &str, wanted: u64) {
    let deadline = Instant::now() + Duration::from_secs(20);
    loop {
        let found = of_clients(server, name);
        if found == wanted {
            return;
        }
        assert!(Instant::now() < deadline, "{name} is {found}, not {wanted}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn clients_and_their_requests_are_counted_over_all_data_threads() {
    let bed = Bed::new(3, 64 * MIB);
    bed.create("vol0", 5, bed.first(3), &[]);
    let server = bed.serve(bed.first(3)).option(&["--shards", "2"]).start();
    wait_for(&server, "clients", 0);
    let mut clients = server.clients("vol0", 4);
    for (at, client) in (0..).zip(&mut clients) {
        client.write(at * MIB, &[1; 4096]).expect("a write");
        client.read(at * MIB, 4096).expect("a read");
        // Not aligned to a sector.
        client.read(at * MIB + 1, 512).expect_err("unaligned");
    }
    wait_for(&server, "clients", 4);
    wait_for(&server, "clients_accepted_total", 4);
    wait_for(&server, "requests_failed_total", 4);
    // Reads that the protocol refuses count as failed, but not as requests.
    wait_for(&server, "requests_total", 8);
    assert!(of_clients(&server, "received_bytes_total") >= 4 * 4096);
    assert!(of_clients(&server, "sent_bytes_total") >= 4 * 4096);
    drop(clients);
    wait_for(&server, "clients", 0);
    server.stop();
}
