//! The input of planners about a row: the state of its slots, and the pieces of payload for it.

use super::{Step, StepKind};
use crate::layout::Geometry;
use crate::units::{Buffer, Slot, SlotSet};

/// What may be done with the slots in one row at the moment.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RowView {
    /// Slots whose content in this row is current.
    pub readable: SlotSet,
    /// Slots that must receive every write to this row.
    pub writable: SlotSet,
    /// Slots where a second drive is being filled and has already passed this row.
    pub shadowed: SlotSet,
    /// Whether parity (or the equality of mirrors) has been established for this row.
    pub in_sync: bool,
    /// Whether changes of parity go through the write-hole log.
    pub logged: bool,
    /// Slots that had an older record than others when the array was assembled.
    pub behind: SlotSet,
}

impl RowView {
    /// All slots present, in sync.
    #[must_use]
    pub fn healthy(members: u8) -> RowView {
        let all = SlotSet::all(members);
        RowView {
            readable: all,
            writable: all,
            shadowed: SlotSet(0),
            in_sync: true,
            logged: false,
            behind: SlotSet(0),
        }
    }

    /// As `self`, with `slot` lost.
    #[must_use]
    pub fn without(self, slot: Slot) -> RowView {
        RowView {
            readable: self.readable.without(slot),
            writable: self.writable.without(slot),
            shadowed: self.shadowed.without(slot),
            in_sync: self.in_sync,
            logged: self.logged,
            behind: self.behind,
        }
    }

    /// Whether copies must be written durably (FUA) when mirrors that may differ are made equal. The next start
    /// may choose another copy as the source: the choice depends on the records, and a power cut can leave those
    /// of one half newer. If the write to that copy was not durable, clients would read its old content although
    /// the content of the first source has been read before.
    #[must_use]
    pub fn must_be_durable(&self) -> bool {
        !self.in_sync
    }

    /// Which of several copies that may differ is taken for their content: always the same one while it can be
    /// read, so that reads do not alternate between two contents. It is the lowest slot whose record was not
    /// behind when the array was assembled, or the lowest if all were. After a crash any copy is right; where an
    /// older copy of a drive was put in its place, only the other drives are.
    #[must_use]
    #[inline]
    pub fn source(&self, copies: SlotSet) -> Option<Slot> {
        let newest = SlotSet(copies.0 & !self.behind.0);
        let from = if newest.0 == 0 { copies } else { newest };
        from.iter().next()
    }
}

/// A contiguous piece of payload inside one data chunk of one row.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Which data chunk of the row.
    pub data_index: u8,
    /// First offset in the chunk.
    pub low_bytes: u32,
    /// Offset in the chunk after the last byte.
    pub high_bytes: u32,
    /// Payload for the whole piece.
    pub buffer: Buffer,
}

/// The volume cannot do this work with the members that are left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NotEnoughMembers;

/// A range of offsets in one row, the same on every slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Range {
    /// Row number.
    pub row: u64,
    /// First offset in the chunk.
    pub low_bytes: u32,
    /// Offset in the chunk after the last byte.
    pub high_bytes: u32,
}

impl Piece {
    /// The value of an unused place in a list.
    pub(crate) const EMPTY: Piece = Piece {
        data_index: 0,
        low_bytes: 0,
        high_bytes: 0,
        buffer: Buffer(0),
    };

    /// Where the piece lies in `row`.
    #[inline]
    pub(crate) fn range(&self, row: u64) -> Range {
        Range {
            row,
            low_bytes: self.low_bytes,
            high_bytes: self.high_bytes,
        }
    }
}

impl Range {
    #[inline]
    pub(crate) fn step(self, shape: &Geometry, kind: StepKind, stage: u8, slot: Slot) -> Step {
        let offset = shape.member_offset_bytes(self.row, self.low_bytes);
        Step::member(kind, stage, slot, offset, u64::from(self.length_bytes()))
    }

    /// Bytes of the range.
    #[must_use]
    #[inline]
    pub fn length_bytes(self) -> u32 {
        self.high_bytes - self.low_bytes
    }
}
