//! How a data thread learns of an event: the completion of an I/O, bytes from a client, a message of another thread.
//!
//! | written | the thread | costs |
//! |---|---|---|
//! | `interrupt` | sleeps in the kernel until an interrupt wakes it | two context switches for each idle time |
//! | `polling` | never sleeps, and polls all the time | a whole core |
//! | `hybrid:US` | polls for so many microseconds, then sleeps | between the two |
//!
//! The operator chooses, and nothing is guessed: only the operator knows whether a core may be spent on latency. There
//! is one exception: a thread that waits for another thread's answer polls for some microseconds before it sleeps.

use std::fmt;
use std::str::FromStr;

/// See the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CompletionMode {
    /// Sleep until woken.
    Interrupt,
    /// Poll all the time.
    Polling,
    /// Poll for a while, then sleep.
    Hybrid {
        /// For how long to poll.
        poll_ns: u64,
    },
}

/// `hybrid` without a number: about the latency of a NAND drive's read.
const HYBRID_POLL_US: u64 = 50;
/// Polling for more than a second is mode `polling`.
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
