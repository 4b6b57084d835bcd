//! Sizes as the field writes them: `512`, `4k`, `1m`.

use serde::{Deserialize, Serialize};
use std::fmt;

/// A number of bytes, at least one sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Size(u32);

/// The smallest unit that drives transfer.
const SECTOR_BYTES: u32 = 512;
/// Largest request: 64 MiB, far above what any drive or host accepts in one piece.
const SIZE_MAX_BYTES: u32 = 64 << 20;

impl Size {
    /// `bytes` as a size, if a request can have that size: whole sectors of 512 bytes, at most 64 MiB.
    #[must_use]
    pub fn new(bytes: u32) -> Option<Size> {
        let is_valid = bytes > 0 && bytes.is_multiple_of(SECTOR_BYTES) && bytes <= SIZE_MAX_BYTES;
        is_valid.then_some(Size(bytes))
    }

    /// In bytes.
    #[must_use]
    pub fn bytes(self) -> u32 {
        self.0
    }
}

impl TryFrom<String> for Size {
    type Error = String;

    fn try_from(text: String) -> Result<Size, String> {
        let (digits, unit) = match text.as_bytes().last() {
            Some(b'k') => (&text[..text.len() - 1], 1 << 10),
            Some(b'm') => (&text[..text.len() - 1], 1 << 20),
            _ => (text.as_str(), 1),
        };
        let is_number = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit());
        is_number
            .then(|| digits.parse::<u32>().ok()?.checked_mul(unit))
            .flatten()
            .and_then(Size::new)
            .ok_or_else(|| {
                format!(
                    "a size is whole sectors of 512 bytes up to 64m, written like \"512\", \"4k\" or \"1m\" \
                     (k = 1024), not \"{text}\""
                )
            })
    }
}

impl From<Size> for String {
    fn from(size: Size) -> String {
        size.to_string()
    }
}

impl fmt::Display for Size {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bytes if bytes.is_multiple_of(1 << 20) => write!(out, "{}m", bytes >> 20),
            bytes if bytes.is_multiple_of(1 << 10) => write!(out, "{}k", bytes >> 10),
            bytes => write!(out, "{bytes}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_they_are_written() {
        for (text, bytes) in [
            ("512", 512),
            ("4k", 4096),
            ("1m", 1 << 20),
            ("64m", 64 << 20),
        ] {
            let size = Size::try_from(text.to_string()).expect("a size");
            assert_eq!(size.bytes(), bytes);
            assert_eq!(size.to_string(), text);
        }
        assert_eq!(
            Size::try_from("1024".to_string()).map(|size| size.to_string()),
            Ok("1k".into())
        );
    }

    #[test]
    fn anything_else_is_refused() {
        for text in [
            "",
            "k",
            "0",
            "4K",
            "-4k",
            "+4k",
            "4 k",
            "4.5k",
            "100",
            "65m",
            "9999999999k",
            "4kb",
            "é",
        ] {
            let message = Size::try_from(text.to_string()).expect_err(text);
            assert!(message.contains(&format!("not \"{text}\"")), "{message}");
        }
    }
}
