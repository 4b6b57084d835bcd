//! Starting with a write-hole log on the members.

use super::*;

fn logged() -> Mpb {
    with_policy(WriteHolePolicy::Log)
}

fn crashed(mpb: Mpb) -> Mpb {
    with(mpb, |mpb| mpb.set_dirty(0, true).unwrap())
}

fn replaying(sync: SyncWork, lost_slots: Vec<usize>) -> StartMode {
    StartMode::ReadWrite {
        sync,
        lost_slots,
        replay: true,
        switch_policy: None,
    }
}

fn useless(mpb: &Mpb, options: StartOptions) -> StartMode {
    start_mode_without_log(mpb, 0, &ALL, options)
}

#[test]
fn a_clean_volume_starts_with_its_log() {
    assert_eq!(mode(&logged()), read_write(SyncWork::None, vec![]));
    let lost = without_slot(logged(), 2);
    assert_eq!(mode(&lost), read_write(SyncWork::None, vec![2]));
}

#[test]
fn a_dirty_volume_is_replayed_and_needs_no_resync() {
    let mpb = crashed(logged());
    assert_eq!(mpb.volumes[0].dirty, 3);
    assert_eq!(mode(&mpb), replaying(SyncWork::None, vec![]));
    // The same holds if the bit that says that the log is valid is missing.
    assert_eq!(mode(&dirty(logged())), replaying(SyncWork::None, vec![]));
    let resync = SyncWork::Resync { from_sector: 0 };
    assert_eq!(useless(&mpb, NOTHING_ACCEPTED), read_write(resync, vec![]));
}

#[test]
fn a_dirty_volume_without_a_member_is_what_the_log_is_for() {
    let mpb = crashed(without_slot(logged(), 3));
    assert_eq!(mode(&mpb), replaying(SyncWork::None, vec![3]));
    let missing = crashed(logged());
    assert_eq!(
        start_mode(&missing, 0, &[true; 3], DEGRADED_ACCEPTED),
        replaying(SyncWork::None, vec![3])
    );
    // If the log cannot be used, the volume is treated as one without a log.
    assert_eq!(
        useless(&mpb, NOTHING_ACCEPTED),
        refused(
            RefusedReason::DirtyAndDegraded,
            Some(ACCEPT_WRITE_HOLE_FLAG)
        )
    );
    assert_eq!(
        useless(&mpb, HOLE_ACCEPTED),
        read_write(SyncWork::None, vec![3])
    );
}

#[test]
fn what_was_in_progress_keeps_its_rules() {
    // The replay makes parity right where writes were interrupted, but not where the repair has not been yet.
    let mpb = crashed(repairing(logged(), 18));
    let resync = SyncWork::Resync { from_sector: 0 };
    assert_eq!(mode(&mpb), replaying(resync, vec![]));
    let degraded = without_slot(mpb, 3);
    assert_eq!(
        mode(&degraded),
        refused(
            RefusedReason::InterruptedRepair,
            Some(ACCEPT_WRITE_HOLE_FLAG)
        )
    );
    let mpb = crashed(initialising(logged(), 18));
    let sync = SyncWork::InitialSync { from_sector: 0 };
    assert_eq!(mode(&mpb), replaying(sync, vec![]));
    // The volume would be read-only, but a replay has to write.
    let degraded = without_slot(mpb, 3);
    assert_eq!(
        start_mode(&degraded, 0, &ALL, UNSYNCED_ACCEPTED),
        refused(
            RefusedReason::DirtyAndDegraded,
            Some(ACCEPT_WRITE_HOLE_FLAG)
        )
    );
    let rebuild = SyncWork::Rebuild {
        slots: vec![1],
        from_sector: 0,
        then_resync: false,
    };
    let mpb = crashed(rebuilding(logged(), 1, 7));
    assert_eq!(mode(&mpb), replaying(rebuild, vec![]));
}

#[test]
fn the_small_log_is_replayed_and_replaced() {
    let single = with_policy(WriteHolePolicy::LogSingle);
    let switch = |replay, to| StartMode::ReadWrite {
        sync: SyncWork::None,
        lost_slots: vec![],
        replay,
        switch_policy: Some(to),
    };
    assert_eq!(mode(&single), switch(false, WriteHolePolicy::Log));
    let mpb = crashed(single.clone());
    assert_eq!(mode(&mpb), switch(true, WriteHolePolicy::Log));
    // If there is no room for the large log, the volume continues without a log.
    let crowded = with(mpb, |mpb| crowd(mpb, 300));
    assert_eq!(mode(&crowded), switch(true, WriteHolePolicy::Off));
    let crowded = with(single, |mpb| crowd(mpb, 300));
    assert_eq!(mode(&crowded), switch(false, WriteHolePolicy::Off));
}

#[test]
fn a_log_without_room_is_none() {
    let mpb = with(crashed(logged()), |mpb| crowd(mpb, 2047));
    let resync = SyncWork::Resync { from_sector: 0 };
    assert_eq!(mode(&mpb), switching(WriteHolePolicy::Off, resync, vec![]));
    let mpb = with(crashed(logged()), |mpb| crowd(mpb, 2048));
    assert_eq!(mode(&mpb), replaying(SyncWork::None, vec![]));
}

/// Puts another volume behind the first, with this number of sectors between them.
fn crowd(mpb: &mut Mpb, gap_sectors: u64) {
    let mut next = mpb.volumes[0].clone();
    next.name = VolumeName::new("next").unwrap();
    next.map.start_sector = mpb.volumes[0].extent().end + gap_sectors;
    next.map.data_stripes = 16;
    next.size_sectors = 16 * 128 * 3;
    next.dirty = 0;
    mpb.volumes.push(next);
}
