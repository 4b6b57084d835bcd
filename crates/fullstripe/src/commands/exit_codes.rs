//! How a command ends: the exit codes, and how failures are printed.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed; the sentence on standard error says what and where, or the report of `demo` or `sim faults` |
//! | 2 | the command line was not understood, or the settings of the array that `serve --array` names |
//! | 3 | `assemble`: the array can start, but not all volumes are writable and fully redundant; `status --check`: a volume lacks redundancy |
//! | 4 | refused: it would have destroyed something or been unsafe; nothing was changed |
//! | 5 | `status --check`: a volume has failed, is not started or refuses writes |
//!
//! With `--json` the sentence comes as an object on one line of standard error, like
//! `{"error":{"kind":"refused","exit_code":4,"message":"…"}}`. Standard output holds nothing but results, so
//! that a program never mistakes an error for a result.

use crate::terminal::print::print_note;
use container::refusal::Refused;
use serde::Serialize;
use std::ffi::OsString;
use std::process::ExitCode;
use words::without_error_number;

/// Something went wrong.
const FAILED: u8 = 1;
/// The command line or the settings were not understood; clap uses the same number.
const USAGE: u8 = 2;
/// The array can start, but a volume is degraded, read-only, not started or not yet protected.
pub const DEGRADED: u8 = 3;
/// Refused to protect data; nothing was changed.
pub const REFUSED: u8 = 4;
/// A volume has failed, is not started or refuses writes.
pub const FAILED_VOLUME: u8 = 5;

/// The table for the end of `--help`.
pub const HELP: &str = "Exit codes:
  0  done
  1  failed; the message says what and where
  2  the command line was not understood;
     serve --array: nor the settings of the array
  3  assemble: it can start, but not every volume is writable and redundant;
     status --check: a volume lacks redundancy
  4  refused, because data could be lost or wrong; nothing was changed
  5  status --check: a volume has failed, is not started or refuses writes";

/// How a command failed, for programs: `{"error": {...}}` on one line.
#[derive(Serialize)]
struct Failure<'a> {
    error: Reason<'a>,
}

#[derive(Serialize)]
struct Reason<'a> {
    /// `failed`, `usage` or `refused`, as the exit code says.
    kind: &'static str,
    exit_code: u8,
    /// One sentence.
    message: &'a str,
}

/// Prints on standard error why a command failed, with `json` as an object on one line, and returns its exit
/// code: [`REFUSED`] for a refusal, else [`FAILED`].
#[must_use]
pub fn report(error: &anyhow::Error, json: bool) -> ExitCode {
    let code = if error.is::<Refused>() {
        REFUSED
    } else {
        FAILED
    };
    let message = without_error_number(&format!("{error:#}"));
    print_note(&in_words(code, &message, json));
    ExitCode::from(code)
}

/// As [`report`], of a mistake in the settings file, which is the command line of a server that systemd starts.
#[must_use]
pub fn report_settings(error: &anyhow::Error, json: bool) -> ExitCode {
    let message = without_error_number(&format!("{error:#}"));
    print_note(&in_words(USAGE, &message, json));
    ExitCode::from(USAGE)
}

fn in_words(exit_code: u8, message: &str, json: bool) -> String {
    if !json {
        return format!("fullstripe: {message}");
    }
    let kind = match exit_code {
        USAGE => "usage",
        REFUSED => "refused",
        _ => "failed",
    };
    let error = Reason {
        kind,
        exit_code,
        message,
    };
    serde_json::to_string(&Failure { error }).unwrap_or_else(|_| message.to_owned())
}

/// Ends a command whose command line was not understood or only asked for help.
///
/// The command is not known in that case, so `--json` counts anywhere before a `--`.
#[must_use]
pub fn report_usage(error: &clap::Error, arguments: &[OsString]) -> ExitCode {
    let mut options = arguments.iter().take_while(|argument| *argument != "--");
    if error.exit_code() == 0 || !options.any(|argument| argument == "--json") {
        // If the output cannot be written, the exit code stays the same.
        let _ = error.print();
        return ExitCode::from(error.exit_code() as u8);
    }
    print_note(&in_words(USAGE, &usage_sentence(error), true));
    ExitCode::from(USAGE)
}

/// The first sentence of clap's message, without tips and usage, on one line.
fn usage_sentence(error: &clap::Error) -> String {
    let text = error.to_string();
    let lines = text.lines().take_while(|line| !line.is_empty());
    let words: Vec<&str> = lines.flat_map(str::split_whitespace).collect();
    let sentence = words.join(" ");
    sentence.trim_start_matches("error: ").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, Result, anyhow};
    use container::refusal::refused;

    #[test]
    fn refusals_have_their_exit_code_even_with_context() {
        let wrapped: Result<()> = Err(refused("no")).context("while creating");
        for (error, code) in [
            (refused("d0 holds data"), REFUSED),
            (wrapped.unwrap_err(), REFUSED),
            (anyhow!("the drive died"), FAILED),
        ] {
            for json in [false, true] {
                let exit = format!("{:?}", report(&error, json));
                assert_eq!(exit, format!("{:?}", ExitCode::from(code)), "{error:#}");
            }
        }
    }

    #[test]
    fn a_failure_is_a_sentence_or_an_object_on_one_line() {
        assert_eq!(in_words(1, "d0 is gone", false), "fullstripe: d0 is gone");
        insta::assert_snapshot!(in_words(1, "d0 \"x\"\nis gone", true), @r#"{"error":{"kind":"failed","exit_code":1,"message":"d0 \"x\"\nis gone"}}"#);
        insta::assert_snapshot!(in_words(REFUSED, "d0 holds data", true), @r#"{"error":{"kind":"refused","exit_code":4,"message":"d0 holds data"}}"#);
    }

    #[test]
    fn what_clap_says_becomes_a_sentence() {
        let command = || clap::Command::new("x").arg(clap::Arg::new("DRIVE").required(true));
        let sentence = |words: &[&str]| {
            let error = command().try_get_matches_from(words).unwrap_err();
            usage_sentence(&error)
        };
        insta::assert_snapshot!(sentence(&["x"]), @"the following required arguments were not provided: <DRIVE>");
        insta::assert_snapshot!(sentence(&["x", "--wrong"]), @"unexpected argument '--wrong' found");
    }
}
