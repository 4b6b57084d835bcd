//! The whole answer about an array.

use crate::array::{Array, Purpose};
use crate::keys::{KeyAnswer, Verdict, answers};
use crate::policy::Policy;
use crate::shapes::{Broken, broken};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// What publications say of an array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Answer {
    /// RAID level.
    pub level: u8,
    /// Number of drives.
    pub drives: usize,
    /// What the array is for.
    pub purpose: Purpose,
    /// The VMDs that have drives of it, by name.
    pub domains: Vec<String>,
    /// What is said of each key.
    pub keys: Vec<KeyAnswer>,
    /// The rules about shapes that the array breaks.
    pub broken: Vec<Broken>,
    /// The publications that are cited, by id: title and date.
    pub publications: BTreeMap<String, String>,
}

impl Answer {
    /// What `policy` says of `array`.
    #[must_use]
    pub fn of(policy: &Policy, array: &Array) -> Answer {
        let keys = answers(policy, array);
        let broken = broken(policy, array);
        let of_keys = keys.iter().map(|answer| &answer.publication);
        let cited = of_keys.chain(broken.iter().map(|rule| &rule.publication));
        let publications = cited.map(|id| {
            let source = policy.publication(id);
            (id.clone(), format!("{} ({})", source.title, source.date))
        });
        Answer {
            level: array.level,
            drives: array.members.len(),
            purpose: array.purpose,
            domains: array.domains().into_iter().map(str::to_owned).collect(),
            publications: publications.collect(),
            keys,
            broken,
        }
    }

    /// The first rule that the array breaks for certain.
    #[must_use]
    pub fn refused(&self) -> Option<&Broken> {
        self.broken.iter().find(|rule| rule.is_certain)
    }

    /// Keys of which one row says that they accept the array and another that they refuse it, each once.
    #[must_use]
    pub fn disputed(&self) -> Vec<&str> {
        let with = |verdict| {
            let rows = self.keys.iter().filter(move |row| row.verdict == verdict);
            rows.map(|row| row.key.as_str()).collect::<BTreeSet<_>>()
        };
        let (accepted, refused) = (with(Verdict::Accepts), with(Verdict::Refuses));
        accepted.intersection(&refused).copied().collect()
    }
}
