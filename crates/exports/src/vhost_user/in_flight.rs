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

use super::guest::{Broken, Guest, Segment, is_memory};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vm_memory::{AtomicAccess, Bytes, GuestAddress};

const VERSION: u16 = 1;
const HEAD_BYTES: u64 = 16;
const ENTRY_BYTES: u64 = 16;

/// The length of the area of a queue of this size. Areas of several queues follow each other.
#[must_use]
pub fn area_bytes(size: u16) -> u64 {
    (HEAD_BYTES + ENTRY_BYTES * u64::from(size)).next_multiple_of(64)
}

/// The area of one queue.
#[derive(Debug)]
pub struct InFlight {
    /// The memory that the areas of all queues lie in.
    memory: Arc<Guest>,
    at: u64,
    size: u16,
    counter: u64,
    /// Given back since the last [`InFlight::published`].
    batch: Vec<u16>,
}

impl InFlight {
    /// Reads the area at `at`, and makes it one if it is new. `used_index` is that of the ring. Returns also the heads of
    /// the chains that were taken and not given back, in the order in which they were taken.
    ///
    /// # Errors
    /// [`Broken`] if the area is too short, or for other queues.
    pub fn open(
        memory: Arc<Guest>,
        at: u64,
        size: u16,
        used_index: u16,
    ) -> Result<(InFlight, Vec<u16>), Broken> {
        let area = Segment {
            address: at,
            length_bytes: area_bytes(size) as u32,
        };
        if !at.is_multiple_of(8) || !is_memory(&memory, area) {
            return Err(Broken::NotMemory(at));
        }
        let mut in_flight = InFlight {
            memory,
            at,
            size,
            counter: 0,
            batch: Vec::with_capacity(usize::from(size)),
        };
        match in_flight.load::<u16>(8)? {
            0 => {
                in_flight.begin(used_index)?;
                Ok((in_flight, Vec::new()))
            }
            VERSION => {
                let heads = in_flight.recover(used_index)?;
                Ok((in_flight, heads))
            }
            _ => Err(Broken::InFlightArea(in_flight.load(10)?)),
        }
    }

    fn load<T: AtomicAccess>(&self, offset: u64) -> Result<T, Broken> {
        let address = GuestAddress(self.at + offset);
        let loaded = self.memory.load(address, Ordering::Acquire);
        loaded.map_err(|_| Broken::NotMemory(address.0))
    }

    fn store<T: AtomicAccess>(&self, offset: u64, value: T) -> Result<(), Broken> {
        let address = GuestAddress(self.at + offset);
        let stored = self.memory.store(value, address, Ordering::Release);
        stored.map_err(|_| Broken::NotMemory(address.0))
    }

    fn entry(head: u16) -> u64 {
        HEAD_BYTES + ENTRY_BYTES * u64::from(head)
    }

    fn begin(&self, used_index: u16) -> Result<(), Broken> {
        self.store(0, 0u64)?;
        self.store(10, self.size)?;
        self.store(12, 0u16)?;
        self.store(14, used_index)?;
        (0..self.size).try_for_each(|head| self.store(Self::entry(head), 0u8))?;
        self.store(8, VERSION)
    }

    /// The heads that are in flight, after the marks of the last batch are cleared if it was published.
    fn recover(&mut self, used_index: u16) -> Result<Vec<u16>, Broken> {
        let size = self.load::<u16>(10)?;
        if size != self.size {
            return Err(Broken::InFlightArea(size));
        }
        let batch = used_index.wrapping_sub(self.load(14)?);
        if batch > self.size {
            return Err(Broken::TooMany(batch));
        }
        let mut head = self.load::<u16>(12)?;
        for _ in 0..batch {
            if head >= self.size {
                return Err(Broken::Index(u32::from(head)));
            }
            self.store(Self::entry(head), 0u8)?;
            head = self.load(Self::entry(head) + 6)?;
        }
        self.store(14, used_index)?;
        let mut heads = Vec::new();
        for head in 0..self.size {
            if self.load::<u8>(Self::entry(head))? == 1 {
                let counter = self.load::<u64>(Self::entry(head) + 8)?;
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
    ///
    /// # Errors
    /// [`Broken::NotMemory`].
    #[inline]
    pub fn taken(&mut self, head: u16) -> Result<(), Broken> {
        self.store(Self::entry(head) + 8, self.counter)?;
        self.counter = self.counter.wrapping_add(1);
        self.store(Self::entry(head), 1u8)
    }

    /// A chain is about to be given back.
    ///
    /// # Errors
    /// [`Broken::NotMemory`].
    #[inline]
    pub fn given_back(&mut self, head: u16) -> Result<(), Broken> {
        let before = self.load::<u16>(12)?;
        self.store(Self::entry(head) + 6, before)?;
        self.store(12, head)?;
        self.batch.push(head);
        Ok(())
    }

    /// The driver can see what was given back.
    ///
    /// # Errors
    /// [`Broken::NotMemory`].
    #[inline]
    pub fn published(&mut self, used_index: u16) -> Result<(), Broken> {
        let mut batch = std::mem::take(&mut self.batch);
        for head in batch.drain(..) {
            self.store(Self::entry(head), 0u8)?;
        }
        // The empty list is put back to keep its capacity.
        self.batch = batch;
        self.store(14, used_index)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u16 = 8;
    const AT: u64 = 64;

    fn memory() -> Arc<Guest> {
        Arc::new(Guest::from_ranges(&[(GuestAddress(0), 4096)]).unwrap())
    }

    fn open(memory: &Arc<Guest>, used_index: u16) -> (InFlight, Vec<u16>) {
        InFlight::open(memory.clone(), AT, SIZE, used_index).unwrap()
    }

    #[test]
    fn what_was_taken_and_not_given_back_is_found_in_its_order() {
        let memory = memory();
        let (mut area, heads) = open(&memory, 7);
        assert!(heads.is_empty());
        for head in [5, 2, 7, 0] {
            area.taken(head).unwrap();
        }
        area.given_back(2).unwrap();
        area.published(8).unwrap();
        let (mut area, heads) = open(&memory, 8);
        assert_eq!(heads, [5, 7, 0]);
        // The order goes on behind what was there.
        area.taken(1).unwrap();
        assert_eq!(open(&memory, 8).1, [5, 7, 0, 1]);
    }

    /// Killed at each point of giving two chains back: both are in flight until the ring's index says otherwise.
    #[test]
    fn a_batch_counts_as_given_back_when_it_was_published() {
        for killed_after in 0..4 {
            let memory = memory();
            let (mut area, _) = open(&memory, 100);
            for head in [3, 4, 5, 6] {
                area.taken(head).unwrap();
            }
            area.given_back(6).unwrap();
            area.published(101).unwrap();
            let steps: [&dyn Fn(&mut InFlight); 3] = [
                &|area| area.given_back(4).unwrap(),
                &|area| area.given_back(3).unwrap(),
                // The ring's index is stored between these steps, see below.
                &|area| area.store(InFlight::entry(4), 0u8).unwrap(),
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
        let other = InFlight::open(memory.clone(), AT, 4, 0).unwrap_err();
        assert_eq!(other, Broken::InFlightArea(8));
        let far = InFlight::open(memory.clone(), 4096 - 64, SIZE, 0).unwrap_err();
        assert_eq!(far, Broken::NotMemory(4096 - 64));
        let ahead = InFlight::open(memory.clone(), AT, SIZE, 9).unwrap_err();
        assert_eq!(ahead, Broken::TooMany(9));
        area.store(12, 8u16).unwrap();
        let outside = InFlight::open(memory.clone(), AT, SIZE, 1).unwrap_err();
        assert_eq!(outside, Broken::Index(8));
        area.store(8, 2u16).unwrap();
        let version = InFlight::open(memory, AT, SIZE, 0).unwrap_err();
        assert_eq!(version, Broken::InFlightArea(8));
    }
}
