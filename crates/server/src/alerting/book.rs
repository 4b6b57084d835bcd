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
mod tests;
