//! What several of the tests share: they set up drives with a record, and read the record afterwards.

use super::{DRIVE_BYTES, MIB_SECTORS, Memory, Pages, SECTOR, name, put_record};
use crate::assemble::{Container, assemble};
use crate::member::Member;
use metadata::imsm::build::{NewDrive, RebuildTarget, VolumeSpec};
use metadata::imsm::geometry::SizeRequest;
use metadata::imsm::place::Placement;
use metadata::imsm::start::StartOptions;
use metadata::imsm::{Level, Mpb, Serial, VolumeName};

/// The operator accepts nothing.
pub(super) const NOTHING: StartOptions = StartOptions {
    degraded: false,
    accept_write_hole: false,
    accept_unsynced: false,
    trust_returned_drive: false,
};
pub(super) const DEGRADED: StartOptions = StartOptions {
    degraded: true,
    ..NOTHING
};

pub(super) fn new_drive(number: usize) -> NewDrive {
    let placement = Placement::new(DRIVE_BYTES, SECTOR).unwrap();
    NewDrive {
        serial: Serial::from_drive(name(number).as_bytes()),
        total_sectors: placement.total_sectors(),
    }
}

/// A volume of 1 MiB on each drive, in sync.
pub(super) fn spec(name: &str, level: Level) -> VolumeSpec {
    VolumeSpec {
        name: VolumeName::new(name).unwrap(),
        level,
        strip_sectors: 32,
        size: SizeRequest::PerMember {
            sectors: MIB_SECTORS,
        },
        born_in_sync: true,
        allow_wide: true,
    }
}

/// Records that this slot of the first volume is lost and being rebuilt onto the drive with this number.
pub(super) fn rebuild_onto(mpb: &mut Mpb, slot: usize, number: usize) {
    mpb.mark_failed(mpb.volumes[0].map.order[slot].disk_index as usize)
        .unwrap();
    let drive = new_drive(number);
    let family_salt = 5;
    let target = RebuildTarget::NewDrive { drive, family_salt };
    mpb.start_rebuild(0, slot, target).unwrap();
}

/// Puts this record on these drives.
pub(super) fn put_on(drives: &[Pages], mpb: &Mpb) {
    drives.iter().for_each(|pages| put_record(pages, mpb));
}

/// This number of new drives, each with the record.
pub(super) fn put(mpb: &Mpb, drives: usize) -> Vec<Pages> {
    let drives: Vec<Pages> = (0..drives).map(|_| Pages::default()).collect();
    put_on(&drives, mpb);
    drives
}

pub(super) fn copied(drives: &[Pages]) -> Vec<Pages> {
    let copy = |pages: &Pages| Pages::new(pages.borrow().clone().into());
    drives.iter().map(copy).collect()
}

/// Opens the drives that have these numbers. A drive's number is its name.
pub(super) fn open(drives: &[Pages], numbers: &[usize]) -> Vec<Memory> {
    let open = |&number: &usize| Memory::open(number, drives[number].clone()).unwrap();
    numbers.iter().map(open).collect()
}

/// Starts the array from these drives.
pub(super) fn start(
    drives: &[Pages],
    numbers: &[usize],
    options: StartOptions,
) -> Container<Memory> {
    assemble(open(drives, numbers), options, false).unwrap_or_else(|error| panic!("{error}"))
}

/// The record on a drive.
pub(super) fn on_record(pages: &Pages) -> Mpb {
    let drive = Memory::open(0, pages.clone()).unwrap();
    let found = drive.found().as_ref().unwrap().as_ref();
    found.expect("a drive with a record").mpb.clone()
}
