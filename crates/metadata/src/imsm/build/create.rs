//! Creating containers, further volumes and spares, and deleting volumes.
//!
//! All volumes of a container use the same drives in the same slots; a second one uses the space that the
//! first leaves free. A spare is a drive with a record of its own that lists only itself and belongs
//! to no container.

use super::BuildError;
use crate::imsm::attributes::{Attributes, SIGNATURE_1_3_00};
use crate::imsm::codec::EncodeError;
use crate::imsm::geometry::{Extent, GeometryError, Level, Shape, SizeRequest, lay_out};
use crate::imsm::record::{
    Disk, HeaderBytes, Map, MapBytes, MapState, Mpb, SectorSize, SlotEntry, Volume, VolumeBytes,
    VolumeName, WriteHolePolicy,
};
use crate::imsm::serial::Serial;
use alloc::vec;
use alloc::vec::Vec;

/// A drive that is to become a member or spare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NewDrive {
    /// Serial as stored ([`Serial::from_drive`]).
    pub serial: Serial,
    /// Real size of the drive, a multiple of its logical sector size
    /// ([`Placement::total_sectors`](crate::imsm::place::Placement::total_sectors)).
    pub total_sectors: u64,
}

/// What makes a container unique.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ContainerIdentity {
    /// A random number other than 0.
    pub family_num: u32,
    /// Seconds since 1970.
    pub creation_time: u64,
}

/// A volume that is to be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct VolumeSpec {
    /// Its name.
    pub name: VolumeName,
    /// RAID level.
    pub level: Level,
    /// Strip; ignored for RAID 1.
    pub strip_sectors: u32,
    /// The size.
    pub size: SizeRequest,
    /// The members' contents match already (for example because all are zero), so that no initial
    /// synchronisation is needed.
    pub born_in_sync: bool,
    /// Allow shapes that not every reader accepts.
    pub allow_wide: bool,
}

impl Mpb {
    /// A new container on `drives`, in slot order, with one volume on all of them.
    ///
    /// # Errors
    /// A drive without a serial, two with the same one, or a shape or size that is not possible
    /// ([`BuildError::Geometry`]).
    pub fn create(
        drives: &[NewDrive],
        volume: &VolumeSpec,
        identity: ContainerIdentity,
    ) -> Result<Self, BuildError> {
        for (index, drive) in drives.iter().enumerate() {
            if drive.serial.is_empty() {
                return Err(BuildError::NoSerial);
            }
            if drives[..index]
                .iter()
                .any(|earlier| earlier.serial == drive.serial)
            {
                return Err(BuildError::DuplicateSerial {
                    serial: drive.serial,
                });
            }
        }
        let mut mpb = Self::empty(identity.family_num);
        mpb.orig_family_num = identity.family_num;
        mpb.creation_time = identity.creation_time;
        mpb.disks = drives
            .iter()
            .map(|drive| Disk::member(drive.serial, drive.total_sectors))
            .collect();
        let order = (0..drives.len() as u32).map(SlotEntry::in_sync).collect();
        mpb.push_volume(volume, order)?;
        Ok(mpb)
    }

    /// Adds a volume on the same drives, in the same slots, as the first one.
    ///
    /// # Errors
    /// The container has no volume, a volume is not in sync, the name is in use, or there is not enough
    /// room.
    pub fn add_volume(&mut self, volume: &VolumeSpec) -> Result<(), BuildError> {
        let first = self.volumes.first().ok_or(BuildError::NoSuchVolume {
            index: 0,
            volumes: 0,
        })?;
        for other in &self.volumes {
            if other.name == volume.name {
                return Err(BuildError::DuplicateName { name: other.name });
            }
            if other
                .maps()
                .flat_map(|map| &map.order)
                .any(|slot| slot.out_of_sync)
            {
                return Err(BuildError::Degraded { name: other.name });
            }
        }
        let order = first.map.order.clone();
        self.push_volume(volume, order)
    }

    /// Deletes volume number `index` and returns how many are left. Volumes after it move down,
    /// which changes their UUIDs. When none is left, the caller writes spare records
    /// ([`Mpb::spare`]) or erases the metadata.
    ///
    /// # Errors
    /// There is no such volume.
    pub fn delete_volume(&mut self, index: usize) -> Result<usize, BuildError> {
        self.volume_mut(index)?;
        self.volumes.remove(index);
        self.remove_unused_failed_disks();
        self.restyle();
        Ok(self.volumes.len())
    }

    /// The record of a spare: 264 bytes that list only the drive itself.
    ///
    /// Its family number is the checksum that the record has with a family number of 0, as mdadm
    /// chooses it.
    ///
    /// # Errors
    /// [`EncodeError::NotAligned`] if the drive's size is not a multiple of `sector`.
    pub fn spare(drive: &NewDrive, sector: SectorSize) -> Result<Self, EncodeError> {
        let mut mpb = Self::empty(0);
        mpb.generation = 1;
        let mut disk = Disk::member(drive.serial, drive.total_sectors);
        disk.status = Disk::SPARE;
        mpb.disks = vec![disk];
        mpb.family_num = crate::imsm::codec::checksum(&mpb.encode(sector)?);
        Ok(mpb)
    }

    /// Reasons why some readers would not accept `volume` as the next volume of this container;
    /// empty if all would.
    #[must_use]
    pub fn reasons_wide(&self, volume: &VolumeSpec) -> Vec<crate::imsm::geometry::WideReason> {
        let members = self
            .volumes
            .first()
            .map_or(self.disks.len(), |first| first.map.members());
        volume.shape(members).reasons_wide(self.volumes.len() + 1)
    }

    fn empty(family_num: u32) -> Self {
        Self {
            signature: SIGNATURE_1_3_00,
            family_num,
            generation: 1,
            orig_family_num: 0,
            attributes: Attributes::CHECKSUM,
            creation_time: 0,
            power_cycle_count: 1,
            num_raid_devs_created: 0,
            cache_size: 0,
            error_log_size: 0,
            error_log_position: 0,
            disks: Vec::new(),
            volumes: Vec::new(),
            bad_blocks: Vec::new(),
            uninterpreted: HeaderBytes::default(),
            trailing: Vec::new(),
        }
    }

    fn push_volume(&mut self, spec: &VolumeSpec, order: Vec<SlotEntry>) -> Result<(), BuildError> {
        let shape = spec.shape(order.len());
        shape.check()?;
        let reasons = shape.reasons_wide(self.volumes.len() + 1);
        if !reasons.is_empty() && !spec.allow_wide {
            return Err(GeometryError::Wide {
                name: spec.name,
                reasons,
            }
            .into());
        }
        let smallest = order
            .iter()
            .filter_map(|slot| self.disks.get(slot.disk_index as usize))
            .map(|disk| disk.total_sectors)
            .min()
            .unwrap_or_default();
        let existing: Vec<Extent> = self.volumes.iter().map(Volume::extent).collect();
        let layout = lay_out(&shape, spec.size, smallest, &existing)?;
        // The stored counter can be lower than the ids in use, so the highest of both counts.
        let newest = self
            .volumes
            .iter()
            .map(|volume| volume.volume_id)
            .max()
            .unwrap_or_default();
        let volume_id = newest.max(self.num_raid_devs_created).saturating_add(1);
        let in_sync = spec.born_in_sync || !spec.level.is_redundant();
        self.num_raid_devs_created = volume_id;
        self.volumes.push(Volume {
            name: spec.name,
            size_sectors: layout.size_sectors,
            status: Volume::STATUS_NEW,
            volume_id,
            write_hole_policy: WriteHolePolicy::Off,
            journal_serial: Serial::default(),
            migration: None,
            dirty: 0,
            verify_errors: 0,
            verify_bad_blocks: 0,
            map: Map {
                start_sector: layout.start_sector,
                sectors_per_member: layout.sectors_per_member,
                data_stripes: layout.data_stripes,
                sectors_per_strip: layout.strip_sectors,
                state: if in_sync {
                    MapState::Normal
                } else {
                    MapState::Uninitialised
                },
                stored_level: spec.level.stored(order.len()),
                domains: spec.level.domains(),
                failed_slot: None,
                order,
                uninterpreted: MapBytes::default(),
            },
            uninterpreted: VolumeBytes::default(),
        });
        self.restyle();
        Ok(())
    }
}

impl VolumeSpec {
    fn shape(&self, members: usize) -> Shape {
        Shape {
            level: self.level,
            members,
            strip_sectors: self.strip_sectors,
        }
    }
}
