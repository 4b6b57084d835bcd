//! Histories of containers, and what is chosen from the records that they leave.

mod contradictions;
mod damaged;
mod histories;
mod power_cuts;
mod shadows;
mod updates;

use super::*;
use crate::imsm::build::{NewDrive, RebuildTarget};
use crate::imsm::golden;
use alloc::vec;

/// A drive that carries `mpb`.
fn carries(serial: &Serial, mpb: &Mpb) -> Candidate {
    Candidate {
        name: format!("/dev/{serial}"),
        serial: *serial,
        total_sectors: 131_072,
        sector: SectorSize::Bytes512,
        content: Content::Record(Box::new(mpb.clone())),
        shadow: None,
    }
}

/// All drives of `mpb`, each with that record.
fn everywhere(mpb: &Mpb) -> Vec<Candidate> {
    mpb.disks
        .iter()
        .map(|disk| carries(&disk.serial, mpb))
        .collect()
}

/// `mpb` after one more write with `change`.
fn next(mpb: &Mpb, change: impl FnOnce(&mut Mpb)) -> Mpb {
    let mut mpb = mpb.clone();
    change(&mut mpb);
    mpb.bump_generation();
    mpb
}

/// `mpb` after `times` writes that change nothing else.
fn later(mpb: &Mpb, times: u32) -> Mpb {
    let mut mpb = mpb.clone();
    mpb.generation += times;
    mpb
}

fn record(candidate: &mut Candidate, mpb: &Mpb) {
    candidate.content = Content::Record(Box::new(mpb.clone()));
}

fn only(candidates: &[Candidate]) -> Result<Assembly, Refusal> {
    let mut choice = choose(candidates);
    assert_eq!(choice.containers.len(), 1);
    choice.containers.remove(0).outcome
}

/// A mirror with two volumes.
fn two_volumes() -> Mpb {
    let mut mpb = golden::raid1();
    let second = crate::imsm::build::VolumeSpec {
        name: crate::imsm::VolumeName::new("second").unwrap(),
        level: crate::imsm::Level::Raid1,
        strip_sectors: 128,
        size: crate::imsm::geometry::SizeRequest::Largest,
        born_in_sync: true,
        allow_wide: false,
    };
    mpb.add_volume(&second).unwrap();
    mpb
}

fn present(drive: usize) -> MemberState {
    MemberState::Present { drive }
}

fn evicted(drive: usize, reason: Eviction) -> MemberState {
    MemberState::Evicted { drive, reason }
}

const SPARE: NewDrive = NewDrive {
    serial: Serial(*b"SPARE\0\0\0\0\0\0\0\0\0\0\0"),
    total_sectors: 131_072,
};

fn onto_spare() -> RebuildTarget {
    RebuildTarget::NewDrive {
        drive: SPARE,
        family_salt: 0x1111,
    }
}
