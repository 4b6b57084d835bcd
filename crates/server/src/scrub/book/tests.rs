//! The book, given invented events and times.

use super::*;
use crate::scrub::report::FINDINGS_MAX;
use engine::control::record::VolumeRecord;
use engine::layout::Level;
use engine::units::Nanos;

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

const DAY_S: u64 = 86_400;
const MONTH_S: u64 = 30 * DAY_S;
const MONTHLY: ScrubEvery = ScrubEvery::OrderedElse(MONTH_S);
const NOW_S: u64 = 1_800_000_000;

/// When the next scrub is due, if it is.
fn next_s(book: &Book) -> Option<u64> {
    book.volumes[0].status().and_then(|status| status.next_s)
}

/// The book of the next process, with what the settings say about scrubs.
fn next_served(book: &Book, every: ScrubEvery, now_s: u64) -> Book {
    let mut next = next_process(book);
    next.set_every(every, now_s);
    next
}

#[test]
fn the_settings_have_an_array_scrubbed_a_period_after_it_was_first_served() {
    let first = next_served(&book(), MONTHLY, NOW_S);
    let due_s = next_s(&first).unwrap();
    assert!(
        (NOW_S + MONTH_S..NOW_S + MONTH_S * 5 / 4).contains(&due_s),
        "{due_s}"
    );
    // Restarts do not postpone it.
    let mut book = next_served(&first, MONTHLY, NOW_S + 29 * DAY_S);
    assert_eq!(next_s(&book), Some(due_s));
    assert_eq!(look(&mut book, None, true, due_s - 1), []);
    assert_eq!(look(&mut book, None, false, due_s), [], "degraded");
    assert_eq!(look(&mut book, None, true, due_s), [check()]);
    begin(&mut book, JobName::Check, due_s);
    let ended_s = due_s + 5000;
    end(&mut book, true, 0, ended_s);
    // Later scrubs count from the end of the one before.
    let mut book = next_served(&book, MONTHLY, ended_s + 10);
    assert_eq!(next_s(&book), Some(ended_s + MONTH_S));
    assert_eq!(look(&mut book, None, true, ended_s + MONTH_S - 1), []);
    assert_eq!(look(&mut book, None, true, ended_s + MONTH_S), [check()]);
    // A server that is given drives and no settings leaves the rest as it is.
    let by_hand = next_served(&book, ScrubEvery::Ordered, ended_s + 20);
    assert_eq!(next_s(&by_hand), None);
    let book = next_served(&by_hand, MONTHLY, ended_s + 30);
    assert_eq!(next_s(&book), Some(ended_s + MONTH_S));
}

/// The machine was off for months.
#[test]
fn a_scrub_that_was_due_before_the_start_begins_a_while_after_it() {
    let first = next_served(&book(), MONTHLY, NOW_S);
    let start_s = NOW_S + 60 * DAY_S;
    let mut book = next_served(&first, MONTHLY, start_s);
    let due_s = next_s(&book).unwrap();
    let booted_s = start_s + 600;
    let catching_up = booted_s..booted_s + 4 * 3600;
    assert!(catching_up.contains(&due_s), "{due_s}");
    assert_eq!(look(&mut book, None, true, due_s - 1), []);
    assert_eq!(look(&mut book, None, true, due_s), [check()]);
    let a_day_later = next_served(&first, MONTHLY, start_s + DAY_S);
    assert_eq!(next_s(&a_day_later), Some(due_s + DAY_S));
    // The same holds for what an operator has ordered.
    let weekly = Schedule {
        every_s: 7 * DAY_S,
        repair: false,
        since_s: NOW_S,
    };
    let mut ordered = self::book();
    ordered.set_schedule(0, Some(weekly));
    let ordered = next_served(&ordered, ScrubEvery::Ordered, start_s);
    assert_eq!(next_s(&ordered), Some(due_s));
    // What is due soon after the start waits until the machine has booted, and no longer.
    let due_s = next_s(&first).unwrap();
    for (before_s, waits_until_s) in [(60, due_s + 540), (600, due_s), (5000, due_s)] {
        let book = next_served(&first, MONTHLY, due_s - before_s);
        assert_eq!(next_s(&book), Some(waits_until_s), "{before_s} s before");
    }
}

#[test]
fn an_interrupted_scrub_goes_on_right_after_the_start() {
    let mut book = book();
    begin(&mut book, JobName::Check, NOW_S);
    let start_s = NOW_S + 60 * DAY_S;
    let mut book = next_served(&book, MONTHLY, start_s);
    let goes_on = Command::ContinueScrub {
        volume: VOLUME,
        repair: false,
        from_bytes: 0,
    };
    assert_eq!(look(&mut book, None, true, start_s), [goes_on]);
}

#[test]
fn volumes_of_one_array_are_scrubbed_one_after_the_other() {
    let mut two = record(64 << 10);
    two.volumes.push(two.volumes[0].clone());
    let uuids = ["one", "two"].map(str::to_owned);
    let mut book = Book::new(&two, &uuids, &[]);
    book.set_every(MONTHLY, NOW_S);
    let slots = vec![Vec::new(), Vec::new()];
    let mut look = |jobs: [Option<JobStatus>; 2], now_s| {
        book.look(&Look {
            jobs: &jobs,
            whole: &[true; 2],
            slots: &slots,
            now_s,
        })
    };
    let later_s = NOW_S + 2 * MONTH_S;
    assert_eq!(look([None, None], later_s), [check()]);
    let runs = Some(job(JobName::Check, 0, false));
    assert_eq!(look([runs, None], later_s + DAY_S), []);
    assert_eq!(look([None, runs], later_s + DAY_S), []);
}

#[test]
fn an_order_counts_where_the_settings_say_nothing_even_one_to_scrub_never() {
    let mut book = next_served(&book(), MONTHLY, NOW_S);
    let weekly = Schedule {
        every_s: 7 * DAY_S,
        repair: true,
        since_s: NOW_S + 5,
    };
    assert!(book.set_schedule(0, Some(weekly)), "it lasts");
    let mut book = next_served(&book, MONTHLY, NOW_S + DAY_S);
    assert_eq!(next_s(&book), Some(NOW_S + 5 + 7 * DAY_S));
    assert!(book.volumes[0].status().unwrap().scheduled_repair);
    assert!(book.set_schedule(0, None));
    let mut book = next_served(&book, MONTHLY, NOW_S + 2 * DAY_S);
    assert_eq!(next_s(&book), None);
    assert_eq!(look(&mut book, None, true, NOW_S + 900 * DAY_S), []);
}

#[test]
fn what_the_settings_say_takes_precedence_until_this_server_is_ordered_otherwise() {
    let mut book = book();
    let weekly = Schedule {
        every_s: 7 * DAY_S,
        repair: false,
        since_s: NOW_S,
    };
    book.set_schedule(0, Some(weekly));
    let never = ScrubEvery::Set(None);
    let mut book = next_served(&book, never, NOW_S);
    assert_eq!(look(&mut book, None, true, NOW_S + 900 * DAY_S), []);
    assert!(
        !book.set_schedule(0, Some(weekly)),
        "the settings say otherwise"
    );
    assert_eq!(next_s(&book), Some(NOW_S + 7 * DAY_S));
    assert_eq!(next_s(&next_served(&book, never, NOW_S)), None);
    // A new period counts from now on: a restart does not begin a scrub that the old one had not.
    let daily = ScrubEvery::Set(Some(DAY_S));
    let later_s = NOW_S + 900 * DAY_S;
    let book = next_served(&book, daily, later_s);
    let due_s = next_s(&book).unwrap();
    assert!(
        (later_s + DAY_S..later_s + DAY_S * 5 / 4).contains(&due_s),
        "{due_s}"
    );
}

#[test]
fn volumes_without_redundancy_are_never_due() {
    let mut record = record(64 << 10);
    let shape = record.volumes[0].geometry;
    record.volumes[0].geometry = Geometry::new(Geometry {
        level: Level::Raid0,
        size_bytes: 3 * shape.component_bytes,
        ..shape
    })
    .unwrap();
    let mut book = Book::new(&record, &["uuid".to_owned()], &[]);
    book.set_every(MONTHLY, NOW_S);
    assert_eq!((next_s(&book), book.revision), (None, 0));
    assert_eq!(look(&mut book, None, true, NOW_S + 900 * DAY_S), []);
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
