//! Updates of the record that were cut off: the dirty marks of old and new copies are united, and the update is
//! finished.

use super::*;

fn dirty_volumes(mpb: &Mpb) -> Vec<bool> {
    mpb.volumes.iter().map(|volume| volume.is_dirty()).collect()
}

/// A volume is dirty if either the older or the newer copy says so.
#[test]
fn each_volume_keeps_the_dirty_mark_of_either_copy() {
    let marked = |before: &Mpb, dirty: [bool; 2]| {
        next(before, |mpb| {
            for (volume, dirty) in dirty.into_iter().enumerate() {
                mpb.set_dirty(volume, dirty).unwrap();
            }
        })
    };
    for older in [[false, false], [false, true], [true, false], [true, true]] {
        for newer in [[false, false], [false, true], [true, false], [true, true]] {
            let before = marked(&two_volumes(), older);
            let after = marked(&before, newer);
            let mut candidates = everywhere(&after);
            record(&mut candidates[1], &before);
            let assembly = only(&candidates).unwrap();
            let wanted = [older[0] | newer[0], older[1] | newer[1]];
            assert_eq!(dirty_volumes(&assembly.mpb), wanted, "{older:?} {newer:?}");
            let unfinished = assembly.unfinished.expect("drive 1 lacks the update");
            assert_eq!((*unfinished.record, unfinished.drives), (after, vec![1]));
        }
    }
}

#[test]
fn nothing_is_left_to_finish_where_all_copies_agree() {
    assert_eq!(only(&everywhere(&two_volumes())).unwrap().unfinished, None);
}

/// The drive that is ahead is marked failed and does not serve. The update is finished with a generation that is not
/// lower than that drive's, so that its record does not look newer at the next start.
#[test]
fn an_update_on_a_failed_drive_is_overtaken() {
    let before = golden::raid1();
    let without = next(&before, |mpb| mpb.mark_failed(0).unwrap());
    let mut candidates = everywhere(&before);
    record(&mut candidates[0], &later(&before, 2));
    record(&mut candidates[1], &without);
    let unfinished = only(&candidates).unwrap().unfinished.unwrap();
    assert_eq!(*unfinished.record, later(&without, 1));
    assert_eq!(unfinished.drives, [1]);
}

/// The torn record's header agrees with the others, but it was written for sectors of another size.
#[test]
fn a_torn_copy_on_a_drive_with_other_sectors_does_not_serve() {
    let mpb = golden::raid5();
    let claims = crate::imsm::codec::RecordIdentity {
        container_family: mpb.container_family(),
        generation: mpb.generation,
        checksum: 1,
    };
    let mut candidates = everywhere(&mpb);
    candidates[2].content = Content::Damaged(DecodeError::Checksum {
        computed: 2,
        claims,
    });
    assert_eq!(only(&candidates).unwrap().members[2], present(2));
    candidates[2].sector = SectorSize::Bytes4096;
    assert!(!only(&candidates).unwrap().present()[2]);
}

#[test]
fn a_drive_that_holds_only_the_first_volume_does_not_serve() {
    let mpb = two_volumes();
    let end = mpb.volumes[1].extent().end + crate::imsm::WRITE_HOLE_LOG_SECTORS;
    for (total_sectors, wanted) in [(end, present(1)), (end - 1, evicted(1, Eviction::TooSmall))] {
        let mut candidates = everywhere(&mpb);
        candidates[1].total_sectors = total_sectors;
        assert_eq!(only(&candidates).unwrap().members[1], wanted);
    }
}

/// A drive without a serial cannot be told from another one, whatever its record lists.
#[test]
fn a_drive_without_a_serial_does_not_serve() {
    let mut mpb = golden::raid5();
    mpb.disks[1].serial = Serial([0; 16]);
    let mut candidates = everywhere(&mpb);
    assert!(!only(&candidates).unwrap().present()[1]);
    candidates.push(candidates[1].clone());
    let present = only(&candidates).unwrap().present();
    assert_eq!(present, [true, false, true, true]);
    for candidate in &mut candidates {
        if candidate.serial.is_empty() {
            candidate.content = Content::Nothing;
        }
    }
    assert_eq!(only(&candidates).unwrap().members[1], MemberState::Missing);
}
