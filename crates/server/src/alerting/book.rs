//! Which alerts are to be sent, when, and in which way. It decides and does nothing else: the time and the outcome of each
//! attempt come from the caller.
//!
//! The first event of a kind about a drive or volume is sent at once. Further ones within [`TOGETHER_S`] become one alert with
//! a count. An alert that has not arrived is tried again after growing pauses, by that way alone, and is given up when these
//! pauses have become [`GIVE_UP_AFTER_S`] together: the clock may be set meanwhile. When the array has been unwell and is well
//! again, this is an alert too, and so it is when a drive no longer reports what was told of it.
//!
//! That the array does not start is told once for each cause, however often the process is started again for it, until the
//! array is served.

use crate::drive_health::warning_of;
use crate::event_kinds::Kind;
use alerts::{Alert, Severity, Way};
use drives::nvme::Warning;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use words::and;

/// Events of one kind about one thing within this time are told together.
pub(super) const TOGETHER_S: u64 = 900;
/// The pause after the first attempt that failed; each further one is twice as long.
const PAUSE_MIN_S: u64 = 10;
const PAUSE_MAX_S: u64 = 3600;
/// How long an alert is tried: over a weekend without a mail server.
pub(super) const GIVE_UP_AFTER_S: u64 = 3 * 86_400;
/// Most attempts that wait, and most things that are told together. When there are more, the oldest is dropped.
const WAITING_MAX: usize = 200;
const RECENT_MAX: usize = 100;
/// An array that turns unwell within this time of an alert is what the alert was about.
const RELATED_S: u64 = 60;
/// An alert of a failed drive counts as resolved this long after it at the earliest: the status is a little later than events.
const SETTLED_AFTER_S: u64 = 3;
/// Most causes for which an array does not start that are told. The sentence of one may have a number that is new each time.
const CAUSES_MAX: usize = 4;
/// Most warnings of drives whose end is told: an array has at most 64 drives, and most have none.
const WARNED_MAX: usize = 200;

/// What is kept across restarts.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub(super) struct Book {
    waiting: VecDeque<Waiting>,
    recent: VecDeque<Recent>,
    /// An alert was about a problem that still lasts.
    is_unwell: bool,
    alerted_s: u64,
    /// Why the array did not start, as it was told; empty when it has been served since.
    #[serde(default)]
    not_started: Vec<String>,
    /// What was told of drives that they may report no longer.
    #[serde(default)]
    warned: VecDeque<Warned>,
}

/// A drive of which was told what it reports.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Warned {
    member: String,
    /// The kind of the event.
    kind: String,
    told_s: u64,
}

/// An alert that has not arrived yet by one way.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub(super) struct Waiting {
    pub alert: Alert,
    pub way: Way,
    attempts: u32,
    next_s: u64,
}

/// An event that was told, and what has happened since.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
struct Recent {
    until_s: u64,
    /// The newest of the untold events, with their count; the count of a told one is 0.
    newest: Alert,
}

/// How the array is.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Condition {
    /// Every volume has the redundancy of its level.
    pub is_well: bool,
    /// A volume lacks a drive or is out of service.
    pub is_degraded: bool,
    /// The sentence of `fullstripe status`.
    pub text: String,
    /// What each drive reports now; `None` while that is not known.
    pub drives: BTreeMap<String, Option<Vec<Warning>>>,
}

impl Book {
    /// Takes an event; `ways` are those that are set. Returns how many older attempts had no room.
    pub fn hear(&mut self, alert: Alert, now_s: u64, ways: &[Way]) -> usize {
        if alert.kind == Kind::ArrayNotStarted.name() {
            return self.hear_not_started(alert, now_s, ways);
        }
        self.alerted_s = now_s;
        // A small array may be whole again before anybody looks how it is.
        self.is_unwell |= alert.kind == Kind::MemberFailed.name();
        let is_same = |recent: &&mut Recent| {
            let told = &recent.newest;
            let about = (&told.kind, &told.volume, &told.member);
            about == (&alert.kind, &alert.volume, &alert.member)
        };
        if let Some(recent) = self.recent.iter_mut().find(is_same) {
            let count = recent.newest.count + 1;
            recent.newest = Alert { count, ..alert };
            return 0;
        }
        if self.recent.len() == RECENT_MAX {
            self.recent.pop_front();
        }
        self.recent.push_back(Recent {
            until_s: now_s + TOGETHER_S,
            newest: Alert {
                count: 0,
                ..alert.clone()
            },
        });
        self.put(&Alert { count: 1, ..alert }, now_s, ways)
    }

    fn hear_not_started(&mut self, alert: Alert, now_s: u64, ways: &[Way]) -> usize {
        let is_told = self.not_started.contains(&alert.text);
        if is_told || self.not_started.len() >= CAUSES_MAX || ways.is_empty() {
            return 0;
        }
        self.not_started.push(alert.text.clone());
        self.put(&Alert { count: 1, ..alert }, now_s, ways)
    }

    /// Tells what has been counted for long enough. Returns how many older attempts had no room.
    pub fn pass(&mut self, now_s: u64, ways: &[Way]) -> usize {
        let mut ended = Vec::new();
        // A clock that was set back must not silence anything for longer.
        self.recent.retain(|recent| {
            let is_open = now_s < recent.until_s && recent.until_s <= now_s + TOGETHER_S;
            if !is_open && recent.newest.count > 0 {
                ended.push(recent.newest.clone());
            }
            is_open
        });
        let mut dropped = 0;
        for alert in ended {
            self.recent.push_back(Recent {
                until_s: now_s + TOGETHER_S,
                newest: Alert {
                    count: 0,
                    ..alert.clone()
                },
            });
            dropped += self.put(&alert, now_s, ways);
        }
        dropped
    }

    /// Compares how the array is with what was told. `plain` is an alert of which only the kind and the text are missing.
    /// Returns how many older attempts had no room.
    pub fn look(&mut self, condition: &Condition, plain: Alert, now_s: u64, ways: &[Way]) -> usize {
        self.look_at_start(condition, &plain, now_s, ways)
            + self.look_at_drives(condition, &plain, now_s, ways)
            + self.look_at_array(condition, plain, now_s, ways)
    }

    /// The array is served: if it was told that it did not start, this is over.
    fn look_at_start(
        &mut self,
        condition: &Condition,
        plain: &Alert,
        now_s: u64,
        ways: &[Way],
    ) -> usize {
        if self.not_started.is_empty() {
            return 0;
        }
        self.not_started.clear();
        let text = format!("the array is served; {}", condition.text);
        self.put(&resolved(plain, text), now_s, ways)
    }

    /// Tells which drives no longer report what was told of them.
    fn look_at_drives(
        &mut self,
        condition: &Condition,
        plain: &Alert,
        now_s: u64,
        ways: &[Way],
    ) -> usize {
        let mut ended: BTreeMap<String, Vec<&str>> = BTreeMap::new();
        self.warned.retain(|warned| {
            let Some(warning) = warning_of(&warned.kind) else {
                return false;
            };
            let lasts = match condition.drives.get(&warned.member) {
                Some(None) => true,
                Some(Some(reported)) => reported.contains(&warning),
                None => false,
            };
            let lasts = lasts || now_s.abs_diff(warned.told_s) < SETTLED_AFTER_S;
            if !lasts {
                let of_drive = ended.entry(warned.member.clone()).or_default();
                of_drive.push(warning.words());
            }
            lasts
        });
        let mut dropped = 0;
        for (member, words) in ended {
            let text = match condition.drives.contains_key(&member) {
                true => format!("{member} no longer reports that {}", and(&words)),
                false => format!(
                    "{member} reported that {}, and no drive of this name is in the array any more",
                    and(&words)
                ),
            };
            let alert = Alert {
                member: Some(member),
                ..resolved(plain, text)
            };
            dropped += self.put(&alert, now_s, ways);
        }
        dropped
    }

    fn look_at_array(
        &mut self,
        condition: &Condition,
        plain: Alert,
        now_s: u64,
        ways: &[Way],
    ) -> usize {
        let is_related = now_s.saturating_sub(self.alerted_s) <= RELATED_S;
        match (condition.is_well, self.is_unwell) {
            (false, false) if is_related => self.is_unwell = true,
            (false, false) if condition.is_degraded => {
                self.is_unwell = true;
                let alert = Alert {
                    kind: "array-unwell".to_owned(),
                    severity: Severity::Critical,
                    text: condition.text.clone(),
                    next: "look at `fullstripe status`, and give the array what it lacks"
                        .to_owned(),
                    ..plain
                };
                return self.put(&alert, now_s, ways);
            }
            (true, true) if now_s.saturating_sub(self.alerted_s) >= SETTLED_AFTER_S => {
                self.is_unwell = false;
                self.recent.clear();
                return self.put(&resolved(&plain, condition.text.clone()), now_s, ways);
            }
            _ => {}
        }
        0
    }

    fn put(&mut self, alert: &Alert, now_s: u64, ways: &[Way]) -> usize {
        self.remember_warning(alert, now_s, ways);
        for &way in ways {
            self.waiting.push_back(Waiting {
                alert: alert.clone(),
                way,
                attempts: 0,
                next_s: now_s,
            });
        }
        let too_many = self.waiting.len().saturating_sub(WAITING_MAX);
        self.waiting.drain(..too_many);
        too_many
    }

    fn remember_warning(&mut self, alert: &Alert, now_s: u64, ways: &[Way]) {
        let Some(member) = alert.member.as_ref().filter(|_| !ways.is_empty()) else {
            return;
        };
        if warning_of(&alert.kind).is_none() {
            return;
        }
        let is_same = |one: &Warned| one.member == *member && one.kind == alert.kind;
        self.warned.retain(|one| !is_same(one));
        if self.warned.len() == WARNED_MAX {
            self.warned.pop_front();
        }
        self.warned.push_back(Warned {
            member: member.clone(),
            kind: alert.kind.clone(),
            told_s: now_s,
        });
    }

    /// Takes an attempt that is due out of the book; [`Book::again`] puts it back.
    pub fn take_due(&mut self, now_s: u64) -> Option<Waiting> {
        let is_due = |one: &Waiting| one.next_s <= now_s || one.next_s > now_s + PAUSE_MAX_S;
        let at = self.waiting.iter().position(is_due)?;
        self.waiting.remove(at)
    }

    /// The attempt has failed: it is tried again later. Returns false if it is given up instead.
    pub fn again(&mut self, mut attempt: Waiting, now_s: u64) -> bool {
        // The clock may have been set since the alert was noted, so it does not tell for how long this was tried.
        if (0..attempt.attempts).map(pause_s).sum::<u64>() >= GIVE_UP_AFTER_S {
            return false;
        }
        attempt.next_s = now_s + pause_s(attempt.attempts);
        attempt.attempts += 1;
        self.waiting.push_back(attempt);
        true
    }

    /// Whether an attempt waits.
    pub fn has_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// Puts an attempt back of which nobody knows what has become: it is due at once.
    pub fn put_back(&mut self, attempt: Waiting) {
        self.waiting.push_front(attempt);
    }
}

/// The pause after so many attempts that failed, and one more.
fn pause_s(attempts: u32) -> u64 {
    (PAUSE_MIN_S << attempts.min(20)).min(PAUSE_MAX_S)
}

/// The alert that something is over.
fn resolved(plain: &Alert, text: String) -> Alert {
    Alert {
        kind: "resolved".to_owned(),
        severity: Severity::Info,
        text: format!("resolved: {text}"),
        next: "nothing".to_owned(),
        ..plain.clone()
    }
}

impl Waiting {
    /// Whether it has not been tried before.
    pub fn is_first(&self) -> bool {
        self.attempts == 0
    }
}

#[cfg(test)]
mod tests {
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
        let cool: [(&str, Option<&[Warning]>); 3] =
            [("d0", Some(&[Warning::WornOut])), all[1], all[2]];
        let wanted =
            "resolved: d0 no longer reports that it is so hot that it may stop or lose data";
        assert_eq!(told(1030, &cool), [wanted]);
        assert!(told(1040, &cool).is_empty());
        let wanted = [
            "resolved: d1 no longer reports that its protection against power loss has failed",
            "resolved: d2 reported that it has met more errors that it could not correct, and no drive of this name is in the array any more",
        ];
        assert_eq!(told(1050, &[cool[0], ("d1", Some(none))]), wanted);
    }
}
