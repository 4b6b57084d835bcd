//! Decodes bytes into values.

use super::layout::{
    BAD_BLOCK_LOG_HEAD_BYTES, BAD_BLOCK_LOG_MAGIC, HEADER_BYTES, NO_FAILED_SLOT, RawBadBlock,
    RawDisk, RawHeader, RawMap, RawVolume, SLOT_OUT_OF_SYNC, join,
};
use super::{DecodeError, RecordIdentity, Units, checksum, word_at};
use crate::imsm::attributes::{Attributes, SIGNATURE_PREFIX};
use crate::imsm::record::{
    BadBlockEntry, Disk, HeaderBytes, Map, MapBytes, MapState, Migration, MigrationKind, Mpb,
    SectorSize, SlotEntry, Volume, VolumeBytes, VolumeName, WriteHolePolicy,
};
use crate::imsm::serial::Serial;
use crate::imsm::{MAX_BAD_BLOCK_ENTRIES, MAX_RECORD_BYTES};
use alloc::vec::Vec;
use zerocopy::FromBytes;

/// Whether `bytes` start with the IMSM signature.
pub(in crate::imsm) fn has_signature(bytes: &[u8]) -> bool {
    bytes.starts_with(&SIGNATURE_PREFIX)
}

/// The length that a header states, if it is a possible one.
pub(in crate::imsm) fn record_length(header: &[u8]) -> Result<usize, DecodeError> {
    let too_short = DecodeError::TooShort {
        bytes: header.len(),
    };
    let mpb_size = word_at(header, super::layout::CHECKSUM_OFFSET + 4).ok_or(too_short)?;
    let length = mpb_size as usize;
    if !(HEADER_BYTES..=MAX_RECORD_BYTES).contains(&length) || !length.is_multiple_of(4) {
        return Err(DecodeError::BadLength { mpb_size });
    }
    Ok(length)
}

impl Mpb {
    /// Decodes a record from its bytes in logical order (header first, contiguous).
    ///
    /// Bytes after the record's own length are ignored. `sector` is the logical sector size of
    /// the drive it was read from, which the record does not contain.
    ///
    /// # Errors
    /// Any [`DecodeError`]; that of a bad checksum contains what the header states.
    pub fn decode(bytes: &[u8], sector: SectorSize) -> Result<Self, DecodeError> {
        if bytes.len() < HEADER_BYTES {
            return Err(DecodeError::TooShort { bytes: bytes.len() });
        }
        if !has_signature(bytes) {
            return Err(DecodeError::NoSignature);
        }
        let length = record_length(bytes)?;
        let record = bytes.get(..length).ok_or(DecodeError::Incomplete {
            mpb_size: length as u32,
            bytes: bytes.len(),
        })?;
        let (header, _) =
            RawHeader::read_from_prefix(record).map_err(|_| DecodeError::TooShort {
                bytes: record.len(),
            })?;
        verify_checksum(record, &header)?;

        let log_start = bad_block_log_start(record, &header)?;
        let large = Attributes(header.attributes.get()).contains(Attributes::LARGE_DISK);
        let mut reader = Reader {
            record,
            end: log_start,
            offset: HEADER_BYTES,
            units: Units::of(sector),
            large,
        };
        let disks = reader.disks(header.num_disks)?;
        let volumes = (0..usize::from(header.num_volumes))
            .map(|index| reader.volume(index, disks.len()))
            .collect::<Result<Vec<_>, _>>()?;
        let trailing = record
            .get(reader.offset..log_start)
            .unwrap_or_default()
            .to_vec();
        let bad_blocks = decode_bad_blocks(&record[log_start..], reader.units)?;
        Ok(assemble(&header, disks, volumes, bad_blocks, trailing))
    }
}

fn assemble(
    header: &RawHeader,
    disks: Vec<Disk>,
    volumes: Vec<Volume>,
    bad_blocks: Vec<BadBlockEntry>,
    trailing: Vec<u8>,
) -> Mpb {
    Mpb {
        signature: header.signature,
        family_num: header.family_num.get(),
        generation: header.generation.get(),
        orig_family_num: header.orig_family_num.get(),
        attributes: Attributes(header.attributes.get()),
        creation_time: header.creation_time.get(),
        power_cycle_count: header.power_cycle_count.get(),
        num_raid_devs_created: header.num_raid_devs_created.get(),
        cache_size: header.cache_size.get(),
        error_log_size: header.error_log_size.get(),
        error_log_position: header.error_log_position,
        disks,
        volumes,
        bad_blocks,
        uninterpreted: HeaderBytes {
            after_error_log_position: header.after_error_log_position,
            after_volumes_created: header.after_volumes_created,
            tail: header.tail,
        },
        trailing,
    }
}

fn verify_checksum(record: &[u8], header: &RawHeader) -> Result<(), DecodeError> {
    let claims = RecordIdentity::of(header);
    let computed = checksum(record);
    if claims.checksum == computed {
        return Ok(());
    }
    Err(DecodeError::Checksum { computed, claims })
}

/// Where the bad block log starts: at the end of the record if there is none.
fn bad_block_log_start(record: &[u8], header: &RawHeader) -> Result<usize, DecodeError> {
    let start = record
        .len()
        .checked_sub(header.bad_block_log_size.get() as usize);
    match start {
        Some(start) if start >= HEADER_BYTES => Ok(start),
        _ => Err(DecodeError::BadBlockLog {
            problem: "is longer than the record",
        }),
    }
}

fn decode_bad_blocks(log: &[u8], units: Units) -> Result<Vec<BadBlockEntry>, DecodeError> {
    if log.is_empty() {
        return Ok(Vec::new());
    }
    let bad = |problem| DecodeError::BadBlockLog { problem };
    if word_at(log, 0) != Some(BAD_BLOCK_LOG_MAGIC) {
        return Err(bad("does not start with its magic number abadb10c"));
    }
    let count = word_at(log, 4).ok_or(bad("ends before its number of entries"))? as usize;
    if count > MAX_BAD_BLOCK_ENTRIES {
        return Err(bad("has more than 254 entries"));
    }
    let entries = &log[BAD_BLOCK_LOG_HEAD_BYTES..];
    if entries.len() != count * size_of::<RawBadBlock>() {
        return Err(bad(
            "has a length that does not match its number of entries",
        ));
    }
    let (raw, _) = <[RawBadBlock]>::ref_from_prefix_with_elems(entries, count)
        .map_err(|_| bad("ends within an entry"))?;
    raw.iter()
        .map(|entry| {
            let start = u64::from(entry.start_high.get()) << 16 | u64::from(entry.start_low.get());
            let units_long = u64::from(entry.count_minus_one) + 1;
            Ok(BadBlockEntry {
                disk_index: entry.disk_index,
                start_sector: units.to_sectors(start, "bad block start")?,
                sectors: units.to_sectors(units_long, "bad block count")? as u32,
            })
        })
        .collect()
}

/// Walks the tables between the header and the bad block log.
struct Reader<'a> {
    record: &'a [u8],
    end: usize,
    offset: usize,
    units: Units,
    /// The high words of the numbers of drives and maps are valid.
    large: bool,
}

impl Reader<'_> {
    fn take(&mut self, bytes: usize, part: &'static str) -> Result<&[u8], DecodeError> {
        let truncated = DecodeError::Truncated {
            part,
            offset: self.offset,
        };
        let stop = self
            .offset
            .checked_add(bytes)
            .filter(|&stop| stop <= self.end);
        let stop = stop.ok_or(truncated)?;
        let taken = self.record.get(self.offset..stop).ok_or(truncated)?;
        self.offset = stop;
        Ok(taken)
    }

    fn read<T: FromBytes>(&mut self, part: &'static str) -> Result<T, DecodeError> {
        let offset = self.offset;
        let bytes = self.take(size_of::<T>(), part)?;
        T::read_from_bytes(bytes).map_err(|_| DecodeError::Truncated { part, offset })
    }

    /// A stored 64-bit number of a drive or map, in sectors. The high word is used only if the
    /// record says that it is valid; mdadm clears it otherwise.
    fn wide(&self, low: zerocopy::little_endian::U32, high: zerocopy::little_endian::U32) -> u64 {
        if self.large {
            join(low, high)
        } else {
            u64::from(low.get())
        }
    }

    fn disks(&mut self, count: u8) -> Result<Vec<Disk>, DecodeError> {
        (0..count)
            .map(|_| {
                let raw: RawDisk = self.read("disk table")?;
                let total = self.wide(raw.total_low, raw.total_high);
                Ok(Disk {
                    serial: Serial(raw.serial),
                    total_sectors: self.units.to_sectors(total, "drive size")?,
                    scsi_id: raw.scsi_id.get(),
                    status: raw.status.get(),
                    owner_cfg_num: raw.owner_cfg_num.get(),
                    uninterpreted: raw.uninterpreted,
                })
            })
            .collect()
    }

    fn volume(&mut self, index: usize, disks: usize) -> Result<Volume, DecodeError> {
        let raw: RawVolume = self.read("volume")?;
        let map = self.map(index, disks)?;
        let checkpoint = self.units.to_sectors(
            join(raw.checkpoint_low, raw.checkpoint_high),
            "migration checkpoint",
        )?;
        let status = raw.status.get();
        let migration = match raw.migration_state {
            0 => None,
            1 => Some(Migration {
                kind: MigrationKind::from_stored(raw.migration_type, status),
                checkpoint_unit: checkpoint,
                second_map: self.map(index, disks)?,
            }),
            value => {
                return Err(DecodeError::BadMigrationState {
                    volume: index,
                    value,
                });
            }
        };
        let idle = migration.is_none();
        let size = join(raw.size_low, raw.size_high);
        Ok(Volume {
            name: VolumeName(raw.name),
            size_sectors: self.units.to_sectors(size, "volume size")?,
            status,
            volume_id: raw.volume_id.get(),
            write_hole_policy: WriteHolePolicy::from_byte(raw.write_hole_policy),
            journal_serial: Serial(raw.journal_serial),
            migration,
            dirty: raw.dirty,
            verify_errors: raw.verify_errors.get(),
            verify_bad_blocks: raw.verify_bad_blocks.get(),
            map,
            uninterpreted: VolumeBytes {
                reserved_to_cloning: raw.reserved_to_cloning,
                caching: raw.caching,
                device_tail: raw.device_tail,
                checkpoint_id: raw.checkpoint_id,
                file_system_state: raw.file_system_state,
                volume_tail: raw.volume_tail,
                idle_migration_type: if idle { raw.migration_type } else { 0 },
                idle_checkpoint: if idle { checkpoint } else { 0 },
            },
        })
    }

    fn map(&mut self, volume: usize, disks: usize) -> Result<Map, DecodeError> {
        let raw: RawMap = self.read("map")?;
        if raw.members == 0 {
            return Err(DecodeError::NoMembers { volume });
        }
        let table = self.take(usize::from(raw.members) * 4, "slot table")?;
        let order = table
            .chunks_exact(4)
            .enumerate()
            .map(|(slot, entry)| {
                let disk_index = u32::from_le_bytes([entry[0], entry[1], entry[2], 0]);
                if disk_index as usize >= disks {
                    return Err(DecodeError::NoSuchDisk {
                        volume,
                        slot,
                        disk_index,
                        disks,
                    });
                }
                Ok(SlotEntry {
                    disk_index,
                    out_of_sync: entry[3] & SLOT_OUT_OF_SYNC != 0,
                    other_flags: entry[3] & !SLOT_OUT_OF_SYNC,
                })
            })
            .collect::<Result<Vec<_>, _>>()?;
        let start = self.wide(raw.start_low, raw.start_high);
        let per_member = self.wide(raw.per_member_low, raw.per_member_high);
        let strip = u64::from(raw.sectors_per_strip.get());
        Ok(Map {
            start_sector: self.units.to_sectors(start, "volume start")?,
            sectors_per_member: self.units.to_sectors(per_member, "sectors per member")?,
            data_stripes: self.wide(raw.stripes_low, raw.stripes_high),
            sectors_per_strip: self.units.to_sectors(strip, "strip")? as u32,
            state: MapState::from_byte(raw.state),
            stored_level: raw.level,
            domains: raw.domains,
            failed_slot: (raw.failed_slot != NO_FAILED_SLOT).then_some(raw.failed_slot),
            order,
            uninterpreted: MapBytes {
                ddf: raw.ddf,
                tail: raw.tail,
            },
        })
    }
}
