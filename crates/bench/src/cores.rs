//! Which cores the threads run on, and how much processor time they use.

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity, set_name};
use rustix::time::{ClockId, clock_gettime};
use std::ffi::CStr;

/// The cores for `threads` threads: the last ones of those that this process may use, because the first usually handles
/// the machine's interrupts. Empty if there are fewer cores than threads; then the scheduler places the threads.
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

/// Pins the calling thread to a core, and gives it a name that profilers show. If the system refuses, figures are less
/// accurate but not wrong.
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
