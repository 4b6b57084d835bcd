//! Drives whose records are torn, gone, foreign, or on the wrong drive.

use super::*;
use crate::imsm::codec::RecordIdentity;

/// A record with a bad checksum whose header claims this family and generation.
fn torn(container_family: u32, generation: u32) -> Content {
    let claims = RecordIdentity {
        container_family,
        generation,
        checksum: 1,
    };
    Content::Damaged(DecodeError::Checksum {
        computed: 2,
        claims,
    })
}

#[test]
fn a_torn_copy_serves_and_is_written_again() {
    let mpb = golden::raid5();
    for generation in [mpb.generation - 1, mpb.generation, mpb.generation + 1] {
        let mut candidates = everywhere(&mpb);
        candidates[2].content = torn(mpb.orig_family_num, generation);
        let choice = choose(&candidates);
        assert!(choice.damaged.is_empty());
        let assembly = choice.containers[0].outcome.as_ref().unwrap();
        assert_eq!(assembly.members[2], present(2));
        assert!(assembly.rewrite_needed);
        assert!(assembly.warnings[0].contains("torn by an interrupted update"));
    }
}

#[test]
fn a_torn_copy_on_a_failed_drive_stays_out() {
    let degraded = next(&golden::raid5(), |mpb| mpb.mark_failed(2).unwrap());
    let mut candidates = everywhere(&golden::raid5());
    for candidate in &mut candidates {
        record(candidate, &degraded);
    }
    candidates[2].content = torn(degraded.orig_family_num, degraded.generation);
    let assembly = only(&candidates).unwrap();
    assert_eq!(assembly.members[2], evicted(2, Eviction::MarkedFailed));
}

#[test]
fn a_torn_copy_must_agree_with_the_others() {
    let mpb = golden::raid5();
    let with = |content| {
        let mut candidates = everywhere(&mpb);
        candidates[2].content = content;
        only(&candidates)
    };
    let family = mpb.orig_family_num;
    let stale = Eviction::Stale {
        generation: 9,
        newest: 23,
    };
    assert_eq!(with(torn(family, 9)).unwrap().members[2], evicted(2, stale));
    assert_eq!(
        with(torn(family + 1, 23)).unwrap().members[2],
        evicted(2, Eviction::DamagedRecord)
    );
    let no_length = Content::Damaged(DecodeError::BadLength { mpb_size: 0 });
    assert_eq!(
        with(no_length).unwrap().members[2],
        evicted(2, Eviction::DamagedRecord)
    );
    // It was written to without the others, and how is not known. Data could be lost whichever side were chosen.
    assert!(matches!(
        with(torn(family, 25)),
        Err(Refusal::DamagedIsNewer {
            claimed: 25,
            newest: 23,
            ..
        })
    ));
}

#[test]
fn a_damaged_drive_that_nobody_lists_is_only_reported() {
    let mut candidates = everywhere(&golden::raid1());
    let mut stranger = carries(&SPARE.serial, &golden::raid1());
    stranger.content = torn(1, 1);
    candidates.push(stranger);
    let choice = choose(&candidates);
    assert_eq!(choice.damaged, [2]);
    assert_eq!(
        choice.containers[0].outcome.as_ref().unwrap().present(),
        [true, true]
    );
}

#[test]
fn a_member_that_lost_its_record_does_not_serve() {
    // A replaced or erased drive must not serve zeros, even if it can be read.
    let mpb = golden::raid5();
    let spare = Mpb::spare(&SPARE, SectorSize::Bytes512).unwrap();
    for (content, reason) in [
        (Content::Nothing, Eviction::NoRecord),
        (Content::Record(Box::new(spare)), Eviction::SpareRecord),
    ] {
        let mut candidates = everywhere(&mpb);
        candidates[1].content = content;
        let choice = choose(&candidates);
        let assembly = choice.containers[0].outcome.as_ref().unwrap();
        assert_eq!(assembly.members[1], evicted(1, reason));
        assert!(choice.spares.is_empty());
    }
    let mut candidates = everywhere(&mpb);
    record(&mut candidates[1], &golden::raid1());
    let choice = choose(&candidates);
    let assembly = choice.containers[0].outcome.as_ref().unwrap();
    assert_eq!(assembly.members[1], evicted(1, Eviction::OtherContainer));
    assert!(matches!(
        choice.containers[1].outcome,
        Err(Refusal::NoUsableRecord { .. })
    ));
}

#[test]
fn a_failed_drive_that_became_a_spare_is_a_spare() {
    let degraded = next(&golden::raid5(), |mpb| mpb.mark_failed(1).unwrap());
    let mut candidates = everywhere(&golden::raid5());
    for candidate in &mut candidates {
        record(candidate, &degraded);
    }
    let own = NewDrive {
        serial: candidates[1].serial,
        total_sectors: 131_072,
    };
    record(
        &mut candidates[1],
        &Mpb::spare(&own, SectorSize::Bytes512).unwrap(),
    );
    let choice = choose(&candidates);
    assert_eq!(choice.spares, [1]);
    let assembly = choice.containers[0].outcome.as_ref().unwrap();
    assert_eq!(assembly.members[1], MemberState::MarkedFailed);
    assert_eq!(assembly.spares, [1]);
}

#[test]
fn drives_that_cannot_be_told_apart_are_refused() {
    let mut candidates = everywhere(&golden::raid5());
    let mut copy = candidates[1].clone();
    copy.name = "/dev/copy".into();
    candidates.push(copy);
    match only(&candidates) {
        Err(Refusal::DuplicateSerial { serial, drives }) => {
            assert_eq!(serial, candidates[1].serial);
            assert_eq!(drives.len(), 2);
            assert!(drives[1].starts_with("/dev/copy"));
        }
        other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn a_copy_on_another_drive_does_not_serve() {
    let mpb = golden::raid5();
    let mut candidates = everywhere(&mpb);
    candidates[3].serial = Serial::from_drive(b"ELSEWHERE");
    let assembly = only(&candidates).unwrap();
    assert_eq!(assembly.outsiders, [(3, Eviction::NotInOwnRecord)]);
    assert_eq!(assembly.members[3], MemberState::Missing);
    candidates.drain(..3);
    assert!(matches!(
        only(&candidates),
        Err(Refusal::NoUsableRecord { .. })
    ));
}

#[test]
fn sector_sizes_must_agree() {
    let mut candidates = everywhere(&golden::raid5());
    candidates[2].sector = SectorSize::Bytes4096;
    assert!(matches!(
        only(&candidates),
        Err(Refusal::MixedSectorSizes { .. })
    ));
}

#[test]
fn a_drive_that_shrank_does_not_serve_and_one_that_grew_is_mentioned() {
    let mut candidates = everywhere(&golden::raid5());
    candidates[0].total_sectors = 119_000;
    candidates[1].total_sectors = 131_072 + 8;
    let assembly = only(&candidates).unwrap();
    assert_eq!(assembly.members[0], evicted(0, Eviction::TooSmall));
    assert_eq!(assembly.members[1], present(1));
    assert!(
        assembly
            .warnings
            .iter()
            .any(|w| w.contains("has 131080 sectors"))
    );
}

#[test]
fn refusals_are_sentences_that_name_the_drives() {
    let mut candidates = everywhere(&golden::raid1());
    candidates[1].content = torn(golden::raid1().orig_family_num, 99);
    assert_eq!(
        format!("{}", only(&candidates).unwrap_err()),
        "the damaged record of /dev/IMSMLAB0005 (serial IMSMLAB0005) claims generation 99, newer \
         than every readable one (26); remove that drive to go on without it"
    );
}
