//! The bad-block log, as it passes between the engine's record and that on the drives.

use super::*;
use engine::control::bad_blocks::BadRange;
use metadata::imsm::MAX_BAD_BLOCK_ENTRIES;

fn range(member: u8, sector: u64, sectors: u64) -> BadRange {
    BadRange {
        member: MemberId(member),
        offset_bytes: sector * 512,
        length_bytes: sectors * 512,
    }
}

fn ranges(container: &Container) -> &[BadRange] {
    container.record.bad_blocks.ranges()
}

#[test]
fn what_is_recorded_comes_back_and_what_is_cleared_does_not() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    let recorded = [range(0, 8, 8), range(2, 4096, 300)];
    {
        let mut container = bench.assemble(3).unwrap();
        let mut record = container.record.clone();
        assert!(record.bad_blocks.is_empty());
        for range in recorded {
            record.bad_blocks.add(range).unwrap();
        }
        persist(&mut container, &mut record);
    }
    {
        let mut container = bench.assemble(3).unwrap();
        assert_eq!(ranges(&container), recorded);
        let mut record = container.record.clone();
        record.bad_blocks.remove(range(2, 4100, 8)).unwrap();
        record.bad_blocks.remove(range(0, 0, 100)).unwrap();
        persist(&mut container, &mut record);
    }
    let container = bench.assemble(3).unwrap();
    assert_eq!(ranges(&container), [range(2, 4096, 4), range(2, 4108, 288)]);
}

/// A drive's failure beyond redundancy is not recorded, so its entries in the bad-block log must stay.
#[test]
fn a_drive_s_entries_go_with_its_failed_mark_and_not_before() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    {
        let mut container = bench.assemble(3).unwrap();
        let mut record = container.record.clone();
        record.bad_blocks.add(range(1, 64, 8)).unwrap();
        record.bad_blocks.add(range(2, 64, 8)).unwrap();
        persist(&mut container, &mut record);
        // Another part of the record changes.
        record.volumes[0].dirty = true;
        persist(&mut container, &mut record);
        record.volumes[0].dirty = false;
        persist(&mut container, &mut record);
    }
    {
        let mut container = bench.assemble(3).unwrap();
        assert_eq!(ranges(&container), [range(1, 64, 8), range(2, 64, 8)]);
        let mut record = container.record.clone();
        record.members[1].state = MemberState::Failed;
        record.volumes[0].slots[1].current = false;
        record.bad_blocks.add(range(2, 512, 8)).unwrap();
        persist(&mut container, &mut record);
    }
    let container = bench.assemble(3).unwrap();
    let left: Vec<BadRange> = ranges(&container).to_vec();
    let of = |range: &BadRange| container.record.members[usize::from(range.member.0)].state;
    assert!(left.iter().all(|range| of(range) == MemberState::Active));
    assert_eq!(left.len(), 2, "{left:?}");
}

/// The update that names the new drive adds its blocks that could not be copied, and drops the old drive's entries.
#[test]
fn a_drive_that_takes_a_place_brings_its_entries() {
    let bench = Bench::new(Level::Raid10, 4, 2);
    {
        let mut container = bench.assemble(4).unwrap();
        let mut record = container.record.clone();
        record.bad_blocks.add(range(2, 64, 8)).unwrap();
        persist(&mut container, &mut record);
        container.record = record;
        container.record.bad_blocks.add(range(4, 80, 8)).unwrap();
        replace_one(&bench, &mut container);
    }
    let container = bench.assemble(5).unwrap();
    let names = names(&container);
    let at = names.iter().position(|name| name.ends_with("d4.img"));
    assert_eq!(ranges(&container), [range(at.unwrap() as u8, 80, 8)]);
}

/// Entries of an absent drive take room, too.
#[test]
fn entries_of_absent_drives_are_kept_and_counted() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    {
        let mut container = bench.assemble(3).unwrap();
        let mut record = container.record.clone();
        for at in 0..MAX_BAD_BLOCK_ENTRIES as u64 - 1 {
            record.bad_blocks.add(range(1, at * 16, 8)).unwrap();
        }
        persist(&mut container, &mut record);
    }
    let paths = [0, 2].map(|at| bench.folder.path().join(format!("d{at}.img")));
    let paths = paths.map(|path| path.display().to_string());
    let options = StartOptions {
        degraded: true,
        ..StartOptions::default()
    };
    let drives = probe_all(&paths, Access::Exclusive).unwrap();
    let mut container = assemble(drives, options, false).unwrap();
    let mut record = container.record.clone();
    assert!(record.bad_blocks.is_empty());
    record.bad_blocks.add(range(0, 64, 8)).unwrap();
    assert!(record.bad_blocks.add(range(0, 128, 8)).is_err());
    persist(&mut container, &mut record);
}
