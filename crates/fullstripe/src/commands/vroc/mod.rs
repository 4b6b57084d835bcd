//! `--as-vroc` of `create` and `plan`: which keys Intel VROC would want for an array, and which arrays it would refuse.

pub mod members;

use crate::terminal::fold::fold_within;
use crate::terminal::table::{Give, table};
use std::collections::{BTreeMap, BTreeSet};
use vroc::keys::{KeyAnswer, Verdict};
use vroc::{Answer, Purpose};

/// What is always added: none of this is Intel's own table.
const CAUTION: &str = "No publication here is Intel's own table of keys. On a machine with VROC, \"mdadm --detail-platform\" prints its \
                       key and what that allows.";

/// What an array is for, as the value of the option.
///
/// # Errors
/// The possible values.
pub fn purpose(text: &str) -> Result<Purpose, String> {
    match text {
        "data" => Ok(Purpose::Data),
        "boot" => Ok(Purpose::Boot),
        _ => Err("must be data or boot".to_owned()),
    }
}

/// An answer for people, without its heading: keys, and the rules that are broken. [`sources`] follows the last one.
#[must_use]
pub fn text(answer: &Answer, columns: Option<usize>) -> String {
    let mut text = keys(&answer.keys, columns);
    let mut say = |sentence: &str| text += &fold_within(&format!("  {sentence}\n"), columns, 4);
    let disputed = answer.disputed();
    if !disputed.is_empty() {
        say(&format!(
            "publications contradict each other about {}",
            words::and(
                &disputed
                    .iter()
                    .map(|key| key_in_words(key))
                    .collect::<Vec<_>>()
            )
        ));
    }
    for rule in &answer.broken {
        let verb = match rule.is_certain {
            true => "refused",
            false => "may be refused",
        };
        say(&format!(
            "{verb}, because {}: {} ({})",
            rule.because, rule.rule, rule.publication
        ));
    }
    if answer.broken.is_empty() {
        say(match answer.purpose {
            Purpose::Data => "no rule about shapes refuses it",
            Purpose::Boot => "no rule about shapes refuses it, and firmware could boot from it",
        });
    }
    text
}

/// The publications that answers cite, each once, and what none of them is.
#[must_use]
pub fn sources<'a>(answers: impl Iterator<Item = &'a Answer>, columns: Option<usize>) -> String {
    let cited: BTreeMap<&String, &String> =
        answers.flat_map(|answer| &answer.publications).collect();
    let lines = cited.iter().map(|(id, title)| format!("{id}: {title}\n"));
    let text: String = lines.chain([format!("{CAUTION}\n")]).collect();
    fold_within(&text, columns, 4)
}

/// The keys as a table.
fn keys(answers: &[KeyAnswer], columns: Option<usize>) -> String {
    let head = ["KEY", "ANSWER", "BECAUSE", "TOOL", "PUBLICATION"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(answers.iter().map(|answer| {
        let because = match &answer.note {
            Some(note) => format!("{}; {note}", answer.because),
            None => answer.because.clone(),
        };
        vec![
            name(answer),
            answer.verdict.word().to_owned(),
            because,
            answer.tool.clone().unwrap_or_else(|| "any".to_owned()),
            format!("{}: {}", answer.publication, answer.r#where),
        ]
    }));
    let give = [Give::Stay, Give::Stay, Give::Fold, Give::Fold, Give::Fold];
    table(2, &rows, &give, columns)
}

fn name(answer: &KeyAnswer) -> String {
    match answer.days {
        Some(days) => format!("{}, {days} days", answer.key),
        None => answer.key.clone(),
    }
}

/// Keys by what publications say of them, in one sentence without its full stop.
#[must_use]
pub fn in_one_sentence(answer: &Answer) -> String {
    let disputed = answer.disputed();
    let with = |verdict| {
        let rows = answer.keys.iter().filter(move |row| row.verdict == verdict);
        let keys: BTreeSet<&str> = rows.map(|row| row.key.as_str()).collect();
        keys
    };
    let (accepts, refuses) = (with(Verdict::Accepts), with(Verdict::Refuses));
    let undisputed = |keys: BTreeSet<&'_ str>| -> Vec<String> {
        let keys = keys.into_iter().filter(|key| !disputed.contains(key));
        keys.map(key_in_words).collect()
    };
    let unsaid = with(Verdict::NotSaid);
    let unsaid = unsaid
        .into_iter()
        .filter(|key| !accepts.contains(key) && !refuses.contains(key));
    let unsaid = undisputed(unsaid.collect());
    let groups = [
        ("accepted with", undisputed(accepts)),
        (
            "disputed with",
            disputed.iter().map(|key| key_in_words(key)).collect(),
        ),
        ("refused with", undisputed(refuses)),
        ("not said of", unsaid),
    ];
    let told = groups.iter().filter(|(_, keys)| !keys.is_empty());
    let told: Vec<String> = told
        .map(|(what, keys)| format!("{what} {}", words::and(keys)))
        .collect();
    told.join("; ")
}

fn key_in_words(key: &str) -> String {
    if key == "none" { "no key" } else { key }.to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::vroc::{Array, Member, Place, Policy};

    #[test]
    fn keys_are_told_in_one_sentence() {
        let member = Member {
            name: "nvme0".to_owned(),
            title: Some("Samsung 960 PRO".to_owned()),
            maker: Some("Samsung".to_owned()),
            purpose: None,
            place: Place::Outside,
        };
        let array = Array {
            level: 0,
            chunk_kib: None,
            volumes: 1,
            purpose: Purpose::Data,
            members: vec![member.clone(), member],
        };
        let answer = Answer::of(&Policy::built_in(), &array);
        assert_eq!(
            in_one_sentence(&answer),
            "accepted with premium; disputed with no key and trial; refused with intel-ssd-only, raid1-only and some key; not said \
             of standard"
        );
        let text = text(&answer, Some(80));
        assert!(
            text.lines().all(|line| line.chars().count() <= 80),
            "{text}"
        );
        assert!(
            text.contains("publications contradict each other about no key and trial\n"),
            "{text}"
        );
    }
}
