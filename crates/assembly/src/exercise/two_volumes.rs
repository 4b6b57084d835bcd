//! Two volumes on the same drives, of which one cannot run without a drive. Tested are which of them start, what is on
//! record then, and that no power cut keeps the drive from being taken back.

use super::rig::{DEGRADED, NOTHING, copied, new_drive, on_record, open, put, put_on, spec};
use super::{Memory, Pages, SECTOR, put_record};
use crate::assemble::{Container, assemble};
use crate::member::{FoundShadow, Member};
use anyhow::bail;
use engine::control::record::{SlotRecord, SyncKind, SyncRecord};
use engine::units::Slot;
use metadata::imsm::build::ContainerIdentity;
use metadata::imsm::place::{Found, Placement};
use metadata::imsm::start::StartOptions;
use metadata::imsm::{
    DecodeError, Level, MapState, Mpb, SectorSize, Serial, Volume, VolumeName, WriteHolePolicy,
};
use std::cell::Cell;
use std::rc::Rc;

const MEMBERS: usize = 4;
const LOST: usize = 3;
const TRUST: StartOptions = StartOptions {
    trust_returned_drive: true,
    ..NOTHING
};

/// A drive that loses power after some writes.
struct Cut {
    inner: Memory,
    left: Rc<Cell<u64>>,
}

impl std::fmt::Debug for Cut {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        out.write_str(self.name())
    }
}

impl Member for Cut {
    fn name(&self) -> &str {
        self.inner.name()
    }
    fn size_bytes(&self) -> u64 {
        self.inner.size_bytes()
    }
    fn kind(&self) -> engine::policy::MemberKind {
        engine::policy::MemberKind::File
    }
    fn discards(&self) -> bool {
        false
    }
    fn volatile_cache(&self) -> bool {
        false
    }
    fn serial(&self) -> Serial {
        self.inner.serial()
    }
    fn sector(&self) -> SectorSize {
        SECTOR
    }
    fn placement(&self) -> Placement {
        self.inner.placement()
    }
    fn found(&self) -> &Result<Option<Found>, DecodeError> {
        self.inner.found()
    }
    fn shadow(&self) -> &FoundShadow {
        self.inner.shadow()
    }
    fn read_at(&self, offset_bytes: u64, length_bytes: usize) -> anyhow::Result<Vec<u8>> {
        self.inner.read_at(offset_bytes, length_bytes)
    }
    fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> anyhow::Result<()> {
        let Some(left) = self.left.get().checked_sub(1) else {
            bail!("the power is gone");
        };
        self.left.set(left);
        self.inner.write_at(offset_bytes, bytes)
    }
    fn flush(&self) -> anyhow::Result<()> {
        Ok(())
    }
}

fn mpb(level: Level) -> Mpb {
    let drives: Vec<_> = (0..MEMBERS).map(new_drive).collect();
    let identity = ContainerIdentity {
        family_num: 7,
        creation_time: 0,
    };
    let mut mpb = Mpb::create(&drives, &spec("fast", Level::Raid0), identity).unwrap();
    mpb.add_volume(&spec("safe", level)).unwrap();
    if level == Level::Raid5 {
        mpb.set_write_hole_policy(1, WriteHolePolicy::Log).unwrap();
    }
    mpb
}

fn made(level: Level) -> Vec<Pages> {
    put(&mpb(level), MEMBERS)
}

/// Starts the array from these drives. The power fails after this number of writes.
fn start(
    drives: &[Pages],
    slots: impl IntoIterator<Item = usize>,
    options: StartOptions,
    writes: u64,
) -> anyhow::Result<Container<Cut>> {
    let left = Rc::new(Cell::new(writes));
    let open = |slot: usize| Cut {
        inner: Memory::open(slot, drives[slot].clone()).unwrap(),
        left: left.clone(),
    };
    assemble(slots.into_iter().map(open).collect(), options, false)
}

fn lost_slots(volume: &Volume) -> Vec<usize> {
    let order = volume.current_map().order.iter().enumerate();
    order
        .filter(|(_, entry)| entry.out_of_sync)
        .map(|(slot, _)| slot)
        .collect()
}

/// Both volumes are served, and the one with redundancy is rebuilt onto the returned drive.
fn expect_both(container: &Container<Cut>) {
    assert_eq!(container.not_started, [None, None], "{:?}", container.notes);
    let [fast, safe] = &container.record.volumes[..] else {
        panic!("not two volumes");
    };
    assert_eq!(fast.current_slots().count() as usize, MEMBERS);
    assert_eq!(safe.current_slots().count() as usize, MEMBERS - 1);
    assert!(safe.slots[LOST].member.is_some() && !safe.slots[LOST].current);
    let rebuild = SyncRecord {
        kind: SyncKind::Rebuild(Slot(LOST as u8)),
        done_bytes: 0,
    };
    assert_eq!(safe.sync, Some(rebuild));
}

#[test]
fn each_volume_starts_on_its_own_merits() {
    for level in [Level::Raid5, Level::Raid10] {
        let drives = made(level);
        let before = on_record(&drives[0]);
        let refusal = start(&drives, 0..LOST, NOTHING, 0).unwrap_err().to_string();
        assert!(refusal.contains("fast is not started"), "{refusal}");
        assert!(refusal.contains("safe is not started"), "{refusal}");
        assert!(refusal.contains("--degraded"), "{refusal}");

        let container = start(&drives, 0..LOST, DEGRADED, u64::MAX).unwrap();
        let why = container.not_started[0].as_ref().unwrap();
        assert!(why.contains("RAID 0 does not survive the loss of slot 3"));
        assert_eq!(container.not_started[1], None);
        assert_eq!(container.started().len(), 1);
        let volumes = &container.record.volumes;
        assert!(volumes[0].not_started && !volumes[1].not_started);
        let nobody = SlotRecord {
            member: None,
            current: false,
        };
        assert_eq!(volumes[0].slots[LOST], nobody);
        for member in &container.record.members {
            assert!(!member.volatile_cache && !member.discards);
            assert_eq!(member.kind, engine::policy::MemberKind::File);
        }

        // The volume with redundancy has lost the drive; the other one waits for it.
        let after = on_record(&drives[0]);
        assert!(after.disks[LOST].is_failed());
        assert_eq!(after.volumes[0], before.volumes[0]);
        assert_eq!(after.volumes[1].map.state, MapState::Degraded);
        assert_eq!(lost_slots(&after.volumes[1]), [LOST]);

        // The drive is back, but it does not serve before the operator says that it may be trusted.
        let container = start(&drives, 0..MEMBERS, NOTHING, u64::MAX).unwrap();
        let why = container.not_started[0].as_ref().unwrap();
        assert!(
            why.ends_with("--trust-returned-drive starts it all the same"),
            "{why}"
        );
        assert_eq!(container.members.len(), LOST);
        assert_eq!(on_record(&drives[LOST]), before);
        assert_eq!(on_record(&drives[0]).volumes[0], before.volumes[0]);
    }
}

/// Whatever has been written when the power fails, the drive can be taken back at the next start.
#[test]
fn no_power_cut_keeps_a_drive_from_being_taken_back() {
    for level in [Level::Raid5, Level::Raid10] {
        let drives = made(level);
        start(&drives, 0..LOST, DEGRADED, u64::MAX).unwrap();
        for writes in 0.. {
            let cut = copied(&drives);
            let ended = start(&cut, 0..MEMBERS, TRUST, writes);
            // The next start comes without `--trust-returned-drive`, and writes what follows from that.
            let forgotten = copied(&cut);
            let container = start(&forgotten, 0..MEMBERS, NOTHING, u64::MAX).unwrap();
            assert_eq!(container.not_started[1], None, "after {writes} writes");
            if container.not_started[0].is_none() {
                expect_both(&container);
            }
            for drives in [forgotten, cut] {
                let container = start(&drives, 0..MEMBERS, TRUST, u64::MAX).unwrap();
                expect_both(&container);
                // From now on the drive serves without that option.
                let again = start(&drives, 0..MEMBERS, NOTHING, u64::MAX).unwrap();
                expect_both(&again);
                for slot in 0..MEMBERS {
                    let record = on_record(&drives[slot]);
                    assert!(record.disks.iter().all(|disk| !disk.is_failed()));
                    assert_eq!(record, on_record(&drives[0]), "after {writes} writes");
                }
            }
            if let Ok(container) = ended {
                expect_both(&container);
                assert!(writes > 8, "cuts must fall amid the update");
                break;
            }
        }
    }
}

/// A drive that has failed for both volumes, so that no volume waits for it, is not taken back.
#[test]
fn a_drive_that_no_volume_waits_for_stays_out() {
    let drives = made(Level::Raid5);
    let mut marked = on_record(&drives[0]);
    marked.mark_failed(LOST).unwrap();
    marked.bump_generation();
    put_on(&drives[..LOST], &marked);
    for options in [NOTHING, TRUST] {
        let container = start(&copied(&drives), 0..MEMBERS, options, u64::MAX).unwrap();
        let why = container.not_started[0].as_ref().unwrap();
        assert!(!why.contains("--trust"), "{why}");
        assert_eq!(container.members.len(), LOST);
    }
}

/// The drive's record is not the one with which it left: it has other volumes, or a generation that does not fit.
#[test]
fn a_drive_with_another_record_is_not_taken_back() {
    let drives = made(Level::Raid5);
    let old = on_record(&drives[0]);
    start(&drives, 0..LOST, DEGRADED, u64::MAX).unwrap();
    let renamed = VolumeName::new("other").unwrap();
    let changes: [fn(&mut Mpb); 3] = [
        |mpb| mpb.volumes[0].map.sectors_per_strip *= 2,
        |mpb| mpb.volumes[0].map.order.swap(2, 3),
        |mpb| mpb.generation += 1000,
    ];
    for change in changes {
        let drives = copied(&drives);
        let mut other = old.clone();
        change(&mut other);
        put_record(&drives[LOST], &other);
        let taken = start(&drives, 0..MEMBERS, TRUST, u64::MAX);
        let is_refused = |container: &Container<Cut>| container.not_started[0].is_some();
        assert!(taken.is_err() || taken.as_ref().is_ok_and(is_refused));
    }
    let drives = copied(&drives);
    let mut other = old;
    other.volumes[0].name = renamed;
    put_record(&drives[LOST], &other);
    let taken = start(&drives, 0..MEMBERS, TRUST, u64::MAX).unwrap();
    assert!(taken.not_started[0].is_some());
}

/// An outdated copy is left out. It is recorded as out of sync in all volumes, so that it is not trusted later either.
#[test]
fn an_outdated_copy_is_out_of_sync_in_all_volumes() {
    let drives = made(Level::Raid5);
    let mut later = on_record(&drives[0]);
    later.generation += 2;
    put_on(&drives[..LOST], &later);
    let refusal = start(&drives, 0..MEMBERS, TRUST, 0)
        .unwrap_err()
        .to_string();
    assert!(refusal.contains("its record is outdated"), "{refusal}");
    start(&drives, 0..MEMBERS, DEGRADED, u64::MAX).unwrap();
    let record = on_record(&drives[0]);
    assert_eq!(
        record.volumes.iter().map(lost_slots).collect::<Vec<_>>(),
        [[LOST], [LOST]]
    );
    let container = start(&drives, 0..MEMBERS, TRUST, u64::MAX).unwrap();
    assert!(container.not_started[0].is_some());
}

/// The bitmap, the log and the dirty mark of a volume that is not started are not changed.
#[test]
fn a_volume_in_doubt_stays_as_it_is_beside_one_that_starts() {
    let drives = made(Level::Raid10);
    let mut dirty = on_record(&drives[0]);
    dirty.delete_volume(0).unwrap();
    dirty.add_volume(&spec("doubt", Level::Raid5)).unwrap();
    let at = dirty.volumes.len() - 1;
    dirty.set_dirty(at, true).unwrap();
    put_on(&drives, &dirty);
    let container = start(&drives, 0..LOST, DEGRADED, u64::MAX).unwrap();
    let why = container.not_started[at].as_ref().unwrap();
    assert!(why.contains("--accept-write-hole"), "{why}");
    assert_eq!(on_record(&drives[0]).volumes[at], dirty.volumes[at]);

    // If the operator accepts that later, the volume runs without the drive, and the start puts this on record.
    let accepted = StartOptions {
        accept_write_hole: true,
        ..NOTHING
    };
    let alone = copied(&drives);
    let container = start(&alone, 0..MEMBERS, accepted, u64::MAX).unwrap();
    assert_eq!(container.not_started, [None, None]);
    assert_eq!(lost_slots(&on_record(&alone[0]).volumes[at]), [LOST]);
    // With the drive back the volume is complete, and is resynchronised.
    let container = start(&drives, 0..MEMBERS, TRUST, u64::MAX).unwrap();
    assert_eq!(container.not_started, [None, None]);
    let volume = &container.record.volumes[at];
    assert_eq!(volume.current_slots().count() as usize, MEMBERS);
    assert_eq!(volume.sync.unwrap().kind, SyncKind::Resync);
}

/// A drive can be taken back only if it may be written to.
#[test]
fn no_drive_is_taken_back_to_a_container_that_is_only_read() {
    let drives = made(Level::Raid10);
    start(&drives, 0..LOST, DEGRADED, u64::MAX).unwrap();
    let before = copied(&drives);
    for options in [TRUST, NOTHING] {
        let all = open(&drives, &[0, 1, 2, LOST]);
        let container = assemble(all, options, true).unwrap();
        assert_eq!(container.members.len(), LOST);
        let why = container.not_started[0].as_ref().unwrap();
        assert!(!why.contains("--trust"), "{why}");
        for (pages, before) in drives.iter().zip(&before) {
            assert!(*pages.borrow() == *before.borrow(), "something was written");
        }
    }
}

/// Another drive is away, too, so trusting the returned drive would not start the volume.
#[test]
fn nobody_is_asked_to_trust_a_drive_that_does_not_help() {
    let drives = made(Level::Raid10);
    start(&drives, 0..LOST, DEGRADED, u64::MAX).unwrap();
    let container = start(&drives, [0, 2, LOST], DEGRADED, u64::MAX).unwrap();
    let why = container.not_started[0].as_ref().unwrap();
    assert!(!why.contains("--trust"), "{why}");
}

/// If one volume of a record is not understood, what else lies on the drives is not known either.
#[test]
fn a_record_that_is_not_understood_is_refused_whole() {
    let drives = made(Level::Raid10);
    let changes: [fn(&mut Mpb); 2] = [
        |mpb| mpb.volumes[0].map.state = MapState::Unknown(9),
        |mpb| mpb.volumes[1].map.state = MapState::Unknown(9),
    ];
    for change in changes {
        let mut strange = mpb(Level::Raid10);
        change(&mut strange);
        let drives = copied(&drives);
        put_on(&drives, &strange);
        let refusal = start(&drives, 0..MEMBERS, TRUST, 0).unwrap_err();
        let refusal = refusal.to_string();
        assert_eq!(refusal.matches("is not started").count(), 1, "{refusal}");
    }
}
