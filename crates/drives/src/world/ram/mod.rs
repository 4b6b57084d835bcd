//! I/O to RAM members. The answer is known during the call, but the bytes may move later, at the latest before answers
//! are reaped. Until then nothing else may use them.
//!
//! - **Reads** are delayed behind up to two others, so that their first cache lines are prefetched while earlier reads
//!   are copied. The processor's own prefetcher, which needs a few lines to start, does the rest.
//! - **Writes** are streamed past the caches, so that the old content of overwritten lines is not read first. An
//!   exception are offsets that have just been read: a partial write of RAID 5 reads old data and parity and soon
//!   overwrites both, and lines that are in the cache are written there at the lowest cost.
//! - **Full stripes** are copied and XORed in one pass: see [`late`].

mod late;
mod lately;

use super::attach::Attachments;
use crate::arena::Arena;
use crate::memory::Stores;
use crate::transfer::MISUSE;
use engine::plan::{Segment, StepKind};
use engine::units::Buffer;
use engine::world::Io;
use late::LateParity;
use lately::ReadLately;
use std::collections::VecDeque;

/// For shorter writes, streaming does not pay off.
const STREAM_BYTES_MIN: u64 = 4096;
/// Reads that are prefetched while another is copied; more did not help.
const READS_AHEAD: usize = 2;

/// A read that has been answered but not yet carried out.
#[derive(Clone, Copy, Debug)]
struct Read {
    attachment: u16,
    offset_bytes: u64,
    memory: Segment,
}

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct RamIo {
    reads: VecDeque<Read>,
    read_lately: ReadLately,
    late: LateParity,
}

impl RamIo {
    pub fn new() -> RamIo {
        RamIo {
            reads: VecDeque::with_capacity(READS_AHEAD + 1),
            read_lately: ReadLately::new(),
            late: LateParity::new(),
        }
    }

    /// Accepts an I/O to a RAM member; returns its errno. The caller has checked the range on the member.
    pub fn start(
        &mut self,
        (arena, attachments): (&Arena, &Attachments),
        index: u16,
        io: Io,
        mut memory: impl Iterator<Item = Segment>,
    ) -> i32 {
        let ram = attachments.ram(index);
        match io.kind {
            StepKind::Read => {
                self.read_lately.note(index, io.offset_bytes);
                each(arena, io, memory, |offset_bytes, memory| {
                    ram.expect_read(offset_bytes, u64::from(memory.length_bytes));
                    self.reads.push_back(Read {
                        attachment: index,
                        offset_bytes,
                        memory,
                    });
                    if self.reads.len() > READS_AHEAD {
                        self.carry_out_read((arena, attachments));
                    }
                })
            }
            StepKind::Write { .. } => {
                let mut first = None;
                if !self.late.is_empty() {
                    first = memory.next();
                    let taken = first.is_some_and(|first| {
                        self.late.take((index, io, first), (arena, attachments))
                    });
                    if taken {
                        return 0;
                    }
                    self.late.finish((arena, attachments));
                }
                let long = io.length_bytes >= STREAM_BYTES_MIN;
                let stores = if long && !self.read_lately.has(index, io.offset_bytes) {
                    Stores::Streamed
                } else {
                    Stores::Cached
                };
                let memory = first.into_iter().chain(memory);
                each(arena, io, memory, |offset_bytes, memory| {
                    let length_bytes = u64::from(memory.length_bytes);
                    ram.write_from(offset_bytes, arena, memory.buffer, length_bytes, stores);
                })
            }
            StepKind::Zero { keep_allocated } => {
                self.finish((arena, attachments));
                ram.zero(io.offset_bytes, io.length_bytes, keep_allocated);
                0
            }
            StepKind::Discard => {
                self.finish((arena, attachments));
                ram.zero(io.offset_bytes, io.length_bytes, false);
                0
            }
            StepKind::Flush | StepKind::Log { .. } | StepKind::Xor { .. } | StepKind::Compare => 0,
        }
    }

    /// Defers `target = xor of sources` and returns true, or returns false and the caller has to compute it. The caller
    /// has checked that all memory lies in the arena.
    pub fn put_off_xor(
        &mut self,
        world: (&Arena, &Attachments),
        (target, length_bytes): (Buffer, u64),
        sources: &[*const u8],
    ) -> bool {
        if !world.1.any_ram() {
            return false;
        }
        if self.late.touches(target, sources, length_bytes) {
            self.late.finish(world);
        }
        self.late.put_off(target, sources, length_bytes)
    }

    /// Carries out all deferred work.
    #[inline]
    pub fn finish(&mut self, world: (&Arena, &Attachments)) {
        while !self.reads.is_empty() {
            self.carry_out_read(world);
        }
        self.late.finish(world);
    }

    fn carry_out_read(&mut self, (arena, attachments): (&Arena, &Attachments)) {
        if let Some(read) = self.reads.pop_front() {
            let length_bytes = u64::from(read.memory.length_bytes);
            attachments.ram(read.attachment).read_to(
                read.offset_bytes,
                arena,
                read.memory.buffer,
                length_bytes,
            );
        }
    }
}

/// Calls `act` with every segment and its offset on the member, after checking the segment.
fn each(
    arena: &Arena,
    io: Io,
    memory: impl Iterator<Item = Segment>,
    mut act: impl FnMut(u64, Segment),
) -> i32 {
    let mut offset_bytes = io.offset_bytes;
    let end = io.offset_bytes + io.length_bytes;
    for segment in memory {
        let length_bytes = u64::from(segment.length_bytes);
        let fits = offset_bytes + length_bytes <= end;
        if !fits || !arena.holds(segment.buffer, length_bytes) {
            return MISUSE;
        }
        act(offset_bytes, segment);
        offset_bytes += length_bytes;
    }
    if offset_bytes == end { 0 } else { MISUSE }
}
