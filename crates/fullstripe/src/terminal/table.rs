//! Tables that fit the terminal: if a row is too wide, cells are folded or shortened, and if that is not enough, the
//! last cell goes to a line below its row. Colour codes have no width.

use super::fold::{fold, shorten};
use console::measure_text_width as width;

/// Fewest columns of a folded cell.
const FOLDED_MIN: usize = 24;
/// Fewest columns of a shortened cell.
const SHORTENED_MIN: usize = 20;
/// Blanks between two columns.
const GAP: usize = 2;
/// Indentation of a line below its row.
const BELOW: usize = 2;

/// How a column gives way when a table is too wide.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Give {
    /// It keeps its width.
    Stay,
    /// It loses the middle of its cells: paths.
    Shorten,
    /// It folds its cells: sentences.
    Fold,
}

/// `rows`, the first of which is the head, in columns wide enough for their longest cell, with `indent` blanks before
/// each line. If the table is wider than `columns`, each column gives way as `give` says; if that is not enough, the
/// last cell goes below its row.
#[must_use]
pub fn table(indent: usize, rows: &[Vec<String>], give: &[Give], columns: Option<usize>) -> String {
    let natural = natural(rows);
    let Some(columns) = columns else {
        return lines(indent, rows, &natural);
    };
    let room = columns.saturating_sub(indent);
    let mut widths = shrunk(&natural, give, room);
    if total(&widths) > room && widths.len() > 1 {
        widths = shrunk(&natural[..natural.len() - 1], give, room);
    }
    let beside = widths.len();
    let text = rows.iter().map(|row| {
        let (row, rest) = row.split_at(row.len().min(beside));
        let below = rest.iter().map(|cell| {
            let cell = fold(cell, room.saturating_sub(BELOW), 0);
            indented(indent + BELOW, &cell)
        });
        let below: String = below.collect();
        lines(indent, &fitted(row, &widths, give), &widths) + &below
    });
    text.collect()
}

fn give_of(give: &[Give], at: usize) -> Give {
    give.get(at).copied().unwrap_or(Give::Stay)
}

/// Each line of `text`, which has at least one, indented.
fn indented(indent: usize, text: &str) -> String {
    let blanks = " ".repeat(indent);
    text.split('\n')
        .map(|line| format!("{blanks}{line}\n"))
        .collect()
}

fn natural(rows: &[Vec<String>]) -> Vec<usize> {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let of_column = |at: usize| {
        let cells = rows.iter().filter_map(|row| row.get(at));
        cells.map(|cell| width(cell)).max().unwrap_or(0)
    };
    (0..columns).map(of_column).collect()
}

/// Columns that a row takes.
fn total(widths: &[usize]) -> usize {
    widths.iter().sum::<usize>() + GAP * widths.len().saturating_sub(1)
}

/// The widths, reduced until a row fits into `room`, as far as `give` allows.
fn shrunk(natural: &[usize], give: &[Give], room: usize) -> Vec<usize> {
    let mut widths = natural.to_vec();
    for (kind, least) in [(Give::Fold, FOLDED_MIN), (Give::Shorten, SHORTENED_MIN)] {
        for at in 0..widths.len() {
            let excess = total(&widths).saturating_sub(room);
            if give_of(give, at) == kind && excess > 0 {
                widths[at] = (widths[at].saturating_sub(excess)).max(least.min(widths[at]));
            }
        }
    }
    widths
}

/// The lines of one row, with cells folded or shortened to the widths of their columns.
fn fitted(row: &[String], widths: &[usize], give: &[Give]) -> Vec<Vec<String>> {
    let cells: Vec<Vec<String>> = row
        .iter()
        .zip(widths)
        .enumerate()
        .map(|(at, (cell, room))| match give_of(give, at) {
            Give::Shorten => vec![shorten(cell, *room)],
            Give::Fold => fold(cell, *room, 0)
                .split('\n')
                .map(str::to_owned)
                .collect(),
            Give::Stay => vec![cell.clone()],
        })
        .collect();
    let height = cells.iter().map(Vec::len).max().unwrap_or(0);
    (0..height)
        .map(|at| {
            let part = |cell: &Vec<String>| cell.get(at).cloned().unwrap_or_default();
            cells.iter().map(part).collect()
        })
        .collect()
}

fn lines(indent: usize, rows: &[Vec<String>], widths: &[usize]) -> String {
    let mut text = String::new();
    for row in rows {
        let mut line = " ".repeat(indent);
        for (cell, room) in row.iter().zip(widths) {
            line.push_str(cell);
            line.push_str(&" ".repeat(room.saturating_sub(width(cell)) + GAP));
        }
        text.push_str(line.trim_end());
        text.push('\n');
    }
    text
}

/// `rows` in columns wide enough for their longest cell, with `indent` blanks before each line; the first row is the
/// head. [`table`] makes a table fit a terminal.
#[must_use]
pub fn plain_table(indent: usize, rows: &[Vec<String>]) -> String {
    table(indent, rows, &[], None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Paper;

    const GIVE: [Give; 3] = [Give::Shorten, Give::Stay, Give::Fold];

    fn rows(paper: Paper) -> Vec<Vec<String>> {
        let row = |cells: [&str; 3]| cells.map(str::to_owned).to_vec();
        let failed = paper.state("failed") + ": it does not answer for 30 s, and was let go of";
        vec![
            row(["DRIVE", "SIZE", "STATE"]),
            row([
                "/dev/disk/by-id/nvme-eui.00253858",
                "1.8 TiB",
                &paper.state("active"),
            ]),
            row(["/dev/nvme1n1", "1.8 TiB", &failed]),
        ]
    }

    fn fitted(columns: usize) -> String {
        table(0, &rows(Paper::PLAIN), &GIVE, Some(columns))
    }

    #[test]
    fn a_table_gives_way_step_by_step() {
        insta::assert_snapshot!(fitted(100), @r"
        DRIVE                              SIZE     STATE
        /dev/disk/by-id/nvme-eui.00253858  1.8 TiB  active
        /dev/nvme1n1                       1.8 TiB  failed: it does not answer for 30 s, and was let go of
        ");
        insta::assert_snapshot!(fitted(80), @r"
        DRIVE                              SIZE     STATE
        /dev/disk/by-id/nvme-eui.00253858  1.8 TiB  active
        /dev/nvme1n1                       1.8 TiB  failed: it does not answer for 30 s,
                                                    and was let go of
        ");
        insta::assert_snapshot!(fitted(60), @r"
        DRIVE                      SIZE     STATE
        /dev/dis…vme-eui.00253858  1.8 TiB  active
        /dev/nvme1n1               1.8 TiB  failed: it does not
                                            answer for 30 s, and was
                                            let go of
        ");
        insta::assert_snapshot!(fitted(50), @r"
        DRIVE                              SIZE
          STATE
        /dev/disk/by-id/nvme-eui.00253858  1.8 TiB
          active
        /dev/nvme1n1                       1.8 TiB
          failed: it does not answer for 30 s, and was let
          go of
        ");
    }

    #[test]
    fn no_line_is_wider_than_the_terminal_and_no_word_is_lost() {
        for columns in 34..120 {
            let text = fitted(columns);
            assert!(text.lines().all(|line| width(line) <= columns), "{text}");
            for word in "active failed: it does not answer for 30 s, and was let go of".split(' ') {
                assert!(text.contains(word), "{word} at {columns}: {text}");
            }
        }
    }

    #[test]
    fn colours_have_no_width() {
        let colours = Paper {
            colours: true,
            columns: None,
        };
        for columns in [None, Some(80), Some(50)] {
            let text = table(2, &rows(colours), &GIVE, columns);
            assert!(text.contains("\x1b[32mactive\x1b[0m"), "{text:?}");
            let plain = table(2, &rows(Paper::PLAIN), &GIVE, columns);
            assert_eq!(console::strip_ansi_codes(&text), plain);
        }
    }

    #[test]
    fn tables_align_and_leave_no_blanks_at_the_end() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        let text = plain_table(2, &[row(["NAME", "SIZE"]), row(["a", "10 GiB"])]);
        assert_eq!(text, "  NAME  SIZE\n  a     10 GiB\n");
    }
}
