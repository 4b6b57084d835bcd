//! Answers that are known but not due yet: I/O of members with a [pace](crate::pace).

use engine::token::Token;
use engine::units::{MemberId, Nanos};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// How late an answer may be given: the time between the first and the last due time of the answers that wait, divided
/// by this. With a long queue the delay does not show, and a lone answer is on time.
const LATENESS_PART: u64 = 16;
/// The most that an answer may be late. A sleep and its end take about 20 us of processor time on a virtual machine.
const LATENESS_MAX: Nanos = Nanos(200_000);

/// The receiver of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The engine's plan.
    Done(Token),
    /// A record is durable: for the engine's controller.
    Persisted(MemberId),
    /// The format could not express the record, so nothing was written: for the engine's controller.
    NotExpressible(MemberId),
}

/// An answer and when to give it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub finish: Nanos,
    sequence: u64,
    pub answer: Answer,
    /// Index of the attachment that did the I/O.
    pub attachment: u16,
}

// Reversed, because the heap returns the greatest first; equal times are in order of arrival.
impl Ord for Held {
    fn cmp(&self, other: &Held) -> Ordering {
        (other.finish, other.sequence).cmp(&(self.finish, self.sequence))
    }
}

impl PartialOrd for Held {
    fn partial_cmp(&self, other: &Held) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Answers, ordered by when they are due.
#[derive(Debug)]
pub(crate) struct HeldAnswers {
    heap: BinaryHeap<Held>,
    sequence: u64,
    /// The latest due time of all answers that were ever held.
    last: Nanos,
}

impl HeldAnswers {
    pub fn with_capacity(capacity: usize) -> HeldAnswers {
        HeldAnswers {
            heap: BinaryHeap::with_capacity(capacity),
            sequence: 0,
            last: Nanos(0),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.heap.is_empty()
    }

    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.heap.len()
    }

    pub fn push(&mut self, finish: Nanos, answer: Answer, attachment: u16) {
        self.sequence += 1;
        self.last = self.last.max(finish);
        self.heap.push(Held {
            finish,
            sequence: self.sequence,
            answer,
            attachment,
        });
    }

    /// When the first answer is due.
    pub fn next(&self) -> Option<Nanos> {
        self.heap.peek().map(|held| held.finish)
    }

    /// When a sleeping shard should look again: slightly after the first answer is due if more are to come, so that a
    /// fast drive's answers are given several at a time. This does not lower the drive's rate, because its pace
    /// compensates for such lateness.
    pub fn next_look(&self) -> Option<Nanos> {
        let next = self.next()?;
        let lateness = Nanos(self.last.since(next).0 / LATENESS_PART).min(LATENESS_MAX);
        Some(next.after(lateness))
    }

    /// The first answer, if it is due.
    pub fn pop_due(&mut self, now: Nanos) -> Option<Held> {
        if self.next()? <= now {
            self.heap.pop()
        } else {
            None
        }
    }

    /// Removes the answer to `token`, due or not.
    pub fn remove(&mut self, token: Token) -> Option<Held> {
        let wanted = |held: &&Held| held.answer == Answer::Done(token);
        let found = self.heap.iter().find(wanted).copied()?;
        self.heap.retain(|held| held.answer != Answer::Done(token));
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_of_a_long_queue_are_looked_for_together_and_a_lone_one_on_time() {
        let mut held = HeldAnswers::with_capacity(80);
        assert_eq!(held.next_look(), None);
        held.push(Nanos(100_000), Answer::Done(Token(0)), 0);
        assert_eq!(held.next_look(), Some(Nanos(100_000)));
        held.push(Nanos(260_000), Answer::Done(Token(1)), 0);
        assert_eq!(
            held.next_look(),
            Some(Nanos(110_000)),
            "a sixteenth of 160 us"
        );
        held.push(Nanos(9_000_000), Answer::Done(Token(2)), 0);
        assert_eq!(held.next_look(), Some(Nanos(300_000)), "200 us at most");
    }

    #[test]
    fn by_time_then_by_arrival() {
        let mut held = HeldAnswers::with_capacity(4);
        for (finish, token) in [(30, 1), (10, 2), (10, 3), (20, 4), (10, 5)] {
            held.push(Nanos(finish), Answer::Done(Token(token)), 0);
        }
        assert_eq!(held.next(), Some(Nanos(10)));
        assert!(held.pop_due(Nanos(9)).is_none());
        assert_eq!(
            held.remove(Token(3)).map(|held| held.finish),
            Some(Nanos(10))
        );
        assert!(held.remove(Token(3)).is_none());
        let order: Vec<Answer> = std::iter::from_fn(|| held.pop_due(Nanos(25)))
            .map(|held| held.answer)
            .collect();
        assert_eq!(order, [2, 5, 4].map(|token| Answer::Done(Token(token))));
        assert!(!held.is_empty());
    }
}
