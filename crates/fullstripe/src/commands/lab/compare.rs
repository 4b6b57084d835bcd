//! `lab compare`: two sets of results, point by point ([`lab::compare`]).

use super::files::Found;
use crate::terminal::Paper;
use crate::terminal::fold::fold_within;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::rows::folded;
use anyhow::{Result, bail};
use lab::compare::{Comparable, Compared, Comparison, Verdict, compare};
use lab::statistics::rank_sum::RUNS_MAX;
use serde::Serialize;
use std::path::PathBuf;
use std::process::ExitCode;

/// Largest margin, in percent: beyond it, being the same means nothing.
const MARGIN_PERCENT_MAX: f64 = 50.0;

/// Arguments of `lab compare`.
#[derive(clap::Args, Debug)]
pub struct CompareArgs {
    /// Results of fio or of "lab run": a file, or a folder of several. At least four runs of each load can show a difference.
    first: PathBuf,
    /// The results that are compared with them.
    second: PathBuf,
    /// Figures that certainly differ by no more than this count as the same, in percent.
    #[arg(long, value_name = "PERCENT", default_value = "2", value_parser = margin)]
    margin: f64,
    /// Print JSON.
    #[arg(long)]
    json: bool,
}

fn margin(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix('%').unwrap_or(text).parse::<f64>();
    match number {
        Ok(percent) if percent > 0.0 && percent <= MARGIN_PERCENT_MAX => Ok(percent),
        _ => Err(format!(
            "must be above 0 and at most {MARGIN_PERCENT_MAX} (percent)"
        )),
    }
}

/// What is printed as JSON.
#[derive(Serialize)]
struct Report {
    /// Version of this schema: 1.
    schema: u32,
    program: String,
    #[serde(flatten)]
    compared: Compared,
}

/// Runs `lab compare`.
///
/// # Errors
/// There are no such results.
pub fn run(args: &CompareArgs) -> Result<ExitCode> {
    let [first, second] = [&args.first, &args.second]
        .map(|path| Found::read(std::slice::from_ref(path)).map(|found| found.comparable()));
    let (first, second) = (first?, second?);
    let too_many = |point: &&Comparable| point.runs.len() > RUNS_MAX;
    if let Some(point) = first.iter().chain(&second).find(too_many) {
        bail!(
            "{} has {} runs, and at most {RUNS_MAX} are compared; name a folder with fewer",
            point.what.name,
            point.runs.len()
        );
    }
    let compared = compare(&first, &second, args.margin / 100.0);
    if args.json {
        print_json(&Report {
            schema: 1,
            program: format!("fullstripe {}", env!("CARGO_PKG_VERSION")),
            compared,
        })?;
    } else {
        print_text(&text(&compared, Paper::output().columns))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn text(compared: &Compared, columns: Option<usize>) -> String {
    let head = "LOAD,WHAT,BS,THREADS x QD,RUNS,FIGURE,RATIO,95 % INTERVAL,SECOND IS";
    let mut rows: Vec<Vec<String>> = vec![head.split(',').map(str::to_owned).collect()];
    rows.extend(
        compared
            .comparisons
            .iter()
            .map(|one| row(one, compared.margin)),
    );
    let mut text = match (compared.comparisons.is_empty(), compared.invalid.is_empty()) {
        (true, true) => "no load is in both with the same options\n".to_owned(),
        (true, false) => String::new(),
        (false, _) => folded(0, &rows, &[5], columns),
    };
    for one in &compared.invalid {
        let set = if one.is_first { "first" } else { "second" };
        let line = format!("{}: invalid in the {set}: {}\n", one.point.name, one.reason);
        text += &fold_within(&line, columns, 2);
    }
    for what in &compared.alone {
        let line = format!(
            "{} ({}): only in one of both, with these options\n",
            what.name, what.requests
        );
        text += &fold_within(&line, columns, 2);
    }
    text
}

fn row(one: &Comparison, margin: f64) -> Vec<String> {
    let interval = match one.interval.high.is_finite() {
        true => format!("{:.3} to {:.3}", one.interval.low, one.interval.high),
        false => "too few runs".to_owned(),
    };
    let verdict = match one.verdict {
        Verdict::Higher => "higher".to_owned(),
        Verdict::Lower => "lower".to_owned(),
        Verdict::Same => format!("the same within {} %", margin * 100.0),
        Verdict::Undecided => "undecided".to_owned(),
    };
    vec![
        one.point.name.clone(),
        one.point.requests.clone(),
        one.point.bs.clone(),
        one.point.depth.clone(),
        format!("{} and {}", one.runs.0, one.runs.1),
        one.metric.to_string(),
        format!("{:.3}", one.ratio),
        interval,
        verdict,
    ]
}
