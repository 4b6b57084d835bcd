//! Keeps the kernel from doing I/O when threads on the write path allocate memory.
//!
//! When the kernel is short of memory, it writes pages out, perhaps to a volume of ours, before it gives memory to a
//! thread. If that write needs the same thread, the thread waits for itself. So threads on the write path call [`join`]
//! and then get memory without I/O: every data thread (the kernel's threads for its ring inherit this), the helper
//! threads of members, threads that flush together with those ([`crate::flushes`]), and threads between a client with TLS
//! and its data thread. No other thread calls it, because the programs that a hook starts would inherit it too.

/// Marks the calling thread as one on the write path. False without the privilege (CAP_SYS_RESOURCE); this matters only
/// when memory runs out.
pub fn join() -> bool {
    rustix::process::configure_io_flusher_behavior(true).is_ok()
}

/// Whether the calling thread is marked.
#[must_use]
pub fn has_joined() -> bool {
    rustix::process::is_io_flusher().unwrap_or(false)
}

/// The threads of this process whose names begin with `name` and that are not marked, and the number of all threads
/// with such names. For tests.
#[must_use]
pub fn missing(name: &str) -> (Vec<String>, usize) {
    /// `PF_MEMALLOC_NOIO` in the kernel's include/linux/sched.h.
    const NO_IO: u64 = 0x0008_0000;
    let tasks = std::fs::read_dir("/proc/self/task").into_iter().flatten();
    let (mut missing, mut all) = (Vec::new(), 0);
    for task in tasks.flatten() {
        let stat = std::fs::read_to_string(task.path().join("stat")).unwrap_or_default();
        // The thread's number, its name in parentheses, its state, five numbers of processes, groups and terminals, and
        // the flags.
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
