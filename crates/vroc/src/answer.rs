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

    /// Keys about which publications contradict each other: one row says that they accept the array, or its level, and another
    /// that they refuse it. Each once.
    #[must_use]
    pub fn disputed(&self) -> Vec<&str> {
        let with = |of: fn(&KeyAnswer) -> Verdict, verdict| {
            let rows = self.keys.iter().filter(move |row| of(row) == verdict);
            rows.map(|row| row.key.as_str()).collect::<BTreeSet<_>>()
        };
        let disputed = |of| {
            let (accepted, refused) = (with(of, Verdict::Accepts), with(of, Verdict::Refuses));
            &accepted & &refused
        };
        let all = &disputed(|row| row.verdict) | &disputed(|row| row.of_level);
        all.into_iter().collect()
    }
}
