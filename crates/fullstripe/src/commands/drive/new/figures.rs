//! The figures of a data sheet, as options and as keys of a file.

use super::super::{classes, purposes};
use anyhow::{Context, Result, ensure};
use catalogue::Entry;
use catalogue::check::UNKNOWN;
use catalogue::given::Given;
use catalogue::sheet::{Class, Kind, Purpose, Rating, Source};
use clap::Args;
use models::document::read;
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

/// What a data sheet says.
#[derive(Args, Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Figures {
    /// The maker.
    #[arg(long)]
    pub maker: Option<String>,
    /// Kind of memory; tlc unless given.
    #[arg(long, value_parser = classes())]
    pub class: Option<Class>,
    /// What the drive is made for; data-centre unless given.
    #[arg(long, value_parser = purposes())]
    pub purpose: Option<Purpose>,
    /// PCIe generation.
    #[arg(long, value_name = "N")]
    pub generation: Option<f64>,
    /// PCIe lanes; 4 unless given.
    #[arg(long, value_name = "N")]
    pub lanes: Option<f64>,
    /// Capacity as sold, like 3.84tb or 960gb.
    #[arg(long, value_name = "SIZE")]
    pub capacity: Option<Decimal>,
    /// Random reads of 4 KiB, in thousands a second.
    #[arg(long, value_name = "KIOPS")]
    pub read_kiops: Option<f64>,
    /// Random writes, in thousands a second: of 4 KiB each unless --write-size-kib says otherwise.
    #[arg(long, value_name = "KIOPS")]
    pub write_kiops: Option<f64>,
    /// Size of the random writes that --write-kiops counts, in KiB; QLC drives are often rated for 16.
    #[arg(long, value_name = "KIB")]
    pub write_size_kib: Option<f64>,
    /// Granularity of the drive's map ("indirection unit"), in KiB: smaller writes cost as much as writes of this size. 4
    /// unless given, but of QLC drives for servers a range.
    #[arg(long, value_name = "KIB")]
    pub map_unit_kib: Option<f64>,
    /// Queues for commands, without the one for administration: cores share them if there are fewer.
    #[arg(long, value_name = "QUEUES")]
    pub io_queues: Option<f64>,
    /// Sequential reads, in MB a second.
    #[arg(long, value_name = "MB/s")]
    pub read_mb_s: Option<f64>,
    /// Sequential writes, in MB a second.
    #[arg(long, value_name = "MB/s")]
    pub write_mb_s: Option<f64>,
    /// Size of the pseudo-SLC cache, like 100gb: how much can be written at the burst rate. A range of consumer drives unless given.
    #[arg(long, value_name = "SIZE")]
    pub burst_size: Option<Decimal>,
    /// Sequential writes while that cache takes them, in MB a second; --write-mb-s is then what follows.
    #[arg(long, value_name = "MB/s")]
    pub burst_write_mb_s: Option<f64>,
    /// Latency of a read of 4 KiB, in microseconds.
    #[arg(long, value_name = "US")]
    pub read_us: Option<f64>,
    /// Latency of a write of 4 KiB, in microseconds.
    #[arg(long, value_name = "US")]
    pub write_us: Option<f64>,
    /// Power while idle, in watts.
    #[arg(long, value_name = "W")]
    pub idle_w: Option<f64>,
    /// Power at most while working, in watts.
    #[arg(long, value_name = "W")]
    pub active_w: Option<f64>,
    /// Drive writes a day during the warranty.
    #[arg(long, value_name = "N")]
    pub dwpd: Option<f64>,
    /// Years of the warranty.
    #[arg(long, value_name = "N")]
    pub warranty_years: Option<f64>,
    /// Size of the clean pool, if it is known, like 3gb: how much can be written at the full rate before the drive has to clear
    /// flash.
    #[arg(long, value_name = "SIZE")]
    pub pool: Option<Decimal>,
    /// Figures that hold for a while only, like write_kiops,write_mb_s.
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', value_parser = super::super::ratings())]
    #[serde(default)]
    pub burst: Vec<Rating>,
    /// Title of the document that the figures come from.
    #[arg(long, value_name = "TITLE")]
    pub source: Option<String>,
    /// Where it was found: an http or https address.
    #[arg(long, value_name = "URL")]
    pub address: Option<String>,
    /// Its date: YYYY, YYYY-MM or YYYY-MM-DD.
    #[arg(long)]
    pub date: Option<String>,
    /// Whether the document is not the maker's but, for example, a review or a seller's page.
    #[arg(long)]
    #[serde(default)]
    pub reported: bool,
}

/// A size in decimal units, as makers of drives state it; in 10⁶ bytes.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize)]
#[serde(try_from = "String")]
pub struct Decimal(pub f64);

impl FromStr for Decimal {
    type Err = String;

    fn from_str(text: &str) -> Result<Decimal, String> {
        let lower = text.trim().to_ascii_lowercase();
        let without = lower.strip_suffix('b').unwrap_or(&lower);
        let units = [('t', 1e6), ('g', 1e3), ('m', 1.0)];
        let found = units
            .iter()
            .find_map(|(unit, factor)| Some((without.strip_suffix(*unit)?, factor)));
        let number = found.and_then(|(number, factor)| {
            let number: f64 = number.trim().parse().ok()?;
            Some(number * factor)
        });
        let valid = number.filter(|mb| mb.is_finite() && *mb > 0.0);
        valid.map(Decimal).ok_or_else(|| {
            format!("\"{text}\" is no size; give a number with mb, gb or tb, like 3.84tb")
        })
    }
}

impl TryFrom<String> for Decimal {
    type Error = String;

    fn try_from(text: String) -> Result<Decimal, String> {
        text.parse()
    }
}

/// The figures in a file.
///
/// # Errors
/// The file cannot be read, or has other keys.
pub fn of_file(path: &Path) -> Result<Figures> {
    let file = path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {file}"))?;
    Ok(read(&file, &text)?)
}

/// The rates without which there is no plan, with the options that give them.
const NEEDED: [(Rating, &str); 5] = [
    (Rating::CapacityGb, "--capacity"),
    (Rating::ReadKiops, "--read-kiops"),
    (Rating::WriteKiops, "--write-kiops"),
    (Rating::ReadMbS, "--read-mb-s"),
    (Rating::WriteMbS, "--write-mb-s"),
];

impl Figures {
    /// Takes what is missing from `other`.
    pub fn complete_from(&mut self, other: &Figures) {
        macro_rules! take {
            ($($key:ident),+) => {
                $(self.$key = self.$key.clone().or_else(|| other.$key.clone());)+
            };
        }
        take!(
            maker,
            class,
            purpose,
            generation,
            lanes,
            capacity,
            read_kiops,
            write_kiops,
            write_size_kib,
            map_unit_kib,
            io_queues,
            read_mb_s,
            write_mb_s,
            burst_size,
            burst_write_mb_s,
            read_us,
            write_us,
            idle_w,
            active_w,
            dwpd,
            warranty_years,
            pool,
            source,
            address,
            date
        );
        if self.burst.is_empty() {
            self.burst.clone_from(&other.burst);
        }
        self.reported |= other.reported;
    }

    /// The figures by what they are about.
    pub fn ratings(&self) -> BTreeMap<Rating, f64> {
        let all = [
            (
                Rating::CapacityGb,
                self.capacity.map(|Decimal(mb)| mb / 1e3),
            ),
            (Rating::ReadKiops, self.read_kiops),
            (Rating::WriteKiops, self.write_kiops),
            (Rating::WriteSizeKib, self.write_size_kib),
            (Rating::MapUnitKib, self.map_unit_kib),
            (Rating::IoQueues, self.io_queues),
            (Rating::ReadMbS, self.read_mb_s),
            (Rating::WriteMbS, self.write_mb_s),
            (Rating::BurstGb, self.burst_size.map(|Decimal(mb)| mb / 1e3)),
            (Rating::BurstWriteMbS, self.burst_write_mb_s),
            (Rating::ReadUs, self.read_us),
            (Rating::WriteUs, self.write_us),
            (Rating::IdleW, self.idle_w),
            (Rating::ActiveW, self.active_w),
            (Rating::EnduranceDwpd, self.dwpd),
            (Rating::WarrantyYears, self.warranty_years),
        ];
        let said = all.into_iter();
        said.filter_map(|(rating, value)| Some((rating, value?)))
            .collect()
    }

    /// The options that are missing for a plan. `like` is a drive from which figures may be taken.
    pub fn missing(&self, like: Option<Entry>) -> Vec<&'static str> {
        let mut missing = Vec::new();
        if self.generation.is_none() && like.is_none() {
            missing.push("--generation");
        }
        let ratings = self.ratings();
        let is_known = |rating: &Rating| {
            let of_like = like.is_some_and(|entry| entry.drive.ratings.contains_key(rating));
            of_like || ratings.contains_key(rating)
        };
        let needed = NEEDED.iter().filter(|(rating, _)| !is_known(rating));
        missing.extend(needed.map(|(_, option)| *option));
        missing
    }

    /// The drive called `name` with these figures.
    ///
    /// # Errors
    /// A figure is no positive number, or a burst is no figure of the drive.
    pub fn given(&self, name: &str, like: Option<Entry>) -> Result<Given> {
        ensure!(!name.trim().is_empty(), "the drive has no name");
        let ratings = self.ratings();
        for (rating, value) in &ratings {
            ensure!(
                *value > 0.0 && value.is_finite(),
                "{rating} is {value}: give a number above 0"
            );
        }
        for burst in &self.burst {
            ensure!(
                ratings.contains_key(burst),
                "--burst names {burst}, which is not given"
            );
        }
        let marked = ratings
            .into_iter()
            .map(|(rating, value)| (rating, (value, self.burst.contains(&rating))));
        let of_like = like.map(|entry| entry.family);
        Ok(Given {
            name: name.trim().to_owned(),
            maker: (self.maker.clone())
                .or(of_like.map(|family| family.maker.clone()))
                .unwrap_or_else(|| UNKNOWN.to_owned()),
            class: self
                .class
                .or(of_like.map(|family| family.class))
                .unwrap_or(Class::Tlc),
            purpose: (self.purpose)
                .or(of_like.map(|family| family.purpose))
                .unwrap_or(Purpose::DataCentre),
            generation: self.generation,
            lanes: self.lanes.or(like.is_none().then_some(4.0)),
            ratings: marked.collect(),
            pool_mb: self.pool.map(|Decimal(mb)| mb),
            source: self.document(name),
        })
    }

    /// The document that the figures come from.
    fn document(&self, name: &str) -> Source {
        let or_unknown = |said: &Option<String>| said.clone().unwrap_or_else(|| UNKNOWN.to_owned());
        Source {
            id: String::new(),
            kind: if self.reported {
                Kind::Reported
            } else {
                Kind::Sheet
            },
            title: (self.source.clone())
                .unwrap_or_else(|| format!("data sheet of {}", name.trim())),
            address: or_unknown(&self.address),
            date: or_unknown(&self.date),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_has_a_decimal_unit() {
        for (text, mb) in [
            ("3.84tb", 3.84e6),
            ("960 GB", 960e3),
            ("3g", 3000.0),
            ("250MB", 250.0),
        ] {
            assert_eq!(text.parse(), Ok(Decimal(mb)), "{text}");
        }
        for text in ["3840", "tb", "-1gb", "3.84tib", ""] {
            assert!(text.parse::<Decimal>().is_err(), "{text}");
        }
    }

    #[test]
    fn options_come_before_the_file() {
        let mut figures = Figures {
            read_kiops: Some(900.0),
            ..Figures::default()
        };
        let other = Figures {
            read_kiops: Some(1.0),
            write_kiops: Some(2.0),
            burst: vec![Rating::WriteKiops],
            ..Figures::default()
        };
        figures.complete_from(&other);
        assert_eq!(figures.read_kiops, Some(900.0));
        assert_eq!(figures.write_kiops, Some(2.0));
        assert_eq!(figures.burst, [Rating::WriteKiops]);
    }
}
