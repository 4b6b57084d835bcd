//! The family number after a drive has joined. If a container is split, each half may take a new drive. The family
//! number then tells the halves from each other.

use super::*;
use std::collections::BTreeSet;

/// What a half adds to its family number when it takes this drive in the update of this generation.
fn added(serial: Serial, generation: u32) -> u32 {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    fail(&mut record, 1);
    write(&mut persister, &mut record);
    persister.drives[4].serial = serial;
    persister.written.mpb.generation = generation;
    let before = persister.mpb().family_num;
    begin_rebuild(&mut record, 1, 4);
    write(&mut persister, &mut record);
    persister.mpb().family_num.wrapping_sub(before)
}

#[test]
fn halves_that_take_different_drives_or_at_different_times_become_different_families() {
    let mut all = BTreeSet::from([0]);
    for drive in 4..12 {
        for generation in [2, 3, 4, 300, 70_000] {
            let added = added(identity(drive).serial, generation);
            assert!(all.insert(added), "drive {drive}, update {generation}");
        }
    }
}

/// Whatever the drive's checksum is.
#[test]
fn no_drive_leaves_the_family_number_as_it_was() {
    let checksum = |number: usize| metadata::crc32c::crc32c(identity(number).serial.bytes());
    for low in [0, 1] {
        let of_that_kind = |number: &usize| checksum(*number) & 0xFF == low;
        let number = (4..9999).find(of_that_kind).expect("one drive in 256");
        let generation = checksum(number) >> 8;
        assert_ne!(added(identity(number).serial, generation), 0, "{low}");
    }
}
