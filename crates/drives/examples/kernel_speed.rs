//! How fast the parity and copy kernels are on this machine, alone: one figure per thread, in bytes per
//! second.
//!
//! usage: kernel_speed xor:SOURCES|copy BYTES warm|cold SECONDS [CORE...]
//!
//! `xor:4` computes parity of four sources; what counts are all bytes touched, sources and target.
//! `copy` counts the bytes copied, once. Warm goes over the same buffers again and again, cold walks
//! through 512 MiB per thread, on huge pages where the kernel gives them. One thread runs on each core
//! that is named, all at the same time; without a core, one thread runs anywhere.
//!
//! `benchmarks/run xor` holds it against ISA-L and the C library, and every two-core figure of the
//! benchmarks has its two-thread run beside it.

use drives::arena::{Arena, ArenaOptions};
use rustix::thread::{CpuSet, sched_setaffinity};
use std::process::ExitCode;
use std::sync::Barrier;
use std::time::{Duration, Instant};

/// What a cold run walks through; many times any cache's share of a core.
const COLD_BYTES: usize = 512 << 20;
/// Between two looks at the clock.
const BATCH_BYTES: usize = 1 << 20;
/// More sources than any array has members.
const SOURCES_MAX: usize = 64;

#[derive(Clone, Copy)]
enum Kernel {
    Xor { sources: usize },
    Copy,
}

impl Kernel {
    fn parse(text: &str) -> Option<Kernel> {
        if text == "copy" {
            return Some(Kernel::Copy);
        }
        let sources: usize = text.strip_prefix("xor:")?.parse().ok()?;
        (1..=SOURCES_MAX)
            .contains(&sources)
            .then_some(Kernel::Xor { sources })
    }

    /// Buffers of one call.
    fn buffers(self) -> usize {
        match self {
            Kernel::Xor { sources } => sources + 1,
            Kernel::Copy => 2,
        }
    }

    /// Bytes of one call that count.
    fn counted_bytes(self, length: usize) -> usize {
        match self {
            Kernel::Xor { sources } => (sources + 1) * length,
            Kernel::Copy => length,
        }
    }

    /// One call on the buffers that lie one behind the other at `start`; the last one is the target.
    ///
    /// # Safety
    ///
    /// All buffers are the caller's alone, `length` bytes each.
    unsafe fn run(self, start: *mut u8, length: usize) {
        // SAFETY: the caller vouches for the buffers, which do not overlap.
        unsafe {
            match self {
                Kernel::Xor { sources } => {
                    let mut addresses = [std::ptr::null(); SOURCES_MAX];
                    for (at, address) in addresses[..sources].iter_mut().enumerate() {
                        *address = start.add(at * length).cast_const();
                    }
                    let target = start.add(sources * length);
                    engine::xor::xor_into(target, &addresses[..sources], length);
                }
                Kernel::Copy => std::ptr::copy_nonoverlapping(start, start.add(length), length),
            }
        }
    }
}

#[derive(Clone, Copy)]
struct Asked {
    kernel: Kernel,
    length: usize,
    cold: bool,
    time: Duration,
}

impl Asked {
    fn parse(words: &[String]) -> Option<(Asked, Vec<usize>)> {
        let [kernel, length, cache, seconds, cores @ ..] = words else {
            return None;
        };
        let length = length.parse().ok().filter(|&length| length > 0)?;
        let cold = match cache.as_str() {
            "warm" => false,
            "cold" => true,
            _ => return None,
        };
        let asked = Asked {
            kernel: Kernel::parse(kernel)?,
            length,
            cold,
            time: Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?,
        };
        let cores = cores.iter().map(|core| core.parse().ok());
        Some((asked, cores.collect::<Option<Vec<usize>>>()?))
    }

    /// Bytes per second on the calling thread, from the moment when all are there.
    fn measure(self, meeting: &Barrier) -> f64 {
        let call_bytes = self.kernel.buffers() * self.length;
        let calls_apart = if self.cold {
            (COLD_BYTES / call_bytes).max(1)
        } else {
            1
        };
        let arena = Arena::new(ArenaOptions {
            length_bytes: calls_apart * call_bytes,
            prefault: true,
            lock: false,
        })
        .expect("there is memory for the buffers");
        let start = arena.start();
        let first = std::ptr::with_exposed_provenance_mut::<u8>(start.0 as usize);
        arena.fill(start, (calls_apart * call_bytes) as u64, 0x5A);
        meeting.wait();
        let begin = Instant::now();
        let mut calls = 0;
        loop {
            for _ in 0..BATCH_BYTES.div_ceil(call_bytes) {
                let at = calls % calls_apart * call_bytes;
                // SAFETY: the arena is this thread's alone and has room for `calls_apart` calls.
                unsafe { self.kernel.run(first.add(at), self.length) };
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
        eprintln!("usage: kernel_speed xor:SOURCES|copy BYTES warm|cold SECONDS [CORE...]");
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
