//! A copy of the controller's state for other threads.
//!
//! The first shard's data thread takes a snapshot now and then. It must not wait or allocate for
//! the readers, so it copies into memory that exists already and that no thread reads ([`super::published`]). The
//! reader turns the copy into sentences and sums, on its own thread.

use engine::control::Controller;
use engine::control::jobs::JobStatus;
use engine::control::record::{Record, VolumeRecord};
use engine::units::{MemberId, MemberSet, Nanos, VolumeId};

/// See the module's documentation.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The number of this snapshot, from 1; 0 means that none has been taken.
    pub number: u64,
    /// When it was taken.
    pub now: Nanos,
    /// The record as the controller wants it.
    pub record: Record,
    /// Drives that are no longer used, whether on record or not: a failure beyond redundancy is not recorded.
    pub failed: MemberSet,
    /// By volume: whether it has failed, and its background work.
    pub volumes: Vec<(bool, Option<JobStatus>)>,
    /// By volume: whether it refuses writes because the metadata cannot express what they depend on.
    pub writes_stopped: Vec<bool>,
    /// Limit of background work, bytes of each member per second; 0 is unlimited.
    pub rate_bytes_per_s: u64,
}

impl Snapshot {
    /// An empty snapshot with enough memory for everything that `record` may grow to.
    #[must_use]
    pub fn with_room_for(record: &Record) -> Snapshot {
        let mut record = record.clone();
        record
            .members
            .reserve(engine::limits::CONTAINER_MEMBERS_MAX);
        record.bad_blocks.reserve_all();
        Snapshot {
            number: 0,
            now: Nanos(0),
            failed: MemberSet::default(),
            volumes: Vec::with_capacity(record.volumes.len()),
            writes_stopped: Vec::with_capacity(record.volumes.len()),
            record,
            rate_bytes_per_s: 0,
        }
    }

    /// Copies the state of `controller` at `now` into this snapshot and gives it that number; allocates nothing.
    pub fn take(&mut self, controller: &Controller, number: u64, now: Nanos) {
        self.number = number;
        self.now = now;
        self.rate_bytes_per_s = controller.rate_bytes_per_s();
        let from = controller.wanted();
        self.record.generation = from.generation;
        self.record.members.clone_from(&from.members);
        self.record.bad_blocks.copy_from(&from.bad_blocks);
        // The number of volumes and of their slots never changes.
        for (into, from) in self.record.volumes.iter_mut().zip(&from.volumes) {
            let mut slots = std::mem::take(&mut into.slots);
            slots.clone_from(&from.slots);
            let bitmap = from.bitmap.clone();
            *into = VolumeRecord {
                slots,
                bitmap,
                ..*from
            };
        }
        let members = (0..from.members.len()).map(|at| MemberId(at as u8));
        self.failed = members.filter(|&id| controller.has_failed(id)).collect();
        self.volumes.clear();
        let ids = (0..from.volumes.len()).map(|at| VolumeId(at as u8));
        self.writes_stopped.clear();
        let stopped = ids.clone().map(|id| controller.has_stopped_writes(id));
        self.writes_stopped.extend(stopped);
        self.volumes
            .extend(ids.map(|id| (controller.is_failed(id), controller.job(id))));
    }
}
