//! Lists of memory pieces that the kernel reads while an I/O is in flight.
//!
//! A vectored I/O hands the kernel the address of an array, which must stay in place until the completion. Slots lie in
//! chunks that never move and are reused, so that a request allocates nothing. No list is longer than a slot, because
//! the engine bounds the segments of a step.

use engine::limits::STEP_SEGMENTS_MAX;

/// Slots per chunk.
const CHUNK: usize = 256;
/// Chunks allocated at the start.
const CHUNKS_AT_START: usize = 4;

/// `struct iovec`.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct Iovec {
    address: usize,
    length: usize,
}

impl Iovec {
    pub const EMPTY: Iovec = Iovec {
        address: 0,
        length: 0,
    };

    pub fn new(address: *mut u8, length: usize) -> Iovec {
        Iovec {
            address: address as usize,
            length,
        }
    }
}

/// `struct msghdr` of 64-bit Linux.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
struct MessageHeader {
    name: usize,
    name_length: u32,
    iovecs: usize,
    iovec_count: usize,
    control: usize,
    control_length: usize,
    flags: i32,
}

const _: () = assert!(size_of::<Iovec>() == 16 && size_of::<MessageHeader>() == 56);

const NO_MESSAGE: MessageHeader = MessageHeader {
    name: 0,
    name_length: 0,
    iovecs: 0,
    iovec_count: 0,
    control: 0,
    control_length: 0,
    flags: 0,
};

#[derive(Clone, Copy, Debug)]
struct Vector {
    iovecs: [Iovec; STEP_SEGMENTS_MAX],
    /// The first piece that has not been transferred entirely.
    first: usize,
    count: usize,
    message: MessageHeader,
    /// The `user_data` that the port gave for a message; the kernel gets the slot's index instead.
    user_data: u64,
}

const EMPTY: Vector = Vector {
    iovecs: [Iovec::EMPTY; STEP_SEGMENTS_MAX],
    first: 0,
    count: 0,
    message: NO_MESSAGE,
    user_data: 0,
};

/// The slots of one ring.
#[derive(Debug)]
pub(crate) struct Vectors {
    chunks: Vec<Box<[Vector]>>,
    free: Vec<u32>,
}

impl Vectors {
    pub fn new() -> Vectors {
        let mut vectors = Vectors {
            chunks: Vec::new(),
            free: Vec::new(),
        };
        (0..CHUNKS_AT_START).for_each(|_| vectors.grow());
        vectors
    }

    #[cold]
    fn grow(&mut self) {
        let base = self.chunks.len() * CHUNK;
        self.chunks.push(vec![EMPTY; CHUNK].into_boxed_slice());
        self.free
            .extend((base..base + CHUNK).rev().map(|index| index as u32));
    }

    /// An empty list.
    pub fn take(&mut self) -> u32 {
        if self.free.is_empty() {
            self.grow();
        }
        let index = self.free.pop().expect("grow() has added free lists");
        let vector = self.at_mut(index);
        vector.first = 0;
        vector.count = 0;
        index
    }

    /// Returns a list; the kernel must be done with it.
    pub fn give_back(&mut self, index: u32) {
        self.free.push(index);
    }

    /// Adds a piece; false if the list is full. A piece that is adjacent in memory to the one before is merged with it.
    #[must_use]
    pub fn push(&mut self, index: u32, address: *mut u8, length: u32) -> bool {
        let vector = self.at_mut(index);
        let address = address as usize;
        if let Some(last) = vector.iovecs[..vector.count].last_mut()
            && last.address + last.length == address
        {
            last.length += length as usize;
            return true;
        }
        if vector.count == STEP_SEGMENTS_MAX {
            return false;
        }
        vector.iovecs[vector.count] = Iovec {
            address,
            length: length as usize,
        };
        vector.count += 1;
        true
    }

    /// Skips the first `bytes`, which have been transferred.
    pub fn advance(&mut self, index: u32, mut bytes: usize) {
        let vector = self.at_mut(index);
        while bytes > 0 && vector.first < vector.count {
            let piece = &mut vector.iovecs[vector.first];
            if bytes < piece.length {
                piece.address += bytes;
                piece.length -= bytes;
                return;
            }
            bytes -= piece.length;
            vector.first += 1;
        }
    }

    /// Address and number of the remaining pieces.
    pub fn pieces<T>(&self, index: u32) -> (*const T, u32) {
        let vector = self.at(index);
        let left = &vector.iovecs[vector.first..vector.count];
        (left.as_ptr().cast(), left.len() as u32)
    }

    /// The remaining pieces.
    pub fn pieces_mut(&mut self, index: u32) -> &mut [Iovec] {
        let vector = self.at_mut(index);
        &mut vector.iovecs[vector.first..vector.count]
    }

    /// Prepares the list as a socket message, and returns the header's address.
    pub fn message<T>(&mut self, index: u32, user_data: u64) -> *const T {
        let (iovecs, iovec_count) = self.pieces::<u8>(index);
        let vector = self.at_mut(index);
        vector.user_data = user_data;
        vector.message = MessageHeader {
            iovecs: iovecs as usize,
            iovec_count: iovec_count as usize,
            ..NO_MESSAGE
        };
        (&raw const vector.message).cast()
    }

    /// The `user_data` that the port gave for the message in this slot.
    pub fn user_data(&self, index: u32) -> u64 {
        self.at(index).user_data
    }

    /// The slot of the port's message `user_data` that is in flight.
    pub fn find_message(&self, user_data: u64) -> Option<u32> {
        let total = (self.chunks.len() * CHUNK) as u32;
        (0..total).find(|&index| {
            let vector = self.at(index);
            vector.user_data == user_data
                && vector.message.iovec_count > 0
                && !self.free.contains(&index)
        })
    }

    fn at(&self, index: u32) -> &Vector {
        &self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }

    fn at_mut(&mut self, index: u32) -> &mut Vector {
        &mut self.chunks[index as usize / CHUNK][index as usize % CHUNK]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pieces(vectors: &Vectors, index: u32) -> Vec<(usize, usize)> {
        let (address, count) = vectors.pieces::<Iovec>(index);
        // SAFETY: the slot holds `count` pieces at this address.
        let pieces = unsafe { std::slice::from_raw_parts(address, count as usize) };
        pieces
            .iter()
            .map(|piece| (piece.address, piece.length))
            .collect()
    }

    #[test]
    fn pieces_join_advance_and_end() {
        let mut vectors = Vectors::new();
        let index = vectors.take();
        assert!(vectors.push(index, 0x1000 as *mut u8, 0x200));
        assert!(vectors.push(index, 0x1200 as *mut u8, 0x100));
        assert!(vectors.push(index, 0x9000 as *mut u8, 0x400));
        assert_eq!(pieces(&vectors, index), [(0x1000, 0x300), (0x9000, 0x400)]);
        vectors.advance(index, 0x301);
        assert_eq!(pieces(&vectors, index), [(0x9001, 0x3FF)]);
        vectors.advance(index, 0x3FF);
        assert!(pieces(&vectors, index).is_empty());
    }

    #[test]
    fn a_full_list_says_so_and_many_lists_fit() {
        let mut vectors = Vectors::new();
        let index = vectors.take();
        for n in 0..STEP_SEGMENTS_MAX {
            assert!(vectors.push(index, (n * 0x1000) as *mut u8, 1));
        }
        assert!(!vectors.push(index, 0xF_FFFF as *mut u8, 1));
        let (before, _) = vectors.pieces::<u8>(index);
        let more: Vec<u32> = (0..5000).map(|_| vectors.take()).collect();
        assert_eq!(vectors.pieces::<u8>(index).0, before, "lists never move");
        more.into_iter().for_each(|index| vectors.give_back(index));
    }
}
