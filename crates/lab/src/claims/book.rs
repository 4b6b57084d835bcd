//! The files of the frozen claims, separated into questions and published values.

use super::expression::Expression;
use crate::schema::catalogue::Catalogue;
use crate::schema::configuration::{Configuration, Point, resolve};
use crate::schema::document::{Refusal, check_version, read};
use crate::schema::metric::Metric;
use crate::schema::setup::Setup;
use crate::statistics::interval::Interval;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

/// The files, byte for byte.
pub const FILES: [(&str, &str); 5] = [
    (
        "anandtech-p4510.toml",
        include_str!("../../../../claims/anandtech-p4510.toml"),
    ),
    (
        "intel-scaling.toml",
        include_str!("../../../../claims/intel-scaling.toml"),
    ),
    (
        "myce-p4510.toml",
        include_str!("../../../../claims/myce-p4510.toml"),
    ),
    (
        "pcper-x299.toml",
        include_str!("../../../../claims/pcper-x299.toml"),
    ),
    (
        "anandtech-p4800x.toml",
        include_str!("../../../../claims/anandtech-p4800x.toml"),
    ),
];
const README: &str = include_str!("../../../../claims/README.md");

/// What a row may be used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Use {
    /// Input of profiles; never scored.
    S,
    /// May be used for fitting; its error is reported as a residual and never as evidence.
    C,
    /// Evidence; nothing may be fitted to it.
    V,
    /// A rule that holds exactly.
    F,
    /// Not scored.
    U,
}

/// The part of a model that must produce a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
#[expect(
    missing_docs,
    reason = "the words of claims/README.md, which are the field's own"
)]
pub enum Mechanism {
    Link,
    Controller,
    HostCpu,
    RaidSoftware,
    Gc,
    WriteBuffer,
    Dmi,
    Numa,
    Client,
    Media,
    Queueing,
}

impl Mechanism {
    /// All words.
    pub const ALL: [Mechanism; 11] = [
        Mechanism::Link,
        Mechanism::Controller,
        Mechanism::HostCpu,
        Mechanism::RaidSoftware,
        Mechanism::Gc,
        Mechanism::WriteBuffer,
        Mechanism::Dmi,
        Mechanism::Numa,
        Mechanism::Client,
        Mechanism::Media,
        Mechanism::Queueing,
    ];
}

/// What kind of statement a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A figure.
    Number,
    /// A ratio of figures.
    Ratio,
    /// Which of several is greater, or the shape of a curve.
    Order,
    /// The statement of an F row.
    Rule,
    /// The statement of an S row.
    Input,
    /// The statement of a U row.
    Remark,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "the form says which keys there may be; not all are used"
)]
struct FileForm {
    schema: u32,
    seed: String,
    title: String,
    file: String,
    date: String,
    setup: BTreeMap<String, Setup>,
    points: BTreeMap<String, Point>,
    claim: Vec<ClaimForm>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
#[expect(
    dead_code,
    reason = "the form says which keys there may be; not all are used"
)]
struct ClaimForm {
    id: String,
    #[serde(rename = "use")]
    usage: Use,
    fact: String,
    kind: Kind,
    text: String,
    #[serde(rename = "where")]
    place: String,
    value: Option<String>,
    interval: Option<Interval>,
    unit: Option<String>,
    nominal: Option<f64>,
    mechanism: Option<Mechanism>,
    note: Option<String>,
    scope: Option<String>,
    rule: Option<String>,
    cases: Option<toml::Value>,
    inputs: Option<toml::Table>,
    reason: Option<String>,
}

/// A point's seed and its name within the seed's file.
pub type PointName = (String, String);

/// One question to a predictor.
#[derive(Clone, Debug, PartialEq)]
pub struct Question {
    /// The point with its setup.
    pub configuration: Configuration,
    /// The figures that claims use.
    pub wanted: BTreeSet<Metric>,
}

/// All questions. They contain nothing of what was published.
pub type Questions = BTreeMap<PointName, Question>;

/// A C or V row: its expression, and what was published.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    pub id: String,
    pub seed: String,
    pub usage: Use,
    pub fact: String,
    pub kind: Kind,
    pub value: Expression,
    pub interval: Interval,
    pub nominal: Option<f64>,
    pub mechanism: Option<Mechanism>,
}

/// What was published. Only the scorer uses it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Book {
    pub(super) claims: Vec<Claim>,
    /// F rows: id and fact.
    pub(super) rules: Vec<(String, String)>,
    inputs: BTreeMap<String, toml::Table>,
    /// U rows: why they are not scored.
    remarks: BTreeMap<String, String>,
    uses: BTreeMap<String, Use>,
}

impl Book {
    /// The inputs of an S row: specification of hardware, for profiles and the calculator.
    #[must_use]
    pub fn inputs(&self, id: &str) -> Option<&toml::Table> {
        self.inputs.get(id)
    }

    /// All S rows by id: specifications that are known beforehand.
    pub fn specifications(&self) -> impl Iterator<Item = (&str, &toml::Table)> {
        self.inputs.iter().map(|(id, inputs)| (id.as_str(), inputs))
    }

    /// All U rows by id: why they are not scored.
    pub fn remarks(&self) -> impl Iterator<Item = (&str, &str)> {
        let remarks = self.remarks.iter();
        remarks.map(|(id, reason)| (id.as_str(), reason.as_str()))
    }

    /// Facts of the C rows that are numbers or ratios and have a point whose setup satisfies `is_of`.
    #[must_use]
    pub fn numeric_facts(
        &self,
        questions: &Questions,
        is_of: impl Fn(&Setup) -> bool,
    ) -> BTreeSet<&str> {
        let is_about = |claim: &&Claim| {
            let mut figures = BTreeMap::new();
            claim.value.figures(&mut figures);
            figures.into_keys().any(|point| {
                let question = questions.get(&(claim.seed.clone(), point));
                question.is_some_and(|question| is_of(&question.configuration.setup))
            })
        };
        let numbers = self.claims.iter().filter(|claim| {
            claim.usage == Use::C && matches!(claim.kind, Kind::Number | Kind::Ratio)
        });
        let facts = numbers.filter(is_about);
        facts.map(|claim| claim.fact.as_str()).collect()
    }

    /// Whether there are F rows.
    #[must_use]
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
    }

    /// The V rows that say, because of this mechanism, which of several is greater or what shape a curve has.
    #[must_use]
    pub fn orderings(&self, mechanism: Mechanism) -> Book {
        let is_one = |claim: &&Claim| {
            let is_ordering = claim.usage == Use::V && claim.kind == Kind::Order;
            is_ordering && claim.mechanism == Some(mechanism)
        };
        let claims: Vec<Claim> = self.claims.iter().filter(is_one).cloned().collect();
        let uses = claims.iter().map(|claim| (claim.id.clone(), Use::V));
        Book {
            uses: uses.collect(),
            claims,
            ..Book::default()
        }
    }

    /// The rows with these ids only, without rules.
    #[must_use]
    pub fn named(&self, ids: &[&str]) -> Book {
        let claims = self.claims.iter();
        let claims = claims.filter(|claim| ids.contains(&claim.id.as_str()));
        let uses = self.uses.iter();
        let uses = uses.filter(|(id, _)| ids.contains(&id.as_str()));
        Book {
            claims: claims.cloned().collect(),
            uses: uses.map(|(id, usage)| (id.clone(), *usage)).collect(),
            ..Book::default()
        }
    }

    /// The rows of these publications and uses only.
    #[must_use]
    pub fn only(&self, seeds: &[String], uses: &[Use]) -> Book {
        // Ids begin with the letter of their publication: A-22.r0.
        let is_kept = |id: &str, usage: Use| {
            let seed = id.split('-').next().unwrap_or("");
            seeds.iter().any(|wanted| wanted == seed) && uses.contains(&usage)
        };
        let claims = self.claims.iter();
        let rules = self.rules.iter();
        let inputs = self.inputs.iter();
        let kept = self.uses.iter().filter(|(id, usage)| is_kept(id, **usage));
        Book {
            claims: claims
                .filter(|claim| is_kept(&claim.id, claim.usage))
                .cloned()
                .collect(),
            rules: rules
                .filter(|(id, _)| is_kept(id, Use::F))
                .cloned()
                .collect(),
            inputs: inputs
                .filter(|(id, _)| is_kept(id, Use::S))
                .map(|(id, inputs)| (id.clone(), inputs.clone()))
                .collect(),
            remarks: self
                .remarks
                .iter()
                .filter(|(id, _)| is_kept(id, Use::U))
                .map(|(id, reason)| (id.clone(), reason.clone()))
                .collect(),
            uses: kept.map(|(id, usage)| (id.clone(), *usage)).collect(),
        }
    }

    /// The questions that the rows of this book need.
    #[must_use]
    pub fn needed(&self, questions: &Questions) -> Questions {
        let mut needed = Questions::new();
        for claim in &self.claims {
            let mut figures = BTreeMap::new();
            claim.value.figures(&mut figures);
            for (point, metrics) in figures {
                let name = (claim.seed.clone(), point);
                let Some(question) = questions.get(&name) else {
                    continue;
                };
                let entry = needed.entry(name).or_insert_with(|| Question {
                    configuration: question.configuration.clone(),
                    wanted: BTreeSet::new(),
                });
                entry.wanted.extend(metrics);
            }
        }
        needed
    }

    /// What a row may be used for; `None` if there is no such row. A profile may name a row as the source of a number
    /// only if the row's use is S or C.
    #[must_use]
    pub fn use_of(&self, id: &str) -> Option<Use> {
        self.uses.get(id).copied()
    }

    /// Number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.uses.len()
    }
}

/// The hash of the frozen content, as the README states it and `check.py` computes it.
#[must_use]
pub fn frozen_hash() -> &'static str {
    let after = README.split("content sha256: `").nth(1);
    after.and_then(|rest| rest.split('`').next()).unwrap_or("")
}

/// The frozen claims.
///
/// # Errors
///
/// Never with the files as they are; a test reads them.
pub fn frozen() -> Result<(Questions, Book), Refusal> {
    load(&FILES)
}

/// Parses `files` (name and content) and separates questions from published values.
///
/// # Errors
///
/// If a file does not have the form, a row lacks what its use needs, or an expression is malformed, names a point that
/// does not exist or has another unit than the row says.
pub fn load(files: &[(&str, &str)]) -> Result<(Questions, Book), Refusal> {
    let catalogue = Catalogue::of_claims();
    let (mut questions, mut book) = (Questions::new(), Book::default());
    for (file, text) in files {
        let form: FileForm = read(file, text)?;
        check_version(file, form.schema)?;
        let points = resolve(file, &form.setup, &form.points, &catalogue)?;
        for (name, configuration) in points {
            let question = Question {
                configuration,
                wanted: BTreeSet::new(),
            };
            questions.insert((form.seed.clone(), name), question);
        }
        for claim in form.claim {
            enter(file, &form.seed, claim, &mut questions, &mut book)?;
        }
    }
    Ok((questions, book))
}

/// Adds one row to the questions and the book.
fn enter(
    file: &str,
    seed: &str,
    form: ClaimForm,
    questions: &mut Questions,
    book: &mut Book,
) -> Result<(), Refusal> {
    if book.uses.insert(form.id.clone(), form.usage).is_some() {
        return Err(Refusal::new(file, form.id, "occurs twice"));
    }
    match form.usage {
        Use::C | Use::V => {
            let claim = scored(file, seed, form)?;
            let mut needed = BTreeMap::new();
            claim.value.figures(&mut needed);
            for (point, metrics) in needed {
                let Some(question) = questions.get_mut(&(seed.to_string(), point.clone())) else {
                    let rule = format!("names the point \"{point}\", which is not in this file");
                    return Err(Refusal::new(file, format!("{}.value", claim.id), rule));
                };
                question.wanted.extend(metrics);
            }
            book.claims.push(claim);
        }
        Use::F => book.rules.push((form.id, form.fact)),
        Use::S => {
            let Some(inputs) = form.inputs else {
                return Err(Refusal::new(
                    file,
                    format!("{}.inputs", form.id),
                    "is missing",
                ));
            };
            book.inputs.insert(form.id, inputs);
        }
        Use::U => {
            let Some(reason) = form.reason else {
                let key = format!("{}.reason", form.id);
                return Err(Refusal::new(file, key, "is missing"));
            };
            book.remarks.insert(form.id, reason);
        }
    }
    Ok(())
}

/// A C or V row, checked for everything that scoring needs.
fn scored(file: &str, seed: &str, form: ClaimForm) -> Result<Claim, Refusal> {
    let refuse = |key: &str, rule: &str| Refusal::new(file, format!("{}.{key}", form.id), rule);
    let text = form
        .value
        .as_deref()
        .ok_or_else(|| refuse("value", "is missing"))?;
    let interval = form
        .interval
        .ok_or_else(|| refuse("interval", "is missing"))?;
    let unit = form
        .unit
        .as_deref()
        .ok_or_else(|| refuse("unit", "is missing"))?;
    if form.usage == Use::V && form.mechanism.is_none() {
        return Err(refuse(
            "mechanism",
            "is missing: a V row says what must produce it",
        ));
    }
    if !interval.is_ordered() || interval.low < 0.0 {
        return Err(refuse("interval", "must be ordered and not below 0"));
    }
    let value = Expression::parse(text).map_err(|rule| refuse("value", &rule))?;
    let found = value.unit().map_err(|rule| refuse("value", &rule))?;
    if found != Some(unit) {
        let found = found.unwrap_or("a number");
        return Err(refuse(
            "value",
            &format!("is in {found}, but unit says {unit}"),
        ));
    }
    Ok(Claim {
        seed: seed.to_string(),
        usage: form.usage,
        kind: form.kind,
        value,
        interval,
        nominal: form.nominal,
        mechanism: form.mechanism,
        id: form.id,
        fact: form.fact,
    })
}

#[cfg(test)]
mod tests;
