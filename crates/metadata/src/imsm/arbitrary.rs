//! Arbitrary records that the format can hold, for property tests.
//!
//! Sector numbers are multiples of 8, so that they can be stored on drives of both sector sizes.

use crate::imsm::attributes::{Attributes, SIGNATURE_PREFIX};
use crate::imsm::record::*;
use crate::imsm::serial::Serial;
use alloc::vec::Vec;
use proptest::prelude::*;

/// Mostly small numbers, sometimes ones that need their high word.
fn sectors() -> impl Strategy<Value = u64> {
    prop_oneof![3 => 0u64..(1 << 29), 1 => 0u64..(1 << 50)].prop_map(|units| units * 8)
}

fn disk() -> impl Strategy<Value = Disk> {
    (
        any::<[u8; 16]>(),
        sectors(),
        any::<u32>(),
        any::<u32>(),
        any::<u32>(),
        any::<[u8; 12]>(),
    )
        .prop_map(
            |(serial, total_sectors, scsi_id, status, owner_cfg_num, uninterpreted)| Disk {
                serial: Serial(serial),
                total_sectors,
                scsi_id,
                status,
                owner_cfg_num,
                uninterpreted,
            },
        )
}

fn state() -> impl Strategy<Value = MapState> {
    prop_oneof![
        Just(MapState::Normal),
        Just(MapState::Uninitialised),
        Just(MapState::Degraded),
        Just(MapState::Failed),
        (4u8..).prop_map(MapState::Unknown),
    ]
}

fn policy() -> impl Strategy<Value = WriteHolePolicy> {
    prop_oneof![
        Just(WriteHolePolicy::OffOld),
        Just(WriteHolePolicy::LogSingle),
        Just(WriteHolePolicy::JournalDrive),
        Just(WriteHolePolicy::Log),
        Just(WriteHolePolicy::JournalDriveMultiple),
        Just(WriteHolePolicy::Off),
        Just(WriteHolePolicy::Bitmap),
        (7u8..).prop_map(WriteHolePolicy::Unknown),
    ]
}

fn kind() -> impl Strategy<Value = MigrationKind> {
    prop_oneof![
        Just(MigrationKind::InitialSync),
        Just(MigrationKind::Rebuild),
        Just(MigrationKind::Verify),
        Just(MigrationKind::Repair),
        Just(MigrationKind::General),
        Just(MigrationKind::StateChange),
        (5u8..).prop_map(MigrationKind::Unknown),
    ]
}

fn slot(disks: u32) -> impl Strategy<Value = SlotEntry> {
    (0..disks, any::<bool>(), any::<u8>()).prop_map(|(disk_index, out_of_sync, other)| SlotEntry {
        disk_index,
        out_of_sync,
        other_flags: other & !1,
    })
}

fn map(disks: u32) -> impl Strategy<Value = Map> {
    let place = (sectors(), sectors(), sectors(), 0u32..(1 << 13));
    let bytes = (
        any::<u8>(),
        any::<u8>(),
        prop::option::of(0u8..255),
        any::<[u8; 17]>(),
    );
    (
        place,
        state(),
        bytes,
        prop::collection::vec(slot(disks), 1..8),
    )
        .prop_map(
            |((start_sector, sectors_per_member, data_stripes, strip), state, bytes, order)| {
                let (stored_level, domains, failed_slot, rest) = bytes;
                let mut tail = [0; 16];
                tail.copy_from_slice(&rest[1..]);
                Map {
                    start_sector,
                    sectors_per_member,
                    data_stripes,
                    sectors_per_strip: strip * 8,
                    state,
                    stored_level,
                    domains,
                    failed_slot,
                    order,
                    uninterpreted: MapBytes { ddf: rest[0], tail },
                }
            },
        )
}

fn migration(disks: u32) -> impl Strategy<Value = Migration> {
    (kind(), sectors(), map(disks)).prop_map(|(kind, checkpoint_unit, second_map)| Migration {
        kind,
        checkpoint_unit,
        second_map,
    })
}

fn volume_bytes() -> impl Strategy<Value = VolumeBytes> {
    (
        any::<([u8; 12], [u8; 8], [u8; 13], [u8; 4], u8, [u8; 12], u8)>(),
        sectors(),
    )
        .prop_map(|(bytes, idle_checkpoint)| VolumeBytes {
            reserved_to_cloning: bytes.0,
            caching: bytes.1,
            device_tail: bytes.2,
            checkpoint_id: bytes.3,
            file_system_state: bytes.4,
            volume_tail: bytes.5,
            idle_migration_type: bytes.6,
            idle_checkpoint,
        })
}

fn volume(disks: u32) -> impl Strategy<Value = Volume> {
    let numbers = any::<([u8; 16], u32, u16, [u8; 16], u8, u16, u16)>();
    let parts = (
        policy(),
        prop::option::of(migration(disks)),
        map(disks),
        volume_bytes(),
    );
    (numbers, sectors(), parts).prop_map(
        |(numbers, size_sectors, (write_hole_policy, migration, map, mut uninterpreted))| {
            if migration.is_some() {
                uninterpreted.idle_migration_type = 0;
                uninterpreted.idle_checkpoint = 0;
            }
            Volume {
                name: VolumeName(numbers.0),
                size_sectors,
                status: numbers.1,
                volume_id: numbers.2,
                write_hole_policy,
                journal_serial: Serial(numbers.3),
                migration,
                dirty: numbers.4,
                verify_errors: numbers.5,
                verify_bad_blocks: numbers.6,
                map,
                uninterpreted,
            }
        },
    )
}

fn bad_block() -> impl Strategy<Value = BadBlockEntry> {
    (any::<u8>(), 0u64..(1 << 44), 1u32..=32).prop_map(|(disk_index, start, units)| BadBlockEntry {
        disk_index,
        start_sector: start * 8,
        sectors: units * 8,
    })
}

/// Any record the format can hold.
pub fn record() -> impl Strategy<Value = Mpb> {
    let header = any::<([u8; 8], [u32; 7], u64, u16, u8, u8, [u8; 2])>();
    let tables = prop::collection::vec(disk(), 1..6).prop_flat_map(|disks| {
        let count = disks.len() as u32;
        (Just(disks), prop::collection::vec(volume(count), 0..3))
    });
    let rest = (
        prop::collection::vec(bad_block(), 0..6),
        prop::collection::vec(any::<[u8; 4]>(), 0..4),
        any::<[u8; 32]>(),
    );
    (header, tables, rest).prop_map(|(header, (disks, volumes), (bad_blocks, trailing, tail))| {
        let (version, words, creation_time, created, error_log_position, fill, after) = header;
        let mut signature = [0; 32];
        signature[..24].copy_from_slice(&SIGNATURE_PREFIX);
        signature[24..].copy_from_slice(&version);
        let mut uninterpreted = HeaderBytes {
            after_error_log_position: fill,
            after_volumes_created: after,
            ..HeaderBytes::default()
        };
        uninterpreted.tail[48..80].copy_from_slice(&tail);
        Mpb {
            signature,
            family_num: words[0],
            generation: words[1],
            orig_family_num: words[2],
            attributes: Attributes(words[3]),
            creation_time,
            power_cycle_count: words[4],
            num_raid_devs_created: created,
            cache_size: words[5],
            error_log_size: words[6],
            error_log_position,
            disks,
            volumes,
            bad_blocks,
            uninterpreted,
            trailing: trailing.into_iter().flatten().collect::<Vec<u8>>(),
        }
    })
}
