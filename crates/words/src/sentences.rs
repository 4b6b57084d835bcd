//! Parts of sentences.

/// A list of things: `a`, `a and b`, `a, b and c`.
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

/// As [`count`], for a 64-bit number.
#[must_use]
pub fn count_of(number: u64, thing: &str) -> String {
    count(usize::try_from(number).unwrap_or(usize::MAX), thing)
}

/// `text` without the error numbers that the standard library appends: `Permission denied (os error 13)` becomes
/// `Permission denied`.
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

/// A word of a command line, quoted where a shell would take it for something else.
#[must_use]
pub fn quoted_for_shell(word: &str) -> String {
    /// Characters that need no quoting in any shell.
    const PLAIN: &str = "-_./,:=+@%";
    let is_plain = |one: char| one.is_ascii_alphanumeric() || PLAIN.contains(one);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    format!("'{}'", word.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
