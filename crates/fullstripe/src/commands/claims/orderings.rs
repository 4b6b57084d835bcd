//! Whether what is ordered right is so for the reason that the row names: each ordering among the V rows is run again
//! without that mechanism. One that holds all the same is trivial, and says nothing for the models.

use super::report::verdict;
use super::{by_point, wanted};
use crate::commands::predict::number;
use crate::commands::progress::HowArgs;
use crate::terminal::table::plain_table;
use lab::claims::book::{Book, Mechanism, Questions};
use lab::claims::score::{Row, score};
use lab::statistics::interval::Verdict;
use planner::predict::Virtual;
use planner::predict::mechanisms::{self, Mechanisms};
use serde::Serialize;
use std::collections::BTreeMap;

/// An ordering with and without its mechanism.
#[derive(Serialize, Debug)]
struct Ordering {
    id: String,
    /// The word of the row.
    mechanism: Mechanism,
    /// What of the models was switched off for it.
    switched_off: Vec<&'static str>,
    predicted: Option<f64>,
    verdict: Verdict,
    /// The same without.
    predicted_without: Option<f64>,
    verdict_without: Verdict,
    is_trivial: bool,
}

/// All of them. An ordering that is not modelled counts as one that does not hold.
#[derive(Serialize, Debug)]
pub(super) struct Orderings {
    rows: Vec<Ordering>,
    trivial: usize,
    non_trivial: usize,
    /// Of the non-trivial ones.
    hold: usize,
}

impl Orderings {
    /// Those of a book whose rows came out like this.
    pub fn of(book: &Book, questions: &Questions, rows: &[Row], how: &HowArgs) -> Orderings {
        let mut all = Vec::new();
        for mechanism in Mechanism::ALL {
            let part = book.orderings(mechanism);
            let off = Mechanisms::meant_by(mechanism);
            if part.rows() == 0 {
                continue;
            }
            let predictor = Virtual {
                without: Mechanisms::without(off),
                ..Virtual::default()
            };
            let questions = part.needed(questions);
            let answers = by_point(&questions, &how.answer(&predictor, &wanted(&questions)));
            let card = score(&part, &answers, &BTreeMap::new());
            let names: Vec<&str> = off
                .iter()
                .map(|one| mechanisms::Mechanism::name(*one))
                .collect();
            for without in card.rows {
                let Some(with) = rows.iter().find(|row| row.id == without.id) else {
                    continue;
                };
                let holds = with.verdict == Verdict::Pass;
                all.push(Ordering {
                    id: without.id,
                    mechanism,
                    switched_off: names.clone(),
                    predicted: with.predicted,
                    verdict: with.verdict,
                    predicted_without: without.predicted,
                    verdict_without: without.verdict,
                    is_trivial: holds && without.verdict == Verdict::Pass,
                });
            }
        }
        let trivial = all.iter().filter(|one| one.is_trivial).count();
        let holds = |one: &&Ordering| one.verdict == Verdict::Pass && !one.is_trivial;
        Orderings {
            trivial,
            non_trivial: all.len() - trivial,
            hold: all.iter().filter(holds).count(),
            rows: all,
        }
    }

    /// As people read it.
    pub fn text(&self) -> String {
        let head = "ORDERING,MECHANISM,SWITCHED OFF,PREDICTED,WITHOUT,";
        let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
        let shown = |value: Option<f64>, found| {
            format!(
                "{} {}",
                value.map_or("-".to_owned(), number),
                verdict(found)
            )
        };
        for one in &self.rows {
            let word = serde_json::to_value(one.mechanism).unwrap_or_default();
            rows.push(vec![
                one.id.clone(),
                word.as_str().unwrap_or("").to_owned(),
                one.switched_off.join(" + "),
                shown(one.predicted, one.verdict),
                shown(one.predicted_without, one.verdict_without),
                if one.is_trivial { "trivial" } else { "" }.to_owned(),
            ]);
        }
        let Orderings {
            trivial,
            non_trivial,
            hold,
            ..
        } = self;
        let count = format!(
            "Orderings: {non_trivial} not trivial, of which {hold} hold; {trivial} trivial\n"
        );
        plain_table(0, &rows) + &count
    }
}
