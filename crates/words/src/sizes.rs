//! Sizes: written for reading, written as the user types them, and suggestions for a mistyped one.

use std::ops::RangeInclusive;

/// Units of sizes, the smallest first.
const UNITS: [(&str, u32); 4] = [("k", 10), ("m", 20), ("g", 30), ("t", 40)];

/// `bytes` for reading: exact if it is a whole number of KiB, MiB, GiB or TiB, otherwise rounded down to one decimal.
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

/// `bytes` as a user may type it: exact, in the largest unit that divides it: `64k`.
#[must_use]
pub fn typed_size(bytes: impl Into<u64>) -> String {
    let bytes = bytes.into();
    let whole = |(_, shift): &&(&str, u32)| bytes > 0 && bytes.is_multiple_of(1 << shift);
    match UNITS.iter().rev().find(whole) {
        Some((unit, shift)) => format!("{}{unit}", bytes >> shift),
        None => bytes.to_string(),
    }
}

/// As [`typed_size`], but for reading: `64 KiB`.
#[must_use]
pub fn exact_size(bytes: u64) -> String {
    let typed = typed_size(bytes);
    let digits = typed.trim_end_matches(|unit: char| unit.is_ascii_alphabetic());
    match typed.strip_prefix(digits) {
        None | Some("") => format!("{bytes} bytes"),
        Some(unit) => format!("{digits} {}iB", unit.to_ascii_uppercase()),
    }
}

/// Suggests what a user meant who typed `bytes` without a unit, where only sizes in `possible` make sense. It is the
/// end of a sentence: `; did you mean 64k?`. Empty if no unit helps.
#[must_use]
pub fn did_you_mean(bytes: u64, possible: &RangeInclusive<u64>) -> String {
    // A multiple of 1 KiB was either typed with a unit, or is meant as it is.
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

/// Refuses a size that is too small or too large for `what`, like "a volume", and suggests what was meant.
///
/// # Errors
/// The error is a sentence for the user.
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
    fn a_size_out_of_range_is_refused_with_what_was_meant() {
        assert_eq!(did_you_mean(1 << 10, &(1 << 20..=1 << 50)), "");
        assert_eq!(
            check_range("a volume", 100, &(1 << 20..=1 << 50)).unwrap_err(),
            "a volume has from 1m to 1024t, not 100 bytes; did you mean 100m, 100g or 100t?"
        );
    }
}
