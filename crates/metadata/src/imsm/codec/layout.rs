//! The fixed parts of a record exactly as they are on disk.
//!
//! Offsets of the base structures are documented in FreeBSD's `md_intel.c`; the newer fields
//! (64-bit halves, write-hole policy, bad block log) are those of mdadm's format.

use zerocopy::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Offset of the checksum in the header.
pub const CHECKSUM_OFFSET: usize = 0x20;

/// Bytes of the header, before the disk table.
pub const HEADER_BYTES: usize = size_of::<RawHeader>();

/// First word of a bad block log.
pub const BAD_BLOCK_LOG_MAGIC: u32 = 0xABAD_B10C;

/// Bytes of the bad block log before its entries.
pub const BAD_BLOCK_LOG_HEAD_BYTES: usize = 8;

/// Slot entry flag: the slot is out of sync.
pub const SLOT_OUT_OF_SYNC: u8 = 1;

/// Value of `failed_slot` that means none.
pub const NO_FAILED_SLOT: u8 = 0xFF;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawHeader {
    pub signature: [u8; 32],
    pub checksum: U32,
    pub mpb_size: U32,
    pub family_num: U32,
    pub generation: U32,
    pub error_log_size: U32,
    pub attributes: U32,
    pub num_disks: u8,
    pub num_volumes: u8,
    pub error_log_position: u8,
    pub after_error_log_position: u8,
    pub cache_size: U32,
    pub orig_family_num: U32,
    pub power_cycle_count: U32,
    pub bad_block_log_size: U32,
    pub num_raid_devs_created: U16,
    pub after_volumes_created: [u8; 2],
    pub creation_time: U64,
    pub tail: [u8; 128],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawDisk {
    pub serial: [u8; 16],
    pub total_low: U32,
    pub scsi_id: U32,
    pub status: U32,
    pub owner_cfg_num: U32,
    pub total_high: U32,
    pub uninterpreted: [u8; 12],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawVolume {
    pub name: [u8; 16],
    pub size_low: U32,
    pub size_high: U32,
    pub status: U32,
    pub reserved_to_cloning: [u8; 12],
    pub volume_id: U16,
    pub caching: [u8; 8],
    pub write_hole_policy: u8,
    pub journal_serial: [u8; 16],
    pub device_tail: [u8; 13],
    pub checkpoint_low: U32,
    pub checkpoint_id: [u8; 4],
    pub migration_state: u8,
    pub migration_type: u8,
    pub dirty: u8,
    pub file_system_state: u8,
    pub verify_errors: U16,
    pub verify_bad_blocks: U16,
    pub checkpoint_high: U32,
    pub volume_tail: [u8; 12],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawMap {
    pub start_low: U32,
    pub per_member_low: U32,
    pub stripes_low: U32,
    pub sectors_per_strip: U16,
    pub state: u8,
    pub level: u8,
    pub members: u8,
    pub domains: u8,
    pub failed_slot: u8,
    pub ddf: u8,
    pub start_high: U32,
    pub per_member_high: U32,
    pub stripes_high: U32,
    pub tail: [u8; 16],
}

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct RawBadBlock {
    pub count_minus_one: u8,
    pub disk_index: u8,
    pub start_low: U16,
    pub start_high: U32,
}

const _: () = {
    assert!(size_of::<RawHeader>() == 216);
    assert!(size_of::<RawDisk>() == 48);
    assert!(size_of::<RawVolume>() == 112);
    assert!(size_of::<RawMap>() == 48);
    assert!(size_of::<RawBadBlock>() == 8);
};

/// A 64-bit value from its two words.
pub fn join(low: U32, high: U32) -> u64 {
    u64::from(high.get()) << 32 | u64::from(low.get())
}

/// The two words of a 64-bit value, low one first.
pub fn split(value: u64) -> (U32, U32) {
    let [a, b, c, d, e, f, g, h] = value.to_le_bytes();
    (U32::from_bytes([a, b, c, d]), U32::from_bytes([e, f, g, h]))
}
