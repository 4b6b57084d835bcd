//! One session of a life: a server that is used and disturbed until the power is cut.

use super::judge::Case;
use super::load::{Compared, Load, compare};
use super::promise::Promise;
use super::rig::{DRIVE_BYTES, KEPT_BYTES, Rig};
use crate::common::{Client, Server, nbd};
use faultfs::{CutAt, Fault, Operation};
use repeatable::random::Stream;
use serde_json::Value;
use std::sync::PoisonError;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A life without progress for so long is a failure.
const WITHIN: Duration = Duration::from_secs(30);
const EIO: i32 = 5;

/// The outcome of a session.
#[derive(Default)]
pub struct After {
    pub story: Vec<String>,
    pub marks: Vec<&'static str>,
    pub wrong: Option<String>,
    /// Whether all members were in sync from beginning to end; `None` if the session never began.
    pub is_whole: Option<bool>,
}

/// A running server, until the power is cut.
pub struct Session<'a> {
    rig: &'a Rig,
    server: &'a Server<'a>,
    random: &'a mut Stream,
    promise: &'a mut Option<Promise>,
    /// Members that were in sync at the start, and have not been disturbed since.
    members: Vec<usize>,
    is_whole: bool,
    story: Vec<String>,
    marks: Vec<&'static str>,
}

impl<'a> Session<'a> {
    pub fn new(
        rig: &'a Rig,
        server: &'a Server<'a>,
        random: &'a mut Stream,
        promise: &'a mut Option<Promise>,
    ) -> Session<'a> {
        let status = &server.at_start;
        let slots = status["volumes"][0]["slots"].as_array().expect("slots");
        let in_sync = slots.iter().filter(|slot| slot["state"] == "in sync");
        let members: Vec<usize> = in_sync
            .filter_map(|slot| drive_of(rig, status, slot))
            .collect();
        Session {
            is_whole: members.len() == rig.shape.members(),
            members,
            rig,
            server,
            random,
            promise,
            story: Vec::new(),
            marks: Vec::new(),
        }
    }

    pub fn run(mut self) -> After {
        let wrong = self.live().err();
        if !self.is_whole {
            self.marks
                .push("(without a member, or while one was filled)");
        }
        After {
            story: self.story,
            marks: self.marks,
            wrong,
            is_whole: Some(self.is_whole),
        }
    }

    /// A connection; `None` if there is none, as after a power cut.
    fn client(&self) -> Option<Client> {
        Client::connect(self.server.nbd_socket(), "data").ok()
    }

    fn live(&mut self) -> Result<(), String> {
        let Some(mut client) = self.client() else {
            return self.unless_cut("no connection");
        };
        let (size_bytes, grain) = (client.size_bytes, self.rig.shape.sector_bytes());
        let seed = self.random.draw();
        self.promise
            .get_or_insert_with(|| Promise::new(size_bytes, grain, seed));
        if !self.compare(&mut client)? {
            self.marks.push("(while it was read after a start)");
            return Ok(());
        }
        if self.random.chance(1, 6) && self.take_a_member_away() && !self.compare(&mut client)? {
            return Ok(());
        }
        if self.random.chance(1, 4) {
            self.flush(&mut client);
        }
        self.load(client)
    }

    fn unless_cut(&self, sentence: &str) -> Result<(), String> {
        if self.rig.fs.is_cut() {
            Ok(())
        } else {
            Err(format!("{sentence}; {}", self.server.words()))
        }
    }

    /// Compares the whole volume; returns false if the power is cut meanwhile.
    fn compare(&mut self, client: &mut Client) -> Result<bool, String> {
        let promise = self.promise.as_mut().expect("it was made");
        match compare(&self.rig.fs, client, promise) {
            Compared::Right => Ok(true),
            Compared::CutOff => Ok(false),
            Compared::Wrong(sentence) => Err(format!(
                "{sentence}\n{}\n{}",
                self.server.words(),
                self.server.events().join("\n")
            )),
        }
    }

    fn flush(&mut self, client: &mut Client) {
        let promise = self.promise.as_mut().expect("it was made");
        let request = promise.begin_this((nbd::FLUSH, 0), 0, 0);
        let asked = client.submit((nbd::FLUSH, 0), 0, 0, &[]);
        match asked.and_then(|_| client.receive()) {
            Ok(reply) if reply.error == 0 => promise.succeeded(&request),
            _ => promise.failed(&request),
        }
    }

    /// Fails a member, if the array is whole and promises to keep its data without it; returns whether it did.
    fn take_a_member_away(&mut self) -> bool {
        let shape = &self.rig.shape;
        if !self.is_whole || (shape.level == 5 && shape.write_hole != "log") {
            return false;
        }
        let at = self.random.below(self.members.len() as u64) as usize;
        let member = self.members.remove(at);
        self.is_whole = false;
        let how = self.random.below(4);
        self.story
            .push(format!("member d{member} fails in way {how}"));
        match how {
            0 => self
                .rig
                .fs
                .inject(Fault::always(member, Operation::Write, EIO)),
            1 => self.rig.fs.inject(Fault {
                loses: true,
                ..Fault::once(member, Operation::Sync, EIO)
            }),
            _ => {
                // The order's result does not matter, because the power may be cut meanwhile.
                let name = self.rig.drive(member).display().to_string();
                self.server.order(&["fail", &name]);
            }
        }
        true
    }

    /// Disturbs the members while clients are busy: fails one or adds a spare.
    fn event(&mut self) {
        if self.take_a_member_away() {
            return;
        }
        let is_out = |drive: &usize| !self.members.contains(drive);
        let out: Vec<usize> = (0..self.rig.drives().len()).filter(is_out).collect();
        let shape = &self.rig.shape;
        if out.len() < 2 || (shape.level == 5 && shape.write_hole != "log") {
            return;
        }
        let drive = self.random.pick(&out);
        self.story.push(format!("d{drive} is given as a spare"));
        let path = self.rig.drive(drive).display().to_string();
        self.server.order(&["add-spare", "--force", &path]);
    }

    fn load(&mut self, client: Client) -> Result<(), String> {
        let clients: Vec<Client> = match self.random.chance(1, 2) {
            true => std::iter::once(client).chain(self.client()).collect(),
            false => vec![client],
        };
        let target = self.random.below(250);
        let happens = self.random.chance(1, 3);
        let mut at_record = false;
        if self.random.chance(1, 2) {
            at_record = self.random.chance(1, 3);
            let cut_at = CutAt {
                operations: Vec::new(),
                range: if at_record {
                    DRIVE_BYTES - KEPT_BYTES..DRIVE_BYTES
                } else {
                    0..u64::MAX
                },
                skip: self.random.below(if at_record { 30 } else { 300 }),
                is_carried_out: self.random.chance(1, 2),
            };
            self.story.push(format!("to be cut off: {cut_at:?}"));
            self.rig.fs.cut_at(cut_at);
        }
        let rig = self.rig;
        let mut promise = self.promise.take().expect("it was made");
        let load = Load::new(&rig.fs, &mut promise);
        let waited = std::thread::scope(|scope| {
            for client in clients {
                scope.spawn(|| load.run(client));
            }
            let is_over = || rig.fs.is_cut() || load.stop.load(Ordering::Relaxed);
            let wait = |wanted: u64| {
                let since = Instant::now();
                while load.acknowledged.load(Ordering::Relaxed) < wanted && !is_over() {
                    if since.elapsed() > WITHIN {
                        return Err(format!("clients wait for longer than {WITHIN:?}"));
                    }
                    std::thread::sleep(Duration::from_millis(1));
                }
                Ok(())
            };
            let mut waited = wait(target / 2);
            if happens && waited.is_ok() && !is_over() {
                self.event();
            }
            waited = waited.and_then(|()| wait(target));
            if at_record && rig.fs.is_cut() {
                self.marks
                    .push("(at a write of a record, or the flush of one)");
            }
            // Requests are under way. Either the process is killed at once, or the power is cut and the process is
            // killed a moment later.
            if self.random.chance(1, 2) {
                self.server.signal(rustix::process::Signal::KILL);
            } else {
                rig.fs.cut();
                std::thread::sleep(Duration::from_millis(self.random.below(30)));
                self.server.signal(rustix::process::Signal::KILL);
            }
            waited
        });
        let (kept, wrong) = (
            std::mem::take(&mut *load.kept.lock().unwrap_or_else(PoisonError::into_inner)),
            load.take_wrong(),
        );
        let acknowledged = load.acknowledged.load(Ordering::Relaxed);
        self.story
            .push(format!("{acknowledged} requests were acknowledged"));
        let journal = rig.fs.journal();
        let case = Case {
            shape: &rig.shape,
            journal: &journal,
            members: &self.members,
            is_whole: self.is_whole,
            // A start that finds only shadows whole keeps them until the records are written, so these come
            // without shadows of their own.
            begins_at_rest: false,
        };
        let judged = case.judge(&promise, &kept);
        *self.promise = Some(promise);
        if let Some(wrong) = wrong {
            return Err(format!(
                "{wrong}\n{}\n{}",
                self.server.words(),
                self.server.events().join("\n")
            ));
        }
        waited?;
        judged
    }
}

/// The number of the drive in a slot.
fn drive_of(rig: &Rig, status: &Value, slot: &Value) -> Option<usize> {
    let members = status["members"].as_array()?;
    let member = members
        .iter()
        .find(|member| member["id"] == slot["member"])?;
    rig.number_of(member["serial"].as_str()?)
}
