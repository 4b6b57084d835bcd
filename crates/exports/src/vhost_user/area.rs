//! Parts of the guest's memory that are found once and used with every request: the rings of a queue, and the area of
//! requests in flight.
//!
//! To find an address among the regions of a guest's memory takes more instructions than the access itself. A ring never
//! moves while its queue is served, because whatever would change under a queue ends it first (`session`). So its place
//! is found when the queue begins.
//!
//! The guest may change its memory at any time: each load reads its bytes once, and what it returns is ours.

use super::guest::{Broken, Guest, Segment, is_memory};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vm_memory::{
    Address, AtomicAccess, GuestAddress, GuestMemoryBackend, GuestMemoryRegion, MmapRegion,
    VolatileMemory, VolatileSlice,
};

/// Bytes of one region. See the module's documentation.
#[derive(Debug)]
pub struct Area {
    map: Arc<MmapRegion<()>>,
    /// Where the area begins in the map.
    at: usize,
    length_bytes: usize,
}

impl Area {
    /// Finds an area that begins at a multiple of `unit` bytes.
    ///
    /// # Errors
    /// [`Broken`] if it does not lie in one region, or is not aligned there.
    pub fn find(guest: &Guest, segment: Segment, unit: u64) -> Result<Area, Broken> {
        let address = GuestAddress(segment.address);
        if !segment.address.is_multiple_of(unit) {
            return Err(Broken::Unaligned(segment.address));
        }
        if !is_memory(guest, segment) {
            return Err(Broken::NotMemory(segment.address));
        }
        let region = guest.find_region(address);
        let region = region.ok_or(Broken::NotMemory(segment.address))?;
        let at = address.unchecked_offset_from(region.start_addr()) as usize;
        let length_bytes = segment.length_bytes as usize;
        let map = region.get_mmap();
        if map.get_slice(at, length_bytes).is_err() {
            return Err(Broken::Scattered(segment.address));
        }
        // A map begins with a page, but a front end may give it any address in the guest.
        if !(at as u64).is_multiple_of(unit) {
            return Err(Broken::Unaligned(segment.address));
        }
        Ok(Area {
            map,
            at,
            length_bytes,
        })
    }

    /// All of it.
    #[inline]
    #[must_use]
    pub fn slice(&self) -> VolatileSlice<'_> {
        let slice = self.map.get_slice(self.at, self.length_bytes);
        slice.expect("an area lies in its map")
    }

    /// Reads what lies `offset` bytes behind the area's beginning. Later reads see what was written before this.
    ///
    /// # Panics
    /// If it is not in the area, or not aligned.
    #[inline]
    #[must_use]
    pub fn load<T: AtomicAccess>(&self, offset: usize) -> T {
        let place = self.place::<T>(offset);
        let atomic = self.map.get_atomic_ref::<T::A>(place);
        let atomic = atomic.expect("areas are aligned for what they contain");
        vm_memory::AtomicInteger::load(atomic, Ordering::Acquire).into()
    }

    /// Writes what lies `offset` bytes behind the area's beginning. Who sees it sees also what was written before.
    ///
    /// # Panics
    /// If it is not in the area, or not aligned.
    #[inline]
    pub fn store<T: AtomicAccess>(&self, offset: usize, value: T) {
        let place = self.place::<T>(offset);
        let atomic = self.map.get_atomic_ref::<T::A>(place);
        let atomic = atomic.expect("areas are aligned for what they contain");
        vm_memory::AtomicInteger::store(atomic, value.into(), Ordering::Release);
    }

    #[inline]
    fn place<T>(&self, offset: usize) -> usize {
        let end = offset + size_of::<T>();
        assert!(
            end <= self.length_bytes,
            "{offset} is not in an area of {} bytes",
            self.length_bytes
        );
        self.at + offset
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost_user::guest::{read, write};
    use vm_memory::GuestRegionMmap;

    const PAGE: usize = 4096;

    fn find(guest: &Guest, address: u64, length_bytes: u32, unit: u64) -> Result<Area, Broken> {
        let segment = Segment {
            address,
            length_bytes,
        };
        Area::find(guest, segment, unit)
    }

    #[test]
    fn what_is_stored_lies_in_the_guests_memory() {
        let guest = Guest::from_ranges(&[(GuestAddress(0x10000), PAGE)]).unwrap();
        let area = find(&guest, 0x10100, 16, 4).unwrap();
        area.store(12, 0x0403_0201u32);
        let mut bytes = [0; 4];
        read(&guest, 0x1010c, &mut bytes).unwrap();
        assert_eq!(bytes, 0x0403_0201u32.to_ne_bytes());
        write(&guest, 0x10102, &7u16.to_ne_bytes()).unwrap();
        assert_eq!(area.load::<u16>(2), 7);
        assert_eq!(area.slice().len(), 16);
        // Who holds the area holds its memory.
        drop(guest);
        assert_eq!(area.load::<u16>(2), 7);
    }

    #[test]
    fn an_area_lies_in_one_region_and_is_aligned_there() {
        let odd = GuestRegionMmap::new(MmapRegion::new(PAGE).unwrap(), GuestAddress(0x9001));
        let ranges = [(GuestAddress(0), PAGE), (GuestAddress(PAGE as u64), PAGE)];
        let guest = Guest::from_ranges(&ranges).unwrap();
        let guest = guest.insert_region(Arc::new(odd.unwrap())).unwrap();
        assert!(find(&guest, 4080, 16, 16).is_ok());
        let refused =
            |address, length_bytes, unit| find(&guest, address, length_bytes, unit).unwrap_err();
        assert_eq!(refused(8, 16, 16), Broken::Unaligned(8));
        assert_eq!(refused(4080, 17, 16), Broken::Scattered(4080));
        assert_eq!(refused(8176, 17, 16), Broken::NotMemory(8176));
        // Its guest's address is a multiple, and its place in our memory is not.
        assert_eq!(refused(0x9004, 16, 4), Broken::Unaligned(0x9004));
        assert!(find(&guest, 0x9005, 16, 1).is_ok());
    }

    #[test]
    #[should_panic(expected = "14 is not in an area of 16 bytes")]
    fn nothing_is_read_behind_an_area() {
        let guest = Guest::from_ranges(&[(GuestAddress(0), PAGE)]).unwrap();
        let area = find(&guest, 0, 16, 4).unwrap();
        let _: u32 = area.load(14);
    }
}
