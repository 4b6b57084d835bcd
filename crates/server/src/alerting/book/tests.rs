//! The book of alerts, given invented events, measurements and times.

use super::*;

const WAYS: [Way; 2] = [Way::Mail, Way::Exec];

fn event(kind: &str, member: &str) -> Alert {
    Alert {
        kind: kind.to_owned(),
        member: Some(member.to_owned()),
        ..Alert::default()
    }
}

/// What is due, as `kind member count way`; all of it arrives.
fn due(book: &mut Book, now_s: u64) -> Vec<String> {
    let due = std::iter::from_fn(|| book.take_due(now_s));
    due.map(|one| {
        let (alert, way) = (one.alert, one.way);
        let member = alert.member.unwrap_or_default();
        format!("{} {member} {} {way}", alert.kind, alert.count)
    })
    .collect()
}

#[test]
fn the_same_event_about_the_same_drive_is_told_once_and_then_counted() {
    let mut book = Book::default();
    for _ in 0..3 {
        book.hear(event("a", "d0"), 100, &WAYS);
    }
    book.hear(event("a", "d1"), 100, &WAYS);
    let wanted = ["a d0 1 mail", "a d0 1 exec", "a d1 1 mail", "a d1 1 exec"];
    assert_eq!(due(&mut book, 100), wanted);
    book.pass(99 + TOGETHER_S, &WAYS);
    assert!(due(&mut book, 99 + TOGETHER_S).is_empty());
    book.pass(100 + TOGETHER_S, &WAYS);
    assert_eq!(
        due(&mut book, 100 + TOGETHER_S),
        ["a d0 2 mail", "a d0 2 exec"]
    );
    book.pass(100 + 2 * TOGETHER_S, &WAYS);
    assert!(
        book.recent.is_empty() && book.waiting.is_empty(),
        "{book:?}"
    );
}

#[test]
fn an_alert_that_does_not_arrive_is_tried_with_growing_pauses_and_given_up() {
    let mut book = Book::default();
    book.hear(event("a", "d0"), 0, &WAYS[..1]);
    let (mut now_s, mut pauses) = (0, Vec::new());
    loop {
        let attempt = book.take_due(now_s).unwrap();
        assert_eq!(attempt.is_first(), now_s == 0);
        if !book.again(attempt, now_s) {
            break;
        }
        let next_s = book.waiting[0].next_s;
        assert!(book.take_due(next_s - 1).is_none());
        pauses.push(next_s - now_s);
        now_s = next_s;
    }
    assert_eq!(pauses[..4], [10, 20, 40, 80]);
    assert_eq!(*pauses.iter().max().unwrap(), PAUSE_MAX_S);
    assert!(
        (GIVE_UP_AFTER_S..GIVE_UP_AFTER_S + PAUSE_MAX_S).contains(&now_s),
        "{now_s}"
    );
    assert!(book.waiting.is_empty());
}

#[test]
fn the_book_has_limits() {
    let mut book = Book::default();
    let mut dropped = 0;
    for number in 0..3 * RECENT_MAX {
        dropped += book.hear(event("a", &number.to_string()), 0, &WAYS);
    }
    assert_eq!(book.waiting.len(), WAITING_MAX);
    assert_eq!(dropped, 2 * 3 * RECENT_MAX - WAITING_MAX);
    assert_eq!(book.recent.len(), RECENT_MAX);
}

#[test]
fn resolved_is_told_once_and_only_after_a_problem_that_was_told() {
    let condition = |is_well, is_degraded| Condition {
        is_well,
        is_degraded,
        ..Condition::default()
    };
    let (well, degraded) = (condition(true, false), condition(false, true));
    let synchronising = condition(false, false);
    let mut book = Book::default();
    // A new array synchronises: nobody was told of a problem.
    for state in [&well, &synchronising, &well] {
        book.look(state, Alert::default(), 1000, &WAYS[..1]);
    }
    assert!(due(&mut book, 1000).is_empty());
    book.hear(event("a", "d0"), 1000, &WAYS[..1]);
    // The status is a little later than the event.
    for state in [&well, &degraded, &degraded] {
        book.look(state, Alert::default(), 1001, &WAYS[..1]);
    }
    assert_eq!(due(&mut book, 1001), ["a d0 1 mail"]);
    // A restart in between changes nothing.
    let json = serde_json::to_string(&book).unwrap();
    let mut book: Book = serde_json::from_str(&json).unwrap();
    for state in [&degraded, &synchronising, &well, &well] {
        book.look(state, Alert::default(), 9000, &WAYS[..1]);
    }
    assert_eq!(due(&mut book, 9000), ["resolved  0 mail"]);
    // A drive that failed, and whose place a spare had taken before anybody looked.
    book.hear(event("member-failed", "d1"), 9000, &WAYS[..1]);
    book.look(&well, Alert::default(), 9001, &WAYS[..1]);
    assert_eq!(due(&mut book, 9001), ["member-failed d1 1 mail"]);
    for now_s in [9003, 9004] {
        book.look(&well, Alert::default(), now_s, &WAYS[..1]);
    }
    assert_eq!(due(&mut book, 9004), ["resolved  0 mail"]);
    // A drive that was lost while the array was not served.
    book.look(&degraded, Alert::default(), 9101, &WAYS[..1]);
    book.look(&degraded, Alert::default(), 9102, &WAYS[..1]);
    assert_eq!(due(&mut book, 9200), ["array-unwell  0 mail"]);
}

/// A clock without a battery begins in 1970, and is set when the network is there.
#[test]
fn an_alert_noted_before_the_clock_was_set_is_tried_as_often_as_any_other() {
    let mut book = Book::default();
    book.hear(event("a", "d0"), 5, &WAYS[..1]);
    let attempt = book.take_due(5).unwrap();
    const SET_TO_S: u64 = 1_800_000_000;
    assert!(book.again(attempt, SET_TO_S), "it is given up at once");
    let mut now_s = SET_TO_S;
    let mut tries = 0;
    while book.waiting.front().is_some() {
        now_s = book.waiting[0].next_s;
        let attempt = book.take_due(now_s).unwrap();
        tries += 1;
        if !book.again(attempt, now_s) {
            break;
        }
    }
    let lasted_s = now_s - SET_TO_S;
    assert!(
        (GIVE_UP_AFTER_S..GIVE_UP_AFTER_S + PAUSE_MAX_S).contains(&lasted_s),
        "{lasted_s}"
    );
    assert!(tries > 70, "{tries}");
}

#[test]
fn an_array_that_does_not_start_is_told_once_for_each_cause_and_so_is_its_start() {
    let cause = |text: &str| Alert {
        text: text.to_owned(),
        ..event("array-not-started", "")
    };
    let mut book = Book::default();
    // Nobody could be told.
    book.hear(cause("no memory"), 90, &[]);
    // systemd starts the process again every two seconds, for hours.
    for now_s in (100..40_000).step_by(2) {
        let json = serde_json::to_string(&book).unwrap();
        book = serde_json::from_str(&json).unwrap();
        let text = if now_s < 20_000 {
            "no memory"
        } else {
            "a twin"
        };
        book.hear(cause(text), now_s, &WAYS[..1]);
        book.pass(now_s, &WAYS[..1]);
    }
    let told = ["array-not-started  1 mail"; 2];
    assert_eq!(due(&mut book, 40_000), told);
    for number in 0..100 {
        book.hear(cause(&number.to_string()), 40_000, &WAYS[..1]);
    }
    assert_eq!(due(&mut book, 40_000).len(), CAUSES_MAX - 2);
    let well = Condition {
        is_well: true,
        text: "data is optimal".to_owned(),
        ..Condition::default()
    };
    for now_s in [40_001, 40_002] {
        book.look(&well, Alert::default(), now_s, &WAYS[..1]);
    }
    let end = book.take_due(40_002).unwrap().alert;
    assert_eq!(end.text, "resolved: the array is served; data is optimal");
    assert_eq!(book, Book::default());
}

#[test]
fn the_end_of_each_warning_of_a_drive_is_told_once() {
    let condition = |drives: &[(&str, Option<&[Warning]>)]| Condition {
        is_well: true,
        drives: drives
            .iter()
            .map(|(name, reported)| ((*name).to_owned(), reported.map(<[Warning]>::to_vec)))
            .collect(),
        ..Condition::default()
    };
    let mut book = Book::default();
    for (kind, member) in [
        ("drive-too-hot", "d0"),
        ("drive-worn", "d0"),
        ("drive-unprotected", "d1"),
        ("drive-media-errors", "d2"),
        // Its end is that of the array's problem.
        ("drive-failing", "d1"),
    ] {
        book.hear(event(kind, member), 1000, &WAYS[..1]);
    }
    assert_eq!(due(&mut book, 1000).len(), 5);
    let mut told = |now_s: u64, drives: &[(&str, Option<&[Warning]>)]| {
        book = serde_json::from_str(&serde_json::to_string(&book).unwrap()).unwrap();
        book.look(&condition(drives), Alert::default(), now_s, &WAYS[..1]);
        let texts = std::iter::from_fn(|| book.take_due(now_s));
        texts.map(|one| one.alert.text).collect::<Vec<_>>()
    };
    let all: [(&str, Option<&[Warning]>); 3] = [
        ("d0", Some(&[Warning::TooHot, Warning::WornOut])),
        ("d1", Some(&[Warning::BackupFailed, Warning::Unreliable])),
        ("d2", Some(&[Warning::MediaErrors])),
    ];
    // The status is a little later than the events.
    let none: &[Warning] = &[];
    assert!(told(1001, &[("d0", Some(none))]).is_empty());
    assert!(told(1010, &all).is_empty());
    // After a restart nothing is known for a while.
    assert!(told(1020, &[("d0", None), ("d1", None), ("d2", None)]).is_empty());
    // It stays worn.
    let cool: [(&str, Option<&[Warning]>); 3] = [("d0", Some(&[Warning::WornOut])), all[1], all[2]];
    let wanted = "resolved: d0 no longer reports that it is so hot that it may stop or lose data";
    assert_eq!(told(1030, &cool), [wanted]);
    assert!(told(1040, &cool).is_empty());
    let wanted = [
        "resolved: d1 no longer reports that its protection against power loss has failed",
        "resolved: d2 reported that it has met more errors that it could not correct, and no drive of this name is in the array any more",
    ];
    assert_eq!(told(1050, &[cool[0], ("d1", Some(none))]), wanted);
}
