//! Encodes values into bytes.

use super::layout::{
    BAD_BLOCK_LOG_HEAD_BYTES, BAD_BLOCK_LOG_MAGIC, CHECKSUM_OFFSET, NO_FAILED_SLOT, RawBadBlock,
    RawDisk, RawHeader, RawMap, RawVolume, SLOT_OUT_OF_SYNC, split,
};
use super::{EncodeError, Units, checksum};
use crate::imsm::record::{BadBlockEntry, Disk, Map, Mpb, SectorSize, Volume};
use crate::imsm::{MAX_BAD_BLOCK_ENTRIES, MAX_RECORD_BYTES};
use alloc::vec::Vec;
use zerocopy::IntoBytes;
use zerocopy::little_endian::{U16, U32, U64};

/// Bits of a slot entry that hold the row of the disk table.
const DISK_INDEX_BITS: u32 = 24;

/// Bits of a bad block's start sector.
const BAD_BLOCK_START_BITS: u32 = 48;

impl Mpb {
    /// The record's bytes in logical order, checksum included, for drives with sectors of
    /// `sector`.
    ///
    /// Length, checksum and those attribute bits that follow from content
    /// ([`Mpb::attributes_on_disk`]) are computed; everything else is stored unchanged. On
    /// 4096-byte sectors the migration checkpoint is rounded down to whole units (some work
    /// is then repeated) and bad blocks are rounded outwards.
    ///
    /// # Errors
    /// Any [`EncodeError`]: a value does not fit the format.
    pub fn encode(&self, sector: SectorSize) -> Result<Vec<u8>, EncodeError> {
        let units = Units::of(sector);
        let mut tables = Vec::new();
        for disk in &self.disks {
            tables.extend_from_slice(raw_disk(disk, units)?.as_bytes());
        }
        for volume in &self.volumes {
            push_volume(&mut tables, volume, units)?;
        }
        tables.extend_from_slice(&self.trailing);
        let log_bytes = push_bad_blocks(&mut tables, &self.bad_blocks, units)?;

        let length = size_of::<RawHeader>() + tables.len();
        if length > MAX_RECORD_BYTES {
            return Err(EncodeError::TooLong { bytes: length });
        }
        let mut record = Vec::with_capacity(length);
        record.extend_from_slice(self.raw_header(length as u32, log_bytes as u32)?.as_bytes());
        record.extend_from_slice(&tables);
        let sum = checksum(&record);
        record[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 4].copy_from_slice(&sum.to_le_bytes());
        Ok(record)
    }

    /// The header with a checksum of zero.
    fn raw_header(&self, mpb_size: u32, log_bytes: u32) -> Result<RawHeader, EncodeError> {
        Ok(RawHeader {
            signature: self.signature,
            checksum: U32::ZERO,
            mpb_size: U32::new(mpb_size),
            family_num: U32::new(self.family_num),
            generation: U32::new(self.generation),
            error_log_size: U32::new(self.error_log_size),
            attributes: U32::new(self.attributes_on_disk().0),
            num_disks: counter(self.disks.len(), "drives")?,
            num_volumes: counter(self.volumes.len(), "volumes")?,
            error_log_position: self.error_log_position,
            after_error_log_position: self.uninterpreted.after_error_log_position,
            cache_size: U32::new(self.cache_size),
            orig_family_num: U32::new(self.orig_family_num),
            power_cycle_count: U32::new(self.power_cycle_count),
            bad_block_log_size: U32::new(log_bytes),
            num_raid_devs_created: U16::new(self.num_raid_devs_created),
            after_volumes_created: self.uninterpreted.after_volumes_created,
            creation_time: U64::new(self.creation_time),
            tail: self.uninterpreted.tail,
        })
    }
}

fn counter(count: usize, what: &'static str) -> Result<u8, EncodeError> {
    u8::try_from(count).map_err(|_| EncodeError::TooMany {
        what,
        count,
        limit: 255,
    })
}

fn raw_disk(disk: &Disk, units: Units) -> Result<RawDisk, EncodeError> {
    let (total_low, total_high) = split(units.to_stored(disk.total_sectors, "drive size")?);
    Ok(RawDisk {
        serial: disk.serial.0,
        total_low,
        scsi_id: U32::new(disk.scsi_id),
        status: U32::new(disk.status),
        owner_cfg_num: U32::new(disk.owner_cfg_num),
        total_high,
        uninterpreted: disk.uninterpreted,
    })
}

fn push_volume(tables: &mut Vec<u8>, volume: &Volume, units: Units) -> Result<(), EncodeError> {
    let other = &volume.uninterpreted;
    let (kind, checkpoint, status) = match &volume.migration {
        Some(migration) => (
            migration.kind.to_byte(),
            migration.checkpoint_unit,
            migration.kind.status_with(volume.status),
        ),
        None => (
            other.idle_migration_type,
            other.idle_checkpoint,
            volume.status,
        ),
    };
    let (checkpoint_low, checkpoint_high) = split(units.to_stored_floor(checkpoint));
    let (size_low, size_high) = split(units.to_stored(volume.size_sectors, "volume size")?);
    let raw = RawVolume {
        name: volume.name.0,
        size_low,
        size_high,
        status: U32::new(status),
        reserved_to_cloning: other.reserved_to_cloning,
        volume_id: U16::new(volume.volume_id),
        caching: other.caching,
        write_hole_policy: volume.write_hole_policy.to_byte(),
        journal_serial: volume.journal_serial.0,
        device_tail: other.device_tail,
        checkpoint_low,
        checkpoint_id: other.checkpoint_id,
        migration_state: u8::from(volume.migration.is_some()),
        migration_type: kind,
        dirty: volume.dirty,
        file_system_state: other.file_system_state,
        verify_errors: U16::new(volume.verify_errors),
        verify_bad_blocks: U16::new(volume.verify_bad_blocks),
        checkpoint_high,
        volume_tail: other.volume_tail,
    };
    tables.extend_from_slice(raw.as_bytes());
    volume
        .maps()
        .try_for_each(|map| push_map(tables, map, units))
}

fn push_map(tables: &mut Vec<u8>, map: &Map, units: Units) -> Result<(), EncodeError> {
    let (start_low, start_high) = split(units.to_stored(map.start_sector, "volume start")?);
    let (per_member_low, per_member_high) =
        split(units.to_stored(map.sectors_per_member, "sectors per member")?);
    let (stripes_low, stripes_high) = split(map.data_stripes);
    let strip = units.to_stored(u64::from(map.sectors_per_strip), "strip")?;
    let too_large = EncodeError::ValueTooLarge {
        field: "strip",
        value: strip,
    };
    let raw = RawMap {
        start_low,
        per_member_low,
        stripes_low,
        sectors_per_strip: U16::new(u16::try_from(strip).map_err(|_| too_large)?),
        state: map.state.to_byte(),
        level: map.stored_level,
        members: counter(map.members(), "members of a volume")?,
        domains: map.domains,
        failed_slot: map.failed_slot.unwrap_or(NO_FAILED_SLOT),
        ddf: map.uninterpreted.ddf,
        start_high,
        per_member_high,
        stripes_high,
        tail: map.uninterpreted.tail,
    };
    tables.extend_from_slice(raw.as_bytes());
    for slot in &map.order {
        if slot.disk_index >> DISK_INDEX_BITS != 0 {
            let value = u64::from(slot.disk_index);
            return Err(EncodeError::ValueTooLarge {
                field: "drive index of a slot",
                value,
            });
        }
        let [a, b, c, _] = slot.disk_index.to_le_bytes();
        let flag = if slot.out_of_sync {
            SLOT_OUT_OF_SYNC
        } else {
            0
        };
        tables.extend_from_slice(&[a, b, c, (slot.other_flags & !SLOT_OUT_OF_SYNC) | flag]);
    }
    Ok(())
}

/// Appends the bad block log, if there is one, and returns its length.
fn push_bad_blocks(
    tables: &mut Vec<u8>,
    entries: &[BadBlockEntry],
    units: Units,
) -> Result<usize, EncodeError> {
    if entries.is_empty() {
        return Ok(0);
    }
    if entries.len() > MAX_BAD_BLOCK_ENTRIES {
        let what = "bad block entries";
        let (count, limit) = (entries.len(), MAX_BAD_BLOCK_ENTRIES);
        return Err(EncodeError::TooMany { what, count, limit });
    }
    tables.extend_from_slice(&BAD_BLOCK_LOG_MAGIC.to_le_bytes());
    tables.extend_from_slice(&(entries.len() as u32).to_le_bytes());
    for entry in entries {
        tables.extend_from_slice(raw_bad_block(entry, units)?.as_bytes());
    }
    Ok(BAD_BLOCK_LOG_HEAD_BYTES + entries.len() * size_of::<RawBadBlock>())
}

fn raw_bad_block(entry: &BadBlockEntry, units: Units) -> Result<RawBadBlock, EncodeError> {
    let start = units.to_stored_floor(entry.start_sector);
    let end = entry.start_sector.checked_add(u64::from(entry.sectors));
    let count = end.map_or(0, |end| units.to_stored_ceiling(end) - start);
    if start >> BAD_BLOCK_START_BITS != 0 {
        let value = entry.start_sector;
        return Err(EncodeError::ValueTooLarge {
            field: "start of a bad block",
            value,
        });
    }
    let length = u64::from(entry.sectors);
    let bad_length = EncodeError::ValueTooLarge {
        field: "length of a bad block",
        value: length,
    };
    let count_minus_one = count.checked_sub(1).ok_or(bad_length)?;
    Ok(RawBadBlock {
        count_minus_one: u8::try_from(count_minus_one).map_err(|_| bad_length)?,
        disk_index: entry.disk_index,
        start_low: U16::new((start & 0xFFFF) as u16),
        start_high: U32::new((start >> 16) as u32),
    })
}
