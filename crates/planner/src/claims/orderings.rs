//! Whether what is ordered right is so for the reason that the row names: each ordering among the V rows is run again
//! without that mechanism. One that holds all the same is trivial, and says nothing for the models.

use super::{by_point, wanted};
use crate::predict::Virtual;
use crate::predict::mechanisms::{self, Mechanisms};
use crate::work::{Watch, Work};
use lab::claims::book::{Book, Mechanism, Questions};
use lab::claims::score::{Row, score};
use lab::statistics::interval::Verdict;
use serde::Serialize;
use std::collections::BTreeMap;

/// An ordering with and without its mechanism.
#[derive(Serialize, Debug)]
pub struct Ordering {
    /// The row.
    pub id: String,
    /// The word of the row.
    pub mechanism: Mechanism,
    /// What of the models was switched off for it.
    pub switched_off: Vec<&'static str>,
    /// With it.
    pub predicted: Option<f64>,
    /// Whether the ordering holds with it.
    pub verdict: Verdict,
    /// The same without.
    pub predicted_without: Option<f64>,
    /// Whether it holds without.
    pub verdict_without: Verdict,
    /// It holds with and without: it says nothing for the models.
    pub is_trivial: bool,
}

/// All of them. An ordering that is not modelled counts as one that does not hold.
#[derive(Serialize, Debug)]
pub struct Orderings {
    /// Each of them.
    pub rows: Vec<Ordering>,
    /// How many are trivial.
    pub trivial: usize,
    /// How many are not.
    pub non_trivial: usize,
    /// Of the non-trivial ones.
    pub hold: usize,
}

impl Orderings {
    /// Those of a book whose rows came out like this.
    pub fn of(
        book: &Book,
        questions: &Questions,
        rows: &[Row],
        (work, watch): (Work, &dyn Watch),
    ) -> Orderings {
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
            let answers = by_point(
                &questions,
                &work.answer(&predictor, &wanted(&questions), watch).0,
            );
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
}
