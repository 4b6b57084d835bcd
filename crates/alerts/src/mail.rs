//! An alert as a mail, which the machine's own sendmail program takes. What becomes of it then is that program's business.

use crate::{Alert, SEND_WITHIN, call};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where mail servers put the program.
const PLACES: [&str; 2] = ["/usr/sbin/sendmail", "/usr/lib/sendmail"];
/// Most characters of the subject's text; mail programs show fewer.
const SUBJECT_CHARS_MAX: usize = 150;
/// Most characters of one line of the body. RFC 5322 allows 998 bytes, and a character has at most four.
const LINE_CHARS_MAX: usize = 240;

/// Sends `alert` to the addresses, by `program` or by the sendmail program of this machine.
///
/// # Errors
/// There is no such program, or it did not take the mail: its exit code.
pub fn send(addresses: &[String], program: Option<&Path>, alert: &Alert) -> Result<()> {
    let program = match program {
        Some(program) => program.to_owned(),
        None => find(&PLACES)?,
    };
    let shown = program.display().to_string();
    let mut command = Command::new(program);
    command.args(["-t", "-i"]);
    call::run(command, message(addresses, alert).as_bytes(), SEND_WITHIN)
        .with_context(|| format!("{shown} did not take the mail"))
}

fn find(places: &[&str]) -> Result<PathBuf> {
    let found = places.iter().map(Path::new).find(|path| path.exists());
    found.map(Path::to_owned).with_context(|| {
        format!(
            "there is no sendmail program at {}; install a mail server such as postfix or msmtp-mta, or name the program \
             by the key \"sendmail\"",
            places.join(" or ")
        )
    })
}

/// Checks an address: printable ASCII without blanks and without what separates addresses, so that it cannot become
/// another line of the mail's head.
///
/// # Errors
/// What to write instead, as the rest of a sentence.
pub fn check_address(text: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_graphic() && !",;:<>()[]\\\"".contains(c);
    let is_sized = (1..=254).contains(&text.len());
    if is_sized
        && text.chars().all(is_allowed)
        && !text.starts_with(['-', '@'])
        && !text.ends_with('@')
    {
        return Ok(());
    }
    Err("give a mail address like \"root\" or \"admin@example.com\"".to_owned())
}

/// The mail: head, empty line, body.
fn message(addresses: &[String], alert: &Alert) -> String {
    let to = addresses.join(",\n ");
    let ascii = |c: char| {
        if c.is_ascii_graphic() || c == ' ' {
            c
        } else {
            '?'
        }
    };
    let subject: String = alert
        .line()
        .chars()
        .map(ascii)
        .take(SUBJECT_CHARS_MAX)
        .collect();
    let host: String = alert.host.chars().map(ascii).collect();
    let mut text = format!(
        "To: {to}\nSubject: [fullstripe {host}] {subject}\nAuto-Submitted: auto-generated\nMIME-Version: 1.0\n\
         Content-Type: text/plain; charset=utf-8\nContent-Transfer-Encoding: 8bit\n\n"
    );
    for line in body(alert) {
        text += &line;
        text.push('\n');
    }
    text
}

fn body(alert: &Alert) -> Vec<String> {
    let fields = [
        ("host", alert.host.clone()),
        ("array", alert.array.clone()),
        ("volume", alert.volume.clone().unwrap_or_default()),
        ("drive", alert.member.clone().unwrap_or_default()),
        ("time", words::date(alert.time_s)),
        ("severity", alert.severity.to_string()),
        ("event", alert.kind.clone()),
        (
            "count",
            match alert.count {
                0 | 1 => String::new(),
                count => count.to_string(),
            },
        ),
    ];
    let fields = fields.into_iter().filter(|(_, value)| !value.is_empty());
    let mut lines: Vec<String> = fields
        .map(|(name, value)| on_lines(&format!("{name}: {value}")))
        .collect();
    for (title, text) in [
        ("What happened:", &alert.text),
        ("What to do next:", &alert.next),
        ("`fullstripe status`:", &alert.health),
    ] {
        if !text.is_empty() {
            lines.extend([String::new(), title.to_owned(), on_lines(text)]);
        }
    }
    lines
}

/// The text without control characters, broken where a line would be longer than a mail allows.
fn on_lines(text: &str) -> String {
    let chars: Vec<char> = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    let lines: Vec<String> = chars
        .chunks(LINE_CHARS_MAX)
        .take(20)
        .map(|line| line.iter().collect())
        .collect();
    lines.join("\n")
}
