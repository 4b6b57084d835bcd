//! What a token names: a step of a plan, a command of a request without a plan, or a unit of a write-hole
//! log. The kinds are told apart by a bit above the numbers; the world sees a number and gives it back.

use crate::world::Token;

/// Marks the tokens of single requests.
const SINGLE: u64 = 1 << 40;
/// Marks the tokens of write-hole logs.
const LOG: u64 = 1 << 41;

impl Token {
    #[inline]
    pub(crate) fn new(plan: u32, step: usize) -> Token {
        Token(u64::from(plan) << 16 | step as u64)
    }

    /// Names a command of a single request.
    #[inline]
    pub(crate) fn of_single(index: u32, copy: u8) -> Token {
        Token(SINGLE | u64::from(index) << 16 | u64::from(copy))
    }

    /// Names the write of a log's unit to the drive in service, or to the one that is being copied to.
    pub(crate) fn of_log(index: u32, copy: u8) -> Token {
        Token(LOG | u64::from(index) << 16 | u64::from(copy))
    }

    #[inline]
    pub(crate) fn is_log(self) -> bool {
        self.0 & LOG != 0
    }

    /// The log, and which drive.
    pub(crate) fn log(self) -> (u32, u8) {
        ((self.0 & !LOG) as u32 >> 16, self.0 as u8)
    }

    #[inline]
    pub(crate) fn is_single(self) -> bool {
        self.0 & SINGLE != 0
    }

    /// The single request and the command of it.
    #[inline]
    pub(crate) fn single(self) -> (u32, u8) {
        ((self.0 & !SINGLE) as u32 >> 16, self.0 as u8)
    }

    #[inline]
    pub(crate) fn plan(self) -> u32 {
        (self.0 >> 16) as u32
    }

    #[inline]
    pub(crate) fn step(self) -> usize {
        (self.0 & 0xFFFF) as usize
    }
}
