//! Which keys would accept an array, as far as a publication says so.

use crate::array::{Array, Member};
use crate::policy::{Drives, Key, Policy};
use serde::{Deserialize, Serialize};

/// What a row says of an array. The order is of use: a refusal outweighs what is not said, which outweighs what is accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It accepts the array.
    Accepts,
    /// It does not say.
    NotSaid,
    /// It refuses the array.
    Refuses,
}

impl Verdict {
    /// The verdict in words, after the name of a key.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Accepts => "accepts",
            Verdict::NotSaid => "not said",
            Verdict::Refuses => "refuses",
        }
    }
}

/// What one publication says of one key for an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KeyAnswer {
    /// The key; `none` without one.
    pub key: String,
    /// The days for which it holds, if it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub days: Option<u32>,
    /// The tool that would answer; absent if all do alike.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tool: Option<String>,
    /// The answer.
    pub verdict: Verdict,
    /// The answer about the level alone.
    pub of_level: Verdict,
    /// Why, as words that follow the verdict.
    pub because: String,
    /// The publication, by id.
    pub publication: String,
    /// Where in it.
    pub r#where: String,
    /// What else it says.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub note: Option<String>,
}

/// The answers of all rows, in the order of the file.
#[must_use]
pub fn answers(policy: &Policy, array: &Array) -> Vec<KeyAnswer> {
    policy.keys.iter().map(|row| answer(row, array)).collect()
}

fn answer(row: &Key, array: &Array) -> KeyAnswer {
    let of_drives = array.members.iter().map(|member| of_drive(row, member));
    let of_level = of_level(row, array.level);
    let level_verdict = of_level.0;
    // Of the answers that weigh most, the first.
    let heavier = |first: Said, next: Said| if next.0 > first.0 { next } else { first };
    let (verdict, because) = match of_drives.reduce(heavier) {
        Some((verdict, drives)) if of_level.0 == Verdict::Accepts => {
            (verdict, format!("{}, and {drives}", of_level.1))
        }
        Some(of_drives) => heavier(of_level, of_drives),
        None => of_level,
    };
    KeyAnswer {
        key: row.key.clone(),
        days: row.days,
        tool: row.tool.clone(),
        verdict,
        of_level: level_verdict,
        because: format!("it {because}"),
        publication: row.publication.clone(),
        r#where: row.r#where.clone(),
        note: row.note.clone(),
    }
}

/// A verdict, and why: words that follow "it".
type Said = (Verdict, String);

fn of_level(row: &Key, level: u8) -> Said {
    let Some(levels) = &row.levels else {
        return (Verdict::NotSaid, "does not say which levels".to_owned());
    };
    let words: Vec<String> = levels.iter().map(u8::to_string).collect();
    match levels.as_slice() {
        [] => (Verdict::Refuses, "has no level".to_owned()),
        [only] if *only == level => (Verdict::Accepts, format!("has level {only}")),
        [only] => (Verdict::Refuses, format!("has level {only} only")),
        _ if levels.contains(&level) => (
            Verdict::Accepts,
            format!("has levels {}", words::and(&words)),
        ),
        _ => {
            let because = format!("has levels {} only", words::and(&words));
            (Verdict::Refuses, because)
        }
    }
}

fn of_drive(row: &Key, member: &Member) -> Said {
    let called = |words: &[String]| {
        let title = member.title.as_deref().unwrap_or_default();
        words.iter().any(|word| title.contains(word.as_str()))
    };
    let title = member.title.as_deref().unwrap_or(&member.name);
    if called(&row.refuses) {
        return (Verdict::Refuses, format!("was seen to refuse the {title}"));
    }
    if called(&row.takes) {
        return (Verdict::Accepts, format!("was seen to take the {title}"));
    }
    match row.drives {
        None => (Verdict::NotSaid, "does not say which drives".to_owned()),
        Some(Drives::Any) => (Verdict::Accepts, "takes drives of every maker".to_owned()),
        Some(Drives::None) => (Verdict::Refuses, "takes no drive".to_owned()),
        Some(Drives::OfMaker) => of_maker(row, member, title),
    }
}

/// The answer of a row that takes drives of some makers.
fn of_maker(row: &Key, member: &Member, title: &str) -> Said {
    let makers = words::and(&row.makers);
    let Some(maker) = &member.maker else {
        let because =
            format!("takes drives of {makers}, and the maker of {title} is not known here");
        return (Verdict::NotSaid, because);
    };
    if !row.makers.contains(maker) {
        let because = format!("takes drives of {makers}, and the {title} is none");
        return (Verdict::Refuses, because);
    }
    let purposes: Vec<&str> = row.purposes.iter().map(|purpose| purpose.word()).collect();
    let kind = match purposes.as_slice() {
        [] => format!("drives of {makers}"),
        some => format!("{} drives of {makers}", words::and(some)),
    };
    let Some(purpose) = member.purpose else {
        let because = format!("takes {kind}, and what the {title} is made for is not known here");
        return (Verdict::NotSaid, because);
    };
    let is_meant = row.purposes.is_empty() || row.purposes.contains(&purpose);
    match &row.professional {
        _ if is_meant => (Verdict::Accepts, format!("takes {kind}")),
        Some(professional) => (
            Verdict::NotSaid,
            format!("takes {kind} {professional}, and the {title} is for {purpose} use"),
        ),
        None => {
            let because = format!("takes {kind}, and the {title} is for {purpose} use");
            (Verdict::Refuses, because)
        }
    }
}
