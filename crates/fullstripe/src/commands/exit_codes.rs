//! How a command ends: the exit codes, and the one kind of error that has its own.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done |
//! | 1 | failed; the sentence on standard error says what and where |
//! | 2 | the command line was not understood |
//! | 3 | `assemble`: everything would start, but not all of it writable and with its full redundancy |
//! | 4 | refused: it would have destroyed something or been unsafe; nothing was changed |

use anyhow::Result;
use std::fmt;
use std::process::ExitCode;

/// Something can be started, but degraded, read-only or with work left to do before it is protected.
pub const DEGRADED: u8 = 3;
/// Refused for the sake of data; nothing was changed.
pub const REFUSED: u8 = 4;

/// The table for the end of `--help`.
pub const HELP: &str = "Exit codes:
  0  done
  1  failed; the message says what and where
  2  the command line was not understood
  3  assemble: it can be started, but not writable and with its full redundancy
  4  refused, because data could be lost or wrong; nothing was changed";

/// A refusal: one sentence with what is wrong, where, and what to do. Ends a command with [`REFUSED`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused(pub String);

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.0)
    }
}

impl std::error::Error for Refused {}

/// A refusal as an error.
pub fn refused(sentence: impl Into<String>) -> anyhow::Error {
    anyhow::Error::new(Refused(sentence.into()))
}

/// Ends a command: a refusal is printed and becomes its exit code, other errors are passed on.
///
/// # Errors
/// Those that are no refusals.
pub fn conclude(result: Result<ExitCode>) -> Result<ExitCode> {
    match result {
        Err(error) if error.is::<Refused>() => {
            eprintln!("fullstripe: {error:#}");
            Ok(ExitCode::from(REFUSED))
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::{Context, anyhow};

    #[test]
    fn refusals_become_an_exit_code_even_with_context() {
        let plain = conclude(Err(refused("d0 holds data")));
        assert_eq!(
            format!("{:?}", plain.unwrap()),
            format!("{:?}", ExitCode::from(REFUSED))
        );
        let wrapped: Result<ExitCode> = Err(refused("no")).context("while creating");
        assert!(conclude(wrapped).is_ok());
        assert!(conclude(Err(anyhow!("the drive died"))).is_err());
    }
}
