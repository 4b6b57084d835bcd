//! Requests of one shard's own clients.

use crate::flood::{BLOCK_BYTES, CHECK_EVERY_TURNS, Flooded, two_floods};
use crate::memory::{Array, MIB, geometry, record};
use engine::control::record::LogArea;
use engine::event::Event;
use engine::layout::Level;
use engine::limits::{LOG_ENTRIES_MAX, PARTS_MAX, PLANS_MAX, REQUESTS_MAX};
use engine::options::Options;
use engine::request::Operation;

const FLOOD: u64 = 100 * REQUESTS_MAX as u64;

#[test]
fn requests_of_mirrors_and_of_parity() {
    for (level, members, blocks_each) in [(Level::Raid10, 4, 3), (Level::Raid5, 4, 1)] {
        let shape = geometry(level, members, 4 << 10, 256);
        let mut flooded = Flooded::new(shape, 1);
        let flood = |flooded: &mut Flooded| {
            let places = flooded.blocks() - blocks_each;
            for at in 0..FLOOD {
                match at % 3 {
                    0 => flooded.write(0, at * 7 % places, blocks_each as u32),
                    _ => flooded.read(0, at * 5 % places),
                }
            }
        };
        two_floods(&mut flooded, flood, |most| {
            let most = most[0];
            // Requests that need no slot take plans first.
            assert!(most.requests >= REQUESTS_MAX - PLANS_MAX, "{level:?}");
            assert!(most.requests <= REQUESTS_MAX && most.plans <= PLANS_MAX);
            assert!(most.requests_waiting as u64 > 98 * FLOOD / 100, "{level:?}");
            assert!(most.stalled > 0, "{level:?}: plans never ran out");
        });
    }
}

/// With more requests outstanding than there are plans every one waits for room. It needs no plan when it has waited,
/// and the volume knows afterwards that nothing is being written.
#[test]
fn requests_of_one_command_need_no_plan_after_they_have_waited() {
    // So many rows that requests under way seldom overlap.
    for (level, members, rows) in [(Level::Raid0, 4, 950), (Level::Raid10, 4, 1900)] {
        let shape = geometry(level, members, 4 << 10, rows);
        let mut flooded = Flooded::new(shape, 1);
        let places = flooded.blocks();
        for at in 0..FLOOD / 4 {
            if at % 3 == 0 {
                flooded.write(0, at * 7 % places, 1);
            } else {
                flooded.read(0, at * 5 % places);
            }
            while flooded.unanswered() == REQUESTS_MAX {
                flooded.turn();
            }
        }
        flooded.answer_all();
        assert!(flooded.most[0].stalled > REQUESTS_MAX / 3, "{level:?}");
        let stats = flooded.array.shards[0].engine.stats();
        let planned = stats.plans_direct + stats.plans_write;
        // Those are mirrored writes to blocks that another write is under way to.
        assert!(planned < FLOOD / 40, "{level:?}: {planned} plans");
        if level == Level::Raid10 {
            flooded.array.wait_ms(10_000);
            let is_clean = |event: &Event| matches!(event, Event::DirtyMark { dirty: false, .. });
            assert!(flooded.array.has_event(is_clean));
        }
    }
}

#[test]
fn writes_of_one_row_and_one_place() {
    // Two rows, so that every write meets others.
    let shape = geometry(Level::Raid5, 4, 64 << 10, 2);
    let mut flooded = Flooded::new(shape, 1);
    let flood = |flooded: &mut Flooded| {
        // The pieces of a row are carried out one by one: a quarter of the other tests' flood takes as long.
        for at in 0..FLOOD / 4 {
            // Half of all writes are of one place.
            let first = if at % 2 == 0 { 5 } else { at * 7 % 88 };
            flooded.write(0, first, 1 + (at % 8) as u32);
        }
    };
    two_floods(&mut flooded, flood, |most| {
        assert_eq!(most[0].requests, REQUESTS_MAX);
        assert!(most[0].parts >= REQUESTS_MAX && most[0].parts <= PARTS_MAX);
    });
    let conflicts = flooded.array.shards[0].engine.stats().conflicts;
    assert!(
        conflicts > FLOOD / 4,
        "only {conflicts} had to wait for others"
    );
}

/// The last of many writes to one place is what stays.
#[test]
fn writes_of_one_place_keep_their_order() {
    let shape = geometry(Level::Raid5, 3, 16 << 10, 12);
    let mut array = Array::new(record(shape, 0, None), 1, 5, Options::default());
    array.shared.borrow_mut().latency_ns = 0;
    array.check_every_turns = CHECK_EVERY_TURNS;
    const BUFFERS: u64 = 16 * MIB / 512;
    let all = array.allocate(16 * MIB);
    let stamp = |number: u64| [(number % BUFFERS).to_le_bytes(); 64].concat();
    (0..BUFFERS).for_each(|number| array.fill(all.at(number as u32 * 512), &stamp(number)));
    for number in 0..FLOOD {
        let buffer = all.at((number % BUFFERS) as u32 * 512);
        array.submit(0, Operation::Write, 512, 512, buffer);
    }
    let mut left = FLOOD;
    while left > 0 {
        array.turn();
        left -= array.shared.borrow_mut().completions.drain(..).len() as u64;
    }
    assert_eq!(array.read(0, 512, 512), Ok(stamp(FLOOD - 1)));
    assert_eq!(array.read(0, 0, 512), Ok(vec![0; 512]));
}

#[test]
fn pieces_of_long_requests() {
    // Each write of the whole volume has 340 pieces, so that parts run out long before requests do.
    let shape = geometry(Level::Raid5, 3, 4 << 10, 170);
    let mut flooded = Flooded::new(shape, 1);
    let whole = flooded.blocks();
    let flood = |flooded: &mut Flooded| {
        for _ in 0..100 * PARTS_MAX as u64 / whole {
            flooded.write(0, 0, whole as u32);
        }
    };
    two_floods(&mut flooded, flood, |most| {
        assert!(
            most[0].parts > PARTS_MAX - 512 && most[0].parts <= PARTS_MAX,
            "{most:?}"
        );
        assert!(most[0].stalled > 0);
    });
}

#[test]
fn plans_that_need_scratch_memory() {
    // One write to a row each; there is scratch memory for a part of them.
    let shape = geometry(Level::Raid5, 4, 16 << 10, 320);
    let mut flooded = Flooded::new(shape, 1);
    let rows = flooded.blocks() / 12;
    let flood = |flooded: &mut Flooded| {
        // Each takes 64 KiB, so there is memory for 256 at a time.
        for at in 0..100 * 256 {
            // From the second block of a row, over the border of two chunks: three reads and two writes.
            flooded.write(0, at % rows * 12 + 1, 5);
        }
    };
    two_floods(&mut flooded, flood, |most| {
        assert!(most[0].plans <= PLANS_MAX);
        assert!(most[0].scratch_waiting > 0, "{most:?}");
    });
}

#[test]
fn entries_of_a_log() {
    let shape = geometry(Level::Raid5, 4, 4 << 10, 1200);
    let mut record = record(shape, 0, None);
    record.volumes[0].log = Some(LogArea {
        offset_bytes: shape.start_bytes + shape.component_bytes,
        length_bytes: MIB as u32,
    });
    let mut flooded = Flooded::over(Array::new(record, 1, 5, Options::default()));
    let blocks = flooded.blocks();
    let flood = |flooded: &mut Flooded| {
        // One of three blocks of a row each, so that rows are not written whole.
        for at in 0..100 * LOG_ENTRIES_MAX as u64 * 4 {
            flooded.write(0, at * 3 % blocks, 1);
        }
    };
    two_floods(&mut flooded, flood, |most| {
        assert!(most[0].log_waiting > LOG_ENTRIES_MAX, "{most:?}");
        assert!(most[0].log_waiting <= PLANS_MAX);
    });
    let stats = *flooded.array.shards[0].engine.stats();
    let entries = stats.log_entries / stats.log_units;
    assert!(
        (8..=LOG_ENTRIES_MAX as u64).contains(&entries),
        "{entries} in a unit"
    );
    assert_eq!(flooded.array.shared.borrow().early_units, 0);
}

#[test]
fn reads_that_must_be_reconstructed() {
    let shape = geometry(Level::Raid5, 3, 4 << 10, 1200);
    let mut flooded = Flooded::new(shape, 1);
    (0..flooded.blocks()).for_each(|block| flooded.write(0, block, 1));
    flooded.answer_all();
    let flood = |flooded: &mut Flooded| {
        // Nothing of the first drive can be read before it has been written again.
        let end = flooded.array.shape.start_bytes + flooded.array.shape.component_bytes;
        flooded.array.shared.borrow_mut().disks[0].bad = (0..end)
            .step_by(BLOCK_BYTES as usize)
            .map(|low| (low, low + u64::from(BLOCK_BYTES)))
            .collect();
        let blocks = flooded.blocks();
        (0..100 * PLANS_MAX as u64).for_each(|at| flooded.read_again(0, at * 7 % blocks));
    };
    two_floods(&mut flooded, flood, |most| {
        assert!(
            most[0].parts > 100 && most[0].parts <= PARTS_MAX,
            "{most:?}"
        );
        assert!(most[0].plans <= PLANS_MAX);
    });
    assert!(flooded.array.shards[0].engine.stats().plans_reconstruct >= 3 * 1000);
}
