//! Tables of many columns, which get two lines for each row on a terminal that is too narrow.
//!
//! A row is broken before one of the columns that the command allows, and the last column, which is text, is folded.

use super::fold::fold;
use crate::terminal::table::plain_table;

/// Blanks before the second line of a row, beyond those of the first.
const HANGING: usize = 4;
/// Fewest columns for folded text, however narrow the terminal is.
const TEXT_MIN: usize = 24;
/// Blanks between columns, the same as in [`plain_table`].
const GAP: usize = 2;

/// The rows as a table. If it is too wide, each row is broken before one of the columns `breaks`: the last one whose
/// preceding columns fit on a line.
#[must_use]
pub fn folded(
    indent: usize,
    rows: &[Vec<String>],
    breaks: &[usize],
    columns: Option<usize>,
) -> String {
    let whole = plain_table(indent, rows);
    let Some(columns) = columns.filter(|columns| widest(&whole) > *columns) else {
        return whole;
    };
    let first_lines = |at: usize| part(rows, 0, at);
    let fits = |at: &&usize| widest(&plain_table(indent, &first_lines(**at))) <= columns;
    let Some(at) = breaks.iter().rev().find(fits).or(breaks.first()) else {
        return whole;
    };
    let firsts = plain_table(indent, &first_lines(*at));
    let hanging = indent + HANGING;
    let seconds = seconds(hanging, &part(rows, *at, usize::MAX), columns);
    let pairs = firsts.lines().zip(&seconds);
    pairs
        .map(|(first, second)| format!("{first}\n{second}"))
        .collect()
}

/// The columns from `from` up to, but not including, `to` of each row.
fn part(rows: &[Vec<String>], from: usize, to: usize) -> Vec<Vec<String>> {
    let cells = |row: &Vec<String>| {
        let cells = row.iter().skip(from).take(to.saturating_sub(from));
        cells.cloned().collect()
    };
    rows.iter().map(cells).collect()
}

/// The second line of each row, with its last cell folded over as many lines as it needs.
fn seconds(indent: usize, rows: &[Vec<String>], columns: usize) -> Vec<String> {
    let last = rows
        .iter()
        .map(Vec::len)
        .max()
        .unwrap_or(0)
        .saturating_sub(1);
    let figures = part(rows, 0, last);
    let begins = widest(&plain_table(indent, &figures)) + if last > 0 { GAP } else { 0 };
    let begins = begins.max(indent);
    let figures = if last > 0 {
        plain_table(indent, &figures)
    } else {
        "\n".repeat(rows.len())
    };
    let lines = figures.lines().zip(rows);
    lines
        .map(|(figures, row)| {
            let text = row.get(last).map_or("", String::as_str);
            let text = fold(text, columns.saturating_sub(begins).max(TEXT_MIN), 0);
            let text: Vec<&str> = text.lines().collect();
            let mut second = format!("{figures:<begins$}{}\n", text.first().unwrap_or(&""));
            for line in text.iter().skip(1) {
                second += &format!("{:begins$}{line}\n", "");
            }
            second
        })
        .collect()
}

/// Columns of the widest line.
fn widest(text: &str) -> usize {
    let widths = text.lines().map(|line| line.chars().count());
    widths.max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows() -> Vec<Vec<String>> {
        [
            ["LOAD", "IOPS", "MEAN", "LIMITED BY"],
            [
                "read",
                "100 k",
                "12",
                "the drives; then the uplink of a switch",
            ],
            ["write", "7", "3400", "-"],
        ]
        .map(|row| row.map(str::to_owned).to_vec())
        .to_vec()
    }

    #[test]
    fn a_table_that_fits_is_left_alone() {
        let whole = plain_table(1, &rows());
        for columns in [None, Some(60), Some(200)] {
            assert_eq!(folded(1, &rows(), &[2, 3], columns), whole);
        }
        assert_eq!(widest(&whole), 60);
    }

    #[test]
    fn a_wider_one_is_broken_as_late_as_possible_and_its_text_is_wrapped() {
        assert_eq!(
            folded(1, &rows(), &[2, 3], Some(46)),
            " LOAD   IOPS   MEAN\n     LIMITED BY\n read   100 k  12\n     the drives; then the uplink of a switch\n \
             write  7      3400\n     -\n"
        );
        assert_eq!(
            folded(1, &rows(), &[2, 3], Some(18)),
            " LOAD   IOPS\n     MEAN  LIMITED BY\n read   100 k\n     12    the drives; then the\n           uplink of \
             a switch\n write  7\n     3400  -\n"
        );
    }
}
