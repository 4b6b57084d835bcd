//! Threads that the write path waits for, and the kernel's memory.
//!
//! A kernel that is short of memory writes pages out, perhaps to a volume of ours, before it gives a thread what it asks
//! for. A thread that this write needs would wait for itself. So such a thread says that it is one ([`join`]), and gets
//! memory without I/O: every data thread, which the kernel's own threads for its ring inherit it from, the threads of
//! members whose calls may hang, and whoever flushes beside those ([`crate::flushes`]). Nobody else does, because
//! what a hook starts would inherit it, too.

/// The calling thread is one that the write path waits for. False without the privilege (CAP_SYS_RESOURCE): all works
/// the same then until memory is gone.
pub fn join() -> bool {
    rustix::process::configure_io_flusher_behavior(true).is_ok()
}

/// Whether the calling thread has joined.
#[must_use]
pub fn has_joined() -> bool {
    rustix::process::is_io_flusher().unwrap_or(false)
}

/// Those threads of this process whose names begin with `name` and that have not joined, and how many there are in all.
/// For tests.
#[must_use]
pub fn missing(name: &str) -> (Vec<String>, usize) {
    /// `PF_MEMALLOC_NOIO` in the kernel's include/linux/sched.h.
    const NO_IO: u64 = 0x0008_0000;
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let (mut missing, mut all) = (Vec::new(), 0);
    for task in tasks.flatten() {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // Number, name in parentheses, and from there the state, four numbers of processes and groups, and the flags.
        let Some((start, rest)) = stat.rsplit_once(") ") else {
            continue;
        };
        let called = start.split_once('(').map_or("", |(_, called)| called);
        let flags = rest
            .split(' ')
            .nth(6)
            .and_then(|flags| flags.parse::<u64>().ok());
        if let (true, Some(flags)) = (called.starts_with(name), flags) {
            all += 1;
            if flags & NO_IO == 0 {
                missing.push(called.to_owned());
            }
        }
    }
    (missing, all)
}
