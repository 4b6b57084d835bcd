//! `--provenance`: every figure that a plan is computed from, with its source.

use crate::terminal::table::{Give, table};
use planner::provenance::Known;
use words::{exact_number, number};

/// A table for each drive, platform, host, stack and export.
pub fn text(all: &[Known], columns: Option<usize>) -> String {
    let mut text = String::new();
    let mut rest = all;
    while let Some(first) = rest.first() {
        let same = rest.iter().take_while(|known| known.of == first.of).count();
        let (these, others) = rest.split_at(same);
        rest = others;
        let mut rows = vec![
            ["FIGURE", "VALUE", "STATUS", "SOURCE"]
                .map(str::to_owned)
                .to_vec(),
        ];
        rows.extend(these.iter().map(row));
        let gives = [Give::Stay, Give::Stay, Give::Stay, Give::Fold];
        text += &format!("\n{}\n{}", first.of, table(2, &rows, &gives, columns));
    }
    text
}

/// An end of a range; a number that would be cut to 0.00 is whole.
fn short(value: f64) -> String {
    if value.abs() < 0.01 {
        exact_number(value)
    } else {
        number(value)
    }
}

fn row(known: &Known) -> Vec<String> {
    let value = match (known.drawn, known.value) {
        (Some((low, high)), _) => format!("{} – {}", short(low), short(high)),
        (None, Some(value)) => exact_number(value),
        (None, None) => "-".to_owned(),
    };
    vec![
        known.key.clone(),
        value,
        known.status.clone(),
        known.source.clone(),
    ]
}
