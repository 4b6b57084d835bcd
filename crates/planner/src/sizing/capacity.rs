//! What an array holds: the layout of the metadata format itself, so that a plan states the size that `create` gives.
//!
//! The format keeps the last 5.1 MiB of each drive for the record, its shadow and logs, and each drive contributes whole MiB
//! ([`metadata::imsm::geometry`]). A drive is taken to have sectors of 512 bytes and exactly the bytes that its sheet says.

use assembly::level::in_format;
use lab::schema::setup::Level;
use metadata::imsm::geometry::{GeometryError, Shape, SizeRequest, lay_out};
use metadata::imsm::place::{DriveTooSmall, Placement};
use metadata::imsm::{SECTOR_BYTES, SectorSize};
use serde::{Deserialize, Serialize};
use std::fmt;

/// What an array holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capacity {
    /// What clients see.
    pub usable_bytes: u64,
    /// What it takes of each drive: a rebuild writes as much.
    pub member_bytes: u64,
}

/// Why an array cannot be created.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Impossible {
    /// A drive has no room beside the metadata.
    TooSmall(DriveTooSmall),
    /// The format does not have such a layout.
    Layout(GeometryError),
}

impl fmt::Display for Impossible {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Impossible::TooSmall(error) => error.fmt(out),
            Impossible::Layout(error) => error.fmt(out),
        }
    }
}

impl std::error::Error for Impossible {}

/// What an array of `drives` with `drive_bytes` each holds, if it uses them whole. A drive without RAID has no metadata.
///
/// # Errors
/// The format cannot express it.
pub fn capacity(
    level: Level,
    drives: u32,
    chunk_bytes: u32,
    drive_bytes: u64,
) -> Result<Capacity, Impossible> {
    let Some(array) = level.array() else {
        return Ok(Capacity {
            usable_bytes: drive_bytes,
            member_bytes: drive_bytes,
        });
    };
    let shape = Shape {
        level: in_format(array),
        members: drives as usize,
        strip_sectors: chunk_bytes / SECTOR_BYTES as u32,
    };
    let place = Placement::new(drive_bytes, SectorSize::Bytes512).map_err(Impossible::TooSmall)?;
    let layout = lay_out(&shape, SizeRequest::Largest, place.total_sectors(), &[])
        .map_err(Impossible::Layout)?;
    Ok(Capacity {
        usable_bytes: layout.size_sectors * SECTOR_BYTES,
        member_bytes: layout.component_sectors * SECTOR_BYTES,
    })
}
