//! Shards that write each other's rows: mirrors stay equal whichever shards write, read and repair at once.

use crate::memory::{Array, Random, geometry, record};
use engine::control::message::{Command, Message};
use engine::layout::{Geometry, Level};
use engine::options::Options;
use engine::request::Operation;
use engine::units::{MemberId, VolumeId};

const BLOCK: u32 = 4096;

fn mirrors() -> [Geometry; 2] {
    [
        geometry(Level::Raid1, 2, 64 << 10, 16),
        geometry(Level::Raid10, 4, 16 << 10, 24),
    ]
}

/// A few writes of all shards to the same blocks, and reads that have to be repaired, all at once.
fn clash(array: &mut Array, random: &mut Random) {
    let mut tags = Vec::new();
    for _ in 0..6 {
        let shard = random.below(array.shards.len() as u64) as usize;
        let offset = random.below(2) * u64::from(BLOCK);
        let buffer = array.allocate(u64::from(BLOCK));
        let operation = if random.below(3) > 0 {
            array.fill(buffer, &[random.next() as u8; BLOCK as usize]);
            Operation::Write
        } else {
            let start = array.shape.start_bytes + offset;
            let bad = (start, start + u64::from(BLOCK));
            array.shared.borrow_mut().disks[0].bad.push(bad);
            Operation::Read
        };
        tags.push(array.submit(shard, operation, offset, BLOCK, buffer));
        if random.below(2) == 0 {
            array.turn();
        }
    }
    for tag in tags {
        array.finish(tag).unwrap();
    }
    array.shared.borrow_mut().disks[0].bad.clear();
}

/// Whether the members of the first mirror hold the same in the blocks that clashes are about.
fn are_equal(array: &Array) -> bool {
    let start = array.shape.start_bytes as usize;
    let blocks = start..start + 2 * BLOCK as usize;
    let disks = &array.shared.borrow().disks;
    disks[0].bytes[blocks.clone()] == disks[1].bytes[blocks]
}

#[test]
fn shards_that_write_the_same_place_leave_equal_mirrors() {
    for shape in mirrors() {
        for seed in 0..10 {
            let shards = 2 + (seed % 2) as u8;
            let mut array = Array::new(record(shape, 0, None), shards, seed, Options::default());
            // These writes wait for the dirty mark, so that those of the clashes need not.
            for shard in 0..usize::from(shards) {
                array.write(shard, 0, &[1; BLOCK as usize]).unwrap();
            }
            let mut random = Random(seed);
            for round in 0..100 {
                clash(&mut array, &mut random);
                assert!(are_equal(&array), "{shape:?}, seed {seed}, round {round}");
            }
            // All requests were to row 0, which shard 0 owns.
            let elsewhere = array.shards[1].engine.stats().singles_write;
            assert!(elsewhere > 0, "shard 1 has asked the owner each time");
        }
    }
}

/// Whether a view with a job is on its way to shard 1.
fn job_is_sent(array: &Array) -> bool {
    let has_job = |message: &Message| match message {
        Message::View(view) => view.volumes[0].job.is_some(),
        _ => false,
    };
    array.shared.borrow().mail[1].iter().any(has_job)
}

fn turn(array: &mut Array, shard: usize) {
    array.shards[shard].turn();
    array.shared.borrow_mut().now += 10_000;
}

/// Shard 0 has begun to rebuild, and shard 1 does not know yet. What shard 1 writes has to reach the new drive.
#[test]
fn a_shard_that_does_not_know_of_a_rebuild_leaves_writing_to_the_owner() {
    for shape in mirrors() {
        let by_hand = Options {
            auto_rebuild: false,
            ..Options::default()
        };
        let mut array = Array::new(record(shape, 1, None), 2, 5, by_hand);
        array.command(Command::Fail(MemberId(1))).unwrap();
        for shard in 0..2 {
            array.write(shard, 0, &[1; BLOCK as usize]).unwrap();
        }
        let elsewhere = array.shards[1].engine.stats().singles_write;
        assert!(elsewhere > 0, "shard 1 has asked the owner");
        array.shared.borrow_mut().mail[0].push_back(Message::Command {
            ticket: 1,
            command: Command::Rebuild(VolumeId(0)),
        });
        // Shard 1 hears and confirms everything but the view with the job.
        for _ in 0..10_000 {
            turn(&mut array, 0);
            if !job_is_sent(&array) {
                turn(&mut array, 1);
            }
        }
        assert!(job_is_sent(&array), "no job has begun");
        let bands = array.shards[0].engine.stats().plans_background;
        assert!(bands > 0, "the job has not begun");
        let buffer = array.allocate(u64::from(BLOCK));
        array.fill(buffer, &[2; BLOCK as usize]);
        let tag = array.submit(1, Operation::Write, 0, BLOCK, buffer);
        assert_eq!(array.finish(tag), Ok(()));
        array.wait_for_job();
        assert_eq!(array.read(1, 0, BLOCK).unwrap(), [2; BLOCK as usize]);
        assert_eq!(array.scrub(false), 0, "{shape:?}");
    }
}
