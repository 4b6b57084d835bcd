//! Which cores the threads run on, and how much of them they use.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_name};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::CStr;

/// The cores for `threads` threads: of those that this process may use the last ones, because the
/// first usually serves the machine's interrupts. Empty when there are fewer than threads; the
/// scheduler places them then.
pub(super) fn choose(threads: u8) -> Vec<usize> {
    let Ok(allowed) = sched_getaffinity(None) else {
        return Vec::new();
    };
    let cores = (0..CpuSet::MAX_CPU)
        .rev()
        .filter(|&core| allowed.is_set(core));
    let chosen: Vec<usize> = cores.take(usize::from(threads)).collect();
    if chosen.len() == usize::from(threads) {
        chosen
    } else {
        Vec::new()
    }
}

/// Keeps the calling thread on a core and gives it a name that profilers show. What the system
/// refuses costs accuracy, not truth.
pub(super) fn settle(core: Option<usize>, name: &CStr) {
    let _ = set_name(name);
    if let Some(core) = core {
        let mut set = CpuSet::new();
        set.set(core);
        let _ = sched_setaffinity(None, &set);
    }
}

/// Processor time that the calling thread has used, in seconds.
pub(super) fn thread_seconds() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}
