//! What a token names: a step of a plan, a command of a request without a plan, or a unit of a write-hole
//! log. The world sees a number and gives it back.
//!
//! | bits | plan | single request | log |
//! |---|---|---|---|
//! | 0..16 | step | copy | copy |
//! | 16..32 | index | index | index |
//! | 32..46 | generation | generation | generation |
//! | 46 | 0 | 0 | 1 |
//! | 47 | 0 | 1 | 0 |
//!
//! An index gets a new generation only when its owner leaves commands behind ([`crate::shard::plans::abandon`]), so a
//! late answer is never taken for an answer to the next owner of the index.

use crate::limits::PLANS_MAX;

/// Names a member I/O from its submission to its answer. Uses the low 48 bits only; the world may keep
/// the rest for itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub struct Token(pub u64);

const INDEX_SHIFT: u32 = 16;
const GENERATION_SHIFT: u32 = 32;
/// Marks the tokens of write-hole logs.
const LOG: u64 = 1 << 46;
/// Marks the tokens of single requests.
const SINGLE: u64 = 1 << 47;
/// How many generations there are before the numbers begin again.
pub(crate) const GENERATIONS: u16 = 1 << 14;

const _: () = assert!(PLANS_MAX <= 1 << INDEX_SHIFT);

impl Token {
    /// Names a step of a plan.
    #[inline]
    pub(crate) fn new(plan: u32, generation: u16, step: usize) -> Token {
        Token(
            u64::from(generation) << GENERATION_SHIFT
                | u64::from(plan) << INDEX_SHIFT
                | step as u64,
        )
    }

    /// Names a command of a single request.
    #[inline]
    pub(crate) fn of_single(index: u32, generation: u16, copy: u8) -> Token {
        Token(SINGLE | Token::new(index, generation, usize::from(copy)).0)
    }

    /// Names the write of a log's unit to the drive in service, or to the one that is being copied to.
    pub(crate) fn of_log(index: u32, generation: u16, copy: u8) -> Token {
        Token(LOG | Token::new(index, generation, usize::from(copy)).0)
    }

    #[inline]
    pub(crate) fn is_single(self) -> bool {
        self.0 & SINGLE != 0
    }

    /// Whether it names the write of a log's unit.
    #[inline]
    #[must_use]
    pub fn is_log(self) -> bool {
        self.0 & LOG != 0
    }

    /// The plan, the single request, or the log.
    #[inline]
    pub(crate) fn index(self) -> u32 {
        (self.0 >> INDEX_SHIFT) as u32 & 0xFFFF
    }

    /// The step, or the copy.
    #[inline]
    pub(crate) fn step(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }

    #[inline]
    pub(crate) fn generation(self) -> u16 {
        (self.0 >> GENERATION_SHIFT) as u16 & (GENERATIONS - 1)
    }

    /// What all names of the same owner and generation have in common.
    pub(crate) fn owner(self) -> u64 {
        self.0 >> INDEX_SHIFT
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_put_in_comes_out() {
        for (index, generation, step) in [(0, 0, 0), (2047, GENERATIONS - 1, 0xFF), (1, 2, 3)] {
            let copy = step as u8;
            let tokens = [
                (Token::new(index, generation, step), (false, false)),
                (Token::of_single(index, generation, copy), (true, false)),
                (Token::of_log(index, generation, copy), (false, true)),
            ];
            for (token, kind) in tokens {
                assert!(token.0 < 1 << 48);
                assert_eq!((token.is_single(), token.is_log()), kind);
                assert_eq!((token.index(), token.generation()), (index, generation));
                assert_eq!(token.step(), step);
            }
            assert_ne!(tokens[0].0.owner(), tokens[1].0.owner());
            assert_ne!(tokens[0].0.owner(), tokens[2].0.owner());
        }
        assert_eq!(Token::new(7, 1, 3).owner(), Token::new(7, 1, 4).owner());
        assert_ne!(Token::new(7, 1, 3).owner(), Token::new(7, 2, 3).owner());
    }
}
