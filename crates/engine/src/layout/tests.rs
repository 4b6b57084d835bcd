//! Tests of the layouts: against tables written down by hand, and against what any layout must fulfil.

use super::*;
use proptest::prelude::*;
use std::collections::HashSet;

fn shape(level: Level, members: u8, chunk_bytes: u32, rows: u64) -> Geometry {
    let component_bytes = u64::from(chunk_bytes) * rows;
    let mut shape = Geometry {
        level,
        members,
        chunk_bytes,
        start_bytes: 4096,
        component_bytes,
        size_bytes: 0,
        block_bytes: 512,
    };
    shape.size_bytes = component_bytes * u64::from(shape.data_members());
    Geometry::new(shape).expect("a valid geometry")
}

fn shapes() -> impl Strategy<Value = Geometry> {
    (0..4u8, 1..=64u8, 12..=20u32, 1..=20u64).prop_map(|(level, members, chunk_bits, rows)| {
        let (level, members) = match level {
            0 => (Level::Raid0, members),
            1 => (Level::Raid1, members.max(2)),
            2 => (Level::Raid10, members.max(4) & !1),
            _ => (Level::Raid5, members.max(3)),
        };
        shape(level, members, 1 << chunk_bits, rows)
    })
}

/// The slots of `row` as text: the volume's chunk numbers, `P` for parity.
fn row_text(shape: &Geometry, row: u64) -> String {
    let chunk = |slot| match shape.data_index(row, Slot(slot)) {
        Some(index) => (row * u64::from(shape.data_members()) + u64::from(index)).to_string(),
        None => "P".into(),
    };
    (0..shape.members).map(chunk).collect::<Vec<_>>().join(" ")
}

#[test]
fn raid5_is_left_asymmetric() {
    let four = shape(Level::Raid5, 4, 4096, 8);
    let table = [
        "0 1 2 P",
        "3 4 P 5",
        "6 P 7 8",
        "P 9 10 11",
        "12 13 14 P",
        "15 16 P 17",
    ];
    for (row, text) in table.iter().enumerate() {
        assert_eq!(row_text(&four, row as u64), *text);
    }
    let three = shape(Level::Raid5, 3, 4096, 8);
    for (row, text) in ["0 1 P", "2 P 3", "P 4 5", "6 7 P"].iter().enumerate() {
        assert_eq!(row_text(&three, row as u64), *text);
    }
}

#[test]
fn raid10_keeps_each_chunk_on_a_pair_of_neighbours() {
    let six = shape(Level::Raid10, 6, 4096, 8);
    assert_eq!(row_text(&six, 0), "0 0 1 1 2 2");
    assert_eq!(row_text(&six, 1), "3 3 4 4 5 5");
}

#[test]
fn raid0_and_raid1_are_plain() {
    assert_eq!(row_text(&shape(Level::Raid0, 3, 4096, 8), 2), "6 7 8");
    assert_eq!(row_text(&shape(Level::Raid1, 3, 4096, 1000), 2), "2 2 2");
}

#[test]
fn places_far_out_are_exact() {
    // Past 2^32 chunks and rows, where the short divisions no longer suffice.
    let chunk_bytes = 4096;
    let mut far = shape(Level::Raid5, 7, chunk_bytes, 1 << 40);
    far.start_bytes = 0;
    let row = (1u64 << 40) - 1;
    let place = Location {
        row,
        data_index: 5,
        in_chunk_bytes: 4095,
    };
    let offset_bytes = far.size_bytes - 1;
    assert_eq!(far.locate(offset_bytes), place);
    assert_eq!(far.volume_offset_bytes(place), offset_bytes);
    assert_eq!(far.parity_slot(row), Some(Slot(6 - (row % 7) as u8)));
    assert_eq!(far.member_offset_bytes(row, 4095), far.component_bytes - 1);
}

#[test]
fn a_mirror_may_end_in_a_short_row() {
    let mut mirror = shape(Level::Raid1, 2, MIRROR_ROW_BYTES, 3);
    mirror.component_bytes -= 4096;
    mirror.size_bytes -= 4096;
    let mirror = Geometry::new(mirror).expect("a valid geometry");
    assert_eq!(mirror.rows(), 3);
    assert_eq!(mirror.row_height_bytes(1), MIRROR_ROW_BYTES);
    assert_eq!(mirror.row_height_bytes(2), MIRROR_ROW_BYTES - 4096);
}

#[test]
fn impossible_geometries_are_refused() {
    let good = shape(Level::Raid5, 4, 4096, 8);
    let refused = |change: fn(&mut Geometry)| {
        let mut shape = good;
        change(&mut shape);
        Geometry::new(shape).expect_err("an impossible geometry")
    };
    for (level, members, sentence) in [
        (Level::Raid5, 2, "RAID 5 needs 3 to 64 drives, not 2"),
        (Level::Raid5, 65, "RAID 5 needs 3 to 64 drives, not 65"),
        (Level::Raid0, 0, "RAID 0 needs 1 to 64 drives, not 0"),
        (Level::Raid1, 1, "RAID 1 needs 2 to 64 drives, not 1"),
        (
            Level::Raid10,
            5,
            "RAID 10 needs an even number of drives from 4 to 64, not 5",
        ),
    ] {
        let mut shape = good;
        (shape.level, shape.members) = (level, members);
        let error = Geometry::new(shape).expect_err("an impossible geometry");
        assert_eq!(error.to_string(), sentence);
    }
    assert_eq!(
        refused(|shape| shape.chunk_bytes = 12 << 10),
        GeometryError::Chunk
    );
    assert_eq!(
        refused(|shape| shape.chunk_bytes = 2 << 10),
        GeometryError::Chunk
    );
    assert_eq!(
        refused(|shape| shape.chunk_bytes = 2 << 20),
        GeometryError::Chunk
    );
    assert_eq!(
        refused(|shape| shape.block_bytes = 1024),
        GeometryError::Block
    );
    assert_eq!(refused(|shape| shape.size_bytes = 0), GeometryError::Size);
    assert_eq!(
        refused(|shape| shape.size_bytes += 512),
        GeometryError::Size
    );
    assert_eq!(refused(|shape| shape.size_bytes -= 1), GeometryError::Size);
    assert_eq!(
        refused(|shape| shape.start_bytes = 100),
        GeometryError::Size
    );
    assert_eq!(
        refused(|shape| shape.component_bytes -= 512),
        GeometryError::Size
    );
    assert_eq!(
        refused(|shape| shape.component_bytes = !4095),
        GeometryError::Size
    );
}

#[test]
fn survival_is_what_brute_force_says() {
    for (level, members) in [
        (Level::Raid0, 1),
        (Level::Raid0, 4),
        (Level::Raid1, 2),
        (Level::Raid1, 5),
        (Level::Raid10, 4),
        (Level::Raid10, 8),
        (Level::Raid5, 3),
        (Level::Raid5, 8),
    ] {
        let shape = shape(level, members, 4096, u64::from(members));
        for present in 0..1u64 << members {
            let lost = u32::from(members) - present.count_ones();
            let held = |row: u64, index: u8| {
                let computed = level == Level::Raid5 && lost <= 1;
                shape.data_slots(row, index).0 & present != 0 || computed
            };
            let all_held = (0..shape.rows())
                .all(|row| (0..shape.data_members()).all(|index| held(row, index)));
            assert_eq!(
                shape.survives(SlotSet(present)),
                all_held,
                "{level} {present:b}"
            );
        }
    }
}

#[test]
fn every_byte_range_of_a_member_holds_one_chunk_of_the_volume() {
    for (level, members) in [
        (Level::Raid0, 3),
        (Level::Raid1, 3),
        (Level::Raid10, 6),
        (Level::Raid5, 5),
    ] {
        let shape = shape(level, members, MIRROR_ROW_BYTES, 12);
        let mut taken = HashSet::new();
        let mut offset_bytes = 0;
        while offset_bytes < shape.size_bytes {
            let place = shape.locate(offset_bytes);
            assert_eq!(place.in_chunk_bytes, 0);
            let on_member = shape.member_offset_bytes(place.row, 0);
            assert!(on_member >= shape.start_bytes);
            assert!(
                on_member + u64::from(shape.chunk_bytes)
                    <= shape.start_bytes + shape.component_bytes
            );
            for slot in shape.data_slots(place.row, place.data_index).iter() {
                assert!(slot.0 < members);
                assert!(taken.insert((slot, on_member)), "{slot:?} is taken twice");
                assert_eq!(shape.data_index(place.row, slot), Some(place.data_index));
            }
            offset_bytes += u64::from(shape.chunk_bytes);
        }
        for row in 0..shape.rows() {
            if let Some(parity) = shape.parity_slot(row) {
                assert!(taken.insert((parity, shape.member_offset_bytes(row, 0))));
                assert_eq!(shape.data_index(row, parity), None);
            }
        }
        assert_eq!(
            taken.len() as u64,
            shape.rows() * u64::from(members),
            "{level} leaves holes"
        );
    }
}

#[test]
fn owners_reach_every_shard_and_never_share_a_parity_member() {
    for (level, members) in [(Level::Raid5, 4), (Level::Raid5, 7), (Level::Raid10, 4)] {
        let shape = shape(level, members, 4096, 64);
        for shards in 1..=members {
            let rows = 0..shape.rows();
            let owners: HashSet<_> = rows.clone().map(|row| shape.owner(row, shards)).collect();
            assert_eq!(owners.len(), usize::from(shards));
            assert!(owners.iter().all(|owner| owner.0 < shards));
            let pairs: HashSet<_> = rows
                .filter_map(|row| Some((shape.parity_slot(row)?, shape.owner(row, shards))))
                .collect();
            let parity_slots = if level == Level::Raid5 {
                usize::from(members)
            } else {
                0
            };
            assert_eq!(pairs.len(), parity_slots);
        }
    }
}

#[test]
fn a_band_is_a_whole_part_of_its_chunk_and_bounds_the_scratch_of_a_plan() {
    for (level, members, chunk_bytes, band_bytes) in [
        (Level::Raid5, 4, 64 << 10, 64 << 10),
        (Level::Raid5, 4, 1 << 20, 128 << 10),
        (Level::Raid10, 4, 1 << 20, 1 << 20),
        (Level::Raid10, 20, 1 << 20, 256 << 10),
        (Level::Raid10, 64, 1 << 20, 128 << 10),
    ] {
        let shape = shape(level, members, chunk_bytes, 3);
        assert_eq!(shape.band_bytes(), band_bytes, "{level} of {members}");
        assert_eq!(shape.bands(), 3 * u64::from(chunk_bytes / band_bytes));
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..Default::default() })]

    #[test]
    fn locating_is_invertible(shape in shapes(), at: u64) {
        let offset_bytes = at % shape.size_bytes;
        let place = shape.locate(offset_bytes);
        prop_assert!(place.row < shape.rows());
        prop_assert!(place.data_index < shape.data_members());
        prop_assert!(place.in_chunk_bytes < shape.row_height_bytes(place.row));
        prop_assert_eq!(shape.volume_offset_bytes(place), offset_bytes);
        prop_assert_eq!(shape.row_bytes(), u64::from(shape.chunk_bytes) * u64::from(shape.data_members()));
    }

    #[test]
    fn the_slots_of_a_row_are_dealt_without_rest(shape in shapes(), row: u64) {
        let row = row % shape.rows();
        let mut rest = SlotSet::all(shape.members);
        if let Some(parity) = shape.parity_slot(row) {
            rest = rest.without(parity);
        }
        for data_index in 0..shape.data_members() {
            let slots = shape.data_slots(row, data_index);
            prop_assert_eq!(slots.0 & !rest.0, 0);
            rest = SlotSet(rest.0 & !slots.0);
        }
        prop_assert_eq!(rest, SlotSet(0));
    }
}
