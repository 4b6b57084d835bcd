//! What publications say that Intel VROC would take of a plan's arrays.

use super::ask::Case;
use crate::predict::library::Library;
use anyhow::{Context, Result, ensure};
use lab::claims::predictor::NotModelled;
use lab::schema::setup::{Level, Setup};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use vroc::{Answer, Array, Member, Place, Policy, Purpose};

/// The answer about the array of a setup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OfSetup {
    /// The setup's name.
    pub setup: String,
    /// The answer.
    #[serde(flatten)]
    pub answer: Answer,
}

/// The answers about the arrays that are planned, each array once, if they are used for `purpose`.
///
/// # Errors
/// There is no array among the cases, or a drive or platform is not in the library.
pub fn answers(cases: &[Case], library: &Library, purpose: Purpose) -> Result<Vec<OfSetup>> {
    let policy = Policy::built_in();
    let mut told = BTreeSet::new();
    let mut answers = Vec::new();
    for case in cases {
        let setup = &case.configuration.setup;
        let is_array = !case.is_other && setup.level != Level::Single;
        // Whether a drive is missing changes nothing.
        if !is_array || setup.condition.is_some() || !told.insert(&case.setup) {
            continue;
        }
        let array = array(setup, library, purpose)?;
        answers.push(OfSetup {
            setup: case.setup.clone(),
            answer: Answer::of(&policy, &array),
        });
    }
    ensure!(
        !answers.is_empty(),
        "--as-vroc is about arrays, and --level none is one drive without RAID: leave out one of them"
    );
    Ok(answers)
}

fn reason(missing: NotModelled) -> anyhow::Error {
    anyhow::Error::msg(missing.reason)
}

fn array(setup: &Setup, library: &Library, purpose: Purpose) -> Result<Array> {
    let graph = library.platform(&setup.platform).map_err(reason)?;
    let bays = graph.bays.get(..setup.count as usize);
    let bays = bays.with_context(|| format!("{} has too few bays", graph.name))?;
    let make = library.make(&setup.drive).map_err(reason)?;
    let level = setup.level.array().context("one drive is no array")?;
    let members = bays.iter().map(|bay| Member {
        name: format!("the drive in {}", bay.name),
        title: Some(make.title.clone()),
        maker: make.maker.clone(),
        purpose: make.purpose,
        place: bay.vmd.clone().map_or(Place::Outside, Place::Behind),
    });
    Ok(Array {
        level: level.number(),
        chunk_kib: setup.chunk_kib.filter(|_| setup.level != Level::Raid1),
        volumes: 1,
        purpose,
        members: members.collect(),
    })
}
