//! Every maximum of the engine in one place. Pools are sized from these at start; nothing grows later.

use crate::units::Nanos;

/// Most slots of one volume. Slot sets are one machine word.
pub const VOLUME_MEMBERS_MAX: usize = 64;
/// Most drives of a container, spares and drives awaiting removal included.
pub const CONTAINER_MEMBERS_MAX: usize = 96;
/// Most volumes of a container (IMSM's platform ceiling is 2; without a platform a third may exist).
pub const VOLUMES_MAX: usize = 4;
/// Most shards of a container.
pub const SHARDS_MAX: usize = 16;

/// Smallest chunk in bytes.
pub const CHUNK_BYTES_MIN: u32 = 4 << 10;
/// Largest chunk in bytes.
pub const CHUNK_BYTES_MAX: u32 = 1 << 20;
/// The grain of range locks, bands and partial parity: 4 KiB.
pub const GRAIN_BYTES: u32 = 4 << 10;
/// Widest range of offsets in a chunk that one plan handles. Bounds a plan's scratch memory.
pub const BAND_BYTES_MAX: u32 = 128 << 10;
/// Most scratch memory that one background step over a mirrored row should need; bounds a mirror's band.
pub const MIRROR_STEP_BYTES_MAX: u32 = 8 << 20;
/// Row height of a level without chunks (RAID 1): the grain of ownership and of locks.
pub const MIRROR_ROW_BYTES: u32 = 1 << 20;

/// Most memory segments of one member I/O; the kernel's own limit is 1024.
pub const STEP_SEGMENTS_MAX: usize = 16;
/// Most bytes of one member I/O that merges neighbouring chunks.
pub const STEP_BYTES_MAX: u32 = 1 << 20;
/// Most bytes that one read plan covers; a longer request is read by several plans.
pub const READ_PLAN_BYTES_MAX: u64 = 2 << 20;

/// Client requests in flight per shard; more wait in line.
pub const REQUESTS_MAX: usize = 4096;
/// Pieces of other shards' requests in flight per shard. They have room of their own, because requests that wait for
/// each other's room would wait for ever. Also the most pieces of writes, trims and zeroes that a shard may have with
/// all other shards: one request without payload could be cut into any number of them.
pub const FORWARDED_MAX: usize = 4096;
/// Plans running at the same time per shard.
pub const PLANS_MAX: usize = 2048;
/// Plans per shard that ended although a failed member has not given their I/O back; further plans wait for their
/// I/O. Twice what can be under way when a member hangs.
pub const LEFTOVERS_MAX: usize = 2 * PLANS_MAX;
/// Pieces of clients' memory that such I/O may still use.
pub const PINS_MAX: usize = PARTS_MAX;
/// Most copies of a piece that are written without a plan; wider mirrors are planned.
pub const SINGLE_COPIES_MAX: usize = 4;
/// Pieces of requests that wait for, or run under, a row lock per shard.
pub const PARTS_MAX: usize = 8192;
/// Plans kept free for the controller and for work that others wait for.
pub(crate) const PLANS_RESERVED: usize = 8;
/// Parts kept free for reads that must be reconstructed.
pub(crate) const PARTS_RESERVED: usize = 256;
/// Parts that even those reads leave free.
pub(crate) const RECONSTRUCTIONS_LEAVE: usize = 16;
/// Bands per shard and job whose redundancy cannot be established; with more, the job is given up.
pub const UNSYNCED_BANDS_MAX: usize = 256;
/// For how many blocks of 128 KiB, per volume that is being synchronised, a shard remembers what its clients' reads
/// have made equal: 512 MiB, in 64 KiB of memory. A decision: several times what is read again and again while a
/// system comes up after a crash.
pub const EQUAL_BLOCKS_MAX: usize = 4096;
/// Sequential streams that a volume follows at the same time, to wait for the rest of their stripes.
pub const STREAMS_MAX: usize = 8;
/// Inputs that one turn of the shard loop reaps before it looks at outputs.
pub const REAP_MAX: usize = 256;

/// Bytes of the header of a unit of the write-hole log (the format's, as the next two).
pub const LOG_HEADER_BYTES: u32 = 4 << 10;
/// Most entries of a unit.
pub const LOG_ENTRIES_MAX: usize = 148;
/// Most bytes of partial parity of a unit.
pub const LOG_PARTIAL_PARITY_BYTES_MAX: u32 = 128 << 10;

/// Most entries of the bad-block log, all members together (the format's, as the next).
pub const BAD_BLOCK_ENTRIES_MAX: u64 = 254;
/// Most bytes that one entry covers: 256 sectors.
pub const BAD_BLOCK_ENTRY_BYTES_MAX: u64 = 256 * 512;

/// A member that has not answered for this long is failed.
pub const MEMBER_DEADLINE: Nanos = Nanos(30 * Nanos::SECOND.0);
/// A failed member is given this long to give its I/O back; then nobody waits for it any more.
pub const ABANDON_AFTER: Nanos = Nanos(500 * Nanos::MILLISECOND.0);
/// A shard that checks its deadlines later than it asked for by this much has stood still, and with it what carries
/// out its I/O. A decision: many times the delay on a busy machine, and little beside any deadline.
pub const STANDSTILL_MIN: Nanos = Nanos(100 * Nanos::MILLISECOND.0);
/// Most turns after a standstill in which answers are collected before deadlines are judged: what one shard can
/// have in flight comes in within these, [`REAP_MAX`] a turn.
pub const COLLECTING_TURNS_MAX: u16 = 256;
/// How long after the first failure the controller waits for others before it records any: a sweep of deadlines,
/// which every shard makes within 250 ms, and a little for the messages.
pub const FAILURES_HEARD_FOR: Nanos = Nanos(300 * Nanos::MILLISECOND.0);
/// A volume without writes for this long is marked clean (md's default safe mode is of this order).
pub const CLEAN_AFTER: Nanos = Nanos(4 * Nanos::SECOND.0);
/// How often bits of a bitmap are cleared. A region's bit is cleared between one and two such times after the last
/// write in the region (md's daemon sleeps as long).
pub const CLEAR_REGIONS_EVERY: Nanos = Nanos(5 * Nanos::SECOND.0);
/// Longest time between two persisted checkpoints of a background job.
pub const CHECKPOINT_EVERY: Nanos = Nanos(5 * Nanos::SECOND.0);
/// Retries of an I/O whose error class says that a retry may help.
pub const RETRIES_MAX: u8 = 3;
/// What IMSM needs behind the last volume's data on every member: 1 MiB of log area and the metadata
/// block (2210 sectors; the format's specification, sizes and offsets).
pub const METADATA_RESERVE_BYTES: u64 = (2048 + 2210) * 512;
