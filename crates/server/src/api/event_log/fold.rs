//! Folds many events of one kind about the same thing into one event, which says how many they were.
//!
//! A region of bad blocks causes an event for each block, and a volume that is written to now and then causes two
//! events each time. If all of them were kept, they would push out the event that explains them: the failure of the
//! drive. So when room is needed, older events of such frequent kinds are folded. Other kinds never are.

use crate::api::schema::{Folded, NumberedEvent};
use crate::events::Told;
use std::collections::HashMap;

/// The frequent kinds that report single blocks.
const REPORTS: [&str; 5] = [
    "mismatch",
    "read-repaired",
    "unrecoverable",
    "bad-blocks-recorded",
    "bad-blocks-cleared",
];
/// The frequent kind that reports the dirty mark of a volume, which is set and cleared again and again.
const MARK: &str = "dirty-mark";
/// Events about one thing are only folded if there are at least this many.
const ENTRIES_MIN: usize = 3;

/// What an event is about.
type Subject = (String, Option<String>, Option<String>);

/// Whether an event is about a single block, perhaps one of many.
#[must_use]
pub fn is_report(told: &Told) -> bool {
    REPORTS.contains(&told.kind.as_str())
}

fn subject(entry: &NumberedEvent) -> Option<Subject> {
    let told = &entry.event;
    (is_report(told) || told.kind == MARK)
        .then(|| (told.kind.clone(), told.volume.clone(), told.member.clone()))
}

/// Folds `entries`, oldest first, by what they are about. A folded event takes the place and the number of the newest
/// event in it, so that a reader that had seen only some of these events still gets the folded one.
#[must_use]
pub fn fold(entries: Vec<NumberedEvent>) -> Vec<NumberedEvent> {
    let mut counts: HashMap<Subject, usize> = HashMap::new();
    for subject in entries.iter().filter_map(subject) {
        *counts.entry(subject).or_default() += 1;
    }
    counts.retain(|_, count| *count >= ENTRIES_MIN);
    let mut folded: HashMap<Subject, NumberedEvent> = HashMap::new();
    let mut all = Vec::with_capacity(entries.len());
    for entry in entries {
        match subject(&entry).filter(|subject| counts.contains_key(subject)) {
            None => all.push(entry),
            Some(subject) => match folded.get_mut(&subject) {
                None => drop(folded.insert(subject, entry)),
                Some(before) => append(before, &entry),
            },
        }
    }
    all.extend(folded.into_values());
    all.sort_unstable_by_key(|entry| entry.number);
    all
}

/// Extends `entry` to stand for `next` too.
fn append(entry: &mut NumberedEvent, next: &NumberedEvent) {
    let so_far = entry.span();
    let more = next.span();
    entry.folded = Some(Folded {
        count: so_far.count.saturating_add(more.count),
        first_number: so_far.first_number,
        last_time_s: more.last_time_s,
    });
    entry.number = next.number;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::event;

    fn entry(number: u64, kind: &str, volume: &str) -> NumberedEvent {
        let mut told = event(&format!("{kind} {number}"));
        told.kind = kind.to_owned();
        told.volume = Some(volume.to_owned());
        told.time_s = 1000 + number;
        NumberedEvent::new(number, told)
    }

    #[test]
    fn three_of_a_kind_about_one_thing_become_one_and_the_rest_stays() {
        let entries = vec![
            entry(1, "unrecoverable", "a"),
            entry(2, "member-failed", "a"),
            entry(3, "unrecoverable", "b"),
            entry(4, "unrecoverable", "a"),
            entry(5, "unrecoverable", "a"),
            entry(6, "unrecoverable", "b"),
            entry(7, "member-failed", "a"),
            entry(8, "member-failed", "a"),
        ];
        let once = fold(entries);
        let shown = |entries: &[NumberedEvent]| -> Vec<(u64, String, u64, u64, u64)> {
            let one = |entry: &NumberedEvent| {
                let span = entry.span();
                let text = entry.event.text.clone();
                (
                    entry.number,
                    text,
                    span.count,
                    span.first_number,
                    span.last_time_s,
                )
            };
            entries.iter().map(one).collect()
        };
        let single = |number: u64, kind: &str| {
            (number, format!("{kind} {number}"), 1, number, 1000 + number)
        };
        let wanted = [
            single(2, "member-failed"),
            single(3, "unrecoverable"),
            (5, "unrecoverable 1".to_owned(), 3, 1, 1005),
            single(6, "unrecoverable"),
            single(7, "member-failed"),
            single(8, "member-failed"),
        ];
        assert_eq!(shown(&once), wanted);
        // Folded entries are folded again with later ones.
        let more = once
            .into_iter()
            .chain([9, 10].map(|number| entry(number, "unrecoverable", "a")));
        let twice = fold(more.collect());
        assert_eq!(
            shown(&twice).last().unwrap(),
            &(10, "unrecoverable 1".to_owned(), 5, 1, 1010)
        );
    }
}
