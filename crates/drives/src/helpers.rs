//! Threads that do the I/O of a member whose system calls may hang.
//!
//! [`crate::drive::IoPath`] says which members have such threads. All shards put their I/O into the member's one queue.
//! [`HELPERS`] threads take jobs from it, each carries out one system call at a time, and the result goes as a message
//! to the shard that asked. If the system calls hang, only these threads hang: jobs that are still in the queue can be
//! withdrawn at the member's deadline.
//!
//! A job keeps alive the memory that its call uses, and the threads keep the file open. So neither is freed under a
//! hanging call when its shard, or the whole array, ends. The threads also close the file, because closing may hang
//! too.
//!
//! Adding a job takes a lock, unlike anything else on the data path. The lock is held for a few instructions, never
//! during a system call, and files of this kind are slow in comparison.

use crate::arena::Arena;
use crate::calls::Call;
use crate::drive::FileSize;
use crate::flusher;
use crate::flushes::Flushes;
use crate::mailbox::{Mail, MailSender};
use crate::ring::Iovec;
use engine::limits::STEP_SEGMENTS_MAX;
use engine::plan::StepKind;
use std::collections::VecDeque;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Threads of one member: enough parallel I/O to hide a network's latency, and few enough to start them for every
/// member.
const HELPERS: usize = 8;
/// The queue's initial capacity in jobs.
const ROOM: usize = 1024;

/// A call's result on its way back to the shard that asked for it.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    pub(crate) index: u32,
    pub(crate) result: i32,
}

/// One call for a member.
#[derive(Debug)]
pub(crate) struct Job {
    pub call: Call,
    pub memory: [Iovec; STEP_SEGMENTS_MAX],
    /// How many entries of `memory` are used.
    pub pieces: usize,
    /// The arenas in which that memory lies.
    pub owners: [Arc<Arena>; 2],
    /// Where to send the answer.
    pub reply: MailSender,
    /// The receiver's index of this I/O.
    pub index: u32,
}

#[derive(Debug)]
struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
struct State {
    jobs: VecDeque<Job>,
    closed: bool,
}

/// The threads of one member; they end when this is dropped and their last calls have returned.
#[derive(Debug)]
pub(crate) struct Helpers {
    queue: Arc<Queue>,
    flushes: Arc<Flushes>,
}

impl Helpers {
    /// Starts the threads for a file of a known size.
    ///
    /// # Errors
    ///
    /// When the system cannot start more threads.
    pub fn start(fd: &Arc<OwnedFd>, size: FileSize) -> std::io::Result<Helpers> {
        Helpers::start_some(HELPERS, fd, size)
    }

    /// Helpers without threads, as if all of them hung.
    #[cfg(test)]
    pub fn hanging(fd: &Arc<OwnedFd>, size: FileSize) -> Helpers {
        Helpers::start_some(0, fd, size).expect("nothing is started")
    }

    fn start_some(count: usize, fd: &Arc<OwnedFd>, size: FileSize) -> std::io::Result<Helpers> {
        let queue = Arc::new(Queue {
            state: Mutex::new(State {
                jobs: VecDeque::with_capacity(ROOM),
                closed: false,
            }),
            changed: Condvar::new(),
        });
        // Dropped on failure, which ends the threads that have been started.
        let flushes = Arc::default();
        let helpers = Helpers { queue, flushes };
        for _ in 0..count {
            let (queue, fd) = (helpers.queue.clone(), fd.clone());
            let flushes = helpers.flushes.clone();
            let thread = std::thread::Builder::new().name("member-io".to_owned());
            thread.spawn(move || serve(&queue, &flushes, &fd, size))?;
        }
        Ok(helpers)
    }

    /// Flushes the file on the caller's thread, and shares flushes with the helpers; `Err` has an errno.
    pub fn flush(&self, fd: BorrowedFd<'_>) -> Result<(), i32> {
        flush(&self.flushes, fd)
    }

    /// Adds a job; it is answered by [`Mail::Moved`].
    ///
    /// # Safety
    ///
    /// As [`Call::carry_out`] for the job's memory, which lies in its owners, until it is answered.
    pub unsafe fn add(&self, job: Job) {
        self.queue.hold().jobs.push_back(job);
        self.queue.changed.notify_one();
    }

    /// Removes a job from the queue if no thread has taken it yet. A removed job is not answered.
    pub fn withdraw(&self, reply: &MailSender, index: u32) -> bool {
        let mut state = self.queue.hold();
        let wanted = |job: &Job| job.index == index && job.reply.is_same(reply);
        let found = state.jobs.iter().position(wanted);
        found.is_some_and(|at| state.jobs.remove(at).is_some())
    }
}

impl Drop for Helpers {
    fn drop(&mut self) {
        self.queue.hold().closed = true;
        self.queue.changed.notify_all();
    }
}

impl Queue {
    fn hold(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The next job; `None` when the queue is empty and closed.
    fn take(&self) -> Option<Job> {
        let mut state = self.hold();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self
                .changed
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn serve(queue: &Queue, flushes: &Flushes, fd: &OwnedFd, size: FileSize) {
    flusher::join();
    while let Some(job) = queue.take() {
        let Job {
            call,
            mut memory,
            pieces,
            owners,
            reply,
            index,
        } = job;
        let mut result = 0;
        if call.kind != StepKind::Flush {
            // SAFETY: the caller of `add` vouched for the job's memory until the answer, and `owners` keeps that memory
            // alive.
            result = unsafe { call.carry_out(fd.as_fd(), &mut memory[..pieces]) };
        }
        drop(owners);
        if result >= 0
            && has_to_flush(call.kind)
            && let Err(errno) = flush(flushes, fd.as_fd())
        {
            result = -errno;
        }
        if result >= 0
            && let Err(errno) = size.check(fd)
        {
            result = -errno;
        }
        reply.send(Mail::Moved(Moved { index, result }));
    }
}

/// A write that has to be durable is followed by a flush, although the kernel got `RWF_DSYNC` with it. On FUSE that
/// becomes a flag of the request, which a file system may ignore, and the kernel sends no fsync afterwards
/// (`crates/faultfs/tests/kernel.rs` shows that). The other file systems with helpers are not trusted with it either.
fn has_to_flush(kind: StepKind) -> bool {
    kind == StepKind::Flush || kind == (StepKind::Write { fua: true })
}

fn flush(flushes: &Flushes, fd: BorrowedFd<'_>) -> Result<(), i32> {
    let call = Call {
        kind: StepKind::Flush,
        offset_bytes: 0,
        length_bytes: 0,
    };
    flushes.flush(|| {
        // SAFETY: a flush touches no memory.
        let result = unsafe { call.carry_out(fd, &mut []) };
        if result < 0 { Err(-result) } else { Ok(()) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::ArenaOptions;
    use crate::mailbox::Mailbox;
    use std::time::{Duration, Instant};

    fn answers(mailbox: &mut Mailbox, count: usize) -> Vec<Moved> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut answers = Vec::new();
        while answers.len() < count {
            match mailbox.receive() {
                Some(Mail::Moved(moved)) => answers.push(moved),
                Some(other) => panic!("unexpected {other:?}"),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
            assert!(Instant::now() < deadline, "only {answers:?}");
        }
        answers
    }

    /// The kernel reports lost data to one flush only: that of a thread of the member, or one outside them.
    #[test]
    fn an_error_of_one_flush_is_told_to_all_that_follow_whoever_flushes() {
        let file = Arc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        let helpers = Helpers::start(&file, FileSize::new(0, true)).unwrap();
        let options = ArenaOptions {
            length_bytes: 1 << 16,
            prefault: false,
            lock: false,
        };
        let arena = Arena::new(options).unwrap();
        let mut mailbox = Mailbox::new().unwrap();
        let job = |kind, index, reply| {
            let mut memory = [Iovec::EMPTY; STEP_SEGMENTS_MAX];
            memory[0] = Iovec::new(arena.pointer(arena.start(), 512), 512);
            Job {
                call: Call {
                    kind,
                    offset_bytes: 0,
                    length_bytes: 512,
                },
                memory,
                pieces: usize::from(kind != StepKind::Flush),
                owners: [arena.clone(), arena.clone()],
                reply,
                index,
            }
        };
        let write = |fua| StepKind::Write { fua };
        let mut results = |helpers: &Helpers| {
            [StepKind::Flush, write(true), write(false), StepKind::Read].map(|kind| {
                // SAFETY: the memory lies in the arena, and one job at a time uses it.
                unsafe { helpers.add(job(kind, 7, mailbox.sender())) };
                let moved = answers(&mut mailbox, 1)[0];
                assert_eq!(moved.index, 7);
                moved.result
            })
        };
        assert_eq!(results(&helpers), [0, 512, 512, 512]);
        // A flush outside the threads has failed.
        assert_eq!(helpers.flushes.flush(|| Err(28)), Err(28));
        assert_eq!(results(&helpers), [-28, -28, 512, 512]);
        assert_eq!(helpers.flush(file.as_fd()), Err(28));
        // A flush of a thread has failed, because this file cannot be flushed.
        let null = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDWR, 0.into()).unwrap();
        let null = Arc::new(null);
        let helpers = Helpers::start(&null, FileSize::new(0, true)).unwrap();
        assert_eq!(results(&helpers), [-22, -22, 512, 0]);
        assert_eq!(helpers.flush(file.as_fd()), Err(22));
    }

    #[test]
    fn calls_that_hang_are_waited_for_and_those_behind_them_can_be_withdrawn() {
        // Reading an empty pipe hangs.
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let helpers = Helpers::start(&Arc::new(reader), FileSize::new(0, true)).unwrap();
        let options = ArenaOptions {
            length_bytes: 1 << 16,
            prefault: false,
            lock: false,
        };
        let arena = Arena::new(options).unwrap();
        let mut mailbox = Mailbox::new().unwrap();
        let job = |index: u32| {
            let mut memory = [Iovec::EMPTY; STEP_SEGMENTS_MAX];
            let buffer = arena.start().at(index * 512);
            memory[0] = Iovec::new(arena.pointer(buffer, 512), 512);
            Job {
                call: Call {
                    kind: StepKind::Read,
                    // A pipe is read at its current position.
                    offset_bytes: u64::MAX,
                    length_bytes: 512,
                },
                memory,
                pieces: 1,
                owners: [arena.clone(), arena.clone()],
                reply: mailbox.sender(),
                index,
            }
        };
        let all = HELPERS as u32 + 2;
        for index in 0..all {
            // SAFETY: the memory lies in the arena, in a place of its own for each job.
            unsafe { helpers.add(job(index)) };
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while helpers.queue.hold().jobs.len() > 2 {
            assert!(Instant::now() < deadline, "the threads take no jobs");
            std::thread::sleep(Duration::from_millis(1));
        }
        let other = Mailbox::new().unwrap();
        assert!(
            !helpers.withdraw(&other.sender(), all - 1),
            "a job of another shard"
        );
        assert!(helpers.withdraw(&mailbox.sender(), all - 1));
        assert!(
            !helpers.withdraw(&mailbox.sender(), all - 1),
            "already withdrawn"
        );
        assert!(!helpers.withdraw(&mailbox.sender(), 0), "already begun");
        assert!(!mailbox.has_mail());
        // Whatever happens to the shards, memory that calls may touch stays: two references for each job, one here.
        assert_eq!(Arc::strong_count(&arena), 2 * (all as usize - 1) + 1);
        // Calls that have begun and jobs that wait are carried out, although nobody can add more.
        drop(helpers);
        for _ in 1..all {
            rustix::io::write(&writer, &[5; 512]).unwrap();
            assert_eq!(answers(&mut mailbox, 1)[0].result, 512);
        }
        // The threads end and close the file, so the pipe has no reader any more.
        while rustix::io::write(&writer, &[5]) != Err(rustix::io::Errno::PIPE) {
            assert!(Instant::now() < deadline, "the file stays open");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    #[test]
    fn the_kernel_waits_for_no_thread_of_a_member() {
        let may_join = std::thread::spawn(flusher::join).join().unwrap();
        if !may_join {
            println!("only counted: this user lacks CAP_SYS_RESOURCE");
        }
        let file = Arc::new(OwnedFd::from(tempfile::tempfile().unwrap()));
        let helpers = Helpers::start(&file, FileSize::new(0, true)).unwrap();
        let deadline = Instant::now() + Duration::from_secs(20);
        // Threads of other tests are among those counted.
        while let (missing, all) = flusher::missing("member-io")
            && (all < HELPERS || may_join && !missing.is_empty())
        {
            assert!(Instant::now() < deadline, "{missing:?} of {all}");
            std::thread::sleep(Duration::from_millis(1));
        }
        drop(helpers);
    }

    #[test]
    fn a_hundred_times_more_jobs_than_have_room_are_all_done() {
        const JOBS: u32 = 100 * ROOM as u32;
        const BLOCK: usize = 64;
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        let helpers = Helpers::start(&Arc::new(reader), FileSize::new(0, true)).unwrap();
        let options = ArenaOptions {
            length_bytes: JOBS as usize * BLOCK,
            prefault: false,
            lock: false,
        };
        let arena = Arena::new(options).unwrap();
        let mut mailbox = Mailbox::new().unwrap();
        let job = |index: u32, reply| {
            let mut memory = [Iovec::EMPTY; STEP_SEGMENTS_MAX];
            let buffer = arena.start().at(index * BLOCK as u32);
            memory[0] = Iovec::new(arena.pointer(buffer, BLOCK as u64), BLOCK);
            Job {
                call: Call {
                    kind: StepKind::Read,
                    offset_bytes: u64::MAX,
                    length_bytes: BLOCK as u64,
                },
                memory,
                pieces: 1,
                owners: [arena.clone(), arena.clone()],
                reply,
                index,
            }
        };
        let mut room = 0;
        for round in 0..2 {
            // The pipe is empty, so every thread hangs in its first call and the rest piles up.
            for index in 0..JOBS {
                // SAFETY: the memory lies in the arena, in a place of its own for each job.
                unsafe { helpers.add(job(index, mailbox.sender())) };
            }
            {
                let state = helpers.queue.hold();
                assert!(state.jobs.len() >= JOBS as usize - HELPERS);
                assert!(
                    round == 0 || state.jobs.capacity() == room,
                    "the queue grew again"
                );
                room = state.jobs.capacity();
            }
            // Each block holds its own number; which job reads it depends on the threads.
            let blocks = (0..JOBS).flat_map(|block| {
                let mut bytes = [round; BLOCK];
                bytes[..4].copy_from_slice(&block.to_le_bytes());
                bytes
            });
            let bytes: Vec<u8> = blocks.collect();
            for part in bytes.chunks(BLOCK * 64) {
                assert_eq!(rustix::io::write(&writer, part), Ok(part.len()));
            }
            let mut done = vec![false; JOBS as usize];
            for moved in answers(&mut mailbox, JOBS as usize) {
                assert_eq!(moved.result, BLOCK as i32);
                assert!(!std::mem::replace(&mut done[moved.index as usize], true));
            }
            let mut read = vec![false; JOBS as usize];
            for index in 0..JOBS {
                let mut bytes = [0; BLOCK];
                arena.read(arena.start().at(index * BLOCK as u32), &mut bytes);
                let [a, b, c, d, rest @ ..] = bytes;
                assert!(rest.iter().all(|&byte| byte == round));
                let block = u32::from_le_bytes([a, b, c, d]);
                assert!(!std::mem::replace(&mut read[block as usize], true));
            }
            assert!(done.iter().chain(&read).all(|&is| is));
        }
    }
}
