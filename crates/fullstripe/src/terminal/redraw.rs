//! Text that replaces earlier text on terminals that can redraw ([`super::can_move`]).
//!
//! Line wrapping is switched off while it is written: a wrapped line would make the text taller than its number of
//! lines, and the next text would not cover it.

use crossterm::Command;
use crossterm::cursor::{MoveToColumn, MoveUp};
use crossterm::terminal::{Clear, ClearType, DisableLineWrap, EnableLineWrap};

/// `text`, drawn over the `lines_before` lines above the cursor.
#[must_use]
pub fn over_lines(lines_before: usize, text: &str) -> String {
    // Terminals read zero as one.
    let up = match u16::try_from(lines_before).unwrap_or(u16::MAX) {
        0 => String::new(),
        lines => code(MoveUp(lines)),
    };
    let start = code(MoveToColumn(0)) + &code(Clear(ClearType::FromCursorDown));
    format!("{up}{start}{}", unwrapped(text))
}

/// `text` in place of the line on which the cursor stands.
#[must_use]
pub fn over_line(text: &str) -> String {
    no_line() + &unwrapped(text)
}

/// Removes the line on which the cursor stands.
#[must_use]
pub fn no_line() -> String {
    code(MoveToColumn(0)) + &code(Clear(ClearType::CurrentLine))
}

fn unwrapped(text: &str) -> String {
    format!("{}{text}{}", code(DisableLineWrap), code(EnableLineWrap))
}

/// The terminal's code for a command.
fn code(command: impl Command) -> String {
    let mut text = String::new();
    command
        .write_ansi(&mut text)
        .expect("a string takes everything");
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_cursor_goes_up_only_over_lines_that_there_are() {
        assert!(!over_lines(0, "x").contains('A'));
        assert!(over_lines(3, "x").starts_with("\u{1b}[3A"));
        assert_eq!(console::strip_ansi_codes(&over_lines(3, "x")), "x");
        assert!(over_line("x").starts_with(&no_line()));
    }
}
