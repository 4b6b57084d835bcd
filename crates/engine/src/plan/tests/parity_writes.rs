//! Snapshots of RAID 5 writes. With four members the parity of row 0 is on member 3, of row 1 on 2.

use super::*;
use crate::plan::PIECES_MAX;
use crate::plan::parity::parity_write;

/// A write to `row` of `shape`, not durable.
fn write<'a>(
    shape: &'a Geometry,
    row: u64,
    pieces: &'a [Piece],
    view: RowView,
) -> impl FnOnce(&mut Plan) -> Result<(), NotEnoughMembers> + 'a {
    move |plan| parity_write(plan, shape, row, pieces, &view, false)
}

#[test]
fn small_writes() {
    let four = shape(Level::Raid5, 4);
    let healthy = RowView::healthy(4);
    assert_plan!(
        "raid5_small_write_modifies",
        &four,
        write(&four, 1, &[piece(0, 4, 8, 0)], healthy)
    );
    assert_plan!(
        "raid5_small_write_behind_parity",
        &four,
        write(&four, 1, &[piece(2, 0, 4, 0)], healthy)
    );
    let three = shape(Level::Raid5, 3);
    assert_plan!(
        "raid5_small_write_of_three_members_reconstructs",
        &three,
        write(&three, 0, &[piece(0, 4, 8, 0)], RowView::healthy(3))
    );
    let block = Piece {
        data_index: 1,
        low_bytes: 512,
        high_bytes: 1024,
        buffer: Buffer(0),
    };
    assert_plan!(
        "raid5_one_block_of_512",
        &four,
        write(&four, 0, &[block], healthy)
    );
    assert_plan!("raid5_durable_write", &four, |plan: &mut Plan| {
        parity_write(plan, &four, 1, &[piece(0, 4, 8, 0)], &healthy, true)
    });
}

#[test]
fn large_writes() {
    let four = shape(Level::Raid5, 4);
    let healthy = RowView::healthy(4);
    let full = [piece(0, 0, 16, 0), piece(1, 0, 16, 16), piece(2, 0, 16, 32)];
    assert_plan!("raid5_full_stripe", &four, write(&four, 1, &full, healthy));
    let chunk = [piece(1, 0, 16, 0)];
    assert_plan!("raid5_one_chunk", &four, write(&four, 0, &chunk, healthy));
    let two = [piece(0, 0, 16, 0), piece(1, 0, 16, 16)];
    assert_plan!(
        "raid5_two_of_three_chunks_reconstruct",
        &four,
        write(&four, 0, &two, healthy)
    );
    let eight = shape(Level::Raid5, 8);
    let wide = [piece(0, 0, 16, 0), piece(1, 0, 16, 16)];
    assert_plan!(
        "raid5_two_of_seven_chunks_modify",
        &eight,
        write(&eight, 0, &wide, RowView::healthy(8))
    );
}

#[test]
fn pieces_that_do_not_line_up() {
    let four = shape(Level::Raid5, 4);
    let healthy = RowView::healthy(4);
    let crossing = [piece(0, 12, 16, 0), piece(1, 0, 8, 4)];
    assert_plan!(
        "raid5_write_across_a_chunk_border",
        &four,
        write(&four, 0, &crossing, healthy)
    );
    let overlapping = [piece(0, 0, 12, 0), piece(1, 8, 16, 12)];
    assert_plan!(
        "raid5_three_bands",
        &four,
        write(&four, 0, &overlapping, healthy)
    );
    let head = [piece(0, 4, 16, 0), piece(1, 0, 16, 12), piece(2, 0, 16, 28)];
    assert_plan!(
        "raid5_full_stripe_without_its_head",
        &four,
        write(&four, 0, &head, healthy)
    );
    let merged = [piece(0, 8, 12, 0), piece(0, 0, 4, 40), piece(0, 4, 8, 20)];
    assert_plan!(
        "raid5_touching_pieces_in_any_order",
        &four,
        write(&four, 0, &merged, healthy)
    );
    let gap = [piece(0, 0, 4, 0), piece(0, 12, 16, 4)];
    assert_plan!(
        "raid5_gap_inside_a_chunk",
        &four,
        write(&four, 0, &gap, healthy)
    );
    let sixteen = [
        piece(0, 0, 8, 0),
        piece(0, 8, 16, 64),
        piece(1, 0, 16, 8),
        piece(2, 0, 4, 24),
        piece(2, 4, 16, 80),
    ];
    assert_plan!(
        "raid5_full_stripe_of_five_pieces",
        &four,
        write(&four, 0, &sixteen, healthy)
    );
}

#[test]
fn a_member_lost() {
    let four = shape(Level::Raid5, 4);
    let lost = |slot: u8| RowView::healthy(4).without(Slot(slot));
    let one = [piece(0, 4, 8, 0)];
    assert_plan!("raid5_parity_lost", &four, write(&four, 1, &one, lost(2)));
    assert_plan!(
        "raid5_covered_chunk_lost",
        &four,
        write(&four, 1, &one, lost(0))
    );
    assert_plan!(
        "raid5_uncovered_chunk_lost",
        &four,
        write(&four, 1, &one, lost(1))
    );
    let two = [piece(0, 0, 16, 0), piece(1, 0, 16, 16)];
    assert_plan!(
        "raid5_uncovered_chunk_lost_forces_modify",
        &four,
        write(&four, 1, &two, lost(3))
    );
    let full = [piece(0, 0, 16, 0), piece(1, 0, 16, 16), piece(2, 0, 16, 32)];
    assert_plan!(
        "raid5_full_stripe_member_lost",
        &four,
        write(&four, 1, &full, lost(1))
    );
    let mixed = [piece(0, 0, 8, 0), piece(1, 4, 12, 8)];
    assert_plan!(
        "raid5_lost_chunk_covered_in_part",
        &four,
        write(&four, 0, &mixed, lost(0))
    );
    let two_lost = lost(0).without(Slot(1));
    assert_plan!(
        "raid5_two_members_lost",
        &four,
        write(&four, 1, &one, two_lost)
    );
    let full_two_lost = write(&four, 1, &full, two_lost);
    assert_plan!("raid5_full_stripe_two_members_lost", &four, full_two_lost);
    let with_parity = lost(2).without(Slot(1));
    assert_plan!(
        "raid5_parity_and_another_lost",
        &four,
        write(&four, 1, &one, with_parity)
    );
}

#[test]
fn a_member_in_between() {
    let four = shape(Level::Raid5, 4);
    let one = [piece(0, 4, 8, 0)];
    let filling = view(4, |view| without(&mut view.readable, 0));
    assert_plan!(
        "raid5_covered_chunk_writable_only",
        &four,
        write(&four, 1, &one, filling)
    );
    let filling = view(4, |view| without(&mut view.readable, 2));
    assert_plan!(
        "raid5_parity_writable_only",
        &four,
        write(&four, 1, &one, filling)
    );
    let shadowed = view(4, |view| view.shadowed = SlotSet(0b0101));
    assert_plan!(
        "raid5_data_and_parity_shadowed",
        &four,
        write(&four, 1, &one, shadowed)
    );
}

#[test]
fn parity_not_established() {
    let four = shape(Level::Raid5, 4);
    let one = [piece(0, 4, 8, 0)];
    let unsynced = view(4, |view| view.in_sync = false);
    assert_plan!(
        "raid5_unsynced_reconstructs",
        &four,
        write(&four, 1, &one, unsynced)
    );
    let parity_lost = unsynced.without(Slot(2));
    assert_plan!(
        "raid5_unsynced_parity_lost",
        &four,
        write(&four, 1, &one, parity_lost)
    );
    let uncovered_lost = unsynced.without(Slot(1));
    assert_plan!(
        "raid5_unsynced_uncovered_chunk_lost",
        &four,
        write(&four, 1, &one, uncovered_lost)
    );
}

#[test]
fn as_many_pieces_as_there_may_be_are_one_write() {
    let four = shape(Level::Raid5, 4);
    let blocks = (four.chunk_bytes / 512) as usize;
    // Two whole chunks, block by block, each from a place of its own.
    let pieces: Vec<Piece> = (0..2 * blocks)
        .map(|at| Piece {
            data_index: (at / blocks) as u8,
            low_bytes: (at % blocks) as u32 * 512,
            high_bytes: (at % blocks) as u32 * 512 + 512,
            buffer: Buffer((2 * blocks - at) as u64 * 512),
        })
        .collect();
    assert_eq!(pieces.len(), PIECES_MAX);
    let mut plan = Plan::default();
    let healthy = RowView::healthy(4);
    parity_write(&mut plan, &four, 0, &pieces, &healthy, false).expect("a plan");
    let bytes_to = |slot: u8| -> u64 {
        let steps = plan.steps().iter();
        let writes = steps.filter(|step| matches!(step.kind, StepKind::Write { .. }));
        writes
            .filter(|step| step.slot == Slot(slot))
            .map(|step| step.length_bytes)
            .sum()
    };
    let chunk = u64::from(four.chunk_bytes);
    assert_eq!([0, 1, 2, 3].map(bytes_to), [chunk, chunk, 0, chunk]);
}
