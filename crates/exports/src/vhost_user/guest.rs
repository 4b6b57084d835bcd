//! The memory of a guest, and copies between it and payload memory.
//!
//! The guest may change its memory at any time. So everything that decides is read once, and payload is copied: a hung
//! drive may use payload memory long after the guest is gone, but never the guest's own.

use super::memory::{CopiedMemory, Way};
use engine::units::Buffer;
use std::fmt;
use vm_memory::{
    Address, Bytes, GuestAddress, GuestMemory, GuestMemoryBackend, GuestMemoryMmap,
    GuestMemoryRegion, Permissions, VolatileMemory, VolatileSlice,
};

/// The mapped memory of a guest.
pub type Guest = GuestMemoryMmap<()>;

/// A part of a guest's memory that a descriptor names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// First byte.
    pub address: u64,
    /// Length; not 0.
    pub length_bytes: u32,
}

/// Why a queue cannot go on: its rings or chains make no sense. The guest has to reset the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// These bytes are not the guest's memory.
    NotMemory(u64),
    /// A ring does not begin at a multiple of its elements' size.
    Unaligned(u64),
    /// A ring lies in more than one region of the guest's memory.
    Scattered(u64),
    /// The queue's size is no power of two, or is too large.
    Size(u32),
    /// The guest says that it has made more chains available than the queue has room for.
    TooMany(u16),
    /// A chain begins or goes on at a descriptor that does not exist.
    Index(u32),
    /// A chain goes round in circles.
    Endless,
    /// An indirect table is empty, is not made of whole descriptors, is too long, or is not the last of its chain.
    Indirect,
    /// A chain has parts to read behind parts to write.
    Order,
    /// A chain is too short for a request.
    NoRequest,
    /// The chain is being carried out already.
    Twice(u16),
    /// The area of requests in flight was made for queues of another size, or by another version.
    InFlightArea(u16),
    /// The descriptor by which the guest tells of new requests is none.
    Kick(i32),
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Broken::NotMemory(at) => write!(out, "{at:#x} is not memory of the guest"),
            Broken::Unaligned(at) => write!(out, "a ring begins at {at:#x}, which is not aligned"),
            Broken::Scattered(at) => write!(
                out,
                "the ring at {at:#x} lies in more than one region of the guest's memory"
            ),
            Broken::Size(size) => write!(out, "a queue cannot have {size} descriptors"),
            Broken::TooMany(count) => write!(out, "{count} chains do not fit into the queue"),
            Broken::Index(index) => write!(out, "there is no descriptor {index}"),
            Broken::Endless => write!(out, "a chain of descriptors has no end"),
            Broken::Indirect => write!(out, "an indirect table of descriptors is malformed"),
            Broken::Order => write!(out, "a chain has parts to read behind parts to write"),
            Broken::NoRequest => write!(out, "a chain is too short for a request"),
            Broken::Twice(head) => write!(out, "chain {head} is made available twice"),
            Broken::InFlightArea(size) => write!(
                out,
                "the area of requests in flight is for queues of {size}, or of another version"
            ),
            Broken::Kick(errno) => write!(out, "its kicks cannot be read (errno {errno})"),
        }
    }
}

/// So many regions are looked at one by one, which takes fewer instructions than a search. Most guests have no more: their
/// memory lies below and above the hole for devices below 4 GiB.
const REGIONS_NEAR: usize = 2;

/// The memory of a segment that lies in one region, as nearly every segment does.
#[inline]
pub fn in_one_region(guest: &Guest, segment: Segment) -> Option<VolatileSlice<'_>> {
    let length = segment.length_bytes as usize;
    for region in guest.iter().take(REGIONS_NEAR) {
        let offset = segment.address.wrapping_sub(region.start_addr().0);
        if offset < region.len() {
            return VolatileMemory::get_slice(&**region, offset as usize, length).ok();
        }
    }
    in_a_far_region(guest, segment)
}

#[inline(never)]
fn in_a_far_region(guest: &Guest, segment: Segment) -> Option<VolatileSlice<'_>> {
    let address = GuestAddress(segment.address);
    let region = guest.find_region(address)?;
    let offset = address.unchecked_offset_from(region.start_addr()) as usize;
    VolatileMemory::get_slice(&**region, offset, segment.length_bytes as usize).ok()
}

/// Whether this is memory of the guest.
#[inline]
pub fn is_memory(guest: &Guest, segment: Segment) -> bool {
    in_one_region(guest, segment).is_some() || is_memory_of_several_regions(guest, segment)
}

#[cold]
fn is_memory_of_several_regions(guest: &Guest, segment: Segment) -> bool {
    let count = segment.length_bytes as usize;
    GuestMemory::check_range(
        guest,
        GuestAddress(segment.address),
        count,
        Permissions::ReadWrite,
    )
}

/// The segment of these bytes, which are few.
#[inline]
fn segment_of(address: u64, bytes: &[u8]) -> Segment {
    Segment {
        address,
        length_bytes: bytes.len() as u32,
    }
}

/// Reads bytes.
///
/// # Errors
/// [`Broken::NotMemory`].
#[inline]
pub fn read(guest: &Guest, address: u64, into: &mut [u8]) -> Result<(), Broken> {
    if let Some(slice) = in_one_region(guest, segment_of(address, into)) {
        slice.copy_to(into);
        return Ok(());
    }
    let read = guest.read_slice(into, GuestAddress(address));
    read.map_err(|_| Broken::NotMemory(address))
}

/// Writes bytes.
///
/// # Errors
/// [`Broken::NotMemory`].
#[inline]
pub fn write(guest: &Guest, address: u64, bytes: &[u8]) -> Result<(), Broken> {
    if let Some(slice) = in_one_region(guest, segment_of(address, bytes)) {
        slice.copy_from(bytes);
        return Ok(());
    }
    let written = guest.write_slice(bytes, GuestAddress(address));
    written.map_err(|_| Broken::NotMemory(address))
}

/// Writes one byte.
///
/// # Errors
/// [`Broken::NotMemory`].
#[inline]
pub fn write_byte(guest: &Guest, address: u64, byte: u8) -> Result<(), Broken> {
    let segment = Segment {
        address,
        length_bytes: 1,
    };
    let slice = in_one_region(guest, segment).ok_or(Broken::NotMemory(address))?;
    slice
        .get_ref(0)
        .expect("a byte has room for a byte")
        .store(byte);
    Ok(())
}

/// Calls `each` with every part of the `length_bytes` that lie `skip_bytes` behind the beginning of `segments`, and with
/// the place of the part in them.
fn parts(
    segments: &[Segment],
    mut skip_bytes: u64,
    length_bytes: u32,
    mut each: impl FnMut(Segment, u32) -> Result<(), Broken>,
) -> Result<(), Broken> {
    let mut done_bytes = 0;
    for segment in segments {
        let segment_bytes = u64::from(segment.length_bytes);
        if skip_bytes >= segment_bytes {
            skip_bytes -= segment_bytes;
            continue;
        }
        let left_bytes = u64::from(length_bytes - done_bytes);
        let part = Segment {
            address: segment.address + skip_bytes,
            length_bytes: left_bytes.min(segment_bytes - skip_bytes) as u32,
        };
        skip_bytes = 0;
        if part.length_bytes == 0 {
            break;
        }
        each(part, done_bytes)?;
        done_bytes += part.length_bytes;
    }
    match done_bytes == length_bytes {
        true => Ok(()),
        false => Err(Broken::NoRequest),
    }
}

/// Where the bytes that [`parts`] would give lie, if all of them lie in one segment.
#[inline]
fn in_one_segment(segments: &[Segment], mut skip_bytes: u64, length_bytes: u32) -> Option<Segment> {
    for segment in segments {
        let segment_bytes = u64::from(segment.length_bytes);
        if skip_bytes < segment_bytes {
            let fits = skip_bytes + u64::from(length_bytes) <= segment_bytes;
            let address = segment.address + skip_bytes;
            return fits.then_some(Segment {
                address,
                length_bytes,
            });
        }
        skip_bytes -= segment_bytes;
    }
    None
}

/// Reads bytes that lie `skip_bytes` behind the beginning of `segments`.
///
/// # Errors
/// [`Broken`] if there are not so many.
#[inline]
pub fn gather(
    guest: &Guest,
    segments: &[Segment],
    skip_bytes: u64,
    into: &mut [u8],
) -> Result<(), Broken> {
    match in_one_segment(segments, skip_bytes, into.len() as u32) {
        Some(part) => read(guest, part.address, into),
        None => gather_parts(guest, segments, skip_bytes, into),
    }
}

fn gather_parts(
    guest: &Guest,
    segments: &[Segment],
    skip_bytes: u64,
    into: &mut [u8],
) -> Result<(), Broken> {
    parts(segments, skip_bytes, into.len() as u32, |part, at| {
        let (from, length) = (at as usize, part.length_bytes as usize);
        read(guest, part.address, &mut into[from..from + length])
    })
}

/// Writes bytes to the beginning of `segments`.
///
/// # Errors
/// [`Broken`] if there is not enough room.
pub fn scatter(guest: &Guest, segments: &[Segment], bytes: &[u8]) -> Result<(), Broken> {
    parts(segments, 0, bytes.len() as u32, |part, at| {
        let (from, length) = (at as usize, part.length_bytes as usize);
        write(guest, part.address, &bytes[from..from + length])
    })
}

/// Copies payload between a guest and `buffer`.
///
/// # Errors
/// [`Broken`] if the segments are not memory of the guest, or too short.
#[inline]
pub fn copy(
    guest: &Guest,
    way: Way,
    (segments, skip_bytes): (&[Segment], u64),
    memory: &impl CopiedMemory,
    (buffer, length_bytes): (Buffer, u32),
) -> Result<(), Broken> {
    if let Some(part) = in_one_segment(segments, skip_bytes, length_bytes)
        && let Some(slice) = in_one_region(guest, part)
    {
        memory.copy_with_guest(way, slice, buffer);
        return Ok(());
    }
    copy_parts(
        guest,
        way,
        (segments, skip_bytes),
        memory,
        (buffer, length_bytes),
    )
}

fn copy_parts(
    guest: &Guest,
    way: Way,
    (segments, skip_bytes): (&[Segment], u64),
    memory: &impl CopiedMemory,
    (buffer, length_bytes): (Buffer, u32),
) -> Result<(), Broken> {
    parts(segments, skip_bytes, length_bytes, |part, at| {
        let mut to = buffer.at(at);
        if let Some(slice) = in_one_region(guest, part) {
            memory.copy_with_guest(way, slice, to);
            return Ok(());
        }
        let refused = Broken::NotMemory(part.address);
        let (address, count) = (GuestAddress(part.address), part.length_bytes as usize);
        let slices = GuestMemory::get_slices(guest, address, count, Permissions::ReadWrite);
        for slice in slices.map_err(|_| refused)? {
            let slice = slice.map_err(|_| refused)?;
            let length_bytes = slice.len() as u32;
            memory.copy_with_guest(way, slice, to);
            to = to.at(length_bytes);
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use drives::arena::{Arena, ArenaOptions, Pool};

    const PAGE: u64 = 4096;

    /// Two regions that lie side by side for the guest, and nothing else.
    fn guest() -> Guest {
        let ranges = [
            (GuestAddress(0), PAGE as usize),
            (GuestAddress(PAGE), PAGE as usize),
        ];
        Guest::from_ranges(&ranges).unwrap()
    }

    fn segment(address: u64, length_bytes: u32) -> Segment {
        Segment {
            address,
            length_bytes,
        }
    }

    #[test]
    fn payload_goes_both_ways_through_segments_and_regions() {
        let guest = guest();
        let options = ArenaOptions {
            length_bytes: 1 << 16,
            prefault: false,
            lock: false,
        };
        let arena = Arena::new(options).unwrap();
        let pool = Pool::new(arena.clone(), 0..1 << 16);
        let bytes: Vec<u8> = (0..600u32).map(|at| at as u8).collect();
        // The second segment lies across both regions.
        let segments = [segment(100, 50), segment(PAGE - 200, 500), segment(0, 50)];
        scatter(&guest, &segments, &bytes).unwrap();
        let at = arena.start().at(4096);
        copy(&guest, Way::FromGuest, (&segments, 20), &pool, (at, 570)).unwrap();
        let mut read_back = vec![0; 570];
        arena.read(at, &mut read_back);
        assert_eq!(read_back, bytes[20..590]);
        arena.fill(at, 100, 9);
        copy(&guest, Way::ToGuest, (&segments, 520), &pool, (at, 80)).unwrap();
        let mut all = vec![0; 600];
        gather(&guest, &segments, 0, &mut all).unwrap();
        assert_eq!(all[..520], bytes[..520]);
        assert_eq!(all[520..], [9; 80]);
    }

    #[test]
    fn what_is_not_memory_is_refused() {
        let guest = guest();
        assert!(is_memory(&guest, segment(0, 8192)));
        assert!(!is_memory(&guest, segment(1, 8192)));
        assert!(!is_memory(&guest, segment(u64::MAX - 5, 8192)));
        let mut bytes = [0; 10];
        let outside = [segment(8190, 10)];
        assert_eq!(
            gather(&guest, &outside, 0, &mut bytes),
            Err(Broken::NotMemory(8190))
        );
        let short = [segment(0, 9)];
        assert_eq!(scatter(&guest, &short, &bytes), Err(Broken::NoRequest));
    }
}
