//! A request under way that needs no plan, in one cache line.

use crate::limits::SINGLE_COPIES_MAX;
use crate::order::ranges::NONE;
use crate::plan::Segment;
use crate::request::{Operation, Request};
use crate::token::Token;
use crate::units::{MemberId, Nanos, ShardId, Slot, VolumeId};

/// A request under way without a plan. Fits a cache line.
#[derive(Debug)]
#[repr(align(64))]
pub(crate) struct Single {
    pub request: Request,
    pub started: Nanos,
    /// The lock of a mirrored write, or [`NONE`].
    pub lock: u32,
    /// The plan that it was turned into, or [`NONE`]. Its commands in flight keep their old names.
    pub plan: u32,
    pub members: [MemberId; SINGLE_COPIES_MAX],
    pub slots: [Slot; SINGLE_COPIES_MAX],
    pub copies: u8,
    /// The shard that forwarded it; the tag is that shard's ticket. None for a port's request.
    pub from: Option<ShardId>,
    /// Commands that have not come back, by bit.
    pub outstanding: u8,
    /// Part of the commands' names; see [`crate::token`].
    pub generation: u16,
}

const _: () = assert!(size_of::<Single>() == 64);

impl Single {
    pub fn idle() -> Single {
        Single {
            request: Request::NONE,
            started: Nanos(0),
            lock: NONE,
            plan: NONE,
            members: [MemberId(0); SINGLE_COPIES_MAX],
            slots: [Slot(0); SINGLE_COPIES_MAX],
            copies: 0,
            from: None,
            outstanding: 0,
            generation: 0,
        }
    }

    /// The name of a command of it that has not come back.
    pub fn name_of(&self, index: u32, copy: u8) -> Option<Token> {
        (self.outstanding >> copy & 1 == 1).then(|| Token::of_single(index, self.generation, copy))
    }

    /// Forgets its commands; returns how many have not come back, and their generation.
    pub fn give_up(&mut self) -> (u16, u16) {
        let commands = core::mem::take(&mut self.outstanding).count_ones();
        (commands as u16, self.generation)
    }

    /// Whether it is a write to `volume` that has not ended.
    pub fn writes_to(&self, volume: VolumeId) -> bool {
        let is_write = self.request.operation == Operation::Write;
        self.outstanding != 0 && is_write && self.request.volume == volume
    }

    pub fn request(&self) -> &Request {
        &self.request
    }

    pub fn memory(&self) -> Segment {
        Segment::alone(self.request.buffer, self.request.length_bytes)
    }
}
