//! One point of a sweep whose points are computed one by one, by many processes and on many machines.
//!
//! A point does not depend on the other points of its sweep, nor on the machine that computes it. It has a key: a digest
//! of everything that its figures depend on, with the numbers of its drive, machine and system, the user's files and prices
//! among them, and [`EXPECTED`], which changes with the models. So who collects the points can tell whether a figure
//! that is already there answers the same question, and whether a worker on another machine had the same program and the
//! same files.

use super::Prepared;
use super::ask::{Question, understood};
use super::left_out::reasons;
use super::report::{PlanPoint, PlannedReport};
use super::sweep::Sweep;
use crate::predict::digest;
use crate::predict::fingerprint::EXPECTED;
use crate::work::{Watch, Work};
use anyhow::{Result, bail, ensure};

/// A point of a sweep, before it is run.
pub enum OnePoint {
    /// It can be run.
    Possible(Box<Prepared>),
    /// No array is like that: the rule that it breaks, as a sentence without its full stop.
    LeftOut(String),
}

impl OnePoint {
    /// Understands the question for one point: it names one level and one load. If it asks for a missing drive or a rebuild, the
    /// point is the array in that condition alone.
    ///
    /// # Errors
    /// If something that the question or its files name is unknown or malformed, or if it asks for several points.
    pub fn of(question: &Question) -> Result<OnePoint> {
        ensure!(
            question.levels.len() == 1 && question.load.op.is_some(),
            "a point of a sweep has one --level and one load: give both --level and --op"
        );
        // A sweep without axes: impossible arrays are left out instead of refused, and limits are told as in a sweep.
        let question = Question {
            sweep: Some(Sweep { axes: Vec::new() }),
            ..question.clone()
        };
        let mut prepared = Prepared::of(&question, understood)?;
        let has_condition = question.degraded || question.rebuilding;
        prepared.cases.retain(|case| {
            case.configuration.setup.condition.is_some() == has_condition && !case.is_other
        });
        Ok(match prepared.cases.len() {
            0 => OnePoint::LeftOut(reasons(&prepared.left_out)),
            1 => OnePoint::Possible(Box::new(prepared)),
            _ => bail!("a point of a sweep has one --rebuild-rate; give it, 0 for no limit"),
        })
    }
}

impl Prepared {
    /// The key of what is to be run: 32 hexadecimal digits.
    #[must_use]
    pub fn key(&self) -> String {
        let mut all = format!(
            "fullstripe {} {EXPECTED:032x} {:?}\n",
            env!("CARGO_PKG_VERSION"),
            self.sizer
        );
        for (configuration, metrics) in &self.every() {
            all += &self.predictor.question(configuration, metrics);
            all.push('\n');
        }
        format!("{:032x}", digest(all.as_bytes()))
    }

    /// Runs a plan of one point.
    ///
    /// # Errors
    /// As [`Prepared::run`].
    ///
    /// # Panics
    /// If the plan has not one point.
    pub fn run_one(self, work: Work, watch: &dyn Watch) -> Result<PlanPoint> {
        assert_eq!(self.cases.len(), 1, "it is a plan of one point");
        let PlannedReport { mut points, .. } = self.run(work, watch)?;
        Ok(points.pop().expect("each case is a point"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::loads::LoadQuestion;
    use crate::plan::plan;
    use crate::work::Quiet;
    use lab::schema::metric::Metric;
    use lab::schema::setup::{Condition, Level};
    use lab::workload::Operation;

    const WORK: Work = Work {
        jobs: Some(1),
        remember: false,
    };

    fn question(drive: &str, count: u32, level: Level) -> Question {
        Question {
            count,
            levels: vec![level],
            load: LoadQuestion {
                op: Some(Operation::RandRead),
                threads: Some(1),
                qd: Some(4),
                ..LoadQuestion::default()
            },
            ..Question::new(drive, "epyc-9554p-24")
        }
    }

    fn possible(question: &Question) -> Prepared {
        match OnePoint::of(question).expect("it is understood") {
            OnePoint::Possible(prepared) => *prepared,
            OnePoint::LeftOut(reason) => panic!("{reason}"),
        }
    }

    #[test]
    fn a_point_alone_has_the_figures_that_it_has_in_a_plan() {
        let question = question("p4510-2tb", 3, Level::Raid5);
        let alone = possible(&question).run_one(WORK, &Quiet).expect("it runs");
        let planned = plan(&question, WORK, &Quiet).expect("it runs");
        assert_eq!(alone.metrics, planned.points[0].metrics);
        assert!(alone.figure(Metric::Iops).is_some_and(|iops| iops > 1000.0));
        assert!(alone.sizing.is_some());
    }

    #[test]
    fn the_key_changes_with_what_the_figures_depend_on_and_with_nothing_else() {
        let first = question("p4510-2tb", 3, Level::Raid5);
        let key = |question: &Question| possible(question).key();
        assert_eq!(key(&first).len(), 32);
        assert_eq!(key(&first), key(&first.clone()));
        let other_drive = question("p4510-4tb", 3, Level::Raid5);
        let other_count = question("p4510-2tb", 4, Level::Raid5);
        let mut with_spare = first.clone();
        with_spare.size.spares = 1;
        for other in [other_drive, other_count, with_spare] {
            assert_ne!(key(&first), key(&other), "{other:?}");
        }
        // What the report shows beside the figures does not count.
        let mut shown = first.clone();
        shown.provenance = true;
        assert_eq!(key(&first), key(&shown));
    }

    #[test]
    fn the_key_of_a_drive_in_a_file_changes_with_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("mine.toml");
        let (_, text) = models::library::FAMILIES[0];
        std::fs::write(&path, text).expect("it is written");
        let drive = format!("{}#p4510-2tb", path.display());
        let question = question(&drive, 2, Level::Raid0);
        let before = possible(&question).key();
        let changed = text.replacen("read_us = { value = 85", "read_us = { value = 86", 1);
        assert_ne!(changed, text, "the profile has this key");
        std::fs::write(&path, changed).expect("it is written");
        assert_ne!(before, possible(&question).key());
    }

    #[test]
    fn impossible_arrays_are_left_out_with_the_rule_and_mistakes_are_refused() {
        let reason = |question: &Question| match OnePoint::of(question).expect("understood") {
            OnePoint::Possible(_) => panic!("no such array"),
            OnePoint::LeftOut(reason) => reason,
        };
        let odd = question("p4510-2tb", 3, Level::Raid10);
        assert!(
            reason(&odd).starts_with("RAID 10 needs"),
            "{}",
            reason(&odd)
        );
        let mut lost = question("p4510-2tb", 4, Level::Raid0);
        lost.degraded = true;
        assert!(
            reason(&lost).contains("does not survive"),
            "{}",
            reason(&lost)
        );
        let unknown = OnePoint::of(&question("p4511", 3, Level::Raid5));
        let sentence = unknown.err().expect("no such drive").to_string();
        assert!(sentence.contains("p4511"), "{sentence}");
    }

    #[test]
    fn a_point_with_a_condition_is_the_array_in_that_condition() {
        let mut degraded = question("p4510-2tb", 3, Level::Raid5);
        degraded.degraded = true;
        let point = possible(&degraded).run_one(WORK, &Quiet).expect("it runs");
        assert_eq!(
            point.configuration.setup.condition,
            Some(Condition::Degraded)
        );
        let mut rebuilding = question("p4510-2tb", 3, Level::Raid5);
        rebuilding.rebuilding = true;
        let several = OnePoint::of(&rebuilding).err().expect("four rates");
        assert!(several.to_string().contains("--rebuild-rate"), "{several}");
    }
}
