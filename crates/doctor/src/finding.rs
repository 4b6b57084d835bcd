//! The result of a check: one line, how severe it is, and what to do.

use serde::Serialize;
use std::fmt;
use words::{count, without_error_number};

/// How severe a finding is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Level {
    /// As it should be.
    Ok,
    /// Good to know; nothing needs to be changed.
    Note,
    /// An array works, but slower or less safely than it could on this machine.
    Warning,
    /// Nothing can be served before this is changed.
    Problem,
}

impl Level {
    /// The word at the start of a line.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Level::Ok => "ok",
            Level::Note => "note",
            Level::Warning => "warning",
            Level::Problem => "problem",
        }
    }
}

/// One line of the report.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// How severe it is.
    pub level: Level,
    /// What it is about: a part of the machine like `memory`, or a device like `nvme0`.
    pub about: String,
    /// What was found.
    pub what: String,
    /// What to do about it; absent if nothing needs to be done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advice: Option<String>,
}

impl Finding {
    fn new(level: Level, about: &str, what: impl Into<String>) -> Finding {
        Finding {
            level,
            about: about.to_owned(),
            what: without_error_number(&what.into()),
            advice: None,
        }
    }

    /// A finding that something is as it should be.
    pub fn ok(about: &str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Ok, about, what)
    }

    /// A finding that is good to know.
    pub fn note(about: &str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Note, about, what)
    }

    /// A finding that makes arrays slower or less safe than they could be.
    pub fn warning(about: &str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Warning, about, what)
    }

    /// A finding that prevents serving.
    pub fn problem(about: &str, what: impl Into<String>) -> Finding {
        Finding::new(Level::Problem, about, what)
    }

    /// The same finding with advice.
    pub fn advise(mut self, advice: impl Into<String>) -> Finding {
        self.advice = Some(advice.into());
        self
    }
}

/// Columns of the word at the start of a line, including the spaces after it.
pub const WORD_COLUMNS: usize = 9;

impl Finding {
    /// `nvme1: what was found; what to do`, on one line.
    #[must_use]
    pub fn sentence(&self) -> String {
        let mut line = format!("{}: {}", self.about, self.what);
        if let Some(advice) = &self.advice {
            line.push_str("; ");
            line.push_str(advice);
        }
        // Names of drives and files are not under our control and may contain control characters.
        line.chars()
            .map(|c| if c.is_control() { '?' } else { c })
            .collect()
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "{:WORD_COLUMNS$}{}",
            self.level.word(),
            self.sentence()
        )
    }
}

/// Everything that was found, in the order of the checks.
#[derive(Clone, Debug, Serialize)]
pub struct Diagnosis {
    /// Version of this schema: 1.
    pub version: u32,
    /// Whether none of the findings prevents serving.
    pub can_serve: bool,
    /// The findings.
    pub findings: Vec<Finding>,
}

impl Diagnosis {
    /// The report of `findings`.
    #[must_use]
    pub fn new(findings: Vec<Finding>) -> Diagnosis {
        Diagnosis {
            version: 1,
            can_serve: findings
                .iter()
                .all(|finding| finding.level < Level::Problem),
            findings,
        }
    }

    fn count(&self, level: Level) -> usize {
        let same = self
            .findings
            .iter()
            .filter(|finding| finding.level == level);
        same.count()
    }
}

impl Diagnosis {
    /// The conclusion, and the number of findings by level: `Nothing prevents serving` and
    /// `; 1 warning, 0 notes.`
    #[must_use]
    pub fn sum(&self) -> (&'static str, String) {
        let counted = |level: Level| count(self.count(level), level.word());
        let rest = format!("{}, {}", counted(Level::Warning), counted(Level::Note));
        if self.can_serve {
            ("Nothing prevents serving", format!("; {rest}."))
        } else {
            let problems = counted(Level::Problem);
            ("Serving is prevented", format!(": {problems}, {rest}."))
        }
    }
}

/// A line for each finding, then one with the conclusion.
impl fmt::Display for Diagnosis {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for finding in &self.findings {
            writeln!(out, "{finding}")?;
        }
        let (verdict, rest) = self.sum();
        writeln!(out, "{verdict}{rest}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_finding_is_one_line_whatever_a_drive_calls_itself() {
        let finding = Finding::warning("nvme0", "model \"A\nB\u{1b}[2J\"").advise("do it");
        assert_eq!(
            finding.to_string(),
            "warning  nvme0: model \"A?B?[2J\"; do it"
        );
    }

    #[test]
    fn only_a_problem_prevents_serving() {
        let findings = vec![Finding::ok("a", "b"), Finding::warning("c", "d")];
        let report = Diagnosis::new(findings.clone());
        assert!(report.can_serve);
        assert!(
            report
                .to_string()
                .ends_with("Nothing prevents serving; 1 warning, 0 notes.\n")
        );
        let problem = [findings, vec![Finding::problem("e", "f")]].concat();
        let report = Diagnosis::new(problem);
        assert!(!report.can_serve);
        assert!(
            report
                .to_string()
                .ends_with("Serving is prevented: 1 problem, 1 warning, 0 notes.\n")
        );
    }
}
