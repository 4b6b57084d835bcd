//! Finds the known words that are nearest to an unknown one.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// At most this many words are offered.
const OFFERED: usize = 3;

/// Letters to insert, delete or change to turn `one` into `other` (Levenshtein's distance), in
/// characters.
fn distance(one: &str, other: &str) -> usize {
    let other: Vec<char> = other.chars().collect();
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, letter) in one.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for (at, wanted) in other.iter().enumerate() {
            let change = diagonal + usize::from(letter != *wanted);
            diagonal = row[at + 1];
            row[at + 1] = change.min(diagonal + 1).min(row[at] + 1);
        }
    }
    row[other.len()]
}

/// The nearest of `known` to `word`, best first, in words: `"a", "b" or "c"`. Empty if nothing is
/// known.
#[must_use]
pub fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> String {
    let mut ranked: Vec<(usize, &str)> = known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate))
        .collect();
    ranked.sort_unstable();
    let mut words: Vec<String> = ranked
        .iter()
        .take(OFFERED)
        .map(|(_, candidate)| format!("\"{candidate}\""))
        .collect();
    match words.pop() {
        None => String::new(),
        Some(last) if words.is_empty() => last,
        Some(last) => format!("{} or {last}", words.join(", ")),
    }
}

/// The one of `known` that `word` was probably meant to be: few letters differ. `None` if no word is that near.
#[must_use]
pub fn mistyped<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let ranked = known
        .into_iter()
        .map(|candidate| (distance(word, candidate), candidate));
    let (letters, candidate) = ranked.min()?;
    (letters * 3 <= candidate.chars().count()).then_some(candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distances_are_counted_in_letters() {
        for (one, other, expected) in [
            ("", "abc", 3),
            ("qd", "qd", 0),
            ("kitten", "sitting", 3),
            ("é", "e", 1),
        ] {
            assert_eq!(distance(one, other), expected);
            assert_eq!(distance(other, one), expected);
        }
    }

    #[test]
    fn the_nearest_come_first() {
        let known = ["p4510-1tb", "p4510-2tb", "p4800x-375gb", "960pro-512gb"];
        assert_eq!(
            nearest("p4510-2t", known),
            "\"p4510-2tb\", \"p4510-1tb\" or \"p4800x-375gb\""
        );
        assert_eq!(nearest("x", ["a"]), "\"a\"");
        assert_eq!(nearest("x", []), "");
    }

    #[test]
    fn a_mistyped_word_is_recognised_and_another_word_is_not() {
        let known = ["shards", "memory", "nbd"];
        for (word, meant) in [
            ("shard", Some("shards")),
            ("memroy", Some("memory")),
            ("nbds", Some("nbd")),
            ("members", None),
            ("", None),
        ] {
            assert_eq!(mistyped(word, known), meant, "{word}");
        }
        assert_eq!(mistyped("x", []), None);
    }
}
