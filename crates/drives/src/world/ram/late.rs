//! Defers the parity of full stripes, so that RAM members get data and parity in one pass.
//!
//! A full stripe on RAM members moves every byte twice: into the parity, and to the member. Done separately, that is
//! two passes over the row; [`engine::xor::copy_and_xor`] does it in one. So a computation whose result is none of its
//! sources (only full stripes have such) is deferred until its sources and its result have all been written to RAM
//! members, which happens in the same turn of the loop. Anything else that might use these bytes makes the computation
//! run first: another write, a computation on the same memory, a drive that is attached or detached, and the next
//! reaping of answers.

use super::super::attach::Attachments;
use crate::arena::Arena;
use engine::plan::Segment;
use engine::units::Buffer;
use engine::world::Io;
use engine::xor::Copied;

/// Most sources of a deferred computation: the data chunks of a row of common width.
const SOURCES_MAX: usize = 16;
/// Most deferred computations.
const WAITING_MAX: usize = 32;

/// Payload memory, and the attachment and offset to which it will be written, once known.
#[derive(Clone, Copy, Debug)]
struct Piece {
    memory: Buffer,
    to: Option<(u16, u64)>,
}

/// One deferred computation.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    length_bytes: u64,
    sources: [Piece; SOURCES_MAX],
    count: usize,
    result: Piece,
    /// How many of the sources and the result have no write yet.
    missing: usize,
}

impl Waiting {
    fn pieces(&mut self) -> impl Iterator<Item = &mut Piece> {
        self.sources[..self.count]
            .iter_mut()
            .chain([&mut self.result])
    }

    fn touches(&self, memory: Buffer, length_bytes: u64) -> bool {
        let pieces = self.sources[..self.count].iter().chain([&self.result]);
        pieces
            .map(|piece| piece.memory.0)
            .any(|start| memory.0 < start + self.length_bytes && start < memory.0 + length_bytes)
    }

    fn carry_out(&self, (arena, attachments): (&Arena, &Attachments)) {
        let length = self.length_bytes as usize;
        let from = |piece: &Piece| arena.pointer(piece.memory, self.length_bytes);
        let to = |piece: &Piece| match piece.to {
            Some((attachment, offset_bytes)) => attachments
                .ram(attachment)
                .pointer(offset_bytes, self.length_bytes),
            None => std::ptr::null_mut(),
        };
        let copied = |piece: &Piece| Copied {
            from: from(piece),
            to: to(piece),
        };
        let mut copies = [copied(&self.result); SOURCES_MAX];
        for (copy, source) in copies.iter_mut().zip(&self.sources[..self.count]) {
            *copy = copied(source);
        }
        let (copies, result) = (&copies[..self.count], copied(&self.result));
        let target = from(&self.result);
        // SAFETY: all ranges have been checked to lie in the arena or on a RAM member, and those of the arena not to
        // overlap the result. The engine's range locks exclude other use of both.
        unsafe {
            if self.missing == 0 {
                return engine::xor::copy_and_xor(target, result.to, copies, length);
            }
            let mut sources = [std::ptr::null(); SOURCES_MAX];
            for (source, copy) in sources.iter_mut().zip(copies) {
                *source = copy.from;
            }
            engine::xor::xor_into(target, &sources[..self.count], length);
            for copy in copies.iter().chain([&result]) {
                if !copy.to.is_null() {
                    engine::xor::copy_streaming(copy.to, copy.from, length);
                }
            }
        }
    }
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct LateParity {
    waiting: Vec<Waiting>,
}

impl LateParity {
    pub fn new() -> LateParity {
        LateParity {
            waiting: Vec::with_capacity(WAITING_MAX),
        }
    }

    #[inline]
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Whether a deferred computation uses memory of this computation.
    pub fn touches(&self, target: Buffer, sources: &[*const u8], length_bytes: u64) -> bool {
        let starts = || sources.iter().map(|source| source.addr() as u64);
        self.waiting.iter().any(|waiting| {
            let mut memory = starts().chain([target.0]);
            memory.any(|start| waiting.touches(Buffer(start), length_bytes))
        })
    }

    /// Defers a computation and returns true, or returns false and the caller has to compute it. The caller has checked
    /// that the memory lies in the arena and that no deferred computation uses it.
    pub fn put_off(&mut self, target: Buffer, sources: &[*const u8], length_bytes: u64) -> bool {
        let piece = |memory| Piece { memory, to: None };
        let result = piece(target);
        let overlaps =
            |source: &*const u8| (source.addr() as u64).abs_diff(target.0) < length_bytes;
        if sources.len() > SOURCES_MAX
            || self.waiting.len() == WAITING_MAX
            || sources.iter().any(overlaps)
        {
            return false;
        }
        let mut waiting = Waiting {
            length_bytes,
            sources: [result; SOURCES_MAX],
            count: sources.len(),
            result,
            missing: sources.len() + 1,
        };
        for (into, &source) in waiting.sources.iter_mut().zip(sources) {
            *into = piece(Buffer(source.addr() as u64));
        }
        self.waiting.push(waiting);
        true
    }

    /// Takes over a write to a RAM member, whose range has been checked, if a deferred computation waits for it;
    /// returns whether it did. The last such write carries out the computation.
    pub fn take(
        &mut self,
        (attachment, io, memory): (u16, Io, Segment),
        world: (&Arena, &Attachments),
    ) -> bool {
        if u64::from(memory.length_bytes) != io.length_bytes {
            return false;
        }
        for (index, waiting) in self.waiting.iter_mut().enumerate() {
            if waiting.length_bytes != io.length_bytes {
                continue;
            }
            let mut pieces = waiting.pieces();
            let wanted = |piece: &&mut Piece| piece.memory == memory.buffer && piece.to.is_none();
            if let Some(piece) = pieces.find(wanted) {
                piece.to = Some((attachment, io.offset_bytes));
                drop(pieces);
                waiting.missing -= 1;
                if waiting.missing == 0 {
                    self.waiting.swap_remove(index).carry_out(world);
                }
                return true;
            }
        }
        false
    }

    /// Carries out all deferred computations in the order in which they came.
    #[inline]
    pub fn finish(&mut self, world: (&Arena, &Attachments)) {
        for waiting in self.waiting.drain(..) {
            waiting.carry_out(world);
        }
    }
}
