//! From the engine's segments to addresses: checked against the arena, whatever they are for.

use crate::arena::Arena;
use crate::memory::Ram;
use crate::ring::Ring;
use crate::transfer::{MISUSE, Payload, Transfer};
use engine::limits::VOLUME_MEMBERS_MAX;
use engine::plan::{Segment, StepKind};
use engine::world::Io;

/// Checks a transfer's memory and turns it into what the kernel takes.
pub(super) fn gather(
    ring: &mut Ring,
    transfer: &Transfer,
    mut memory: impl Iterator<Item = Segment>,
) -> Result<Payload, i32> {
    if !matches!(transfer.kind, StepKind::Read | StepKind::Write { .. }) {
        return Ok(Payload::Nothing);
    }
    let Some(first) = memory.next() else {
        return Err(MISUSE);
    };
    if !ring
        .arena()
        .holds(first.buffer, u64::from(first.length_bytes))
    {
        return Err(MISUSE);
    }
    if u64::from(first.length_bytes) == transfer.left_bytes {
        return Ok(Payload::Piece(first.buffer));
    }
    let list = ring.vectors().take();
    let mut total_bytes = 0;
    let mut fits = true;
    for segment in std::iter::once(first).chain(memory) {
        let length_bytes = u64::from(segment.length_bytes);
        fits &= match ring.arena().address(segment.buffer, length_bytes) {
            Some(address) => ring.vectors().push(list, address, segment.length_bytes),
            None => false,
        };
        total_bytes += length_bytes;
    }
    if fits && total_bytes == transfer.left_bytes {
        Ok(Payload::List(list))
    } else {
        ring.vectors().give_back(list);
        Err(MISUSE)
    }
}

/// Carries out an I/O on a RAM member. The caller has checked the member's range.
pub(super) fn copy(ram: &Ram, arena: &Arena, io: Io, memory: impl Iterator<Item = Segment>) -> i32 {
    match io.kind {
        StepKind::Zero { keep_allocated } => {
            ram.zero(io.offset_bytes, io.length_bytes, keep_allocated);
        }
        StepKind::Discard => ram.zero(io.offset_bytes, io.length_bytes, false),
        StepKind::Read | StepKind::Write { .. } => {
            let mut offset_bytes = io.offset_bytes;
            let end = io.offset_bytes + io.length_bytes;
            for segment in memory {
                let length_bytes = u64::from(segment.length_bytes);
                let fits = offset_bytes + length_bytes <= end;
                if !fits || !arena.holds(segment.buffer, length_bytes) {
                    return MISUSE;
                }
                if io.kind == StepKind::Read {
                    ram.read_to(offset_bytes, arena, segment.buffer, length_bytes);
                } else {
                    ram.write_from(offset_bytes, arena, segment.buffer, length_bytes);
                }
                offset_bytes += length_bytes;
            }
            if offset_bytes != end {
                return MISUSE;
            }
        }
        StepKind::Flush | StepKind::Xor { .. } | StepKind::Compare => {}
    }
    0
}

/// Calls `compute` with the checked addresses of all sources.
pub(super) fn with_addresses<T>(
    arena: &Arena,
    length_bytes: u64,
    sources: impl Iterator<Item = Segment>,
    compute: impl FnOnce(&[*const u8]) -> T,
) -> T {
    /// A row's slots, and a block of scratch.
    const SOURCES_MAX: usize = VOLUME_MEMBERS_MAX + 1;
    let mut addresses = [std::ptr::null(); SOURCES_MAX];
    let mut count = 0;
    for source in sources {
        assert!(
            count < SOURCES_MAX,
            "a computation has at most {SOURCES_MAX} sources"
        );
        addresses[count] = arena.pointer(source.buffer, length_bytes).cast_const();
        count += 1;
    }
    compute(&addresses[..count])
}
