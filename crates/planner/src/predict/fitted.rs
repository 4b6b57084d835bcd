//! Fitted constants, and how many published numbers there are for each profile. There may be at most half as many
//! constants as facts, for every profile and in total.
//!
//! A constant counts as fitted if its figure has use C. The facts are those of C rows that are numbers or ratios. A
//! fact concerns a profile if the setup of one of its points names that profile. The procedures are [`models::fit`] for
//! drives and [`md`] for Linux md.

pub mod md;

use super::built_in::{HOSTS, MD_2018, PLATFORMS, RAID_DRIVERS};
use lab::claims::book::{Book, Questions};
use lab::schema::document::{Refusal, read};
use lab::schema::setup::Setup;
use models::fit::{LeftOut, leave_one_out};
use models::host::HostFile;
use models::library::FAMILIES;
use models::md::MdFile;
use models::platform::Machine;
use models::profile::{Family, Figure, Use};
use models::raid_driver::DriverFile;
use models::tables::Tables;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What a profile describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A family of drives, by its members.
    Drive,
    /// A machine.
    Platform,
    /// An operating system.
    Host,
    /// Another RAID software.
    Stack,
}

/// A constant that was fitted.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Constant {
    /// What it is a constant of.
    pub kind: Kind,
    /// The profiles that share it. If one machine has several profiles, their common constants count once.
    pub profiles: BTreeSet<String>,
    /// Its table and key in the profile.
    pub name: String,
    /// Its value.
    pub value: f64,
    /// The row that it was fitted to.
    pub source: String,
}

/// Constants of profiles that share them, and the facts about these profiles.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Budget {
    /// What the profiles describe.
    pub kind: Kind,
    /// The profiles.
    pub profiles: BTreeSet<String>,
    /// Fitted constants.
    pub constants: usize,
    /// Facts of C rows that are numbers or ratios.
    pub facts: usize,
}

impl Budget {
    /// Whether there are at most half as many constants as facts.
    #[must_use]
    pub fn is_kept(&self) -> bool {
        self.constants * 2 <= self.facts
    }
}

/// Everything about fitted constants.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Fitted {
    /// The constants.
    pub constants: Vec<Constant>,
    /// Budgets by profile.
    pub budgets: Vec<Budget>,
    /// All constants, and all facts of all publications.
    pub constants_in_all: usize,
    /// See [`Fitted::constants_in_all`].
    pub facts_in_all: usize,
    /// Numbers that a drive or a stack was fitted to, each left out of the fit once.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub left_out: Vec<LeftOut>,
}

/// Constants that have been found so far.
#[derive(Default)]
struct Found(Vec<Constant>);

impl Found {
    fn add(&mut self, kind: Kind, profiles: &BTreeSet<String>, name: String, figure: &Figure) {
        if figure.r#use != Use::C {
            return;
        }
        let same = self.0.iter_mut().find(|known| {
            known.kind == kind
                && known.name == name
                && known.source == figure.source
                && known.value.to_bits() == figure.value.to_bits()
        });
        match same {
            Some(known) => known.profiles.extend(profiles.iter().cloned()),
            None => self.0.push(Constant {
                kind,
                profiles: profiles.clone(),
                name,
                value: figure.value,
                source: figure.source.clone(),
            }),
        }
    }
}

fn families() -> Result<Vec<Family>, Refusal> {
    let files = FAMILIES.iter();
    files.map(|(file, text)| read(file, text)).collect()
}

/// All constants of the profiles that come with the program.
fn constants() -> Result<Vec<Constant>, Refusal> {
    let mut found = Found::default();
    for family in families()? {
        let members = family.members.iter().map(|member| member.id.clone());
        let members = members.collect();
        family.each_figure(&mut |table, key, figure| {
            found.add(Kind::Drive, &members, format!("{table}.{key}"), figure);
        });
    }
    for (file, text) in PLATFORMS {
        let machine: Machine = read(file, text)?;
        let names = BTreeSet::from([machine.platform.clone()]);
        machine.each_figure(&mut |table, key, figure| {
            found.add(Kind::Platform, &names, format!("{table}.{key}"), figure);
        });
    }
    for (file, text) in HOSTS {
        let host: HostFile = read(file, text)?;
        let names = BTreeSet::from([host.host.clone()]);
        host.each_figure(&mut |table, key, figure| {
            found.add(Kind::Host, &names, format!("{table}.{key}"), figure);
        });
    }
    let md: MdFile = read(MD_2018.0, MD_2018.1)?;
    let names = BTreeSet::from([md.stack.clone()]);
    md.each_figure(&mut |table, key, figure| {
        found.add(Kind::Stack, &names, format!("{table}.{key}"), figure);
    });
    for (file, text) in RAID_DRIVERS {
        let driver: DriverFile = read(file, text)?;
        let names = BTreeSet::from([driver.stack.clone()]);
        driver.each_figure(&mut |table, key, figure| {
            found.add(Kind::Stack, &names, format!("{table}.{key}"), figure);
        });
    }
    Ok(found.0)
}

fn is_of(setup: &Setup, kind: Kind, profiles: &BTreeSet<String>) -> bool {
    profiles.contains(match kind {
        Kind::Drive => setup.drive.text(),
        Kind::Platform => setup.platform.text(),
        Kind::Host => &setup.host,
        Kind::Stack => &setup.stack,
    })
}

/// The constants, with the facts of a book.
///
/// # Errors
///
/// Never for the profiles as they are; a test reads them.
pub fn fitted(book: &Book, questions: &Questions) -> Result<Fitted, Refusal> {
    let constants = constants()?;
    let mut groups = BTreeMap::<(Kind, &BTreeSet<String>), usize>::new();
    for constant in &constants {
        *groups
            .entry((constant.kind, &constant.profiles))
            .or_default() += 1;
    }
    let budgets = groups.into_iter().map(|((kind, profiles), constants)| {
        let facts = book.numeric_facts(questions, |setup| is_of(setup, kind, profiles));
        Budget {
            kind,
            profiles: profiles.clone(),
            constants,
            facts: facts.len(),
        }
    });
    Ok(Fitted {
        budgets: budgets.collect(),
        constants_in_all: constants.len(),
        facts_in_all: book.numeric_facts(questions, |_| true).len(),
        left_out: Vec::new(),
        constants,
    })
}

/// Repeats the fits, each time without one number, which takes minutes. `told` receives reports of progress.
///
/// # Errors
///
/// As [`fitted`].
pub fn left_out(told: &mut dyn FnMut(String)) -> Result<Vec<LeftOut>, Refusal> {
    let mut all = Vec::new();
    for family in families()? {
        // Only this family has published numbers that its drives were fitted to.
        if family.family == "p4510" {
            all.extend(leave_one_out(&family, told));
        }
    }
    all.push(md::left_out(told)?);
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use lab::claims::book::frozen;

    #[test]
    fn there_are_at_most_half_as_many_fitted_constants_as_facts() {
        let (questions, book) = frozen().expect("the frozen claims");
        let fitted = fitted(&book, &questions).expect("profiles are read");
        assert!(fitted.constants.len() >= 8, "{fitted:?}");
        assert!(fitted.budgets.len() >= 4, "{fitted:?}");
        for budget in &fitted.budgets {
            assert!(budget.is_kept(), "{budget:?}");
        }
        assert_eq!(fitted.facts_in_all, 43);
        assert!(fitted.constants_in_all * 2 <= fitted.facts_in_all);
        let of = |profile: &str| {
            let mut budgets = fitted.budgets.iter();
            let budget = budgets.find(|budget| budget.profiles.contains(profile));
            let budget = budget.unwrap_or_else(|| panic!("{profile} was fitted"));
            (budget.constants, budget.facts)
        };
        assert_eq!(of("p4510-8tb"), (5, 15));
        assert_eq!(of("p4800x-750gb"), (4, 16));
        assert_eq!(of("p3700-1600gb"), (2, 7));
    }
}
