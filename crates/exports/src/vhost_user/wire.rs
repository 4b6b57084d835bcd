//! The numbers of virtio's block device and of split rings, from the specification of virtio 1.2 (sections 2.7, 5.2 and
//! 6). All integers are little-endian.
//!
//! A request is a chain of descriptors: first what the device reads, then what it writes.
//!
//! | device | bytes | content |
//! |---|---|---|
//! | reads | 4 | type |
//! | reads | 4 | reserved |
//! | reads | 8 | first sector, of 512 bytes |
//! | reads | any | data of a write; 16 bytes for each range of a discard or of zeroes |
//! | writes | any | data of a read; 20 bytes of an identity |
//! | writes | 1 | status |

/// The unit of places and lengths, whatever the block size.
pub const SECTOR_BYTES: u64 = 512;
/// The head of a request.
pub const HEADER_BYTES: usize = 16;
/// A range of a discard, or of zeroes: first sector (8 bytes), sectors (4 bytes), flags (4 bytes).
pub const RANGE_BYTES: usize = 16;
/// The answer to a question for the identity.
pub const IDENTITY_BYTES: usize = 20;

pub const REQUEST_READ: u32 = 0;
pub const REQUEST_WRITE: u32 = 1;
pub const REQUEST_FLUSH: u32 = 4;
pub const REQUEST_IDENTITY: u32 = 8;
pub const REQUEST_DISCARD: u32 = 11;
pub const REQUEST_ZEROES: u32 = 13;
/// Flag of a range of zeroes: the device may return the space.
pub const RANGE_UNMAP: u32 = 1;

pub const STATUS_OK: u8 = 0;
pub const STATUS_ERROR: u8 = 1;
pub const STATUS_UNSUPPORTED: u8 = 2;

pub const FEATURE_SEGMENTS_MAX: u64 = 1 << 2;
pub const FEATURE_READ_ONLY: u64 = 1 << 5;
pub const FEATURE_BLOCK_SIZE: u64 = 1 << 6;
pub const FEATURE_FLUSH: u64 = 1 << 9;
pub const FEATURE_TOPOLOGY: u64 = 1 << 10;
pub const FEATURE_QUEUES: u64 = 1 << 12;
pub const FEATURE_DISCARD: u64 = 1 << 13;
pub const FEATURE_ZEROES: u64 = 1 << 14;
pub const FEATURE_INDIRECT: u64 = 1 << 28;
pub const FEATURE_EVENT_INDEX: u64 = 1 << 29;
/// Of vhost-user, not of virtio: the protocol has features of its own.
pub const FEATURE_PROTOCOL: u64 = 1 << 30;
pub const FEATURE_VERSION_1: u64 = 1 << 32;

/// A descriptor: address (8 bytes), length (4 bytes), flags (2 bytes), next (2 bytes).
pub const DESCRIPTOR_BYTES: u64 = 16;
pub const DESCRIPTOR_NEXT: u16 = 1;
pub const DESCRIPTOR_WRITE: u16 = 2;
pub const DESCRIPTOR_INDIRECT: u16 = 4;
/// Flag of the ring of available chains: the driver wants no interrupt.
pub const AVAILABLE_NO_INTERRUPT: u16 = 1;
