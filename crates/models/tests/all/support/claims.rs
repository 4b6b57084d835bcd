//! Which published rows the source of a number may cite.

use models::profile::{Figure, Use};
use std::collections::BTreeMap;
use std::path::Path;

/// The uses of all published rows by id, from the frozen claims.
pub fn claims() -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../claims");
    let mut uses = BTreeMap::new();
    for entry in std::fs::read_dir(folder).expect("the claims are part of the repository") {
        let path = entry.expect("the folder can be read").path();
        if path.extension().is_none_or(|extension| extension != "toml") {
            continue;
        }
        let text = std::fs::read_to_string(path).expect("a claims file is text");
        let file: toml::Table = text.parse().expect("a claims file is TOML");
        for claim in file["claim"].as_array().expect("claims are a list") {
            let (id, r#use) = (claim["id"].as_str(), claim["use"].as_str());
            uses.insert(id.unwrap().to_string(), r#use.unwrap().to_string());
        }
    }
    assert!(uses.len() > 200, "{}", uses.len());
    uses
}

/// All words of a source that look like the id of a published row: `A-01`, `M-07.held`.
fn cited(source: &str) -> Vec<String> {
    source
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '.'))
        .map(|word| word.trim_end_matches('.'))
        .filter(|word| {
            let mut letters = word.chars();
            let seed = letters
                .next()
                .is_some_and(|letter| "AIMPO".contains(letter));
            seed && letters.next() == Some('-')
                && letters.next().is_some_and(|c| c.is_ascii_digit())
        })
        .map(str::to_string)
        .collect()
}

/// Rows that a figure cites as its source and must not.
pub fn wrong_rows<'a>(
    figure: &'a Figure,
    uses: &'a BTreeMap<String, String>,
) -> impl Iterator<Item = String> + 'a {
    cited(&figure.source).into_iter().filter(|id| {
        // A row may have been split: M-03 stands for M-03 and for each M-03.x.
        let mut parts = uses
            .iter()
            .filter(|(known, _)| *known == id || known.starts_with(&format!("{id}.")))
            .map(|(_, r#use)| r#use.as_str())
            .peekable();
        let allowed = |r#use: &str| match figure.r#use {
            Use::S | Use::Reported => r#use == "S",
            Use::C => r#use == "S" || r#use == "C",
            Use::Measured => false,
            Use::Prior => r#use == "S" || r#use == "C" || r#use == "F",
        };
        parts.peek().is_none() || !parts.all(allowed)
    })
}
