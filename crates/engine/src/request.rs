//! What a port asks of a volume, and what it gets back.
//!
//! A request covers any length; the engine cuts it up as its pools allow. It is answered exactly once.

use crate::units::{Buffer, VolumeId};

/// What a request does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Operation {
    /// Read `length_bytes` into the buffer.
    Read,
    /// Write `length_bytes` from the buffer.
    Write,
    /// Make every write acknowledged before this request durable.
    Flush,
    /// The range's content is no longer needed; what reads back is old data or zeros.
    Trim,
    /// The range reads back as zeros.
    WriteZeroes {
        /// Members keep the space allocated.
        keep_allocated: bool,
        /// Answer [`Failure::NotSupported`] instead of writing zeros the slow way.
        only_if_fast: bool,
    },
}

/// One request of a client.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Request {
    /// The port's own name for the request; returned in its [`Completion`].
    pub tag: u64,
    /// The volume asked.
    pub volume: VolumeId,
    /// What to do.
    pub operation: Operation,
    /// Durable before it is acknowledged (writes, trims, zeroes).
    pub fua: bool,
    /// First byte in the volume; a multiple of the volume's block size.
    pub offset_bytes: u64,
    /// Length; a multiple of the volume's block size, zero for a flush only.
    pub length_bytes: u32,
    /// The payload's memory; ignored by operations without payload.
    pub buffer: Buffer,
}

impl Request {
    /// What an unused place in a pool holds.
    pub(crate) const NONE: Request = Request {
        tag: 0,
        volume: VolumeId(0),
        operation: Operation::Flush,
        fua: false,
        offset_bytes: 0,
        length_bytes: 0,
        buffer: Buffer(0),
    };
}

/// Why a request was not carried out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Failure {
    /// The volume does not exist, or the range is empty, misaligned, or ends past the volume.
    Misuse,
    /// The volume was started read-only, or the metadata cannot express what writes to it depend on.
    ReadOnly,
    /// Nothing left that holds the data: more members lost than the level survives, or a bad block.
    Unrecoverable {
        /// First byte of the volume that could not be read or written.
        offset_bytes: u64,
    },
    /// The operation is not possible the way it was asked for.
    NotSupported,
    /// The volume is being stopped.
    Stopping,
    /// A read only: a drive that hangs may still write into the buffer, which is pinned
    /// ([`crate::world::World::pin`]). Asked again with another buffer it is answered by other drives.
    BufferHeld,
}

/// The answer to a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Completion {
    /// The request's tag.
    pub tag: u64,
    /// What became of it.
    pub result: Result<(), Failure>,
}
