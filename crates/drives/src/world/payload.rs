//! From the engine's segments to addresses: checked against the arena, whatever they are for.

use crate::arena::Arena;
use crate::ring::Ring;
use crate::transfer::{MISUSE, Payload, Transfer};
use engine::limits::VOLUME_MEMBERS_MAX;
use engine::plan::{Segment, StepKind};

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

/// A row's slots, and a block of scratch.
const SOURCES_MAX: usize = VOLUME_MEMBERS_MAX + 1;

/// The addresses of a computation's sources.
pub(super) struct Sources {
    addresses: [*const u8; SOURCES_MAX],
    count: usize,
}

impl Sources {
    /// Checks that all sources of `length_bytes` lie in the arena.
    #[inline]
    pub fn check(
        arena: &Arena,
        length_bytes: u64,
        sources: impl Iterator<Item = Segment>,
    ) -> Sources {
        let mut checked = Sources {
            addresses: [std::ptr::null(); SOURCES_MAX],
            count: 0,
        };
        for source in sources {
            assert!(
                checked.count < SOURCES_MAX,
                "a computation has at most {SOURCES_MAX} sources"
            );
            checked.addresses[checked.count] = arena.pointer(source.buffer, length_bytes);
            checked.count += 1;
        }
        checked
    }

    #[inline]
    pub fn as_slice(&self) -> &[*const u8] {
        &self.addresses[..self.count]
    }
}
