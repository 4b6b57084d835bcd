//! `claims --dof`: how many constants were fitted, to how many published numbers, and how far off the models are on
//! each number when it is left out of the fit.

use crate::commands::bar::Bar;
use crate::terminal::print::{print_json, print_text};
use crate::terminal::table::plain_table;
use anyhow::Result;
use lab::claims::book::{Book, Questions};
use planner::predict::fitted::{Fitted, fitted, left_out};
use std::collections::BTreeSet;
use words::number;

/// Prints the fitted constants and the errors without each number.
///
/// # Errors
/// Standard output cannot be written.
pub(super) fn run(book: &Book, questions: &Questions, json: bool) -> Result<()> {
    let mut found = fitted(book, questions)?;
    let bar = Bar::new("fits without one of the numbers", 0);
    found.left_out = left_out(&mut |line| bar.say(line))?;
    drop(bar);
    if json {
        return print_json(&found);
    }
    print_text(&text(&found))
}

fn rows(head: &str) -> Vec<Vec<String>> {
    vec![head.split(',').map(str::to_owned).collect()]
}

fn joined(names: &BTreeSet<String>) -> String {
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    names.join(" ")
}

fn text(found: &Fitted) -> String {
    let mut constants = rows("CONSTANT,VALUE,FROM");
    for constant in &found.constants {
        constants.push(vec![
            constant.name.clone(),
            constant.value.to_string(),
            constant.source.clone(),
        ]);
    }
    let mut budgets = rows("PROFILES,CONSTANTS,FACTS");
    for budget in &found.budgets {
        budgets.push(vec![
            joined(&budget.profiles),
            budget.constants.to_string(),
            budget.facts.to_string(),
        ]);
    }
    budgets.push(vec![
        "all".to_owned(),
        found.constants_in_all.to_string(),
        found.facts_in_all.to_string(),
    ]);
    let mut left = rows("LEFT OUT,PUBLISHED,CONSTANT,WITHOUT IT,PREDICTED,ERROR");
    let shown = |value: Option<f64>| value.map_or("-".to_owned(), number);
    for one in &found.left_out {
        let error = one.error.map(|error| format!("{:.1} %", error * 100.0));
        left.push(vec![
            one.id.to_owned(),
            number(one.published),
            one.constant.to_owned(),
            shown(one.refitted),
            shown(one.predicted),
            error.unwrap_or("-".to_owned()),
        ]);
    }
    [constants, budgets, left]
        .map(|rows| plain_table(0, &rows))
        .join("\n")
}
