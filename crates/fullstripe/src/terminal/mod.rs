//! Properties of the output: whether it has colours, and how many columns.
//!
//! This is the only place that decides about colours. `--color` takes precedence; without it colours are for terminals
//! only, and `NO_COLOR` (unless empty) and `TERM=dumb` switch them off. Colours only repeat what the words say. Text
//! without colours contains no codes at all: text for programs is [`Paper::PLAIN`].

pub mod fold;
pub mod print;
pub mod redraw;
pub mod rows;
pub mod table;
mod tone;

pub use tone::Tone;

use clap::ColorChoice;
use std::ffi::OsStr;
use std::io::IsTerminal;
use std::sync::OnceLock;

/// `--color`.
static CHOICE: OnceLock<ColorChoice> = OnceLock::new();

/// Sets the choice of `--color`, once, before anything is printed.
pub fn choose(choice: ColorChoice) {
    let _ = CHOICE.set(choice);
}

/// Whether to use colours on standard output or error, given whether that is a terminal.
#[must_use]
pub fn has_colours(is_terminal: bool) -> bool {
    let no_colour = std::env::var_os("NO_COLOR");
    let choice = CHOICE.get().copied().unwrap_or_default();
    decide(choice, can_move(is_terminal), no_colour.as_deref())
}

fn decide(choice: ColorChoice, is_able: bool, no_colour: Option<&OsStr>) -> bool {
    match choice {
        ColorChoice::Always => true,
        ColorChoice::Never => false,
        ColorChoice::Auto => is_able && no_colour.is_none_or(OsStr::is_empty),
    }
}

/// Whether lines can be redrawn in place, which needs a terminal that understands codes.
#[must_use]
pub fn can_move(is_terminal: bool) -> bool {
    is_terminal && std::env::var_os("TERM").is_none_or(|term| term != "dumb")
}

/// See the module's prose.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Paper {
    /// Whether text has colours.
    pub colours: bool,
    /// Columns of the terminal; if none, lines are not folded.
    pub columns: Option<usize>,
}

impl Paper {
    /// The output for programs, files and comparisons.
    pub const PLAIN: Paper = Paper {
        colours: false,
        columns: None,
    };

    /// Standard output. If it is no terminal, nothing is folded unless `COLUMNS` is set, so that programs find each row
    /// in one line.
    #[must_use]
    pub fn output() -> Paper {
        let is_terminal = std::io::stdout().is_terminal();
        let size = console::Term::stdout().size_checked();
        let of_terminal = size.filter(|_| is_terminal);
        let asked = || std::env::var("COLUMNS").ok()?.parse().ok();
        let columns = of_terminal.map(|(_, columns)| usize::from(columns));
        Paper {
            colours: has_colours(is_terminal),
            columns: columns.or_else(asked).filter(|&columns| columns > 0),
        }
    }

    /// `text` in a tone.
    #[must_use]
    pub fn paint(self, tone: Tone, text: &str) -> String {
        match self.colours {
            true => tone.paint(text),
            false => text.to_owned(),
        }
    }

    /// A state in its colour. Each word is painted separately, so that folding between words splits no colour codes.
    #[must_use]
    pub fn state(self, state: &str) -> String {
        let tone = Tone::of_state(state);
        let words = state.split(' ').map(|word| self.paint(tone, word));
        words.collect::<Vec<_>>().join(" ")
    }

    /// `text` folded to the columns; continuation lines are indented by `indent`.
    #[must_use]
    pub fn fold(self, text: &str, indent: usize) -> String {
        fold::fold_within(text, self.columns, indent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colours_are_for_terminals_unless_somebody_says_otherwise() {
        use ColorChoice::{Always, Auto, Never};
        let set = |value: &'static str| Some(OsStr::new(value));
        for (choice, is_able, no_colour, wanted) in [
            (Auto, true, None, true),
            (Auto, true, set(""), true),
            (Auto, true, set("1"), false),
            (Auto, false, None, false),
            (Always, false, set("1"), true),
            (Never, true, None, false),
        ] {
            let decided = decide(choice, is_able, no_colour);
            assert_eq!(decided, wanted, "{choice} {is_able} {no_colour:?}");
        }
    }

    #[test]
    fn colours_add_nothing_but_codes() {
        let paper = Paper {
            colours: true,
            columns: None,
        };
        let painted = paper.state("not protected");
        assert_eq!(painted.matches("\x1b[33m").count(), 2, "{painted:?}");
        assert_eq!(console::strip_ansi_codes(&painted), "not protected");
        assert_eq!(Paper::PLAIN.state("failed"), "failed");
        assert_eq!(paper.state("-"), "-");
    }
}
