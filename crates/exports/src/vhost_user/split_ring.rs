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

use super::area::Area;
use super::guest::{Broken, Guest, Segment};
use super::wire::*;
use std::sync::atomic::{Ordering, fence};

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

/// Where the fields of both rings begin. The element of a place follows behind [`ELEMENTS`], and the other side's event
/// behind the last element.
const FLAGS: usize = 0;
const INDEX: usize = 2;
const ELEMENTS: usize = 4;
/// The length of an element of the available ring, and of the used ring.
const HEAD_BYTES: usize = 2;
const USED_BYTES: usize = 8;

/// The device's end of a queue.
#[derive(Debug)]
pub struct SplitRing {
    table: Area,
    available: Area,
    used: Area,
    size: u16,
    has_event_index: bool,
    /// The index of the next chain to take.
    next_available: u16,
    /// The driver's index when it was read last: chains before it are there. It is read again when they are taken,
    /// because reading it takes the line that it lies in from the driver's processor.
    seen_available: u16,
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
    /// [`Broken`] if an area is not aligned or does not lie in one region of the guest's memory, or the size is none.
    pub fn new(
        guest: &Guest,
        places: Places,
        size: u16,
        has_event_index: bool,
        next_available: u16,
    ) -> Result<SplitRing, Broken> {
        let count = u32::from(size);
        let find = |address, length_bytes, unit| {
            let segment = Segment {
                address,
                length_bytes,
            };
            Area::find(guest, segment, unit)
        };
        let mut ring = SplitRing {
            table: find(places.table, 16 * count, 16)?,
            available: find(places.available, 6 + 2 * count, 2)?,
            used: find(places.used, 6 + 8 * count, 4)?,
            size,
            has_event_index,
            next_available,
            seen_available: next_available,
            next_used: 0,
            published: 0,
            called: None,
        };
        ring.next_used = number(&ring.used, INDEX);
        ring.published = ring.next_used;
        Ok(ring)
    }

    /// The queue's size.
    #[must_use]
    pub fn size(&self) -> u16 {
        self.size
    }

    /// The descriptors.
    #[inline]
    #[must_use]
    pub fn table(&self) -> &Area {
        &self.table
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
        (self.next_available, self.seen_available) = (next_available, next_available);
    }

    /// Takes the head of the next available chain.
    ///
    /// # Errors
    /// [`Broken`] if the driver claims more than there can be.
    #[inline]
    pub fn take(&mut self) -> Result<Option<u16>, Broken> {
        if self.seen_available == self.next_available {
            let index = number(&self.available, INDEX);
            let count = index.wrapping_sub(self.next_available);
            if count > self.size {
                return Err(Broken::TooMany(count));
            }
            if count == 0 {
                return Ok(None);
            }
            self.seen_available = index;
        }
        let place = usize::from(self.next_available % self.size);
        let head = number(&self.available, ELEMENTS + HEAD_BYTES * place);
        if head >= self.size {
            return Err(Broken::Index(u32::from(head)));
        }
        self.next_available = self.next_available.wrapping_add(1);
        Ok(Some(head))
    }

    /// Asks the driver to tell of the next chain. True if there is one already.
    #[inline]
    pub fn await_more(&mut self) -> bool {
        if self.has_event_index {
            let event = ELEMENTS + USED_BYTES * usize::from(self.size);
            self.used.store(event, self.next_available.to_le());
        }
        // The driver writes its index before it looks at the event.
        fence(Ordering::SeqCst);
        number(&self.available, INDEX) != self.next_available
    }

    /// Writes that a chain was used. The driver sees it after [`SplitRing::publish`].
    #[inline]
    pub fn give_back(&mut self, head: u16, written: u32) {
        let place = usize::from(self.next_used % self.size);
        let element = ELEMENTS + USED_BYTES * place;
        self.used.store(element, u32::from(head).to_le());
        self.used.store(element + 4, written.to_le());
        self.next_used = self.next_used.wrapping_add(1);
    }

    /// Lets the driver see the chains that were given back.
    #[inline]
    pub fn publish(&mut self) {
        self.used.store(INDEX, self.next_used.to_le());
        self.published = self.next_used;
    }

    /// Whether the driver wants an interrupt for what was published since the last call.
    #[inline]
    pub fn wants_call(&mut self) -> bool {
        // The driver sets its event before it looks at the index.
        fence(Ordering::SeqCst);
        let before = self.called.replace(self.published);
        if !self.has_event_index {
            return number(&self.available, FLAGS) & AVAILABLE_NO_INTERRUPT == 0;
        }
        let event = ELEMENTS + HEAD_BYTES * usize::from(self.size);
        let event = number(&self.available, event);
        before.is_none_or(|before| {
            let since = self.published.wrapping_sub(before);
            self.published.wrapping_sub(event).wrapping_sub(1) < since
        })
    }
}

/// A number of a ring.
#[inline]
fn number(ring: &Area, offset: usize) -> u16 {
    u16::from_le(ring.load(offset))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost_user::guest::{read, write};
    use vm_memory::GuestAddress;

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
        assert_eq!(ring.take(), Ok(None));
        for (place, head) in [2, 0, 3, 1].into_iter().enumerate() {
            put(&guest, 0x2004 + 2 * place as u64, head);
        }
        put(&guest, 0x2002, 4);
        let taken: Vec<u16> = std::iter::from_fn(|| ring.take().unwrap()).collect();
        assert_eq!(taken, [2, 0, 3, 1]);
        put(&guest, 0x2004, 3);
        put(&guest, 0x2002, 5);
        assert!(ring.await_more());
        assert_eq!(ring.take(), Ok(Some(3)));
        assert!(!ring.await_more());
        put(&guest, 0x2002, 10);
        assert_eq!(ring.take(), Err(Broken::TooMany(5)));
        put(&guest, 0x2006, 4);
        put(&guest, 0x2002, 6);
        assert_eq!(ring.take(), Err(Broken::Index(4)));
    }

    #[test]
    fn the_driver_sees_nothing_before_it_is_published() {
        let guest = guest();
        let mut ring = ring(&guest, false);
        ring.give_back(3, 513);
        let mut index = [0; 2];
        read(&guest, 0x3002, &mut index).unwrap();
        assert_eq!(index, [0, 0]);
        ring.publish();
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
        assert!(plain.wants_call());
        put(&guest, 0x2000, AVAILABLE_NO_INTERRUPT);
        assert!(!plain.wants_call());
        let mut ring = ring(&guest, true);
        // The first time always: nobody knows what the driver has seen before.
        assert!(ring.wants_call());
        let mut answer = |event: u16| {
            put(&guest, 0x2000 + 4 + 2 * 4, event);
            ring.give_back(0, 1);
            ring.publish();
            ring.wants_call()
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
