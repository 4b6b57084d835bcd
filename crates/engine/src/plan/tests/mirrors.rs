//! Snapshots of the levels without parity, and of zeroes, discards and flushes on all levels.

use super::*;
use crate::plan::mirror::{flush, mirror_equal, mirror_repair, mirror_write, zero_chunk, zero_row};
use crate::plan::parity::parity_write;

const DISCARD: StepKind = StepKind::Discard;
const ZERO: StepKind = StepKind::Zero {
    keep_allocated: true,
};

#[test]
fn writes() {
    let write = |shape: Geometry, pieces: Vec<Piece>, view: RowView, fua: bool| {
        move |plan: &mut Plan| {
            pieces
                .iter()
                .try_for_each(|piece| mirror_write(plan, &shape, 1, piece, &view, fua))
        }
    };
    let two = RowView::healthy(2);
    let four = RowView::healthy(4);
    let raid0 = shape(Level::Raid0, 4);
    let pair = vec![piece(1, 4, 16, 0), piece(2, 0, 8, 12)];
    assert_plan!(
        "raid0_write",
        &raid0,
        write(raid0, pair.clone(), four, false)
    );
    assert_plan!(
        "raid0_member_lost",
        &raid0,
        write(raid0, pair, four.without(Slot(2)), false)
    );
    let raid10 = shape(Level::Raid10, 4);
    let pair = vec![piece(0, 12, 16, 0), piece(1, 0, 4, 4)];
    assert_plan!(
        "raid10_write",
        &raid10,
        write(raid10, pair.clone(), four, false)
    );
    let lost = four.without(Slot(0));
    assert_plan!(
        "raid10_member_lost",
        &raid10,
        write(raid10, pair.clone(), lost, true)
    );
    let lost = lost.without(Slot(1));
    assert_plan!(
        "raid10_pair_lost",
        &raid10,
        write(raid10, pair, lost, false)
    );
    let raid1 = shape(Level::Raid1, 2);
    let merged = vec![piece(0, 0, 4, 0), piece(0, 4, 8, 32)];
    assert_plan!(
        "raid1_two_pieces_join",
        &raid1,
        write(raid1, merged.clone(), two, false)
    );
    let shadowed = view(2, |view| view.shadowed = SlotSet(0b10));
    assert_plan!(
        "raid1_shadowed",
        &raid1,
        write(raid1, merged.clone(), shadowed, true)
    );
    let filling = view(2, |view| without(&mut view.readable, 1));
    assert_plan!(
        "raid1_member_filling",
        &raid1,
        write(raid1, merged.clone(), filling, false)
    );
    let unreadable = view(2, |view| {
        view.readable = SlotSet(0b01);
        view.writable = SlotSet(0b10);
    });
    assert_plan!(
        "raid1_nothing_readable",
        &raid1,
        write(raid1, merged, unreadable, false)
    );
}

#[test]
fn repairs() {
    let repair = |shape: Geometry, slot: u8, view: RowView| {
        move |plan: &mut Plan| {
            mirror_repair(
                plan,
                &shape,
                Slot(slot),
                range(1, 0, 4),
                &view,
                Buffer(0x2000),
            )
        }
    };
    let raid10 = shape(Level::Raid10, 4);
    let healthy = RowView::healthy(4);
    assert_plan!("raid10_repair", &raid10, repair(raid10, 3, healthy));
    let alone = healthy.without(Slot(2));
    assert_plan!(
        "raid10_repair_without_a_partner",
        &raid10,
        repair(raid10, 3, alone)
    );
    let raid1 = shape(Level::Raid1, 3);
    assert_plan!(
        "raid1_repair",
        &raid1,
        repair(raid1, 0, RowView::healthy(3).without(Slot(1)))
    );
    let raid0 = shape(Level::Raid0, 2);
    assert_plan!(
        "raid0_repair",
        &raid0,
        repair(raid0, 0, RowView::healthy(2))
    );
}

#[test]
fn copies_that_may_differ() {
    let equal = |shape: Geometry, (source, data_index): (u8, u8), view: RowView| {
        move |plan: &mut Plan| {
            let source = (Slot(source), data_index);
            mirror_equal(plan, &shape, source, range(1, 0, 4), &view, Buffer(0x2000));
            Ok(())
        }
    };
    let raid10 = shape(Level::Raid10, 4);
    let shadowed = view(4, |view| view.shadowed = SlotSet(0b1000));
    assert_plan!("raid10_equal", &raid10, equal(raid10, (2, 1), shadowed));
    let raid1 = shape(Level::Raid1, 3);
    let three = RowView::healthy(3);
    assert_plan!("raid1_equal", &raid1, equal(raid1, (0, 0), three));
    let alone = three.without(Slot(1)).without(Slot(2));
    assert_plan!("raid1_equal_alone", &raid1, equal(raid1, (0, 0), alone));
}

#[test]
fn zeroes_and_discards() {
    let raid10 = shape(Level::Raid10, 4);
    let lost = view(4, |view| view.shadowed = SlotSet(0b1000)).without(Slot(2));
    assert_plan!("raid10_zero_chunk", &raid10, |plan: &mut Plan| {
        zero_chunk(plan, &raid10, 1, range(1, 4, 12), &lost, ZERO)
    });
    let raid5 = shape(Level::Raid5, 4);
    let healthy = RowView::healthy(4);
    assert_plan!("raid5_discard_two_rows", &raid5, |plan: &mut Plan| {
        zero_row(plan, &raid5, range(1, 0, 16), &healthy, DISCARD)?;
        zero_row(plan, &raid5, range(2, 0, 16), &healthy, DISCARD)
    });
    assert_plan!("raid5_zero_chunk_refused", &raid5, |plan: &mut Plan| {
        zero_chunk(plan, &raid5, 1, range(1, 0, 16), &healthy, ZERO)
    });
    let two_lost = healthy.without(Slot(0)).without(Slot(1));
    assert_plan!(
        "raid5_zero_row_two_members_lost",
        &raid5,
        |plan: &mut Plan| { zero_row(plan, &raid5, range(1, 0, 16), &two_lost, ZERO) }
    );
}

#[test]
fn flushes() {
    let raid5 = shape(Level::Raid5, 3);
    assert_plan!("flush_of_members", &raid5, |plan: &mut Plan| {
        flush(plan, SlotSet(0b101), SlotSet(0));
        Ok(())
    });
    assert_plan!("flush_follows_writes", &raid5, |plan: &mut Plan| {
        let shadowed = view(3, |view| view.shadowed = SlotSet(0b010));
        parity_write(plan, &raid5, 0, &[piece(1, 0, 4, 0)], &shadowed, false)?;
        flush(plan, SlotSet(0), SlotSet(0b010));
        Ok(())
    });
}
