//! `--provenance`: every figure that a plan is computed from, with its source.

use crate::terminal::table::{Give, table};
use planner::provenance::Known;
use words::number;

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

fn row(known: &Known) -> Vec<String> {
    let value = match (known.drawn, known.value) {
        (Some((low, high)), _) => format!("{} – {}", number(low), number(high)),
        (None, Some(value)) => value.to_string(),
        (None, None) => "-".to_owned(),
    };
    vec![
        known.key.clone(),
        value,
        known.status.clone(),
        known.source.clone(),
    ]
}
