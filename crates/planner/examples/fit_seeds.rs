//! What the fitted constants of the drives of seeds P and O do to the rows that they were fitted to, at the fitted value
//! and around it: `cargo run --release -p planner --example fit_seeds`, some minutes.
//!
//! Each constant was moved until its rows held. The table shows how far it could be moved before one of them would not;
//! `!` marks a row outside its published interval, and `-` a figure that the runs are too short for.

use lab::claims::book::{Book, Questions, frozen};
use lab::claims::predictor::answer_all;
use lab::claims::score::score;
use lab::schema::document::read;
use lab::statistics::interval::Verdict;
use models::library::FAMILIES;
use models::profile::Family;
use models::tables::Tables;
use planner::predict::Virtual;
use std::collections::BTreeMap;

/// The family, the constant, and the rows that it was fitted to.
const FITS: [(&str, &str, &[&str]); 7] = [
    (
        "p4800x",
        "p4800x-750gb.write_mb_s",
        &["O-29.optane", "O-20.aligned"],
    ),
    ("p4800x", "media.partial_write_factor", &["O-20.unaligned"]),
    ("p4800x", "end_of_life.worn_write_mb_s", &["O-08.rate"]),
    (
        "optane-memory",
        "latency.read_us",
        &["P-04", "P-05", "P-06"],
    ),
    ("p3700", "media.read_unit_us", &["O-21.small"]),
    (
        "p3700",
        "latency.write_us",
        &["O-19.small", "O-19.larger", "O-26.latency"],
    ),
    (
        "9100max",
        "9100max-2400gb.write_mb_s",
        &["O-19.others", "O-22.9100"],
    ),
];
const FACTORS: [f64; 5] = [0.8, 0.9, 1.0, 1.1, 1.25];

/// The rows' figures with the constant at `factor` times its value.
fn figures(
    family: &Family,
    name: &str,
    factor: f64,
    book: &Book,
    questions: &Questions,
) -> anyhow::Result<String> {
    let mut family = family.clone();
    let figure = family.figure_mut(name);
    let figure = figure.ok_or_else(|| anyhow::anyhow!("there is no {name}"))?;
    figure.value *= factor;
    let value = figure.value;
    let mut predictor = Virtual::default();
    if let Err(error) = predictor.library.replace(&family) {
        return Ok(format!("{value:>8.2}  refused: {error}"));
    }
    let answers = answer_all(&book.needed(questions), &mut predictor);
    let rows = score(book, &answers, &BTreeMap::new()).rows;
    let cells = rows.iter().map(|row| match (row.predicted, row.verdict) {
        (None, _) => format!("{:>12}", "-"),
        (Some(found), Verdict::Pass) => format!("{found:>12.4} "),
        (Some(found), _) => format!("{found:>12.4}!"),
    });
    Ok(format!(
        "{value:>8.2} {}",
        cells.collect::<Vec<_>>().join(" ")
    ))
}

fn main() -> anyhow::Result<()> {
    let (questions, whole) = frozen()?;
    for (name, constant, rows) in FITS {
        let mut families = FAMILIES
            .iter()
            .map(|(file, text)| read::<Family>(file, text));
        let family = families.find(|family| family.as_ref().is_ok_and(|it| it.family == name));
        let family = family.ok_or_else(|| anyhow::anyhow!("there is no family {name}"))??;
        println!("{name}: {constant}  {}", rows.join("  "));
        let book = whole.named(rows);
        for factor in FACTORS {
            println!("{}", figures(&family, constant, factor, &book, &questions)?);
        }
    }
    Ok(())
}
