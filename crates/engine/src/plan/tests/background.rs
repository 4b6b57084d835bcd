//! Snapshots of rebuild, resync and check.

use super::*;
use crate::plan::maintain::{check, rebuild, resync};

#[test]
fn rebuilds() {
    let fill = |shape: Geometry, slot: u8, view: RowView, shadow: bool| {
        move |plan: &mut Plan| rebuild(plan, &shape, range(1, 0, 16), Slot(slot), &view, shadow)
    };
    let raid5 = shape(Level::Raid5, 4);
    let healthy = RowView::healthy(4);
    let lost = |slot: u8| healthy.without(Slot(slot));
    assert_plan!("raid5_rebuild", &raid5, fill(raid5, 3, lost(3), false));
    let unsynced = view(4, |view| view.in_sync = false);
    let data_lost = unsynced.without(Slot(3));
    assert_plan!(
        "raid5_rebuild_unsynced_data",
        &raid5,
        fill(raid5, 3, data_lost, false)
    );
    let parity_lost = unsynced.without(Slot(2));
    assert_plan!(
        "raid5_rebuild_unsynced_parity",
        &raid5,
        fill(raid5, 2, parity_lost, false)
    );
    assert_plan!(
        "raid5_replace_copies",
        &raid5,
        fill(raid5, 1, healthy, true)
    );
    let unreadable = view(4, |view| without(&mut view.readable, 1));
    assert_plan!(
        "raid5_replace_of_an_unreadable_drive",
        &raid5,
        fill(raid5, 1, unreadable, true)
    );
    let raid10 = shape(Level::Raid10, 4);
    assert_plan!("raid10_rebuild", &raid10, fill(raid10, 2, lost(2), false));
    let pair_lost = lost(2).without(Slot(3));
    assert_plan!(
        "raid10_rebuild_pair_lost",
        &raid10,
        fill(raid10, 2, pair_lost, false)
    );
    let raid0 = shape(Level::Raid0, 4);
    assert_plan!(
        "raid0_replace_copies",
        &raid0,
        fill(raid0, 3, healthy, true)
    );
    assert_plan!("raid0_rebuild", &raid0, fill(raid0, 3, lost(3), false));
}

#[test]
fn resyncs() {
    let establish = |shape: Geometry, view: RowView| {
        move |plan: &mut Plan| resync(plan, &shape, range(1, 0, 16), &view)
    };
    let unsynced = |members: u8| view(members, |view| view.in_sync = false);
    let raid5 = shape(Level::Raid5, 4);
    assert_plan!("raid5_resync", &raid5, establish(raid5, unsynced(4)));
    let lost = unsynced(4).without(Slot(0));
    assert_plan!("raid5_resync_member_lost", &raid5, establish(raid5, lost));
    let lost = unsynced(4).without(Slot(2));
    assert_plan!("raid5_resync_parity_lost", &raid5, establish(raid5, lost));
    let raid10 = shape(Level::Raid10, 6);
    let mut lost = unsynced(6).without(Slot(2));
    lost.shadowed = SlotSet(1 << 5);
    assert_plan!(
        "raid10_resync_member_lost",
        &raid10,
        establish(raid10, lost)
    );
    let raid1 = shape(Level::Raid1, 3);
    let mut second = unsynced(3);
    without(&mut second.readable, 0);
    assert_plan!(
        "raid1_resync_from_the_lowest_readable",
        &raid1,
        establish(raid1, second)
    );
    let raid0 = shape(Level::Raid0, 2);
    assert_plan!("raid0_resync", &raid0, establish(raid0, unsynced(2)));
}

#[test]
fn checks() {
    let compare = |shape: Geometry, view: RowView| {
        move |plan: &mut Plan| check(plan, &shape, range(1, 0, 16), &view)
    };
    let raid5 = shape(Level::Raid5, 4);
    let healthy = RowView::healthy(4);
    assert_plan!("raid5_check", &raid5, compare(raid5, healthy));
    assert_plan!(
        "raid5_check_member_lost",
        &raid5,
        compare(raid5, healthy.without(Slot(1)))
    );
    let raid10 = shape(Level::Raid10, 4);
    assert_plan!("raid10_check", &raid10, compare(raid10, healthy));
    assert_plan!(
        "raid10_check_member_lost",
        &raid10,
        compare(raid10, healthy.without(Slot(1)))
    );
    let raid1 = shape(Level::Raid1, 4);
    assert_plan!(
        "raid1_check_member_lost",
        &raid1,
        compare(raid1, healthy.without(Slot(0)))
    );
    let raid0 = shape(Level::Raid0, 4);
    assert_plan!("raid0_check", &raid0, compare(raid0, healthy));
}
