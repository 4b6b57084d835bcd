//! Which sectors a replay at the start takes as the volume's data, and how a volume starts if the replay does not
//! settle everything.

use super::half_done::HalfDone;
use super::rig::{copied, put, put_on, rebuild_onto};
use super::{Memory, PAGE_BYTES, Pages, SECTOR, read, record};
use crate::assemble::assemble;
use crate::log::{rehearse, replay_all};
use crate::member::Member;
use engine::control::record::{SyncKind, SyncRecord};
use metadata::imsm::choose::{Assembly, choose};
use metadata::imsm::log::{LogReport, LoggedVolume};
use metadata::imsm::start::{RefusedReason, StartMode, StartOptions, SyncWork, start_mode};
use metadata::imsm::{Level, Mpb, WriteHolePolicy};
use std::ops::Range;

const MEMBERS: usize = 4;
const PAGE_SECTORS: u64 = PAGE_BYTES as u64 / 512;
/// The row that is being written to, its parity's slot and the slot that is written.
const ROW: u8 = 1;

/// The record of a RAID 5 that has a log and was not stopped cleanly.
fn made() -> Mpb {
    let mut mpb = record(Level::Raid5, MEMBERS, 4).expect("a valid record");
    mpb.set_write_hole_policy(0, WriteHolePolicy::Log).unwrap();
    mpb.set_dirty(0, true).unwrap();
    mpb
}

/// Drives on which a write was interrupted: its data is new and its parity old. `numbers` is the drive in each slot.
struct Scene {
    mpb: Mpb,
    drives: Vec<Pages>,
    numbers: [usize; MEMBERS],
    /// First byte of the page that is written, on each drive.
    page_at: u64,
    parity: usize,
    written: usize,
    /// A data slot whose chunk of the row was not being written.
    other: usize,
}

impl Scene {
    fn new(mpb: Mpb, numbers: [usize; MEMBERS]) -> Scene {
        let drives = put(&mpb, MEMBERS);
        let logged = LoggedVolume::of(&mpb, 0, SECTOR).expect("a volume with a log");
        // The second page of the chunk, and the second data chunk of the row.
        let mut script = [ROW, 1, 7, 1 << 2 | 1].into_iter();
        HalfDone::put(&drives, &mpb, &logged, &mut || script.next().unwrap_or(0));
        let parity = logged.parity_slot(u64::from(ROW));
        let data: Vec<usize> = (0..MEMBERS).filter(|&slot| slot != parity).collect();
        let strip_bytes = u64::from(logged.strip_sectors) * 512;
        let page_at = logged.start_sector * 512 + u64::from(ROW) * strip_bytes + PAGE_BYTES as u64;
        Scene {
            mpb,
            drives,
            numbers,
            page_at,
            parity,
            written: data[1],
            other: data[2],
        }
    }

    /// Changes the record on all drives.
    fn change(&mut self, change: impl FnOnce(&mut Mpb)) {
        change(&mut self.mpb);
        put_on(&self.drives, &self.mpb);
    }

    fn open(&self, without: Option<usize>) -> Vec<Memory> {
        let slots = (0..MEMBERS).filter(|slot| Some(*slot) != without);
        let open = |slot: usize| Memory::open(self.numbers[slot], self.drives[slot].clone());
        slots
            .map(|slot| open(slot).expect("a readable drive"))
            .collect()
    }

    fn assembly(drives: &[Memory]) -> Assembly {
        let candidates: Vec<_> = drives.iter().map(Member::candidate).collect();
        let mut choice = choose(&candidates);
        choice
            .containers
            .remove(0)
            .outcome
            .expect("drives of one array")
    }

    /// The report of a replay that writes nothing.
    fn rehearsed(&self, without: Option<usize>) -> LogReport {
        let drives = self.open(without);
        rehearse(&drives, &Scene::assembly(&drives), 0).expect("a volume with a log")
    }

    fn page(&self, slot: usize) -> Vec<u8> {
        read(&self.drives[slot], self.page_at, PAGE_BYTES)
    }

    /// The parity that fits the data on the drives.
    fn fitting(&self) -> Vec<u8> {
        let data = (0..MEMBERS).filter(|&slot| slot != self.parity);
        data.fold(vec![0; PAGE_BYTES], |mut sum, slot| {
            let page = self.page(slot);
            sum.iter_mut()
                .zip(page)
                .for_each(|(sum, byte)| *sum ^= byte);
            sum
        })
    }
}

fn resync() -> Option<SyncRecord> {
    Some(SyncRecord {
        kind: SyncKind::Resync,
        done_bytes: 0,
    })
}

#[test]
fn a_replay_makes_parity_fit_and_then_nothing_is_left_to_do() {
    let scene = Scene::new(made(), [0, 1, 2, 3]);
    assert_ne!(scene.page(scene.parity), scene.fitting());
    let report = scene.rehearsed(None);
    assert!(report.is_conclusive() && report.entries_replayed == 1);
    assert_ne!(
        scene.page(scene.parity),
        scene.fitting(),
        "a rehearsal writes nothing"
    );
    let container = assemble(scene.open(None), StartOptions::default(), false).unwrap();
    assert_eq!(scene.page(scene.parity), scene.fitting());
    assert_eq!(container.record.volumes[0].sync, None);
    assert!(!container.record.volumes[0].dirty);
    let logged = LoggedVolume::of(&scene.mpb, 0, SECTOR).unwrap();
    let log = container.record.volumes[0].log.expect("a log is kept");
    let place = (log.offset_bytes, log.length_bytes as usize);
    assert_eq!(place, (logged.log_sector() * 512, logged.log_bytes()));
    let said = "its write-hole log has corrected parity";
    assert!(container.notes.iter().any(|note| note.contains(said)));
}

/// Sectors to which a rebuild could not write may hold anything. Parity must not be computed from them.
#[test]
fn recorded_bad_sectors_are_no_data_for_a_replay() {
    for swapped in [false, true] {
        let mut scene = Scene::new(made(), [0, 1, 2, 3]);
        if swapped {
            // The table of disks has another order than the slots.
            let (written, other) = (scene.written, scene.other);
            scene.change(|mpb| {
                mpb.disks.swap(written, other);
                let order = &mut mpb.volumes[0].map.order;
                order[written].disk_index = other as u32;
                order[other].disk_index = written as u32;
            });
        }
        let page = scene.page_at / 512..scene.page_at / 512 + PAGE_SECTORS;
        let cases: [(usize, Range<u64>, bool); 6] = [
            (scene.written, page.start..page.start + 1, true),
            (scene.written, page.end - 1..page.end + 8, true),
            (scene.written, page.start - 8..page.end + 8, true),
            (scene.written, page.start - 8..page.start, false),
            (scene.written, page.end..page.end + 8, false),
            (scene.other, page.start..page.end, false),
        ];
        for (slot, bad, is_missed) in cases {
            let row = scene.mpb.volumes[0].map.order[slot].disk_index as usize;
            scene.change(|mpb| {
                mpb.bad_blocks.clear();
                mpb.set_bad_ranges(row, std::slice::from_ref(&bad)).unwrap();
            });
            let report = scene.rehearsed(None);
            let unreadable = u32::from(is_missed);
            assert_eq!(report.blocks_unreadable, unreadable, "{slot} {bad:?}");
            assert_eq!(report.is_conclusive(), !is_missed);
        }
    }
}

/// With all drives, a resync computes all parity again. With a drive missing, the volume is refused, because parity may
/// give wrong data for that drive.
#[test]
fn where_a_replay_does_not_settle_everything_the_volume_starts_as_without_a_log() {
    let mut scene = Scene::new(made(), [0, 1, 2, 3]);
    let (written, other) = (scene.written, scene.other);
    let bad = scene.page_at / 512..scene.page_at / 512 + 1;
    scene.change(|mpb| mpb.set_bad_ranges(written, &[bad]).unwrap());
    let copy = |scene: &Scene| Scene {
        mpb: scene.mpb.clone(),
        drives: copied(&scene.drives),
        ..*scene
    };

    let whole = copy(&scene);
    let container = assemble(whole.open(None), StartOptions::default(), false).unwrap();
    let volume = &container.record.volumes[0];
    assert!(volume.dirty && volume.sync == resync());
    assert_eq!(whole.page(whole.parity), scene.page(scene.parity));
    let said = "its write-hole log could not repair everything";
    assert!(container.notes.iter().any(|note| note.contains(said)));

    let degraded = StartOptions {
        degraded: true,
        ..StartOptions::default()
    };
    let alone = copy(&scene);
    // The log is not read before the operator has accepted that the drive is missing.
    let refusal = assemble(alone.open(Some(other)), StartOptions::default(), false);
    let refusal = refusal.map(|_| ()).unwrap_err().to_string();
    assert!(refusal.contains("--degraded"), "{refusal}");
    assert!(!refusal.contains("write-hole log"), "{refusal}");
    let refusal = assemble(alone.open(Some(other)), degraded, false);
    let refusal = refusal.map(|_| ()).unwrap_err().to_string();
    for said in [
        "volume fuzz is not started",
        "its write-hole log cannot repair that",
        "1 blocks unreadable",
        "--accept-write-hole starts it all the same",
    ] {
        assert!(refusal.contains(said), "{refusal}");
    }
    for (pages, before) in alone.drives.iter().zip(&scene.drives) {
        assert!(*pages.borrow() == *before.borrow(), "something was written");
    }

    // A drive could be read when the start was decided, and cannot be read any more during the replay.
    let drives = alone.open(Some(other));
    let assembly = Scene::assembly(&drives);
    let mpb = &assembly.mpb;
    let mut clean = assembly.clone();
    clean.mpb.bad_blocks.clear();
    let decided = start_mode(&clean.mpb, 0, &assembly.present(), degraded);
    assert!(matches!(decided, StartMode::ReadWrite { replay: true, .. }));
    let mut modes = [decided.clone()];
    let refusal = replay_all(&drives, &assembly, mpb, &mut modes, degraded).unwrap_err();
    let refusal = refusal.to_string();
    for said in [
        "volume fuzz is not started",
        "blocks unreadable",
        "--accept-write-hole",
    ] {
        assert!(refusal.contains(said), "{refusal}");
    }
    // The same after the operator has accepted the write hole, and then for a volume that is not to be replayed.
    let accepted = StartOptions {
        accept_write_hole: true,
        ..degraded
    };
    let mut modes = [decided];
    replay_all(&drives, &assembly, mpb, &mut modes, accepted).unwrap();
    let left = StartMode::ReadWrite {
        sync: SyncWork::None,
        lost_slots: vec![other],
        replay: false,
        switch_policy: None,
    };
    assert_eq!(modes[0], left);
    assert!(
        replay_all(&drives, &assembly, mpb, &mut modes, accepted)
            .unwrap()
            .is_empty()
    );
}

/// To read a volume without a drive, parity would have to be right, but a replay that corrects it may not write.
#[test]
fn a_volume_that_may_only_be_read_is_not_replayed() {
    let scene = Scene::new(made(), [0, 1, 2, 3]);
    let before = copied(&scene.drives);
    let degraded = StartOptions {
        degraded: true,
        ..StartOptions::default()
    };
    let refusal = assemble(scene.open(Some(scene.other)), degraded, true);
    let refusal = refusal.map(|_| ()).unwrap_err().to_string();
    // That is the only reason, since its log would settle everything.
    let why = RefusedReason::ReplayWrites.to_string();
    assert_eq!(refusal, format!("volume fuzz is not started: {why}"));
    let container = assemble(scene.open(None), degraded, true).unwrap();
    let volume = &container.record.volumes[0];
    assert!(volume.read_only && volume.log.is_none());
    for (pages, before) in scene.drives.iter().zip(&before) {
        assert!(*pages.borrow() == *before.borrow(), "something was written");
    }
}

/// A drive that is being rebuilt may hold anything beyond the checkpoint.
#[test]
fn a_slot_that_is_out_of_sync_is_no_data_for_a_replay() {
    let whole = Scene::new(made(), [0, 1, 2, 3]);
    for (filled, of_lost_member) in [(whole.written, 1), (whole.other, 0)] {
        let mut mpb = made();
        rebuild_onto(&mut mpb, filled, MEMBERS);
        mpb.set_dirty(0, true).unwrap();
        let mut numbers = [0, 1, 2, 3];
        numbers[filled] = MEMBERS;
        let scene = Scene::new(mpb, numbers);
        let report = scene.rehearsed(None);
        assert!(report.is_conclusive(), "{report}");
        assert_eq!(report.entries_of_lost_members, of_lost_member, "{report}");
        let before = scene.page(scene.parity);
        let container = assemble(scene.open(None), StartOptions::default(), false).unwrap();
        assert_eq!(scene.page(scene.parity) == before, of_lost_member == 1);
        let sync = container.record.volumes[0].sync.unwrap();
        assert!(matches!(sync.kind, SyncKind::Rebuild(slot) if usize::from(slot.0) == filled));
    }
}
