//! Read-ahead: the drive follows one sequential stream.
//!
//! When reads continue where the last one ended, the stripes behind them are read in advance, and their flash time no
//! longer shows. A second stream makes the drive lose the first: with two or more streams, every read waits for flash
//! again. This is the dip of sequential reads between queue depths 1 and 2.

/// Number of stripes read ahead that are remembered.
const SLOTS: usize = 64;
/// Sequential commands after which the drive recognises a stream.
const CONVINCED: u32 = 2;
/// Marks a slot without a stripe.
const NONE: u64 = u64::MAX;

/// The state of the read-ahead.
#[derive(Clone, Debug)]
pub struct ReadAhead {
    depth_bytes: u64,
    expected_offset_bytes: u64,
    in_order: u32,
    read_to_bytes: u64,
    slots: [(u64, u64); SLOTS],
}

impl ReadAhead {
    /// Reads up to `depth_bytes` ahead, at most what the remembered stripes hold; 0 switches it off.
    #[must_use]
    pub fn new(depth_bytes: u64, stripe_bytes: u64) -> ReadAhead {
        ReadAhead {
            depth_bytes: depth_bytes.min((SLOTS as u64 - 1) * stripe_bytes),
            expected_offset_bytes: NONE,
            in_order: 0,
            read_to_bytes: 0,
            slots: [(NONE, 0); SLOTS],
        }
    }

    /// Records a read, and returns the range to be read ahead because of it; empty if there is none.
    pub fn follow(&mut self, offset_bytes: u64, length_bytes: u64) -> core::ops::Range<u64> {
        let end_bytes = offset_bytes + length_bytes;
        if self.depth_bytes == 0 {
            return 0..0;
        }
        if offset_bytes == self.expected_offset_bytes {
            self.in_order = self.in_order.saturating_add(1);
        } else {
            // Another stream, or random reads: what was read ahead is lost.
            if self.in_order >= CONVINCED {
                self.slots = [(NONE, 0); SLOTS];
            }
            self.in_order = 0;
        }
        self.expected_offset_bytes = end_bytes;
        if self.in_order < CONVINCED {
            self.read_to_bytes = end_bytes;
            return 0..0;
        }
        let from = self.read_to_bytes.max(end_bytes);
        let to = end_bytes + self.depth_bytes;
        self.read_to_bytes = to.max(from);
        from..self.read_to_bytes
    }

    /// Remembers when a stripe will have been read.
    pub fn remember(&mut self, stripe: u64, ready_ns: u64) {
        self.slots[stripe as usize % SLOTS] = (stripe, ready_ns);
    }

    /// When a stripe that was read ahead is available; `None` if it was not read ahead.
    #[must_use]
    pub fn ready_ns(&self, stripe: u64) -> Option<u64> {
        let (held, ready_ns) = self.slots[stripe as usize % SLOTS];
        (held == stripe).then_some(ready_ns)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_stream_is_read_ahead_and_a_second_one_ends_it() {
        let mut ahead = ReadAhead::new(256, 128);
        assert!(ahead.follow(0, 128).is_empty());
        assert!(ahead.follow(128, 128).is_empty());
        // The third command in order starts reading ahead.
        assert_eq!(ahead.follow(256, 128), 384..640);
        ahead.remember(3, 77);
        // From then on, each command moves the end on by its own length.
        assert_eq!(ahead.follow(384, 128), 640..768);
        assert_eq!(ahead.ready_ns(3), Some(77));
        assert_eq!(ahead.ready_ns(4), None);
        assert!(ahead.follow(10_000, 128).is_empty());
        assert_eq!(ahead.ready_ns(3), None);
        assert!(ahead.follow(512, 128).is_empty());
        assert!(ahead.follow(10_128, 128).is_empty());
        assert!(ahead.follow(640, 128).is_empty());
    }

    #[test]
    fn depth_zero_switches_it_off() {
        let mut ahead = ReadAhead::new(0, 128);
        for at in 0..10 {
            assert!(ahead.follow(at * 128, 128).is_empty());
        }
    }
}
