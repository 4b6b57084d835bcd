//! The receiver of a server's reports.

use super::events::Told;
use std::fmt::Display;

/// Whom an event is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    /// For people and programs.
    All,
    /// For programs only: people have already seen a sentence about it.
    Programs,
}

/// Receives a server's reports. Data threads call it, so it never blocks.
pub trait Hearer: Send + Sync {
    /// A sentence for people.
    fn say(&self, sentence: &dyn Display);

    /// An event has happened.
    fn event(&self, event: &Told, audience: Audience);
}
