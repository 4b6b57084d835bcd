//! The user's prices, from a file:
//!
//! ```toml
//! schema = 1
//! currency = "EUR"
//!
//! [drive]
//! "p4510-2tb" = 210.0
//!
//! [platform]               # may be missing: then drives alone are counted
//! "epyc-9554p-24" = 9000.0
//! ```
//!
//! The program has no prices of its own: they would be out of date, and nobody pays them.

use super::super::ask::Case;
use crate::predict::library::Library;
use crate::provenance::Known;
use crate::sizing::UnitPrices;
use anyhow::{Context, Result};
use catalogue::Catalogue;
use lab::schema::document::{Refusal, check_version, read};
use lab::schema::nearest::nearest;
use lab::schema::setup::Setup;
use models::library::is_file;
use serde::de::{self, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;

/// Most letters of a currency.
const CURRENCY_LETTERS_MAX: usize = 8;

/// The form of the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Form {
    schema: u32,
    currency: String,
    drive: BTreeMap<String, Written>,
    #[serde(default)]
    platform: BTreeMap<String, Written>,
}

/// What stands behind a name: a price, or the rest of a name that has a dot but no quotes, which TOML takes for a table.
enum Written {
    Price(f64),
    RestOfName(String),
}

impl<'de> Deserialize<'de> for Written {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Written, D::Error> {
        struct Either;
        impl<'de> Visitor<'de> for Either {
            type Value = Written;

            fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
                out.write_str("a number")
            }

            fn visit_f64<E: de::Error>(self, price: f64) -> Result<Written, E> {
                Ok(Written::Price(price))
            }

            fn visit_i64<E: de::Error>(self, price: i64) -> Result<Written, E> {
                Ok(Written::Price(price as f64))
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Written, M::Error> {
                let mut rest = String::new();
                while let Some((key, IgnoredAny)) = map.next_entry::<String, IgnoredAny>()? {
                    rest = key;
                }
                Ok(Written::RestOfName(rest))
            }
        }
        deserializer.deserialize_any(Either)
    }
}

/// Prices that a plan can use: one for each of its drives.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PriceList {
    file: String,
    pub(super) currency: String,
    drives: BTreeMap<String, f64>,
    platforms: BTreeMap<String, f64>,
}

impl PriceList {
    /// The prices of a file, for the drives and platforms of `cases`.
    ///
    /// # Errors
    /// The file cannot be read, has the wrong form, names something that plans do not know, or lacks the price of a drive.
    pub(super) fn read(path: &Path, cases: &[Case], library: &Library) -> Result<PriceList> {
        let file = path.display().to_string();
        let text = std::fs::read_to_string(path);
        let text = text.with_context(|| format!("cannot read the prices {file}"))?;
        Ok(PriceList::of_text(&file, &text, cases, library)?)
    }

    pub(super) fn of_text(
        file: &str,
        text: &str,
        cases: &[Case],
        library: &Library,
    ) -> Result<PriceList, Refusal> {
        let form: Form = read(file, text)?;
        check_version(file, form.schema)?;
        check_currency(file, &form.currency)?;
        let catalogue = Catalogue::built_in();
        let setups = || cases.iter().map(|case| &case.configuration.setup);
        let drives = library.drives().map(str::to_owned);
        let sheets = catalogue.entries().flat_map(|entry| entry.drive.names());
        let drives = drives.chain(sheets.map(str::to_owned));
        let drives = drives.chain(setups().map(|setup| setup.drive.text().to_owned()));
        let platforms = library.platforms().map(str::to_owned);
        let platforms = platforms.chain(setups().map(|setup| setup.platform.text().to_owned()));
        let drive_prices = numbers(file, "drive", form.drive)?;
        let platform_prices = numbers(file, "platform", form.platform)?;
        check_names(file, "drive", &drive_prices, &drives.collect())?;
        check_names(file, "platform", &platform_prices, &platforms.collect())?;
        check_twice(file, &drive_prices, &catalogue)?;
        let list = PriceList {
            file: file.to_owned(),
            currency: form.currency,
            drives: drive_prices,
            platforms: platform_prices,
        };
        for setup in setups() {
            list.price(setup.drive.text())?;
        }
        Ok(list)
    }

    /// The drives that have a price.
    pub(super) fn drives(&self) -> impl Iterator<Item = &str> {
        self.drives.keys().map(String::as_str)
    }

    /// The price of a drive.
    pub(super) fn price(&self, drive: &str) -> Result<f64, Refusal> {
        self.priced(drive).ok_or_else(|| {
            let rule = format!("has no price of \"{drive}\", which is planned: add it");
            Refusal::new(&self.file, "drive", rule)
        })
    }

    /// The price of a drive by this name or, if it has none, by another name of the same drive in the catalogue.
    fn priced(&self, drive: &str) -> Option<f64> {
        let of = |name: &str| self.drives.get(name).copied();
        of(drive).or_else(|| {
            let catalogue = Catalogue::built_in();
            let entry = catalogue.with_id(drive).ok()?;
            entry.drive.names().find_map(of)
        })
    }

    /// The price of a platform, if it has one.
    pub(super) fn platform(&self, platform: &str) -> Option<f64> {
        self.platforms.get(platform).copied()
    }

    /// The prices for a setup of the plan, whose drives are bought as `drive`.
    ///
    /// # Panics
    /// If it is of another plan.
    pub(super) fn of(&self, drive: &str, setup: &Setup) -> UnitPrices {
        UnitPrices {
            drive: self
                .price(drive)
                .expect("the file has been checked for every drive"),
            platform: self.platform(setup.platform.text()),
        }
    }

    /// The prices as figures of the plan.
    pub(super) fn known(&self) -> Vec<Known> {
        let of = |of: &'static str, prices: &BTreeMap<String, f64>| -> Vec<Known> {
            let known = prices.iter().map(|(name, price)| Known {
                of: "size".to_owned(),
                key: format!("price of {of} {name}, {}", self.currency),
                value: Some(*price),
                drawn: None,
                status: "yours".to_owned(),
                source: self.file.clone(),
            });
            known.collect()
        };
        [of("drive", &self.drives), of("platform", &self.platforms)].concat()
    }
}

/// A currency stands between numbers and units, so it is one short word.
fn check_currency(file: &str, currency: &str) -> Result<(), Refusal> {
    let is_word = !currency.is_empty()
        && currency.chars().count() <= CURRENCY_LETTERS_MAX
        && !currency.contains(|letter: char| letter.is_whitespace() || letter.is_control());
    if is_word {
        return Ok(());
    }
    let rule = format!(
        "must be one word of at most {CURRENCY_LETTERS_MAX} letters, like \"EUR\", is {currency:?}"
    );
    Err(Refusal::new(file, "currency", rule))
}

/// The prices by name. Names of drives often have a dot, so a name without the quotes that it needs has a sentence of its own.
fn numbers(
    file: &str,
    table: &str,
    written: BTreeMap<String, Written>,
) -> Result<BTreeMap<String, f64>, Refusal> {
    let number = |(name, written)| match written {
        Written::Price(price) => Ok((name, price)),
        Written::RestOfName(rest) => {
            let rule =
                format!("is not whole: a name with a dot needs quotes, as \"{name}.{rest}\" = 100");
            Err(Refusal::new(file, format!("{table}.{name}"), rule))
        }
    };
    written.into_iter().map(number).collect()
}

/// Refuses two prices of one drive, which has several names in the catalogue.
fn check_twice(
    file: &str,
    prices: &BTreeMap<String, f64>,
    catalogue: &Catalogue,
) -> Result<(), Refusal> {
    for entry in catalogue.entries() {
        let mut priced = entry
            .drive
            .names()
            .filter(|name| prices.contains_key(*name));
        if let (Some(first), Some(second)) = (priced.next(), priced.next()) {
            let rule = format!("is the same drive as \"{first}\": give one price");
            return Err(Refusal::new(file, format!("drive.\"{second}\""), rule));
        }
    }
    Ok(())
}

fn check_names(
    file: &str,
    table: &str,
    prices: &BTreeMap<String, f64>,
    known: &BTreeSet<String>,
) -> Result<(), Refusal> {
    for (name, price) in prices {
        let key = format!("{table}.\"{name}\"");
        // A file is read when it is planned.
        if !known.contains(name) && !is_file(name) {
            let offered = nearest(name, known.iter().map(String::as_str));
            let rule = format!("is no {table} that plans know; nearest: {offered}");
            return Err(Refusal::new(file, key, rule));
        }
        if !(*price >= 0.0 && price.is_finite()) {
            return Err(Refusal::new(
                file,
                key,
                format!("must be 0 or more, is {price}"),
            ));
        }
    }
    Ok(())
}
