//! `claims`: predictions scored against what others have published, with a plain calculator's beside them.
//!
//! The rows are the frozen claims ([`lab::claims`]). What is run gets configurations and names of figures only; the
//! scorer joins them with what was published when all is done. What was fitted to (C) and what is evidence (V) are
//! never added, and a row that nobody can compute has not passed.

mod dof;
mod orderings;
mod report;
mod rules;

use super::progress::HowArgs;
use crate::terminal::print::{print_json, print_text};
use anyhow::{Result, bail};
use clap::builder::{PossibleValuesParser, TypedValueParser};
use lab::calculator::Calculator;
use lab::claims::book::{Questions, Use, frozen};
use lab::claims::predictor::{Answers, NotModelled, answer_all};
use lab::claims::score::score;
use lab::schema::configuration::Configuration;
use lab::schema::nearest::nearest;
use orderings::Orderings;
use planner::predict::Virtual;
use planner::predict::limits::Depth;
use planner::predict::many::{Answered, Wanted};
use report::{Calculated, Report};
use rules::Checked;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

/// Arguments of `claims`.
#[derive(clap::Args, Debug)]
pub struct ClaimsArgs {
    /// Only rows of this use: V (evidence), C (may be fitted to), F (rules); S (specification) and U (with the reason why not) are
    /// never scored.
    #[arg(long, value_name = "USE", value_parser = uses())]
    only: Option<Use>,
    /// Only rows of this publication, like M; can be given several times.
    #[arg(long, value_name = "ID")]
    seed: Vec<String>,
    /// Run each ordering among the V rows again without the mechanism that it names: one that still passes is
    /// trivial.
    #[arg(long)]
    mechanisms: bool,
    /// Only fitted constants: how many there are beside published numbers, and how far off each such number is when
    /// it is left out of the fit. Takes minutes.
    #[arg(long, conflicts_with = "mechanisms")]
    dof: bool,
    #[command(flatten)]
    how: HowArgs,
    /// Print JSON; it holds no times of this machine.
    #[arg(long)]
    json: bool,
}

fn uses() -> impl TypedValueParser<Value = Use> {
    PossibleValuesParser::new(["V", "C", "F", "S", "U"]).map(|name| match name.as_str() {
        "V" => Use::V,
        "C" => Use::C,
        "F" => Use::F,
        "S" => Use::S,
        _ => Use::U,
    })
}

/// The seeds that are asked for; all if none is.
fn seeds(args: &ClaimsArgs, questions: &Questions) -> Result<Vec<String>> {
    let known: BTreeSet<&str> = questions.keys().map(|(seed, _)| seed.as_str()).collect();
    for asked in &args.seed {
        if !known.contains(asked.as_str()) {
            let offered = nearest(asked, known);
            bail!("--seed does not know \"{asked}\"; nearest: {offered}");
        }
    }
    if args.seed.is_empty() {
        return Ok(known.into_iter().map(str::to_owned).collect());
    }
    Ok(args.seed.clone())
}

/// Everything that the questions ask, each configuration once.
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

/// Runs `claims`.
///
/// # Errors
/// There is no such publication, or standard output cannot be written.
pub fn run(args: &ClaimsArgs) -> Result<ExitCode> {
    let (questions, whole) = frozen()?;
    if args.dof {
        dof::run(&whole, &questions, args.json)?;
        return Ok(ExitCode::SUCCESS);
    }
    let all = [Use::V, Use::C, Use::F, Use::S, Use::U];
    let uses = args.only.map_or(all.to_vec(), |only| vec![only]);
    let book = whole.only(&seeds(args, &questions)?, &uses);
    let questions = book.needed(&questions);
    let predictor = Virtual {
        deep: args.how.deep,
        limits: Depth::First,
        ..Virtual::default()
    };
    let answered = args.how.answer(&predictor, &wanted(&questions));
    let answers = by_point(&questions, &answered);
    let calculated = answer_all(&questions, &mut Calculator::of_claims(&whole));
    let checked = if book.has_rules() {
        rules::check(&args.how, answered)?
    } else {
        Checked::default()
    };
    let card = score(&book, &answers, &checked.holds);
    let orderings = if args.mechanisms {
        Some(Orderings::of(&book, &questions, &card.rows, &args.how))
    } else {
        None
    };
    let report = Report {
        not_modelled: report::not_modelled(&answers),
        calculator: Calculated::new(score(&book, &calculated, &BTreeMap::new()), &card),
        broken_rules: checked.broken,
        orderings,
        inputs: (args.only == Some(Use::S)).then(|| report::inputs(&book)),
        remarks: (args.only == Some(Use::U)).then(|| report::remarks(&book)),
        card,
    };
    if args.json {
        print_json(&report)?;
    } else {
        print_text(&report.text())?;
    }
    Ok(ExitCode::SUCCESS)
}
