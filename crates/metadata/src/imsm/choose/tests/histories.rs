//! Crashes, failures and separations, with every record readable.

use super::*;

#[test]
fn a_container_whose_copies_agree_is_assembled() {
    let mpb = golden::raid5();
    let assembly = only(&everywhere(&mpb)).unwrap();
    assert_eq!(assembly.mpb, mpb);
    assert_eq!(
        assembly.members,
        [present(0), present(1), present(2), present(3)]
    );
    assert!(!assembly.rewrite_needed && assembly.warnings.is_empty());
    assert_eq!(assembly.present(), [true; 4]);
}

#[test]
fn drives_find_their_place_whatever_order_they_come_in() {
    let mut mpb = golden::raid5();
    mpb.volumes[0].map.order.reverse();
    let mut candidates = everywhere(&mpb);
    candidates.rotate_left(1);
    let assembly = only(&candidates).unwrap();
    assert_eq!(
        assembly.members,
        [present(3), present(0), present(1), present(2)]
    );
    let drives = assembly.slot_drives(&assembly.mpb.volumes[0]);
    assert_eq!(drives, [Some(2), Some(1), Some(0), Some(3)]);
}

#[test]
fn containers_and_spares_are_told_apart() {
    let mut candidates = everywhere(&golden::raid1());
    let spare = Mpb::spare(&SPARE, SectorSize::Bytes512).unwrap();
    candidates.push(carries(&SPARE.serial, &spare));
    candidates.extend(everywhere(&golden::raid5()));
    let small = NewDrive {
        serial: Serial::from_drive(b"SMALL"),
        total_sectors: 110_000,
    };
    let mut small = carries(
        &small.serial,
        &Mpb::spare(&small, SectorSize::Bytes512).unwrap(),
    );
    small.total_sectors = 110_000;
    candidates.push(small);
    let choice = choose(&candidates);
    let families: Vec<u32> = choice
        .containers
        .iter()
        .map(|c| c.container_family)
        .collect();
    assert_eq!(families, [0x8d4f_6540, 0x27df_be6e]);
    assert_eq!(choice.spares, [2, 7]);
    // The RAID 1 is small enough for both, the RAID 5 only for one.
    assert_eq!(
        choice.containers[0].outcome.as_ref().unwrap().spares,
        [2, 7]
    );
    assert_eq!(choice.containers[1].outcome.as_ref().unwrap().spares, [2]);
}

#[test]
fn an_interrupted_update_is_accepted_and_dirty_marks_are_united() {
    let dirty = next(&golden::raid5(), |mpb| mpb.set_dirty(0, true).unwrap());
    let clean = next(&dirty, |mpb| mpb.set_dirty(0, false).unwrap());
    // A crash while "clean" was being written: the records on half of the drives still say dirty.
    let mut candidates = everywhere(&clean);
    record(&mut candidates[1], &dirty);
    record(&mut candidates[3], &dirty);
    let assembly = only(&candidates).unwrap();
    assert_eq!(
        assembly.members,
        [present(0), present(1), present(2), present(3)]
    );
    assert!(assembly.rewrite_needed);
    assert!(assembly.mpb.volumes[0].is_dirty());
    assert_eq!(assembly.mpb.generation, clean.generation);
}

#[test]
fn a_stale_member_without_a_failed_mark_is_evicted() {
    // md assembles such a container as if all drives were current.
    let newest = later(&golden::raid5(), 2);
    let mut candidates = everywhere(&newest);
    record(&mut candidates[2], &golden::raid5());
    let mut assembly = only(&candidates).unwrap();
    let reason = Eviction::Stale {
        generation: 23,
        newest: 25,
    };
    assert_eq!(assembly.members[2], evicted(2, reason));
    assert_eq!(assembly.present(), [true, true, false, true]);
    assert!(assembly.warnings[0].contains("generation 23, the others have 25"));
    assert!(assembly.record_absences(|_| true).unwrap());
    assert!(assembly.mpb.disks[2].is_failed());
    assert!(!assembly.record_absences(|_| true).unwrap());
}

#[test]
fn a_missing_member_is_listed_and_can_be_recorded() {
    let mut candidates = everywhere(&golden::raid5());
    candidates.remove(1);
    let mut assembly = only(&candidates).unwrap();
    assert_eq!(assembly.members[1], MemberState::Missing);
    assert_eq!(
        assembly.warnings,
        ["the drive with serial IMSMLAB0011 is missing"]
    );
    assembly.record_absences(|_| true).unwrap();
    assert_eq!(assembly.mpb.disks[1].scsi_id, 0xFFFF_FFFF);
    assert_eq!(assembly.mpb.volumes[0].map.failed_slot, Some(1));
}

#[test]
fn a_returned_failed_member_is_not_added_again() {
    for missing in [false, true] {
        let degraded = next(&golden::raid5(), |mpb| {
            if missing {
                mpb.mark_missing(0).unwrap()
            } else {
                mpb.mark_failed(0).unwrap()
            }
        });
        let mut candidates = everywhere(&golden::raid5());
        for survivor in &mut candidates[1..] {
            record(survivor, &degraded);
        }
        let assembly = only(&candidates).unwrap();
        assert_eq!(assembly.members[0], evicted(0, Eviction::MarkedFailed));
        assert_eq!(assembly.mpb, degraded);
        assert_eq!(assembly.present(), [false, true, true, true]);
        // If the drive is not present, its row is just marked failed.
        let assembly = only(&candidates[1..]).unwrap();
        assert_eq!(assembly.members[0], MemberState::MarkedFailed);
    }
}

/// Both md and this program change the serial of a failed drive. The failed mark counts without that change, too.
#[test]
fn a_failed_mark_counts_beside_a_serial_that_was_left_as_it_was() {
    let degraded = next(&golden::raid5(), |mpb| {
        let serial = mpb.disks[2].serial;
        mpb.mark_failed(2).unwrap();
        mpb.disks[2].serial = serial;
    });
    for knows_itself in [false, true] {
        let mut candidates = everywhere(&degraded);
        if !knows_itself {
            record(&mut candidates[2], &golden::raid5());
        }
        let assembly = only(&candidates).unwrap();
        assert_eq!(assembly.members[2], evicted(2, Eviction::MarkedFailed));
        assert_eq!(assembly.present(), [true, true, false, true]);
    }
}

#[test]
fn a_member_that_was_replaced_stays_outside() {
    let degraded = next(&golden::raid5(), |mpb| mpb.mark_failed(0).unwrap());
    let rebuilding = next(&degraded, |mpb| {
        mpb.start_rebuild(0, 0, onto_spare()).unwrap();
    });
    let mut candidates = everywhere(&rebuilding);
    candidates.push(carries(&golden::raid5().disks[0].serial, &golden::raid5()));
    let assembly = only(&candidates).unwrap();
    assert_eq!(assembly.outsiders, [(4, Eviction::Replaced)]);
    assert_eq!(assembly.present(), [true; 4]);
    assert_eq!(assembly.mpb, rebuilding);
}

#[test]
fn a_failed_mark_outweighs_one_more_update_on_the_failed_drive() {
    // An update reached only drive 0. Then the machine started without drive 0, and drive 1 was used alone.
    let before = golden::raid1();
    let without = next(&before, |mpb| mpb.mark_missing(0).unwrap());
    for missed in [1, 2] {
        let ahead = later(
            &next(&before, |mpb| mpb.set_dirty(0, true).unwrap()),
            missed - 1,
        );
        let mut candidates = everywhere(&before);
        record(&mut candidates[0], &ahead);
        record(&mut candidates[1], &without);
        let assembly = only(&candidates).unwrap();
        assert_eq!(
            assembly.members,
            [evicted(0, Eviction::MarkedFailed), present(1)]
        );
        assert!(assembly.mpb.disks[0].is_failed());
        // The next update must have a higher generation than every record that was found.
        assert_eq!(assembly.mpb.generation, ahead.generation);
        assert!(assembly.rewrite_needed);
    }
}

#[test]
fn halves_that_each_went_on_alone_are_refused_and_both_shown() {
    let before = golden::raid1();
    let left = later(&next(&before, |mpb| mpb.mark_failed(1).unwrap()), 30);
    let right = later(&next(&before, |mpb| mpb.mark_failed(0).unwrap()), 7);
    let mut candidates = everywhere(&before);
    record(&mut candidates[0], &left);
    record(&mut candidates[1], &right);
    let refusal = only(&candidates).unwrap_err();
    let half = |drive: &str, generation| Half {
        drives: vec![drive.into()],
        generation,
    };
    assert_eq!(
        refusal,
        Refusal::SplitHalves {
            first: half("/dev/IMSMLAB0004 (serial IMSMLAB0004)", 57),
            second: half("/dev/IMSMLAB0005 (serial IMSMLAB0005)", 34),
        }
    );
    // Each half alone can be used.
    assert!(only(&candidates[..1]).is_ok() && only(&candidates[1..]).is_ok());
}

#[test]
fn halves_of_a_raid10_are_refused_even_if_one_is_incomplete() {
    let before = golden::raid10();
    let without = |gone: [usize; 2], times| {
        let mut mpb = before.clone();
        for row in gone {
            mpb.mark_failed(row).unwrap();
        }
        later(&mpb, times)
    };
    let (left, right) = (without([1, 3], 40), without([0, 2], 9));
    let mut candidates = everywhere(&before);
    for (drive, mpb) in [(0, &left), (2, &left), (1, &right), (3, &right)] {
        record(&mut candidates[drive], mpb);
    }
    assert!(matches!(
        only(&candidates),
        Err(Refusal::SplitHalves { .. })
    ));
    assert!(matches!(
        only(&candidates[..3]),
        Err(Refusal::SplitHalves { .. })
    ));
}

#[test]
fn halves_that_each_took_a_spare_are_refused() {
    let before = golden::raid1();
    let left = next(&next(&before, |mpb| mpb.mark_failed(1).unwrap()), |mpb| {
        mpb.start_rebuild(0, 1, onto_spare()).unwrap();
    });
    let other = NewDrive {
        serial: Serial::from_drive(b"OTHER"),
        ..SPARE
    };
    let right = next(&next(&before, |mpb| mpb.mark_failed(0).unwrap()), |mpb| {
        let target = RebuildTarget::NewDrive {
            drive: other,
            family_salt: 0x2222,
        };
        mpb.start_rebuild(0, 0, target).unwrap();
    });
    let right = later(&right, 5);
    let mut candidates = everywhere(&left);
    candidates.extend(everywhere(&right));
    assert!(matches!(
        only(&candidates),
        Err(Refusal::SplitHalves { .. })
    ));
}

#[test]
fn an_old_accusation_is_no_split() {
    // Drive 0 fails, then drive 2 of the other pair. Then a new drive with the serial of drive 0 takes slot 0. Drive 2
    // comes back, and its record still calls drive 0 failed.
    let before = golden::raid10();
    let first = next(&before, |mpb| mpb.mark_failed(0).unwrap());
    let second = next(&first, |mpb| mpb.mark_failed(2).unwrap());
    let again = NewDrive {
        serial: before.disks[0].serial,
        total_sectors: 131_072,
    };
    let rebuilt = next(&second, |mpb| {
        let target = RebuildTarget::NewDrive {
            drive: again,
            family_salt: 0x3333,
        };
        mpb.start_rebuild(0, 0, target).unwrap();
        mpb.finish_rebuild(0).unwrap();
    });
    let mut candidates: Vec<Candidate> = [0, 1, 3]
        .iter()
        .map(|&row| carries(&before.disks[row].serial, &rebuilt))
        .collect();
    candidates.push(carries(&before.disks[2].serial, &first));
    let assembly = only(&candidates).unwrap();
    assert!(
        assembly
            .members
            .contains(&evicted(3, Eviction::MarkedFailed))
    );
    assert_eq!(assembly.mpb, rebuilt);
}

/// Two drives fail one after the other, and an operator takes both back. The power fails when only the first of them
/// has the record that says so. The second one's old record calls the first failed, which was true at the time.
#[test]
fn a_drive_that_was_left_behind_says_nothing_against_one_that_is_being_taken_back() {
    let before = golden::raid10();
    let first = next(&before, |mpb| mpb.mark_failed(0).unwrap());
    let both = next(&later(&first, 5), |mpb| mpb.mark_failed(2).unwrap());
    let mut taken_back = before.clone();
    taken_back.generation = both.generation + 1;
    let records = [&taken_back, &both, &first, &both];
    // The order in which the drives are found must not matter.
    for start in 0..4 {
        let order: Vec<usize> = (0..4).map(|at| (start + at) % 4).collect();
        let found = |&row: &usize| carries(&before.disks[row].serial, records[row]);
        let candidates: Vec<Candidate> = order.iter().map(found).collect();
        let assembly = only(&candidates).expect("two drives have the newest record");
        assert_eq!(assembly.mpb.disks, both.disks);
        for (row, member) in assembly.members.iter().enumerate() {
            let drive = order.iter().position(|at| *at == row).expect("each row");
            let wanted = match row {
                0 | 2 => evicted(drive, Eviction::MarkedFailed),
                _ => present(drive),
            };
            assert_eq!(*member, wanted, "found in the order {order:?}");
        }
    }
}

#[test]
fn old_accusations_lead_to_the_truth_step_by_step() {
    // Drive 2 fails, drive 1 is lost, and drive 2 is rebuilt. New drives take the places of 1, 0 and 3. When all are
    // back, drive 1's record still calls drive 2 failed, and does not list the new drives. But it lists drive 0, whose
    // record lists drive 2 as a member again.
    let before = golden::raid10();
    let accusing = next(&before, |mpb| mpb.mark_failed(2).unwrap());
    let fill = |mpb: &Mpb, slot, serial| {
        next(mpb, |mpb| {
            let target = RebuildTarget::NewDrive {
                drive: NewDrive {
                    serial,
                    total_sectors: 131_072,
                },
                family_salt: 0x3333,
            };
            mpb.start_rebuild(0, slot, target).unwrap();
            mpb.finish_rebuild(0).unwrap();
        })
    };
    let lose = |mpb: &Mpb, serial: &Serial| {
        let row = mpb.disk_index_of(serial).unwrap();
        next(mpb, |mpb| mpb.mark_failed(row).unwrap())
    };
    let old = |row: usize| before.disks[row].serial;
    let new = [b"NEW0", b"NEW1", b"NEW3"].map(|serial| Serial::from_drive(serial));
    let without_1 = lose(&accusing, &old(1));
    let with_2 = fill(&fill(&without_1, 2, old(2)), 1, new[1]);
    let with_0 = fill(&lose(&with_2, &old(0)), 0, new[0]);
    let last = fill(&lose(&with_0, &old(3)), 3, new[2]);

    let serving = [new[0], new[1], old(2), new[2]];
    let mut candidates: Vec<Candidate> = serving
        .iter()
        .map(|serial| carries(serial, &last))
        .collect();
    candidates.push(carries(&old(1), &accusing));
    assert!(
        matches!(only(&candidates), Err(Refusal::SplitHalves { .. })),
        "drive 0 is needed to tell"
    );
    candidates.push(carries(&old(0), &with_2));
    let assembly = only(&candidates).expect("drive 0 tells");
    assert_eq!(assembly.mpb, last);
    assert_eq!(assembly.present(), [true; 4]);

    // If drive 1 had a higher generation than drive 0, drive 0's record could not tell.
    let beyond = later(&accusing, 5);
    assert!(with_2.generation < beyond.generation && beyond.generation < last.generation);
    record(&mut candidates[4], &beyond);
    assert!(matches!(
        only(&candidates),
        Err(Refusal::SplitHalves { .. })
    ));
}

/// Drives 0 and 1 were each used without the other. Both list drive 2, which stayed with drive 0 until it was replaced.
/// Drive 2's old record has the same generation as drive 1's. That drive 2 was left behind does not show that drive 1
/// was, too.
#[test]
fn an_outdated_copy_excuses_no_other_of_its_generation() {
    let before = golden::raid10();
    let with_0 = next(&before, |mpb| mpb.mark_failed(1).unwrap());
    let with_1 = next(&before, |mpb| mpb.mark_failed(0).unwrap());
    let new = [b"NEW1", b"NEW2", b"NEW3"].map(|serial| Serial::from_drive(serial));
    let mut last = with_0.clone();
    for (slot, serial) in (1..).zip(new) {
        last = next(&last, |mpb| {
            let row = mpb.volumes[0].map.order[slot].disk_index as usize;
            mpb.mark_failed(row).unwrap();
            let target = RebuildTarget::NewDrive {
                drive: NewDrive { serial, ..SPARE },
                family_salt: 0x3333,
            };
            mpb.start_rebuild(0, slot, target).unwrap();
            mpb.finish_rebuild(0).unwrap();
        });
    }
    let mut candidates = vec![carries(&before.disks[0].serial, &last)];
    candidates.extend(new.iter().map(|serial| carries(serial, &last)));
    candidates.push(carries(&before.disks[2].serial, &with_0));
    let assembly = only(&candidates).expect("drive 2 has been replaced");
    assert_eq!(assembly.outsiders, [(4, Eviction::Replaced)]);
    assert_eq!(assembly.present(), [true; 4]);

    candidates.push(carries(&before.disks[1].serial, &with_1));
    assert_eq!(with_0.generation, with_1.generation);
    let refusal = only(&candidates).unwrap_err();
    assert!(
        matches!(&refusal, Refusal::SplitHalves { second, .. } if second.drives == [candidates[5].label()]),
        "{refusal:?}"
    );
}

#[test]
fn accusations_that_no_crash_explains_are_refused() {
    // Drive 1 has marked drive 0 failed. Drive 0 has had many updates since, without marking drive 1.
    let before = golden::raid1();
    let accuser = next(&before, |mpb| mpb.mark_failed(0).unwrap());
    let mut candidates = everywhere(&later(&before, 20));
    record(&mut candidates[1], &accuser);
    assert!(matches!(
        only(&candidates),
        Err(Refusal::Contradiction { .. })
    ));
}

#[test]
fn accusations_in_a_circle_are_refused() {
    let before = golden::raid0();
    let mut candidates = everywhere(&before);
    for (accuser, accused) in [(0, 1), (1, 2), (2, 0)] {
        let mpb = next(&before, |mpb| mpb.mark_failed(accused).unwrap());
        record(&mut candidates[accuser], &mpb);
    }
    assert!(matches!(
        only(&candidates[..3]),
        Err(Refusal::Contradiction { .. })
    ));
}

#[test]
fn different_records_of_one_generation_are_refused() {
    let mpb = golden::raid5();
    let mut candidates = everywhere(&mpb);
    let mut other = mpb.clone();
    other.volumes[0].map.order.swap(0, 1);
    record(&mut candidates[3], &other);
    assert!(matches!(
        only(&candidates),
        Err(Refusal::DifferentContent { .. })
    ));
}

/// A drive that was marked failed is being taken back. When the power fails, only some drives have the new record.
#[test]
fn a_drive_that_is_taken_back_is_no_contradiction() {
    let mpb = golden::raid10();
    let marked = next(&mpb, |mpb| mpb.mark_failed(0).unwrap());
    let drive = NewDrive {
        serial: mpb.disks[0].serial,
        total_sectors: mpb.disks[0].total_sectors,
    };
    let taken_back = next(&marked, |mpb| {
        let target = RebuildTarget::NewDrive {
            drive,
            family_salt: 7,
        };
        mpb.start_rebuild(0, 0, target).unwrap();
    });
    // The returned drive gets the record first, then the others one by one.
    for told in 1..=4 {
        let mut candidates = everywhere(&mpb);
        for (at, candidate) in candidates.iter_mut().enumerate() {
            record(candidate, if at < told { &taken_back } else { &marked });
        }
        let assembly = only(&candidates).unwrap();
        let wanted = if told == 1 { &marked } else { &taken_back };
        assert_eq!(assembly.mpb.volumes, wanted.volumes, "{told} told");
        let is_here = |state: &&MemberState| matches!(state, MemberState::Present { .. });
        let here = assembly.members.iter().filter(is_here).count();
        assert_eq!(here, if told == 1 { 3 } else { 4 }, "{told} told");
    }
}
