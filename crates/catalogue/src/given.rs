//! A drive as a user gives it: the figures of a data sheet in hand, and perhaps a drive of the catalogue that it is like.

use crate::prior::{Prior, Priors, Range};
use crate::sheet::{Class, Drive, Family, Figure, Purpose, Rating, Source};
use crate::{Entry, SCHEMA};
use std::collections::BTreeMap;

/// The id of the source that a user's figures come from.
const SOURCE: &str = "sheet";

/// What a user says of a drive.
#[derive(Clone, Debug, PartialEq)]
pub struct Given {
    /// The name by which plans and lists call it.
    pub name: String,
    /// The maker.
    pub maker: String,
    /// The kind of memory.
    pub class: Class,
    /// What it is made for.
    pub purpose: Purpose,
    /// PCIe generation; `None` for that of the drive that it is like.
    pub generation: Option<f64>,
    /// PCIe lanes; `None` for those of the drive that it is like.
    pub lanes: Option<f64>,
    /// Figures, and whether each is a burst.
    pub ratings: BTreeMap<Rating, (f64, bool)>,
    /// Size of the clean pool in 10⁶ bytes, if it is known.
    pub pool_mb: Option<f64>,
    /// Where the figures come from. Its id does not count.
    pub source: Source,
}

/// The id of a drive called `name`: lower case, a hyphen for each blank.
#[must_use]
pub fn id_of(name: &str) -> String {
    let words: Vec<&str> = name.split_whitespace().collect();
    words.join("-").to_lowercase()
}

impl Given {
    /// The drive as a family of one, with all its priors written out. What is not given comes from `like`.
    ///
    /// # Panics
    /// If generation or lanes are neither given nor known from `like`.
    #[must_use]
    pub fn family(&self, like: Option<Entry>) -> Family {
        let figure = |value: f64, is_burst| Figure::one(value, SOURCE, is_burst);
        let link = |given: Option<f64>, of_like: fn(&Family) -> &Figure| {
            let like = like.map(|entry| of_like(entry.family).clone());
            let given = given.map(|value| figure(value, false));
            given.or(like).expect("given, or known of a like drive")
        };
        let mut ratings = like.map_or_else(BTreeMap::new, |entry| entry.drive.ratings.clone());
        if self.ratings.contains_key(&Rating::WriteKiops) {
            // A rate that is given counts writes of the size that is given with it, not of the like drive's.
            ratings.remove(&Rating::WriteSizeKib);
        }
        for (rating, (value, is_burst)) in &self.ratings {
            ratings.insert(*rating, figure(*value, *is_burst));
        }
        let mut family = Family {
            schema: SCHEMA,
            name: self.name.clone(),
            maker: self.maker.clone(),
            class: self.class,
            purpose: self.purpose,
            generation: link(self.generation, |family| &family.generation),
            lanes: link(self.lanes, |family| &family.lanes),
            sources: Vec::new(),
            drives: vec![Drive {
                aliases: Vec::new(),
                id: id_of(&self.name),
                models: Vec::new(),
                ratings,
            }],
            priors: like.map_or_else(BTreeMap::new, |entry| entry.family.priors.clone()),
        };
        family.sources = self.cited(&family, like);
        family.priors = self.priors(&family);
        family
    }

    /// The sources that the figures name.
    fn cited(&self, family: &Family, like: Option<Entry>) -> Vec<Source> {
        let figures = family.drives[0].ratings.values();
        let figures = figures.chain([&family.generation, &family.lanes]);
        let ids: Vec<&str> = figures
            .flat_map(|figure| figure.said().map(|(_, source)| source))
            .collect();
        let own = Source {
            id: SOURCE.to_owned(),
            ..self.source.clone()
        };
        let of_like = like.into_iter().flat_map(|entry| &entry.family.sources);
        let all = of_like
            .filter(|source| source.id != SOURCE)
            .cloned()
            .chain([own]);
        all.filter(|source| ids.contains(&source.id.as_str()))
            .collect()
    }

    /// The priors of what the sheet does not say.
    fn priors(&self, family: &Family) -> BTreeMap<Prior, Range> {
        let all = Priors::of(family);
        let ratings = &family.drives[0].ratings;
        let has_burst = ratings.values().any(|figure| figure.is_burst);
        let has_cache = all.range(Prior::BurstShare).high > 0.0;
        let says_burst = ratings.contains_key(&Rating::BurstWriteMbS);
        let is_wanted = |prior: &Prior| {
            let is_said = Rating::ALL
                .iter()
                .any(|(rating, word)| *word == prior.word() && ratings.contains_key(rating));
            match prior {
                // It is used for the rate of the cache, too.
                Prior::SteadyShare => has_burst || (has_cache && !says_burst),
                Prior::BurstShare => has_cache && !ratings.contains_key(&Rating::BurstGb),
                _ => !is_said,
            }
        };
        let wanted = Prior::ALL.iter().map(|(prior, _)| *prior).filter(is_wanted);
        let mut priors: BTreeMap<Prior, Range> = wanted
            .map(|prior| (prior, all.range(prior).clone()))
            .collect();
        if let (Some(pool_mb), Some(capacity)) = (self.pool_mb, ratings.get(&Rating::CapacityGb)) {
            let ppm = pool_mb * 1000.0 / capacity.low();
            let range = Range {
                low: ppm,
                usual: ppm,
                high: ppm,
                source: format!("given: {pool_mb} MB"),
            };
            priors.insert(Prior::PoolPpm, range);
        }
        priors
    }
}
