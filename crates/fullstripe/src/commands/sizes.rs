//! Sizes that were typed wrongly, with what was meant, and sizes in the unit in which people type them.

use engine::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
use std::ops::RangeInclusive;

/// Units of sizes, the smallest first.
const UNITS: [(&str, u32); 4] = [("k", 10), ("m", 20), ("g", 30), ("t", 40)];

/// `bytes` as it may be typed, exactly, in the largest unit of which it is a whole number: `64k`.
#[must_use]
pub fn typed_size(bytes: impl Into<u64>) -> String {
    let bytes = bytes.into();
    let whole = |(_, shift): &&(&str, u32)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match UNITS.iter().rev().find(whole) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// The same for reading: `64 KiB`.
#[must_use]
pub fn exact_size(bytes: u64) -> String {
    let typed = typed_size(bytes);
    let digits = typed.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    match typed.strip_prefix(digits) {
        None | Some("") => format!("{bytes} bytes"),
        Some(unit) => format!("{digits} {}iB", unit.to_ascii_uppercase()),
    }
}

/// What somebody meant who typed `bytes` without a unit where only sizes of a range make sense, as the end of a
/// sentence: `; did you mean 64k?`. Empty if no unit helps.
#[must_use]
pub fn did_you_mean(bytes: u64, possible: &RangeInclusive<u64>) -> String {
    // Whole KiB were typed with a unit, or are no slip.
    let has_unit = bytes >= 1024 && bytes.is_multiple_of(1024);
    let units = UNITS.iter().filter(|_| !has_unit);
    let with_unit = units.filter(|(_, shift)| {
        let meant = bytes.checked_mul(1 << shift);
        meant.is_some_and(|meant| possible.contains(&meant))
    });
    let mut meant: Vec<String> = with_unit
        .map(|(unit, _)| format!("{bytes}{unit}"))
        .collect();
    match meant.pop() {
        None => String::new(),
        Some(only) if meant.is_empty() => format!("; did you mean {only}?"),
        Some(last) => format!("; did you mean {} or {last}?", meant.join(", ")),
    }
}

/// What somebody meant whose text is no size, if only its unit is written otherwise: `64kb`, `64 KiB`.
#[must_use]
pub fn respelled(text: &str) -> String {
    let lower: String = text.to_ascii_lowercase().split_whitespace().collect();
    let short = lower.strip_suffix("ib").or(lower.strip_suffix('b'));
    let short = short.unwrap_or(&lower);
    let is_size = short != text && drives::spec::parse_size(short).is_some();
    if is_size {
        format!("; did you mean {short}?")
    } else {
        String::new()
    }
}

/// Refuses what is too small or too large for `what`, like "a volume", with what was meant.
///
/// # Errors
/// The sentence.
pub fn check_range(what: &str, bytes: u64, possible: &RangeInclusive<u64>) -> Result<(), String> {
    if possible.contains(&bytes) {
        return Ok(());
    }
    let [least, most] = [*possible.start(), *possible.end()].map(typed_size);
    let meant = did_you_mean(bytes, possible);
    let size = exact_size(bytes);
    Err(format!(
        "{what} has from {least} to {most}, not {size}{meant}"
    ))
}

/// A chunk as the user writes it.
///
/// # Errors
/// As [`check_chunk`].
pub fn parse_chunk(text: &str) -> Result<u32, String> {
    check_chunk(super::words::parse_size(text)?)
}

/// A chunk is a power of two from 4k to 1m.
///
/// # Errors
/// A sentence with what is possible, and what was meant.
pub fn check_chunk(bytes: u64) -> Result<u32, String> {
    let possible = u64::from(CHUNK_BYTES_MIN)..=u64::from(CHUNK_BYTES_MAX);
    match u32::try_from(bytes) {
        Ok(chunk) if chunk.is_power_of_two() && possible.contains(&bytes) => Ok(chunk),
        _ => {
            let [least, most] = [*possible.start(), *possible.end()].map(typed_size);
            let meant = if bytes.is_power_of_two() {
                did_you_mean(bytes, &possible)
            } else {
                String::new()
            };
            Err(format!(
                "a chunk is a power of two from {least} to {most}{meant}"
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_as_they_are_typed_and_exactly() {
        for (bytes, typed, exact) in [
            (0, "0", "0 bytes"),
            (512, "512", "512 bytes"),
            (4608, "4608", "4608 bytes"),
            (64 << 10, "64k", "64 KiB"),
            (1025 << 10, "1025k", "1025 KiB"),
            (1 << 20, "1m", "1 MiB"),
            (3 << 40, "3t", "3 TiB"),
        ] {
            assert_eq!(typed_size(bytes), typed);
            assert_eq!(exact_size(bytes), exact);
        }
    }

    #[test]
    fn what_was_meant_is_offered_if_it_makes_sense() {
        let chunk = parse_chunk("64").unwrap_err();
        assert_eq!(
            chunk,
            "a chunk is a power of two from 4k to 1m; did you mean 64k?"
        );
        assert!(parse_chunk("1").unwrap_err().ends_with("did you mean 1m?"));
        let no_help = "a chunk is a power of two from 4k to 1m";
        for text in ["48k", "2m", "48", "2048", "8g"] {
            assert_eq!(parse_chunk(text).unwrap_err(), no_help, "{text}");
        }
        assert_eq!(did_you_mean(1 << 10, &(1 << 20..=1 << 50)), "");
        assert_eq!(parse_chunk("64K"), Ok(64 << 10));
        assert_eq!(
            check_range("a volume", 100, &(1 << 20..=1 << 50)).unwrap_err(),
            "a volume has from 1m to 1024t, not 100 bytes; did you mean 100m, 100g or 100t?"
        );
    }

    #[test]
    fn units_that_are_written_otherwise_are_understood_and_named() {
        for (text, meant) in [
            ("64kb", "; did you mean 64k?"),
            ("64 KiB", "; did you mean 64k?"),
            ("4096bytes", ""),
            ("512b", "; did you mean 512?"),
            ("big", ""),
            ("b", ""),
        ] {
            assert_eq!(respelled(text), meant, "{text}");
        }
    }
}
