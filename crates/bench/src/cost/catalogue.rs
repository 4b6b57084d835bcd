//! All scenes: those that give the prices, and mixes that only check them.
//!
//! Every level has the same kinds of scenes, if it supports them. They differ in members, sizes and queue depths, so
//! that the prices of a request, a plan, a command and a turn can be told apart.

use super::scene::{Scene, Work};
use super::world::{Asks, Order};
use engine::layout::Level;
use engine::limits::MIRROR_ROW_BYTES;
use engine::request::Operation;

/// Chunk size of the arrays, if the scene gives none; mirrors have no chunks.
pub(super) const CHUNK_BYTES: u32 = 64 << 10;

/// All levels with their usual numbers.
pub(super) const LEVELS: [(Level, u8); 4] = [
    (Level::Raid0, 0),
    (Level::Raid1, 1),
    (Level::Raid10, 10),
    (Level::Raid5, 5),
];

/// Counters that no scene increases. A hung drive fails once, and the memory that it held is returned once; a bitmap is
/// written once per region of 64 MiB; copies are made equal once after a crash.
pub(super) const UNPRICED: [&str; 4] =
    ["abandoned", "returned", "bitmap_writes", "reads_made_equal"];

/// The scenes that give the price of the world itself.
pub(super) fn of_the_world() -> Vec<Scene> {
    let alone = |commands| Scene {
        name: format!("world-{commands}"),
        work: Work::WorldAlone { commands },
        ..scene("", Level::Raid0, 1, Work::Idle)
    };
    vec![alone(1), alone(4)]
}

/// The scenes that give the prices of a level.
pub(super) fn of(level: Level) -> Vec<Scene> {
    let (least, more): (u8, u8) = match level {
        Level::Raid0 | Level::Raid10 | Level::Raid5 => (4, 8),
        Level::Raid1 => (2, 3),
    };
    let mut scenes = Vec::new();
    for members in [least, more] {
        scenes.extend(requests(level, members));
    }
    let misuse = Work::Requests(asks(Operation::Read, 512 + 256, 8));
    scenes.push(scene("misuse", level, least, misuse));
    scenes.push(scene("idle", level, least, Work::Idle));
    let marks = Asks {
        when_clean: true,
        depth: 1,
        ..asks(Operation::Write, 4096, 1)
    };
    scenes.push(scene("marks", level, least, Work::Requests(marks)));
    if level == Level::Raid0 {
        return scenes;
    }
    for members in [least, more] {
        scenes.extend(redundant(level, members));
    }
    if level == Level::Raid5 {
        scenes.extend([least, more].into_iter().flat_map(logged));
    }
    let write = Work::Requests(asks(Operation::Write, 4096, 32));
    scenes.push(Scene {
        shards: 2,
        ..scene("two-shards-write", level, least, write)
    });
    scenes
}

/// Mixes with another width, size and depth than any scene that gives prices. They show how well the prices predict.
pub(super) fn checks(level: Level) -> Vec<Scene> {
    let members = match level {
        Level::Raid0 | Level::Raid10 | Level::Raid5 => 6,
        Level::Raid1 => 4,
    };
    let mix = |name: &str, read_percent, block_bytes, depth| {
        let asked = Asks {
            read_percent,
            ..asks(Operation::Write, block_bytes, depth)
        };
        scene(name, level, members, Work::Requests(asked))
    };
    let small = |name: &str| mix(name, 70, 8192, 16);
    let mut scenes = vec![
        small("check-mix-8k"),
        mix("check-mix-128k", 50, 128 << 10, 8),
        Scene {
            chunk_bytes: 16 << 10,
            ..mix("check-mix-of-small-chunks", 30, 64 << 10, 12)
        },
    ];
    if level != Level::Raid0 {
        scenes.push(Scene {
            failed: Some(2),
            ..small("check-mix-degraded")
        });
    }
    if level == Level::Raid5 {
        scenes.push(Scene {
            logged: true,
            ..small("check-mix-logged")
        });
        let in_order = Asks {
            order: Order::Sequential,
            ..asks(Operation::Write, 16 << 10, 24)
        };
        let work = Work::Requests(in_order);
        scenes.push(scene("check-in-order-write", level, members, work));
    }
    scenes
}

/// The scene called `name`.
pub(super) fn find(name: &str) -> Option<Scene> {
    let levels = LEVELS.into_iter().map(|(level, _)| level);
    levels
        .flat_map(|level| of(level).into_iter().chain(checks(level)))
        .chain(of_the_world())
        .find(|scene| scene.name == name)
}

/// The scenes of every level, with all members present.
fn requests(level: Level, members: u8) -> Vec<Scene> {
    let row_bytes = match level {
        Level::Raid1 => MIRROR_ROW_BYTES,
        Level::Raid0 => CHUNK_BYTES * u32::from(members),
        Level::Raid10 => CHUNK_BYTES * u32::from(members) / 2,
        Level::Raid5 => CHUNK_BYTES * u32::from(members - 1),
    };
    let mut scenes = Vec::new();
    for (name, operation) in [("read", Operation::Read), ("write", Operation::Write)] {
        for (size, block_bytes, depth) in [
            ("4k", 4096, 32),
            ("4k-alone", 4096, 1),
            ("row", row_bytes, 4),
            ("rows", 2 * row_bytes, 4),
        ] {
            let work = Work::Requests(asks(operation, block_bytes, depth));
            scenes.push(scene(&format!("{name}-{size}"), level, members, work));
        }
    }
    let trim = asks(Operation::Trim, row_bytes, 4);
    scenes.push(scene("trim", level, members, Work::Requests(trim)));
    let flush = asks(Operation::Flush, 0, 4);
    scenes.push(scene("flush", level, members, Work::Requests(flush)));
    scenes
}

/// The scenes of levels with redundancy.
fn redundant(level: Level, members: u8) -> Vec<Scene> {
    let work = |operation, order| {
        Work::Requests(Asks {
            order,
            ..asks(operation, 4096, 32)
        })
    };
    let mut scenes = Vec::new();
    for (name, operation) in [("read", Operation::Read), ("write", Operation::Write)] {
        let random = work(operation, Order::Random);
        scenes.push(Scene {
            failed: Some(1),
            ..scene(&format!("degraded-{name}"), level, members, random)
        });
        scenes.push(Scene {
            has_bad_blocks: true,
            ..scene(&format!("bad-blocks-{name}"), level, members, random)
        });
    }
    for (name, order) in [
        ("crowded-write", Order::Crowded),
        ("pairs-write", Order::Pairs),
        ("in-order-write", Order::Sequential),
    ] {
        scenes.push(scene(name, level, members, work(Operation::Write, order)));
    }
    for (name, rebuild, matches) in [
        ("rebuild", true, true),
        ("scrub", false, true),
        ("mismatching-scrub", false, false),
    ] {
        scenes.push(scene(name, level, members, Work::Job { rebuild, matches }));
    }
    scenes
}

/// Writes with a write-hole log: RAID 5 only.
fn logged(members: u8) -> Vec<Scene> {
    let row_bytes = CHUNK_BYTES * u32::from(members - 1);
    let sizes = [("4k", 4096, 32), ("64k", 65_536, 8), ("row", row_bytes, 4)];
    let scene = |(name, block_bytes, depth)| Scene {
        logged: true,
        ..scene(
            &format!("logged-write-{name}"),
            Level::Raid5,
            members,
            Work::Requests(asks(Operation::Write, block_bytes, depth)),
        )
    };
    sizes.into_iter().map(scene).collect()
}

/// A client with requests at random offsets.
pub(super) fn asks(operation: Operation, block_bytes: u32, depth: u64) -> Asks {
    Asks {
        operation,
        read_percent: 0,
        order: Order::Random,
        block_bytes,
        depth,
        when_clean: false,
    }
}

fn scene(name: &str, level: Level, members: u8, work: Work) -> Scene {
    let number = LEVELS.iter().find(|(of, _)| *of == level);
    let number = number.map_or(0, |(_, number)| *number);
    Scene {
        name: format!("raid{number}-of-{members}-{name}"),
        level,
        members,
        chunk_bytes: CHUNK_BYTES,
        shards: 1,
        failed: None,
        has_bad_blocks: false,
        logged: false,
        work,
    }
}
