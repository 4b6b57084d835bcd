//! The scenes in which the power is cut: for each level, one small array for each kind of operation.
//!
//! A scene is a history without faults. It begins with flushed old data everywhere, on an array that has become
//! clean again. Then the operation of the scene follows, and its instants are examined.

use crate::history::{
    Access, Act, Action, Ask, Fault, History, Mode, Order, Topology, VolumeShape,
};
use engine::layout::Level;
use engine::request::Operation;
use std::ops::Range;

/// What is under way when the power is cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Kind {
    /// A full row is written.
    FullRow,
    /// Several parts of chunks are written at once, some across chunk borders.
    Partial,
    /// FUA and FLUSH among writes.
    Durable,
    /// Zeros are written.
    Zeroes,
    /// Parts of chunks are written under a write-intent bitmap, and its bits are cleared.
    Marked,
    /// Parts of chunks are written while a member is lost.
    Degraded,
    /// A rebuild onto a spare runs, under writes.
    Rebuild,
    /// A new drive joins a degraded array.
    Attach,
    /// The process starts after a power cut amid writes: logs are replayed and records rewritten.
    Start,
    /// As [`Kind::Start`], while a member is lost.
    StartDegraded,
    /// As [`Kind::Start`], with a write-intent bitmap.
    StartMarked,
    /// The process starts after a power cut amid an update of the records, and completes the update.
    StartUpdate,
    /// The process starts after a power cut amid a rebuild, and continues it.
    StartRebuild,
    /// The process starts after a power cut while a drive fails and a spare takes its place.
    StartSpare,
    /// The process starts with a drive that had dropped out before the power cut and lacks what the bitmap marks.
    StartReturn,
    /// A drive is failed under writes: the record changes.
    Metadata,
    /// As [`Kind::Metadata`], with a spare that takes the drive's place.
    SpareActivation,
    /// A drive is replaced in service, under writes.
    Replace,
    /// The process starts after a power cut while a drive was being replaced, or just had been.
    StartReplace,
    /// The array is being created.
    Create,
    /// The first write to a clean volume, until the volume is clean again.
    CleanAndDirty,
}

/// All kinds, in the order of reports.
pub const KINDS: [Kind; 21] = [
    Kind::FullRow,
    Kind::Partial,
    Kind::Durable,
    Kind::Zeroes,
    Kind::Marked,
    Kind::Degraded,
    Kind::Rebuild,
    Kind::Attach,
    Kind::Start,
    Kind::StartDegraded,
    Kind::StartMarked,
    Kind::StartUpdate,
    Kind::StartRebuild,
    Kind::StartSpare,
    Kind::StartReturn,
    Kind::StartReplace,
    Kind::Metadata,
    Kind::SpareActivation,
    Kind::Replace,
    Kind::Create,
    Kind::CleanAndDirty,
];

/// All levels, in the order of reports.
pub const LEVELS: [Level; 4] = [Level::Raid0, Level::Raid1, Level::Raid10, Level::Raid5];

impl Kind {
    /// Its name in reports and on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Kind::FullRow => "full-row",
            Kind::Partial => "partial",
            Kind::Durable => "durable",
            Kind::Zeroes => "zeroes",
            Kind::Marked => "bitmap",
            Kind::Degraded => "degraded",
            Kind::Rebuild => "rebuild",
            Kind::Attach => "attach",
            Kind::Start => "start",
            Kind::StartDegraded => "start-degraded",
            Kind::StartMarked => "start-bitmap",
            Kind::StartUpdate => "start-update",
            Kind::StartRebuild => "start-rebuild",
            Kind::StartSpare => "start-spare",
            Kind::StartReturn => "start-return",
            Kind::Metadata => "metadata",
            Kind::SpareActivation => "spare",
            Kind::Replace => "replace",
            Kind::StartReplace => "start-replace",
            Kind::Create => "create",
            Kind::CleanAndDirty => "clean",
        }
    }

    fn needs_redundancy(self) -> bool {
        !matches!(
            self,
            Kind::FullRow | Kind::Partial | Kind::Durable | Kind::Zeroes | Kind::Create
        )
    }

    fn is_marked(self) -> bool {
        matches!(self, Kind::Marked | Kind::StartMarked | Kind::StartReturn)
    }

    /// Whether a rebuild has to take several steps.
    fn is_rebuild(self) -> bool {
        matches!(self, Kind::Rebuild | Kind::StartRebuild)
    }

    fn has_spare(self) -> bool {
        self.is_rebuild() || matches!(self, Kind::SpareActivation | Kind::StartSpare)
    }

    /// Whether the scene is about a start.
    pub(super) fn is_start(self) -> bool {
        matches!(
            self,
            Kind::Start
                | Kind::StartDegraded
                | Kind::StartMarked
                | Kind::StartUpdate
                | Kind::StartRebuild
                | Kind::StartSpare
                | Kind::StartReturn
                | Kind::StartReplace
        )
    }

    /// Whether a member is lost before the scene.
    fn is_degraded(self) -> bool {
        matches!(self, Kind::Degraded | Kind::Attach | Kind::StartDegraded)
    }
}

const KIB: u64 = 1 << 10;
const MS: u64 = 1_000_000;
/// Chunk size of all arrays.
const CHUNK: u64 = 16 * KIB;
/// Bytes on each member.
const COMPONENT: u64 = 64 * KIB;
/// Bytes on each member where a rebuild has to take several steps.
const COMPONENT_OF_REBUILD: u64 = 512 * KIB;
/// Old data are written by requests of this size.
const REQUEST: u64 = 128 * KIB;
/// When old data are written.
const OLD_AT: u64 = 5 * MS;
/// When a drive is failed before the scene.
const FAIL_AT: u64 = 150 * MS;
/// When the scene begins.
const SCENE_AT: u64 = 400 * MS;
/// When a scene about a bitmap begins: the bits of the old data have been cleared.
const MARKED_SCENE_AT: u64 = 2_000 * MS;
/// How long it takes until the bits are cleared again: the engine checks them at intervals, and clears them at
/// the second check.
const MARKED_WINDOW: u64 = 1_000 * MS;
/// How long a volume is idle before it is marked clean.
const CLEAN_AFTER: u64 = 40 * MS;

/// How often bits of bitmaps are cleared, in scenes about bitmaps.
const CLEAR_REGIONS_EVERY: u64 = 8 * MS;

/// A scene. See the module's prose.
pub struct Scene {
    /// The level.
    pub level: Level,
    /// The kind of operation.
    pub kind: Kind,
    /// The array and what happens.
    pub history: History,
    /// The time in which instants are examined, in nanoseconds. In scenes about a start, the time in which the
    /// process before it is cut off.
    pub window: Range<u64>,
}

/// The scene of a level and a kind; `None` where the kind does not apply to the level.
#[must_use]
pub fn scene(level: Level, kind: Kind) -> Option<Scene> {
    if level == Level::Raid0 && kind.needs_redundancy() {
        return None;
    }
    if level == Level::Raid5 && kind == Kind::StartReturn {
        // A degraded RAID 5 without a log is refused after a power cut.
        return None;
    }
    let mut author = Author::new(level, kind);
    let now = if kind.is_marked() {
        MARKED_SCENE_AT
    } else {
        SCENE_AT
    };
    let row = author.row_bytes();
    let mut window = now..now + 20 * MS;
    match kind {
        Kind::FullRow => author.write(now, 0, row),
        Kind::Partial | Kind::Degraded => author.parts(now),
        Kind::Durable => author.durable(now),
        Kind::Zeroes => {
            author.ask(
                now,
                Operation::WriteZeroes {
                    keep_allocated: true,
                    only_if_fast: false,
                },
                false,
                0,
                row,
            );
            author.write(now + 20_000, row, 4 * KIB);
        }
        Kind::Marked => {
            author.parts(now);
            window.end = now + MARKED_WINDOW;
        }
        Kind::Attach => {
            author.act(now, Act::Order(Order::AddSpare));
            author.write(now + 200_000, 4 * KIB, 4 * KIB);
            author.write(now + 2 * MS, CHUNK, 8 * KIB);
            author.flush(now + 3 * MS);
        }
        Kind::Start | Kind::StartDegraded | Kind::StartMarked | Kind::StartReturn => {
            if kind == Kind::StartReturn {
                author.act(FAIL_AT, Act::Fault(Fault::DropOut(1)));
            }
            author.parts(now);
            // Amid the writes.
            window = now + 60_000..now + 400_000;
        }
        Kind::StartUpdate => {
            author.write(now, 4 * KIB, 4 * KIB);
            // While the dirty mark is written to one half of the members after the other.
            window = now + 10_000..now + 150_000;
        }
        Kind::Metadata | Kind::SpareActivation | Kind::StartSpare => {
            author.write(now, 4 * KIB, 4 * KIB);
            author.act(now + 30_000, Act::Order(Order::Fail(1)));
            author.write(now + 60_000, CHUNK, 8 * KIB);
            author.flush(now + 400_000);
            author.write(now + 3 * MS, 12 * KIB, 4 * KIB);
            if kind == Kind::StartSpare {
                window = now + 30_000..now + 2 * MS;
            }
        }
        Kind::Rebuild | Kind::StartRebuild => {
            author.act(now, Act::Order(Order::Fail(1)));
            author.write(now + 8 * MS, 4 * KIB, 4 * KIB);
            author.write(now + 8 * MS, author.size() / 2, 8 * KIB);
            author.flush(now + 9 * MS);
            window = now + 6 * MS..now + 120 * MS;
        }
        Kind::Replace | Kind::StartReplace => {
            let order = Order::Replace { volume: 0, slot: 1 };
            author.act(now, Act::Order(order));
            author.write(now + 60_000, CHUNK, 8 * KIB);
            author.flush(now + 400_000);
            author.write(now + 3 * MS, 4 * KIB, 4 * KIB);
            if kind == Kind::StartReplace {
                // From the copy until the old drive gets no more writes.
                window = now + 200_000..now + 1_600_000;
            }
        }
        Kind::Create => {}
        Kind::CleanAndDirty => {
            author.write(now, 4 * KIB, 4 * KIB);
            window.end = now + 2 * CLEAN_AFTER;
        }
    }
    Some(Scene {
        level,
        kind,
        history: author.history,
        window,
    })
}

struct Author {
    history: History,
}

impl Author {
    fn new(level: Level, kind: Kind) -> Author {
        let (members, component_bytes) = match level {
            Level::Raid0 => (3, COMPONENT),
            // The format counts the size of a RAID 1 in units of 128 KiB.
            Level::Raid1 => (2, 2 * COMPONENT),
            Level::Raid10 | Level::Raid5 if kind.is_rebuild() => (4, COMPONENT_OF_REBUILD),
            Level::Raid10 | Level::Raid5 => (4, COMPONENT),
        };
        let spares = u8::from(kind.has_spare());
        let topology = Topology {
            volumes: vec![VolumeShape {
                level,
                chunk_bytes: CHUNK as u32,
                component_bytes,
                born_in_sync: true,
                logged: level == Level::Raid5 && !kind.is_marked(),
                marked: kind.is_marked(),
            }],
            volatile: vec![true; usize::from(members + spares)],
            spares,
            clean_after_ns: CLEAN_AFTER,
            clear_regions_every_ns: if kind.is_marked() {
                CLEAR_REGIONS_EVERY
            } else {
                5_000 * MS
            },
            latency_ns: 20_000,
            spread_ns: 30_000,
            ..Topology::plain(members, Vec::new())
        };
        let mut author = Author {
            history: History {
                seed: 1,
                mode: Mode::Survivable,
                topology,
                access: Access::Engine,
                actions: Vec::new(),
            },
        };
        if kind != Kind::Create {
            for at in (0..author.size()).step_by(REQUEST as usize) {
                author.write(OLD_AT, at, REQUEST.min(author.size() - at));
            }
            author.flush(OLD_AT + 50 * MS);
        }
        if kind.is_degraded() {
            author.act(FAIL_AT, Act::Order(Order::Fail(1)));
        }
        author
    }

    fn size(&self) -> u64 {
        self.history.topology.size_bytes(0)
    }

    /// Bytes of data in a row; for a mirror, in one chunk.
    fn row_bytes(&self) -> u64 {
        CHUNK * self.history.topology.data_members(0)
    }

    fn act(&mut self, at_ns: u64, act: Act) {
        let number = self.history.actions.len() as u32 + 1;
        self.history.actions.push(Action { at_ns, act, number });
    }

    fn ask(&mut self, at_ns: u64, operation: Operation, fua: bool, offset_bytes: u64, length: u64) {
        self.act(
            at_ns,
            Act::Ask(Ask {
                connection: 0,
                volume: 0,
                operation,
                fua,
                offset_bytes,
                length_bytes: length as u32,
            }),
        );
    }

    fn write(&mut self, at_ns: u64, offset_bytes: u64, length: u64) {
        self.ask(at_ns, Operation::Write, false, offset_bytes, length);
    }

    fn flush(&mut self, at_ns: u64) {
        self.ask(at_ns, Operation::Flush, false, 0, 0);
    }

    /// Writes inside one chunk, across the border of two, and of less than 4 KiB.
    fn parts(&mut self, now: u64) {
        self.write(now, 4 * KIB, 4 * KIB);
        self.write(now + 2_000, CHUNK - 2 * KIB, 6 * KIB);
        self.write(now + 4_000, 2 * CHUNK + 512, 1536);
        // Over a write in flight, and again when that has ended.
        self.write(now + 100_000, 6 * KIB, 4 * KIB);
        self.write(now + 2 * MS, 5 * KIB, 2 * KIB);
    }

    fn durable(&mut self, now: u64) {
        self.write(now, 0, 4 * KIB);
        self.ask(now + 5_000, Operation::Write, true, CHUNK, 4 * KIB);
        self.flush(now + 600_000);
        self.write(now + 1_200_000, 2 * KIB, 4 * KIB);
        self.ask(now + 1_800_000, Operation::Write, true, 8 * KIB, KIB);
    }
}
