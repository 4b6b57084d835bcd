//! Random volumes in random trouble under random writes, compared byte by byte with a naive volume.

use super::model::Order;
use super::scene::{BLOCK, Scene, Trouble};
use crate::layout::{Geometry, Level};
use crate::limits::MIRROR_ROW_BYTES;
use crate::plan::{PIECES_MAX, Range};
use crate::units::Slot;
use proptest::prelude::*;

/// Something that happens to the volume. Its numbers are reduced to what the volume has.
#[derive(Clone, Debug)]
enum Event {
    Write {
        row: u64,
        pieces: Vec<(u8, u32, u32)>,
        scatter: bool,
        backward: bool,
    },
    Zero {
        row: u64,
        low: u32,
        length: u32,
        data_index: Option<u8>,
    },
    Repair {
        row: u64,
        slot: u8,
        low: u32,
        length: u32,
    },
}

fn events() -> impl Strategy<Value = Event> {
    let length = prop_oneof![1..9u32, 1..65u32, Just(64u32)];
    let piece = (any::<u8>(), 0..64u32, length.clone());
    let pieces = prop_oneof![
        proptest::collection::vec(piece.clone(), 1..4),
        proptest::collection::vec(piece, 1..24),
    ];
    prop_oneof![
        8 => (any::<u64>(), pieces, any::<bool>(), any::<bool>()).prop_map(
            |(row, pieces, scatter, backward)| Event::Write { row, pieces, scatter, backward }
        ),
        1 => (any::<u64>(), 0..64u32, length.clone(), any::<Option<u8>>()).prop_map(
            |(row, low, length, data_index)| Event::Zero { row, low, length, data_index }
        ),
        1 => (any::<u64>(), any::<u8>(), 0..64u32, length).prop_map(
            |(row, slot, low, length)| Event::Repair { row, slot, low, length }
        ),
    ]
}

fn shapes() -> impl Strategy<Value = Geometry> {
    (0..4u8, 1..=8u8, 12..=15u32, 1..=5u64, 0..3u64).prop_map(
        |(level, members, chunk_bits, rows, start)| {
            let (level, members) = match level {
                0 => (Level::Raid0, members),
                1 => (Level::Raid1, members.max(2)),
                2 => (Level::Raid10, members.max(4) & !1),
                _ => (Level::Raid5, members.max(3)),
            };
            shape(
                level,
                members,
                (1 << chunk_bits, rows << chunk_bits),
                start * 4096,
            )
        },
    )
}

fn shape(
    level: Level,
    members: u8,
    (chunk_bytes, component_bytes): (u32, u64),
    start_bytes: u64,
) -> Geometry {
    let mut shape = Geometry {
        level,
        members,
        chunk_bytes,
        start_bytes,
        component_bytes,
        size_bytes: 0,
        block_bytes: BLOCK,
    };
    shape.size_bytes = component_bytes * u64::from(shape.data_members());
    Geometry::new(shape).expect("a valid geometry")
}

fn troubles(shape: &Geometry) -> impl Strategy<Value = Trouble> + use<> {
    let slots = (0..shape.members).prop_map(Slot);
    let marks = 0..=shape.rows();
    prop_oneof![
        Just(Trouble::None),
        slots.clone().prop_map(|slot| Trouble::Lost { slot }),
        (slots.clone(), marks.clone(), any::<bool>()).prop_map(|(slot, mark, receives_writes)| {
            Trouble::Rebuilding {
                slot,
                mark,
                receives_writes,
            }
        }),
        (marks.clone(), proptest::option::of(slots.clone()))
            .prop_map(|(mark, lost)| Trouble::Unsynced { mark, lost }),
        (slots, marks).prop_map(|(slot, mark)| Trouble::Shadowed { slot, mark }),
    ]
}

/// A range of blocks inside `row`.
fn clip(shape: &Geometry, row: u64, low: u32, length: u32) -> Range {
    let blocks = shape.row_height_bytes(row) / BLOCK;
    let low = low % blocks;
    let high = (low + length).min(blocks);
    Range {
        row,
        low_bytes: low * BLOCK,
        high_bytes: high * BLOCK,
    }
}

fn apply(scene: &mut Scene, event: &Event) {
    let shape = scene.shape;
    let rows = shape.rows();
    match event {
        Event::Write {
            row,
            pieces,
            scatter,
            backward,
        } => {
            let row = row % rows;
            let mut kept: Vec<(u8, u32, u32)> = Vec::new();
            for &(data_index, low, length) in pieces {
                let data_index = data_index % shape.data_members();
                let Range {
                    low_bytes,
                    high_bytes,
                    ..
                } = clip(&shape, row, low, length);
                let overlaps = |&(other, low, high): &(u8, u32, u32)| {
                    other == data_index && low < high_bytes && low_bytes < high
                };
                if !kept.iter().any(overlaps) {
                    kept.push((data_index, low_bytes, high_bytes));
                }
            }
            let order = if *backward {
                Order::Backward
            } else {
                Order::Forward
            };
            scene.write(row, &kept, *scatter, order);
        }
        Event::Zero {
            row,
            low,
            length,
            data_index,
        } => {
            let data_index = data_index.map(|index| index % shape.data_members());
            scene.zero(clip(&shape, row % rows, *low, *length), data_index);
        }
        Event::Repair {
            row,
            slot,
            low,
            length,
        } => {
            let range = clip(&shape, row % rows, *low, *length);
            scene.repair(Slot(slot % shape.members), range);
        }
    }
}

/// Runs `events`, ends the trouble, and lets the volume's own check find a planted error.
fn play(shape: Geometry, trouble: Trouble, events: &[Event], seed: u64) {
    let mut scene = Scene::new(shape, trouble, seed);
    scene.verify();
    for event in events {
        apply(&mut scene, event);
    }
    scene.verify();
    let healed = scene.heal();
    let hopeless = match trouble {
        Trouble::Lost { .. } | Trouble::Rebuilding { .. } => !shape.redundant(),
        Trouble::Unsynced { lost, .. } => lost.is_some(),
        Trouble::None | Trouble::Shadowed { .. } => false,
    };
    assert_eq!(healed, !hopeless);
    if healed {
        scene.verify();
        assert!(scene.consistent());
        let row = seed % shape.rows();
        let spoilt = (seed >> 8) as u32 % shape.row_height_bytes(row);
        scene.spoil(row, Slot((seed >> 40) as u8 % shape.members), spoilt);
        assert_eq!(scene.consistent(), !shape.redundant());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..Default::default() })]

    #[test]
    fn random_work_matches_a_naive_volume(
        (shape, trouble) in shapes().prop_flat_map(|shape| (Just(shape), troubles(&shape))),
        events in proptest::collection::vec(events(), 1..10),
        seed: u64,
    ) {
        play(shape, trouble, &events, seed);
    }
}

/// Every block of the chunks in turn, so that a row has [`PIECES_MAX`] pieces or as many as it takes.
fn many_pieces(row: u64) -> Event {
    let piece = |number: u32| ((number * 7 % 63) as u8, number % 5, 1 + number % 3);
    let pieces = (0..PIECES_MAX as u32).map(piece).collect();
    Event::Write {
        row,
        pieces,
        scatter: true,
        backward: false,
    }
}

#[test]
fn sixty_four_members_match_a_naive_volume() {
    for level in [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5] {
        let shape = shape(level, 64, (4096, 3 * 4096), 4096);
        let events = [
            many_pieces(0),
            many_pieces(1),
            Event::Zero {
                row: 2,
                low: 0,
                length: 3,
                data_index: None,
            },
            Event::Repair {
                row: 1,
                slot: 63,
                low: 0,
                length: 8,
            },
        ];
        for trouble in [
            Trouble::None,
            Trouble::Lost { slot: Slot(63) },
            Trouble::Lost { slot: Slot(0) },
            Trouble::Shadowed {
                slot: Slot(62),
                mark: 1,
            },
            Trouble::Unsynced {
                mark: 0,
                lost: None,
            },
        ] {
            play(shape, trouble, &events, 64);
        }
    }
}

#[test]
fn a_short_last_mirror_row_matches_a_naive_volume() {
    let component_bytes = u64::from(MIRROR_ROW_BYTES) + 24 * 1024;
    let shape = shape(Level::Raid1, 2, (0, component_bytes), 512);
    assert_eq!(shape.rows(), 2);
    let pieces = vec![(0, 40, 64), (0, 0, 7)];
    let events = [0, 1].map(|row| Event::Write {
        row,
        pieces: pieces.clone(),
        scatter: false,
        backward: false,
    });
    for trouble in [
        Trouble::Lost { slot: Slot(0) },
        Trouble::Unsynced {
            mark: 1,
            lost: None,
        },
        Trouble::Rebuilding {
            slot: Slot(1),
            mark: 1,
            receives_writes: true,
        },
    ] {
        play(shape, trouble, &events, 1);
    }
}
