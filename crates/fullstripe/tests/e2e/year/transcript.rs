//! A terminal in a test's folder: it runs command lines, and keeps a transcript. In that, everything that differs
//! from run to run is replaced, such as UUIDs, process numbers, times and rates.

use crate::common::nbd::Client;
use crate::common::process::{Guarded, run, tied};
use crate::common::{Bed, Ledger, Mix};
use rustix::process::Signal;
use std::fmt::Write as _;
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const ANSWERS_WITHIN_S: u64 = 60;
const VOLUME: &str = "vol0";

/// A terminal with its transcript.
pub struct Terminal<'a> {
    bed: &'a Bed,
    text: String,
    server: Option<Guarded>,
    /// What the volume must contain, once it was filled.
    ledger: Option<Ledger>,
}

impl<'a> Terminal<'a> {
    pub fn new(bed: &'a Bed) -> Terminal<'a> {
        Terminal {
            bed,
            text: String::new(),
            server: None,
            ledger: None,
        }
    }

    /// A heading in the transcript.
    pub fn says(&mut self, heading: &str) {
        let _ = writeln!(self.text, "\n# {heading}\n");
    }

    /// Runs a line, which must succeed.
    #[track_caller]
    pub fn done(&mut self, line: &str) {
        self.fails(0, line);
    }

    /// Runs a line, which must end with this exit code.
    #[track_caller]
    pub fn fails(&mut self, code: i32, line: &str) {
        let said = run(&mut self.command(line), ANSWERS_WITHIN_S);
        self.types(line);
        self.shows(&said.out);
        self.shows(&said.err);
        if code != 0 {
            let _ = writeln!(self.text, "[exit {code}]");
        }
        assert_eq!(said.status.code(), Some(code), "{said}");
        if line.starts_with("fullstripe stop") {
            self.ends();
        }
    }

    /// Runs a line of the shell that prints nothing.
    #[track_caller]
    pub fn shell(&mut self, line: &str) {
        self.types(line);
        let mut shell = tied(Path::new("/bin/sh"));
        shell.args(["-ec", line]).current_dir(self.bed.path(""));
        run(&mut shell, ANSWERS_WITHIN_S).ok();
    }

    /// Serves in the background, and shows what the server prints until it is ready.
    #[track_caller]
    pub fn serve(&mut self, line: &str) {
        self.types(&format!("{line} &"));
        let log = self.bed.path("log");
        let mut command = self.command(line);
        let out = File::create(&log).expect("a file");
        let err = out.try_clone().expect("the same");
        command.stdin(Stdio::null()).stdout(out).stderr(err);
        let mut server = Guarded::start(&mut command);
        let since = Instant::now();
        let said = loop {
            let said = std::fs::read_to_string(&log).expect("it is there");
            if said.contains("nbd+unix:") {
                break said;
            }
            let waits = server.runs() && since.elapsed() < Duration::from_secs(ANSWERS_WITHIN_S);
            assert!(waits, "the server does not serve: {said}");
            std::thread::sleep(Duration::from_millis(20));
        };
        self.server = Some(server);
        // Background jobs may start before or after the server is ready, so their lines are left out.
        let at_start = said.lines().filter(|line| !line.contains("started"));
        let at_start: Vec<&str> = at_start.collect();
        self.shows(&(at_start.join("\n") + "\n"));
    }

    /// Writes all of the volume.
    pub fn fill(&mut self) {
        let mut client = self.client();
        let mut ledger = Ledger::new(client.size_bytes, 16);
        ledger.fill(&mut client);
        client.flush().expect("it is flushed");
        self.ledger = Some(ledger);
    }

    /// Expects all acknowledged data.
    #[track_caller]
    pub fn verify(&mut self) {
        let mut client = self.client();
        let ledger = self.ledger.as_mut().expect("it was filled");
        ledger.verify(&mut client);
    }

    /// Kills the server with writes under way.
    pub fn kill_while_writing(&mut self) {
        let ledger = self.ledger.take().expect("it was filled");
        let load = ledger.load(vec![self.client(), self.client()], Mix::Everything);
        load.wait_for(200, 30);
        let mut server = self.server.take().expect("it serves");
        server.signal(Signal::KILL);
        server.wait(Duration::from_secs(ANSWERS_WITHIN_S));
        self.ledger = Some(load.end().0);
        self.bed.wait_released();
        self.types("kill -KILL %1");
    }

    /// Everything typed and shown so far.
    pub fn transcript(&self) -> &str {
        self.text.trim_start()
    }

    fn client(&self) -> Client {
        Client::connect(&self.bed.path("nbd.sock"), VOLUME).expect("it serves")
    }

    fn ends(&mut self) {
        let mut server = self.server.take().expect("it serves");
        server.wait(Duration::from_secs(ANSWERS_WITHIN_S));
    }

    fn command(&self, line: &str) -> Command {
        let mut words = line.split_whitespace();
        assert_eq!(words.next(), Some("fullstripe"));
        let mut command = self.bed.fullstripe(&words.collect::<Vec<_>>());
        command.env("FULLSTRIPE_SOCKET", self.bed.path("api"));
        command
    }

    fn types(&mut self, line: &str) {
        let _ = writeln!(self.text, "$ {line}");
    }

    fn shows(&mut self, said: &str) {
        let folder = self.bed.path("").display().to_string();
        let folder = folder.trim_end_matches('/');
        self.text += &steady(&said.replace(folder, "~"));
    }
}

/// The text without what differs from run to run, and without other servers on this machine.
fn steady(text: &str) -> String {
    let mut lines = String::new();
    for line in text.lines() {
        // Lines of progress, which appear when work takes some seconds on a slow machine.
        if line.split(' ').next().is_some_and(is_date) {
            continue;
        }
        // Shown only if the last write was a moment ago.
        let line = &line.replace(", in use", "");
        let elsewhere = line
            .find("; process ")
            .filter(|_| line.contains("no array is being served"));
        lines += steady_line(&line[..elsewhere.unwrap_or(line.len())]).trim_end();
        lines.push('\n');
    }
    lines
}

fn steady_line(line: &str) -> String {
    let words: Vec<&str> = line.split(' ').collect();
    let mut shown: Vec<String> = Vec::new();
    for (at, &word) in words.iter().enumerate() {
        let before = at.checked_sub(1).map_or("", |before| words[before]);
        let bare = word.trim_matches(|c: char| !c.is_ascii_alphanumeric());
        let stamp = bare
            .trim_end_matches(".backup")
            .rsplit(['-', '/'])
            .next()
            .unwrap_or(bare);
        let numbered = ["process", "update", "generation"].contains(&before);
        let after = words.get(at + 1).copied().unwrap_or_default();
        let is_counted = |word: &str| word.starts_with("write") || word.starts_with("entr");
        if is_counted(after) && is_number(bare) {
            shown.push("SOME".to_owned());
        } else if is_number(before) && is_counted(word) {
            let many = if word.starts_with('w') {
                "writes"
            } else {
                "entries"
            };
            shown.push(word.replace(bare, many));
        } else if is_uuid(stamp) {
            shown.push(word.replace(stamp, "UUID"));
        } else if stamp.len() == 14 && is_number(stamp) {
            shown.push(word.replace(stamp, "DATE"));
        } else if numbered && is_number(bare) {
            shown.push(word.replace(bare, "N"));
        } else if word.trim_end_matches([',', ';', ')']).ends_with("/s") {
            shown.pop();
            shown.push(word.replace(bare, "RATE"));
        } else if bare == "ago" {
            while shown.last().is_some_and(|part| is_duration(part)) {
                shown.pop();
            }
            shown.push(word.replace(bare, "a moment ago"));
        } else if before == "took" && is_duration(bare) {
            shown.push("TIME".to_owned());
        } else if is_date(bare) {
            shown.push(word.replace(bare, "DATE"));
        } else {
            shown.push(word.to_owned());
        }
    }
    shown.join(" ")
}

fn is_number(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// `20s`, one of the parts of a duration.
fn is_duration(word: &str) -> bool {
    word.strip_suffix(['s', 'm', 'h', 'd'])
        .is_some_and(is_number)
}

/// `1122aabb:…:…:…`, each part of eight digits.
fn is_uuid(word: &str) -> bool {
    let parts: Vec<&str> = word.split(':').collect();
    let hexadecimal = |part: &&str| part.len() == 8 && part.chars().all(|c| c.is_ascii_hexdigit());
    parts.len() == 4 && parts.iter().all(hexadecimal)
}

/// `20261125123059` in the name of a backup, `2026-11-25`, `12:30:59`, and both in one.
fn is_date(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let marks = word.chars().filter(|&c| c == '-' || c == ':').count();
    digits >= 6
        && marks >= 2
        && word
            .chars()
            .all(|c| c.is_ascii_digit() || "-:TZ.".contains(c))
}
