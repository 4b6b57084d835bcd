//! Every member's record is torn: when the shadows serve, and when they must not.

use super::*;
use crate::imsm::codec::{RecordIdentity, RecordPrint};
use crate::imsm::shadow::Shadow;

fn print(mpb: &Mpb) -> RecordPrint {
    RecordPrint::of(&mpb.encode(SectorSize::Bytes512).unwrap()).unwrap()
}

fn identity(mpb: &Mpb) -> RecordIdentity {
    print(mpb).identity
}

/// Tears the drive's own record, whose header says that it was `header`.
fn tear(candidate: &mut Candidate, header: &Mpb) {
    candidate.content = Content::Damaged(DecodeError::Checksum {
        computed: 0,
        claims: identity(header),
    });
}

/// Gives the drive the shadow that the update from `before` to `mpb` writes.
fn shade(candidate: &mut Candidate, before: &Mpb, mpb: &Mpb) {
    candidate.shadow = Some(Box::new(Shadow {
        mpb: mpb.clone(),
        print: print(mpb),
        replaced: Some(print(before)),
    }));
}

/// All drives of `mpb`, each interrupted while the update from `before` was written.
fn torn_everywhere(before: &Mpb, mpb: &Mpb) -> Vec<Candidate> {
    let mut candidates = everywhere(mpb);
    for candidate in &mut candidates {
        tear(candidate, mpb);
        shade(candidate, before, mpb);
    }
    candidates
}

fn dirty(mpb: &Mpb) -> Mpb {
    next(mpb, |mpb| mpb.set_dirty(0, true).unwrap())
}

/// The record that has to be put back from the shadows.
fn from_shadows(assembly: &Assembly) -> Option<&Mpb> {
    let unfinished = assembly.unfinished.as_ref();
    let unfinished = unfinished.filter(|unfinished| unfinished.from_shadows);
    unfinished.map(|unfinished| &*unfinished.record)
}

fn doubt(candidates: &[Candidate]) -> ShadowDoubt {
    match only(candidates) {
        Err(Refusal::ShadowsInDoubt { why, .. }) => why,
        other => panic!("unexpected {other:?}"),
    }
}

#[test]
fn they_serve_when_every_record_is_torn() {
    let before = golden::raid5();
    let now = dirty(&before);
    let mut candidates = torn_everywhere(&before, &now);
    // On one drive the record's first sector is still the old one, and another drive has lost its shadow.
    tear(&mut candidates[1], &before);
    candidates[2].shadow = None;
    let choice = choose(&candidates);
    assert!(choice.damaged.is_empty());
    let assembly = choice.containers[0].outcome.as_ref().unwrap();
    assert_eq!(assembly.mpb, now);
    assert_eq!(from_shadows(assembly), Some(&now));
    assert_eq!(assembly.present(), [true; 4]);
    assert!(assembly.rewrite_needed);
    assert_eq!(
        assembly.warnings,
        [
            "every member's record is torn: the shadow copy of generation 24 on /dev/IMSMLAB0010 \
             (serial IMSMLAB0010), /dev/IMSMLAB0011 (serial IMSMLAB0011), /dev/IMSMLAB0013 (serial \
             IMSMLAB0013) serves, and the records will be written again from it"
        ]
    );
}

#[test]
fn a_whole_record_of_a_member_decides_alone() {
    let before = golden::raid5();
    let now = dirty(&before);
    let mut candidates = torn_everywhere(&before, &now);
    record(&mut candidates[3], &before);
    let assembly = only(&candidates).unwrap();
    assert_eq!(assembly.mpb, before);
    assert_eq!(from_shadows(&assembly), None);
    // That also holds for a record that is far ahead because its drive was used alone.
    let ahead = later(&now, 7);
    record(&mut candidates[3], &ahead);
    assert!(from_shadows(&only(&candidates).unwrap()).is_none());
}

#[test]
fn the_newest_serves_and_dirty_marks_are_united() {
    let older = dirty(&golden::raid1());
    let now = next(&older, |mpb| mpb.set_dirty(0, false).unwrap());
    let mut candidates = torn_everywhere(&older, &now);
    // The update had not reached the second drive.
    tear(&mut candidates[1], &older);
    shade(&mut candidates[1], &golden::raid1(), &older);
    let assembly = only(&candidates).unwrap();
    assert_eq!(from_shadows(&assembly), Some(&now));
    assert_eq!(assembly.mpb.generation, now.generation);
    assert!(assembly.mpb.volumes[0].is_dirty());
}

#[test]
fn a_shadow_older_than_the_torn_record_never_serves() {
    // md has written records after our last one, and its last update was torn.
    let before = golden::raid1();
    let now = dirty(&before);
    for ours in [1, 3] {
        let mut candidates = torn_everywhere(&before, &now);
        tear(&mut candidates[0], &later(&now, ours));
        match doubt(&candidates) {
            ShadowDoubt::Overtaken {
                generation,
                shadow_generation,
                ..
            } => assert_eq!((generation, shadow_generation), (26 + 1 + ours, 27)),
            other => panic!("unexpected {other:?}"),
        }
    }
    // A record of the same generation with other content: md has marked a drive failed after our crash.
    let others = next(&before, |mpb| mpb.mark_failed(1).unwrap());
    let mut candidates = torn_everywhere(&before, &now);
    tear(&mut candidates[0], &others);
    assert!(matches!(
        doubt(&candidates),
        ShadowDoubt::Overtaken { generation: 27, .. }
    ));
}

#[test]
fn shadows_that_contradict_each_other_never_serve() {
    let before = golden::raid1();
    let now = dirty(&before);
    let other = next(&before, |mpb| mpb.mark_failed(0).unwrap());
    for other in [other, later(&now, 1), later(&before, 5)] {
        let mut candidates = torn_everywhere(&before, &now);
        shade(&mut candidates[1], &before, &other);
        assert!(matches!(doubt(&candidates), ShadowDoubt::Disagree { .. }));
    }
    // A shadow may be one update old. One that is far behind is from a drive that has missed updates without being
    // marked failed.
    let mut candidates = torn_everywhere(&before, &now);
    tear(&mut candidates[1], &now);
    shade(&mut candidates[1], &golden::raid1(), &golden::raid1());
    assert!(only(&candidates).is_ok(), "one update behind");
    let stale = Mpb {
        generation: 9,
        ..golden::raid1()
    };
    shade(&mut candidates[1], &now, &stale);
    assert!(matches!(doubt(&candidates), ShadowDoubt::Disagree { .. }));
}

#[test]
fn an_erased_member_keeps_the_shadows_from_serving() {
    let before = golden::raid5();
    let now = dirty(&before);
    let spare = Mpb::spare(&SPARE, SectorSize::Bytes512).unwrap();
    for content in [
        Content::Nothing,
        Content::Record(Box::new(spare)),
        Content::Damaged(DecodeError::BadLength { mpb_size: 7 }),
    ] {
        let mut candidates = torn_everywhere(&before, &now);
        candidates[2].content = content;
        assert!(matches!(doubt(&candidates), ShadowDoubt::NotTorn { .. }));
        // If that drive is left out, the others' shadows serve, and it counts as missing.
        candidates.remove(2);
        let assembly = only(&candidates).unwrap();
        assert_eq!(assembly.members[2], MemberState::Missing);
    }
    // If all records are erased there is no container, whatever the shadows contain.
    let mut candidates = torn_everywhere(&before, &now);
    for candidate in &mut candidates {
        candidate.content = Content::Nothing;
    }
    assert!(choose(&candidates).containers.is_empty());
}

#[test]
fn a_shadow_of_another_container_is_ignored() {
    let before = golden::raid1();
    let now = dirty(&before);
    let mut candidates = torn_everywhere(&before, &now);
    shade(&mut candidates[1], &golden::raid5(), &golden::raid5());
    let choice = choose(&candidates);
    assert_eq!(choice.containers.len(), 1);
    let assembly = choice.containers[0].outcome.as_ref().unwrap();
    assert_eq!(assembly.present(), [true; 2]);
    // If that drive is the only one left, there is no container.
    candidates.remove(0);
    let choice = choose(&candidates);
    assert!(choice.containers.is_empty());
    assert_eq!(choice.damaged, [0]);
    // A shadow that was copied from another drive is ignored as well.
    let mut candidates = torn_everywhere(&before, &now);
    candidates[0].serial = SPARE.serial;
    candidates.truncate(1);
    assert!(choose(&candidates).containers.is_empty());
}

/// The main purpose of shadows: a mirror has one drive left, and the lost one is still plugged in.
#[test]
fn a_lost_drive_with_an_older_record_does_not_come_back() {
    let whole = golden::raid1();
    let degraded = next(&whole, |mpb| mpb.mark_failed(1).unwrap());
    let now = dirty(&degraded);
    let mut candidates = everywhere(&whole);
    tear(&mut candidates[0], &now);
    shade(&mut candidates[0], &degraded, &now);
    let assembly = only(&candidates).unwrap();
    assert_eq!(from_shadows(&assembly), Some(&now));
    assert_eq!(assembly.members[0], present(0));
    assert_eq!(assembly.members[1], evicted(1, Eviction::MarkedFailed));
    // The lost drive's record is torn as well, and its shadow is old.
    tear(&mut candidates[1], &whole);
    shade(&mut candidates[1], &whole, &whole);
    let assembly = only(&candidates).unwrap();
    assert_eq!(assembly.members[1], evicted(1, Eviction::MarkedFailed));

    // But if the lost drive was used alone, its record decides. If that is torn, its shadow contradicts the other one.
    let alone = next(&whole, |mpb| mpb.mark_failed(0).unwrap());
    record(&mut candidates[1], &alone);
    let assembly = only(&candidates).unwrap();
    assert_eq!(assembly.mpb, alone);
    assert_eq!(assembly.members[0], evicted(0, Eviction::MarkedFailed));
    tear(&mut candidates[1], &alone);
    shade(&mut candidates[1], &whole, &alone);
    assert!(matches!(doubt(&candidates), ShadowDoubt::Disagree { .. }));
}

#[test]
fn drives_that_carry_nothing_of_the_container_are_left_alone_where_shadows_serve() {
    let degraded = next(&golden::raid1(), |mpb| mpb.mark_failed(1).unwrap());
    let now = dirty(&degraded);
    let spare = Mpb::spare(&SPARE, SectorSize::Bytes512).unwrap();
    let torn_of_another = |candidate: &mut Candidate| tear(candidate, &golden::raid5());
    let mut candidates = everywhere(&golden::raid1());
    tear(&mut candidates[0], &now);
    shade(&mut candidates[0], &degraded, &now);
    // The lost drive was erased; the others are a spare, an empty drive, and one of another container.
    candidates[1].content = Content::Nothing;
    for name in [b"SPARE", b"EMPTY", b"OTHER"] {
        candidates.push(carries(&Serial::from_drive(name), &spare));
    }
    candidates[3].content = Content::Nothing;
    torn_of_another(&mut candidates[4]);
    let choice = choose(&candidates);
    let assembly = choice.containers[0].outcome.as_ref().unwrap();
    assert_eq!(from_shadows(assembly), Some(&now));
    assert_eq!(assembly.members, [present(0), MemberState::MarkedFailed]);
    assert_eq!(assembly.outsiders, []);
    assert_eq!((choice.spares, choice.damaged), (vec![2], vec![4]));
    assert_eq!(assembly.spares, [2]);
    // The torn record on the lost drive may also be of another container.
    torn_of_another(&mut candidates[1]);
    let assembly = only(&candidates).unwrap();
    assert_eq!(assembly.members[1], MemberState::MarkedFailed);
}

/// When a spare joins, the record that its first shadow names as replaced is the spare's own.
#[test]
fn a_drive_that_has_just_joined_is_a_member() {
    let degraded = next(&golden::raid1(), |mpb| mpb.mark_failed(1).unwrap());
    let rebuilding = next(&degraded, |mpb| {
        mpb.start_rebuild(0, 1, onto_spare()).unwrap();
    });
    let spare = Mpb::spare(&SPARE, SectorSize::Bytes512).unwrap();
    let mut candidates = everywhere(&golden::raid1());
    candidates[1] = carries(&SPARE.serial, &spare);
    tear(&mut candidates[0], &rebuilding);
    shade(&mut candidates[0], &degraded, &rebuilding);
    tear(&mut candidates[1], &spare);
    shade(&mut candidates[1], &spare, &rebuilding);
    let choice = choose(&candidates);
    assert_eq!(choice.containers.len(), 1);
    let assembly = choice.containers[0].outcome.as_ref().unwrap();
    assert_eq!(assembly.mpb, rebuilding);
    let serving = |drive| assembly.members.contains(&present(drive));
    assert!(serving(0) && serving(1), "{:?}", assembly.members);
}

#[test]
fn drives_that_do_not_fit_are_refused_as_ever() {
    let before = golden::raid1();
    let now = dirty(&before);
    let mut candidates = torn_everywhere(&before, &now);
    candidates.push(candidates[0].clone());
    assert!(matches!(
        only(&candidates),
        Err(Refusal::DuplicateSerial { .. })
    ));
    candidates.pop();
    candidates[1].sector = SectorSize::Bytes4096;
    assert!(matches!(
        only(&candidates),
        Err(Refusal::MixedSectorSizes { .. })
    ));
    candidates[1].sector = SectorSize::Bytes512;
    candidates[1].total_sectors = 20_000;
    let assembly = only(&candidates).unwrap();
    assert_eq!(assembly.members[1], evicted(1, Eviction::TooSmall));
}

#[test]
fn a_refusal_says_why() {
    let before = golden::raid1();
    let now = dirty(&before);
    let mut candidates = torn_everywhere(&before, &now);
    candidates[1].content = Content::Nothing;
    assert_eq!(
        format!("{}", only(&candidates).unwrap_err()),
        "every member's record is torn, and the shadow copies on /dev/IMSMLAB0004 (serial \
         IMSMLAB0004) do not serve: /dev/IMSMLAB0005 (serial IMSMLAB0005) should be a member but its \
         record is not torn: the drive has none, or another container's; leave that drive out"
    );
    tear(&mut candidates[1], &later(&now, 4));
    let sentence = format!("{}", only(&candidates).unwrap_err());
    assert!(
        sentence.contains("generation 31, is not one that the shadow copy of generation 27 knows"),
        "{sentence}"
    );
}
