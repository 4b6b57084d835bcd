//! Volumes with a write-hole log that were not stopped cleanly. The tests tear parity by hand, and the log holds the
//! write that was under way.

use super::*;
use engine::control::record::LogArea;
use metadata::crc32c::crc32c;
use metadata::imsm::log::{Entry, HEADER_BYTES, Header, Walk, walk};
use metadata::imsm::{SectorSize, WriteHolePolicy};
use std::os::unix::fs::FileExt;

const FAMILY: u32 = 0x1234_5678;
const CHUNK: u64 = 64 << 10;
/// Bytes on each member that the volume of [`Bench::new`] uses.
pub(super) const COMPONENT: u64 = 8 * MIB;
const LOG: u64 = 2048 * 512;

impl Bench {
    /// A dirty RAID 5 of three with `policy`, and garbage where a log would be.
    pub(super) fn crashed(policy: WriteHolePolicy) -> Bench {
        let bench = Bench::new(Level::Raid5, 3, 1);
        let drives = bench.open(3);
        let mut mpb = bench.mpb(&drives);
        mpb.set_write_hole_policy(0, policy).unwrap();
        mpb.set_dirty(0, true).unwrap();
        mpb.bump_generation();
        write_record(&mpb, &drives.iter().collect::<Vec<_>>()).unwrap();
        drop(drives);
        for at in 0..=3 {
            bench.put(
                at,
                COMPONENT,
                &Header::empty(FAMILY).encode(SectorSize::Bytes512),
            );
            bench.put(at, COMPONENT + 4096, &vec![0xEE; LOG as usize - 4096]);
        }
        bench
    }

    pub(super) fn mpb(&self, drives: &[Probed]) -> Mpb {
        drives[0]
            .found
            .as_ref()
            .unwrap()
            .as_ref()
            .unwrap()
            .mpb
            .clone()
    }

    fn record_on_drives(&self) -> Mpb {
        self.mpb(&self.open(3))
    }

    pub(super) fn put(&self, at: usize, offset: u64, bytes: &[u8]) {
        let path = self.folder.path().join(format!("d{at}.img"));
        let file = std::fs::File::options().write(true).open(path).unwrap();
        file.write_all_at(bytes, offset).unwrap();
    }

    fn get(&self, at: usize, offset: u64, length: u64) -> Vec<u8> {
        let path = self.folder.path().join(format!("d{at}.img"));
        let mut bytes = vec![0; length as usize];
        std::fs::File::open(path)
            .unwrap()
            .read_exact_at(&mut bytes, offset)
            .unwrap();
        bytes
    }

    /// Tears row 0, whose parity is in slot 2: slot 0 has 4 KiB of new data, slot 1 keeps its old data, and parity was
    /// not updated. The log holds the entry.
    fn tear_row_0(&self) {
        let old = vec![0x0B; 4096];
        self.put(0, 4096, &vec![0xA1; 4096]);
        self.put(1, 4096, &old);
        self.put(2, 4096, &vec![0x77; 4096]);
        let entry = Entry {
            data_sector: 8,
            partial_parity_bytes: 4096,
            data_bytes: 4096,
            parity_slot: 2,
            checksum: crc32c(&old),
        };
        let header = Header {
            generation: 9,
            entries: vec![entry],
            ..Header::empty(FAMILY)
        };
        self.put(2, COMPONENT, &header.encode(SectorSize::Bytes512));
        self.put(2, COMPONENT + HEADER_BYTES as u64, &old);
    }

    /// Whether parity of the row that [`Bench::tear_row_0`] tears is right again.
    fn is_mended(&self) -> bool {
        self.get(2, 4096, 4096) == vec![0xA1 ^ 0x0B; 4096]
    }

    fn log(&self, at: usize) -> Walk {
        let area = self.get(at, COMPONENT, LOG);
        walk(&area, FAMILY, SectorSize::Bytes512)
    }

    fn has_empty_log(&self, at: usize) -> bool {
        let area = self.get(at, COMPONENT, LOG);
        let empty = Header::empty(FAMILY).encode(SectorSize::Bytes512);
        area[..HEADER_BYTES] == empty && area[HEADER_BYTES..].iter().all(|&byte| byte == 0)
    }

    pub(super) fn start(
        &self,
        drives: &[usize],
        options: StartOptions,
    ) -> anyhow::Result<Container> {
        let path = |at: &usize| {
            let path = self.folder.path().join(format!("d{at}.img"));
            path.display().to_string()
        };
        let paths: Vec<String> = drives.iter().map(path).collect();
        assemble(
            probe_all(&paths, Access::Exclusive).unwrap(),
            options,
            false,
        )
    }
}

pub(super) const DEGRADED: StartOptions = StartOptions {
    degraded: true,
    accept_write_hole: false,
    accept_unsynced: false,
    trust_returned_drive: false,
};

#[test]
fn a_dirty_array_is_replayed_and_served_with_an_empty_log() {
    let bench = Bench::crashed(WriteHolePolicy::Log);
    bench.tear_row_0();
    let container = bench.assemble(3).unwrap();
    assert!(bench.is_mended());
    assert!((0..3).all(|at| bench.has_empty_log(at)));
    let volume = &container.record.volumes[0];
    assert!(!volume.dirty && volume.sync.is_none());
    let area = LogArea {
        offset_bytes: COMPONENT,
        length_bytes: LOG as u32,
    };
    assert_eq!(volume.log, Some(area));
    assert_eq!(
        container.notes,
        [
            "volume one was not stopped cleanly; its write-hole log has corrected parity: 1 entry replayed"
        ]
    );
    drop(container);
    assert_eq!(bench.record_on_drives().volumes[0].dirty, 0);
}

#[test]
fn a_member_lost_in_the_crash_takes_nothing_else_with_it() {
    let bench = Bench::crashed(WriteHolePolicy::Log);
    bench.tear_row_0();
    let container = bench.start(&[0, 2], DEGRADED).unwrap();
    assert!(
        bench.is_mended(),
        "parity must give the data of the missing slot 1"
    );
    let volume = &container.record.volumes[0];
    assert!(!volume.dirty && volume.sync.is_none() && volume.log.is_some());
    drop(container);
    // The lost member comes back too late: neither its log nor its data may count.
    let container = bench.start(&[0, 1, 2], StartOptions::default()).unwrap();
    assert_eq!(container.record.volumes[0].current_slots().count(), 2);
}

#[test]
fn a_replay_cut_off_before_the_absence_is_on_record_is_none() {
    // The absence has to be on record and durable before any part of the log is changed.
    let bench = Bench::crashed(WriteHolePolicy::Log);
    bench.tear_row_0();
    let generation = bench.record_on_drives().generation;
    drop(bench.start(&[0, 2], DEGRADED).unwrap());
    let record = bench.record_on_drives();
    assert_eq!(record.generation, generation + 2, "absence, then clean");
    assert!(record.disks[1].is_failed());
}

#[test]
fn a_log_that_does_not_settle_everything_is_followed_by_a_resync_or_refused() {
    let bench = Bench::crashed(WriteHolePolicy::Log);
    bench.tear_row_0();
    bench.put(1, COMPONENT, &[0x66; 4096]);
    let error = bench.start(&[1, 2], DEGRADED).unwrap_err().to_string();
    assert!(
        error.contains("cannot repair that (")
            && error.contains("no log in slot 1")
            && error.contains("--accept-write-hole"),
        "{error}"
    );
    let bench = Bench::crashed(WriteHolePolicy::Log);
    bench.tear_row_0();
    bench.put(1, COMPONENT, &[0x66; 4096]);
    let container = bench.assemble(3).unwrap();
    assert!(bench.is_mended());
    let volume = &container.record.volumes[0];
    assert_eq!(volume.sync.map(|sync| sync.kind), Some(SyncKind::Resync));
    assert!(volume.dirty && volume.log.is_some());
    assert!((0..3).all(|at| bench.has_empty_log(at)));
}

#[test]
fn the_small_log_becomes_the_large_one() {
    let bench = Bench::crashed(WriteHolePolicy::LogSingle);
    bench.tear_row_0();
    drop(bench.assemble(3).unwrap());
    assert!(bench.is_mended());
    assert!((0..3).all(|at| bench.has_empty_log(at)));
    let volume = &bench.record_on_drives().volumes[0];
    assert_eq!(volume.write_hole_policy, WriteHolePolicy::Log);
    assert_eq!(volume.dirty, 0);
}

#[test]
fn spares_get_empty_logs_before_they_are_needed() {
    let bench = Bench::crashed(WriteHolePolicy::Log);
    let probed = bench.open(4).remove(3);
    let drive = NewDrive {
        serial: probed.serial,
        total_sectors: probed.placement.total_sectors(),
    };
    let spare = Mpb::spare(&drive, probed.sector).unwrap();
    write_record(&spare, &[&probed]).unwrap();
    drop(probed);
    let container = bench.start(&[0, 1, 2, 3], StartOptions::default()).unwrap();
    assert_eq!(container.record.members.len(), 4);
    assert!((0..=3).all(|at| bench.has_empty_log(at)));
}

#[test]
fn a_session_that_writes_nothing_leaves_the_log_as_it_is() {
    let bench = Bench::crashed(WriteHolePolicy::Log);
    bench.tear_row_0();
    let container = assemble(bench.open(3), StartOptions::default(), true).unwrap();
    assert_eq!(container.record.volumes[0].log, None);
    assert_eq!(bench.log(2).newest.unwrap().header.generation, 9);
    drop(container);
    assert!(!bench.is_mended());
    // With a member missing, the data of the torn row would be computed wrongly.
    let mut drives = bench.open(3);
    drives.remove(1);
    let error = assemble(drives, DEGRADED, true).unwrap_err().to_string();
    assert!(error.contains("leave out --read-only"), "{error}");
}

#[test]
fn volumes_without_a_log_are_not_touched_where_one_would_be() {
    let bench = Bench::new(Level::Raid5, 3, 1);
    bench.put(1, COMPONENT, &[0xAB; 4096]);
    let container = bench.assemble(3).unwrap();
    assert_eq!(container.record.volumes[0].log, None);
    drop(container);
    assert_eq!(bench.get(1, COMPONENT, 4096), [0xAB; 4096]);
}

/// The changed data lie in a range that the bad-block log marks as lost, so parity must not be computed from them.
#[test]
fn recorded_bad_blocks_are_not_what_parity_is_made_of() {
    for (row, is_mended) in [(0, false), (1, true)] {
        let bench = Bench::crashed(WriteHolePolicy::Log);
        bench.tear_row_0();
        let drives = bench.open(3);
        let mut mpb = bench.mpb(&drives);
        mpb.add_bad_blocks(row, 8, 1).unwrap();
        write_record(&mpb, &drives.iter().collect::<Vec<_>>()).unwrap();
        drop(drives);
        let container = bench.assemble(3).unwrap();
        assert_eq!(bench.is_mended(), is_mended);
        let sync = container.record.volumes[0].sync.map(|sync| sync.kind);
        assert_eq!(sync, (!is_mended).then_some(SyncKind::Resync));
        assert_eq!(container.record.bad_blocks.ranges().len(), 1);
    }
}

/// The log's reader decodes what the hook encodes from the engine's unit.
#[test]
fn the_engine_s_units_are_encoded_as_the_format_has_them() {
    use engine::log::unit::{LogEntry, LogUnit};
    use engine::units::{Slot, VolumeId};
    let bench = Bench::crashed(WriteHolePolicy::Log);
    let container = bench.assemble(3).unwrap();
    let unit = LogUnit {
        volume: VolumeId(0),
        slot: Slot(2),
        generation: 5,
        entries: vec![LogEntry {
            data_offset_bytes: CHUNK + 8192,
            data_bytes: 4096,
            partial_parity_bytes: 4096,
        }],
    };
    let mut bytes = [0; HEADER_BYTES];
    container.persister.log_encoder()(&unit, &[0xC0FFEE], &mut bytes);
    let entry = Entry {
        data_sector: 128 + 16,
        partial_parity_bytes: 4096,
        data_bytes: 4096,
        parity_slot: 2,
        checksum: 0xC0FFEE,
    };
    let header = Header::decode(&bytes, FAMILY, SectorSize::Bytes512).unwrap();
    assert_eq!((header.generation, header.entries), (5, vec![entry]));
}
