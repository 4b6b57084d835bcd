//! The load: a client that always keeps the same number of requests outstanding.
//!
//! A request that has completed since the last turn is issued again in the next turn, with a new offset and the same
//! memory. Its latency lasts from the turn that issued it to the turn that noticed the completion, as for a client in
//! the same loop. So latency times throughput equals the queue depth.
//!
//! Recording latencies and choosing offsets takes a few nanoseconds, and the same time for everything that is compared:
//! the array, the bare member and the generator alone.

use super::config::Workload;
use drives::arena::Pool;
use drives::port::Port;
use drives::ring::Ring;
use engine::request::{Completion, Failure, Operation, Request};
use engine::units::{Buffer, Nanos, VolumeId};
use engine::world::Input;
use hdrhistogram::Histogram;
use std::any::Any;

/// Longest latency that the histogram distinguishes; a member fails earlier.
const LATENCY_MAX_NS: u64 = 60 * Nanos::SECOND.0;
/// Bytes of random payload that are repeated in every buffer.
const RANDOM_BYTES: usize = 4096;

/// An empty histogram of latencies in nanoseconds, exact to three digits.
pub(super) fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LATENCY_MAX_NS, 3).expect("the bounds are constant and valid")
}

/// The part of the target that requests go to.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    /// Offset of its first byte.
    pub start_bytes: u64,
    /// Number of whole requests that fit.
    pub blocks: u64,
    /// Bytes of a request.
    pub block_bytes: u32,
}

impl Region {
    /// All of `size_bytes`, in whole requests.
    pub fn whole(size_bytes: u64, block_bytes: u32) -> Region {
        Region {
            start_bytes: 0,
            blocks: size_bytes / u64::from(block_bytes),
            block_bytes,
        }
    }

    /// The part of shard `index` of `count`: the whole region for random requests, an equal share for sequential ones,
    /// so that each shard is one stream.
    pub fn part(self, workload: Workload, index: u8, count: u8) -> Region {
        if workload.random {
            return self;
        }
        let blocks = (self.blocks / u64::from(count)).max(1);
        let first = (blocks * u64::from(index)).min(self.blocks - 1);
        Region {
            start_bytes: first * u64::from(self.block_bytes),
            blocks,
            ..self
        }
    }
}

/// Marsaglia's xorshift with Vigna's multiplier: it takes a few cycles and is good enough to spread offsets.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// Uniform over `0..count`, up to a bias of `count / 2^64`.
    #[inline]
    fn below(&mut self, count: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(count)) >> 64) as u64
    }
}

/// The slot of one request: its memory, and when it was issued.
#[derive(Clone, Copy, Debug)]
struct Slot {
    buffer: Buffer,
    issued: Nanos,
}

/// See the module's prose.
#[derive(Debug)]
pub(super) struct Load {
    workload: Workload,
    region: Region,
    random: Random,
    next_block: u64,
    slots: Vec<Slot>,
    /// Requests that have completed or were never issued.
    due: Vec<u32>,
    outstanding: u32,
    /// Requests that may still be issued.
    left: u64,
    stopped: bool,
    wake_at: Nanos,
    now: Nanos,
    completed: u64,
    /// The latest latency, and how often it occurred in a row: most requests of a turn have the same.
    repeated: (u64, u64),
    latency: Histogram<u64>,
    failure: Option<Failure>,
}

impl Load {
    /// A load of `depth` requests on `region`, with memory from `pool`, which is filled with random bytes. `None` if
    /// the pool is too small.
    pub fn new(
        workload: Workload,
        region: Region,
        depth: u32,
        pool: &mut Pool,
        seed: u64,
    ) -> Option<Load> {
        let mut random = Random::new(seed);
        let content: Vec<u8> = (0..RANDOM_BYTES).map(|_| random.next() as u8).collect();
        let mut slots = Vec::with_capacity(depth as usize);
        for _ in 0..depth {
            let buffer = pool.allocate(u64::from(region.block_bytes))?;
            for from in (0..region.block_bytes).step_by(RANDOM_BYTES) {
                let length = (region.block_bytes - from).min(RANDOM_BYTES as u32) as usize;
                pool.arena().write(buffer.at(from), &content[..length]);
            }
            slots.push(Slot {
                buffer,
                issued: Nanos(0),
            });
        }
        Some(Load {
            workload,
            region,
            random,
            next_block: 0,
            due: (0..depth).collect(),
            slots,
            outstanding: 0,
            left: u64::MAX,
            stopped: false,
            wake_at: Nanos(u64::MAX),
            now: Nanos(0),
            completed: 0,
            repeated: (0, 0),
            latency: histogram(),
            failure: None,
        })
    }

    /// Counts the requests that have completed, and issues them again.
    #[inline]
    pub fn issue(&mut self, now: Nanos, inputs: &mut Vec<Input>) {
        self.now = now;
        if self.due.is_empty() || self.stopped {
            return;
        }
        let mut due = std::mem::take(&mut self.due);
        self.completed += due.len() as u64;
        due.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= due.len() as u64;
        self.stopped = self.left == 0;
        for tag in due.drain(..) {
            let latency_ns = now.since(self.slots[tag as usize].issued).0;
            self.record(latency_ns);
            self.slots[tag as usize].issued = now;
            self.outstanding += 1;
            inputs.push(Input::Request(self.request(tag)));
        }
        self.due = due;
    }

    #[inline]
    fn record(&mut self, latency_ns: u64) {
        if self.repeated.0 == latency_ns {
            self.repeated.1 += 1;
        } else {
            self.record_repeated();
            self.repeated = (latency_ns, 1);
        }
    }

    fn record_repeated(&mut self) {
        let (latency_ns, times) = self.repeated;
        if times > 0 {
            self.latency.saturating_record_n(latency_ns, times);
            self.repeated.1 = 0;
        }
    }

    #[inline]
    fn request(&mut self, tag: u32) -> Request {
        let block = if self.workload.random {
            self.random.below(self.region.blocks)
        } else {
            let block = self.next_block;
            self.next_block = if block + 1 == self.region.blocks {
                0
            } else {
                block + 1
            };
            block
        };
        let read = match self.workload.read_percent {
            0 => false,
            100 => true,
            percent => self.random.below(100) < u64::from(percent),
        };
        Request {
            tag: u64::from(tag),
            volume: VolumeId(0),
            operation: if read {
                Operation::Read
            } else {
                Operation::Write
            },
            fua: false,
            offset_bytes: self.region.start_bytes + block * u64::from(self.region.block_bytes),
            length_bytes: self.region.block_bytes,
            buffer: self.slots[tag as usize].buffer,
        }
    }

    /// Records that a request has completed.
    #[inline]
    pub fn answered(&mut self, completion: Completion) {
        self.outstanding -= 1;
        self.due.push(completion.tag as u32);
        if let Err(failure) = completion.result {
            self.failure.get_or_insert(failure);
        }
    }

    /// Forgets the latencies so far.
    pub fn reset_latency(&mut self) {
        self.repeated = (0, 0);
        self.latency.reset();
    }

    /// The latencies since the last reset.
    pub fn latency(&mut self) -> &Histogram<u64> {
        self.record_repeated();
        &self.latency
    }

    /// Number of requests that were noticed as completed so far. The first issue of each slot counts too, so only
    /// differences are meaningful.
    pub fn completed(&self) -> u64 {
        self.completed
    }

    /// Number of requests that have not completed.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }

    /// Whether any request has ever completed.
    pub fn has_answers(&self) -> bool {
        self.completed > self.slots.len() as u64
    }

    /// The first failure, if any request failed.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// The time of the latest turn.
    pub fn now(&self) -> Nanos {
        self.now
    }

    /// Issues `requests` more requests, then none.
    pub fn limit(&mut self, requests: u64) {
        self.left = requests;
        self.stopped = requests == 0;
    }

    /// Whether no request is outstanding and none will be issued.
    pub fn is_over(&self) -> bool {
        self.stopped && self.outstanding == 0
    }

    /// Issues no more requests.
    pub fn stop(&mut self) {
        self.stopped = true;
    }

    /// Sets the time at which a waiting thread wakes up.
    pub fn wake_at(&mut self, at: Nanos) {
        self.wake_at = at;
    }

    /// The memory of each request, by tag.
    pub fn buffers(&self) -> impl Iterator<Item = Buffer> + '_ {
        self.slots.iter().map(|slot| slot.buffer)
    }
}

impl Port for Load {
    fn poll(&mut self, now: Nanos, _: &mut Ring, inputs: &mut Vec<Input>) {
        self.issue(now, inputs);
    }

    fn completion(&mut self, user_data: u64, _: i32, _: &mut Ring, _: &mut Vec<Input>) {
        unreachable!("the load starts no operation on the ring, so {user_data} cannot be answered");
    }

    fn complete(&mut self, completion: Completion) {
        self.answered(completion);
    }

    // The content of these buffers does not matter, so they are reused whatever a hung drive does to them. A hung drive
    // counts as failed, and then the measurement fails.
    fn pin(&mut self, _: Buffer) {}

    fn release(&mut self, _: Buffer) {}

    fn flush(&mut self, _: &mut Ring) {}

    /// Immediately if a request can be issued, otherwise at the next step of the measurement.
    fn next_wake(&self) -> Option<Nanos> {
        let ready = !self.due.is_empty() && !self.stopped;
        Some(if ready { self.now } else { self.wake_at })
    }

    fn mail(&mut self, _: Box<dyn Any + Send>) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use drives::arena::{Arena, ArenaOptions};

    fn load(workload: Workload, region: Region, depth: u32) -> Load {
        let options = ArenaOptions {
            length_bytes: 1 << 21,
            prefault: false,
            lock: false,
        };
        let mut pool = Pool::divide(&Arena::new(options).unwrap(), 1).remove(0);
        Load::new(workload, region, depth, &mut pool, 7).unwrap()
    }

    fn requests(inputs: &mut Vec<Input>) -> Vec<Request> {
        let request = |input| match input {
            Input::Request(request) => request,
            other => panic!("{other:?}"),
        };
        inputs.drain(..).map(request).collect()
    }

    #[test]
    fn the_depth_is_kept_and_latency_is_issue_to_notice() {
        let workload = Workload {
            read_percent: 100,
            random: false,
        };
        let mut load = load(workload, Region::whole(40_960, 4096), 4);
        let mut inputs = Vec::new();
        load.issue(Nanos(1000), &mut inputs);
        let first = requests(&mut inputs);
        let offsets: Vec<u64> = first
            .iter()
            .map(|request| request.offset_bytes / 4096)
            .collect();
        assert_eq!(offsets, [0, 1, 2, 3]);
        assert_eq!(load.outstanding(), 4);
        load.reset_latency();
        for request in &first[..2] {
            load.answered(Completion {
                tag: request.tag,
                result: Ok(()),
            });
        }
        load.issue(Nanos(1500), &mut inputs);
        assert_eq!(requests(&mut inputs).len(), 2);
        assert_eq!((load.outstanding(), load.completed()), (4, 6));
        assert_eq!((load.latency().len(), load.latency().max()), (2, 500));
        load.stop();
        load.answered(Completion {
            tag: 3,
            result: Err(Failure::Stopping),
        });
        load.issue(Nanos(2000), &mut inputs);
        assert!(inputs.is_empty());
        assert_eq!(load.failure(), Some(Failure::Stopping));
    }

    #[test]
    fn a_limit_is_kept_to_the_request() {
        let workload = Workload {
            read_percent: 0,
            random: true,
        };
        let mut load = load(workload, Region::whole(1 << 20, 4096), 4);
        load.limit(10);
        let mut inputs = Vec::new();
        let mut issued = 0;
        for turn in 0..20 {
            load.issue(Nanos(turn), &mut inputs);
            for request in requests(&mut inputs) {
                issued += 1;
                load.answered(Completion {
                    tag: request.tag,
                    result: Ok(()),
                });
            }
        }
        assert_eq!((issued, load.is_over()), (10, true));
    }

    #[test]
    fn sequential_shards_have_a_stream_each_and_wrap() {
        let workload = Workload {
            read_percent: 0,
            random: false,
        };
        let region = Region::whole(8 * 4096, 4096).part(workload, 1, 2);
        let mut load = load(workload, region, 5);
        let mut inputs = Vec::new();
        load.issue(Nanos(1), &mut inputs);
        let offsets: Vec<u64> = requests(&mut inputs)
            .iter()
            .map(|request| request.offset_bytes / 4096)
            .collect();
        assert_eq!(offsets, [4, 5, 6, 7, 4]);
    }

    #[test]
    fn random_requests_are_aligned_spread_and_mixed() {
        let workload = Workload {
            read_percent: 70,
            random: true,
        };
        let mut load = load(workload, Region::whole(1 << 30, 8192), 64);
        let mut inputs = Vec::new();
        let (mut reads, mut low) = (0, 0);
        for turn in 0..100 {
            load.issue(Nanos(turn), &mut inputs);
            for request in requests(&mut inputs) {
                assert!(request.offset_bytes.is_multiple_of(8192));
                assert!(request.offset_bytes + 8192 <= 1 << 30);
                reads += u32::from(request.operation == Operation::Read);
                low += u32::from(request.offset_bytes < 1 << 29);
                load.answered(Completion {
                    tag: request.tag,
                    result: Ok(()),
                });
            }
        }
        assert!((4200..4760).contains(&reads), "{reads} of 6400 are reads");
        assert!(
            (3000..3400).contains(&low),
            "{low} of 6400 in the lower half"
        );
    }
}
