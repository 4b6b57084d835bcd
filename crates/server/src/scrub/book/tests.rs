//! The book, given invented events and times.

use super::*;
use crate::scrub::report::FINDINGS_MAX;
use engine::control::record::VolumeRecord;
use engine::layout::Level;
use engine::units::Nanos;

mod due;

const VOLUME: VolumeId = VolumeId(0);

fn record(chunk_bytes: u32) -> Record {
    let component_bytes = 64 << 20;
    let geometry = Geometry::new(Geometry {
        level: Level::Raid5,
        members: 3,
        chunk_bytes,
        start_bytes: 0,
        component_bytes,
        size_bytes: 2 * component_bytes,
        block_bytes: 512,
    });
    let slot = |at| SlotRecord {
        member: Some(MemberId(at)),
        current: true,
    };
    let volume = VolumeRecord {
        geometry: geometry.unwrap(),
        not_started: false,
        read_only: false,
        dirty: false,
        slots: (0..3).map(slot).collect(),
        sync: None,
        then_resync: false,
        log: None,
        bitmap: None,
    };
    Record {
        bad_blocks: engine::control::bad_blocks::BadBlocks::default(),
        generation: 1,
        members: Vec::new(),
        volumes: vec![volume],
    }
}

fn book() -> Book {
    book_of(64 << 10, "uuid")
}

fn book_of(chunk_bytes: u32, uuid: &str) -> Book {
    let drives = ["d0", "d1", "d2"].map(str::to_owned);
    Book::new(&record(chunk_bytes), &[uuid.to_owned()], &drives)
}

/// The report names them even before the engine's state was first looked at.
#[test]
fn a_report_names_its_drives_from_the_first_moment_on() {
    let mut book = book();
    begin(&mut book, JobName::Check, 100);
    let report = book.volumes[0].kept.report.as_ref();
    assert_eq!(
        report.expect("the scrub has begun").members,
        ["d0", "d1", "d2"]
    );
}

/// The book of the next process, for the same volume.
fn next_process(book: &Book) -> Book {
    let mut next = self::book();
    next.load(&book.text(usize::MAX));
    next
}

fn begin(book: &mut Book, job: JobName, now_s: u64) {
    book.hear(
        Event::JobStarted {
            volume: VOLUME,
            job,
            slot: None,
            member: None,
        },
        now_s,
    );
}

/// Ends the scrub. Returns the mismatches that the event then reports.
fn end(book: &mut Book, complete: bool, mismatches: u64, now_s: u64) -> u64 {
    let event = Event::JobEnded {
        volume: VOLUME,
        job: JobName::Check,
        complete,
        mismatches,
        failures: 0,
    };
    match book.hear(event, now_s) {
        Event::JobEnded { mismatches, .. } => mismatches,
        other => panic!("{other:?}"),
    }
}

fn mismatch(book: &mut Book, row: u64) {
    let event = Event::Mismatch {
        volume: VOLUME,
        offset_bytes: row << 17,
        member_offset_bytes: row << 16,
        slots: SlotSet::all(3),
        repaired: false,
    };
    book.hear(event, 0);
}

fn job(name: JobName, kept_bytes: u64, paused: bool) -> JobStatus {
    JobStatus {
        name,
        running: !paused,
        paused,
        done_bytes: kept_bytes,
        kept_bytes,
        total_bytes: 64 << 20,
        slot: None,
        copied_to: None,
        paced_from_bytes: 0,
        paced_since: Nanos(0),
        mismatches: 0,
        failures: 0,
    }
}

fn look(book: &mut Book, job: Option<JobStatus>, whole: bool, now_s: u64) -> Vec<Command> {
    let slot = |at| (Some(MemberId(at)), format!("d{at}"));
    book.look(&Look {
        jobs: &[job],
        whole: &[whole],
        slots: &[(0..3).map(slot).collect()],
        now_s,
        elapsed_s: now_s,
    })
}

fn check() -> Command {
    Command::Scrub {
        volume: VOLUME,
        repair: false,
    }
}

#[test]
fn nothing_is_kept_or_shown_of_volumes_that_nobody_scrubs() {
    let mut book = book();
    assert_eq!(look(&mut book, None, true, 1000), []);
    assert_eq!((book.revision, book.volumes[0].status()), (0, None));
}

#[test]
fn an_interrupted_scrub_goes_on_with_its_position_mode_and_counts() {
    let mut book = book();
    look(&mut book, None, true, 99);
    begin(&mut book, JobName::Repair, 100);
    for row in [3, 10, 700] {
        mismatch(&mut book, row);
    }
    look(
        &mut book,
        Some(job(JobName::Repair, 5 << 20, true)),
        true,
        101,
    );
    let mut book = next_process(&book);
    // The scrub does not continue while the volume is degraded or another job runs.
    assert_eq!(look(&mut book, None, false, 110), []);
    let rebuild = Some(job(JobName::Rebuild, 0, false));
    assert_eq!(look(&mut book, rebuild, true, 110), []);
    let goes_on = Command::ContinueScrub {
        volume: VOLUME,
        repair: true,
        from_bytes: 5 << 20,
    };
    let pause = Command::Pause {
        volume: VOLUME,
        paused: true,
    };
    assert_eq!(look(&mut book, None, true, 110), [goes_on, pause]);
    // The order is not repeated at once, but again after it was refused.
    assert_eq!(look(&mut book, None, true, 111), []);
    book.refused();
    assert_eq!(look(&mut book, None, true, 120).len(), 2);
    begin(&mut book, JobName::Repair, 121);
    // The first mismatch is found again behind the position and counted once; the other one is new.
    mismatch(&mut book, 700);
    mismatch(&mut book, 900);
    assert_eq!(end(&mut book, true, 2, 130), 4);
    let report = book.volumes[0].kept.report.clone().unwrap();
    assert_eq!((report.mismatches, report.left_out()), (4, 0));
    assert_eq!((report.started_s, report.ended_s), (100, Some(130)));
    assert_eq!(
        (report.complete, report.continued, report.repair),
        (true, 1, true)
    );
    assert_eq!(report.members, ["d0", "d1", "d2"]);
    assert_eq!(
        look(&mut book, None, true, 200),
        [],
        "the finished scrub was continued"
    );
    assert_eq!(look(&mut next_process(&book), None, true, 200), []);
}

#[test]
fn what_is_kept_of_another_shape_or_volume_is_dropped() {
    let mut book = book();
    begin(&mut book, JobName::Check, 100);
    look(
        &mut book,
        Some(job(JobName::Check, 1 << 20, false)),
        true,
        101,
    );
    let text = book.text(usize::MAX);
    for (chunk_bytes, uuid) in [(128 << 10, "uuid"), (64 << 10, "another")] {
        let mut other = book_of(chunk_bytes, uuid);
        other.load(&text);
        assert_eq!(look(&mut other, None, true, 200), []);
        assert_eq!(other.volumes[0].kept.report, None);
    }
    for garbage in [&b""[..], b"{}", b"[{\"uuid\":1}]", &text[..text.len() - 1]] {
        let mut fresh = self::book();
        fresh.load(garbage);
        assert_eq!(fresh.volumes[0].status(), None);
    }
}

#[test]
fn a_scrub_that_was_begun_before_the_notes_were_read_goes_first() {
    let mut old = book();
    begin(&mut old, JobName::Repair, 100);
    let schedule = Schedule {
        every_s: 10,
        repair: true,
        since_s: 1,
    };
    old.set_schedule(0, Some(schedule));
    let mut new = book();
    begin(&mut new, JobName::Check, 200);
    new.load(&old.text(usize::MAX));
    let kept = &new.volumes[0].kept;
    assert_eq!(kept.report.as_ref().map(|one| one.started_s), Some(200));
    assert_eq!(kept.schedule, Some(schedule));
}

#[test]
fn a_schedule_counts_from_the_end_of_the_last_scrub_and_waits_for_better_times() {
    let mut book = book();
    let schedule = |repair| Schedule {
        every_s: 50,
        repair,
        since_s: 1000,
    };
    book.set_schedule(0, Some(schedule(false)));
    assert_eq!(look(&mut book, None, true, 1049), []);
    assert_eq!(look(&mut book, None, false, 1050), [], "degraded");
    let rebuild = Some(job(JobName::Rebuild, 0, false));
    assert_eq!(look(&mut book, rebuild, true, 1055), []);
    assert_eq!(look(&mut book, None, true, 1060), [check()]);
    begin(&mut book, JobName::Check, 1061);
    assert_eq!(book.volumes[0].status().unwrap().next_s, None);
    end(&mut book, true, 0, 1100);
    let status = book.volumes[0].status().unwrap();
    assert_eq!((status.every_s, status.next_s), (Some(50), Some(1150)));
    assert_eq!(
        (status.last_complete, status.last_ended_s),
        (true, Some(1100))
    );
    let mut book = next_process(&book);
    assert_eq!(look(&mut book, None, true, 1149), []);
    // A scrub that fell due while no process served begins now.
    assert_eq!(look(&mut next_process(&book), None, true, 9999), [check()]);
    book.set_schedule(0, Some(schedule(true)));
    let repair = Command::Scrub {
        volume: VOLUME,
        repair: true,
    };
    assert_eq!(look(&mut book, None, true, 1150), [repair]);
    book.set_schedule(0, None);
    assert_eq!(look(&mut next_process(&book), None, true, 99_999), []);
}

#[test]
fn the_last_scrub_is_known_while_another_one_runs() {
    let mut book = book();
    let last = |book: &Book| {
        let status = book.volumes[0].status().unwrap();
        (
            status.last_started_s,
            status.last_ended_s,
            status.last_mismatches,
        )
    };
    begin(&mut book, JobName::Check, 100);
    assert_eq!(last(&book), (None, None, 0));
    mismatch(&mut book, 1);
    end(&mut book, true, 1, 105);
    begin(&mut book, JobName::Check, 200);
    assert_eq!(last(&book), (Some(100), Some(105), 1));
    assert_eq!(book.volumes[0].status().unwrap().unfinished_bytes, Some(0));
    let text = book.text(usize::MAX);
    let mut book = next_process(&book);
    assert_eq!(last(&book), (Some(100), Some(105), 1));
    // This scrub began before the notes were read, and the one in the notes did not end.
    let mut early = self::book();
    begin(&mut early, JobName::Check, 300);
    early.load(&text);
    assert_eq!(last(&early), (Some(100), Some(105), 1));
    look(&mut book, None, true, 210);
    begin(&mut book, JobName::Check, 211);
    end(&mut book, true, 0, 215);
    assert_eq!(last(&book), (Some(200), Some(215), 0));
}

/// Notes of older versions are read. Older versions read those of this one, since they skip unknown fields.
#[test]
fn notes_without_newer_fields_are_read() {
    let mut book = book();
    begin(&mut book, JobName::Check, 100);
    end(&mut book, true, 0, 105);
    begin(&mut book, JobName::Check, 200);
    let mut text: serde_json::Value = serde_json::from_slice(&book.text(usize::MAX)).unwrap();
    let fields = text[0].as_object_mut().unwrap();
    assert!(
        fields
            .remove("before")
            .is_some_and(|before| before["ended_s"] == 105)
    );
    let mut names: Vec<&str> = fields.keys().map(String::as_str).collect();
    names.sort_unstable();
    let wanted = [
        "automatic",
        "is_ordered_off",
        "report",
        "schedule",
        "shape",
        "unfinished",
        "uuid",
    ];
    assert_eq!(names, wanted);
    fields.remove("automatic").unwrap();
    fields.remove("is_ordered_off").unwrap();
    fields.insert("of_a_later_version".to_owned(), 7.into());
    let mut next = self::book();
    next.load(&serde_json::to_vec(&text).unwrap());
    let status = next.volumes[0].status().unwrap();
    assert_eq!(
        (status.last_ended_s, status.unfinished_bytes),
        (None, Some(0))
    );
}

#[test]
fn one_that_was_given_up_stays_so() {
    let mut book = book();
    begin(&mut book, JobName::Check, 100);
    end(&mut book, false, 0, 105);
    assert_eq!(look(&mut next_process(&book), None, true, 200), []);
    let status = book.volumes[0].status().unwrap();
    assert_eq!(
        (status.last_complete, status.unfinished_bytes),
        (false, None)
    );
}

#[test]
fn findings_that_could_not_be_told_are_counted_all_the_same() {
    let mut book = book();
    begin(&mut book, JobName::Check, 100);
    mismatch(&mut book, 1);
    book.missed_some();
    assert_eq!(end(&mut book, true, 5000, 105), 5000);
    let report = book.volumes[0].kept.report.clone().unwrap();
    assert_eq!((report.mismatches, report.left_out()), (5000, 4999));
}

#[test]
fn repaired_and_lost_blocks_are_found_in_their_stripes() {
    let mut book = book();
    look(&mut book, None, true, 1);
    begin(&mut book, JobName::Check, 100);
    let (row, in_chunk_bytes) = (7, 12 << 10);
    book.hear(
        Event::ReadRepaired {
            member: MemberId(2),
            offset_bytes: (row << 16) + in_chunk_bytes,
            length_bytes: 4096,
        },
        0,
    );
    book.hear(
        Event::Unrecoverable {
            volume: VOLUME,
            offset_bytes: (9 << 17) + in_chunk_bytes,
        },
        0,
    );
    end(&mut book, true, 0, 101);
    // A mismatch after the end does not belong to the scrub.
    mismatch(&mut book, 3);
    let report = book.volumes[0].kept.report.clone().unwrap();
    let found: Vec<_> = report
        .findings
        .iter()
        .map(|one| (one.outcome, one.extent_offset_bytes, one.slots))
        .collect();
    assert_eq!(
        found,
        [
            (PlaceOutcome::Rewritten, (7 << 16) + (12 << 10), 0b100),
            (PlaceOutcome::Unrecoverable, (9 << 16) + (12 << 10), 0b111)
        ]
    );
}

#[test]
fn what_does_not_fit_is_left_out_and_counted() {
    let mut book = book();
    begin(&mut book, JobName::Check, 100);
    for row in 0..FINDINGS_MAX as u64 {
        mismatch(&mut book, row);
    }
    for bytes_max in [usize::MAX, 16 << 10, 2000] {
        let text = book.text(bytes_max);
        assert!(text.len() <= bytes_max);
        let mut next = self::book();
        next.load(&text);
        let report = next.volumes[0].kept.report.clone().unwrap();
        assert_eq!(report.mismatches, FINDINGS_MAX as u64);
        let listed = report.findings.len() as u64;
        assert_eq!(report.left_out(), FINDINGS_MAX as u64 - listed);
        assert!(listed > 0, "{bytes_max}");
    }
    // Two full reports fit a copy of the notes.
    let full = book.text(usize::MAX).len();
    assert!(2 * full < metadata::imsm::notes::TEXT_BYTES_MAX, "{full}");
}
