//! Reads TOML into types, with one sentence if it does not fit; and texts as TOML writes them.

use crate::nearest::nearest;
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Write as _};
use serde::de::DeserializeOwned;

/// Most characters of a parser's message in a sentence.
const QUOTED_MAX: usize = 200;

/// Why a file is refused: which key, and which rule it breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The file, as it was named.
    pub file: String,
    /// The key with the tables around it, joined by points; empty if the error concerns the whole file.
    pub key: String,
    /// The rule, as the rest of a sentence.
    pub rule: String,
}

impl fmt::Display for Refusal {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.sentence())
    }
}

impl core::error::Error for Refusal {}

impl Refusal {
    /// `key` of `file` breaks `rule`.
    #[must_use]
    pub fn new(file: &str, key: impl Into<String>, rule: impl Into<String>) -> Refusal {
        Refusal {
            file: file.to_string(),
            key: key.into(),
            rule: rule.into(),
        }
    }

    /// The sentence without its full stop.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Refusal { file, key, rule } = self;
        if key.is_empty() {
            format!("{file}: {rule}")
        } else {
            format!("{file}: {key} {rule}")
        }
    }
}

/// Reads `text`, which is the content of `file`.
///
/// # Errors
///
/// If it is not TOML, or not of this form: unknown, missing or repeated keys, values of the wrong kind.
pub fn read<T: DeserializeOwned>(file: &str, text: &str) -> Result<T, Refusal> {
    let table: toml::Table = text.parse().map_err(|error: toml::de::Error| {
        let at = error.span().map_or(0, |span| span.start).min(text.len());
        let line = 1 + text.as_bytes()[..at]
            .iter()
            .filter(|byte| **byte == b'\n')
            .count();
        let message = one_line(error.message());
        Refusal::new(
            file,
            format!("line {line}"),
            format!("is not TOML: {message}"),
        )
    })?;
    T::deserialize(toml::Value::Table(table)).map_err(|error| refusal(file, &error))
}

/// A text as a string of TOML, with its quotation marks.
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for letter in text.chars() {
        match letter {
            '"' => quoted += "\\\"",
            '\\' => quoted += "\\\\",
            control if control.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(control));
            }
            other => quoted.push(other),
        }
    }
    quoted + "\""
}

/// Turns the parser's message into one of this program's sentences.
fn refusal(file: &str, error: &toml::de::Error) -> Refusal {
    let text = error.to_string();
    // The parser does not expose the place, but prints it below its message.
    let place = text
        .lines()
        .last()
        .and_then(|line| line.strip_prefix("in `")?.strip_suffix('`'))
        .unwrap_or("");
    let message = one_line(error.message());
    let quoted: Vec<&str> = message.split('`').skip(1).step_by(2).collect();
    let inner = |name: &str| match place {
        "" => name.to_string(),
        place => format!("{place}.{name}"),
    };
    if message.starts_with("unknown field")
        && let Some((name, known)) = quoted.split_first()
    {
        let offered = nearest(name, known.iter().copied());
        return Refusal::new(
            file,
            inner(name),
            format!("is not a key here; nearest: {offered}"),
        );
    }
    if message.starts_with("missing field")
        && let Some(name) = quoted.first()
    {
        return Refusal::new(file, inner(name), "is missing");
    }
    if message.starts_with("unknown variant")
        && let Some((name, known)) = quoted.split_first()
    {
        let offered = nearest(name, known.iter().copied());
        return Refusal::new(
            file,
            place,
            format!("does not know \"{name}\"; nearest: {offered}"),
        );
    }
    let found = ["invalid type: ", "invalid value: ", "invalid length "]
        .iter()
        .find_map(|start| message.strip_prefix(start));
    let rule = match found.and_then(|rest| rest.rsplit_once(", expected ")) {
        Some((found, expected)) => {
            format!("must be {}, is {}", words(expected), found.replace('`', ""))
        }
        None => format!("is refused: {message}"),
    };
    Refusal::new(file, place, rule)
}

/// A Rust type in words for the user.
fn words(expected: &str) -> String {
    match expected {
        "u8" => "a whole number from 0 to 255".to_string(),
        "u32" => "a whole number from 0 to 4294967295".to_string(),
        "u64" => "a whole number from 0 up".to_string(),
        "f64" => "a number".to_string(),
        other if other.starts_with("struct ") || other == "a map" => "a table".to_string(),
        "a sequence" => "a list".to_string(),
        other => other.to_string(),
    }
}

/// The text on one line, cut to the length that a message may have.
fn one_line(text: &str) -> String {
    let mut line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if let Some((cut, _)) = line.char_indices().nth(QUOTED_MAX) {
        line.truncate(cut);
        line.push_str(" ...");
    }
    line
}
