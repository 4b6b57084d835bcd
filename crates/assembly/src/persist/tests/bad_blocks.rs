//! How the bad-block log changes when the blocks that the engine's record lists change, on which drives.

use super::*;
use metadata::imsm::MAX_BAD_BLOCK_ENTRIES;
use std::ops::Range;

/// A block of 4 KiB of a member.
fn block(member: u8, number: u64) -> BadRange {
    BadRange {
        member: MemberId(member),
        offset_bytes: (1 << 20) + number * 8192,
        length_bytes: 4096,
    }
}

fn sectors(number: u64) -> Range<u64> {
    let start = 2048 + number * 16;
    start..start + 8
}

fn ranges(persister: &Persister) -> Vec<Vec<Range<u64>>> {
    let mpb = persister.mpb();
    let rows = 0..mpb.disks.len();
    rows.map(|row| mpb.bad_ranges(row)).collect()
}

#[test]
fn blocks_that_all_members_lose_in_one_update_are_all_recorded() {
    let (mut persister, mut record) = persister(Level::Raid1, 2);
    for member in 0..2 {
        record.bad_blocks.add(block(member, 3)).unwrap();
    }
    write(&mut persister, &mut record);
    assert_eq!(ranges(&persister), [[sectors(3)], [sectors(3)]]);
    record.bad_blocks.remove(block(0, 3)).unwrap();
    write(&mut persister, &mut record);
    assert_eq!(ranges(&persister), [vec![], vec![sectors(3)]]);
}

/// A sector is recorded if any part of it is lost.
#[test]
fn a_recorded_range_is_rounded_outwards_to_sectors() {
    for (offset_bytes, length_bytes, recorded) in [
        (1 << 20, 512, 2048..2049),
        (1 << 20, 4096, 2048..2056),
        ((1 << 20) + 100, 512, 2048..2050),
        ((1 << 20) + 100, 100, 2048..2049),
    ] {
        let (mut persister, mut record) = persister(Level::Raid1, 2);
        let range = BadRange {
            member: MemberId(1),
            offset_bytes,
            length_bytes,
        };
        record.bad_blocks.add(range).unwrap();
        write(&mut persister, &mut record);
        assert_eq!(ranges(&persister), [vec![], vec![recorded]]);
    }
}

/// A volume waits for the drive, and the blocks that were lost on it are still lost when it is back.
#[test]
fn what_is_recorded_of_a_drive_that_is_not_here_stays_when_another_ones_changes() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    persister
        .written
        .mpb
        .set_bad_ranges(2, &[sectors(7)])
        .unwrap();
    record.members[2].state = MemberState::Absent;
    record.volumes[0].slots[2].member = None;
    persister.written.seen = record.clone();
    for change in [true, false] {
        let range = block(0, 1);
        match change {
            true => record.bad_blocks.add(range).unwrap(),
            false => record.bad_blocks.remove(range).unwrap(),
        }
        write(&mut persister, &mut record);
        let first = if change { vec![sectors(1)] } else { vec![] };
        let wanted = [first, vec![], vec![sectors(7)], vec![]];
        assert_eq!(ranges(&persister), wanted);
    }
}

/// Nothing is read from a failed drive any more, and the log has room for a limited number of entries.
#[test]
fn what_is_recorded_of_a_failed_drive_makes_room() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    for number in 0..MAX_BAD_BLOCK_ENTRIES as u64 {
        record.bad_blocks.add(block(1, number)).unwrap();
    }
    write(&mut persister, &mut record);
    assert_eq!(persister.mpb().bad_blocks.len(), MAX_BAD_BLOCK_ENTRIES);
    // The engine's record may still list them.
    fail(&mut record, 1);
    write(&mut persister, &mut record);
    record.bad_blocks.forget(MemberId(1));
    record.bad_blocks.add(block(0, 1)).unwrap();
    write(&mut persister, &mut record);
    let wanted = [vec![sectors(1)], vec![], vec![], vec![]];
    assert_eq!(ranges(&persister), wanted);
}

/// Before and after the update both drives together have no more entries than fit.
#[test]
fn a_drive_may_lose_as_many_blocks_as_another_one_gets_back_in_the_same_update() {
    let (mut persister, mut record) = persister(Level::Raid1, 2);
    for (from, to) in [(1, 0), (0, 1)] {
        record.bad_blocks.forget(MemberId(to));
        for number in 0..MAX_BAD_BLOCK_ENTRIES as u64 {
            record.bad_blocks.add(block(from, number)).unwrap();
        }
        write(&mut persister, &mut record);
        record.bad_blocks.forget(MemberId(from));
        for number in 0..MAX_BAD_BLOCK_ENTRIES as u64 {
            record.bad_blocks.add(block(to, number)).unwrap();
        }
        write(&mut persister, &mut record);
        let found = ranges(&persister);
        assert!(found[usize::from(from)].is_empty());
        assert_eq!(found[usize::from(to)].len(), MAX_BAD_BLOCK_ENTRIES);
    }
}

#[test]
fn a_block_that_is_lost_on_a_drive_in_the_update_that_lists_it_is_recorded() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    fail(&mut record, 1);
    write(&mut persister, &mut record);
    begin_rebuild(&mut record, 1, 4);
    record.bad_blocks.add(block(4, 2)).unwrap();
    write(&mut persister, &mut record);
    let row = persister.mpb().disk_index_of(&identity(4).serial).unwrap();
    assert_eq!(persister.mpb().bad_ranges(row), [sectors(2)]);
}

#[test]
fn a_block_of_a_drive_that_the_record_does_not_list_cannot_be_expressed() {
    let (mut persister, mut record) = persister(Level::Raid5, 4);
    persister.drives[2].serial = identity(77).serial;
    record.bad_blocks.add(block(2, 1)).unwrap();
    record.generation += 1;
    let error = persister.encode(MemberId(0), &record).unwrap_err();
    assert_eq!(
        error.to_string(),
        "the metadata cannot express which blocks are lost: drive number 2 is not in its table of disks"
    );
}
