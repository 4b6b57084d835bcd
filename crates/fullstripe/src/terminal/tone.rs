//! Tones of text, and the tone of each state.

use console::Style;

/// A tone of text.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Tone {
    /// Ordinary text.
    Plain,
    /// Headings.
    Strong,
    /// Explanations.
    Quiet,
    /// Command lines that a user types.
    Command,
    /// A state that is as it should be.
    Good,
    /// Redundancy or speed is missing.
    Warning,
    /// Data or service is missing.
    Bad,
}

impl Tone {
    /// The tone of a word for the state of an array, a volume, a slot, a drive or a finding. A word that is not known
    /// is plain.
    #[must_use]
    pub fn of_state(state: &str) -> Tone {
        match state {
            "well" | "optimal" | "active" | "in sync" | "ok" | "good" => Tone::Good,
            "at risk" | "degraded" | "rebuilding" | "not protected" | "warning" | "read-only" => {
                Tone::Warning
            }
            "failed" | "failing" | "missing" | "not started" | "writes stopped" | "problem"
            | "refused" => Tone::Bad,
            "note" => Tone::Quiet,
            _ => Tone::Plain,
        }
    }

    /// `text` with the terminal's codes around it, whatever the environment says.
    pub(super) fn paint(self, text: &str) -> String {
        let style = Style::new().force_styling(true);
        let style = match self {
            Tone::Plain => return text.to_owned(),
            Tone::Strong => style.bold(),
            Tone::Quiet => style.dim(),
            Tone::Command => style.cyan(),
            Tone::Good => style.green(),
            Tone::Warning => style.yellow(),
            Tone::Bad => style.red().bold(),
        };
        style.apply_to(text).to_string()
    }
}
