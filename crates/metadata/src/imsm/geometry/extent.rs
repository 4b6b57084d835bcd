//! The place and size of volumes according to an existing record, and checks whether they are
//! possible.
//!
//! A record with a valid checksum can still make no sense, by another program's mistake or by
//! intent. Before a volume is started, [`check_volume`] makes sure that every address
//! computed from its maps is on the drives and in no other volume.

use super::level::Level;
use super::limits::{MAX_STRIP_SECTORS, MIN_STRIP_SECTORS};
use crate::imsm::record::{Map, Mpb, Volume, VolumeName};
use crate::imsm::{MAX_RECORD_BYTES, SECTOR_BYTES, WRITE_HOLE_LOG_SECTORS};
use core::fmt;

/// Sectors at the end of a drive that no data may reach: the longest record, and two 4096-byte
/// sectors. This is less than new volumes leave free, because firmware leaves less.
const METADATA_SECTORS: u64 = MAX_RECORD_BYTES as u64 / SECTOR_BYTES + 16;

/// How far a volume's size may differ, per data member, from the size that follows from its stripes, before the
/// number of stripes is ignored.
const STRIPES_TOLERANCE_SECTORS: u64 = 2048;

/// A range of sectors on each member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First sector.
    pub start: u64,
    /// First sector after it.
    pub end: u64,
}

impl Extent {
    /// Length.
    #[must_use]
    pub fn sectors(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether the two ranges have a sector in common.
    #[must_use]
    pub fn overlaps(&self, other: &Self) -> bool {
        self.start < other.end && other.start < self.end
    }
}

impl Map {
    /// Sectors of data on each member, in a volume of `size_sectors`.
    ///
    /// It follows from the number of stripes, unless that contradicts the size of the volume by
    /// more than 1 MiB per data member; then from the size. Saturates instead of overflowing.
    #[must_use]
    pub fn component_sectors(&self, size_sectors: u64) -> u64 {
        let data_members = match self.level() {
            Some(level) => level.data_members(self.members()).max(1),
            None => self.members().max(1) as u64,
        };
        let by_stripes = self
            .data_stripes
            .saturating_mul(u64::from(self.sectors_per_strip))
            .saturating_mul(u64::from(self.domains));
        let difference = by_stripes
            .saturating_mul(data_members)
            .abs_diff(size_sectors);
        if difference > STRIPES_TOLERANCE_SECTORS * data_members {
            size_sectors.div_ceil(data_members)
        } else {
            by_stripes
        }
    }

    /// The sectors of each member that hold data of a volume of `size_sectors`.
    #[must_use]
    pub fn extent(&self, size_sectors: u64) -> Extent {
        let end = self
            .start_sector
            .saturating_add(self.component_sectors(size_sectors));
        Extent {
            start: self.start_sector,
            end,
        }
    }
}

impl Volume {
    /// Sectors of data on each member.
    #[must_use]
    pub fn component_sectors(&self) -> u64 {
        self.map.component_sectors(self.size_sectors)
    }

    /// First sector of the write-hole log on each member.
    #[must_use]
    pub fn write_hole_log_sector(&self) -> u64 {
        self.map.extent(self.size_sectors).end
    }

    /// The sectors that hold data of this volume, those of a second map included.
    #[must_use]
    pub fn extent(&self) -> Extent {
        let own = self.map.extent(self.size_sectors);
        self.maps()
            .map(|map| map.extent(self.size_sectors))
            .fold(own, |sum, extent| Extent {
                start: sum.start.min(extent.start),
                end: sum.end.max(extent.end),
            })
    }
}

impl Mpb {
    /// Free sectors after the data of volume number `index`, available on every drive: up to the next
    /// volume or the metadata. 0 if there is no such volume.
    #[must_use]
    pub fn write_hole_log_room_sectors(&self, index: usize) -> u64 {
        let Some(volume) = self.volumes.get(index) else {
            return 0;
        };
        let end = volume.extent().end;
        let volumes = self.volumes.iter().map(|other| other.extent().start);
        let drives = volume
            .maps()
            .flat_map(|map| &map.order)
            .filter_map(|slot| self.disks.get(slot.disk_index as usize))
            .filter(|disk| !disk.is_failed())
            .map(|disk| disk.total_sectors.saturating_sub(METADATA_SECTORS));
        volumes
            .filter(|&start| start >= end)
            .chain(drives)
            .min()
            .unwrap_or_default()
            .saturating_sub(end)
    }
}

/// Why a volume's record is not valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GeometryProblem {
    /// The level does not exist with this number of members.
    UnknownLevel {
        /// Level byte.
        stored_level: u8,
        /// Members.
        members: usize,
    },
    /// The strip is not a power of two from 4 KiB to 1 MiB.
    Strip {
        /// Strip.
        sectors: u32,
    },
    /// The `domains` byte does not fit the level.
    Domains {
        /// The byte.
        domains: u8,
    },
    /// Two slots name the same drive.
    SharedDrive {
        /// Row of the disk table.
        disk_index: u32,
    },
    /// The volume has no size, or more than its members hold.
    Size {
        /// Size of the volume.
        size_sectors: u64,
        /// What the members hold.
        capacity_sectors: u64,
    },
    /// A drive ends before the volume's data does.
    BeyondDrive {
        /// Row of the disk table.
        disk_index: u32,
        /// Where the volume ends, log included.
        end_sector: u64,
        /// Size of the drive.
        drive_sectors: u64,
    },
    /// Another volume uses the same sectors.
    Overlap {
        /// The other volume.
        other: VolumeName,
    },
    /// The two maps of a synchronisation or rebuild do not have the same layout.
    MapsDiffer,
}

impl fmt::Display for GeometryProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::UnknownLevel {
                stored_level,
                members,
            } => {
                write!(
                    out,
                    "level {stored_level} with {members} members is not supported"
                )
            }
            Self::Strip { sectors } => {
                write!(out, "its strip of {sectors} sectors is not supported")
            }
            Self::Domains { domains } => {
                write!(
                    out,
                    "its number of mirror domains is {domains}, which its level forbids"
                )
            }
            Self::SharedDrive { disk_index } => {
                write!(out, "two of its slots name drive {disk_index}")
            }
            Self::Size {
                size_sectors,
                capacity_sectors,
            } => write!(
                out,
                "its size is {size_sectors} sectors but its members hold {capacity_sectors}"
            ),
            Self::BeyondDrive {
                disk_index,
                end_sector,
                drive_sectors,
            } => write!(
                out,
                "it reaches to sector {end_sector}, too far for drive {disk_index} of \
                 {drive_sectors} sectors"
            ),
            Self::Overlap { other } => write!(out, "it overlaps volume {other}"),
            Self::MapsDiffer => out.write_str("its two maps have different layouts"),
        }
    }
}

/// Checks that the maps of volume number `index` of `mpb` can be used for addressing, and returns its level.
///
/// Volumes that are being reshaped have two different layouts on purpose and fail this check.
///
/// # Errors
/// The first [`GeometryProblem`] found.
///
/// # Panics
/// If there is no volume `index`.
pub fn check_volume(mpb: &Mpb, index: usize) -> Result<Level, GeometryProblem> {
    let volume = &mpb.volumes[index];
    let level = check_map(&volume.map)?;
    if volume.maps().any(|map| !same_layout(map, &volume.map)) {
        return Err(GeometryProblem::MapsDiffer);
    }
    let component_sectors = volume.component_sectors();
    let size_sectors = volume.size_sectors;
    let capacity_sectors =
        component_sectors.saturating_mul(level.data_members(volume.map.members()));
    if size_sectors == 0 || size_sectors > capacity_sectors {
        return Err(GeometryProblem::Size {
            size_sectors,
            capacity_sectors,
        });
    }
    for map in volume.maps() {
        check_drives(mpb, map, level, volume.extent().end)?;
    }
    for (other_index, other) in mpb.volumes.iter().enumerate() {
        if other_index != index && other.extent().overlaps(&volume.extent()) {
            return Err(GeometryProblem::Overlap { other: other.name });
        }
    }
    Ok(level)
}

fn check_map(map: &Map) -> Result<Level, GeometryProblem> {
    let (stored_level, members) = (map.stored_level, map.members());
    let level = map.level().ok_or(GeometryProblem::UnknownLevel {
        stored_level,
        members,
    })?;
    let sectors = map.sectors_per_strip;
    let strip_fits =
        sectors.is_power_of_two() && (MIN_STRIP_SECTORS..=MAX_STRIP_SECTORS).contains(&sectors);
    if !strip_fits {
        return Err(GeometryProblem::Strip { sectors });
    }
    if map.domains != level.domains() {
        return Err(GeometryProblem::Domains {
            domains: map.domains,
        });
    }
    Ok(level)
}

fn same_layout(map: &Map, other: &Map) -> bool {
    map.start_sector == other.start_sector
        && map.data_stripes == other.data_stripes
        && map.sectors_per_strip == other.sectors_per_strip
        && map.stored_level == other.stored_level
        && map.domains == other.domains
        && map.members() == other.members()
}

/// Checks the drives. Several slots may refer to the same failed row, and its size may be 0: their data is not used.
fn check_drives(mpb: &Mpb, map: &Map, level: Level, end: u64) -> Result<(), GeometryProblem> {
    let log_sectors = if level == Level::Raid5 {
        WRITE_HOLE_LOG_SECTORS
    } else {
        0
    };
    let end_sector = end.saturating_add(log_sectors);
    for (slot, entry) in map.order.iter().enumerate() {
        let disk_index = entry.disk_index;
        let Some(disk) = mpb
            .disks
            .get(disk_index as usize)
            .filter(|disk| !disk.is_failed())
        else {
            continue;
        };
        if map.order[..slot]
            .iter()
            .any(|earlier| earlier.disk_index == disk_index)
        {
            return Err(GeometryProblem::SharedDrive { disk_index });
        }
        let drive_sectors = disk.total_sectors;
        if end_sector.saturating_add(METADATA_SECTORS) > drive_sectors {
            return Err(GeometryProblem::BeyondDrive {
                disk_index,
                end_sector,
                drive_sectors,
            });
        }
    }
    Ok(())
}
