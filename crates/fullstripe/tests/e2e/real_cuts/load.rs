//! Clients that send the requests that [`Promise`] draws, until they are stopped or the server no longer answers.

use super::promise::{Promise, Request, SECTOR_BYTES, at};
use crate::common::{Client, nbd};
use faultfs::FaultFs;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Requests in flight on each connection.
const DEPTH: usize = 6;
/// The length of each read when the whole volume is compared.
const VERIFY_BYTES: usize = 512 << 10;

/// A FUA write or flush, and the file system's moments at which it was sent and answered.
#[derive(Clone, Debug)]
pub struct Kept {
    pub request: Request,
    pub sent: u64,
    pub answered: u64,
}

/// State that the clients share.
pub struct Load<'a> {
    pub fs: &'a FaultFs,
    pub promise: Mutex<&'a mut Promise>,
    /// FUA writes and flushes that were answered with success.
    pub kept: Mutex<Vec<Kept>>,
    pub stop: AtomicBool,
    pub acknowledged: AtomicU64,
    /// The first fault that a client has found.
    pub wrong: Mutex<Option<String>>,
}

fn hold<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<'a> Load<'a> {
    pub fn new(fs: &'a FaultFs, promise: &'a mut Promise) -> Load<'a> {
        Load {
            fs,
            promise: Mutex::new(promise),
            kept: Mutex::default(),
            stop: AtomicBool::new(false),
            acknowledged: AtomicU64::new(0),
            wrong: Mutex::default(),
        }
    }

    fn complain(&self, sentence: String) {
        hold(&self.wrong).get_or_insert(sentence);
        self.stop.store(true, Ordering::Relaxed);
    }

    /// The first fault that a client has found, if any.
    pub fn take_wrong(&self) -> Option<String> {
        hold(&self.wrong).take()
    }

    /// Runs one client until the load is stopped or the connection is gone.
    pub fn run(&self, mut client: Client) {
        let mut under_way: HashMap<u64, (Request, u64)> = HashMap::new();
        let mut is_refused = false;
        loop {
            let goes_on = !is_refused && !self.stop.load(Ordering::Relaxed);
            while goes_on && under_way.len() < DEPTH && self.queue(&mut client, &mut under_way) {}
            if under_way.is_empty() {
                if !goes_on {
                    return;
                }
                std::thread::yield_now();
                continue;
            }
            match client.exchange() {
                Ok(Some(reply)) => {
                    let (request, sent) = under_way.remove(&reply.cookie).expect("it was asked");
                    is_refused |= !self.take(&request, sent, &reply);
                }
                Ok(None) => {}
                Err(_) => {
                    let mut promise = hold(&self.promise);
                    under_way
                        .values()
                        .for_each(|(request, _)| promise.failed(request));
                    return;
                }
            }
        }
    }

    fn queue(&self, client: &mut Client, under_way: &mut HashMap<u64, (Request, u64)>) -> bool {
        let mut promise = hold(&self.promise);
        let Some(request) = promise.begin() else {
            return false;
        };
        let is_write = request.kind.0 == nbd::WRITE;
        let count = if is_write { request.count } else { 0 };
        let data = promise.content(request.first, count, request.version);
        drop(promise);
        let length = (request.count * SECTOR_BYTES) as u32;
        let sent = self.fs.moment();
        let cookie = client.queue(request.kind, at(request.first), length, &data);
        under_way.insert(cookie, (request, sent));
        true
    }

    /// Takes a reply; returns false if it is an error.
    fn take(&self, request: &Request, sent: u64, reply: &nbd::Reply) -> bool {
        let answered = self.fs.moment();
        let mut promise = hold(&self.promise);
        if reply.error != 0 {
            promise.failed(request);
            drop(promise);
            if !self.fs.is_cut() {
                let error = reply.error;
                self.complain(format!("{request:?} was answered with error {error}"));
            }
            return false;
        }
        if request.kind.0 == nbd::READ
            && let Err(sentence) = promise.check(request.first, &reply.data)
        {
            self.complain(sentence);
        }
        promise.succeeded(request);
        drop(promise);
        if request.kind.0 == nbd::FLUSH || request.kind.1 & nbd::FLAG_FUA != 0 {
            hold(&self.kept).push(Kept {
                request: request.clone(),
                sent,
                answered,
            });
        }
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        true
    }
}

/// How a comparison ended.
#[derive(PartialEq, Eq, Debug)]
pub enum Compared {
    Right,
    /// The power was cut meanwhile.
    CutOff,
    Wrong(String),
}

/// Reads the whole volume and compares.
pub fn compare(fs: &FaultFs, client: &mut Client, promise: &mut Promise) -> Compared {
    let step = VERIFY_BYTES / SECTOR_BYTES;
    for first in (0..promise.sectors()).step_by(step) {
        let count = step.min(promise.sectors() - first);
        let asked = client.submit(
            (nbd::READ, 0),
            at(first),
            (count * SECTOR_BYTES) as u32,
            &[],
        );
        let reply = match asked.and_then(|_| client.receive()) {
            Ok(reply) if reply.error == 0 => reply,
            _ if fs.is_cut() => return Compared::CutOff,
            Ok(reply) => {
                let error = reply.error;
                return Compared::Wrong(format!("sector {first} cannot be read: error {error}"));
            }
            Err(error) => return Compared::Wrong(format!("sector {first}: {error}")),
        };
        if let Err(sentence) = promise.check(first, &reply.data) {
            return Compared::Wrong(sentence);
        }
    }
    Compared::Right
}
