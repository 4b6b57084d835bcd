//! The results of checks: the demonstration is a list of claims, and it passes if all of them hold.

use anyhow::{Result, bail};
use serde::Serialize;

/// A claim that was checked.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Check {
    /// Title of the step.
    pub step: String,
    /// What should be true.
    pub claim: String,
    /// Whether it is true.
    pub held: bool,
}

/// The claims so far.
#[derive(Clone, Debug, Default, Serialize)]
#[serde(transparent)]
pub(super) struct Checks {
    pub all: Vec<Check>,
    #[serde(skip)]
    step: String,
}

/// A claim that did not hold.
#[derive(Clone, Debug)]
pub(super) struct Failed {
    pub step: String,
    pub claim: String,
    /// The output that shows it and may help to find the cause.
    pub evidence: String,
}

impl std::fmt::Display for Failed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: it does not hold that {}", self.step, self.claim)
    }
}

impl std::error::Error for Failed {}

impl Checks {
    /// Begins a step, to which the following claims belong.
    pub fn step(&mut self, title: &str) {
        title.clone_into(&mut self.step);
    }

    /// The step that the last claims belong to.
    pub fn current_step(&self) -> &str {
        &self.step
    }

    /// Records a claim; `evidence` is called if the claim does not hold.
    ///
    /// # Errors
    /// [`Failed`] when it does not hold.
    pub fn that(
        &mut self,
        claim: &str,
        held: bool,
        evidence: impl FnOnce() -> String,
    ) -> Result<()> {
        self.all.push(Check {
            step: self.step.clone(),
            claim: claim.to_owned(),
            held,
        });
        if !held {
            bail!(Failed {
                step: self.step.clone(),
                claim: claim.to_owned(),
                evidence: evidence(),
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_claim_that_does_not_hold_is_an_error_with_its_evidence() {
        let mut checks = Checks::default();
        checks.step("A drive dies");
        checks
            .that("it is noticed", true, || unreachable!())
            .unwrap();
        let error = checks
            .that("nobody minds", false, || "fio: error".to_owned())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "A drive dies: it does not hold that nobody minds"
        );
        assert_eq!(error.downcast::<Failed>().unwrap().evidence, "fio: error");
        let held: Vec<bool> = checks.all.iter().map(|check| check.held).collect();
        assert_eq!(held, [true, false]);
    }
}
