//! Every change of a record, compared with the fields that mdadm wrote in the same situation.

mod creating;
mod losing;
mod marking;
mod mdadm;
mod replacing;
mod several;

use super::*;
use crate::imsm::attributes::Attributes;
use crate::imsm::geometry::{GeometryError, Level, SizeRequest};
use crate::imsm::golden;
use crate::imsm::record::*;
use crate::imsm::serial::Serial;
use crate::imsm::uuid::Uuid;
use alloc::format;
use alloc::string::ToString;
use alloc::vec::Vec;

fn drive(number: usize, total_sectors: u64) -> NewDrive {
    let serial = Serial::from_drive(format!("IMSMLAB{number:04}").as_bytes());
    NewDrive {
        serial,
        total_sectors,
    }
}

fn drives(count: usize, total_sectors: u64) -> Vec<NewDrive> {
    (0..count)
        .map(|number| drive(number, total_sectors))
        .collect()
}

fn spec(name: &str, level: Level) -> VolumeSpec {
    VolumeSpec {
        name: VolumeName::new(name).unwrap(),
        level,
        strip_sectors: 128,
        size: SizeRequest::Largest,
        born_in_sync: true,
        allow_wide: false,
    }
}

const IDENTITY: ContainerIdentity = ContainerIdentity {
    family_num: 0x27df_be6e,
    creation_time: 1_795_225_107,
};

fn container(level: Level, members: usize) -> Mpb {
    Mpb::create(&drives(members, 131_072), &spec("v", level), IDENTITY).unwrap()
}

fn out_of_sync(map: &Map) -> Vec<usize> {
    (0..map.members())
        .filter(|&slot| map.order[slot].out_of_sync)
        .collect()
}

fn rows(map: &Map) -> Vec<u32> {
    map.order.iter().map(|slot| slot.disk_index).collect()
}

const SPARE: RebuildTarget = RebuildTarget::NewDrive {
    drive: NewDrive {
        serial: Serial(*b"SPARE\0\0\0\0\0\0\0\0\0\0\0"),
        total_sectors: 131_072,
    },
    family_salt: 0x1111,
};
