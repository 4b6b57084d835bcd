//! A chain of descriptors, read once: which parts of the guest's memory the device reads and writes.
//!
//! The driver may divide a request among descriptors as it likes (virtio 1.2, section 2.7.4), so only the order counts:
//! the head are the first bytes that the device reads, the status is the last byte that it writes.

use super::area::Area;
use super::guest::{Broken, Guest, Segment, in_one_region, is_memory, read};
use super::wire::*;
use vm_memory::{VolatileMemory, VolatileSlice};

/// Segments of data that a request may have. Linux uses no more than fit into a queue of 128, with head and status.
pub const SEGMENTS_MAX: u32 = 126;
/// Parts of a chain that are kept: data, head and status.
const PARTS_MAX: usize = SEGMENTS_MAX as usize + 2;
/// The most descriptors of a queue, or of an indirect table.
pub const DESCRIPTORS_MAX: u16 = 1024;

/// The parts of a chain.
#[derive(Debug, Default)]
pub struct Chain {
    /// What the device reads.
    pub readable: Vec<Segment>,
    /// What the device may write, without the status.
    pub writable: Vec<Segment>,
    /// The length of all that is readable.
    pub readable_bytes: u64,
    /// The length of all that is writable, without the status.
    pub writable_bytes: u64,
    /// Where the status is to be written.
    pub status: u64,
    /// Whether there are more parts than are kept. Such a request is refused.
    pub is_too_long: bool,
}

/// Where the descriptors of a chain lie.
#[derive(Clone, Copy)]
struct Table<'a> {
    address: u64,
    count: u16,
    /// All of them, if they lie in one region.
    slice: Option<VolatileSlice<'a>>,
}

#[derive(Clone, Copy)]
struct Descriptor {
    segment: Segment,
    flags: u16,
    next: u16,
}

impl Table<'_> {
    /// Reads a descriptor, once.
    #[inline]
    fn descriptor(&self, guest: &Guest, index: u16) -> Result<Descriptor, Broken> {
        if index >= self.count {
            return Err(Broken::Index(u32::from(index)));
        }
        let offset = usize::from(index) * DESCRIPTOR_BYTES as usize;
        let word = |slice: &VolatileSlice<'_>, at: usize| {
            let word = slice.get_ref::<u64>(offset + at);
            u64::from_le(word.expect("a table has all its descriptors").load())
        };
        let (address, rest) = match &self.slice {
            Some(slice) => (word(slice, 0), word(slice, 8)),
            None => self.scattered(guest, offset as u64)?,
        };
        Ok(Descriptor {
            segment: Segment {
                address,
                length_bytes: rest as u32,
            },
            flags: (rest >> 32) as u16,
            next: (rest >> 48) as u16,
        })
    }

    /// Reads both words of a descriptor of a table that does not lie in one region.
    #[cold]
    fn scattered(&self, guest: &Guest, offset: u64) -> Result<(u64, u64), Broken> {
        let address = self.address.checked_add(offset);
        let address = address.ok_or(Broken::NotMemory(self.address))?;
        let mut bytes = [0; DESCRIPTOR_BYTES as usize];
        read(guest, address, &mut bytes)?;
        let all = u128::from_le_bytes(bytes);
        Ok((all as u64, (all >> 64) as u64))
    }
}

impl Chain {
    /// An empty chain, with room for the longest that is served.
    #[must_use]
    pub fn new() -> Chain {
        Chain {
            readable: Vec::with_capacity(PARTS_MAX),
            writable: Vec::with_capacity(PARTS_MAX),
            ..Chain::default()
        }
    }

    /// Reads the chain that begins with descriptor `head` of the queue's table, which has `count`.
    ///
    /// # Errors
    /// [`Broken`] if it makes no sense, so that it cannot even be refused.
    pub fn walk(
        &mut self,
        guest: &Guest,
        table: &Area,
        count: u16,
        head: u16,
    ) -> Result<(), Broken> {
        self.clear();
        let mut table = Table {
            address: 0,
            count,
            slice: Some(table.slice()),
        };
        let (mut index, mut left, mut is_indirect) = (head, count, false);
        let (mut last_writable, mut sums) = (None, [0, 0]);
        loop {
            let descriptor = table.descriptor(guest, index)?;
            left = left.checked_sub(1).ok_or(Broken::Endless)?;
            let has_next = descriptor.flags & DESCRIPTOR_NEXT != 0;
            if descriptor.flags & DESCRIPTOR_INDIRECT != 0 {
                if is_indirect || has_next {
                    return Err(Broken::Indirect);
                }
                table = indirect(guest, descriptor.segment)?;
                (index, left, is_indirect) = (0, table.count, true);
                continue;
            }
            self.add(guest, descriptor, &mut last_writable, &mut sums)?;
            if !has_next {
                break;
            }
            index = descriptor.next;
        }
        [self.readable_bytes, self.writable_bytes] = sums;
        self.finish(last_writable)
    }

    fn clear(&mut self) {
        self.readable.clear();
        self.writable.clear();
        self.is_too_long = false;
    }

    /// Keeps a part, and adds its length to that of all that is readable or writable.
    #[inline]
    fn add(
        &mut self,
        guest: &Guest,
        descriptor: Descriptor,
        last_writable: &mut Option<Segment>,
        [readable_bytes, writable_bytes]: &mut [u64; 2],
    ) -> Result<(), Broken> {
        let segment = descriptor.segment;
        if segment.length_bytes == 0 {
            return Ok(());
        }
        if !is_memory(guest, segment) {
            return Err(Broken::NotMemory(segment.address));
        }
        let is_full = self.readable.len() + self.writable.len() == PARTS_MAX;
        self.is_too_long |= is_full;
        let length_bytes = u64::from(segment.length_bytes);
        let list = if descriptor.flags & DESCRIPTOR_WRITE != 0 {
            *last_writable = Some(segment);
            *writable_bytes += length_bytes;
            &mut self.writable
        } else if last_writable.is_some() {
            return Err(Broken::Order);
        } else {
            *readable_bytes += length_bytes;
            &mut self.readable
        };
        if !is_full {
            list.push(segment);
        }
        Ok(())
    }

    /// Takes the status out of what is writable.
    fn finish(&mut self, last_writable: Option<Segment>) -> Result<(), Broken> {
        let last = last_writable.ok_or(Broken::NoRequest)?;
        if self.readable_bytes < HEADER_BYTES as u64 {
            return Err(Broken::NoRequest);
        }
        self.status = last.address + u64::from(last.length_bytes - 1);
        self.writable_bytes -= 1;
        if let Some(kept) = self.writable.last_mut().filter(|_| !self.is_too_long) {
            kept.length_bytes -= 1;
            if kept.length_bytes == 0 {
                self.writable.pop();
            }
        }
        Ok(())
    }
}

/// The table that an indirect descriptor names.
fn indirect(guest: &Guest, segment: Segment) -> Result<Table<'_>, Broken> {
    let length_bytes = u64::from(segment.length_bytes);
    let count = length_bytes / DESCRIPTOR_BYTES;
    let is_whole = length_bytes.is_multiple_of(DESCRIPTOR_BYTES);
    if count == 0 || !is_whole || count > u64::from(DESCRIPTORS_MAX) {
        return Err(Broken::Indirect);
    }
    Ok(Table {
        address: segment.address,
        count: count as u16,
        slice: in_one_region(guest, segment),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vhost_user::guest::write;
    use vm_memory::GuestAddress;

    const TABLE: u64 = 0x1000;
    const SIZE: u16 = 8;

    fn guest() -> Guest {
        Guest::from_ranges(&[(GuestAddress(0), 1 << 16)]).unwrap()
    }

    /// Writes a descriptor of (address, length, flags, next).
    fn put(
        guest: &Guest,
        table: u64,
        index: u64,
        (address, length, flags, next): (u64, u32, u16, u16),
    ) {
        let mut bytes = address.to_le_bytes().to_vec();
        bytes.extend(length.to_le_bytes());
        bytes.extend(flags.to_le_bytes());
        bytes.extend(next.to_le_bytes());
        write(guest, table + index * DESCRIPTOR_BYTES, &bytes).unwrap();
    }

    fn walk(guest: &Guest, head: u16) -> Result<Chain, Broken> {
        let mut chain = Chain::new();
        let table = Segment {
            address: TABLE,
            length_bytes: u32::from(SIZE) * DESCRIPTOR_BYTES as u32,
        };
        let table = Area::find(guest, table, DESCRIPTOR_BYTES)?;
        chain.walk(guest, &table, SIZE, head)?;
        Ok(chain)
    }

    #[test]
    fn the_status_is_the_last_byte_however_the_request_is_divided() {
        let guest = guest();
        put(&guest, TABLE, 3, (0x2000, 10, 1, 5));
        put(&guest, TABLE, 5, (0x3000, 6, 1, 1));
        put(&guest, TABLE, 1, (0x4000, 512, 3, 0));
        put(&guest, TABLE, 0, (0x5000, 513, 2, 0));
        let chain = walk(&guest, 3).unwrap();
        assert_eq!((chain.readable_bytes, chain.writable_bytes), (16, 1024));
        assert_eq!(chain.status, 0x5000 + 512);
        assert_eq!(chain.writable[1].length_bytes, 512);
        // A status of its own leaves nothing behind.
        put(&guest, TABLE, 0, (0x5000, 1, 2, 0));
        let chain = walk(&guest, 3).unwrap();
        assert_eq!((chain.writable.len(), chain.writable_bytes), (1, 512));
    }

    #[test]
    fn an_indirect_table_is_followed_and_may_be_longer_than_the_queue() {
        let guest = guest();
        put(&guest, TABLE, 0, (0x8000, 12 * 16, DESCRIPTOR_INDIRECT, 0));
        put(&guest, 0x8000, 0, (0x2000, 16, 1, 1));
        for index in 1..11 {
            put(&guest, 0x8000, index, (0x3000, 512, 3, index as u16 + 1));
        }
        put(&guest, 0x8000, 11, (0x4000, 1, 2, 0));
        let chain = walk(&guest, 0).unwrap();
        assert_eq!((chain.writable_bytes, chain.status), (5120, 0x4000));
    }

    #[test]
    fn an_indirect_table_may_lie_in_two_regions_and_begin_anywhere() {
        let ranges = [(GuestAddress(0), 0x8000), (GuestAddress(0x8000), 0x8000)];
        let guest = Guest::from_ranges(&ranges).unwrap();
        // The second descriptor lies in both.
        for table in [0x7fe8, 0x6001] {
            put(&guest, TABLE, 0, (table, 3 * 16, DESCRIPTOR_INDIRECT, 0));
            put(&guest, table, 0, (0x2000, 16, 1, 1));
            put(&guest, table, 1, (0x3000, 512, 3, 2));
            put(&guest, table, 2, (0x4000, 1, 2, 0));
            let chain = walk(&guest, 0).unwrap();
            assert_eq!((chain.writable_bytes, chain.status), (512, 0x4000));
            assert_eq!(chain.writable[0].address, 0x3000);
        }
        put(&guest, TABLE, 0, (0xffe8, 3 * 16, DESCRIPTOR_INDIRECT, 0));
        put(&guest, 0xffe8, 0, (0x2000, 16, 1, 1));
        assert_eq!(walk(&guest, 0).unwrap_err(), Broken::NotMemory(0xfff8));
    }

    #[test]
    fn chains_that_make_no_sense_are_told_apart() {
        let guest = guest();
        let broken = |descriptors: &[(u64, u32, u16, u16)]| {
            for (index, descriptor) in descriptors.iter().enumerate() {
                put(&guest, TABLE, index as u64, *descriptor);
            }
            walk(&guest, 0).unwrap_err()
        };
        assert_eq!(walk(&guest, 8).unwrap_err(), Broken::Index(8));
        assert_eq!(broken(&[(0x2000, 16, 1, 9)]), Broken::Index(9));
        assert_eq!(broken(&[(0x2000, 16, 1, 0)]), Broken::Endless);
        assert_eq!(broken(&[(0x2000, 16, 0, 0)]), Broken::NoRequest);
        assert_eq!(broken(&[(0x2000, 16, 2, 0)]), Broken::NoRequest);
        assert_eq!(
            broken(&[(0x2000, 15, 1, 1), (0x2000, 16, 2, 0)]),
            Broken::NoRequest
        );
        assert_eq!(
            broken(&[(0x2000, 1, 3, 1), (0x2000, 16, 0, 0)]),
            Broken::Order
        );
        assert_eq!(broken(&[(0xfff8, 16, 0, 0)]), Broken::NotMemory(0xfff8));
        for (length, flags) in [(0, 4), (15, 4), (16 * 1025, 4), (32, 5)] {
            assert_eq!(broken(&[(0x8000, length, flags, 1)]), Broken::Indirect);
        }
        put(&guest, 0x8000, 0, (0x8000, 16, DESCRIPTOR_INDIRECT, 0));
        assert_eq!(broken(&[(0x8000, 16, 4, 0)]), Broken::Indirect);
    }

    #[test]
    fn too_many_segments_are_noticed_and_the_status_is_still_known() {
        let guest = guest();
        put(&guest, TABLE, 0, (0x8000, 200 * 16, DESCRIPTOR_INDIRECT, 0));
        for index in 0..199 {
            let flags = if index == 0 { 1 } else { 3 };
            put(&guest, 0x8000, index, (0x2000, 16, flags, index as u16 + 1));
        }
        put(&guest, 0x8000, 199, (0x4000, 1, 2, 0));
        let chain = walk(&guest, 0).unwrap();
        assert!(chain.is_too_long);
        assert_eq!(chain.status, 0x4000);
        assert!(chain.readable.len() + chain.writable.len() <= PARTS_MAX);
    }
}
