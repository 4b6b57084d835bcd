//! The output for people: steps with the command lines that a user would type, one line of result each, and a progress
//! line that is updated while something runs.
//!
//! The progress line appears on a terminal only; [`crate::terminal`] decides whether there are colours. No line is
//! wider than [`WIDTH`].

use crate::terminal::redraw::{no_line, over_line};
use crate::terminal::{Paper, Tone, can_move, has_colours};
use std::io::{IsTerminal, Write};
use std::time::Duration;

/// Columns.
pub(super) const WIDTH: usize = 98;
/// Blanks before the lines of a step.
const INDENT: &str = "    ";

/// The output to which the story is printed.
pub(super) struct Screen {
    out: Box<dyn Write>,
    paper: Paper,
    /// Whether progress lines are shown.
    live: bool,
    /// Whether a progress line is on the screen now.
    moving: bool,
}

impl Screen {
    /// On standard output, or on standard error when standard output is for a program.
    pub fn open(on_standard_error: bool) -> Screen {
        let (out, is_terminal): (Box<dyn Write>, bool) = if on_standard_error {
            (Box::new(std::io::stderr()), std::io::stderr().is_terminal())
        } else {
            (Box::new(std::io::stdout()), std::io::stdout().is_terminal())
        };
        Screen {
            out,
            paper: Paper {
                colours: has_colours(is_terminal),
                columns: None,
            },
            live: can_move(is_terminal),
            moving: false,
        }
    }

    /// On `out`, without colours.
    #[cfg(test)]
    pub fn plain(out: Box<dyn Write>, live: bool) -> Screen {
        Screen {
            out,
            paper: Paper::PLAIN,
            live,
            moving: false,
        }
    }

    /// Sets `text` in a tone.
    pub fn paint(&self, tone: Tone, text: &str) -> String {
        self.paper.paint(tone, text)
    }

    /// A line as it is.
    pub fn line(&mut self, text: &str) {
        self.still();
        self.write(&format!("{text}\n"));
    }

    /// The head of a step.
    pub fn step(&mut self, number: usize, title: &str) {
        let head = self.paint(Tone::Strong, &format!("{number:>2}  {title}"));
        self.line(&format!("\n{head}"));
    }

    /// A command line as a user would type it, with a remark if it needs one.
    pub fn command(&mut self, text: &str, remark: &str) {
        let mut line = format!("{INDENT}$ {}", self.paint(Tone::Command, text));
        if !remark.is_empty() {
            let room = (WIDTH - INDENT.len() - 2).saturating_sub(text.chars().count() + 4);
            let remark = format!("  # {}", shortened(remark, room));
            line += &self.paint(Tone::Quiet, &remark);
        }
        self.line(&line);
    }

    /// The result of a step, and how long it took.
    pub fn result(&mut self, text: &str, elapsed: Duration) {
        let time = format!("{:.1} s", elapsed.as_secs_f64());
        let room = WIDTH - INDENT.len() - 2 - 8;
        let (mark, time) = (
            self.paint(Tone::Good, "✓"),
            self.paint(Tone::Quiet, &format!("{time:>8}")),
        );
        self.line(&format!(
            "{INDENT}{mark} {:<room$}{time}",
            shortened(text, room)
        ));
    }

    /// A note about something that was left out or that the user should know.
    pub fn note(&mut self, text: &str) {
        let note = self.paint(Tone::Warning, &format!("· {text}"));
        self.line(&format!("{INDENT}{note}"));
    }

    /// Replaces the progress line.
    pub fn progress(&mut self, text: &str) {
        if self.live {
            let text = self.paint(Tone::Quiet, &shortened(text, WIDTH - INDENT.len()));
            // Without wrapping a narrow terminal cuts the line off, and it can still be replaced.
            self.write(&over_line(&format!("{INDENT}{text}")));
            self.moving = true;
        }
    }

    /// Removes the progress line.
    pub fn still(&mut self) {
        if std::mem::take(&mut self.moving) {
            self.write(&no_line());
        }
    }

    /// Ignores errors: a closed output is no reason to stop half-way.
    fn write(&mut self, text: &str) {
        let _ = self.out.write_all(text.as_bytes());
        let _ = self.out.flush();
    }
}

/// `text` cut to `room` columns.
pub(super) fn shortened(text: &str, room: usize) -> String {
    if text.chars().count() <= room {
        return text.to_owned();
    }
    let kept: String = text.chars().take(room.saturating_sub(1)).collect();
    format!("{}…", kept.trim_end())
}

/// A bar of `width` columns, filled up to `share` of 1 in eighths of a column.
pub(super) fn bar(share: f64, width: usize) -> String {
    const EIGHTHS: [&str; 8] = ["", "▏", "▎", "▍", "▌", "▋", "▊", "▉"];
    let eighths = (share.clamp(0.0, 1.0) * (width * 8) as f64).round() as usize;
    format!("{}{}", "█".repeat(eighths / 8), EIGHTHS[eighths % 8])
}

/// A whole number in groups of three digits.
pub(super) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(' ');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[derive(Clone, Default)]
    struct Paper(Rc<RefCell<Vec<u8>>>);

    impl Write for Paper {
        fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
            self.0.borrow_mut().write(bytes)
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }

    fn told(live: bool) -> String {
        let paper = Paper::default();
        let mut screen = Screen::plain(Box::new(paper.clone()), live);
        screen.step(3, "A drive dies");
        screen.command("truncate -s 0 d1", "as if it were pulled out");
        screen.progress("waiting");
        screen.result(&"long ".repeat(40), Duration::from_millis(1250));
        screen.note("mdadm is not installed");
        let bytes = paper.0.borrow().clone();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn without_a_terminal_there_are_plain_lines_of_bounded_width() {
        let text = told(false);
        assert!(!text.contains('\x1b'), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[1], " 3  A drive dies");
        assert_eq!(
            lines[2],
            "    $ truncate -s 0 d1  # as if it were pulled out"
        );
        assert!(lines[3].ends_with("lon…   1.2 s"), "{:?}", lines[3]);
        assert!(lines.iter().all(|line| line.chars().count() <= WIDTH));
    }

    #[test]
    fn the_moving_line_is_removed_before_the_next_line() {
        let text = told(true);
        let moving = text.find("waiting").unwrap();
        let removed = text.rfind(&no_line()).unwrap();
        assert!(moving < removed && removed < text.find("long").unwrap());
    }

    #[test]
    fn bars_grow_by_eighths() {
        assert_eq!(bar(0.0, 4), "");
        assert_eq!(bar(0.5, 4), "██");
        assert_eq!(bar(17.0 / 32.0, 4), "██▏");
        assert_eq!(bar(1.7, 4), "████");
    }

    #[test]
    fn numbers_and_texts() {
        assert_eq!(
            [grouped(999), grouped(1_234_567)],
            ["999".to_owned(), "1 234 567".to_owned()]
        );
        assert_eq!(shortened("one two three", 9), "one two…");
    }
}
