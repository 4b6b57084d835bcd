//! The cost of queues that several processors share, because a drive has fewer of them than there are processors that
//! submit ([`models::queue_map`]).
//!
//! Whoever passes commands on takes the lock of the queue: it changes the lock's lines ([`SharedLine`]) and waits while
//! others hold it. The interrupt of a queue is handled by one processor. If another has submitted a command, that one
//! pays for the kernel's work on the answer, for the lines of the request that it takes from the other core, and for waking
//! it. Then the other core takes the lines back. A queue that nobody shares costs nothing here: its share is in
//! the host's costs of a command.

use super::host::{Host, QueueCosts};
use engine::world::Io;
use models::queue_map::{QueueMap, SharedQueue};
use models::shared_line::SharedLine;

/// The shared queues of a run's drives.
pub struct DriveQueues {
    costs: QueueCosts,
    sockets: usize,
    /// Empty if no drive has queues that are shared.
    drives: Vec<Queues>,
    /// By core: when it is done with all completions of others so far.
    handled_ns: Vec<u64>,
    /// Scratch: whether the turn has taken the lock of this drive.
    is_locked: Vec<bool>,
}

/// The queues of one drive.
struct Queues {
    map: QueueMap,
    /// By queue; empty if none is shared.
    locks: Vec<SharedLine>,
}

/// Who handles a completion, and for whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handing {
    /// The core that handles it.
    pub handler: usize,
    /// The core that submitted the command.
    pub submitter: usize,
    /// Whether the handler sleeps when the drive has answered.
    pub is_asleep: bool,
}

/// When and for how long a completion is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handled {
    /// When that ends.
    pub end_ns: u64,
    /// The handler's work.
    pub busy_ns: u64,
}

impl DriveQueues {
    /// The queues of drives that have so many each, for this many cores that submit. Drives without a number have as many
    /// as there are processors.
    ///
    /// # Panics
    /// A drive without a single queue.
    #[must_use]
    pub fn new(host: &Host, queues: &[u64], cores: usize) -> DriveQueues {
        let costs = host.queues;
        let sockets = host.sockets.max(1);
        let line = SharedLine::new(cores, costs.line_ns, sockets);
        let of_drive = |(drive, count): (usize, &u64)| {
            let before = if costs.spreads_handlers { drive } else { 0 };
            let count = usize::try_from(*count).unwrap_or(usize::MAX);
            let map = QueueMap::new(cores, costs.processors, sockets, count, before);
            // With as many as there are processors, none is shared.
            let shared = if map.most() > 1 { count } else { 0 };
            Queues {
                map,
                locks: vec![line.clone(); shared],
            }
        };
        let mut drives: Vec<Queues> = match costs.processors {
            0 => Vec::new(),
            _ => queues.iter().enumerate().map(of_drive).collect(),
        };
        if drives.iter().all(|drive| drive.locks.is_empty()) {
            drives.clear();
        }
        DriveQueues {
            costs,
            sockets,
            handled_ns: vec![0; cores],
            is_locked: vec![false; drives.len()],
            drives,
        }
    }

    /// How long the busiest lock has been held or passed on.
    #[must_use]
    pub fn busy_ns(&self) -> u64 {
        let locks = self.drives.iter().flat_map(|drive| &drive.locks);
        locks.map(SharedLine::busy_ns).max().unwrap_or(0)
    }

    /// When a core that passes these commands on, beginning at `ready_ns`, has had the locks of all their queues. `now_ns`
    /// must not decrease from call to call, and `ready_ns` must not be before it.
    pub fn locked_ns(&mut self, now_ns: u64, ready_ns: u64, core: usize, commands: &[Io]) -> u64 {
        if self.drives.is_empty() {
            return ready_ns;
        }
        let QueueCosts {
            lock_changes,
            held_ns,
            locks_per_turn,
            ..
        } = self.costs;
        self.is_locked.fill(false);
        let mut at_ns = ready_ns;
        // How long the core itself has held locks before: that is part of its work until `ready_ns`, and delays nobody but
        // others, who find the next lock taken this much later.
        let mut own_ns = 0;
        for io in commands {
            let member = usize::from(io.member.0);
            let Some(drive) = self.drives.get_mut(member) else {
                continue;
            };
            if std::mem::replace(&mut self.is_locked[member], locks_per_turn) {
                continue;
            }
            if let Some(SharedQueue { queue, .. }) = drive.map.shared(core) {
                let lock = &mut drive.locks[queue];
                own_ns += held_ns;
                let from_ns = at_ns + own_ns - held_ns;
                at_ns = lock.hold(now_ns, from_ns, core, lock_changes, held_ns) - own_ns;
            }
        }
        at_ns
    }

    /// The core that handles the completions of a core's commands for a drive; `None` if that core does so itself.
    #[inline]
    #[must_use]
    pub fn handler(&self, member: usize, core: usize) -> Option<usize> {
        let Queues { map, .. } = self.drives.get(member)?;
        let SharedQueue { handler, .. } = map.shared(core)?;
        (self.costs.has_handlers && !map.is_same(core, handler)).then_some(handler)
    }

    /// Has a handler take a completion of another core that it notices at `noticed_ns`. `answer_ns` is the kernel's work for
    /// one, to which an interrupt is added if the handler's core sleeps; `wakes` says whether it then wakes the other core.
    pub fn handle(&mut self, by: Handing, noticed_ns: u64, answer_ns: u64, wakes: bool) -> Handled {
        let QueueCosts {
            interrupt_ns,
            kick_ns,
            ..
        } = self.costs;
        let handled_ns = &mut self.handled_ns[by.handler];
        let begin_ns = noticed_ns.max(*handled_ns);
        let paid = |is_paid, ns| if is_paid { ns } else { 0 };
        let busy_ns = paid(by.is_asleep, interrupt_ns)
            + answer_ns
            + self.moved_ns(by.submitter, by.handler)
            + paid(wakes, kick_ns);
        let end_ns = begin_ns + busy_ns;
        self.handled_ns[by.handler] = end_ns;
        Handled { end_ns, busy_ns }
    }

    /// The time in which the lines of a request move between two cores, one way.
    #[must_use]
    pub fn moved_ns(&self, one: usize, other: usize) -> u64 {
        let [_, near_ns, far_ns] = self.costs.line_ns;
        let is_near = one % self.sockets == other % self.sockets;
        self.costs.handed_lines * if is_near { near_ns } else { far_ns }
    }
}

#[cfg(test)]
mod tests;
