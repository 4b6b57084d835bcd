//! Writes the mistakes of the settings file into the kernel's log. A generator of systemd runs before the journal does, and
//! nobody reads its standard error; the journal takes what the kernel's log has.

use anyhow::{Context, Result};
use settings::sound::Sound;
use std::fs::File;
use std::io::Write;
use std::path::Path;

/// The kernel refuses a line of 1 KiB or more.
const LINE_BYTES_MAX: usize = 900;
/// The priority of an error, as in syslog(3).
const PRIORITY: u8 = 3;

/// Writes each mistake to `log`, in a line and a call of its own, as `/dev/kmsg` needs it.
///
/// # Errors
/// The file cannot be written.
pub fn write_mistakes(log: Option<&Path>, found: &Result<Sound>) -> Result<()> {
    let Some(path) = log else {
        return Ok(());
    };
    let lines: Vec<String> = match found {
        Ok(sound) => sound
            .mistakes
            .iter()
            .map(|one| line(&one.to_string()))
            .collect(),
        Err(error) => vec![line(&format!("{error:#}; no array is started"))],
    };
    if lines.is_empty() {
        return Ok(());
    }
    let cannot = || format!("cannot write to {}", path.display());
    let mut file = File::options()
        .append(true)
        .open(path)
        .with_context(cannot)?;
    lines
        .iter()
        .try_for_each(|line| file.write_all(line.as_bytes()).with_context(cannot))
}

fn line(mistake: &str) -> String {
    let mistake = words::without_error_number(mistake);
    let mut end = mistake.len().min(LINE_BYTES_MAX);
    while !mistake.is_char_boundary(end) {
        end -= 1;
    }
    format!("<{PRIORITY}>fullstripe-generator: {}\n", &mistake[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_has_the_priority_of_an_error_and_a_length_that_the_kernel_takes() {
        assert_eq!(line("f:1: a"), "<3>fullstripe-generator: f:1: a\n");
        let long = line(&"\u{e4}".repeat(1000));
        assert!((900..1024).contains(&long.len()), "{}", long.len());
    }
}
