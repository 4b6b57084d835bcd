//! Dates and durations, by [`jiff`].

use jiff::fmt::friendly::{Designator, SpanPrinter};
use jiff::{RoundMode, Span, SpanRound, Timestamp, Unit};

const DAY_S: u64 = 86_400;
/// The most days that [`duration`] shows; no clock runs so long.
const DAYS_MAX: u64 = 7_000_000;

/// `12s`, `3m 20s`, `2h 5m`, `7d 3h`: the two largest units; smaller ones are cut off.
#[must_use]
pub fn duration(seconds: u64) -> String {
    let seconds = seconds.min(DAYS_MAX * DAY_S);
    let smallest = match seconds {
        0..3600 => Unit::Second,
        3600..DAY_S => Unit::Minute,
        _ => Unit::Hour,
    };
    let round = SpanRound::new()
        .largest(Unit::Day)
        .smallest(smallest)
        .mode(RoundMode::Trunc)
        .days_are_24_hours();
    let span = Span::new().seconds(seconds as i64).round(round);
    let span = span.expect("days in range that are 24 hours each");
    let printer = SpanPrinter::new().designator(Designator::Compact);
    printer.span_to_string(&span)
}

/// The seconds of a duration as people write it: `90m`, `36h`, `7d`, `1d 12h`, `2 weeks`. A day has 24 hours. `None` if
/// `text` is no duration, is zero or negative, or has fractions of a second.
#[must_use]
pub fn parse_duration(text: &str) -> Option<u64> {
    let span: Span = text.parse().ok()?;
    let duration = span
        .to_duration(jiff::SpanRelativeTo::days_are_24_hours())
        .ok()?;
    let seconds = u64::try_from(duration.as_secs()).ok()?;
    (seconds > 0 && duration.subsec_nanos() == 0).then_some(seconds)
}

/// Seconds as [`parse_duration`] reads them, exactly: `90s`, `36h`, `7d`, in the largest unit that divides them.
#[must_use]
pub fn typed_duration(seconds: u64) -> String {
    match seconds {
        days if days % DAY_S == 0 => format!("{}d", days / DAY_S),
        hours if hours % 3600 == 0 => format!("{}h", hours / 3600),
        minutes if minutes % 60 == 0 => format!("{}m", minutes / 60),
        seconds => format!("{seconds}s"),
    }
}

/// Seconds since 1970 as a date and time in UTC.
#[must_use]
pub fn date(unix_seconds: u64) -> String {
    let seconds = i64::try_from(unix_seconds).unwrap_or(i64::MAX);
    // The latest timestamp is in the year 9999.
    let time = Timestamp::from_second(seconds).unwrap_or(Timestamp::MAX);
    time.strftime("%F %T UTC").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_225_074), "2026-11-21 01:37:54 UTC");
        assert_eq!(date(u64::MAX), "9999-12-30 22:00:00 UTC");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        for (seconds, text) in [
            (0, "0s"),
            (59, "59s"),
            (60, "1m"),
            (200, "3m 20s"),
            (3599, "59m 59s"),
            (7530, "2h 5m"),
            (86_400, "1d"),
            (604_800, "7d"),
            (612_000, "7d 2h"),
            (u64::MAX, "7000000d"),
        ] {
            assert_eq!(duration(seconds), text);
        }
    }

    #[test]
    fn typed_durations_are_read_as_the_same() {
        for (seconds, text) in [
            (1, "1s"),
            (90, "90s"),
            (120, "2m"),
            (129_600, "36h"),
            (604_800, "7d"),
            (612_001, "612001s"),
            (315_360_000, "3650d"),
        ] {
            assert_eq!(typed_duration(seconds), text);
            assert_eq!(parse_duration(text), Some(seconds), "{text}");
        }
    }

    #[test]
    fn durations_are_read_as_people_write_them() {
        for (text, seconds) in [
            ("2s", 2),
            ("90m", 5400),
            ("36h", 129_600),
            ("7d", 604_800),
            ("1d 12h", 129_600),
            ("1.5h", 5400),
            ("2 weeks", 1_209_600),
        ] {
            assert_eq!(parse_duration(text), Some(seconds), "{text}");
        }
        for text in [
            "",
            "7",
            "d",
            "0s",
            "-1d",
            "1ms",
            "1mo",
            "1y",
            "99999999999999999999d",
        ] {
            assert_eq!(parse_duration(text), None, "{text}");
        }
    }
}
