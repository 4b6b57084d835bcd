//! Dates and durations.

/// `12 s`, `3 min 20 s`, `2 h 05 min`, `7 days`, `7 days 3 h`.
#[must_use]
pub fn duration(seconds: u64) -> String {
    const DAY_S: u64 = 86_400;
    match seconds {
        0..60 => format!("{seconds} s"),
        60..3600 => format!("{} min {:02} s", seconds / 60, seconds % 60),
        3600..172_800 => format!("{} h {:02} min", seconds / 3600, seconds / 60 % 60),
        _ => match seconds % DAY_S / 3600 {
            0 => format!("{} days", seconds / DAY_S),
            hours => format!("{} days {hours} h", seconds / DAY_S),
        },
    }
}

/// Seconds since 1970 as a date and time in UTC, by the Gregorian calendar.
#[must_use]
pub fn date(unix_seconds: u64) -> String {
    let (days, second) = (unix_seconds / 86_400, unix_seconds % 86_400);
    // Years of 400 years' cycles of 146 097 days, beginning in March so that the leap day is last.
    let day = days + 719_468;
    let (era, day_of_era) = (day / 146_097, day % 146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let march_month = (5 * day_of_year + 2) / 153;
    let month_day = day_of_year - (153 * march_month + 2) / 5 + 1;
    let month = if march_month < 10 {
        march_month + 3
    } else {
        march_month - 9
    };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{month_day:02} {:02}:{:02}:{:02} UTC",
        second / 3600,
        second / 60 % 60,
        second % 60
    )
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
    }

    #[test]
    fn durations_have_two_units_at_most() {
        assert_eq!(duration(59), "59 s");
        assert_eq!(duration(3599), "59 min 59 s");
        assert_eq!(duration(7500), "2 h 05 min");
        assert_eq!(duration(86_400), "24 h 00 min");
        assert_eq!(duration(604_800), "7 days");
        assert_eq!(duration(612_000), "7 days 2 h");
    }
}
