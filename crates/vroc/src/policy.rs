//! The form of the file of publications, and its check.
//!
//! ```toml
//! schema = 1
//!
//! [[publication]]              # id, kind, title, address and date, as a source of the catalogue
//! id = "review"
//!
//! [[key]]                      # what one publication says of one key
//! publication = "review"
//! where = "page 3"
//! key = "standard"
//! levels = [0, 1, 10]
//!
//! [[shape]]                    # a rule of one publication, and what it refuses
//! publication = "review"
//! says = "RAID 1 has exactly two drives"
//! level = 1
//! drives = [2, 2]
//! ```

use crate::array::Purpose;
use catalogue::check::wrong_source;
use catalogue::sheet::{self, Source};
use models::document::{Refusal, read};
use serde::Deserialize;

/// The version of the form.
pub const SCHEMA: u32 = 1;
/// The file that comes with the program.
pub const FILE: (&str, &str) = (
    "profiles/policies/vroc.toml",
    include_str!("../../../profiles/policies/vroc.toml"),
);

/// All that is said.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Policy {
    schema: u32,
    /// The documents.
    #[serde(rename = "publication")]
    pub publications: Vec<Source>,
    /// What they say of keys.
    #[serde(rename = "key")]
    pub keys: Vec<Key>,
    /// What they say of shapes.
    #[serde(rename = "shape")]
    pub shapes: Vec<Shape>,
}

/// Which drives a key takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Drives {
    /// No drive: there is no RAID with this key.
    None,
    /// Drives of every maker.
    Any,
    /// Drives of the makers and for the purposes that the row names.
    OfMaker,
}

/// What a publication says of one key. What it does not say is absent.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Key {
    /// The publication, by id.
    pub publication: String,
    /// Where in it.
    pub r#where: String,
    /// The key; `none` without one.
    pub key: String,
    /// The days for which it holds.
    pub days: Option<u32>,
    /// The tool whose answer this is; absent if it holds for every tool.
    pub tool: Option<String>,
    /// The levels that it has.
    pub levels: Option<Vec<u8>>,
    /// The drives that it takes.
    pub drives: Option<Drives>,
    /// Their makers.
    #[serde(default)]
    pub makers: Vec<String>,
    /// What they are made for; empty for every purpose.
    #[serde(default)]
    pub purposes: Vec<sheet::Purpose>,
    /// What is said of professional drives of these makers, if `purposes` does not tell them from others.
    pub professional: Option<String>,
    /// Words in the names of drives that it was seen to take.
    #[serde(default)]
    pub takes: Vec<String>,
    /// Words in the names of drives that it was seen to refuse.
    #[serde(default)]
    pub refuses: Vec<String>,
    /// What else is said.
    pub note: Option<String>,
}

/// A rule about the shape of an array. It is about arrays of its `level` and `purpose`, or of all; ranges have their least and
/// their greatest value.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shape {
    /// The publication, by id.
    pub publication: String,
    /// The rule, as a sentence without its full stop.
    pub says: String,
    /// The level that it is about.
    pub level: Option<u8>,
    /// What arrays it is about are for.
    pub purpose: Option<Purpose>,
    /// The levels that there are.
    pub levels: Option<Vec<u8>>,
    /// How many drives a volume has; 256 is no limit, which is more than an array can have.
    pub drives: Option<[usize; 2]>,
    /// Whether the number of drives is even.
    #[serde(default)]
    pub even: bool,
    /// Chunk sizes.
    pub chunk_kib: Option<[u32; 2]>,
    /// How many volumes are on the same drives.
    pub volumes: Option<[usize; 2]>,
    /// How many VMDs have drives of the array; with at least one, no drive is elsewhere.
    pub domains: Option<[usize; 2]>,
    /// Whether drives behind VMDs and others are kept apart.
    #[serde(default)]
    pub unmixed: bool,
}

impl Policy {
    /// What comes with the program.
    ///
    /// # Panics
    /// If its file has a mistake, which a test excludes.
    #[must_use]
    pub fn built_in() -> Policy {
        Policy::read(FILE.0, FILE.1).expect("a test reads the file")
    }

    /// The policy in `text`, the content of `file`.
    ///
    /// # Errors
    /// It is not of this form, or a row contradicts itself or names no publication of the file: one sentence with file and key.
    pub fn read(file: &str, text: &str) -> Result<Policy, Refusal> {
        let policy: Policy = read(file, text)?;
        policy.check(file)?;
        Ok(policy)
    }

    /// The publication of a row.
    ///
    /// # Panics
    /// If there is none, which [`Policy::read`] refuses.
    #[must_use]
    pub fn publication(&self, id: &str) -> &Source {
        let found = self.publications.iter().find(|source| source.id == id);
        found.expect("the file has been checked")
    }

    fn check(&self, file: &str) -> Result<(), Refusal> {
        let refuse = |key: String, rule: String| Err(Refusal::new(file, key, rule));
        if self.schema != SCHEMA {
            let rule = format!("is {}; this program knows {SCHEMA}", self.schema);
            return refuse("schema".to_owned(), rule);
        }
        for (at, source) in self.publications.iter().enumerate() {
            if self.publications[..at]
                .iter()
                .any(|other| other.id == source.id)
            {
                let rule = format!("\"{}\" is given twice", source.id);
                return refuse("publication.id".to_owned(), rule);
            }
            if let Some((key, rule)) = wrong_source(source) {
                return refuse(format!("publication \"{}\".{key}", source.id), rule);
            }
        }
        let of_keys = self.keys.iter().map(|row| ("key", &row.publication));
        let of_shapes = self.shapes.iter().map(|row| ("shape", &row.publication));
        for (list, id) in of_keys.chain(of_shapes) {
            if !self.publications.iter().any(|source| source.id == *id) {
                let rule = format!("is \"{id}\", which is not in the file");
                return refuse(format!("{list}.publication"), rule);
            }
        }
        for source in &self.publications {
            let of_keys = self.keys.iter().map(|row| &row.publication);
            let mut cited = of_keys.chain(self.shapes.iter().map(|row| &row.publication));
            if !cited.any(|id| *id == source.id) {
                let rule = "is cited by no row: remove it".to_owned();
                return refuse(format!("publication \"{}\"", source.id), rule);
            }
        }
        for row in &self.keys {
            if (row.drives == Some(Drives::OfMaker)) == row.makers.is_empty() {
                let rule = "and makers go together: drives is \"of-maker\" if makers are named, and only then";
                return refuse(format!("key \"{}\".drives", row.key), rule.to_owned());
            }
        }
        for row in &self.shapes {
            if !row.refuses_something() {
                let rule = "refuses nothing: give what it limits".to_owned();
                return refuse(format!("shape \"{}\"", row.says), rule);
            }
        }
        Ok(())
    }
}

impl Shape {
    fn refuses_something(&self) -> bool {
        let ranges = [self.drives, self.volumes, self.domains];
        ranges.iter().any(Option::is_some)
            || self.chunk_kib.is_some()
            || self.levels.is_some()
            || self.even
            || self.unmixed
    }
}
