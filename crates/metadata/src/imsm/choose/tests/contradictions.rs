//! Records that contradict each other in a way that no crash explains. They are refused, since either may be right.

use super::*;

/// Drives 1 and 3 have each marked another drive failed that was still written to. A crash can explain that drive 1
/// accuses drive 0, since its record is one update behind. But drive 2, which drive 1 calls healthy, is as far ahead.
#[test]
fn a_healthy_drive_ahead_of_the_truth_is_a_contradiction() {
    let before = golden::raid10();
    let accuser = next(&later(&before, 5), |mpb| mpb.mark_failed(0).unwrap());
    let ahead = later(&before, 7);
    assert_eq!(accuser.generation + 1, ahead.generation);
    let old_accuser = next(&before, |mpb| mpb.mark_failed(2).unwrap());
    let mut candidates = everywhere(&ahead);
    record(&mut candidates[1], &accuser);
    record(&mut candidates[3], &old_accuser);
    let refusal = only(&candidates).unwrap_err();
    let label = |drive: usize| candidates[drive].label();
    assert!(
        matches!(&refusal, Refusal::Contradiction { first, second }
            if first.drives == [label(1)] && second.drives == [label(0), label(2)]),
        "{refusal:?}"
    );
}

#[test]
fn a_failed_drive_that_is_two_updates_ahead_is_a_contradiction() {
    let before = golden::raid1();
    let without = next(&before, |mpb| mpb.mark_failed(0).unwrap());
    for (ahead, is_explained) in [(0, true), (1, true), (2, false)] {
        let mut candidates = everywhere(&before);
        record(&mut candidates[0], &later(&before, 1 + ahead));
        record(&mut candidates[1], &without);
        let outcome = only(&candidates);
        assert_eq!(outcome.is_ok(), is_explained, "{ahead} ahead");
        let is_contradiction = matches!(outcome, Err(Refusal::Contradiction { .. }));
        assert_eq!(is_contradiction, !is_explained, "{ahead} ahead");
    }
}

/// A drive was replaced, but has a record of the same generation as the drives that serve.
#[test]
fn a_replaced_drive_with_as_new_a_record_is_no_old_one() {
    let before = golden::raid1();
    let replaced = next(&next(&before, |mpb| mpb.mark_failed(1).unwrap()), |mpb| {
        mpb.start_rebuild(0, 1, onto_spare()).unwrap();
    });
    let mut candidates = everywhere(&replaced);
    candidates.push(carries(&before.disks[1].serial, &before));
    let assembly = only(&candidates).expect("two generations behind");
    assert_eq!(assembly.outsiders, [(2, Eviction::Replaced)]);
    record(&mut candidates[2], &later(&before, 2));
    assert!(matches!(
        only(&candidates),
        Err(Refusal::DifferentContent { .. })
    ));
}

/// Both drives of a mirror were replaced, one after the other. The second of them had been in use by itself and had
/// marked the first one failed. It accuses none of the drives that serve. But it is a complete half: the only drive
/// that its record does not call failed is itself.
#[test]
fn a_half_is_complete_without_the_drives_that_it_calls_failed() {
    let before = golden::raid1();
    let alone = later(&next(&before, |mpb| mpb.mark_failed(0).unwrap()), 9);
    let mut last = before.clone();
    for (slot, name) in [b"NEW0", b"NEW1"].into_iter().enumerate() {
        last = later(&last, 20);
        let row = last.volumes[0].map.order[slot].disk_index as usize;
        last.mark_failed(row).unwrap();
        let target = RebuildTarget::NewDrive {
            drive: NewDrive {
                serial: Serial::from_drive(name),
                ..SPARE
            },
            family_salt: 0x3333,
        };
        last.start_rebuild(0, slot, target).unwrap();
        last.finish_rebuild(0).unwrap();
    }
    let mut candidates = everywhere(&last);
    assert_eq!(candidates.len(), 2);
    assert!(only(&candidates).is_ok());
    candidates.push(carries(&before.disks[1].serial, &alone));
    assert!(matches!(
        only(&candidates),
        Err(Refusal::SplitHalves { .. })
    ));
}
