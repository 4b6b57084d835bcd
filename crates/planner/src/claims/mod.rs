//! Scores predictions against what others have published, next to the predictions of a plain calculator.
//!
//! The rows are the frozen claims ([`lab::claims`]). The predictor receives only configurations and the names of
//! figures; the scorer joins its answers with the published values afterwards. C rows (used for fitting) and V rows
//! (evidence) are never added up, and a row that cannot be computed has not passed.

pub mod orderings;
pub mod report;
mod rules;

use crate::files::add_from_catalogue;
use crate::predict::Virtual;
use crate::predict::library::Library;
use crate::predict::limits::Depth;
use crate::predict::many::{Answered, Wanted};
use crate::work::{Watch, Work};
use anyhow::{Result, bail};
use lab::calculator::Calculator;
use lab::claims::book::{Questions, Use, frozen};
use lab::claims::predictor::{Answers, NotModelled, answer_all};
use lab::claims::score::score;
use lab::schema::configuration::Configuration;
use lab::schema::nearest::nearest;
use orderings::Orderings;
use report::{Calculated, ScoreReport};
use rules::Checked;
use std::collections::{BTreeMap, BTreeSet};

/// Which rows are scored, and how.
#[derive(Clone, Debug, Default)]
pub struct Choice {
    /// Only rows of this use.
    pub only: Option<Use>,
    /// Only rows of these publications; all if empty.
    pub seeds: Vec<String>,
    /// Whether to run each ordering again without the mechanism that it names.
    pub mechanisms: bool,
    /// Whether to run long enough for the 99.999th percentile.
    pub deep: bool,
    /// Whether drives that have a profile are predicted from their data sheets in the catalogue instead.
    pub from_sheets: bool,
}

/// The publications that are scored; all if the choice names none.
fn seeds(choice: &Choice, questions: &Questions) -> Result<Vec<String>> {
    let known: BTreeSet<&str> = questions.keys().map(|(seed, _)| seed.as_str()).collect();
    for asked in &choice.seeds {
        if !known.contains(asked.as_str()) {
            let offered = nearest(asked, known);
            bail!("--seed does not know \"{asked}\"; nearest: {offered}");
        }
    }
    if choice.seeds.is_empty() {
        return Ok(known.into_iter().map(str::to_owned).collect());
    }
    Ok(choice.seeds.clone())
}

/// All figures that the questions need; each configuration occurs once.
fn wanted(questions: &Questions) -> Wanted {
    let mut wanted = Wanted::new();
    for question in questions.values() {
        let metrics = wanted.entry(question.configuration.clone()).or_default();
        metrics.extend(&question.wanted);
    }
    wanted
}

fn by_point(questions: &Questions, answered: &Answered) -> Answers {
    let mut look_up = |configuration: &Configuration, _: &BTreeSet<_>| {
        let answer = answered.get(configuration).cloned();
        let answer = answer.unwrap_or_else(|| {
            let reason = "nobody asked for it".to_owned();
            Err(NotModelled { reason })
        });
        answer.map(|answer| answer.prediction)
    };
    answer_all(questions, &mut look_up)
}

/// Puts the usual drive of each data sheet in the place of the profiles.
fn use_sheets(library: &mut Library) -> Result<()> {
    let drives: Vec<String> = library.drives().map(str::to_owned).collect();
    for drive in drives {
        add_from_catalogue(library, &drive)?;
    }
    Ok(())
}

/// Scores the claims.
///
/// # Errors
/// If there is no such publication, or a point for the rules cannot be run.
pub fn scored(choice: &Choice, work: Work, watch: &dyn Watch) -> Result<ScoreReport> {
    let (questions, whole) = frozen()?;
    let all = [Use::V, Use::C, Use::F, Use::S, Use::U];
    let uses = choice.only.map_or(all.to_vec(), |only| vec![only]);
    let book = whole.only(&seeds(choice, &questions)?, &uses);
    let questions = book.needed(&questions);
    let mut predictor = Virtual {
        deep: choice.deep,
        limits: Depth::First,
        ..Virtual::default()
    };
    if choice.from_sheets {
        use_sheets(&mut predictor.library)?;
    }
    let answered = work.answer(&predictor, &wanted(&questions), watch).0;
    let answers = by_point(&questions, &answered);
    let calculated = answer_all(&questions, &mut Calculator::of_claims(&whole));
    let checked = if book.has_rules() {
        rules::check((work, watch), answered)?
    } else {
        Checked::default()
    };
    let card = score(&book, &answers, &checked.holds);
    let orderings = choice
        .mechanisms
        .then(|| Orderings::of(&book, &questions, &card.rows, (work, watch)));
    Ok(ScoreReport {
        not_modelled: report::not_modelled(&answers),
        calculator: Calculated::new(score(&book, &calculated, &BTreeMap::new()), &card),
        broken_rules: checked.broken,
        orderings,
        inputs: (choice.only == Some(Use::S)).then(|| report::inputs(&book)),
        remarks: (choice.only == Some(Use::U)).then(|| report::remarks(&book)),
        card,
    })
}
