//! Measures the parity and copy kernels alone on this machine: one figure per thread, in bytes per second.
//!
//! usage: kernel_speed xor:SOURCES|copy|stream BYTES warm|cold|cached-source SECONDS [CORE...]
//!        kernel_speed read|reconstruct:SOURCES|small-write BYTES cold SECONDS [CORE...]
//!
//! `xor:4` computes the parity of four sources and counts all bytes of sources and target. `copy`, and `stream`, which
//! bypasses the caches, count the copied bytes once. A warm run uses the same buffers all the time. A cold run moves
//! through 512 MiB per thread, on huge pages if the kernel grants them. With a cached source, only the target moves.
//!
//! The second line moves the bytes of one request over members in RAM, and nothing else: a read copies from a random
//! place to one of 64 warm buffers, a reconstruction reads from so many random places and computes their parity, and a
//! small write of RAID 5 reads two places, computes the new parity, and writes both. The bytes of the request are
//! counted. What a drive would deliver is copied first. The first lines of the next call's places are prefetched.
//!
//! One thread runs on each given core, all at the same time; without a core, one thread runs anywhere.
//!
//! `benchmarks/run xor` compares it with ISA-L and the C library, and the benchmarks show a two-thread run beside every
//! figure for two cores.

use drives::arena::{Arena, ArenaOptions};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// The range of a cold run: many times a core's share of any cache.
const COLD_BYTES: usize = 512 << 20;
/// Bytes between two reads of the clock.
const BATCH_BYTES: usize = 1 << 20;
/// More sources than any array has members.
const SOURCES_MAX: usize = 64;

#[derive(Clone, Copy)]
enum Kernel {
    Xor { sources: usize },
    Copy,
    Stream,
    Request(Request),
}

/// The bytes of a request over members in RAM.
#[derive(Clone, Copy)]
enum Request {
    /// Computed from so many places; a plain read if it is one.
    Read {
        sources: usize,
    },
    SmallWrite,
}

impl Kernel {
    fn parse(text: &str) -> Option<Kernel> {
        match text {
            "copy" => return Some(Kernel::Copy),
            "stream" => return Some(Kernel::Stream),
            "read" => return Some(Kernel::Request(Request::Read { sources: 1 })),
            "small-write" => return Some(Kernel::Request(Request::SmallWrite)),
            _ => {}
        }
        let (name, sources) = text.split_once(':')?;
        let sources: usize = sources.parse().ok()?;
        match name {
            _ if !(1..=SOURCES_MAX).contains(&sources) => None,
            "xor" => Some(Kernel::Xor { sources }),
            "reconstruct" => Some(Kernel::Request(Request::Read { sources })),
            _ => None,
        }
    }

    /// Buffers of one call.
    fn buffers(self) -> usize {
        match self {
            Kernel::Xor { sources } => sources + 1,
            Kernel::Copy | Kernel::Stream | Kernel::Request(_) => 2,
        }
    }

    /// Bytes of one call that are counted.
    fn counted_bytes(self, length: usize) -> usize {
        match self {
            Kernel::Xor { sources } => (sources + 1) * length,
            Kernel::Copy | Kernel::Stream | Kernel::Request(_) => length,
        }
    }

    /// One call. The sources lie one after the other, beginning at `from`.
    ///
    /// # Safety
    ///
    /// All sources and the target belong to the caller alone, have `length` bytes each, and do not overlap.
    unsafe fn run(self, from: *const u8, target: *mut u8, length: usize) {
        // SAFETY: the caller's promise.
        unsafe {
            match self {
                Kernel::Xor { sources } => {
                    let mut addresses = [std::ptr::null(); SOURCES_MAX];
                    for (at, address) in addresses[..sources].iter_mut().enumerate() {
                        *address = from.add(at * length);
                    }
                    engine::xor::xor_into(target, &addresses[..sources], length);
                }
                Kernel::Copy => std::ptr::copy_nonoverlapping(from, target, length),
                Kernel::Stream => engine::xor::copy_streaming(target, from, length),
                Kernel::Request(_) => unreachable!("requests are measured apart"),
            }
        }
    }
}

/// Warm buffers of clients.
const CLIENTS: usize = 64;

impl Request {
    /// Places on members that one call uses.
    fn places(self) -> usize {
        match self {
            Request::Read { sources } => sources,
            Request::SmallWrite => 2,
        }
    }

    /// One call.
    ///
    /// # Safety
    ///
    /// All addresses belong to the caller alone and have `length` bytes each; `scratch` has that for each place.
    unsafe fn run(self, places: &[*mut u8], client: *mut u8, scratch: *mut u8, length: usize) {
        let copy = |from: *mut u8, to: *mut u8| {
            // SAFETY: the caller's promise.
            unsafe { std::ptr::copy_nonoverlapping(from, to, length) }
        };
        let old = |number: usize| scratch.wrapping_add(number * length);
        match self {
            Request::Read { .. } => {
                let mut sources = [client.cast_const(); SOURCES_MAX];
                copy(places[0], client);
                for (number, &place) in places.iter().enumerate().skip(1) {
                    copy(place, old(number));
                    sources[number] = old(number);
                }
                if places.len() > 1 {
                    // SAFETY: the caller's promise.
                    unsafe { engine::xor::xor_into(client, &sources[..places.len()], length) }
                }
            }
            Request::SmallWrite => {
                copy(places[0], old(0));
                copy(places[1], old(1));
                let sources = [old(0), old(1), client].map(<*mut u8>::cast_const);
                // SAFETY: the caller's promise.
                unsafe { engine::xor::xor_into(old(1), &sources, length) }
                copy(client, places[0]);
                copy(old(1), places[1]);
            }
        }
    }

    /// As [`Asked::measure`].
    fn measure(self, asked: Asked, meeting: &Barrier) -> f64 {
        let length = asked.length;
        let arena = |length_bytes| {
            let arena = Arena::new(ArenaOptions {
                length_bytes,
                prefault: true,
                lock: false,
            })
            .expect("there is memory for the buffers");
            arena.fill(arena.start(), length_bytes as u64, 0x5A);
            let first = std::ptr::with_exposed_provenance_mut::<u8>(arena.start().0 as usize);
            (arena, first)
        };
        let count = COLD_BYTES / length;
        let (_members, members) = arena(count * length);
        let (_warm, warm) = arena((CLIENTS + self.places()) * length);
        let scratch = warm.wrapping_add(CLIENTS * length);
        // The mixing steps of SplitMix64: no prefetcher foresees the places.
        let place = |number: usize| {
            let mut mixed = (number as u64 + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
            mixed = (mixed ^ mixed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            members.wrapping_add((mixed >> 32) as usize % count * length)
        };
        let each = self.places();
        meeting.wait();
        let begin = Instant::now();
        let mut calls = 0;
        loop {
            for _ in 0..BATCH_BYTES.div_ceil(length) {
                let mut places = [members; SOURCES_MAX];
                for (at, address) in places[..each].iter_mut().enumerate() {
                    *address = place(calls * each + at);
                    fetch(place((calls + 1) * each + at), length);
                }
                let client = warm.wrapping_add(calls % CLIENTS * length);
                // SAFETY: the arenas belong to this thread alone and hold all places.
                unsafe { self.run(&places[..each], client, scratch, length) }
                calls += 1;
            }
            let passed = begin.elapsed();
            if passed >= asked.time {
                return (calls * length) as f64 / passed.as_secs_f64();
            }
        }
    }
}

/// Prefetches the first KiB of a place, where Rust offers an instruction for it.
fn fetch(place: *const u8, length: usize) {
    for at in (0..length.min(1024)).step_by(64) {
        #[cfg(target_arch = "x86_64")]
        // SAFETY: a hint that accesses no memory, whatever the address.
        unsafe {
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch(place.wrapping_add(at).cast(), _MM_HINT_T0);
        }
    }
}

/// Which buffers change at every call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Cache {
    Warm,
    Cold,
    CachedSource,
}

#[derive(Clone, Copy)]
struct Asked {
    kernel: Kernel,
    length: usize,
    cache: Cache,
    time: Duration,
}

impl Asked {
    fn parse(words: &[String]) -> Option<(Asked, Vec<usize>)> {
        let [kernel, length, cache, seconds, cores @ ..] = words else {
            return None;
        };
        let length = length.parse().ok().filter(|&length| length > 0)?;
        let cache = match cache.as_str() {
            "warm" => Cache::Warm,
            "cold" => Cache::Cold,
            "cached-source" => Cache::CachedSource,
            _ => return None,
        };
        let asked = Asked {
            kernel: Kernel::parse(kernel)?,
            length,
            cache,
            time: Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
        };
        let is_request = matches!(asked.kernel, Kernel::Request(_));
        if is_request && (asked.cache != Cache::Cold || asked.length > COLD_BYTES) {
            return None;
        }
        let cores = cores.iter().map(|core| core.parse().ok());
        Some((asked, cores.collect::<Option<Vec<usize>>>()?))
    }

    /// Bytes per second on the calling thread, measured from the moment when all threads are ready.
    fn measure(self, meeting: &Barrier) -> f64 {
        if let Kernel::Request(request) = self.kernel {
            return request.measure(self, meeting);
        }
        let sources_bytes = (self.kernel.buffers() - 1) * self.length;
        // How far the sources and the target move from call to call.
        let (from_step, target_step) = match self.cache {
            Cache::Warm => (0, 0),
            Cache::Cold => (sources_bytes + self.length, sources_bytes + self.length),
            Cache::CachedSource => (0, self.length),
        };
        let places = COLD_BYTES.checked_div(target_step).unwrap_or(1).max(1);
        let length_bytes = sources_bytes + self.length + (places - 1) * target_step;
        let arena = Arena::new(ArenaOptions {
            length_bytes,
            prefault: true,
            lock: false,
        })
        .expect("there is memory for the buffers");
        let start = arena.start();
        let first = std::ptr::with_exposed_provenance_mut::<u8>(start.0 as usize);
        arena.fill(start, length_bytes as u64, 0x5A);
        meeting.wait();
        let begin = Instant::now();
        let mut calls = 0;
        loop {
            for _ in 0..BATCH_BYTES.div_ceil(sources_bytes + self.length) {
                let place = calls % places;
                let (from, target) = (place * from_step, sources_bytes + place * target_step);
                // SAFETY: the arena belongs to this thread alone and holds all places; a target lies behind its
                // sources.
                unsafe {
                    (self.kernel).run(first.add(from), first.add(target), self.length);
                }
                calls += 1;
            }
            let passed = begin.elapsed();
            if passed >= self.time {
                let bytes = (calls * self.kernel.counted_bytes(self.length)) as f64;
                return bytes / passed.as_secs_f64();
            }
        }
    }
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let Some((asked, cores)) = Asked::parse(&words) else {
        eprintln!(
            "usage: kernel_speed xor:SOURCES|copy|stream BYTES warm|cold|cached-source SECONDS [CORE...]\n       \
             kernel_speed read|reconstruct:SOURCES|small-write BYTES cold SECONDS [CORE...]"
        );
        return ExitCode::from(2);
    };
    let places: Vec<Option<usize>> = match cores.as_slice() {
        [] => vec![None],
        cores => cores.iter().copied().map(Some).collect(),
    };
    let meeting = Barrier::new(places.len());
    let rates: Vec<String> = std::thread::scope(|scope| {
        let start = |place: Option<usize>| {
            let meeting = &meeting;
            scope.spawn(move || {
                if let Some(core) = place {
                    let mut set = CpuSet::new();
                    set.set(core);
                    sched_setaffinity(None, &set).expect("the core is there and allowed");
                }
                format!("{:.0}", asked.measure(meeting))
            })
        };
        let threads: Vec<_> = places.into_iter().map(start).collect();
        let joined = |thread: std::thread::ScopedJoinHandle<String>| thread.join();
        threads.into_iter().map(joined).collect::<Result<_, _>>()
    })
    .expect("no thread panics");
    println!("{}", rates.join(" "));
    ExitCode::SUCCESS
}
