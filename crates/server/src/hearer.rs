//! Who hears what a server has to say.

use super::events::Told;
use std::fmt::Display;

/// For whom an event is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Audience {
    /// For everybody.
    All,
    /// For programs: people have been told by a sentence.
    Programs,
}

/// Hears what a server says. Data threads call it, so it never blocks.
pub trait Hearer: Send + Sync {
    /// A sentence for people.
    fn say(&self, sentence: &dyn Display);

    /// Something has happened.
    fn event(&self, event: &Told, audience: Audience);
}
