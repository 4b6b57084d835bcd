//! Where work that is done in pieces stands: see [`crate::shard::repair::piecewise`].

use crate::limits::GRAIN_BYTES;
use crate::order::ranges::Part;
use crate::units::{Slot, SlotSet};

/// Where work that is done in pieces stands.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piecewise {
    /// First offset in the chunk of the piece under way.
    low: u32,
    /// End of the whole range.
    end: u32,
    /// Longest piece for now: a power of two, at least one grain.
    length_bytes: u32,
    /// Slots from which this piece could not be read; the piece is at most one grain then.
    avoid: SlotSet,
    /// Those of them that a scrub has written back.
    healed: SlotSet,
    /// Of a write to a RAID 5: what has become of the piece's parity.
    parity: PieceParity,
    /// Of a row that is zeroed chunk by chunk: the data chunk under way, and how many there are.
    chunk: u8,
    chunks: u8,
}

/// What a write makes of a piece's parity.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PieceParity {
    /// It is kept true.
    Kept,
    /// It cannot be computed, and is being recorded as lost.
    BeingGivenUp,
    /// It is on record as lost: the data are written alone.
    GivenUp,
    /// It could not be recorded as lost, so the piece is not written.
    NotRecorded,
}

impl Piecewise {
    pub(crate) fn new((low, end): (u32, u32)) -> Piecewise {
        let first_grain = low / GRAIN_BYTES * GRAIN_BYTES;
        Piecewise {
            low,
            end,
            length_bytes: (end - first_grain).next_power_of_two().max(GRAIN_BYTES),
            avoid: SlotSet(0),
            healed: SlotSet(0),
            parity: PieceParity::Kept,
            chunk: 0,
            chunks: 1,
        }
    }

    /// The same, for a row of so many data `chunks` that is done chunk by chunk.
    pub fn of_chunks(range: (u32, u32), chunks: u8) -> Piecewise {
        Piecewise {
            chunks,
            ..Piecewise::new(range)
        }
    }

    /// First offset in the chunk of the piece under way.
    pub fn low(&self) -> u32 {
        self.low
    }

    /// Slots from which this piece could not be read; the piece is at most one grain then.
    pub fn avoid(&self) -> SlotSet {
        self.avoid
    }

    /// The data chunk under way of a row that is done chunk by chunk.
    pub fn chunk(&self) -> u8 {
        self.chunk
    }

    /// What has become of the piece's parity.
    pub fn parity(&self) -> PieceParity {
        self.parity
    }

    /// Notes what has become of the piece's parity.
    pub fn set_parity(&mut self, parity: PieceParity) {
        self.parity = parity;
    }

    /// A scrub has written back what a slot could not read. Returns whether there is another such slot.
    pub fn heal(&mut self) -> bool {
        if let Some(slot) = self.unhealed() {
            self.healed = self.healed.with(slot);
        }
        self.unhealed().is_some()
    }

    /// End of the piece under way. Pieces meet at borders of grains, shorter ones at multiples of their length.
    pub fn high(&self) -> u32 {
        let unit = GRAIN_BYTES.min(self.length_bytes);
        (self.low / unit * unit + self.length_bytes).min(self.end)
    }

    /// What a part and the piece have in common; empty if the first offset is not below the second.
    pub fn overlap(&self, part: &Part) -> (u32, u32) {
        (part.low.max(self.low), part.high.min(self.high()))
    }

    /// The slot that a scrub writes back next in this piece.
    pub fn unhealed(self) -> Option<Slot> {
        SlotSet(self.avoid.0 & !self.healed.0).iter().next()
    }

    /// Some block of the piece cannot be read from `slots`: halves the piece, or avoids the slots if it is no longer
    /// than a grain.
    pub(crate) fn narrow(&mut self, slots: SlotSet) {
        if self.length_bytes > GRAIN_BYTES {
            self.length_bytes /= 2;
        } else {
            self.avoid.0 |= slots.0;
        }
    }

    /// Makes the piece one block long and forgets what was met in it; false if it is no longer than that.
    pub fn refine(&mut self, block_bytes: u32) -> bool {
        let is_longer = self.length_bytes > block_bytes;
        if is_longer {
            self.length_bytes = block_bytes;
            self.avoid = SlotSet(0);
        }
        is_longer
    }

    /// Moves on to the next piece; false when that was the last.
    pub(crate) fn step(&mut self) -> bool {
        self.parity = PieceParity::Kept;
        self.chunk += 1;
        if self.chunk < self.chunks {
            return true;
        }
        self.chunk = 0;
        self.low = self.high();
        self.length_bytes = (self.length_bytes * 2).min(self.end.next_power_of_two());
        self.avoid = SlotSet(0);
        self.healed = SlotSet(0);
        self.low < self.end
    }
}
