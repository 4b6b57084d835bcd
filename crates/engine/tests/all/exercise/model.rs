//! What every block of a volume must hold, as far as it can be known: the last acknowledged write, if no other write to
//! the block was under way at the same time and none has failed there since.

use std::fmt;

/// The size of the model's blocks; no volume has smaller ones.
pub const BLOCK_BYTES: u64 = 512;

#[derive(Clone, Copy)]
struct Block {
    /// The number of the write that the block holds, if it is known; 0 is zeros.
    content: Option<u64>,
    /// Counts the writes that have begun here.
    begun: u64,
    /// Writes that have not ended.
    under_way: u32,
}

pub struct Model {
    blocks: Vec<Block>,
}

/// What was known of some blocks when a request to them began.
pub struct Known(Vec<Option<u64>>);

impl fmt::Debug for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} blocks", self.0.len())
    }
}

fn blocks(offset_bytes: u64, length_bytes: u64) -> std::ops::Range<usize> {
    (offset_bytes / BLOCK_BYTES) as usize..((offset_bytes + length_bytes) / BLOCK_BYTES) as usize
}

/// What write `number` puts into a block.
fn content_of(number: u64, block: usize) -> Vec<u8> {
    let word = if number == 0 {
        0
    } else {
        (number << 32 | block as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15)
    };
    // Repeats words: filling byte by byte would take most of a fuzzer's time.
    word.to_le_bytes().repeat(BLOCK_BYTES as usize / 8)
}

/// The payload of write `number`.
pub fn payload(number: u64, offset_bytes: u64, length_bytes: u64) -> Vec<u8> {
    let blocks = blocks(offset_bytes, length_bytes);
    let contents: Vec<Vec<u8>> = blocks.map(|block| content_of(number, block)).collect();
    contents.concat()
}

impl Model {
    /// The model of a volume that holds zeros.
    pub fn new(size_bytes: u64) -> Model {
        let block = Block {
            content: Some(0),
            begun: 0,
            under_way: 0,
        };
        Model {
            blocks: vec![block; (size_bytes / BLOCK_BYTES) as usize],
        }
    }

    pub fn begin_write(&mut self, offset_bytes: u64, length_bytes: u64) -> Known {
        let begin = |block: &mut Block| {
            block.begun += 1;
            block.under_way += 1;
            block.content = None;
            // The only write here, until another begins.
            (block.under_way == 1).then_some(block.begun)
        };
        let range = blocks(offset_bytes, length_bytes);
        Known(self.blocks[range].iter_mut().map(begin).collect())
    }

    /// `content`: the write's number, if it is known to be what the blocks hold.
    pub fn end_write(&mut self, (offset_bytes, known): (u64, &Known), content: Option<u64>) {
        let from = blocks(offset_bytes, 0).start;
        for (block, alone) in self.blocks[from..].iter_mut().zip(&known.0) {
            block.under_way -= 1;
            if *alone == Some(block.begun) {
                block.content = content;
            }
        }
    }

    pub fn begin_read(&self, offset_bytes: u64, length_bytes: u64) -> Known {
        let range = blocks(offset_bytes, length_bytes);
        let known = |block: &Block| block.content.map(|_| block.begun);
        Known(self.blocks[range].iter().map(known).collect())
    }

    /// How many blocks a read has shown to be right.
    ///
    /// # Panics
    /// If a block is wrong.
    pub fn end_read(&self, (offset_bytes, known): (u64, &Known), bytes: &[u8]) -> usize {
        let from = blocks(offset_bytes, 0).start;
        let mut right = 0;
        let read = bytes.chunks(BLOCK_BYTES as usize);
        for (at, (begun, bytes)) in (from..).zip(known.0.iter().zip(read)) {
            let block = &self.blocks[at];
            let Some(number) = block.content.filter(|_| *begun == Some(block.begun)) else {
                continue;
            };
            assert!(
                bytes == content_of(number, at),
                "block {at} was written by write {number}, and reads back as {:02x?}",
                &bytes[..16]
            );
            right += 1;
        }
        right
    }
}
