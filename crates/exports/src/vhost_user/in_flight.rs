//! The area of requests in flight of a queue: memory which the front end keeps, and passes to the next server.
//!
//! It says which chains were taken and not given back, so a server that takes over carries out exactly these again
//! (vhost-user, "Inflight I/O tracking"). Chains may be given back in any order, so the volume need not promise
//! `VIRTIO_F_IN_ORDER`, which would let one slow request hold up all others.
//!
//! | bytes | content |
//! |---|---|
//! | 8 | features, 0 |
//! | 2 | version: 0 before its first use, then 1 |
//! | 2 | the queue's size |
//! | 2 | head of the last batch that was given back |
//! | 2 | used index at the end of the last batch whose marks below are right |
//! | 16 each | for each descriptor: whether a chain that begins there is in flight (1), unused (5), the chain of the same batch that was given back before (2), number in the order of taking (8) |
//!
//! A process may be killed between any two stores. They are made in the order that the specification gives, so that
//! [`InFlight::open`] always finds out what was given back: if the used index of the ring is ahead of the one here, the last
//! batch was published, and only its marks are still to be cleared.

use super::area::Area;
use super::guest::{Broken, Guest, Segment};
use super::split_ring::SplitRing;

const VERSION: u16 = 1;
/// Where the fields of the area begin.
const FEATURES: usize = 0;
const VERSION_AT: usize = 8;
const SIZE_AT: usize = 10;
const LAST_HEAD: usize = 12;
const USED_INDEX: usize = 14;
const HEAD_BYTES: usize = 16;
/// Where those of an entry begin.
const IS_TAKEN: usize = 0;
const BEFORE: usize = 6;
const COUNTER: usize = 8;
const ENTRY_BYTES: usize = 16;

/// The length of the area of a queue of this size. Areas of several queues follow each other.
#[must_use]
pub fn area_bytes(size: u16) -> u64 {
    ((HEAD_BYTES + ENTRY_BYTES * usize::from(size)) as u64).next_multiple_of(64)
}

/// The area of one queue.
#[derive(Debug)]
pub struct InFlight {
    area: Area,
    size: u16,
    counter: u64,
    /// The head that was given back last, as the area has it.
    last: u16,
    /// Given back since the last [`InFlight::published`].
    batch: Vec<u16>,
}

impl InFlight {
    /// Reads the area at `at` in the memory that the areas of all queues lie in, and makes it one if it is new. `used_index`
    /// is that of the ring. Returns also the heads of the chains that were taken and not given back, in the order in which
    /// they were taken.
    ///
    /// # Errors
    /// [`Broken`] if the area is too short, or for other queues.
    pub fn open(
        memory: &Guest,
        at: u64,
        size: u16,
        used_index: u16,
    ) -> Result<(InFlight, Vec<u16>), Broken> {
        let segment = Segment {
            address: at,
            length_bytes: area_bytes(size) as u32,
        };
        let mut in_flight = InFlight {
            area: Area::find(memory, segment, 8)?,
            size,
            counter: 0,
            last: 0,
            batch: Vec::with_capacity(usize::from(size)),
        };
        let heads = match in_flight.area.load::<u16>(VERSION_AT) {
            0 => {
                in_flight.begin(used_index);
                Vec::new()
            }
            VERSION => in_flight.recover(used_index)?,
            _ => return Err(Broken::InFlightArea(in_flight.area.load(SIZE_AT))),
        };
        in_flight.last = in_flight.area.load(LAST_HEAD);
        Ok((in_flight, heads))
    }

    /// As [`InFlight::open`], for a ring from which an earlier server may have taken chains: the ring goes on behind these,
    /// whatever it was told of the next one.
    ///
    /// # Errors
    /// As [`InFlight::open`], or [`Broken::Index`] if one of the chains begins behind the ring's descriptors.
    pub fn take_over(
        memory: &Guest,
        at: u64,
        size: u16,
        ring: &mut SplitRing,
    ) -> Result<(InFlight, Vec<u16>), Broken> {
        let used_index = ring.next_used();
        let (area, heads) = InFlight::open(memory, at, size, used_index)?;
        if let Some(head) = heads.iter().find(|head| **head >= ring.size()) {
            return Err(Broken::Index(u32::from(*head)));
        }
        ring.skip_to(used_index.wrapping_add(heads.len() as u16));
        Ok((area, heads))
    }

    fn entry(head: u16) -> usize {
        HEAD_BYTES + ENTRY_BYTES * usize::from(head)
    }

    fn begin(&self, used_index: u16) {
        self.area.store(FEATURES, 0u64);
        self.area.store(SIZE_AT, self.size);
        self.area.store(LAST_HEAD, 0u16);
        self.area.store(USED_INDEX, used_index);
        for head in 0..self.size {
            self.area.store(Self::entry(head) + IS_TAKEN, 0u8);
        }
        self.area.store(VERSION_AT, VERSION);
    }

    /// The heads that are in flight, after the marks of the last batch are cleared if it was published.
    fn recover(&mut self, used_index: u16) -> Result<Vec<u16>, Broken> {
        let size = self.area.load::<u16>(SIZE_AT);
        if size != self.size {
            return Err(Broken::InFlightArea(size));
        }
        let batch = used_index.wrapping_sub(self.area.load(USED_INDEX));
        if batch > self.size {
            return Err(Broken::TooMany(batch));
        }
        let mut head = self.area.load::<u16>(LAST_HEAD);
        for _ in 0..batch {
            if head >= self.size {
                return Err(Broken::Index(u32::from(head)));
            }
            self.area.store(Self::entry(head) + IS_TAKEN, 0u8);
            head = self.area.load(Self::entry(head) + BEFORE);
        }
        self.area.store(USED_INDEX, used_index);
        let mut heads = Vec::new();
        for head in 0..self.size {
            if self.area.load::<u8>(Self::entry(head) + IS_TAKEN) == 1 {
                let counter = self.area.load::<u64>(Self::entry(head) + COUNTER);
                heads.push((counter, head));
            }
        }
        heads.sort_unstable();
        self.counter = heads
            .last()
            .map_or(0, |(counter, _)| counter.wrapping_add(1));
        Ok(heads.into_iter().map(|(_, head)| head).collect())
    }

    /// A chain was taken from the ring.
    #[inline]
    pub fn taken(&mut self, head: u16) {
        self.area.store(Self::entry(head) + COUNTER, self.counter);
        self.counter = self.counter.wrapping_add(1);
        self.area.store(Self::entry(head) + IS_TAKEN, 1u8);
    }

    /// A chain is about to be given back.
    #[inline]
    pub fn given_back(&mut self, head: u16) {
        self.area.store(Self::entry(head) + BEFORE, self.last);
        self.area.store(LAST_HEAD, head);
        self.last = head;
        self.batch.push(head);
    }

    /// The driver can see what was given back.
    #[inline]
    pub fn published(&mut self, used_index: u16) {
        for head in self.batch.drain(..) {
            self.area.store(Self::entry(head) + IS_TAKEN, 0u8);
        }
        self.area.store(USED_INDEX, used_index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use vm_memory::GuestAddress;

    const SIZE: u16 = 8;
    const AT: u64 = 64;

    fn memory() -> Guest {
        Guest::from_ranges(&[(GuestAddress(0), 4096)]).unwrap()
    }

    fn open(memory: &Guest, used_index: u16) -> (InFlight, Vec<u16>) {
        InFlight::open(memory, AT, SIZE, used_index).unwrap()
    }

    #[test]
    fn what_was_taken_and_not_given_back_is_found_in_its_order() {
        let memory = memory();
        let (mut area, heads) = open(&memory, 7);
        assert!(heads.is_empty());
        for head in [5, 2, 7, 0] {
            area.taken(head);
        }
        area.given_back(2);
        area.published(8);
        let (mut area, heads) = open(&memory, 8);
        assert_eq!(heads, [5, 7, 0]);
        // The order goes on behind what was there.
        area.taken(1);
        assert_eq!(open(&memory, 8).1, [5, 7, 0, 1]);
    }

    /// Killed at each point of giving two chains back: both are in flight until the ring's index says otherwise.
    #[test]
    fn a_batch_counts_as_given_back_when_it_was_published() {
        for killed_after in 0..4 {
            let memory = memory();
            let (mut area, _) = open(&memory, 100);
            for head in [3, 4, 5, 6] {
                area.taken(head);
            }
            area.given_back(6);
            area.published(101);
            let steps: [&dyn Fn(&mut InFlight); 3] = [
                &|area| area.given_back(4),
                &|area| area.given_back(3),
                // The ring's index is stored between these steps, see below.
                &|area| area.area.store(InFlight::entry(4), 0u8),
            ];
            for step in &steps[..killed_after] {
                step(&mut area);
            }
            // Killed before the ring's index, everything is in flight; after it, the batch is not.
            if killed_after < 3 {
                assert_eq!(open(&memory, 101).1, [3, 4, 5]);
            }
            if killed_after >= 2 {
                assert_eq!(open(&memory, 103).1, [5]);
            }
        }
    }

    #[test]
    fn a_foreign_or_damaged_area_is_refused() {
        let memory = memory();
        let (area, _) = open(&memory, 0);
        let other = InFlight::open(&memory, AT, 4, 0).unwrap_err();
        assert_eq!(other, Broken::InFlightArea(8));
        let far = InFlight::open(&memory, 4096 - 64, SIZE, 0).unwrap_err();
        assert_eq!(far, Broken::NotMemory(4096 - 64));
        let ahead = InFlight::open(&memory, AT, SIZE, 9).unwrap_err();
        assert_eq!(ahead, Broken::TooMany(9));
        area.area.store(LAST_HEAD, 8u16);
        let outside = InFlight::open(&memory, AT, SIZE, 1).unwrap_err();
        assert_eq!(outside, Broken::Index(8));
        area.area.store(VERSION_AT, 2u16);
        let version = InFlight::open(&memory, AT, SIZE, 0).unwrap_err();
        assert_eq!(version, Broken::InFlightArea(8));
    }
}
