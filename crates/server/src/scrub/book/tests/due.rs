//! When scrubs that nobody orders are due: by the settings, after a start, and beside orders.

use super::*;

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

/// The machine was off for months, and its clock is behind until it learns the time from the network.
#[test]
fn a_clock_that_is_set_ahead_begins_no_scrub_at_once() {
    let first = next_served(&book(), MONTHLY, NOW_S);
    let mut book = next_served(&first, MONTHLY, NOW_S);
    let mut look_at = |now_s, elapsed_s| {
        let slot = |at| (Some(MemberId(at)), format!("d{at}"));
        let orders = book.look(&Look {
            jobs: &[None],
            whole: &[true],
            slots: &[(0..3).map(slot).collect()],
            now_s,
            elapsed_s,
        });
        (orders, next_s(&book))
    };
    assert_eq!(look_at(NOW_S + 1, 1).0, []);
    let set_s = NOW_S + 60 * DAY_S;
    let (orders, due_s) = look_at(set_s, 2);
    assert_eq!(orders, []);
    let (due_s, booted_s) = (due_s.unwrap(), set_s + 600);
    assert!((booted_s..booted_s + 4 * 3600).contains(&due_s), "{due_s}");
    let elapsed_s = 2 + due_s - set_s;
    assert_eq!(look_at(due_s - 1, elapsed_s - 1).0, []);
    assert_eq!(look_at(due_s, elapsed_s).0, [check()]);
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
            elapsed_s: now_s,
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
