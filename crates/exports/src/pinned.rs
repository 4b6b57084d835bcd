//! Payload memory that hanging drives may still use although its requests have been answered.
//!
//! The engine reports the addresses ([`drives::port::Port::pin`]) just before it answers. When a request is finished,
//! memory that contains such an address is kept, and it is freed when the last of its addresses is released.

use engine::units::Buffer;

/// Payload memory of a request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Payload {
    pub buffer: Buffer,
    pub block_bytes: u64,
}

impl Payload {
    /// Whether `buffer` lies in this payload.
    pub fn holds(&self, buffer: Buffer) -> bool {
        (self.buffer.0..self.buffer.0 + self.block_bytes).contains(&buffer.0)
    }
}

/// Initial capacity for pins and for blocks.
const ROOM: usize = 1024;

#[derive(Debug)]
pub(crate) struct Pinned {
    /// Each address as often as it is pinned.
    pins: Vec<Buffer>,
    /// Memory that is used only by drives.
    blocks: Vec<Payload>,
}

impl Pinned {
    pub fn new() -> Pinned {
        Pinned {
            pins: Vec::with_capacity(ROOM),
            blocks: Vec::with_capacity(ROOM),
        }
    }

    pub fn pin(&mut self, buffer: Buffer) {
        self.pins.push(buffer);
    }

    /// Takes the memory of a finished request; returns it if no drive may use it.
    #[inline]
    pub fn keep(&mut self, payload: Payload) -> Option<Payload> {
        if self.pins.is_empty() || !self.is_used(&payload) {
            return Some(payload);
        }
        self.blocks.push(payload);
        None
    }

    /// A drive no longer uses `buffer`; returns its memory if nothing uses that any more.
    pub fn release(&mut self, buffer: Buffer) -> Option<Payload> {
        let pin = self.pins.iter().position(|pin| *pin == buffer);
        debug_assert!(pin.is_some(), "{buffer:?} was not pinned");
        self.pins.swap_remove(pin?);
        let at = self.blocks.iter().position(|block| block.holds(buffer))?;
        (!self.is_used(&self.blocks[at])).then(|| self.blocks.swap_remove(at))
    }

    /// Whether a drive may use some of this memory.
    #[inline]
    pub fn is_used(&self, payload: &Payload) -> bool {
        self.pins.iter().any(|pin| payload.holds(*pin))
    }

    /// Bytes that are used only by drives.
    pub fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.block_bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(at: u64) -> Payload {
        Payload {
            buffer: Buffer(at),
            block_bytes: 4096,
        }
    }

    #[test]
    fn memory_is_kept_until_its_last_pin_is_released() {
        let mut pinned = Pinned::new();
        let is_free = |payload: Option<Payload>| payload.map(|payload| payload.buffer);
        assert_eq!(is_free(pinned.keep(block(0))), Some(Buffer(0)));
        for at in [4096, 4096, 8191] {
            pinned.pin(Buffer(at));
        }
        assert_eq!(is_free(pinned.keep(block(0))), Some(Buffer(0)));
        assert_eq!(is_free(pinned.keep(block(8192))), Some(Buffer(8192)));
        assert_eq!(is_free(pinned.keep(block(4096))), None);
        assert_eq!(pinned.bytes(), 4096);
        assert_eq!(is_free(pinned.release(Buffer(4096))), None);
        assert_eq!(is_free(pinned.release(Buffer(8191))), None);
        assert_eq!(is_free(pinned.release(Buffer(4096))), Some(Buffer(4096)));
        assert_eq!(pinned.bytes(), 0);
    }

    #[test]
    fn what_is_released_before_its_request_is_through_goes_the_usual_way() {
        let mut pinned = Pinned::new();
        pinned.pin(Buffer(100));
        assert!(pinned.release(Buffer(100)).is_none());
        assert!(pinned.keep(block(0)).is_some());
    }
}
