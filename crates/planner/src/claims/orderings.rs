//! Whether a correct ordering is correct for the reason that its row names: each ordering among the V rows is run again
//! with that mechanism switched off. An ordering that still holds is trivial, and is no evidence for the models.

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
    /// The id of the row.
    pub id: String,
    /// The mechanism that the row names.
    pub mechanism: Mechanism,
    /// The mechanisms of the models that were switched off for it.
    pub switched_off: Vec<&'static str>,
    /// The prediction with the mechanism.
    pub predicted: Option<f64>,
    /// Whether the ordering holds with it.
    pub verdict: Verdict,
    /// The prediction without the mechanism.
    pub predicted_without: Option<f64>,
    /// Whether it holds without.
    pub verdict_without: Verdict,
    /// Whether the ordering holds both with and without the mechanism, so that it is no evidence for the models.
    pub is_trivial: bool,
}

/// All orderings. An ordering that is not modelled counts as one that does not hold.
#[derive(Serialize, Debug)]
pub struct Orderings {
    /// The orderings.
    pub rows: Vec<Ordering>,
    /// How many are trivial.
    pub trivial: usize,
    /// How many are not.
    pub non_trivial: usize,
    /// How many of the non-trivial ones hold.
    pub hold: usize,
}

impl Orderings {
    /// Runs the orderings of a book again, whose rows had these results with all mechanisms.
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
