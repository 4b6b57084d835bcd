//! Prints the output of commands.

use words::without_error_number;

/// Prints `value` as JSON.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print_text(&format!("{}\n", serde_json::to_string_pretty(value)?))
}

/// Prints `text`; a closed pipe is no failure.
///
/// # Errors
/// Standard output cannot be written.
pub fn print_text(text: &str) -> anyhow::Result<()> {
    use std::io::{ErrorKind, Write};
    match std::io::stdout().write_all(text.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        other => Ok(other?),
    }
}

/// Prints `text` on standard error, on a line of its own, and ignores errors.
pub fn print_note(text: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{}", without_error_number(text));
}
