//! `plan --for`: the cheapest arrays that do what is asked, and why cheaper ones do not.

use super::args::PlanArgs;
use crate::commands::platform::discover::machine_below;
use crate::commands::progress::PointsBar;
use crate::terminal::Paper;
use crate::terminal::fold::fold_within;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::table::{Give, table};
use anyhow::Result;
use planner::predict::library::Library;
use planner::search::ask::Asked;
use planner::search::report::{Bought, Failed, Found, SearchReport};
use planner::search::{Margin, search};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::process::ExitCode;
use words::{count, number};

/// How many arrays that do not hold are shown.
const OTHERS_SHOWN: usize = 8;

/// Runs the search for `text`. The exit code is 0 only if an array holds.
///
/// # Errors
/// What is asked for is not understood, or something that the command line or a file names is unknown or impossible.
pub fn run(args: &PlanArgs, text: &str) -> Result<ExitCode> {
    let asked = asked(args, text)?;
    let mut library = Library::default();
    let (question, left_out) = asked.question(&mut library)?;
    let bar = PointsBar::default();
    let report = search(&question, library, args.work.work(), &bar, left_out)?;
    if args.json {
        print_json(&report)?;
    } else {
        print_text(&self::text(&report, Paper::output().columns))?;
    }
    Ok(match report.found.as_slice() {
        [] => ExitCode::FAILURE,
        _ => ExitCode::SUCCESS,
    })
}

fn asked(args: &PlanArgs, text: &str) -> Result<Asked> {
    let machine = match args.here {
        true => Some(machine_below(&args.root, None)?),
        false => None,
    };
    let platform = machine.as_ref().map(|machine| machine.platform.clone());
    let platform = platform.or_else(|| args.platform.clone());
    Ok(Asked {
        text: text.to_owned(),
        drive: args.drive.clone(),
        levels: args.level.clone(),
        count: args.count,
        chunk_kib: args.chunk,
        platform: platform.expect("clap requires it without --here"),
        here: machine,
        host: args.host.clone(),
        engine_cores: args.engine_cores,
        export: args.export.map(Into::into),
        completion: args.completion.map(Into::into),
        threads: args.load.threads,
        qd: args.load.qd,
        state: args.state.map(Into::into),
        size: args.size.question(),
    })
}

/// The report for people.
fn text(report: &SearchReport, columns: Option<usize>) -> String {
    let SearchReport {
        wanted,
        platform,
        considered,
        simulated,
        ..
    } = report;
    let arrays = count(*considered as usize, "array");
    let mut text = match &report.nearest {
        Some(nearest) => format!(
            "{wanted}: no array on {platform} holds. The nearest of {arrays} ({simulated} run) is {} for {} {}: {}, and asked is {}\n",
            array(&nearest.bought),
            number(nearest.bought.price),
            report.currency,
            nearest.margin.found,
            nearest.margin.wanted
        ),
        None => format!(
            "{wanted}: the cheapest arrays on {platform} that hold, of {arrays} looked at ({simulated} run)\n"
        ),
    };
    text = fold_within(&text, columns, 4);
    if !report.found.is_empty() {
        text += &found(report, columns);
    }
    text += &others(report, columns);
    let notes: BTreeSet<&String> = report.found.iter().flat_map(|one| &one.notes).collect();
    for note in notes {
        text += &fold_within(&format!("{note}\n"), columns, 4);
    }
    for sentence in &report.left_out {
        let _ = write!(
            text,
            "{}",
            fold_within(&format!("left out: {sentence}\n"), columns, 4)
        );
    }
    text
}

/// Why other drives and levels do not hold: those that come nearest first.
fn others(report: &SearchReport, columns: Option<usize>) -> String {
    let is_told = |one: &&Failed| {
        let nearest = report.nearest.as_ref();
        nearest.is_some_and(|nearest| nearest.bought == one.bought)
    };
    let mut failed: Vec<&Failed> = report.failed.iter().filter(|one| !is_told(one)).collect();
    if failed.is_empty() {
        return String::new();
    }
    failed.sort_by(|one, other| other.margin.times.total_cmp(&one.margin.times));
    let more = failed.len().saturating_sub(OTHERS_SHOWN);
    failed.truncate(OTHERS_SHOWN);
    let mut text = "Why others do not, for no more money\n".to_owned();
    text += &why(&failed, &report.currency, columns);
    if more > 0 {
        let _ = writeln!(text, "  and {more} more; --json has all");
    }
    text
}

/// `RAID 5 of 8 x p4510-2tb and 1 spare`.
fn array(bought: &Bought) -> String {
    let Bought {
        drive,
        level,
        count: drives,
        spares,
        ..
    } = bought;
    let spares = match spares {
        0 => String::new(),
        some => format!(" and {}", count(*some as usize, "spare")),
    };
    format!("{} of {drives} x {drive}{spares}", level.name())
}

fn found(report: &SearchReport, columns: Option<usize>) -> String {
    let head = [
        report.currency.as_str(),
        "ARRAY",
        "CHUNK",
        "USABLE",
        "YEARS",
        "WATTS",
        "LIMITED BY",
        "THERE IS",
        "LEAST",
    ];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(report.found.iter().map(row));
    let give = [
        Give::Stay,
        Give::Fold,
        Give::Stay,
        Give::Stay,
        Give::Stay,
        Give::Stay,
        Give::Fold,
        Give::Fold,
        Give::Fold,
    ];
    table(2, &rows, &give, columns)
}

fn row(one: &Found) -> Vec<String> {
    let years = one
        .sizing
        .endurance
        .as_ref()
        .map(|endurance| endurance.years);
    // Capacity and years have columns of their own.
    let others = one
        .margins
        .iter()
        .filter(|margin| !["usable", "years"].contains(&margin.key.as_str()));
    let mut there_is: Vec<String> = others.map(|margin| margin.found.clone()).collect();
    if let Some((holding, draws)) = one.draws {
        there_is.push(format!("in {holding} of {draws} draws"));
    }
    vec![
        number(one.bought.price),
        array(&one.bought),
        one.bought
            .chunk_kib
            .map_or_else(|| "-".to_owned(), |chunk| format!("{chunk}k")),
        format!("{:.3} TB", one.sizing.capacity.usable_bytes as f64 / 1e12),
        years.map_or_else(|| "-".to_owned(), number),
        number(one.sizing.power.watts),
        one.limited_by.clone(),
        there_is.join(", "),
        one.least().map_or_else(String::new, least),
    ]
}

/// What fails first if more is asked.
fn least(margin: &Margin) -> String {
    format!("{}, {:.2} times", margin.wanted, margin.times)
}

fn why(failed: &[&Failed], currency: &str, columns: Option<usize>) -> String {
    let head = [currency, "ARRAY", "THERE IS", "ASKED"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(failed.iter().map(|one| {
        vec![
            number(one.bought.price),
            array(&one.bought),
            one.margin.found.clone(),
            one.margin.wanted.clone(),
        ]
    }));
    let give = [Give::Stay, Give::Fold, Give::Fold, Give::Fold];
    table(2, &rows, &give, columns)
}
