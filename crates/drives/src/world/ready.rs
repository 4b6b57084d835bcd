//! Answers that are due, and will be given to the engine.
//!
//! There are two lists: answers are added to one while the other is read from its front. The lists are swapped when the
//! second has been read to its end. So answers keep their order, and none is moved to close a gap.

use crate::held::Answer;
use engine::policy::MemberError;
use engine::world::Input;

/// An answer; errno zero is success.
#[derive(Clone, Copy, Debug)]
struct Ready {
    answer: Answer,
    errno: i32,
    /// The attachment whose file is still to be checked before this success counts, or `NOBODY`.
    suspect: u16,
}

/// No attachment is to be checked.
const NOBODY: u16 = u16::MAX;

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct ReadyAnswers {
    filling: Vec<Ready>,
    reading: Vec<Ready>,
    read: usize,
}

impl ReadyAnswers {
    pub fn with_capacity(capacity: usize) -> ReadyAnswers {
        ReadyAnswers {
            filling: Vec::with_capacity(capacity),
            reading: Vec::with_capacity(capacity),
            read: 0,
        }
    }

    #[inline]
    pub fn push(&mut self, answer: Answer, errno: i32) {
        self.filling.push(Ready {
            answer,
            errno,
            suspect: NOBODY,
        });
    }

    /// Adds a success that counts unless [`ReadyAnswers::fail`] is called before it is given.
    #[inline]
    pub fn push_suspect(&mut self, answer: Answer, attachment: u16) {
        self.filling.push(Ready {
            answer,
            errno: 0,
            suspect: attachment,
        });
    }

    /// Turns the successes of this attachment that are not yet given into failures.
    #[cold]
    pub fn fail(&mut self, attachment: u16, errno: i32) {
        let waiting = self
            .filling
            .iter_mut()
            .chain(&mut self.reading[self.read..]);
        waiting
            .filter(|ready| ready.suspect == attachment)
            .for_each(|ready| ready.errno = errno);
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.filling.is_empty() && self.read == self.reading.len()
    }

    #[inline]
    pub fn len(&self) -> usize {
        self.filling.len() + self.reading.len() - self.read
    }

    /// Moves the oldest answers, about `limit` of them, to the end of `inputs`.
    #[inline]
    pub fn give(&mut self, inputs: &mut Vec<Input>, limit: usize) {
        if self.read == self.reading.len() {
            self.reading.clear();
            self.read = 0;
            std::mem::swap(&mut self.reading, &mut self.filling);
        }
        let end = self.reading.len().min(self.read + limit);
        inputs.extend(self.reading[self.read..end].iter().map(Ready::input));
        self.read = end;
    }
}

impl Ready {
    #[inline]
    fn input(&self) -> Input {
        let result = match self.errno {
            0 => Ok(()),
            errno => Err(MemberError::from_errno(errno)),
        };
        match self.answer {
            Answer::Done(token) => Input::Done { token, result },
            Answer::Persisted(member) => Input::Persisted { member, result },
            Answer::NotExpressible(member) => Input::NotExpressible { member },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use engine::token::Token;

    #[test]
    fn order_is_kept_across_the_two_lists() {
        let mut ready = ReadyAnswers::with_capacity(2);
        let mut inputs = Vec::new();
        let mut next = 0;
        for round in 0..50 {
            for _ in 0..round % 7 {
                ready.push(Answer::Done(Token(next)), 0);
                next += 1;
            }
            let before = inputs.len();
            ready.give(&mut inputs, 3);
            assert!(inputs.len() - before <= 3);
        }
        while !ready.is_empty() {
            ready.give(&mut inputs, 3);
        }
        assert_eq!(inputs.len() as u64, next);
        for (wanted, input) in inputs.iter().enumerate() {
            let Input::Done {
                token,
                result: Ok(()),
            } = input
            else {
                panic!("{input:?}")
            };
            assert_eq!(token.0, wanted as u64);
        }
    }
}
