//! Virtual machines in the fault world: in some histories clients are guests, whose queues the vhost-user export serves
//! ([`exports::vhost_user::Queues`]).
//!
//! - [`guests`]: the guests' memory with rings and areas of requests in flight, and their drivers. They outlive processes,
//!   and end when the power is cut.
//! - [`port`]: the queues of one shard, between the guests and the engine; a part of a process.
//!
//! The run plays the driver: it describes a request in the guest's memory, tells the port where the queue wants that, and
//! looks for answers only when it is told of some. If the process ends and the machine does not, the next process finds in
//! the areas what the one before has taken and not answered.
//!
//! A process can be killed between turns and also inside one ([`Death`]): when its engine has answered requests, and guests
//! can see none, some, or all of these answers, and were not told of the last.

pub mod guests;
pub mod port;

use crate::random::Stream;

pub use crate::ublk::CONNECTIONS;

/// The guests of a history.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Machines {
    /// Requests that each queue may have unanswered.
    pub depth: u16,
    /// By shard: how many longest requests its memory holds.
    pub blocks: u16,
    /// Whether drivers and devices tell each other by events when they want to be told.
    pub has_event_index: bool,
    /// Whether drivers know nothing of flushes, so that each write has to be durable when it is answered.
    pub write_through: bool,
    /// The first index of the rings. They wrap at 65536.
    pub first_index: u16,
}

impl Machines {
    /// The guests of a seed. Little memory is frequent, because that is where requests wait, or are carried out in pieces.
    #[must_use]
    pub fn draw(seed: u64) -> Machines {
        let mut random = Stream::new(seed, "machines", 0);
        Machines {
            depth: random.pick(&[1, 2, 6]),
            blocks: random.pick(&[1, 2, 2, 8]),
            has_event_index: random.chance(3, 4),
            write_through: random.chance(1, 4),
            first_index: random.pick(&[0, 65_530]),
        }
    }
}

/// Where in a turn a process dies: of the queues whose requests were answered in the turn, this many have published their
/// answers (all if there are fewer).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Death {
    /// Queues that have published.
    pub published: u64,
    /// Whether the guest of the last of these was told.
    pub is_told: bool,
    /// Only in a turn in which one of the queues has further requests under way.
    pub is_amid: bool,
}

impl Death {
    /// Draws one, for queues with so many rooms.
    pub fn draw(random: &mut Stream, depth: u16) -> Death {
        Death {
            published: random.pick(&[0, 0, 1, 2]),
            is_told: random.chance(1, 2),
            is_amid: random.chance(2, 3) && depth > 1,
        }
    }
}

/// How often the queues did what they rarely do.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct VhostUserCounts {
    /// Requests that guests have sent.
    pub requests: u64,
    /// Reads that were repeated in other memory, because a hung drive kept theirs.
    pub held: u64,
    /// Requests, or pieces of requests, that waited for memory.
    pub starved: u64,
    /// Requests that a process which was stopped in order left to the next one.
    pub left: u64,
    /// Requests that a process found in the areas of requests in flight.
    pub taken_over: u64,
    /// Processes that were killed inside a turn.
    pub killed_inside: u64,
    /// Queues whose answers could be seen when their process was killed, and whose guest was not told.
    pub untold: u64,
}

impl VhostUserCounts {
    /// Adds other counts.
    pub fn add(&mut self, other: &VhostUserCounts) {
        self.requests += other.requests;
        self.held += other.held;
        self.starved += other.starved;
        self.left += other.left;
        self.taken_over += other.taken_over;
        self.killed_inside += other.killed_inside;
        self.untold += other.untold;
    }
}
