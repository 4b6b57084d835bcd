//! Memory of a port: an area for each connection, and payload for requests.
//!
//! The areas are allocated when the port is made, so that long-lived buffers do not lie between payload and fragment it
//! into pieces too small for large requests.
//!
//! Payload is shared by one rule: a connection may hold at most as much as would still be free after its request, and
//! never more than its limit. So a client that does not take its replies leaves half of what was free, and the next
//! such client half of that. A connection that holds nothing may take one request wherever it fits, so that large
//! requests work on small pools. A request that does not fit beside the memory that hanging drives may still use
//! (`pinned`) is refused, instead of waiting for ever.

use std::sync::Arc;

use drives::arena::{Arena, Pool};
use engine::units::Buffer;

use super::requests::REQUESTS_MAX;
use super::setup::{NbdLimits, NbdPortError, maximum_payload_bytes};
use crate::nbd::{ExportList, ReplyHeader};
use crate::pinned::{Payload, Pinned};

/// A connection's own memory, besides payload.
const AREA_BYTES: u64 = 64 << 10;
const HEADERS_BYTES: u32 = (REQUESTS_MAX * ReplyHeader::CAPACITY) as u32;
/// Longest text of the handshake that is sent at once; also the room for an error reply with a sentence.
pub(super) const TEXT_BYTES: u32 = 8 << 10;
/// Longest receive into a connection's area.
pub(super) const RECEIVE_BYTES: u32 = AREA_BYTES as u32 - HEADERS_BYTES - TEXT_BYTES;
/// The smallest block of the pool.
const BLOCK_BYTES_MIN: u64 = 4 << 10;

/// A connection's own memory.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area(Buffer);

impl Area {
    /// The headers of replies that are being sent; room for one per request.
    pub fn headers(self) -> Buffer {
        self.0
    }

    /// The text that is being sent.
    pub fn text(self) -> Buffer {
        self.0.at(HEADERS_BYTES)
    }

    /// Bytes received from the client.
    pub fn receive(self) -> Buffer {
        self.0.at(HEADERS_BYTES + TEXT_BYTES)
    }
}

#[derive(Debug)]
pub(super) struct Memory {
    pool: Pool,
    areas: Vec<Area>,
    connection_bytes_max: u64,
    /// Payload of all requests that are not finished.
    held_bytes: u64,
    pinned: Pinned,
    /// Whether payload has been freed since [`Memory::take_freed`].
    freed: bool,
}

impl Memory {
    pub fn new(
        mut pool: Pool,
        limits: &NbdLimits,
        exports: &ExportList,
    ) -> Result<Memory, NbdPortError> {
        let pool_bytes = pool.available_bytes();
        let too_small = || NbdPortError::Memory { pool_bytes };
        let count = (pool_bytes / 4 / AREA_BYTES).min(u64::from(limits.connections_max));
        let areas: Option<Vec<Area>> = (0..count)
            .map(|_| pool.allocate(AREA_BYTES).map(Area))
            .collect();
        let areas = areas
            .filter(|areas| !areas.is_empty())
            .ok_or_else(too_small)?;
        for export in exports.as_slice() {
            let payload_bytes = export.block_sizes.maximum_payload_bytes;
            let limit_bytes = maximum_payload_bytes(pool_bytes);
            let block = (payload_bytes <= limit_bytes)
                .then(|| pool.allocate(u64::from(payload_bytes)))
                .flatten();
            let Some(block) = block else {
                return Err(NbdPortError::Payload {
                    name: export.name.clone(),
                    payload_bytes,
                    pool_bytes,
                    limit_bytes,
                });
            };
            pool.free(block);
        }
        Ok(Memory {
            pool,
            areas,
            connection_bytes_max: limits.connection_payload_bytes_max,
            held_bytes: 0,
            pinned: Pinned::new(),
            freed: false,
        })
    }

    /// Whether `buffer` is memory of this port.
    pub fn holds(&self, buffer: Buffer) -> bool {
        self.pool.holds(buffer)
    }

    pub fn arena(&self) -> &Arc<Arena> {
        self.pool.arena()
    }

    /// The most connections at a time.
    pub fn connections_max(&self) -> usize {
        self.areas.len()
    }

    /// The area of the connection at `index`.
    pub fn area(&self, index: u16) -> Area {
        self.areas[usize::from(index)]
    }

    /// Payload memory for a connection that holds `held_bytes`, which is increased; see the rule in the module's
    /// documentation.
    #[inline]
    pub fn allocate(&mut self, held_bytes: &mut u64, length_bytes: u32) -> Option<Payload> {
        let block_bytes = u64::from(length_bytes)
            .next_power_of_two()
            .max(BLOCK_BYTES_MIN);
        let held_after = *held_bytes + block_bytes;
        let free_after = self.pool.available_bytes().checked_sub(block_bytes)?;
        let exceeds_share = held_after > free_after || held_after > self.connection_bytes_max;
        if *held_bytes > 0 && exceeds_share {
            return None;
        }
        let buffer = self.pool.allocate(block_bytes)?;
        *held_bytes = held_after;
        self.held_bytes += block_bytes;
        Some(Payload {
            buffer,
            block_bytes,
        })
    }

    #[inline]
    pub fn free(&mut self, held_bytes: &mut u64, payload: Payload) {
        *held_bytes -= payload.block_bytes;
        self.held_bytes -= payload.block_bytes;
        if let Some(payload) = self.pinned.keep(payload) {
            self.pool.free(payload.buffer);
            self.freed = true;
        }
    }

    /// Keeps memory, because a hanging drive may use `buffer`, until it is released as often as it was pinned.
    pub fn pin(&mut self, buffer: Buffer) {
        self.pinned.pin(buffer);
    }

    /// See [`Memory::pin`].
    pub fn release(&mut self, buffer: Buffer) {
        if let Some(payload) = self.pinned.release(buffer) {
            self.pool.free(payload.buffer);
            self.freed = true;
        }
    }

    /// Bytes that are kept only for hanging drives.
    pub fn pinned_bytes(&self) -> u64 {
        self.pinned.bytes()
    }

    /// Whether waiting for memory is useless, because no request will free any.
    pub fn is_exhausted(&self) -> bool {
        self.held_bytes == 0
    }

    /// Whether a waiting connection may find memory now; resets the note.
    #[inline]
    pub fn take_freed(&mut self) -> bool {
        std::mem::take(&mut self.freed)
    }

    /// What [`Memory::take_freed`] would return, without the reset.
    #[inline]
    pub fn has_freed(&self) -> bool {
        self.freed
    }

    /// Lets all waiting connections try again.
    pub fn set_freed(&mut self) {
        self.freed = true;
    }

    #[cfg(test)]
    pub fn available_bytes(&self) -> u64 {
        self.pool.available_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::{Abilities, BlockSizes, Export};
    use drives::arena::ArenaOptions;

    fn exports(payload_bytes: u32) -> ExportList {
        let export = Export {
            name: "vol0".into(),
            description: String::new(),
            size_bytes: 1 << 20,
            block_sizes: BlockSizes {
                minimum_bytes: 512,
                preferred_bytes: 4096,
                maximum_payload_bytes: payload_bytes,
            },
            abilities: Abilities::default(),
        };
        ExportList::new(vec![export]).unwrap()
    }

    fn memory(pool_bytes: usize, payload_bytes: u32) -> Result<Memory, NbdPortError> {
        let options = ArenaOptions {
            length_bytes: pool_bytes,
            prefault: false,
            lock: false,
        };
        let pool = Pool::new(Arena::new(options).unwrap(), 0..pool_bytes);
        Memory::new(pool, &NbdLimits::default(), &exports(payload_bytes))
    }

    /// Allocates 1 MiB requests until the rule refuses one. Returns their number.
    fn fill(memory: &mut Memory) -> u64 {
        let mut held_bytes = 0;
        while memory.allocate(&mut held_bytes, 1 << 20).is_some() {}
        held_bytes >> 20
    }

    #[test]
    fn stuck_connections_leave_room_for_others() {
        let mut memory = memory(64 << 20, 16 << 20).unwrap();
        assert_eq!(memory.connections_max(), 256);
        // The connections' areas leave 48 MiB.
        let counts: Vec<u64> = (0..5).map(|_| fill(&mut memory)).collect();
        assert_eq!(counts, [24, 12, 6, 3, 1]);
        let mut held_bytes = 0;
        let small = memory.allocate(&mut held_bytes, 512).unwrap();
        assert_eq!(held_bytes, 4096);
        memory.free(&mut held_bytes, small);
        assert_eq!(held_bytes, 0);
        assert!(memory.take_freed() && !memory.take_freed());
    }

    #[test]
    fn a_connection_has_a_limit_but_may_always_have_one_request() {
        let mut memory = memory(512 << 20, 32 << 20).unwrap();
        assert_eq!(fill(&mut memory), 64);
        let mut held_bytes = 0;
        memory.connection_bytes_max = 0;
        assert!(memory.allocate(&mut held_bytes, 32 << 20).is_some());
        assert!(memory.allocate(&mut held_bytes, 512).is_none());
    }

    #[test]
    fn what_does_not_fit_is_refused_with_advice() {
        let text = memory(16 << 20, 32 << 20).unwrap_err().to_string();
        assert!(
            text.contains("\"vol0\"") && text.contains("at most 4194304"),
            "{text}"
        );
        let text = memory(128 << 10, 4096).unwrap_err().to_string();
        assert!(text.contains("131072 bytes"), "{text}");
        assert!(memory(16 << 20, 4 << 20).is_ok());
    }
}
