//! Where a plan goes beyond what was ever measured. The frozen claims say for which configurations results have been
//! published. The published values are not used here.

use catalogue::draw::DRAWS;
use lab::claims::book::{Questions, frozen};
use lab::schema::configuration::Configuration;
use lab::workload::Workload;

/// Configurations for which results have been published.
pub struct Measured {
    questions: Questions,
}

impl Measured {
    /// Those of the frozen claims.
    pub fn of_claims() -> Measured {
        Measured {
            questions: frozen().map(|(questions, _)| questions).unwrap_or_default(),
        }
    }

    fn configurations(&self) -> impl Iterator<Item = &Configuration> {
        self.questions
            .values()
            .map(|question| &question.configuration)
    }

    /// In which respects a configuration lies outside of what was measured, as sentences. `is_drawn` says whether its drive is
    /// known from a data sheet only.
    pub fn extrapolations(&self, configuration: &Configuration, is_drawn: bool) -> Vec<String> {
        let Configuration {
            setup, workload, ..
        } = configuration;
        let mut notes = Vec::new();
        let drive = setup.drive.text();
        let same_drive: Vec<_> = self
            .configurations()
            .filter(|one| one.setup.drive.text() == drive)
            .collect();
        let platform = setup.platform.text();
        if !self
            .configurations()
            .any(|one| one.setup.platform.text() == platform)
        {
            notes.push(format!(
                "no result of the platform {platform} is known here: its figures are specifications and typical values, or what the \
                 machine shows of itself"
            ));
        }
        if !self
            .configurations()
            .any(|one| one.setup.host == setup.host)
        {
            notes.push(format!(
                "the figures of the host {} are typical values, not measured on this machine",
                setup.host
            ));
        }
        if is_drawn {
            notes.push(format!(
                "{drive} is known from its data sheet only: each figure is a range that holds for {} of {DRAWS} drives that the \
                 sheet may describe (docs/planning.md)",
                DRAWS - 2
            ));
            return notes;
        }
        if same_drive.is_empty() {
            notes.push(format!(
                "extrapolated: no result of {drive} is known here, only its ratings and its sisters"
            ));
            return notes;
        }
        let most = |of: &dyn Fn(&Configuration) -> u64| {
            same_drive.iter().map(|one| of(one)).max().unwrap_or(0)
        };
        let drives = most(&|one| u64::from(one.setup.count));
        if u64::from(setup.count) > drives {
            notes.push(format!(
                "extrapolated: results of {drive} are of {drives} together at most"
            ));
        }
        let depth = most(&|one| one.workload.total_depth());
        if workload.total_depth() > depth {
            notes.push(format!(
                "extrapolated: results of {drive} are of at most {depth} requests outstanding"
            ));
        }
        notes.extend(of_size(drive, workload, &same_drive));
        notes
    }
}

/// A note if the request size lies outside of the sizes that were measured.
fn of_size(drive: &str, workload: &Workload, measured: &[&Configuration]) -> Option<String> {
    let bs = workload.bs?;
    let sizes = || measured.iter().filter_map(|one| one.workload.bs);
    let (least, most) = (sizes().min()?, sizes().max()?);
    let is_outside = bs < least || bs > most;
    is_outside
        .then(|| format!("extrapolated: results of {drive} are of {least} to {most} a request"))
}
