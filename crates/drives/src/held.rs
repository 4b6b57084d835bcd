//! Answers that are known but not due yet: I/O of members with a [pace](crate::pace).

use engine::token::Token;
use engine::units::{MemberId, Nanos};
use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An answer may be given late by this part of the time over which those that wait are spread: with a long
/// queue nobody can tell, and a lone answer is on time.
const LATENESS_PART: u64 = 16;
/// And by no more than this. A sleep and its end cost the processor about 20 us where it is virtual.
const LATENESS_MAX: Nanos = Nanos(200_000);

/// Who is waiting for an I/O.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// The engine's plan.
    Done(Token),
    /// The engine's controller.
    Persisted(MemberId),
    /// As well: there was nothing to write.
    NotExpressible(MemberId),
}

/// An answer and when to give it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Held {
    pub finish: Nanos,
    sequence: u64,
    pub answer: Answer,
    /// Index of the attachment that was asked.
    pub attachment: u16,
}

// Reversed, because the heap gives the greatest first; equal times in the order of arrival.
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

/// Answers by time.
#[derive(Debug)]
pub(crate) struct HeldAnswers {
    heap: BinaryHeap<Held>,
    sequence: u64,
    /// When the last of those that were ever held is due.
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

    /// When a sleeper should look again: a little after the first answer is due if more are to come, so that
    /// a fast drive's answers are given several at a time. The drive's rate does not suffer, because its
    /// pace grants such lateness back.
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

    /// Takes out the answer to `token`, due or not.
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
