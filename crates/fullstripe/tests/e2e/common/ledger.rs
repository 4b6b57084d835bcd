//! Random load that records every acknowledged write, and a check of every sector later.
//!
//! Each 512-byte sector contains its number, the version of the write that wrote it, and bytes derived from
//! both. So a sector identifies its write, and a wrong reconstruction cannot look right. Each sector of a write
//! that was never answered may be written or not; everything that was acknowledged must be there. Requests that
//! overlap are never in flight together.

use super::nbd::{self, Client};
use repeatable::random;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;

const SECTOR_BYTES: usize = 512;
/// The version of a sector that reads as zeros.
const ZEROS: u32 = 0;
/// No write is in doubt.
const NO_DOUBT: u32 = u32::MAX;
const VERIFY_BYTES: u32 = 1 << 20;
/// Requests in flight on each connection.
const DEPTH: usize = 8;

/// What a volume has to contain.
pub struct Ledger {
    seed: u64,
    random: u64,
    next_version: u32,
    acknowledged: Vec<u32>,
    /// Each sector's version that was sent but never answered.
    in_doubt: Vec<u32>,
    /// Sectors of requests in flight.
    busy: Vec<Range<usize>>,
}

/// The kind of load.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mix {
    /// All sizes from a sector to several rows, reads, zeroing, FUA and flushes, aligned to sectors.
    Everything,
    /// 4 KiB writes and reads.
    Small,
    /// Reads of all sizes.
    Reads,
}

/// Load that runs until it is stopped.
pub struct Load {
    ledger: Arc<Mutex<Ledger>>,
    stop: Arc<AtomicBool>,
    acknowledged: Arc<AtomicU64>,
    errors: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Clone, Copy)]
struct Request {
    kind: (u16, u16),
    first: usize,
    count: usize,
    version: u32,
}

impl Ledger {
    /// For a volume of zeros. The seed is printed when a check fails.
    pub fn new(size_bytes: u64, seed: u64) -> Ledger {
        let sectors = size_bytes as usize / SECTOR_BYTES;
        Ledger {
            seed,
            random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1,
            next_version: 1,
            acknowledged: vec![ZEROS; sectors],
            in_doubt: vec![NO_DOUBT; sectors],
            busy: Vec::new(),
        }
    }

    /// Starts load on `clients` until [`Load::stop`] or until all connections are gone.
    pub fn load(self, clients: Vec<Client>, mix: Mix) -> Load {
        let mut load = Load {
            ledger: Arc::new(Mutex::new(self)),
            stop: Arc::new(AtomicBool::new(false)),
            acknowledged: Arc::new(AtomicU64::new(0)),
            errors: Arc::new(AtomicU64::new(0)),
            threads: Vec::new(),
        };
        for client in clients {
            let worker = Worker {
                client,
                mix,
                ledger: load.ledger.clone(),
                in_flight: HashMap::new(),
                acknowledged: load.acknowledged.clone(),
                errors: load.errors.clone(),
            };
            let stop = load.stop.clone();
            load.threads
                .push(std::thread::spawn(move || worker.run(&stop)));
        }
        load
    }

    /// Writes every sector once, so that later checks do not merely compare zeros.
    #[track_caller]
    pub fn fill(&mut self, client: &mut Client) {
        let sectors = self.acknowledged.len();
        let step = VERIFY_BYTES as usize / SECTOR_BYTES;
        for first in (0..sectors).step_by(step) {
            let count = step.min(sectors - first);
            let version = self.take_version();
            let data = self.content(first, count, version);
            client
                .write(at(first), &data)
                .expect("the volume takes writes");
            self.acknowledged[first..first + count].fill(version);
        }
    }

    /// Reads the whole volume and compares. Afterwards no sector is in doubt.
    #[track_caller]
    pub fn verify(&mut self, client: &mut Client) {
        assert_eq!(
            client.size_bytes as usize / SECTOR_BYTES,
            self.acknowledged.len()
        );
        let sectors = self.acknowledged.len();
        let step = VERIFY_BYTES as usize / SECTOR_BYTES;
        for first in (0..sectors).step_by(step) {
            let count = step.min(sectors - first);
            let data = client.read(at(first), (count * SECTOR_BYTES) as u32);
            let data = data.unwrap_or_else(|error| panic!("sector {first}: error {error}"));
            self.check(first, &data);
            for sector in first..first + count {
                let found = self.version_of(&data[(sector - first) * SECTOR_BYTES..]);
                self.acknowledged[sector] = found;
                self.in_doubt[sector] = NO_DOUBT;
            }
        }
    }

    /// Sectors that were ever written.
    pub fn written(&self) -> usize {
        self.acknowledged
            .iter()
            .filter(|version| **version != ZEROS)
            .count()
    }

    fn check(&self, first: usize, data: &[u8]) {
        for (sector, bytes) in (first..).zip(data.chunks_exact(SECTOR_BYTES)) {
            let (sure, doubt) = (self.acknowledged[sector], self.in_doubt[sector]);
            let right = bytes == self.content(sector, 1, sure)
                || (doubt != NO_DOUBT && bytes == self.content(sector, 1, doubt));
            if !right {
                self.report(sector, bytes);
            }
        }
    }

    fn report(&self, sector: usize, bytes: &[u8]) -> ! {
        let (sure, doubt) = (self.acknowledged[sector], self.in_doubt[sector]);
        let doubt = if doubt == NO_DOUBT {
            "none".to_owned()
        } else {
            doubt.to_string()
        };
        let number = u64::from_le_bytes(bytes[..8].try_into().expect("8"));
        let found = self.version_of(bytes);
        let whole = found != ZEROS && bytes == self.content(number as usize, 1, found);
        panic!(
            "seed {}: sector {sector} must be of version {sure} (in doubt: {doubt}), but holds \
             version {found} of sector {number} ({}), of {} sectors, newest version {}",
            self.seed,
            if whole {
                "whole"
            } else {
                "not as written, or zeros"
            },
            self.acknowledged.len(),
            self.next_version - 1,
        );
    }

    fn version_of(&self, bytes: &[u8]) -> u32 {
        u32::from_le_bytes(bytes[8..12].try_into().expect("4"))
    }

    /// What `count` sectors from `first` contain in `version`.
    fn content(&self, first: usize, count: usize, version: u32) -> Vec<u8> {
        let mut bytes = vec![0; count * SECTOR_BYTES];
        if version == ZEROS {
            return bytes;
        }
        for (sector, bytes) in (first..).zip(bytes.chunks_exact_mut(SECTOR_BYTES)) {
            let key = sector as u64 ^ (u64::from(version) << 32) ^ self.seed;
            // In a crate that is optimised in tests too: this makes all that the tests write, and all that they compare.
            random::fill(key, bytes);
            bytes[..8].copy_from_slice(&(sector as u64).to_le_bytes());
            bytes[8..12].copy_from_slice(&version.to_le_bytes());
        }
        bytes
    }

    fn take_version(&mut self) -> u32 {
        self.next_version += 1;
        self.next_version - 1
    }

    fn below(&mut self, limit: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        (self.random >> 11) as usize % limit
    }

    /// The next request, or `None` if the drawn one overlaps a request in flight.
    fn choose(&mut self, mix: Mix) -> Option<Request> {
        let (kind, count, grain) = match (mix, self.below(100)) {
            (Mix::Reads, _) => ((nbd::READ, 0), 1 + self.below(600), 1),
            (Mix::Small, 0..30) => ((nbd::READ, 0), 8, 8),
            (Mix::Small, _) => ((nbd::WRITE, 0), 8, 8),
            (_, 0..20) => ((nbd::READ, 0), 1 + self.below(600), 1),
            (_, 20..50) => ((nbd::WRITE, 0), 8, 8),
            (_, 50..65) => ((nbd::WRITE, 0), 1 + self.below(16), 1),
            (_, 65..80) => ((nbd::WRITE, 0), 1 + self.below(1200), 1),
            (_, 80..88) => ((nbd::WRITE, 0), 384, 384),
            (_, 88..93) => ((nbd::WRITE, nbd::FLAG_FUA), 16, 8),
            (_, 93..98) => ((nbd::WRITE_ZEROES, 0), 1 + self.below(300), 1),
            _ => ((nbd::FLUSH, 0), 0, 1),
        };
        let places = (self.acknowledged.len() - count) / grain;
        let first = self.below(places) * grain;
        let range = first..first + count;
        if self
            .busy
            .iter()
            .any(|other| other.start < range.end && range.start < other.end)
        {
            return None;
        }
        // Only one version of a sector can be in doubt.
        if self.in_doubt[range.clone()]
            .iter()
            .any(|version| *version != NO_DOUBT)
        {
            return None;
        }
        let version = match kind.0 {
            nbd::WRITE => self.take_version(),
            _ => ZEROS,
        };
        self.busy.push(range);
        Some(Request {
            kind,
            first,
            count,
            version,
        })
    }

    /// Notes that a request was answered with success.
    fn succeeded(&mut self, request: Request) {
        let range = request.first..request.first + request.count;
        self.busy.retain(|other| *other != range);
        if matches!(request.kind.0, nbd::WRITE | nbd::WRITE_ZEROES) {
            self.acknowledged[range.clone()].fill(request.version);
            self.in_doubt[range].fill(NO_DOUBT);
        }
    }

    /// Notes that a request was answered with an error, or never.
    fn failed(&mut self, request: Request) {
        let range = request.first..request.first + request.count;
        self.busy.retain(|other| *other != range);
        if matches!(request.kind.0, nbd::WRITE | nbd::WRITE_ZEROES) {
            for sector in range {
                assert_eq!(
                    self.in_doubt[sector], NO_DOUBT,
                    "a sector is already in doubt: call verify before the next load"
                );
                self.in_doubt[sector] = request.version;
            }
        }
    }
}

fn at(sector: usize) -> u64 {
    (sector * SECTOR_BYTES) as u64
}

fn hold(ledger: &Mutex<Ledger>) -> MutexGuard<'_, Ledger> {
    ledger.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Requests answered with success so far.
    pub fn acknowledged(&self) -> u64 {
        self.acknowledged.load(Ordering::Relaxed)
    }

    /// Waits until `count` more requests have been answered.
    #[track_caller]
    pub fn wait_for(&self, count: u64, seconds: u64) {
        let wanted = self.acknowledged() + count;
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(seconds);
        while self.acknowledged() < wanted {
            let done = self.acknowledged();
            assert!(
                std::time::Instant::now() < deadline,
                "only {done} of {wanted} in {seconds} s"
            );
            assert!(
                self.threads.iter().any(|thread| !thread.is_finished()),
                "no client is left: {} requests met an error",
                self.errors.load(Ordering::Relaxed)
            );
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
    }

    /// Ends the load, expecting that no request met an error.
    #[track_caller]
    pub fn stop(self) -> Ledger {
        let (ledger, errors) = self.end();
        assert_eq!(errors, 0, "requests answered with an error or never");
        ledger
    }

    /// Ends the load; returns how many requests were answered with an error or not at all. Sectors that
    /// are in doubt must be verified before the next load.
    #[track_caller]
    pub fn end(self) -> (Ledger, u64) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
        let ledger = Arc::into_inner(self.ledger).expect("the threads have ended");
        let errors = self.errors.load(Ordering::Relaxed);
        (
            ledger.into_inner().unwrap_or_else(PoisonError::into_inner),
            errors,
        )
    }
}

struct Worker {
    client: Client,
    mix: Mix,
    ledger: Arc<Mutex<Ledger>>,
    in_flight: HashMap<u64, Request>,
    acknowledged: Arc<AtomicU64>,
    errors: Arc<AtomicU64>,
}

impl Worker {
    fn run(mut self, stop: &AtomicBool) {
        let mut refused = false;
        loop {
            let more = !refused && !stop.load(Ordering::Relaxed);
            while more && self.in_flight.len() < DEPTH && self.queue() {}
            if self.in_flight.is_empty() {
                if !more {
                    return;
                }
                std::thread::yield_now();
                continue;
            }
            match self.client.exchange() {
                Ok(Some(reply)) => refused |= !self.take(reply),
                Ok(None) => {}
                Err(_) => return self.lose(),
            }
        }
    }

    /// Adds a request; returns false if it would overlap another one.
    fn queue(&mut self) -> bool {
        let mut ledger = hold(&self.ledger);
        let Some(request) = ledger.choose(self.mix) else {
            return false;
        };
        let writes = request.kind.0 == nbd::WRITE;
        let count = if writes { request.count } else { 0 };
        let data = ledger.content(request.first, count, request.version);
        drop(ledger);
        let length = (request.count * SECTOR_BYTES) as u32;
        let offset = if request.count == 0 {
            0
        } else {
            at(request.first)
        };
        let cookie = self.client.queue(request.kind, offset, length, &data);
        self.in_flight.insert(cookie, request);
        true
    }

    /// Takes a reply; returns false if it is an error.
    fn take(&mut self, reply: nbd::Reply) -> bool {
        let request = self
            .in_flight
            .remove(&reply.cookie)
            .expect("a reply to a request of ours");
        let mut ledger = hold(&self.ledger);
        if reply.error != 0 {
            ledger.failed(request);
            self.errors.fetch_add(1, Ordering::Relaxed);
            return false;
        }
        if request.kind.0 == nbd::READ {
            ledger.check(request.first, &reply.data);
        }
        ledger.succeeded(request);
        self.acknowledged.fetch_add(1, Ordering::Relaxed);
        true
    }

    /// Notes that the connection is gone: all requests in flight are in doubt, however much of them was sent.
    fn lose(self) {
        let mut ledger = hold(&self.ledger);
        for request in self.in_flight.into_values() {
            ledger.failed(request);
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
    }
}
