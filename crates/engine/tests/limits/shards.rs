//! Requests whose rows belong to other shards, and what waits for the controller.

use crate::flood::{Flooded, two_floods};
use crate::memory::{Array, geometry, record};
use engine::control::message::Command;
use engine::event::Event;
use engine::layout::Level;
use engine::limits::{FORWARDED_MAX, LEFTOVERS_MAX, PLANS_MAX, REQUESTS_MAX};
use engine::occupancy::Occupancy;
use engine::options::Options;
use engine::units::MemberId;

const FLOOD: u64 = 100 * FORWARDED_MAX as u64;

#[test]
fn pieces_for_other_shards() {
    let shape = geometry(Level::Raid5, 4, 4 << 10, 256);
    let mut flooded = Flooded::new(shape, 4);
    let flood = |flooded: &mut Flooded| {
        let places = flooded.blocks() - 2;
        // All by one shard, over borders of chunks and rows: most pieces are for other shards.
        (0..FLOOD).for_each(|at| flooded.write(0, at * 7 % places, 2));
    };
    two_floods(&mut flooded, flood, |most| {
        assert_eq!(most[0].forwards, FORWARDED_MAX, "sent to others");
        assert!(most[0].forwards_waiting > 0);
        assert!(most[0].requests_waiting as u64 > 98 * FLOOD / 100);
        for other in &most[1..] {
            assert!(other.forwarded > 500 && other.forwarded <= FORWARDED_MAX);
        }
    });
}

/// Requests without a plan that other shards carry out use up their slots without using up plans: a local one that
/// comes then must not keep the lock that it was about to use.
#[test]
fn small_requests_for_other_shards() {
    let shape = geometry(Level::Raid1, 2, 4 << 10, 2048);
    let mut flooded = Flooded::new(shape, 2);
    let flood = |flooded: &mut Flooded| {
        let blocks = flooded.blocks();
        let row_blocks = (1 << 20) / 4096;
        let of_other = |block: &u64| block / row_blocks % 2 == 1;
        let others: Vec<u64> = (0..blocks).filter(of_other).collect();
        for at in 0..FLOOD as usize {
            flooded.write(0, others[at * 7 % others.len()], 1);
            if at % 64 == 0 {
                flooded.write(0, at as u64 / 64 * 2 % row_blocks, 1);
            }
        }
    };
    two_floods(&mut flooded, flood, |most| {
        assert_eq!(most[0].singles, PLANS_MAX);
        assert!(most[1].forwarded >= PLANS_MAX && most[1].forwarded <= FORWARDED_MAX);
    });
}

/// A request without payload can concern any number of rows.
#[test]
fn zeroes_of_whole_volumes() {
    const ROWS: u64 = 1024;
    let shape = geometry(Level::Raid5, 3, 4 << 10, ROWS);
    let mut flooded = Flooded::new(shape, 3);
    let flood = |flooded: &mut Flooded| {
        let blocks = flooded.blocks();
        (0..blocks).for_each(|block| flooded.write(block as usize % 3, block, 1));
        flooded.answer_all();
        for at in 0..100 * FORWARDED_MAX as u64 * 3 / ROWS / 2 {
            flooded.zero(at as usize % 3, 0, blocks as u32);
        }
    };
    two_floods(&mut flooded, flood, |most| {
        for (shard, most) in most.iter().enumerate() {
            assert_eq!(most.forwards, FORWARDED_MAX, "{shard}: {most:?}");
            assert!(most.forwards_waiting > 0, "{shard}");
            assert!(most.forwarded_waiting <= 2 * FORWARDED_MAX, "{shard}");
        }
        let has_waiting = |most: &Occupancy| most.forwarded_waiting > 0;
        assert!(most.iter().any(has_waiting), "{most:?}");
    });
}

#[test]
fn first_writes_after_idle() {
    let shape = geometry(Level::Raid5, 4, 4 << 10, 256);
    let mut flooded = Flooded::new(shape, 2);
    let flood = |flooded: &mut Flooded| {
        // The volume is clean, and its dirty mark is held back.
        flooded.array.wait_ms(10_000);
        let shared = flooded.array.shared.borrow();
        let record = shared.disks[0].record.as_ref();
        assert!(
            record.is_none_or(|record| !record.volumes[0].dirty),
            "{:?}",
            shared.events
        );
        drop(shared);
        flooded.array.shared.borrow_mut().hold_persists = true;
        let blocks = flooded.blocks();
        (0..FLOOD).for_each(|at| flooded.write((at % 2) as usize, at * 7 % blocks, 1));
        (0..100).for_each(|_| flooded.turn());
        for shard in &flooded.array.shards {
            let occupancy = shard.engine.occupancy();
            assert_eq!(occupancy.blocked, REQUESTS_MAX, "{occupancy:?}");
            assert!(occupancy.requests_waiting as u64 > 48 * FLOOD / 100);
        }
        flooded.array.release_persists();
    };
    two_floods(&mut flooded, flood, |_| ());
}

#[test]
fn acknowledgements_of_what_a_member_missed() {
    let shape = geometry(Level::Raid1, 2, 4 << 10, 4093);
    // Each time it is another drive of another array that fails.
    let mut rooms = Vec::new();
    for _ in 0..2 {
        let array = Array::new(record(shape, 0, None), 1, 5, Options::default());
        let mut flooded = Flooded::over(array);
        flooded.write(0, 0, 1);
        flooded.answer_all();
        flooded.array.shared.borrow_mut().hold_persists = true;
        let blocks = flooded.blocks();
        for at in 0..100 * PLANS_MAX as u64 {
            flooded.write(0, at * 7 % blocks, 1);
        }
        flooded.array.shared.borrow_mut().disks[1].gone = true;
        (0..2000).for_each(|_| flooded.turn());
        for shard in &flooded.array.shards {
            let occupancy = shard.engine.occupancy();
            assert!(occupancy.acknowledgements > PLANS_MAX / 2, "{occupancy:?}");
            assert!(occupancy.acknowledgements <= PLANS_MAX, "{occupancy:?}");
        }
        flooded.array.release_persists();
        flooded.answer_all();
        let recorded = Event::FailureRecorded(MemberId(1));
        assert!(flooded.array.has_event(|event| *event == recorded));
        flooded.verify();
        rooms.push(flooded.rooms());
        flooded.array.command(Command::Rate(0)).unwrap();
    }
    assert_eq!(rooms[0], rooms[1]);
}

/// Commands that a hung drive holds are abandoned, and requests that come after its failure never go to it.
#[test]
fn requests_to_a_drive_that_hangs() {
    let shape = geometry(Level::Raid1, 2, 4 << 10, 4093);
    let mut flooded = Flooded::new(shape, 1);
    flooded.write(0, 0, 1);
    flooded.answer_all();
    flooded.array.hang(1);
    let blocks = flooded.blocks();
    for at in 0..100 * PLANS_MAX as u64 {
        flooded.write(0, at * 7 % blocks, 1);
    }
    (0..1000).for_each(|_| flooded.turn());
    assert_eq!(flooded.most[0].singles, PLANS_MAX - 8, "the drive has all");
    // Past the deadline, and the grace after it.
    flooded.array.wait_ms(32_000);
    flooded.answer_all();
    let left_behind = flooded.array.left_behind();
    assert!(
        left_behind > PLANS_MAX / 2 && left_behind <= LEFTOVERS_MAX,
        "{left_behind}"
    );
    flooded.verify();
    flooded.array.unhang(1);
    (0..1000).for_each(|_| flooded.turn());
    assert_eq!(flooded.array.left_behind(), 0);
    flooded.verify();
}
