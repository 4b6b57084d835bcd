//! The array of a run: the record that the engine gets, as if the array had just been assembled.

use engine::claims::Claims;
use engine::control::bad_blocks::BadBlocks;
use engine::control::record::{
    LogArea, MemberRecord, MemberState, Record, SlotRecord, SyncKind, SyncRecord, VolumeRecord,
};
use engine::layout::{Geometry, GeometryError, Level};
use engine::options::Options;
use engine::setup::Setup;
use engine::shard::Engine;
use engine::turn::Shard;
use engine::units::{Buffer, MemberId, Nanos, ShardId, Slot};

use super::world::TimedWorld;

/// Space after the data on each drive, for metadata and logs.
const RESERVE_BYTES: u64 = 16 << 20;
/// Space for the log on each member, after the data.
const LOG_AREA_BYTES: u32 = 1 << 20;
/// The initial position of a rebuild is a multiple of this, which is whole rows for any chunk size.
const CHECKPOINT_BYTES: u64 = 1 << 30;
/// Scratch memory of plans: only addresses, without storage.
const SCRATCH: (Buffer, u64) = (Buffer(1 << 44), 256 << 20);
const ZEROS: Buffer = Buffer(1 << 45);

/// What kind of array runs.
#[derive(Clone, Debug)]
pub struct Array {
    /// RAID level.
    pub level: Level,
    /// Drives.
    pub members: u8,
    /// Bytes of a chunk; RAID 1 has none and ignores it.
    pub chunk_bytes: u32,
    /// Bytes of each drive that the volume uses.
    pub component_bytes: u64,
    /// With the write-hole log (RAID 5).
    pub logged: bool,
    /// Whether the drives have a volatile cache; flushes are sent only to such drives.
    pub volatile_cache: bool,
    /// The slot whose drive is missing.
    pub missing: Option<u8>,
    /// The slot whose drive is new and being filled.
    pub rebuilding: Option<Rebuilding>,
    /// Cores that run the engine.
    pub shards: u8,
}

/// A rebuild under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuilding {
    /// The slot that is filled.
    pub slot: u8,
    /// Its limit, in bytes of each drive per second; 0 is unlimited.
    pub rate_bytes_per_s: u64,
}

impl Array {
    /// The layout.
    ///
    /// # Errors
    ///
    /// When the level cannot have this many drives, or chunks of this size.
    pub fn geometry(&self) -> Result<Geometry, GeometryError> {
        let mut shape = Geometry {
            level: self.level,
            members: self.members,
            chunk_bytes: self.chunk_bytes,
            start_bytes: 0,
            component_bytes: self.component_bytes,
            size_bytes: 1,
            block_bytes: 512,
        };
        if self.level == Level::Raid1 {
            shape.chunk_bytes = engine::limits::MIRROR_ROW_BYTES;
        }
        shape.size_bytes = shape.component_bytes * u64::from(shape.data_members());
        Geometry::new(shape)
    }

    /// The position of a rebuild when a run begins: the middle, so that half of the array is already redundant.
    fn rebuilt_bytes(&self) -> u64 {
        self.component_bytes / 2 / CHECKPOINT_BYTES * CHECKPOINT_BYTES
    }

    /// The record of the array with this layout.
    #[must_use]
    pub fn record(&self, geometry: Geometry) -> Record {
        let is_missing = |slot: u8| self.missing == Some(slot);
        let is_being_filled = |slot| {
            self.rebuilding
                .is_some_and(|rebuilding| rebuilding.slot == slot)
        };
        let member = |slot| {
            if is_missing(slot) {
                return MemberRecord::ABSENT;
            }
            MemberRecord {
                state: MemberState::Active,
                size_bytes: geometry.component_bytes + RESERVE_BYTES,
                volatile_cache: self.volatile_cache,
                ..MemberRecord::ABSENT
            }
        };
        let slot = |slot| SlotRecord {
            member: (!is_missing(slot)).then_some(MemberId(slot)),
            current: !is_missing(slot) && !is_being_filled(slot),
        };
        let sync = self.rebuilding.map(|rebuilding| SyncRecord {
            kind: SyncKind::Rebuild(Slot(rebuilding.slot)),
            done_bytes: self.rebuilt_bytes(),
        });
        let volume = VolumeRecord {
            geometry,
            not_started: false,
            read_only: false,
            dirty: false,
            slots: (0..self.members).map(slot).collect(),
            sync,
            then_resync: false,
            log: self.logged.then_some(LogArea {
                offset_bytes: geometry.component_bytes,
                length_bytes: LOG_AREA_BYTES,
            }),
            bitmap: None,
        };
        Record {
            generation: 1,
            members: (0..self.members).map(member).collect(),
            volumes: vec![volume],
            bad_blocks: BadBlocks::default(),
        }
    }

    /// The engine's shards, at time zero.
    ///
    /// # Errors
    ///
    /// As [`Array::geometry`].
    pub fn shards(&self, options: Options) -> Result<Vec<Shard<TimedWorld>>, GeometryError> {
        let record = self.record(self.geometry()?);
        let engines = self.engines(&record, options).into_iter();
        Ok(engines
            .map(|engine| Shard::new(engine, TimedWorld::default()))
            .collect())
    }

    /// The engines of an array with this `record`, at time zero.
    #[must_use]
    pub fn engines(&self, record: &Record, options: Options) -> Vec<Engine> {
        let options = Options {
            rate_bytes_per_s: self.rebuilding.map_or(0, |one| one.rate_bytes_per_s),
            ..options
        };
        let claims = Claims::new();
        let engine = |number| {
            let setup = Setup {
                shard: ShardId(number),
                shards: self.shards,
                record: record.clone(),
                scratch: SCRATCH,
                zeros: ZEROS,
                options,
                claims: claims.clone(),
            };
            Engine::new(setup, Nanos(0))
        };
        (0..self.shards).map(engine).collect()
    }
}
