//! How commands read and write levels, sizes and tables.

use assembly::level::of_format;
use engine::layout::Level as EngineLevel;
use metadata::imsm::Level;

/// Bytes in the unit of the metadata's sector numbers.
pub const SECTOR_BYTES: u64 = 512;

/// `bytes` for people: exact where it is a whole number of KiB, MiB, GiB or TiB, else with one decimal.
#[must_use]
pub fn size(bytes: u64) -> String {
    for (shift, unit) in [(40, "TiB"), (30, "GiB"), (20, "MiB"), (10, "KiB")] {
        if bytes >> shift == 0 {
            continue;
        }
        if bytes.is_multiple_of(1 << shift) {
            return format!("{} {unit}", bytes >> shift);
        }
        let tenths = u128::from(bytes) * 10 / (1u128 << shift);
        return format!("{}.{} {unit}", tenths / 10, tenths % 10);
    }
    format!("{bytes} bytes")
}

/// A level as the user writes it: `0`, `raid0`, `RAID-10`.
///
/// # Errors
/// A sentence with the levels there are.
pub fn parse_level(text: &str) -> Result<EngineLevel, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.strip_prefix("raid").unwrap_or(&lower);
    let number = digits.trim_start_matches(['-', ' ']).parse();
    let level = number.ok().and_then(EngineLevel::from_number);
    level.ok_or_else(|| format!("{text} is no level here; use 0, 1, 5 or 10"))
}

/// A size as the user writes it: bytes, or a number with `k`, `m`, `g` or `t`.
///
/// # Errors
/// A sentence with the forms there are.
pub fn parse_size(text: &str) -> Result<u64, String> {
    drives::spec::parse_size(text).ok_or_else(|| {
        format!(
            "{text} is no size; give bytes, or a number with k, m, g or t for KiB, MiB, GiB or TiB, \
             like 64k{}",
            super::sizes::respelled(text)
        )
    })
}

/// The number that people call a level by.
#[must_use]
pub fn level_number(level: Level) -> u8 {
    of_format(level).number()
}

/// The things in a row: `a`, `a and b`, `a, b and c`.
#[must_use]
pub fn and<T: AsRef<str>>(things: &[T]) -> String {
    let things: Vec<&str> = things.iter().map(AsRef::as_ref).collect();
    match &things[..] {
        [] => "nothing".to_owned(),
        [one] => (*one).to_owned(),
        [before @ .., last] => format!("{} and {last}", before.join(", ")),
    }
}

/// `1 drive`, `2 drives`.
#[must_use]
pub fn count(number: usize, thing: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {thing}{plural}")
}

/// As [`count`], of what may be more than memory holds.
#[must_use]
pub fn count_of(number: u64, thing: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), thing)
}

/// Columns wide enough for their longest cell, `indent` blanks before each line; the first row is the
/// head. How a table fits a terminal is in [`crate::terminal::table`].
#[must_use]
pub fn table(indent: usize, rows: &[Vec<String>]) -> String {
    crate::terminal::table::table(indent, rows, &[], None)
}

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

/// Prints `value` as JSON.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print_text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Prints `text`; a reader that has gone away is no failure.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    use std::io::{ErrorKind, Write};
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// `text` without the numbers that the standard library puts behind the system's sentences: of
/// `Permission denied (os error 13)` people need the first half.
#[must_use]
pub fn without_error_number(text: &str) -> String {
    let mut parts = text.split(" (os error ");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |text, part| {
        let digits = part.trim_start_matches(|c: char| c.is_ascii_digit());
        match digits.strip_prefix(')') {
            Some(rest) if digits.len() < part.len() => text + rest,
            _ => text + " (os error " + part,
        }
    })
}

/// Says `text` on standard error, on a line of its own; that nobody listens is no failure.
pub fn print_note(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{}", without_error_number(text));
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
    fn sizes_are_exact_or_have_one_decimal() {
        assert_eq!(size(0), "0 bytes");
        assert_eq!(size(64 << 10), "64 KiB");
        assert_eq!(size(1536 << 20), "1.5 GiB");
        assert_eq!(size(2_000_398_934_016), "1.8 TiB");
        assert_eq!(size(u64::MAX), "16777215.9 TiB");
    }

    #[test]
    fn levels_are_read_in_the_forms_people_write() {
        assert_eq!(parse_level("5"), Ok(EngineLevel::Raid5));
        assert_eq!(parse_level("raid10"), Ok(EngineLevel::Raid10));
        assert_eq!(parse_level("RAID-1"), Ok(EngineLevel::Raid1));
        assert!(parse_level("6").unwrap_err().contains("0, 1, 5 or 10"));
        assert!(parse_level("").is_err());
    }

    #[test]
    fn dates_follow_the_calendar() {
        assert_eq!(date(0), "1970-01-01 00:00:00 UTC");
        assert_eq!(date(951_782_399), "2000-02-28 23:59:59 UTC");
        assert_eq!(date(951_782_400), "2000-02-29 00:00:00 UTC");
        assert_eq!(date(1_795_225_074), "2026-11-21 01:37:54 UTC");
    }

    #[test]
    fn the_systems_sentences_have_no_numbers() {
        let error = std::io::Error::from_raw_os_error(13);
        let text = format!("cannot open a: {error}; nor b: {error}");
        assert_eq!(
            without_error_number(&text),
            "cannot open a: Permission denied; nor b: Permission denied"
        );
        for other in ["", "a (os error x)", "a (os error 1", "a (os error )"] {
            assert_eq!(without_error_number(other), other);
        }
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

    #[test]
    fn tables_align_and_leave_no_blanks_at_the_end() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = table(2, &[row(["NAME", "SIZE"]), row(["a", "10 GiB"])]);
        assert_eq!(text, "  NAME  SIZE\n  a     10 GiB\n");
    }
}
