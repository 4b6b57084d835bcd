//! Where the figures come from that a plan is computed from: every number of its drives, platforms and hosts, with its source.
//!
//! | status | meaning |
//! |---|---|
//! | sheet | a specification, or computed from specifications alone |
//! | reported | said by the press, a seller or another than the maker |
//! | fitted | fitted to published results by a documented command |
//! | prior | the usual value of such a thing; drawn from a range if the drive is known from its data sheet only |
//! | measured | counted or measured with this program |
//! | formula | no number: how others are computed |
//! | yours | an option, or a file of the user |

use models::profile::{Family, Figure};
use models::tables::Tables;
use serde::{Deserialize, Serialize};

/// A number, and where it comes from.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Known {
    /// What it is a number of: `drive p4510-2tb`.
    pub of: String,
    /// Its key, with the table. The last word is the unit.
    pub key: String,
    /// The number; of what is drawn, the usual one. Missing of a whole table.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<f64>,
    /// The least and the largest value over all draws, if they differ.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn: Option<(f64, f64)>,
    /// The status: see the table above.
    pub status: String,
    /// The document, claim, command or reasoning behind it.
    pub source: String,
}

/// What the engine's work costs.
#[must_use]
pub fn of_engine() -> Known {
    Known {
        of: "stack fullstripe".to_owned(),
        key: "instructions of each kind of request".to_owned(),
        value: None,
        drawn: None,
        status: "measured".to_owned(),
        source: "profiles/costs.json, counted by \"fullstripe bench --cost-table\"".to_owned(),
    }
}

/// Every figure of a file about `of`.
#[must_use]
pub fn of_file(of: &str, file: &dyn Tables) -> Vec<Known> {
    let mut all = Vec::new();
    file.each_figure(&mut |table, key, figure: &Figure| {
        all.push(Known {
            of: of.to_owned(),
            key: format!("{table}.{key}"),
            value: Some(figure.value),
            drawn: None,
            status: figure.r#use.word().to_owned(),
            source: figure.source.clone(),
        });
    });
    all
}

/// Every figure of a family's drive `id`, which plans call `name`.
#[must_use]
pub fn of_drive(name: &str, family: &Family, id: &str) -> Vec<Known> {
    let mut only = family.clone();
    only.members.retain(|member| member.id == id);
    let mut all = of_file(&format!("drive {name}"), &only);
    let own = format!("{id}.");
    for known in &mut all {
        if let Some(key) = known.key.strip_prefix(&own) {
            known.key = format!("ratings.{key}");
        }
    }
    all
}

/// Every figure of a drive that is drawn: those of the usual one, with the range over `draws`.
#[must_use]
pub fn of_draws(name: &str, usual: &Family, draws: &[Family], id: &str) -> Vec<Known> {
    let mut all = of_drive(name, usual, id);
    for draw in draws {
        let drawn = of_drive(name, draw, id);
        assert_eq!(
            all.len(),
            drawn.len(),
            "{name}: draws have the same figures"
        );
        for (known, drawn) in all.iter_mut().zip(drawn) {
            let (Some(usual), Some(value)) = (known.value, drawn.value) else {
                continue;
            };
            let (low, high) = known.drawn.unwrap_or((usual, usual));
            known.drawn = Some((low.min(value), high.max(value)));
        }
    }
    for known in &mut all {
        known.drawn = known.drawn.filter(|(low, high)| low < high);
    }
    all
}

#[cfg(test)]
mod tests {
    use crate::files::add_from_catalogue;
    use crate::predict::library::Library;
    use catalogue::Catalogue;
    use lab::claims::book::{Use, frozen};
    use lab::schema::setup::{Reference, Setup};

    /// Ids of claims in a text, like O-13.
    fn claims(text: &str) -> Vec<&str> {
        let words = text.split(|letter: char| !letter.is_ascii_alphanumeric() && letter != '-');
        let is_id = |word: &&str| {
            let (letter, number) = word.split_once('-').unwrap_or_default();
            letter.len() == 1 && number.len() == 2 && number.parse::<u8>().is_ok()
        };
        words.filter(is_id).collect()
    }

    #[test]
    fn no_drive_of_the_catalogue_takes_a_figure_from_the_evidence() {
        let (_, book) = frozen().expect("the claims are there");
        let mut library = Library::default();
        let (mut drives, mut cited) = (0, 0);
        for entry in Catalogue::built_in().entries() {
            if catalogue::profile::missing(entry.drive).is_empty() {
                add_from_catalogue(&mut library, &entry.drive.id).expect("it has all rates");
                drives += 1;
            }
            let setup = Setup {
                drive: Reference::from(entry.drive.id.clone()),
                count: 1,
                level: lab::schema::setup::Level::Single,
                platform: Reference::from("oakgate".to_owned()),
                host: "appliance".to_owned(),
                stack: "none".to_owned(),
                chunk_kib: None,
                engine_cores: None,
                export: None,
                condition: None,
                rebuild_mb_s: None,
            };
            for known in library.provenance(&setup) {
                let is_drive = known.of.starts_with("drive ");
                for claim in claims(&known.source).iter().filter(|_| is_drive) {
                    assert_ne!(
                        book.use_of(claim),
                        Some(Use::V),
                        "{} {}",
                        known.of,
                        known.key
                    );
                    cited += 1;
                }
            }
        }
        assert!(
            drives >= 30 && cited > 0,
            "{drives} drives cite {cited} claims"
        );
    }
}
