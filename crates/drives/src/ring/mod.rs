//! One io_uring per shard.
//!
//! A thin layer over the `io-uring` crate. It chooses the best mode that the kernel offers and reports it, keeps a
//! table of registered files, registers the payload memory, restricts the ring to what it needs ([`restrictions`]), never
//! loses an entry when the submission queue is full, and owns all memory that the kernel may use until the kernel is done
//! with it.
//!
//! The top two bits of `user_data` say whose a completion is: 00 is a member's I/O, 01 a port's, 10 the world's own.
//!
//! A ring belongs to the thread that created it. When it is dropped, operations in flight are cancelled and awaited,
//! because the kernel could otherwise write into freed memory. Memory that a stuck drive still uses after [`DRAIN_MAX`]
//! is leaked instead.

mod register;
pub(crate) mod restrictions;
mod setup;
mod sockets;
#[cfg(test)]
mod tests;
mod ublk;
mod vectors;

pub(crate) use register::FileSlot;
pub use setup::{RingError, RingMode, RingOptions, RingReport, can_watch, kernel_release};
pub(crate) use vectors::Iovec;

use crate::arena::Arena;
use engine::units::Nanos;
use io_uring::types::{CancelBuilder, SubmitArgs, Timespec};
use io_uring::{IoUring, opcode, squeue, types};
use std::collections::VecDeque;
use std::io;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::sync::Arc;
use std::time::{Duration, Instant};
use vectors::Vectors;

/// Turns after which an entry that can wait is submitted, even if the loop has not called [`Ring::wait`] before. A
/// request that is answered from memory takes two turns.
const PATIENCE_TURNS: u32 = 4;
/// How long a dropped ring waits for operations in flight.
const DRAIN_MAX: Duration = Duration::from_secs(5);

const CLASS_SHIFT: u32 = 62;
/// Class of member I/O.
pub(crate) const CLASS_MEMBER: u64 = 0;
/// Class of the port's operations.
pub(crate) const CLASS_PORT: u64 = 1;
/// Class of the world's own operations.
pub(crate) const CLASS_INTERNAL: u64 = 2;

/// Identifies the delay before an operation. A delay completes visibly only when it is cancelled, and then its
/// operation completes as well; so a delay is not counted as in flight.
const DELAY: u64 = CLASS_INTERNAL << CLASS_SHIFT | u64::MAX >> 3;

/// Kinds of port operations, in the two bits below the class.
const KIND_SHIFT: u32 = 60;
const KIND_PLAIN: u64 = 0;
const KIND_ACCEPT: u64 = 1;
const KIND_MESSAGE: u64 = 2;
const KIND_WATCH: u64 = 3;
/// The bits that a port may use.
const PORT_MASK: u64 = (1 << KIND_SHIFT) - 1;

/// The result of a watch ([`Ring::watch`]) that the kernel has ended, although it was not cancelled and nothing is wrong
/// with the descriptor (`-EAGAIN`): there may be something to read, and a new watch is needed.
pub const WATCH_ENDED: i32 = -11;

const EFAULT: i32 = 14;
const EINVAL: i32 = 22;

/// The completion of one entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Completed {
    pub class: u64,
    /// Without the class.
    pub user_data: u64,
    /// As the kernel returns it: a count, or a negative errno.
    pub result: i32,
}

impl Completed {
    /// The kernel gives no more completions of this operation: a watch that has no error has ended by itself.
    fn end_watch(&mut self) {
        let kind = self.user_data >> KIND_SHIFT;
        if self.class == CLASS_PORT && kind == KIND_WATCH && self.result >= 0 {
            self.result = WATCH_ENDED;
        }
    }
}

/// Memory that the kernel may use while an operation is in flight.
#[derive(Debug)]
struct Shared {
    payload: Arc<Arena>,
    /// The world's own memory, kept alive here for the same reason.
    internal: Arc<Arena>,
    vectors: Vectors,
}

/// See the module's documentation.
pub struct Ring {
    uring: IoUring,
    shared: ManuallyDrop<Shared>,
    /// Entries that did not fit into the submission queue.
    backlog: VecDeque<squeue::Entry>,
    /// Completions that did not involve the kernel.
    early: VecDeque<Completed>,
    /// Bits that tell the operations of a port from those of other ports: see [`Ring::speak_for`].
    speaker: u64,
    accepted: Vec<OwnedFd>,
    free_files: Vec<u32>,
    in_flight: usize,
    /// Whether a queued entry has to be submitted at the end of this turn.
    urgent: bool,
    /// Turns until queued entries that can wait are submitted; 0 if there are none.
    turns_left: u32,
    report: RingReport,
    /// How long a dropped ring waits for operations in flight.
    drain_max: Duration,
    /// See [`Ring::leave_behind`].
    left_behind: usize,
    /// Not `Send`: the kernel accepts entries only from the thread that created the ring.
    owner: PhantomData<*const ()>,
}

impl Ring {
    /// A ring for the calling thread, over the payload memory and the world's own.
    pub(crate) fn new(
        options: RingOptions,
        payload: Arc<Arena>,
        internal: Arc<Arena>,
    ) -> Result<Ring, RingError> {
        let (uring, report) = setup::build(options, &payload)?;
        Ok(Ring {
            uring,
            shared: ManuallyDrop::new(Shared {
                payload,
                internal,
                vectors: Vectors::new(),
            }),
            backlog: VecDeque::with_capacity(options.submission_entries as usize),
            early: VecDeque::with_capacity(64),
            speaker: 0,
            accepted: Vec::new(),
            free_files: (0..register::FILES_MAX)
                .rev()
                .filter(|_| report.registered_files)
                .collect(),
            in_flight: 0,
            urgent: false,
            turns_left: 0,
            report,
            drain_max: DRAIN_MAX,
            left_behind: 0,
            owner: PhantomData,
        })
    }

    /// What the kernel granted.
    #[must_use]
    pub fn report(&self) -> RingReport {
        self.report
    }

    /// The payload memory that buffers must lie in.
    #[must_use]
    pub fn arena(&self) -> &Arc<Arena> {
        &self.shared.payload
    }

    pub(crate) fn internal_arena(&self) -> &Arc<Arena> {
        &self.shared.internal
    }

    pub(crate) fn vectors(&mut self) -> &mut Vectors {
        &mut self.shared.vectors
    }

    /// Whether operations are in flight, or completions are ready.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.in_flight > 0 || !self.early.is_empty()
    }

    /// Queues a member's I/O that was built for `types::Fd(slot.number())`.
    ///
    /// # Safety
    ///
    /// All memory that the entry names lies in one of the ring's arenas or in its vectors, and stays valid and
    /// unchanged until the completion.
    #[inline]
    pub(crate) unsafe fn push_member(&mut self, entry: squeue::Entry, slot: FileSlot, index: u32) {
        let flags = if slot.registered {
            squeue::Flags::FIXED_FILE
        } else {
            squeue::Flags::empty()
        };
        let entry = entry
            .flags(flags)
            .user_data(CLASS_MEMBER << CLASS_SHIFT | u64::from(index));
        // SAFETY: the caller's promise.
        unsafe { self.push(entry) }
    }

    /// Asks the kernel to cancel a member's I/O.
    pub(crate) fn cancel_member(&mut self, index: u32) {
        self.cancel_entry(CLASS_MEMBER << CLASS_SHIFT | u64::from(index));
    }

    fn cancel_entry(&mut self, user_data: u64) {
        let entry = opcode::AsyncCancel::new(user_data).build();
        // SAFETY: a cancellation names no memory. Its own completion is ignored.
        unsafe { self.push(entry.user_data(CLASS_INTERNAL << CLASS_SHIFT | u64::MAX >> 2)) }
    }

    /// Gives one completion, in the internal class, when `fd` is readable.
    pub(crate) fn watch_internal(&mut self, fd: BorrowedFd<'_>, user_data: u64) {
        const POLLIN: u32 = 1;
        let entry = opcode::PollAdd::new(types::Fd(fd.as_raw_fd()), POLLIN).build();
        // SAFETY: a poll names no memory.
        unsafe { self.push(entry.user_data(CLASS_INTERNAL << CLASS_SHIFT | user_data)) }
    }

    /// # Safety
    ///
    /// As [`Ring::push_member`].
    #[inline]
    unsafe fn push(&mut self, entry: squeue::Entry) {
        self.urgent = true;
        self.in_flight += 1;
        // SAFETY: the caller's promise.
        unsafe { self.enqueue(entry) }
    }

    /// Queues an entry that may be submitted a few turns later, to share a system call; see [`Ring::submit_due`].
    ///
    /// # Safety
    ///
    /// As [`Ring::push_member`].
    #[inline]
    unsafe fn push_patient(&mut self, entry: squeue::Entry) {
        if self.turns_left == 0 {
            self.turns_left = PATIENCE_TURNS;
        }
        self.in_flight += 1;
        // SAFETY: the caller's promise.
        unsafe { self.enqueue(entry) }
    }

    /// # Safety
    ///
    /// As [`Ring::push_member`].
    #[inline]
    unsafe fn enqueue(&mut self, entry: squeue::Entry) {
        // SAFETY: the caller's promise.
        if !self.backlog.is_empty() || unsafe { self.uring.submission().push(&entry) }.is_err() {
            self.backlog.push_back(entry);
            self.submit();
        }
    }

    /// At the end of a turn, submits all queued entries if any of them is urgent. Otherwise they stay queued until
    /// [`Ring::wait`], which calls the kernel anyway, or for [`PATIENCE_TURNS`] turns.
    #[inline]
    pub(crate) fn submit_due(&mut self) {
        if self.turns_left > 0 {
            self.turns_left -= 1;
            self.urgent |= self.turns_left == 0;
        }
        if self.urgent {
            self.submit();
        }
    }

    /// Submits all queued entries; those that the kernel does not accept now stay queued.
    #[inline]
    pub(crate) fn submit(&mut self) {
        self.urgent = false;
        self.turns_left = 0;
        loop {
            self.refill();
            if self.uring.submission().is_empty() {
                return;
            }
            match self.uring.submitter().submit() {
                Ok(count) if count > 0 => {}
                Ok(_) => return,
                Err(error) => return tolerate(&error),
            }
        }
    }

    fn refill(&mut self) {
        if self.backlog.is_empty() {
            return;
        }
        let mut queue = self.uring.submission();
        while let Some(entry) = self.backlog.front() {
            // SAFETY: the entry was given to `push`, whose caller vouched for its memory.
            if unsafe { queue.push(entry) }.is_err() {
                return;
            }
            self.backlog.pop_front();
        }
    }

    /// Appends completions, `limit` of them at most.
    #[inline]
    pub(crate) fn reap(&mut self, into: &mut Vec<Completed>, limit: usize) {
        if self.is_busy() {
            self.reap_busy(into, limit);
        }
    }

    fn reap_busy(&mut self, into: &mut Vec<Completed>, limit: usize) {
        let queue = self.uring.submission();
        let kernel_has_work = queue.taskrun() || queue.cq_overflow();
        drop(queue);
        if kernel_has_work && let Err(error) = self.uring.submitter().submit() {
            tolerate(&error);
        }
        while into.len() < limit
            && let Some(completed) = self.early.pop_front()
        {
            into.push(completed);
        }
        let Ring {
            uring,
            shared,
            accepted,
            in_flight,
            ..
        } = self;
        let mut queue = uring.completion();
        while into.len() < limit
            && let Some(entry) = queue.next()
        {
            if entry.user_data() == DELAY {
                continue;
            }
            let mut completed = decode(entry.user_data(), entry.result());
            if !io_uring::cqueue::more(entry.flags()) {
                *in_flight -= 1;
                completed.end_watch();
            }
            into.push(finish_port_operation(
                completed,
                &mut shared.vectors,
                accepted,
            ));
        }
    }

    /// Whether a reap would return a completion now.
    pub(crate) fn has_completions(&mut self) -> bool {
        if !self.early.is_empty() {
            return true;
        }
        if self.in_flight == 0 {
            return false;
        }
        let queue = self.uring.submission();
        let kernel_has_work = queue.taskrun() || queue.cq_overflow();
        drop(queue);
        kernel_has_work || !self.uring.completion().is_empty()
    }

    /// Submits, then sleeps until there is a completion or `timeout` has passed.
    pub(crate) fn wait(&mut self, timeout: Option<Nanos>) {
        self.refill();
        if !self.backlog.is_empty() || self.has_completions() {
            return self.submit();
        }
        self.urgent = false;
        self.turns_left = 0;
        let timespec = timeout.map(|Nanos(nanos)| {
            let second = Nanos::SECOND.0;
            Timespec::new()
                .sec(nanos / second)
                .nsec((nanos % second) as u32)
        });
        let mut arguments = SubmitArgs::new();
        if let Some(timespec) = &timespec {
            arguments = arguments.timespec(timespec);
        }
        if let Err(error) = self.uring.submitter().submit_with_args(1, &arguments) {
            tolerate(&error);
        }
    }

    /// So many operations in flight end only with the process, like a command that waits for the next request of a block
    /// device that stays. The end of the ring does not wait for them; the kernel keeps their memory.
    pub fn leave_behind(&mut self, count: usize) {
        self.left_behind += count;
    }

    /// Cancels all operations and waits for them; false if the kernel still uses memory.
    fn drain(&mut self) -> bool {
        self.submit();
        if self.in_flight > 0 {
            // Kernels before 6.0 do not know this; then the operations are only awaited.
            let patience = Some(Timespec::new().sec(1));
            let all = CancelBuilder::any();
            let _ = self.uring.submitter().register_sync_cancel(patience, all);
        }
        let deadline = Instant::now() + self.drain_max;
        let mut completed = Vec::new();
        while self.in_flight > self.left_behind && Instant::now() < deadline {
            self.wait(Some(Nanos(50 * Nanos::MILLISECOND.0)));
            self.early.clear();
            completed.clear();
            self.reap(&mut completed, usize::MAX);
        }
        self.in_flight == 0
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        if self.drain() {
            // SAFETY: dropped once, here; the kernel has answered everything.
            unsafe { ManuallyDrop::drop(&mut self.shared) }
        }
    }
}

fn decode(user_data: u64, result: i32) -> Completed {
    let class = user_data >> CLASS_SHIFT;
    Completed {
        class,
        user_data: user_data & (u64::MAX >> 2),
        result,
    }
}

/// Restores the `user_data` that the port gave, and releases what the operation used.
fn finish_port_operation(
    mut completed: Completed,
    vectors: &mut Vectors,
    accepted: &mut Vec<OwnedFd>,
) -> Completed {
    if completed.class != CLASS_PORT {
        return completed;
    }
    let kind = completed.user_data >> KIND_SHIFT;
    completed.user_data &= PORT_MASK;
    if kind == KIND_MESSAGE {
        let index = completed.user_data as u32;
        completed.user_data = vectors.user_data(index);
        vectors.give_back(index);
    } else if kind == KIND_ACCEPT && completed.result >= 0 {
        // SAFETY: the kernel has just opened this descriptor for us, and nobody else knows it.
        accepted.push(unsafe { OwnedFd::from_raw_fd(completed.result) });
    }
    completed
}

/// Passes over transient errors of `io_uring_enter`: signals, timeouts, a full completion queue, no memory for now.
///
/// # Panics
///
/// On any other error: the ring is unusable, and with it every drive.
#[cold]
fn tolerate(error: &io::Error) {
    const PASSING: [i32; 5] = [4, 11, 12, 16, 62]; // EINTR EAGAIN ENOMEM EBUSY ETIME
    let passes = error
        .raw_os_error()
        .is_some_and(|errno| PASSING.contains(&errno));
    assert!(
        passes,
        "io_uring has failed and cannot be used any more: {error}"
    );
}
