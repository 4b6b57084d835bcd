//! Snapshots of degraded reads and medium error repairs on RAID 5.

use super::*;
use crate::plan::parity::{parity_reconstruct, parity_reconstruct_write_back};

#[test]
fn degraded_reads() {
    let four = shape(Level::Raid5, 4);
    let payload = Buffer(u64::from(32 * KIB));
    let lost = RowView::healthy(4).without(Slot(1));
    assert_plan!("raid5_degraded_read", &four, |plan: &mut Plan| {
        parity_reconstruct(plan, &four, Slot(1), range(1, 4, 8), &lost, payload)
    });
    let two_lost = lost.without(Slot(0));
    assert_plan!(
        "raid5_degraded_read_impossible",
        &four,
        |plan: &mut Plan| {
            parity_reconstruct(plan, &four, Slot(1), range(1, 4, 8), &two_lost, payload)
        }
    );
    let unsynced = view(4, |view| view.in_sync = false);
    assert_plan!("raid5_degraded_read_unsynced", &four, |plan: &mut Plan| {
        parity_reconstruct(plan, &four, Slot(1), range(1, 4, 8), &unsynced, payload)
    });
}

#[test]
fn repairs() {
    let four = shape(Level::Raid5, 4);
    let payload = Buffer(0);
    let healthy = RowView::healthy(4);
    assert_plan!("raid5_repair_of_data", &four, |plan: &mut Plan| {
        let range = range(0, 0, 8);
        parity_reconstruct_write_back(plan, &four, Slot(0), range, &healthy, (payload, true))
    });
    let unsynced = view(4, |view| view.in_sync = false);
    assert_plan!(
        "raid5_repair_of_parity_unsynced",
        &four,
        |plan: &mut Plan| {
            let range = range(0, 0, 8);
            parity_reconstruct_write_back(plan, &four, Slot(3), range, &unsynced, (payload, false))
        }
    );
    let lost = healthy.without(Slot(0));
    assert_plan!("raid5_repair_of_a_lost_member", &four, |plan: &mut Plan| {
        let range = range(0, 0, 8);
        parity_reconstruct_write_back(plan, &four, Slot(0), range, &lost, (payload, false))
    });
}
