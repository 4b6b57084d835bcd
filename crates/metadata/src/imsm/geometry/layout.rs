//! Where a new volume starts and how large it becomes.
//!
//! A volume uses the same sectors on each member: its *component*, a multiple of 1 MiB. The
//! component is followed by 1 MiB for the write-hole log and by unused sectors; the next volume may start
//! 8192 sectors after the end of the component. At the end of the smallest drive 10402 sectors stay
//! free.

use super::extent::Extent;
use super::limits::{GeometryError, Shape};
use crate::imsm::{
    RESERVED_AT_END_SECTORS, SECTORS_PER_MIB, VOLUME_GAP_SECTORS, WRITE_HOLE_LOG_SECTORS,
};
use alloc::vec::Vec;

/// The requested size of a new volume. Sizes are rounded down to 1 MiB on each member (RAID 10 with
/// strips of 1 MiB: 2 MiB, because its stripes are counted in pairs of rows).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SizeRequest {
    /// The whole of the largest gap.
    Largest,
    /// Usable size of the volume.
    Volume {
        /// In 512-byte sectors.
        sectors: u64,
    },
    /// Data on each member, as mdadm's `--size`.
    PerMember {
        /// In 512-byte sectors.
        sectors: u64,
    },
}

/// Place and size of a new volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// First sector on each member.
    pub start_sector: u64,
    /// Sectors of data on each member.
    pub component_sectors: u64,
    /// The value for the map: component and write-hole log area.
    pub sectors_per_member: u64,
    /// The value for the map; for mirrored levels half the number of rows.
    pub data_stripes: u64,
    /// Usable size.
    pub size_sectors: u64,
    /// The value for the map.
    pub strip_sectors: u32,
}

impl Layout {
    /// First sector of the write-hole log on each member.
    #[must_use]
    pub fn write_hole_log_sector(&self) -> u64 {
        self.start_sector + self.component_sectors
    }
}

/// Lays out a volume of `shape` on drives of which the smallest has `smallest_drive_sectors`, beside
/// the volumes that occupy `existing`.
///
/// # Errors
/// Any [`GeometryError`] except [`GeometryError::Wide`].
pub fn lay_out(
    shape: &Shape,
    size: SizeRequest,
    smallest_drive_sectors: u64,
    existing: &[Extent],
) -> Result<Layout, GeometryError> {
    shape.check()?;
    let data_members = shape.level.data_members(shape.members);
    let strip_sectors = shape.stored_strip_sectors();
    // The component must be a whole number of stripes.
    let granule = SECTORS_PER_MIB.max(u64::from(strip_sectors) * u64::from(shape.level.domains()));
    let round = |sectors: u64| sectors - sectors % granule;
    let gaps = gaps(smallest_drive_sectors, existing);
    let largest = gaps
        .iter()
        .copied()
        .max_by_key(|gap| (gap.sectors(), u64::MAX - gap.start));
    let largest_gap_sectors = largest.map_or(0, |gap| round(gap.sectors()));
    let wanted = match size {
        SizeRequest::Largest => None,
        SizeRequest::Volume { sectors } => Some(round(sectors / data_members)),
        SizeRequest::PerMember { sectors } => Some(round(sectors)),
    };
    let no_space = GeometryError::NoSpace {
        needed_sectors: wanted.unwrap_or_default(),
        largest_gap_sectors,
    };
    let (start_sector, component_sectors) = match wanted {
        Some(0) => {
            return Err(GeometryError::TooSmall {
                smallest_sectors: granule,
            });
        }
        Some(wanted) => {
            let gap = gaps
                .iter()
                .find(|gap| gap.sectors() >= wanted)
                .ok_or(no_space)?;
            (gap.start, wanted)
        }
        None if largest_gap_sectors == 0 => return Err(no_space),
        None => (largest.ok_or(no_space)?.start, largest_gap_sectors),
    };
    let rows = component_sectors / u64::from(strip_sectors);
    let size_sectors = component_sectors
        .checked_mul(data_members)
        .ok_or(GeometryError::TooLarge)?;
    Ok(Layout {
        start_sector,
        component_sectors,
        sectors_per_member: component_sectors + WRITE_HOLE_LOG_SECTORS,
        data_stripes: rows / u64::from(shape.level.domains()),
        size_sectors,
        strip_sectors,
    })
}

/// The free ranges in which a component may lie, in ascending order.
fn gaps(smallest_drive_sectors: u64, existing: &[Extent]) -> Vec<Extent> {
    let end_of_data = smallest_drive_sectors.saturating_sub(RESERVED_AT_END_SECTORS);
    let mut occupied = existing.to_vec();
    occupied.sort_by_key(|extent| extent.start);
    let mut gaps = Vec::new();
    let mut start = 0u64;
    for extent in occupied {
        // The log area and the distance after a volume in this gap must end before the next volume starts.
        let end = extent.start.saturating_sub(VOLUME_GAP_SECTORS);
        gaps.push(Extent {
            start,
            end: end.min(end_of_data),
        });
        start = start.max(extent.end.saturating_add(VOLUME_GAP_SECTORS));
    }
    gaps.push(Extent {
        start,
        end: end_of_data,
    });
    gaps.retain(|gap| gap.start < gap.end);
    gaps
}
