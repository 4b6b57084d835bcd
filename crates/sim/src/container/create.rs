//! Creating the array of a history: drives, and the record on them.
//!
//! The format lays volumes out in whole MiB, but readers accept any size. Histories need small volumes, so the
//! record is made by the real code and its volumes are then reduced in size.

use crate::drive::Drive;
use crate::drive::store::Store;
use crate::drive::timing::RandomLatency;
use crate::history::Topology;
use crate::random::Stream;
use anyhow::{Result, anyhow};
use assembly::assemble::bitmap::new_bitmap;
use assembly::assemble::geometry_of;
use assembly::level::in_format;
use engine::layout::{Geometry, Level};
use metadata::imsm::bitmap::REGION_BYTES_MIN;
use metadata::imsm::build::{ContainerIdentity, NewDrive, VolumeSpec};
use metadata::imsm::geometry::SizeRequest;
use metadata::imsm::place::{Placement, encode_image};
use metadata::imsm::{Mpb, SECTOR_BYTES, SectorSize, Serial, VolumeName, WriteHolePolicy};

/// Default sector size of drives.
pub const SECTOR: SectorSize = SectorSize::Bytes512;

/// The drive in bay `bay`, without metadata.
#[must_use]
pub fn drive(seed: u64, topology: &Topology, bay: usize, left_over: bool) -> Drive {
    let index = bay as u64;
    let timing = RandomLatency {
        base_ns: topology.latency_ns,
        spread_ns: topology.spread_ns,
        per_page_ns: 500,
        random: Stream::new(seed, "latency", index),
    };
    let left_over = left_over.then(|| Stream::new(seed, "left over", index).draw());
    let size_bytes = topology.drive_bytes();
    let volatile = topology.volatile.get(bay).copied().unwrap_or(true);
    let mut drive = Drive::new(
        serial(bay),
        (size_bytes, Store::new(size_bytes, left_over)),
        volatile,
        Box::new(timing),
        Stream::new(seed, "drive", index),
    );
    drive.sector_bytes = topology.sector.bytes() as u64;
    drive.abilities = topology.abilities_of(bay);
    drive
}

/// The serial of the drive in a bay. It has the form that mdadm uses for loop devices, which have no serial
/// numbers, so that mdadm can be run on these drives.
#[must_use]
pub fn serial(bay: usize) -> String {
    format!("/dev/loop{bay}")
}

/// The drives of a topology with the array on them, and the shapes of its volumes.
///
/// # Errors
/// The format does not take the topology.
pub fn create(seed: u64, topology: &Topology) -> Result<(Vec<Drive>, Vec<Geometry>)> {
    let count = usize::from(topology.members + topology.spares);
    let mut drives: Vec<Drive> = (0..count)
        .map(|bay| drive(seed, topology, bay, topology.left_over))
        .collect();
    let mpb = record(seed, topology)?;
    let placement = Placement::new(topology.drive_bytes(), topology.sector)?;
    for (bay, drive) in drives.iter_mut().enumerate() {
        let image = if bay < topology.members as usize {
            let shadow = metadata::imsm::shadow::encode(&mpb, None, topology.sector)?;
            drive.tamper(placement.shadow().offset_bytes, &shadow);
            encode_image(&mpb, topology.sector)?
        } else {
            encode_image(
                &Mpb::spare(&new_drive(topology, bay)?, topology.sector)?,
                topology.sector,
            )?
        };
        drive.tamper(placement.image(image.len()).offset_bytes, &image);
        let migration = placement.migration_record_offset_bytes();
        drive.tamper(migration, &vec![0; topology.sector.bytes()]);
        if bay < topology.members as usize {
            write_bitmaps(drive, topology, &mpb)?;
        }
    }
    let volumes = mpb.volumes.iter();
    let shapes = volumes.map(|volume| geometry_of(volume, topology.sector.bytes() as u32));
    Ok((drives, shapes.collect::<Result<_>>()?))
}

/// Writes the bitmaps of the volumes that have one, with regions as small as they may be.
fn write_bitmaps(drive: &mut Drive, topology: &Topology, mpb: &Mpb) -> Result<()> {
    for at in 0..topology.volumes.len() {
        if topology.volumes[at].marked {
            let bitmap = new_bitmap(mpb, at, topology.sector, Some(REGION_BYTES_MIN))?;
            drive.tamper(bitmap.volume.header_offset_bytes(), &bitmap.encode());
        }
    }
    Ok(())
}

fn new_drive(topology: &Topology, bay: usize) -> Result<NewDrive> {
    let placement = Placement::new(topology.drive_bytes(), topology.sector)?;
    Ok(NewDrive {
        serial: Serial::from_drive(serial(bay).as_bytes()),
        total_sectors: placement.total_sectors(),
    })
}

/// The record of a topology.
///
/// # Errors
/// The format does not take the topology.
pub fn record(seed: u64, topology: &Topology) -> Result<Mpb> {
    let drives = (0..topology.members as usize).map(|bay| new_drive(topology, bay));
    let drives = drives.collect::<Result<Vec<_>>>()?;
    let identity = ContainerIdentity {
        family_num: (Stream::new(seed, "family", 0).draw() as u32).max(1),
        creation_time: 0,
    };
    let specs = topology.volumes.iter().enumerate().map(|(at, volume)| {
        let name = VolumeName::new(&format!("volume{at}"));
        let mib = volume.component_bytes.next_multiple_of(1 << 20);
        Ok(VolumeSpec {
            name: name.ok_or_else(|| anyhow!("no name"))?,
            level: in_format(volume.level),
            strip_sectors: volume.chunk_bytes / SECTOR_BYTES as u32,
            size: SizeRequest::Volume {
                sectors: mib * topology.data_members(at as u8) / SECTOR_BYTES,
            },
            born_in_sync: volume.born_in_sync || volume.level == Level::Raid0,
            allow_wide: true,
        })
    });
    let specs = specs.collect::<Result<Vec<_>>>()?;
    let mut mpb = Mpb::create(&drives, &specs[0], identity)?;
    for spec in &specs[1..] {
        mpb.add_volume(spec)?;
    }
    for (at, spec) in specs.iter().enumerate() {
        cut(&mut mpb, topology, at);
        if topology.volumes[at].logged {
            // No log is written here: every start writes empty logs.
            mpb.set_write_hole_policy(at, WriteHolePolicy::Log)?;
        }
        if topology.volumes[at].marked {
            mpb.set_write_hole_policy(at, WriteHolePolicy::Bitmap)?;
        }
        if !spec.born_in_sync {
            mpb.start_initial_sync(at)?;
        }
    }
    Ok(mpb)
}

/// Reduces volume number `at` to the size in the topology.
fn cut(mpb: &mut Mpb, topology: &Topology, at: usize) {
    let (start_bytes, component_bytes) = topology.extent(at as u8);
    let volume = &mut mpb.volumes[at];
    volume.size_sectors = topology.size_bytes(at as u8) / SECTOR_BYTES;
    let sectors = component_bytes / SECTOR_BYTES;
    for map in volume.maps_mut() {
        map.start_sector = start_bytes / SECTOR_BYTES;
        map.sectors_per_member = sectors + metadata::imsm::WRITE_HOLE_LOG_SECTORS;
        let unit = u64::from(map.sectors_per_strip) * u64::from(map.domains);
        map.data_stripes = sectors / unit.max(1);
    }
}
