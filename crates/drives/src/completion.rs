//! How a data thread learns that something has come: an I/O's completion, bytes from a client, a message of a thread.
//!
//! | written | the thread | costs |
//! |---|---|---|
//! | `interrupt` | sleeps in the kernel until an interrupt wakes it | two context switches for each idle time |
//! | `polling` | never sleeps, and looks again and again | a whole core |
//! | `hybrid:US` | looks for so many microseconds, then sleeps | between the two |
//!
//! It is the operator's choice, never guessed: only they know whether a core may be spent on latency. The one
//! exception: a thread that is owed an answer by another one looks for some microseconds before it sleeps.

use std::fmt;
use std::str::FromStr;

/// See the module's prose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompletionMode {
    /// Sleep until woken.
    Interrupt,
    /// Keep looking.
    Polling,
    /// Keep looking for a while, then sleep.
    Hybrid {
        /// For how long.
        poll_ns: u64,
    },
}

/// `hybrid` without a number: about the latency of a NAND drive's read.
const HYBRID_POLL_US: u64 = 50;
/// More than a second of looking is polling.
const HYBRID_POLL_US_MAX: u64 = 1_000_000;

impl FromStr for CompletionMode {
    type Err = String;

    fn from_str(text: &str) -> Result<CompletionMode, String> {
        let hybrid = |poll_us: u64| CompletionMode::Hybrid {
            poll_ns: poll_us * 1000,
        };
        let us = text.strip_prefix("hybrid:").and_then(|us| us.parse().ok());
        match (text, us) {
            ("interrupt", _) => Ok(CompletionMode::Interrupt),
            ("polling", _) => Ok(CompletionMode::Polling),
            ("hybrid", _) => Ok(hybrid(HYBRID_POLL_US)),
            (_, Some(us)) if us <= HYBRID_POLL_US_MAX => Ok(hybrid(us)),
            _ => Err(
                "give interrupt, polling, hybrid, or hybrid:MICROSECONDS up to a million"
                    .to_owned(),
            ),
        }
    }
}

impl fmt::Display for CompletionMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CompletionMode::Interrupt => f.write_str("interrupt"),
            CompletionMode::Polling => f.write_str("polling"),
            CompletionMode::Hybrid { poll_ns } => write!(f, "hybrid:{}", poll_ns / 1000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_printed_can_be_given_again() {
        for text in ["interrupt", "polling", "hybrid:0", "hybrid:1000000"] {
            assert_eq!(text.parse::<CompletionMode>().unwrap().to_string(), text);
        }
        let usual: CompletionMode = "hybrid".parse().unwrap();
        assert_eq!(usual.to_string(), "hybrid:50");
    }

    #[test]
    fn anything_else_is_refused_with_what_there_is() {
        for text in [
            "",
            "spin",
            "hybrid:",
            "hybrid:-1",
            "hybrid:1000001",
            "hybrid:1s",
        ] {
            let message = text.parse::<CompletionMode>().unwrap_err();
            assert!(message.contains("give interrupt, polling"), "{text}");
        }
    }
}
