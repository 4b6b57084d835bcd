//! A piece of work inside one band.

use crate::order::ranges::{BandKey, NONE, Ranges};
use crate::units::{Buffer, MemberId};
use alloc::vec::Vec;
use core::ops::Index;

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
    /// Read what the tried drive could not deliver. If it only met blocks that cannot be read, find and repair them.
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
    /// For reads: the drive that could not serve this range. Not its slot, because another drive may take that.
    pub tried: Option<MemberId>,
    /// Has to be planned without others.
    pub alone: bool,
    /// The next one of its band's queue, or of its plan.
    pub(super) next: u32,
}

impl Part {
    /// Background work over a range of the whole row; `name` tells which work it belongs to.
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

    /// A piece of a request: `length` bytes of a chunk from `low` on, with memory for a payload, and for reads the
    /// drive that was `tried`.
    pub fn of_request(
        (kind, request): (PartKind, u32),
        data_index: u8,
        (low, length): (u32, u32),
        buffer: Buffer,
        tried: Option<MemberId>,
    ) -> Part {
        Part {
            kind,
            request,
            data_index,
            low,
            high: low + length,
            buffer,
            tried,
            alone: false,
            next: NONE,
        }
    }

    /// What lies between two offsets in the chunk, as a part of its own.
    pub fn piece(&self, (low, high): (u32, u32)) -> Part {
        Part {
            low,
            high,
            buffer: self.buffer.at(low - self.low),
            next: NONE,
            ..*self
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

/// Parts have numbers, and are in the queue of a band or in the chain of a plan.
impl Ranges {
    /// How many parts may still be added.
    #[inline]
    pub fn parts_available(&self) -> usize {
        self.parts.available()
    }

    /// How many parts there are.
    pub fn parts_used(&self) -> usize {
        self.parts.used()
    }

    /// The numbers of all parts.
    ///
    /// # Panics
    /// The pool of parts is not in order.
    pub fn parts_in_use(&self) -> Vec<u32> {
        self.parts.in_use("part")
    }

    /// Adds a part at the end of its band's queue. The caller has checked that one may be added.
    #[inline]
    pub fn add(&mut self, key: BandKey, part: Part) {
        let number = self.make_part(part);
        self.enqueue(key, number);
    }

    /// Makes a part that is in no queue.
    #[inline]
    pub fn make_part(&mut self, part: Part) -> u32 {
        let number = self.parts.take().expect("a part is available");
        self.parts[number] = part;
        number
    }

    /// Puts a part that is in no queue behind the last one of a plan.
    #[inline]
    pub fn chain_up(&mut self, last: u32, part: u32) {
        self.parts[last].next = part;
    }

    /// The parts from `first` on, to the end of their queue or plan.
    #[inline]
    pub fn chain(&self, first: u32) -> impl Iterator<Item = &Part> {
        let there = |part: u32| (part != NONE).then_some(part);
        let numbers =
            core::iter::successors(there(first), move |&part| there(self.parts[part].next));
        numbers.map(|part| &self.parts[part])
    }

    /// The part after `before` in a band's queue, or the first one.
    #[inline]
    pub fn next_waiting(&self, entry: u32, before: u32) -> u32 {
        if before == NONE {
            self.first_waiting(entry)
        } else {
            self.parts[before].next
        }
    }

    /// The part after one of a plan, or `NONE`.
    #[inline]
    pub fn after(&self, part: u32) -> u32 {
        self.parts[part].next
    }

    /// Whether a plan has several parts.
    pub fn has_several(&self, first: u32) -> bool {
        self.parts[first].next != NONE
    }

    /// The parts of a plan are to be planned one by one from now on.
    pub fn plan_alone(&mut self, first: u32) {
        let mut at = first;
        while at != NONE {
            self.parts[at].alone = true;
            at = self.parts[at].next;
        }
    }

    /// A part has ended. Returns it, and the number of the next one of its plan.
    #[inline]
    pub fn end(&mut self, part: u32) -> (Part, u32) {
        let ended = self.parts[part];
        self.parts.give(part);
        (ended, ended.next)
    }
}

impl Index<u32> for Ranges {
    type Output = Part;

    #[inline]
    fn index(&self, part: u32) -> &Part {
        &self.parts[part]
    }
}
