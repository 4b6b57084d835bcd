//! What a drive has reported so far, and what is new. It only computes: answers and times come from the caller.

use super::asking::{Answer, Hope};
use crate::status::drive_health::{DriveHealth, FAILING, GOOD, HealthLog, NOT_KNOWN, WARNING};
use drives::nvme::{Health, Limits, Warning, judge};
use std::time::{Duration, Instant};

/// Media errors are warned of until no new one has come for this long.
pub(super) const QUIET_AFTER: Duration = Duration::from_secs(86_400);
/// A drive that was hot has to be this much below its limit to count as cool, so that one whose temperature swings by a
/// degree is not told of every minute.
const COOLER_BY_CELSIUS: i32 = 5;

/// See the module's documentation.
#[derive(Default)]
pub(super) struct Record {
    warnings: Vec<Warning>,
    media_errors: MediaErrors,
    health: DriveHealth,
    /// There has been an answer.
    is_heard: bool,
}

/// What differs between two reports.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(super) struct Change {
    pub began: Vec<Warning>,
    pub ended: Vec<Warning>,
}

/// The number of media errors; only its growth while the array is served is a warning.
#[derive(Default)]
struct MediaErrors {
    /// The number before the growth that is warned of, and the newest number.
    before_and_newest: Option<(u128, u128)>,
    grew: Option<Instant>,
}

impl Record {
    /// The newest state, for the status.
    pub fn health(&self) -> &DriveHealth {
        &self.health
    }

    /// Whether there has been an answer, or none in time.
    pub fn is_heard(&self) -> bool {
        self.is_heard
    }

    /// Takes an answer, which came at `now`, the second `now_s` since 1970.
    pub fn hear(&mut self, answer: &Answer, now: Instant, now_s: u64) -> Change {
        self.is_heard = true;
        let report = match answer {
            Ok(report) => report,
            Err(not_known) => {
                // What it has warned of before may still be true.
                NOT_KNOWN.clone_into(&mut self.health.state);
                self.health.not_known = Some(not_known.why.clone());
                self.health.may_report = not_known.hope != Hope::Never;
                return Change::default();
            }
        };
        let before = self.media_errors.before(report.health.media_errors, now);
        let warnings = self.judged(&report.health, report.limits, before);
        let only_in = |one: &[Warning], other: &[Warning]| {
            let differs = |warning: &&Warning| !other.contains(warning);
            one.iter().filter(differs).copied().collect()
        };
        let change = Change {
            began: only_in(&warnings, &self.warnings),
            ended: only_in(&self.warnings, &warnings),
        };
        self.health = DriveHealth {
            state: state(&warnings).to_owned(),
            not_known: None,
            may_report: true,
            log: Some(HealthLog::of(&report.health, now_s)),
            warnings: warnings.iter().map(|one| one.name().to_owned()).collect(),
        };
        self.warnings = warnings;
        change
    }

    fn judged(&self, health: &Health, limits: Limits, media_errors_before: u128) -> Vec<Warning> {
        let now = judge(health, limits, media_errors_before);
        let celsius = health.celsius + COOLER_BY_CELSIUS;
        let hotter = Health {
            celsius,
            ..health.clone()
        };
        let hotter = judge(&hotter, limits, media_errors_before);
        let stays = |warning: &Warning| {
            matches!(warning, Warning::Hot | Warning::TooHot)
                && self.warnings.contains(warning)
                && hotter.contains(warning)
        };
        let is_warned_of = |warning: &Warning| now.contains(warning) || stays(warning);
        Warning::ALL.into_iter().filter(is_warned_of).collect()
    }
}

fn state(warnings: &[Warning]) -> &'static str {
    if warnings.iter().any(|one| one.means_failing()) {
        FAILING
    } else if warnings.is_empty() {
        GOOD
    } else {
        WARNING
    }
}

impl MediaErrors {
    /// Takes the number of a report; returns the number that does not count as growth.
    fn before(&mut self, number: u128, now: Instant) -> u128 {
        let (before, newest) = self.before_and_newest.unwrap_or((number, number));
        if number > newest {
            self.grew = Some(now);
        }
        let is_quiet = self
            .grew
            .is_none_or(|grew| now.duration_since(grew) >= QUIET_AFTER);
        let before = if is_quiet { number } else { before };
        self.before_and_newest = Some((before, number));
        before
    }
}

#[cfg(test)]
mod tests {
    use super::super::asking::{NotKnown, Report};
    use super::*;

    fn report(change: impl FnOnce(&mut Health)) -> Answer {
        let mut health = Health::decode(&[0; drives::nvme::HEALTH_BYTES]);
        (health.celsius, health.available_spare_percent) = (40, 100);
        change(&mut health);
        Ok(Report {
            health,
            limits: Limits {
                warning_celsius: Some(70),
                critical_celsius: None,
            },
        })
    }

    /// Hears `answer` after so many seconds.
    fn hear(record: &mut Record, begin: Instant, second: u64, answer: &Answer) -> Change {
        record.hear(answer, begin + Duration::from_secs(second), second)
    }

    #[test]
    fn the_same_state_is_news_once() {
        let (mut record, begin) = (Record::default(), Instant::now());
        assert_eq!(record.health().state, NOT_KNOWN);
        let bad = report(|health| health.critical_warning = 0b100);
        let good = report(|_| ());
        let mut at = |second, answer| hear(&mut record, begin, second, answer);
        assert_eq!(at(0, &good), Change::default());
        assert_eq!(at(60, &bad).began, [Warning::Unreliable]);
        assert_eq!(at(120, &bad), Change::default());
        let both = report(|health| health.critical_warning = 0b1100);
        assert_eq!(at(180, &both).began, [Warning::ReadOnly]);
        let change = at(240, &good);
        assert_eq!(change.began, []);
        assert_eq!(change.ended, [Warning::Unreliable, Warning::ReadOnly]);
        assert_eq!(at(300, &good), Change::default());
    }

    #[test]
    fn a_drive_that_does_not_answer_is_not_good_and_keeps_what_it_warned_of() {
        let (mut record, begin) = (Record::default(), Instant::now());
        let bad = report(|health| health.critical_warning = 0b100);
        hear(&mut record, begin, 0, &bad);
        assert_eq!(record.health().state, FAILING);
        let silent = Err(NotKnown {
            why: "it has not answered for 30 s".to_owned(),
            hope: Hope::AskAgain,
        });
        assert_eq!(hear(&mut record, begin, 90, &silent), Change::default());
        let health = record.health();
        assert_eq!(health.state, NOT_KNOWN);
        assert_eq!(health.warnings, ["unreliable"]);
        assert_eq!(health.log.as_ref().map(|log| log.read_s), Some(0));
        assert!(health.failing().is_some());
        // Then it answers again, and nothing has changed.
        assert_eq!(hear(&mut record, begin, 95, &bad), Change::default());
        assert_eq!(record.health().not_known, None);
    }

    #[test]
    fn a_temperature_that_swings_about_the_limit_is_one_warning() {
        let (mut record, begin) = (Record::default(), Instant::now());
        let mut at = |celsius| {
            let answer = report(|health| health.celsius = celsius);
            let change = hear(&mut record, begin, 0, &answer);
            (change.began, change.ended)
        };
        assert_eq!(at(69), (vec![], vec![]));
        assert_eq!(at(70), (vec![Warning::Hot], vec![]));
        assert_eq!(at(66), (vec![], vec![]));
        assert_eq!(at(71), (vec![], vec![]));
        assert_eq!(at(64), (vec![], vec![Warning::Hot]));
        assert_eq!(at(69), (vec![], vec![]));
        assert_eq!(record.health().state, GOOD);
    }

    #[test]
    fn media_errors_are_warned_of_until_a_day_has_brought_none() {
        let (mut record, begin) = (Record::default(), Instant::now());
        let mut at = |second, errors| {
            let answer = report(|health| health.media_errors = errors);
            let change = hear(&mut record, begin, second, &answer);
            (change.began, change.ended)
        };
        let (none, some) = (Vec::new, || vec![Warning::MediaErrors]);
        assert_eq!(
            at(0, 7),
            (none(), none()),
            "errors from before the start are old"
        );
        assert_eq!(at(60, 8), (some(), none()));
        assert_eq!(at(50_000, 8), (none(), none()));
        assert_eq!(at(60_000, 9), (none(), none()));
        assert_eq!(at(60_000 + 86_399, 9), (none(), none()));
        assert_eq!(at(60_000 + 86_400, 9), (none(), some()));
        assert_eq!(at(200_000, 9), (none(), none()));
        assert_eq!(at(200_060, 10), (some(), none()));
    }
}
