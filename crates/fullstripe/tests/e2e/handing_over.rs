//! A planned upgrade: the server is ended, the next one goes on with its clients and its listening sockets.
//!
//! `manager.py` stands for systemd: it keeps the sockets that a server sends it, and starts the next one with them.

use crate::common::nbd::Client;
use crate::common::process::{Guarded, tied};
use crate::common::{Bed, Ledger, MIB, Mix, run, tool};
use serde_json::Value;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

const MANAGER: &str = include_str!("handing_over/manager.py");
/// How long anything may take on a busy machine.
const WITHIN: Duration = Duration::from_secs(40);

/// A server that a service manager has started.
struct Managed<'a> {
    bed: &'a Bed,
    /// Ends it and the server when this value is dropped.
    _manager: Guarded,
    orders: ChildStdin,
    said: Receiver<String>,
    nbd: PathBuf,
    api: PathBuf,
}

impl<'a> Managed<'a> {
    /// Starts it and waits until it serves, on any port of TCP.
    fn start(bed: &'a Bed) -> Managed<'a> {
        Managed::start_at(bed, 0)
    }

    /// As [`Managed::start`], on this port.
    fn start_at(bed: &'a Bed, port: u16) -> Managed<'a> {
        std::fs::write(bed.path("manager.py"), MANAGER).expect("room for a file");
        let (nbd, api) = (bed.path("nbd"), bed.path("api"));
        let mut command = tool("python3");
        command
            .arg(bed.path("manager.py"))
            .arg(bed.path(""))
            .arg(env!("CARGO_BIN_EXE_fullstripe"))
            .args(["serve", "--memory", "48m", "--insecure", "--socket"])
            .arg(&api)
            .arg("--nbd")
            .arg(format!("unix:{}", nbd.display()))
            .arg("--nbd")
            .arg(format!("tcp:127.0.0.1:{port}"))
            .args(bed.drives())
            .current_dir(bed.path(""))
            .env("XDG_STATE_HOME", bed.path(""))
            .env("HOME", bed.path(""))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut manager = Guarded::start(&mut command);
        let orders = manager.child().stdin.take().expect("it is piped");
        let out = manager.child().stdout.take().expect("it is piped");
        let (tell, said) = channel();
        std::thread::spawn(move || {
            let lines = BufReader::new(out).lines().map_while(Result::ok);
            lines.map_while(|line| tell.send(line).ok()).for_each(drop);
        });
        let mut managed = Managed {
            bed,
            _manager: manager,
            orders,
            said,
            nbd,
            api,
        };
        managed.until_ready();
        managed
    }

    /// What the manager says until the server is ready, without that.
    fn until_ready(&mut self) -> Vec<String> {
        let deadline = Instant::now() + WITHIN;
        let mut all = Vec::new();
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match self.said.recv_timeout(left) {
                Ok(line) if line.starts_with("ready ") => return all,
                Ok(line) => all.push(line),
                Err(error) => panic!("{error}: {all:?}, {}", self.log()),
            }
        }
    }

    /// Gives an order, and returns what the manager says until the next server is ready.
    fn order(&mut self, order: &str) -> Vec<String> {
        self.orders.write_all(order.as_bytes()).expect("it listens");
        self.until_ready()
    }

    /// Announces that the next server follows, as `upgrade` does. Returns the code of the answer.
    fn announce(&self) -> u16 {
        post(&self.api, "/v1/hand-over").0
    }

    fn client(&self) -> Client {
        Client::connect(&self.nbd, "data").expect("it listens")
    }

    /// All that the servers have said.
    fn log(&self) -> String {
        std::fs::read_to_string(self.bed.path("said")).unwrap_or_default()
    }

    /// The addresses of the volume.
    fn addresses(&self) -> Vec<String> {
        let mut command = tied(Path::new(env!("CARGO_BIN_EXE_fullstripe")));
        command
            .args(["status", "--json", "--socket"])
            .arg(&self.api);
        let said = run(&mut command, 40).ok();
        let status: Value = serde_json::from_str(&said.out).expect("it is JSON");
        let exports = status["exports"].as_array().expect("a list");
        let exports = exports.iter().filter_map(Value::as_str);
        exports.map(str::to_owned).collect()
    }
}

/// Posts nothing to a path; returns code and body of the answer.
fn post(api: &Path, path: &str) -> (u16, String) {
    let mut stream = UnixStream::connect(api).expect("the server listens");
    write!(
        stream,
        "POST {path} HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"
    )
    .expect("it reads");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("it answers");
    let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok());
    (code.expect("an answer of HTTP"), answer)
}

fn bed() -> Bed {
    let bed = Bed::new(3, 24 * MIB);
    bed.create("data", 5, bed.drives(), &["--chunk", "64k"]);
    bed
}

fn count(lines: &[String], word: &str) -> usize {
    lines.iter().filter(|line| line.starts_with(word)).count()
}

/// Whether the server has closed the connection of a client that has nothing in flight.
fn is_closed(client: &mut Client) -> bool {
    matches!(client.stream.read_to_end(&mut Vec::new()), Ok(0))
}

/// Copies a file to the volume and back again and again, each time on new connections, and compares.
fn copy_until(stop: &AtomicBool, bed: &Bed, uri: &str) -> u32 {
    let (source, back) = (bed.path("source"), bed.path("back"));
    let mut rounds = 0;
    while !stop.load(Ordering::Relaxed) {
        for (from, to) in [(source.as_path(), Path::new(uri)), (Path::new(uri), &back)] {
            let mut copy = tool("nbdcopy");
            run(copy.arg("--flush").arg(from).arg(to), 60).ok();
        }
        let [sent, got] = [&source, &back].map(|path| std::fs::read(path).expect("a file"));
        assert!(sent == got[..sent.len()], "round {rounds} differs");
        rounds += 1;
    }
    rounds
}

#[test]
fn clients_notice_nothing_but_a_pause() {
    let bed = bed();
    let mut managed = Managed::start(&bed);
    let addresses = managed.addresses();
    let clients: Vec<Client> = (0..3).map(|_| managed.client()).collect();
    let size_bytes = clients[0].size_bytes;
    let load = Ledger::new(size_bytes, 7).load(clients, Mix::Everything);
    let mut idle = managed.client();
    let silent = UnixStream::connect(&managed.nbd).expect("it listens");
    let tcp = addresses.iter().find(|uri| uri.starts_with("nbd://"));
    let host = tcp
        .and_then(|uri| uri.split('/').nth(2))
        .expect("an address");
    let mut far = TcpStream::connect(host).expect("it listens");
    let mut greeting = [0; 18];
    far.read_exact(&mut greeting).expect("it greets");
    for _ in 0..4 {
        load.wait_for(50, 40);
        assert_eq!(managed.announce(), 200);
        let begin = Instant::now();
        let said = managed.order("restart");
        load.wait_for(1, 40);
        println!("the pause was shorter than {:?}", begin.elapsed());
        // Three with load, one idle, two in the handshake; two addresses; the note.
        assert_eq!(count(&said, "stored"), 9, "{said:?}\n{}", managed.log());
        assert_eq!(count(&said, "forgotten"), 9, "{said:?}");
        assert_eq!(managed.addresses(), addresses);
    }
    let mut ledger = load.stop();
    ledger.verify(&mut managed.client());
    idle.flush().expect("it is served");
    // Those that had chosen nothing go on with their handshake.
    far.write_all(&3u32.to_be_bytes()).expect("it listens");
    far.write_all(b"IHAVEOPT\0\0\0\x03\0\0\0\0")
        .expect("it listens");
    far.read_exact(&mut greeting).expect("it answers");
    assert_eq!(
        greeting[12..16],
        2u32.to_be_bytes(),
        "an export is described"
    );
    drop(silent);
    assert!(!managed.log().contains("disconnected"), "{}", managed.log());
}

#[test]
fn who_connects_in_between_waits() {
    let bed = bed();
    std::fs::write(bed.path("source"), vec![0x5a; 1 << 20]).expect("room for a file");
    let mut managed = Managed::start(&bed);
    let uri = format!("nbd+unix:///data?socket={}", managed.nbd.display());
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let copying = scope.spawn(|| copy_until(&stop, &bed, &uri));
        for _ in 0..4 {
            std::thread::sleep(Duration::from_millis(300));
            assert_eq!(managed.announce(), 200);
            managed.order("restart");
        }
        stop.store(true, Ordering::Relaxed);
        let rounds = copying.join().expect("each copy succeeds");
        assert!(rounds > 0);
    });
}

#[test]
fn an_end_that_nobody_has_announced_leaves_nothing() {
    let bed = bed();
    let mut managed = Managed::start(&bed);
    let mut client = managed.client();
    let said = managed.order("restart");
    assert_eq!(said, ["ended"]);
    assert!(is_closed(&mut client));
    let mut client = managed.client();
    assert_eq!(managed.announce(), 200);
    let said = managed.order("kill");
    assert_eq!(said, ["ended"], "a server that is killed stores nothing");
    assert!(is_closed(&mut client));
    managed.client().flush().expect("the next one serves");
}

#[test]
fn whoever_stops_the_array_withdraws_the_announcement() {
    let bed = bed();
    let mut managed = Managed::start(&bed);
    let mut client = managed.client();
    assert_eq!(managed.announce(), 200);
    assert_eq!(post(&managed.api, "/v1/stop").0, 200);
    assert!(is_closed(&mut client));
    assert_eq!(managed.order("restart"), ["ended"], "nothing was stored");
}

#[test]
fn a_note_of_another_version_closes_the_connections() {
    let bed = bed();
    // The next server listens there anew.
    let free = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    let port = free.local_addr().expect("it has an address").port();
    drop(free);
    let mut managed = Managed::start_at(&bed, port);
    let mut client = managed.client();
    assert_eq!(managed.announce(), 200);
    let said = managed.order("damage");
    assert_eq!(count(&said, "forgotten"), 4, "{said:?}");
    assert!(is_closed(&mut client));
    let log = managed.log();
    let sentence = "the sockets of the server before are closed, and its NBD clients have to connect again: the note about \
                    them cannot be used: it has version 255, and this program knows 1";
    assert!(log.contains(sentence), "{log}");
    managed.client().flush().expect("the next one serves");
}

#[test]
fn without_a_manager_nothing_is_handed_over() {
    let bed = bed();
    let server = bed.serve(bed.drives()).start();
    let (code, answer) = post(server.api_socket(), "/v1/hand-over");
    assert_eq!(code, 409, "{answer}");
    assert!(
        answer.contains("systemd has not started this server"),
        "{answer}"
    );
    server.stop();
}
