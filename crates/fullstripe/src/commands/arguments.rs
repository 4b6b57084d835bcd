//! Parses levels, sizes and chunks; an error suggests what was probably meant.

use engine::layout::Level;
use engine::limits::{CHUNK_BYTES_MAX, CHUNK_BYTES_MIN};
use words::{did_you_mean, typed_size};

/// A level as the user writes it: `0`, `raid0`, `RAID-10`.
///
/// # Errors
/// A sentence that lists the possible levels.
pub fn parse_level(text: &str) -> Result<Level, String> {
    let lower = text.to_ascii_lowercase();
    let digits = lower.strip_prefix("raid").unwrap_or(&lower);
    let number = digits.trim_start_matches(['-', ' ']).parse();
    let level = number.ok().and_then(Level::from_number);
    level.ok_or_else(|| format!("{text} is no level here; use 0, 1, 5 or 10"))
}

/// A size as the user writes it: bytes, or a number with `k`, `m`, `g` or `t`.
///
/// # Errors
/// A sentence that lists the possible forms.
pub fn parse_size(text: &str) -> Result<u64, String> {
    drives::spec::parse_size(text).ok_or_else(|| {
        format!(
            "{text} is no size; give bytes, or a number with k, m, g or t for KiB, MiB, GiB or TiB, \
             like 64k{}",
            respelled(text)
        )
    })
}

/// A suggestion for a text that is no size only because of the spelling of its unit: `64kb`, `64 KiB`.
fn respelled(text: &str) -> String {
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

/// A chunk as the user writes it.
///
/// # Errors
/// As [`check_chunk`].
pub fn parse_chunk(text: &str) -> Result<u32, String> {
    check_chunk(parse_size(text)?)
}

/// A chunk is a power of two from 4k to 1m.
///
/// # Errors
/// A sentence that says what is possible, and what was probably meant.
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
    fn levels_are_read_in_the_forms_people_write() {
        assert_eq!(parse_level("5"), Ok(Level::Raid5));
        assert_eq!(parse_level("raid10"), Ok(Level::Raid10));
        assert_eq!(parse_level("RAID-1"), Ok(Level::Raid1));
        assert!(parse_level("6").unwrap_err().contains("0, 1, 5 or 10"));
        assert!(parse_level("").is_err());
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
        assert_eq!(parse_chunk("64K"), Ok(64 << 10));
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
