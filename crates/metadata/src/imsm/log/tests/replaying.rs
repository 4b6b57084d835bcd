use super::super::*;
use super::world::{Failed, Random, World, Write};
use crate::imsm::SectorSize;
use alloc::string::ToString;
use alloc::vec;
use core::ops::Range;
use proptest::prelude::*;

/// An array that crashed, and the writes that were under way.
struct Crash {
    world: World,
    /// Writes whose unit was durable.
    begun: Vec<Write>,
    /// Entries with a torn partial parity.
    not_begun: u32,
}

/// Makes an array in which each member's log has some retired units, then one that has not retired.
fn crash(seed: u64, sector: SectorSize) -> Crash {
    let mut random = Random(seed | 1);
    let mut world = World::new(&mut random, sector);
    let mut begun = Vec::new();
    let mut not_begun = 0;
    let mut generation = 0;
    for slot in world.slots() {
        let rows: Vec<u64> = (0..world.rows())
            .filter(|&row| world.volume.parity_slot(row) == slot)
            .collect();
        if rows.is_empty() {
            continue;
        }
        let mut at = 0;
        for left in (0..1 + random.below(3)).rev() {
            generation += 1 + random.below(3);
            let mut writes = Vec::new();
            for &row in &rows {
                writes.extend(world.some_writes(&mut random, row));
            }
            let entries: Vec<_> = writes.iter().map(|write| world.entry(write)).collect();
            let partial_at = at + HEADER_BYTES;
            at = world.put_unit(slot, at, generation, &entries);
            if left > 0 {
                for write in &writes {
                    world.apply(&mut random, write, &|_| true);
                }
            } else if random.below(4) == 0 {
                not_begun += tear(&mut world, &mut random, slot, partial_at, &entries);
            } else {
                for write in &writes {
                    world.apply(&mut random, write, &Random::chance);
                }
                begun.extend(writes);
            }
        }
    }
    Crash {
        world,
        begun,
        not_begun,
    }
}

/// Damages some of the partial parities of a unit; returns how many.
fn tear(
    world: &mut World,
    random: &mut Random,
    slot: usize,
    mut at: usize,
    entries: &[(Entry, Vec<u8>)],
) -> u32 {
    let area = (world.volume.log_sector() * 512) as usize;
    let mut torn = 0;
    for (_, partial) in entries {
        if !partial.is_empty() && random.chance() {
            world.drives[slot][area + at + random.below(partial.len() as u64) as usize] ^= 0x55;
            torn += 1;
        }
        at += partial.len();
    }
    torn
}

/// An entry that another program has written: one part of it can be replayed, and the rest belongs to a lost member.
/// The log is emptied after the replay, so the parity that the replay wrote has to be durable before.
#[test]
fn what_a_replay_has_written_is_flushed_although_no_entry_was_replayed_whole() {
    let mut random = Random(7);
    let mut world = World::new(&mut random, SectorSize::Bytes512);
    let volume = world.volume;
    let parity_slot = volume.parity_slot(0);
    // From sector 10 of the first chunk to sector 4 of the second: two pieces, one for each chunk.
    let partial = vec![0x5A; 16 * 512];
    let entry = Entry {
        data_sector: 10,
        partial_parity_bytes: 16 * 512,
        data_bytes: 10 * 512,
        parity_slot: parity_slot as u32,
        checksum: crate::crc32c::crc32c(&partial),
    };
    world.put_unit(parity_slot, 0, 1, &[(entry, partial)]);
    let world = world;
    for (lost, written) in [(0, 0..4), (1, 10..16)] {
        let mut world = world.clone();
        let others: Vec<usize> = world
            .slots()
            .into_iter()
            .filter(|&slot| slot != lost)
            .collect();
        let before = world.drives[parity_slot].clone();
        let report = replay(&volume, &others, &mut world).unwrap();
        assert_eq!(
            (report.entries_replayed, report.entries_of_lost_members),
            (0, 1)
        );
        let chunk = world.chunk(0);
        let differs = |sector: &usize| {
            let at = chunk.start + sector * 512;
            world.drives[parity_slot][at..at + 512] != before[at..at + 512]
        };
        assert!((0..16).filter(differs).eq(written), "without slot {lost}");
        assert!(!world.unflushed.contains(&true), "{:?}", world.unflushed);
    }
}

fn without_parity(world: &World) -> Vec<Vec<u8>> {
    let mut drives = world.drives.clone();
    for row in 0..world.rows() {
        drives[world.volume.parity_slot(row)][world.chunk(row)].fill(0);
    }
    drives
}

fn sector_size(large: bool) -> SectorSize {
    if large {
        SectorSize::Bytes4096
    } else {
        SectorSize::Bytes512
    }
}

proptest! {
    #[test]
    fn parity_fits_after_any_crash(seed in any::<u64>(), large in any::<bool>()) {
        let Crash { mut world, not_begun, .. } = crash(seed, sector_size(large));
        let before = without_parity(&world);
        let (volume, slots) = (world.volume, world.slots());
        let report = replay(&volume, &slots, &mut world).unwrap();
        prop_assert!(world.wrong_rows().is_empty(), "{seed}: {:?}", world.wrong_rows());
        prop_assert!(without_parity(&world) == before, "only parity is written");
        prop_assert_eq!(report.entries_not_begun, not_begun);
        prop_assert_eq!(report.entries_skipped(), not_begun);
        prop_assert!(report.is_conclusive());
        let after = world.drives.clone();
        replay(&volume, &slots, &mut world).unwrap();
        prop_assert!(world.drives == after, "once more changes nothing");
        initialise(&volume, &slots, &mut world).unwrap();
        prop_assert_eq!(replay(&volume, &slots, &mut world), Ok(LogReport::default()));
    }

    /// A replay that was cut off is done again, also if the cut came while the logs were being emptied.
    #[test]
    fn an_interrupted_replay_is_done_again(seed in any::<u64>(), cut in 0usize..60) {
        let Crash { mut world, .. } = crash(seed, SectorSize::Bytes512);
        let (volume, slots) = (world.volume, world.slots());
        let attempt = |world: &mut World| {
            replay(&volume, &slots, world)?;
            initialise(&volume, &slots, world)
        };
        world.writes_left = cut;
        let first = attempt(&mut world);
        world.writes_left = usize::MAX;
        if first == Err(Failed) {
            attempt(&mut world).unwrap();
        }
        prop_assert!(world.wrong_rows().is_empty(), "{seed}: {:?}", world.wrong_rows());
    }

    /// If a member is lost in the crash, its data are computed as they were, except for what was being written to it.
    #[test]
    fn a_lost_member_is_computed_rightly(seed in any::<u64>(), lost in 0usize..5) {
        let Crash { mut world, begun, .. } = crash(seed, SectorSize::Bytes512);
        let lost = lost % world.volume.members;
        let volume = world.volume;
        let slots: Vec<usize> = world.slots().into_iter().filter(|&slot| slot != lost).collect();
        let report = replay(&volume, &slots, &mut world).unwrap();
        let in_flight: Vec<&Write> = begun
            .iter()
            .filter(|write| volume.parity_slot(write.row) != lost)
            .filter(|write| write.chunks.clone().any(|at| world.slot_of(write.row, at) == lost))
            .collect();
        prop_assert_eq!(report.entries_of_lost_members as usize >= in_flight.len(), true);
        prop_assert!(report.is_conclusive());
        for row in (0..world.rows()).filter(|&row| volume.parity_slot(row) != lost) {
            let mut computed = world.xor(row, &|slot| slot != lost);
            let chunk = world.chunk(row);
            let mut wanted = world.drives[lost][chunk.clone()].to_vec();
            for write in in_flight.iter().filter(|write| write.row == row) {
                let part = world.part_on_drive(write);
                let part = part.start - chunk.start..part.end - chunk.start;
                computed[part.clone()].fill(0);
                wanted[part].fill(0);
            }
            prop_assert!(computed == wanted, "{seed}: row {row} of slot {lost}");
        }
    }
}

/// Row 0 was written twice, in different chunks. Its log has a unit that is outdated and one that is not.
fn twice_written(seed: u64) -> World {
    written(seed, &[0..1, 1..2])
}

/// Row 0 after writes of these chunks, one after the other, each with a unit of its own.
fn written(seed: u64, writes: &[Range<u64>]) -> World {
    let mut random = Random(seed);
    let mut world = World::new(&mut random, SectorSize::Bytes512);
    let slot = world.volume.parity_slot(0);
    let data_members = world.volume.members as u64 - 1;
    let mut at = 0;
    for (generation, chunks) in (1..).zip(writes) {
        let write = Write {
            row: 0,
            chunks: chunks.start..chunks.end.min(data_members),
            part: 0..8,
        };
        let entry = world.entry(&write);
        at = world.put_unit(slot, at, generation, &[entry]);
        world.apply(&mut random, &write, &|_| true);
    }
    world
}

#[test]
fn retired_units_are_not_replayed() {
    let mut world = twice_written(99);
    let before = world.drives.clone();
    let (volume, slots) = (world.volume, world.slots());
    let report = replay(&volume, &slots, &mut world).unwrap();
    assert_eq!(report.entries_replayed, 1);
    assert!(world.drives == before);
    assert!(world.flushes > 0);
}

#[test]
fn an_area_that_is_half_empty_brings_no_outdated_unit_back() {
    // In the second history all chunks are written first. That unit has no partial parity, so the next unit lies where
    // an empty header ends.
    let histories = [vec![0..1, 1..2], vec![0..u64::MAX, 0..1, 1..2]];
    for (seed, writes) in (1..200).map(|seed| (seed, &histories[seed as usize % 2])) {
        let mut before = written(seed * 1001, writes);
        before.volume.log_sectors = 48;
        let (volume, slots) = (before.volume, before.slots());
        for cut in 0.. {
            let mut world = before.clone();
            world.writes_left = cut;
            let done = initialise(&volume, &slots, &mut world).is_ok();
            world.writes_left = usize::MAX;
            let report = replay(&volume, &slots, &mut world).unwrap();
            assert!(report.is_conclusive(), "{report}");
            assert_eq!(world.wrong_rows(), [], "seed {seed}, cut {cut}");
            if done {
                break;
            }
        }
    }
}

#[test]
fn what_cannot_be_read_is_counted() {
    let mut random = Random(7);
    let mut world = World::new(&mut random, SectorSize::Bytes512);
    let slot = world.volume.parity_slot(0);
    let write = Write {
        row: 0,
        chunks: 0..1,
        part: 0..16,
    };
    let entry = world.entry(&write);
    world.put_unit(slot, 0, 1, &[entry]);
    world.apply(&mut random, &write, &|random| random.chance());
    let (volume, slots) = (world.volume, world.slots());
    world.unreadable = Some((world.slot_of(0, 0), volume.start_sector + 3));
    let report = replay(&volume, &slots, &mut world).unwrap();
    assert_eq!(report.blocks_unreadable, 1, "the other half was replayed");
    assert!(!report.is_conclusive());
    // A log that cannot be read cannot be relied on either.
    world.unreadable = Some((slot, volume.log_sector() + 1));
    let report = replay(&volume, &slots, &mut world).unwrap();
    assert_eq!(report.slots_without_log, [slot]);
    assert!(!report.is_conclusive());
}

/// This holds whatever lay in the area, and nothing outside the area changes.
#[test]
fn an_emptied_log_is_an_empty_header_and_zeros() {
    for sector in [SectorSize::Bytes512, SectorSize::Bytes4096] {
        let mut world = World::new(&mut Random(7), sector);
        let (volume, slots) = (world.volume, world.slots());
        let area = (volume.log_sector() * 512) as usize..;
        for drive in &mut world.drives {
            drive.fill(0xA5);
            drive.extend([0x5A; 4096]);
        }
        let before = world.drives.clone();
        initialise(&volume, &slots[1..], &mut world).unwrap();
        let header = Header::empty(volume.signature).encode(sector);
        for (slot, (now, before)) in world.drives.iter().zip(&before).enumerate() {
            let mut wanted = before.clone();
            if slot > 0 {
                let area = &mut wanted[area.clone()][..volume.log_bytes()];
                area.fill(0);
                area[..HEADER_BYTES].copy_from_slice(&header);
            }
            let difference = now
                .iter()
                .zip(&wanted)
                .position(|(now, wanted)| now != wanted);
            assert_eq!(difference, None, "slot {slot}, log from {area:?}");
        }
    }
}

/// The valid entries of the same unit are replayed.
#[test]
fn entries_that_make_no_sense_are_counted_and_change_nothing() {
    let mut random = Random(7);
    let mut world = World::new(&mut random, SectorSize::Bytes512);
    let (volume, slots) = (world.volume, world.slots());
    let slot = volume.parity_slot(0);
    let write = Write {
        row: 0,
        chunks: 0..1,
        part: 0..16,
    };
    let good = world.entry(&write);
    let mut of_another_row = good.clone();
    of_another_row.0.parity_slot += 1;
    let mut beyond = good.clone();
    beyond.0.data_sector += volume.component_sectors * (volume.members as u64 - 1);
    world.put_unit(slot, 0, 1, &[of_another_row, good, beyond]);
    world.apply(&mut random, &write, &|random| random.chance());
    let before = without_parity(&world);
    let report = replay(&volume, &slots, &mut world).unwrap();
    assert_eq!((report.entries_replayed, report.entries_senseless), (1, 2));
    assert!(!report.is_conclusive());
    assert_eq!(world.wrong_rows(), []);
    assert!(without_parity(&world) == before);
}

/// Blocks are aligned on the drive, wherever the write began.
#[test]
fn what_cannot_be_read_costs_its_own_block_and_no_more() {
    let mut random = Random(7);
    let mut world = World::new(&mut random, SectorSize::Bytes512);
    let (volume, slots) = (world.volume, world.slots());
    let slot = volume.parity_slot(0);
    let write = Write {
        row: 0,
        chunks: 0..1,
        part: 4..16,
    };
    let entry = world.entry(&write);
    world.put_unit(slot, 0, 1, &[entry]);
    world.apply(&mut random, &write, &|_| true);
    let right = world.drives[slot].clone();
    let part = world.part_on_drive(&write);
    world.drives[slot][part.clone()].fill(0x77);
    world.unreadable = Some((world.slot_of(0, 0), volume.start_sector + 9));
    let report = replay(&volume, &slots, &mut world).unwrap();
    assert_eq!(report.blocks_unreadable, 1);
    let (before, block) = (
        part.start..part.start + 4 * 512,
        part.start + 4 * 512..part.end,
    );
    assert!(world.drives[slot][before.clone()] == right[before]);
    assert!(world.drives[slot][block].iter().all(|&byte| byte == 0x77));
}

#[test]
fn a_replay_fails_if_parity_cannot_be_written() {
    for writes in 0..3 {
        let mut world = twice_written(99);
        let (volume, slots) = (world.volume, world.slots());
        world.writes_left = writes;
        let replayed = replay(&volume, &slots, &mut world);
        assert_eq!(replayed.is_err(), writes == 0, "{writes} writes succeed");
    }
}

/// If an area does not begin with a header, its log can be relied on only if there are zeros, or what an interrupted
/// write of a header leaves.
#[test]
fn what_lies_where_a_log_should_begin_is_told() {
    let world = World::new(&mut Random(7), SectorSize::Bytes512);
    let (volume, slots) = (world.volume, world.slots());
    let at = (volume.log_sector() * 512) as usize;
    let area = at..at + HEADER_BYTES;
    let other = Header::empty(volume.signature + 1).encode(SectorSize::Bytes512);
    let mut torn = Header::empty(volume.signature).encode(SectorSize::Bytes512);
    torn[..512].fill(0);
    for (bytes, can_be_trusted) in [
        ([0; HEADER_BYTES], true),
        (torn, true),
        ([7; HEADER_BYTES], false),
        (other, false),
    ] {
        let mut world = world.clone();
        world.drives[1][area.clone()].copy_from_slice(&bytes);
        let report = replay(&volume, &slots, &mut world).unwrap();
        let wanted = if can_be_trusted {
            (vec![1], vec![])
        } else {
            (vec![], vec![1])
        };
        assert_eq!(report.is_conclusive(), can_be_trusted, "{report}");
        assert_eq!((report.slots_interrupted, report.slots_without_log), wanted);
    }
}

#[test]
fn a_report_is_one_line() {
    let mut report = LogReport {
        entries_replayed: 3,
        ..LogReport::default()
    };
    assert_eq!(report.to_string(), "3 entries replayed");
    report.entries_not_begun = 2;
    report.entries_senseless = 1;
    report.blocks_unreadable = 4;
    report.slots_without_log = vec![0, 2];
    report.slots_interrupted = vec![1];
    assert_eq!(
        report.to_string(),
        "3 entries replayed, 3 skipped (2 not begun, 1 inconsistent), 4 blocks unreadable, \
         no log in slot 0, 2, an unfinished header in slot 1"
    );
}
