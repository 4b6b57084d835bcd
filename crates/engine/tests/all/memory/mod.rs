//! A small world for tests: members and payload are plain vectors, I/O is answered in random order after
//! a random time, several shards share one thread. Faults are switched on per drive.
//!
//! [`array`] is what tests talk to; its shards live in [`world`]s, and what these share with each other and with
//! the test is in [`shared`].
#![allow(dead_code)]

pub mod array;
pub mod client;
pub mod crash;
pub mod marks;
pub mod shared;
pub mod world;

pub use array::Array;
#[allow(unused_imports)]
pub use shared::{Disk, Flight, Shared};
pub use world::MemoryWorld;

use engine::control::bad_blocks::BadBlocks;
use engine::control::record::{
    MemberRecord, MemberState, Record, SlotRecord, SyncKind, SyncRecord, VolumeRecord,
};
use engine::layout::{Geometry, Level};
use engine::units::MemberId;

pub const MIB: u64 = 1 << 20;

/// A repeatable random stream (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

pub fn geometry(level: Level, members: u8, chunk_bytes: u32, rows: u64) -> Geometry {
    let chunk = if level == Level::Raid1 {
        MIB as u32
    } else {
        chunk_bytes
    };
    let mut shape = Geometry {
        level,
        members,
        chunk_bytes: chunk,
        start_bytes: 8192,
        component_bytes: rows * u64::from(chunk_bytes),
        size_bytes: 512,
        block_bytes: 512,
    };
    shape.size_bytes = shape.component_bytes * u64::from(shape.data_members());
    Geometry::new(shape).expect("a valid geometry")
}

pub fn record(shape: Geometry, spares: u8, sync: Option<SyncKind>) -> Record {
    let disk_bytes = shape.start_bytes + shape.component_bytes + 4 * MIB;
    let drive = |state| MemberRecord {
        state,
        size_bytes: disk_bytes,
        volatile_cache: true,
        ..MemberRecord::ABSENT
    };
    let mut members = vec![drive(MemberState::Active); shape.members as usize];
    members.extend(vec![drive(MemberState::Spare); spares as usize]);
    let slots = (0..shape.members)
        .map(|slot| SlotRecord {
            member: Some(MemberId(slot)),
            current: true,
        })
        .collect();
    let volume = VolumeRecord {
        geometry: shape,
        not_started: false,
        read_only: false,
        dirty: false,
        slots,
        sync: sync.map(|kind| SyncRecord {
            kind,
            done_bytes: 0,
        }),
        then_resync: false,
        log: None,
        bitmap: None,
    };
    Record {
        generation: 1,
        members,
        volumes: vec![volume],
        bad_blocks: BadBlocks::default(),
    }
}
