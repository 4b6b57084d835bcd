//! A piece of work inside one band.

use crate::order::ranges::NONE;
use crate::units::{Buffer, MemberId};

/// What a piece of work wants to do with its range.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PartKind {
    /// Write the payload.
    Write { fua: bool },
    /// Zero or discard without payload; RAID 5: all slots of the row.
    Zero {
        discard: bool,
        keep_allocated: bool,
        fua: bool,
    },
    /// Read what its slot could not deliver. If it only met blocks that cannot be read, find and repair them.
    Reconstruct { repairs: bool },
    /// A step of the volume's background job, over the whole band.
    Background,
}

/// A piece of work inside one band.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Part {
    pub kind: PartKind,
    /// The request it belongs to; unused for background work.
    pub request: u32,
    pub data_index: u8,
    /// Range of offsets in the chunk.
    pub low: u32,
    pub high: u32,
    pub buffer: Buffer,
    /// For reads: the drive that could not serve this range. Not its slot: another drive may take that.
    pub tried: Option<MemberId>,
    /// Has to be planned without others.
    pub alone: bool,
    pub next: u32,
}

impl Part {
    /// Background work over a range of the whole row; `name` says whose it is.
    pub fn background((low, high): (u32, u32), name: Buffer) -> Part {
        Part {
            kind: PartKind::Background,
            request: NONE,
            data_index: 0,
            low,
            high,
            buffer: name,
            tried: None,
            alone: false,
            next: NONE,
        }
    }

    /// Whether it has to be durable before it is acknowledged.
    #[inline]
    pub fn is_fua(&self) -> bool {
        matches!(
            self.kind,
            PartKind::Write { fua: true } | PartKind::Zero { fua: true, .. }
        )
    }
}
