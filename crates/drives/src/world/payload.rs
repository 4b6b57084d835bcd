//! Turns the engine's segments into addresses, after checking that they lie in the arena.

use crate::arena::Arena;
use crate::ring::Ring;
use crate::transfer::{MISUSE, Payload, Transfer};
use engine::limits::VOLUME_MEMBERS_MAX;
use engine::plan::{Segment, StepKind};
use std::mem::MaybeUninit;

/// Checks a transfer's memory and converts it to the form that the kernel takes.
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

/// Calls `compute` with the checked addresses of all sources.
#[inline]
pub(super) fn with_addresses<T>(
    arena: &Arena,
    length_bytes: u64,
    sources: impl Iterator<Item = Segment>,
    compute: impl FnOnce(&[*const u8]) -> T,
) -> T {
    /// The most sources: a row's slots, and a block of scratch.
    const SOURCES_MAX: usize = VOLUME_MEMBERS_MAX + 1;
    // Not initialised: that would take as long as computing the parity of a short write.
    let mut addresses = [const { MaybeUninit::uninit() }; SOURCES_MAX];
    let mut count = 0;
    for source in sources {
        assert!(
            count < SOURCES_MAX,
            "a computation has at most {SOURCES_MAX} sources"
        );
        addresses[count].write(arena.pointer(source.buffer, length_bytes).cast_const());
        count += 1;
    }
    // SAFETY: the first `count` addresses have just been written.
    compute(unsafe { addresses[..count].assume_init_ref() })
}
