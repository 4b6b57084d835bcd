//! Folds lines that are wider than the terminal. Colour codes have no width.

use console::measure_text_width as width;

/// Folds each line of `text` at blanks to at most `columns`; continuation lines are indented by `indent`. A longer word
/// stays whole, because users copy paths and URIs from the screen, and a number is not separated from its unit.
#[must_use]
pub fn fold(text: &str, columns: usize, indent: usize) -> String {
    let mut folded = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        let (line, end) = match line.strip_suffix('\n') {
            Some(line) => (line, "\n"),
            None => (line, ""),
        };
        if width(line) <= columns {
            folded.push_str(line);
        } else {
            folded.push_str(&fold_line(line, columns, indent));
        }
        folded.push_str(end);
    }
    folded
}

/// Like [`fold`], but without `columns` nothing is folded.
#[must_use]
pub fn fold_within(text: &str, columns: Option<usize>, indent: usize) -> String {
    match columns {
        Some(columns) => fold(text, columns, indent),
        None => text.to_owned(),
    }
}

fn fold_line(line: &str, columns: usize, indent: usize) -> String {
    let words = line.trim_start_matches(' ');
    let mut folded = " ".repeat(line.len() - words.len());
    // Columns that are taken, and whether a word is among them.
    let (mut taken, mut has_word) = (folded.len(), false);
    for piece in pieces(words) {
        let needed = width(piece.trim_end_matches(' '));
        if has_word && taken + needed > columns {
            folded.truncate(folded.trim_end_matches(' ').len());
            folded.push('\n');
            folded.push_str(&" ".repeat(indent));
            taken = indent;
        }
        folded.push_str(piece);
        (taken, has_word) = (taken + width(piece), true);
    }
    folded
}

/// The pieces that are not split, each with the blanks after it.
fn pieces(words: &str) -> impl Iterator<Item = &str> {
    let mut rest = words;
    std::iter::from_fn(move || {
        let mut end = 0;
        loop {
            let word = rest[end..].find(' ').map_or(rest.len(), |at| end + at);
            let is_number = is_number(&rest[end..word]);
            let blanks = rest[word..].len() - rest[word..].trim_start_matches(' ').len();
            end = word + blanks;
            // A unit, or the noun after a number.
            let is_counted = rest[end..].starts_with(|c: char| c.is_alphabetic() || c == '%');
            if !(is_number && blanks == 1 && is_counted) {
                break;
            }
        }
        let (piece, behind) = rest.split_at(end);
        rest = behind;
        (!piece.is_empty()).then_some(piece)
    })
}

fn is_number(word: &str) -> bool {
    word.starts_with(|c: char| c.is_ascii_digit())
        && word.chars().all(|c| c.is_ascii_digit() || c == '.')
}

/// `text` shortened to `columns` by leaving out its middle, because paths differ at their ends.
#[must_use]
pub fn shorten(text: &str, columns: usize) -> String {
    let letters: Vec<char> = text.chars().collect();
    if letters.len() <= columns {
        return text.to_owned();
    }
    let kept = columns.saturating_sub(1);
    let head = kept / 3;
    let tail = letters.len() - (kept - head);
    letters[..head]
        .iter()
        .chain(['…'].iter())
        .chain(&letters[tail..])
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Paper;

    #[test]
    fn lines_are_folded_at_blanks_and_numbers_keep_their_units() {
        let text = "  rebuild [###---] 33.3 %, 210 MiB/s, 3m 20s left, all well\nshort\n";
        insta::assert_snapshot!(fold(text, 28, 4), @r"
          rebuild [###---] 33.3 %,
            210 MiB/s, 3m 20s left,
            all well
        short
        ");
        assert_eq!(fold(text, 80, 4), text);
        for columns in 0..70 {
            let words = fold(text, columns, 2);
            let words: Vec<&str> = words.split_whitespace().collect();
            assert_eq!(words, text.split_whitespace().collect::<Vec<_>>());
        }
    }

    #[test]
    fn long_words_stay_whole() {
        let uri = "nbd+unix:///data?socket=/run/fullstripe/nbd.sock";
        assert_eq!(fold(uri, 20, 2), uri);
        assert_eq!(
            fold(&format!("at {uri} now"), 20, 2),
            format!("at\n  {uri}\n  now")
        );
    }

    #[test]
    fn colours_do_not_change_where_a_line_is_folded() {
        let line = |paper: Paper| {
            let state = paper.state("not protected");
            fold(&format!("data: RAID 5 of 3, 6 GiB, {state}, in use"), 36, 2)
        };
        let colours = Paper {
            colours: true,
            columns: None,
        };
        let plain = line(Paper::PLAIN);
        assert_eq!(plain, "data: RAID 5 of 3, 6 GiB, not\n  protected, in use");
        assert_eq!(console::strip_ansi_codes(&line(colours)), plain);
    }

    #[test]
    fn paths_lose_their_middle() {
        assert_eq!(shorten("/dev/nvme0n1", 12), "/dev/nvme0n1");
        assert_eq!(
            shorten("/dev/disk/by-id/nvme-eui.0025", 16),
            "/dev/…e-eui.0025"
        );
        assert_eq!(shorten("abc", 1), "…");
    }
}
