//! A split virtqueue (virtio 1.2, section 2.7): three areas in the guest's memory, all little-endian.
//!
//! | area | content |
//! |---|---|
//! | table | 16 bytes for each descriptor (see `chain`) |
//! | available, written by the driver | flags (2), index (2), heads of chains (2 each), used event (2) |
//! | used, written by the device | flags (2), index (2), head (4) and bytes written (4) for each chain, available event (2) |
//!
//! Indices count for ever and wrap at 65536; an index modulo the queue's size is a place. The *events* replace the flags
//! where "event index" was negotiated: each side says at which index of the other it wants to be told.

use super::guest::{Broken, Guest, Segment, is_memory, write};
use super::wire::*;
use std::sync::atomic::{Ordering, fence};
use vm_memory::{Bytes, GuestAddress};

/// Where the areas of a queue lie, in the guest's addresses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Places {
    /// Descriptors.
    pub table: u64,
    /// Chains that the driver makes available.
    pub available: u64,
    /// Chains that the device has used.
    pub used: u64,
}

/// The device's end of a queue.
#[derive(Debug)]
pub struct SplitRing {
    places: Places,
    size: u16,
    has_event_index: bool,
    /// The index of the next chain to take.
    next_available: u16,
    /// The index of the next chain to give back.
    next_used: u16,
    /// The index that the driver knows of.
    published: u16,
    /// The index at the last look at whether the driver wants an interrupt; `None` before the first.
    called: Option<u16>,
}

impl SplitRing {
    /// The device's end of a queue whose next available chain has the index `next_available`. The index of the next used
    /// chain is read from the ring.
    ///
    /// # Errors
    /// [`Broken`] if the areas are not aligned or not memory of the guest, or the size is none.
    pub fn new(
        guest: &Guest,
        places: Places,
        size: u16,
        has_event_index: bool,
        next_available: u16,
    ) -> Result<SplitRing, Broken> {
        let count = u32::from(size);
        for (address, length_bytes, unit) in [
            (places.table, 16 * count, 16),
            (places.available, 6 + 2 * count, 2),
            (places.used, 6 + 8 * count, 4),
        ] {
            if !address.is_multiple_of(unit) {
                return Err(Broken::Unaligned(address));
            }
            let area = Segment {
                address,
                length_bytes,
            };
            if !is_memory(guest, area) {
                return Err(Broken::NotMemory(address));
            }
        }
        let mut ring = SplitRing {
            places,
            size,
            has_event_index,
            next_available,
            next_used: 0,
            published: 0,
            called: None,
        };
        ring.next_used = ring.load(guest, places.used + 2)?;
        ring.published = ring.next_used;
        Ok(ring)
    }

    fn load(&self, guest: &Guest, address: u64) -> Result<u16, Broken> {
        let loaded = guest.load::<u16>(GuestAddress(address), Ordering::Acquire);
        loaded
            .map(u16::from_le)
            .map_err(|_| Broken::NotMemory(address))
    }

    fn store(&self, guest: &Guest, address: u64, value: u16) -> Result<(), Broken> {
        let stored = guest.store(value.to_le(), GuestAddress(address), Ordering::Release);
        stored.map_err(|_| Broken::NotMemory(address))
    }

    /// The queue's size.
    #[must_use]
    pub fn size(&self) -> u16 {
        self.size
    }

    /// Where the descriptors lie.
    #[must_use]
    pub fn table(&self) -> u64 {
        self.places.table
    }

    /// The index of the next chain to take.
    #[must_use]
    pub fn next_available(&self) -> u16 {
        self.next_available
    }

    /// The index behind the last chain that was given back.
    #[must_use]
    pub fn next_used(&self) -> u16 {
        self.next_used
    }

    /// The chains before this index are taken.
    pub fn skip_to(&mut self, next_available: u16) {
        self.next_available = next_available;
    }

    /// Takes the head of the next available chain.
    ///
    /// # Errors
    /// [`Broken`] if the driver claims more than there can be.
    #[inline]
    pub fn take(&mut self, guest: &Guest) -> Result<Option<u16>, Broken> {
        let index = self.load(guest, self.places.available + 2)?;
        let count = index.wrapping_sub(self.next_available);
        if count > self.size {
            return Err(Broken::TooMany(count));
        }
        if count == 0 {
            return Ok(None);
        }
        let place = u64::from(self.next_available % self.size);
        let head = self.load(guest, self.places.available + 4 + 2 * place)?;
        if head >= self.size {
            return Err(Broken::Index(u32::from(head)));
        }
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(head))
    }

    /// Asks the driver to tell of the next chain. True if there is one already.
    ///
    /// # Errors
    /// [`Broken::NotMemory`].
    #[inline]
    pub fn await_more(&mut self, guest: &Guest) -> Result<bool, Broken> {
        if self.has_event_index {
            let event = self.places.used + 4 + 8 * u64::from(self.size);
            self.store(guest, event, self.next_available)?;
        }
        // The driver writes its index before it looks at the event.
        fence(Ordering::SeqCst);
        let index = self.load(guest, self.places.available + 2)?;
        Ok(index != self.next_available)
    }

    /// Writes that a chain was used. The driver sees it after [`SplitRing::publish`].
    ///
    /// # Errors
    /// [`Broken::NotMemory`].
    #[inline]
    pub fn give_back(&mut self, guest: &Guest, head: u16, written: u32) -> Result<(), Broken> {
        let mut element = [0; 8];
        element[..2].copy_from_slice(&head.to_le_bytes());
        element[4..].copy_from_slice(&written.to_le_bytes());
        let place = u64::from(self.next_used % self.size);
        write(guest, self.places.used + 4 + 8 * place, &element)?;
        self.next_used = self.next_used.wrapping_add(1);
        Ok(())
    }

    /// Lets the driver see the chains that were given back.
    ///
    /// # Errors
    /// [`Broken::NotMemory`].
    #[inline]
    pub fn publish(&mut self, guest: &Guest) -> Result<(), Broken> {
        self.store(guest, self.places.used + 2, self.next_used)?;
        self.published = self.next_used;
        Ok(())
    }

    /// Whether the driver wants an interrupt for what was published since the last call.
    ///
    /// # Errors
    /// [`Broken::NotMemory`].
    #[inline]
    pub fn wants_call(&mut self, guest: &Guest) -> Result<bool, Broken> {
        // The driver sets its event before it looks at the index.
        fence(Ordering::SeqCst);
        let before = self.called.replace(self.published);
        if !self.has_event_index {
            let flags = self.load(guest, self.places.available)?;
            return Ok(flags & AVAILABLE_NO_INTERRUPT == 0);
        }
        let event = self.places.available + 4 + 2 * u64::from(self.size);
        let event = self.load(guest, event)?;
        Ok(before.is_none_or(|before| {
            let since = self.published.wrapping_sub(before);
            self.published.wrapping_sub(event).wrapping_sub(1) < since
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost_user::guest::read;

    const PLACES: Places = Places {
        table: 0x1000,
        available: 0x2000,
        used: 0x3000,
    };
    const SIZE: u16 = 4;

    fn guest() -> Guest {
        Guest::from_ranges(&[(GuestAddress(0), 1 << 16)]).unwrap()
    }

    fn ring(guest: &Guest, has_event_index: bool) -> SplitRing {
        SplitRing::new(guest, PLACES, SIZE, has_event_index, 0).unwrap()
    }

    fn put(guest: &Guest, address: u64, value: u16) {
        write(guest, address, &value.to_le_bytes()).unwrap();
    }

    #[test]
    fn chains_are_taken_in_order_and_around_the_end() {
        let guest = guest();
        let mut ring = ring(&guest, false);
        assert_eq!(ring.take(&guest), Ok(None));
        for (place, head) in [2, 0, 3, 1].into_iter().enumerate() {
            put(&guest, 0x2004 + 2 * place as u64, head);
        }
        put(&guest, 0x2002, 4);
        let taken: Vec<u16> = std::iter::from_fn(|| ring.take(&guest).unwrap()).collect();
        assert_eq!(taken, [2, 0, 3, 1]);
        put(&guest, 0x2004, 3);
        put(&guest, 0x2002, 5);
        assert_eq!(ring.await_more(&guest), Ok(true));
        assert_eq!(ring.take(&guest), Ok(Some(3)));
        assert_eq!(ring.await_more(&guest), Ok(false));
        put(&guest, 0x2002, 10);
        assert_eq!(ring.take(&guest), Err(Broken::TooMany(5)));
        put(&guest, 0x2006, 4);
        put(&guest, 0x2002, 6);
        assert_eq!(ring.take(&guest), Err(Broken::Index(4)));
    }

    #[test]
    fn the_driver_sees_nothing_before_it_is_published() {
        let guest = guest();
        let mut ring = ring(&guest, false);
        ring.give_back(&guest, 3, 513).unwrap();
        let mut index = [0; 2];
        read(&guest, 0x3002, &mut index).unwrap();
        assert_eq!(index, [0, 0]);
        ring.publish(&guest).unwrap();
        read(&guest, 0x3002, &mut index).unwrap();
        assert_eq!(index, [1, 0]);
        let mut element = [0; 8];
        read(&guest, 0x3004, &mut element).unwrap();
        assert_eq!(element, [3, 0, 0, 0, 1, 2, 0, 0]);
        // The next device goes on there.
        let next = SplitRing::new(&guest, PLACES, SIZE, false, 1).unwrap();
        assert_eq!((next.next_used(), next.next_available()), (1, 1));
    }

    #[test]
    fn an_interrupt_is_sent_where_the_driver_wants_one() {
        let guest = guest();
        let mut plain = ring(&guest, false);
        assert_eq!(plain.wants_call(&guest), Ok(true));
        put(&guest, 0x2000, AVAILABLE_NO_INTERRUPT);
        assert_eq!(plain.wants_call(&guest), Ok(false));
        let mut ring = ring(&guest, true);
        // The first time always: nobody knows what the driver has seen before.
        assert_eq!(ring.wants_call(&guest), Ok(true));
        let mut answer = |event: u16| {
            put(&guest, 0x2000 + 4 + 2 * 4, event);
            ring.give_back(&guest, 0, 1).unwrap();
            ring.publish(&guest).unwrap();
            ring.wants_call(&guest).unwrap()
        };
        assert_eq!(
            [answer(0), answer(0), answer(2), answer(9)],
            [true, false, true, false]
        );
    }

    #[test]
    fn areas_have_to_be_aligned_memory() {
        let guest = guest();
        let refused = |table, available, used| {
            let places = Places {
                table,
                available,
                used,
            };
            SplitRing::new(&guest, places, SIZE, false, 0).unwrap_err()
        };
        assert_eq!(refused(8, 0, 0), Broken::Unaligned(8));
        assert_eq!(refused(16, 1, 0), Broken::Unaligned(1));
        assert_eq!(refused(16, 2, 2), Broken::Unaligned(2));
        assert_eq!(refused(0xffd0, 2, 4), Broken::NotMemory(0xffd0));
        assert_eq!(refused(0, 2, 0xffe0), Broken::NotMemory(0xffe0));
    }
}
