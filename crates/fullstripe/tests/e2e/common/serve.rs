//! A running `fullstripe serve`: its events, its status, and the commands sent to it.

use super::bed::Bed;
use super::ledger::Ledger;
use super::nbd::Client;
use super::process::{Guarded, Said, run, tied};
use rustix::process::Signal;
use serde_json::Value;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

/// How long a start may take. The drives are small, but the machine may be busy with other tests.
const READY_WITHIN: Duration = Duration::from_secs(40);
/// How long an orderly end may take.
const END_WITHIN: Duration = Duration::from_secs(70);

/// Gives each server sockets of its own, because several run at the same time.
static NEXT_SOCKET: AtomicU32 = AtomicU32::new(0);

/// A server about to be started.
pub struct Starting<'a> {
    bed: &'a Bed,
    command: Command,
    nbd: PathBuf,
    socket: PathBuf,
}

impl<'a> Starting<'a> {
    pub(super) fn new(bed: &'a Bed, members: &[PathBuf]) -> Starting<'a> {
        let number = NEXT_SOCKET.fetch_add(1, Ordering::Relaxed);
        let nbd = bed.path(&format!("nbd{number}"));
        let socket = bed.path(&format!("api{number}"));
        let mut command = bed.fullstripe(&["serve", "--json", "--memory", "48m", "--nbd"]);
        command
            .arg(format!("unix:{}", nbd.display()))
            .arg("--socket")
            .arg(&socket)
            .args(members);
        Starting {
            bed,
            command,
            nbd,
            socket,
        }
    }

    /// A server of the array `name` of a settings file, whose key `nbd` has to name the file `nbd` in the bed.
    pub(super) fn of_array(bed: &'a Bed, name: &str, settings: &Path) -> Starting<'a> {
        let number = NEXT_SOCKET.fetch_add(1, Ordering::Relaxed);
        let socket = bed.path(&format!("api{number}"));
        let mut command = bed.fullstripe(&["serve", "--json", "--array", name, "--settings"]);
        command.arg(settings).arg("--socket").arg(&socket);
        Starting {
            bed,
            command,
            nbd: bed.path("nbd"),
            socket,
        }
    }

    /// Adds an option.
    pub fn option(mut self, words: &[&str]) -> Starting<'a> {
        self.command.args(words);
        self
    }

    /// Starts it and waits until it serves.
    #[track_caller]
    pub fn start(self) -> Server<'a> {
        self.try_start().unwrap_or_else(|why| panic!("{why}"))
    }

    /// As [`Starting::start`], but the server may end before it serves. The error contains what it printed.
    pub fn try_start(self) -> Result<Server<'a>, String> {
        let Starting {
            bed,
            mut command,
            nbd,
            socket,
        } = self;
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        let since = Instant::now();
        let mut process = Guarded::start(&mut command);
        let heard = Arc::new(Heard::default());
        listen(
            heard.clone(),
            process.child().stdout.take().expect("it is piped"),
            Heard::add_line,
        );
        listen(
            heard.clone(),
            process.child().stderr.take().expect("it is piped"),
            Heard::add_words,
        );
        let Some(at_start) = heard.wait(READY_WITHIN, |state| state.ready.clone()) else {
            return Err(format!(
                "the server does not start to serve (runs: {}, after {:?}): {}",
                process.runs(),
                since.elapsed(),
                heard.words()
            ));
        };
        Ok(Server {
            bed,
            process,
            heard,
            nbd,
            socket,
            at_start,
        })
    }

    /// Starts it and expects a refusal that contains `words`.
    #[track_caller]
    pub fn refused(mut self, words: &str) -> Said {
        let said = run(&mut self.command, 40).refused(words);
        let mut lines: Vec<&str> = said.err.lines().collect();
        // The server runs with `--json`: its last line is the reason, an object; the notes before it are sentences.
        let error: Value = serde_json::from_str(lines.pop().unwrap_or_default())
            .unwrap_or_else(|error| panic!("{error}: {said}"));
        let message = error["error"]["message"].as_str().unwrap_or_default();
        assert!(message.contains(words), "\"{words}\" is missing: {said}");
        assert!(
            lines.iter().all(|line| line.starts_with("fullstripe: ")),
            "a line before the error does not begin with \"fullstripe: \": {said}"
        );
        said
    }
}

/// What a server has said so far.
#[derive(Default)]
struct Heard {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    ready: Option<Value>,
    events: Vec<Value>,
    words: String,
    /// How many of its two streams have ended.
    ended: usize,
}

impl Heard {
    fn add_line(&self, line: &str) {
        let mut state = self.state.lock().expect("no holder panics");
        match serde_json::from_str::<Value>(line) {
            Ok(value) if value.get("kind").is_some() => state.events.push(value),
            Ok(value) => state.ready = Some(value),
            Err(_) => state.words += &format!("{line}\n"),
        }
        self.changed.notify_all();
    }

    fn add_words(&self, line: &str) {
        let mut state = self.state.lock().expect("no holder panics");
        state.words += &format!("{line}\n");
        self.changed.notify_all();
    }

    fn words(&self) -> String {
        self.state.lock().expect("no holder panics").words.clone()
    }

    /// Waits until `found` finds something in what was said; gives up when the process has ended.
    fn wait<T>(&self, within: Duration, found: impl Fn(&State) -> Option<T>) -> Option<T> {
        let deadline = Instant::now() + within;
        let mut state = self.state.lock().expect("no holder panics");
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            match found(&state) {
                Some(value) => return Some(value),
                None if left.is_zero() || state.ended == 2 => return None,
                None => state = self.changed.wait_timeout(state, left).expect("no panic").0,
            }
        }
    }
}

fn listen(heard: Arc<Heard>, from: impl Read + Send + 'static, add: fn(&Heard, &str)) {
    std::thread::spawn(move || {
        for line in BufReader::new(from).lines().map_while(Result::ok) {
            add(&heard, &line);
        }
        heard.state.lock().expect("no holder panics").ended += 1;
        heard.changed.notify_all();
    });
}

/// A running `fullstripe serve`, which is killed when this value is dropped.
pub struct Server<'a> {
    bed: &'a Bed,
    process: Guarded,
    heard: Arc<Heard>,
    nbd: PathBuf,
    /// The socket of its API.
    pub socket: PathBuf,
    /// The status at the moment when the server was ready.
    pub at_start: Value,
}

impl Server<'_> {
    /// Connects to a volume.
    #[track_caller]
    pub fn client(&self, export: &str) -> Client {
        match Client::connect(&self.nbd, export) {
            Ok(client) => client,
            Err(error) => panic!("cannot connect to {export}: {error}; {}", self.words()),
        }
    }

    /// `count` connections to a volume.
    #[track_caller]
    pub fn clients(&self, export: &str, count: usize) -> Vec<Client> {
        (0..count).map(|_| self.client(export)).collect()
    }

    /// Where NBD clients connect.
    pub fn nbd_socket(&self) -> &Path {
        &self.nbd
    }

    /// The API's socket.
    pub fn api_socket(&self) -> &Path {
        &self.socket
    }

    /// A volume's URI, as NBD tools take it.
    pub fn uri(&self, export: &str) -> String {
        format!("nbd+unix:///{export}?socket={}", self.nbd.display())
    }

    /// Runs a command against this server.
    #[track_caller]
    pub fn order(&self, words: &[&str]) -> Said {
        let mut command = self.bed.fullstripe(words);
        run(command.arg("--socket").arg(&self.socket), 60)
    }

    /// What `status --json` says.
    #[track_caller]
    pub fn status(&self) -> Value {
        let said = self.order(&["status", "--json"]).ok();
        serde_json::from_str(&said.out).unwrap_or_else(|error| panic!("{error}: {said}"))
    }

    /// The state of the volume with this number: `optimal`, `degraded`, ….
    #[track_caller]
    pub fn volume_state(&self, volume: usize) -> String {
        self.status()["volumes"][volume]["state"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }

    /// Requests the status until it is as wanted.
    #[track_caller]
    pub fn wait_status(&self, what: &str, seconds: u64, wanted: impl Fn(&Value) -> bool) -> Value {
        let deadline = Instant::now() + Duration::from_secs(seconds);
        loop {
            let status = self.status();
            if wanted(&status) {
                return status;
            }
            let (runs, words) = (Instant::now() < deadline, self.words());
            assert!(
                runs,
                "not {what} within {seconds} s: {status:#}\n{:#?}\n{words}",
                self.events()
            );
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Waits until every volume is whole and nothing is left to do.
    #[track_caller]
    pub fn wait_optimal(&self, seconds: u64) -> Value {
        self.wait_status("optimal", seconds, |status| {
            let volumes = status["volumes"].as_array().expect("a list of volumes");
            volumes
                .iter()
                .all(|volume| volume["state"] == "optimal" && volume["job"].is_null())
        })
    }

    /// Waits for an event of this kind whose sentence contains `words`.
    #[track_caller]
    pub fn wait_event(&self, kind: &str, words: &str, seconds: u64) -> Value {
        self.wait_events(kind, words, 1, seconds).remove(0)
    }

    /// Waits until `count` such events have come.
    #[track_caller]
    pub fn wait_events(&self, kind: &str, words: &str, count: usize, seconds: u64) -> Vec<Value> {
        let text = |event: &Value| event["text"].as_str().unwrap_or_default().contains(words);
        let found = self.heard.wait(Duration::from_secs(seconds), |state| {
            let matching = state
                .events
                .iter()
                .filter(|event| event["kind"] == kind && text(event));
            let matching: Vec<Value> = matching.cloned().collect();
            (matching.len() >= count).then_some(matching)
        });
        found.unwrap_or_else(|| {
            let (events, said) = (self.events(), self.words());
            panic!("no {count} events {kind} \"{words}\" within {seconds} s: {events:#?}\n{said}")
        })
    }

    /// All events so far, one line each.
    pub fn events(&self) -> Vec<String> {
        let state = self.heard.state.lock().expect("no holder panics");
        let line = |event: &Value| format!("{}: {}", event["kind"], event["text"]);
        state.events.iter().map(line).collect()
    }

    /// How many events of a kind have come.
    pub fn count_events(&self, kind: &str) -> usize {
        let state = self.heard.state.lock().expect("no holder panics");
        state
            .events
            .iter()
            .filter(|event| event["kind"] == kind)
            .count()
    }

    /// What the server printed on standard error, and lines of standard output that are not JSON.
    pub fn words(&self) -> String {
        self.heard.words()
    }

    /// The process number.
    pub fn pid(&mut self) -> u32 {
        self.process.child().id()
    }

    /// Whether the process runs.
    pub fn runs(&mut self) -> bool {
        self.process.runs()
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        self.process.signal(signal);
    }

    /// Kills it as a crash would and waits until it is gone.
    #[track_caller]
    pub fn kill(mut self) {
        self.process.signal(Signal::KILL);
        self.process.wait(END_WITHIN);
        self.expect_calm();
    }

    /// Ends it in order and expects success.
    #[track_caller]
    pub fn stop(self) {
        let (status, words) = self.end();
        assert!(status.success(), "{status}: {words}");
    }

    /// Ends it in order; returns how it ended and what it said.
    #[track_caller]
    pub fn end(mut self) -> (ExitStatus, String) {
        self.process.signal(Signal::TERM);
        let status = self.process.wait(END_WITHIN);
        self.expect_calm();
        (status, self.words())
    }

    /// Waits for an end that was caused elsewhere and expects success.
    #[track_caller]
    pub fn wait_end(mut self) {
        let status = self.process.wait(END_WITHIN);
        self.expect_calm();
        assert!(status.success(), "{status}: {}", self.words());
    }

    /// Checks that nothing panicked.
    #[track_caller]
    pub fn expect_calm(&self) {
        let words = self.words();
        assert!(!words.contains("panicked"), "{words}");
    }

    /// Reads the whole volume and compares it with what was acknowledged.
    #[track_caller]
    pub fn verify(&self, export: &str, ledger: &mut Ledger) {
        ledger.verify(&mut self.client(export));
        self.expect_calm();
    }
}
