//! Refusals to do something that could lose data: the one kind of error with an exit code of its own.

use std::fmt;

/// A refusal: one sentence that says what is wrong, where, and what to do. Nothing was changed.
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
