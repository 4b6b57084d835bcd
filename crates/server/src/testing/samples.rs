//! Parts of a status, for tests of code that reads one.

use crate::status::{DriveHealth, JobStatus, MemberStatus, SlotStatus, VolumeStatus};

/// A drive.
pub fn member(id: u8, state: &str) -> MemberStatus {
    MemberStatus {
        id,
        name: format!("/dev/nvme{id}n1"),
        serial: format!("SERIAL{id}"),
        size_bytes: 2_000_398_934_016,
        state: state.to_owned(),
        cause: None,
        io_path: "ring".to_owned(),
        deleted: false,
        bad_blocks: Vec::new(),
        bad_block_bytes: 0,
        health: DriveHealth::default(),
    }
}

/// A slot.
pub fn slot(member: Option<u8>, state: &str) -> SlotStatus {
    SlotStatus {
        member,
        state: state.to_owned(),
        can_be_lost: true,
    }
}

/// A RAID 5 that is whole.
pub fn volume(name: &str, slots: Vec<SlotStatus>) -> VolumeStatus {
    VolumeStatus {
        not_started: None,
        name: name.to_owned(),
        uuid: "11111111:22222222:33333333:44444444".to_owned(),
        level: 5,
        size_bytes: 6 << 30,
        chunk_bytes: 64 << 10,
        state: "optimal".to_owned(),
        dirty: false,
        read_only: false,
        cause: None,
        slots,
        job: None,
        scrub: None,
        device: None,
    }
}

/// A job on slot 2 that is a third done.
pub fn job(kind: &str) -> JobStatus {
    JobStatus {
        kind: kind.to_owned(),
        slot: Some(2),
        member: Some(3),
        running: true,
        paused: false,
        done_bytes: 1 << 30,
        total_bytes: 3 << 30,
        rate_bytes_per_s: 210 << 20,
        remaining_s: Some(200),
        mismatches: 0,
        failures: 2,
    }
}
