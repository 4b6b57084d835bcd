//! The array that the first bytes of a script start: any level and shape, one volume or two, with a write-hole log or a
//! bitmap, whole or degraded, with blocks recorded as lost.
//!
//! The records are such as assembly hands to the engine. Metadata that makes no sense is refused by assembly, which has
//! its own exercise.

use super::script::Script;
use crate::memory::{Array, MIB, geometry, record};
use engine::control::bad_blocks::BadRange;
use engine::control::record::{
    BitmapRecord, LogArea, MemberState, Record, SyncKind, SyncRecord, VolumeRecord,
};
use engine::layout::{Geometry, Level};
use engine::limits::METADATA_RESERVE_BYTES;
use engine::options::Options;
use engine::policy::MemberKind;
use engine::units::{MemberId, Nanos, Slot};

/// Bytes of a volume on each member, at least one chunk.
const COMPONENT_BYTES: u64 = 384 << 10;

fn milliseconds(count: u64) -> Nanos {
    Nanos(count * Nanos::MILLISECOND.0)
}

pub fn start(script: &mut Script) -> Array {
    let record = a_record(script);
    let options = Options {
        member_deadline: milliseconds(script.pick(&[300, 1000, 5000])),
        clean_after: milliseconds(script.pick(&[20, 4000])),
        clear_regions_every: milliseconds(script.pick(&[50, 5000])),
        rate_bytes_per_s: script.pick(&[0, 0, 1, 1 << 20]),
        auto_rebuild: !script.one_in(3),
        health_known_within: Nanos(0),
        read_only: record.volumes.iter().all(|volume| volume.read_only),
    };
    let shards = script.pick(&[1, 2, 1, 2, 3]);
    let seed = script.below(1 << 16);
    let array = Array::new(record, shards, seed, options);
    array.shared.borrow_mut().latency_ns = script.pick(&[50_000, 0, 5_000_000]);
    array
}

fn a_shape(script: &mut Script, level: Level, members: u8) -> Geometry {
    let chunk_bytes: u32 = script.pick(&[4 << 10, 16 << 10, 64 << 10, 128 << 10, 256 << 10]);
    let rows = (COMPONENT_BYTES / u64::from(chunk_bytes)).max(2) + script.below(3);
    let mut shape = geometry(level, members, chunk_bytes, rows);
    shape.block_bytes = script.pick(&[512, 4096]);
    // Volumes need not end with a row.
    shape.size_bytes -= script.below(3) * u64::from(shape.block_bytes);
    Geometry::new(shape).expect("a valid geometry")
}

fn a_record(script: &mut Script) -> Record {
    let level = script.pick(&[Level::Raid5, Level::Raid1, Level::Raid10, Level::Raid0]);
    let members = match level {
        Level::Raid0 => 1 + script.below(4),
        Level::Raid1 => 2 + script.below(5),
        Level::Raid10 => 4 + 2 * script.below(2),
        Level::Raid5 => 3 + script.below(4),
    };
    let members = members as u8;
    let shape = a_shape(script, level, members);
    let spares = script.below(3) as u8;
    let mut record = record(shape, spares, None);
    if script.one_in(3) {
        add_second_volume(script, &mut record);
    }
    let last = record.volumes.last().expect("a volume").geometry;
    for member in &mut record.members {
        let end = last.start_bytes + last.component_bytes;
        member.size_bytes = end + METADATA_RESERVE_BYTES;
        member.volatile_cache = !script.one_in(4);
        member.discards = !script.one_in(4);
        member.kind = script.pick(&[MemberKind::Device, MemberKind::File]);
    }
    for volume in &mut record.volumes {
        give_log_or_bitmap(script, volume);
    }
    age(script, &mut record);
    lose_blocks(script, &mut record);
    record
}

fn add_second_volume(script: &mut Script, record: &mut Record) {
    let first = &record.volumes[0];
    let members = first.geometry.members;
    let is_possible = |level: &Level| level.check_members(usize::from(members)).is_ok();
    let levels = [Level::Raid5, Level::Raid1, Level::Raid10, Level::Raid0];
    let levels: Vec<Level> = levels.into_iter().filter(is_possible).collect();
    let level = script.pick(&levels);
    let mut shape = a_shape(script, level, members);
    shape.start_bytes = first.geometry.start_bytes + first.geometry.component_bytes + MIB + 65_536;
    let volume = VolumeRecord {
        geometry: shape,
        ..first.clone()
    };
    record.volumes.push(volume);
}

fn give_log_or_bitmap(script: &mut Script, volume: &mut VolumeRecord) {
    let shape = &volume.geometry;
    let end = shape.start_bytes + shape.component_bytes;
    match script.below(3) {
        1 if shape.level == Level::Raid5 => {
            volume.log = Some(LogArea {
                offset_bytes: end,
                length_bytes: MIB as u32,
            });
        }
        2 if shape.redundant() => {
            let region_bytes = 64 << 10;
            let covered = if shape.level == Level::Raid10 {
                shape.size_bytes
            } else {
                shape.component_bytes
            };
            let regions = covered.div_ceil(region_bytes).min(63);
            volume.bitmap = Some(BitmapRecord {
                bits_offset_bytes: end + 12_288,
                region_bytes,
                marked: [script.below(1 << regions)].into(),
                cleared_generation: 0,
            });
        }
        _ => {}
    }
}

/// What has happened to the array before this start.
fn age(script: &mut Script, record: &mut Record) {
    let members = record.volumes[0].geometry.members;
    let slot = Slot(script.below(u64::from(members)) as u8);
    let is_redundant = record
        .volumes
        .iter()
        .all(|volume| volume.geometry.redundant());
    match script.below(8) {
        1 => establish(script, record, SyncKind::Initial),
        2 => establish(script, record, SyncKind::Resync),
        3 if is_redundant => {
            // A drive that is being filled.
            record
                .volumes
                .iter_mut()
                .for_each(|volume| volume.slots[usize::from(slot.0)].current = false);
            record.volumes[0].sync = Some(SyncRecord {
                kind: SyncKind::Rebuild(slot),
                done_bytes: 0,
            });
            doubt(script, &mut record.volumes[0]);
        }
        4 if is_redundant => {
            // A drive that has failed.
            record.members[usize::from(slot.0)].state = MemberState::Failed;
            for volume in &mut record.volumes {
                volume.slots[usize::from(slot.0)].current = false;
                doubt(script, volume);
            }
        }
        5 if is_redundant => {
            // A drive that has been removed.
            record.members[usize::from(slot.0)].state = MemberState::Absent;
            for volume in &mut record.volumes {
                let place = &mut volume.slots[usize::from(slot.0)];
                (place.member, place.current) = (None, false);
            }
        }
        6 => {
            for volume in &mut record.volumes {
                (volume.read_only, volume.not_started) =
                    script.pick(&[(true, false), (false, false), (false, true)]);
            }
        }
        _ => {}
    }
}

/// Volumes whose redundancy is not established yet, or is in doubt after a crash.
fn establish(script: &mut Script, record: &mut Record, kind: SyncKind) {
    for volume in &mut record.volumes {
        if volume.geometry.redundant() && !script.one_in(3) {
            volume.dirty = kind == SyncKind::Resync;
            volume.sync = Some(SyncRecord {
                kind,
                done_bytes: 0,
            });
        }
    }
    if kind == SyncKind::Resync {
        let members = record.volumes[0].geometry.members;
        let older = script.below(u64::from(members)) as usize;
        record.members[older].behind = script.one_in(2);
    }
}

/// A RAID 10 that has crashed while a drive was missing.
fn doubt(script: &mut Script, volume: &mut VolumeRecord) {
    if volume.geometry.level == Level::Raid10 && script.one_in(2) {
        (volume.dirty, volume.then_resync) = (true, true);
    }
}

fn lose_blocks(script: &mut Script, record: &mut Record) {
    for _ in 0..script.pick(&[0, 0, 1, 4]) {
        let volume = script.below(record.volumes.len() as u64) as usize;
        let shape = record.volumes[volume].geometry;
        let blocks = shape.component_bytes / 4096;
        let lost = BadRange {
            member: MemberId(script.below(u64::from(shape.members)) as u8),
            offset_bytes: shape.start_bytes + script.below(blocks) * 4096,
            length_bytes: script.pick(&[512, 4096]),
        };
        // Lost blocks are on record only for active drives.
        let state = record.members[usize::from(lost.member.0)].state;
        if state == MemberState::Active {
            record
                .bad_blocks
                .add(lost)
                .expect("there is room for a few");
        }
    }
}
