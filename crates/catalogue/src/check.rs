//! Refuses a family that cannot be true, and names the figures that contradict each other.

use crate::SCHEMA;
use crate::prior;
use crate::sheet::{Class, Drive, Family, Figure, Rating, Source, USUAL_WRITE_KIB};
use models::document::Refusal;
use models::port::raw_bytes_per_s;
use std::collections::BTreeSet;

/// Stands for an address or a date that a source does not have.
pub const UNKNOWN: &str = "unknown";
/// PCIe generations of NVMe drives.
const GENERATIONS: [f64; 4] = [3.0, 4.0, 5.0, 6.0];
/// Makers round, and count their random and their sequential loads separately: Optane drives are sold with writes of 4 KiB
/// that amount to 2.4 % more than their sequential writes.
const ROUNDING: f64 = 1.05;
/// Most queues that a controller can grant (NVMe base specification, feature 07h).
const QUEUES_MAX: f64 = 65_535.0;

/// A latency of 4 KiB reads, in microseconds, below which a figure has another unit or the drive another class: no drive of the
/// class in the catalogue is as fast.
fn least_read_us(class: Class) -> f64 {
    match class {
        Class::Optane => 5.0,
        Class::Slc => 20.0,
        Class::Mlc => 30.0,
        Class::Tlc => 40.0,
        Class::Qlc => 60.0,
    }
}

/// Checks a family of `file`.
///
/// # Errors
/// What no family can be, or what two of its figures contradict: one sentence with both figures.
pub fn family(file: &str, family: &Family) -> Result<(), Refusal> {
    let refuse = |key: &str, rule: String| Err(Refusal::new(file, key, rule));
    if family.schema != SCHEMA {
        let rule = format!("is {}; this program knows {SCHEMA}", family.schema);
        return refuse("schema", rule);
    }
    let mut ids = BTreeSet::new();
    for source in &family.sources {
        if !ids.insert(source.id.as_str()) {
            return refuse("source.id", format!("\"{}\" is given twice", source.id));
        }
        if let Some((key, rule)) = wrong_source(source) {
            return refuse(&format!("source \"{}\".{key}", source.id), rule);
        }
    }
    if family.drives.is_empty() {
        return refuse("drive", "is missing: a family has at least one".to_string());
    }
    let mut cited = BTreeSet::new();
    for (key, figure) in figures(family) {
        for (_, source) in figure.said() {
            if !ids.contains(source) {
                return refuse(
                    &key,
                    format!("names the source \"{source}\", which is not in the file"),
                );
            }
            cited.insert(source);
        }
    }
    if let Some(unused) = ids.difference(&cited).next() {
        return refuse(
            "source",
            format!("\"{unused}\" is the source of no figure: remove it"),
        );
    }
    prior::check(file, &family.priors)?;
    let link_mb_s = link(file, family)?;
    for drive in &family.drives {
        if let Some((key, rule)) = contradiction(family.class, link_mb_s, drive) {
            return refuse(&format!("drive \"{}\".{key}", drive.id), rule);
        }
    }
    Ok(())
}

/// Every figure of a family with its key.
fn figures(family: &Family) -> impl Iterator<Item = (String, &Figure)> {
    let link = [
        ("generation".to_string(), &family.generation),
        ("lanes".to_string(), &family.lanes),
    ];
    let drives = family.drives.iter().flat_map(|drive| {
        let ratings = drive.ratings.iter();
        ratings.map(|(rating, figure)| (format!("drive \"{}\".{rating}", drive.id), figure))
    });
    link.into_iter().chain(drives)
}

/// What is wrong with a source: the key, and the rest of a sentence.
#[must_use]
pub fn wrong_source(source: &Source) -> Option<(&'static str, String)> {
    if source.title.trim().is_empty() {
        return Some(("title", "is empty".to_string()));
    }
    let is_address = ["https://", "http://"]
        .iter()
        .any(|scheme| source.address.starts_with(scheme));
    if !is_address && source.address != UNKNOWN {
        let rule = format!(
            "is \"{}\": give an http or https address, or \"{UNKNOWN}\"",
            source.address
        );
        return Some(("address", rule));
    }
    if source.date != UNKNOWN && !is_date(&source.date) {
        let rule = format!(
            "is \"{}\": give YYYY, YYYY-MM, YYYY-MM-DD or \"{UNKNOWN}\"",
            source.date
        );
        return Some(("date", rule));
    }
    None
}

/// Whether a text is a year, a month or a day.
fn is_date(text: &str) -> bool {
    let parts: Vec<&str> = text.split('-').collect();
    let is_number = |part: &str, digits: usize, range: std::ops::RangeInclusive<u32>| {
        part.len() == digits && part.parse().is_ok_and(|number| range.contains(&number))
    };
    let [year, rest @ ..] = parts.as_slice() else {
        return false;
    };
    let ranges = [1..=12, 1..=31];
    is_number(year, 4, 1990..=2100)
        && rest.len() <= ranges.len()
        && rest
            .iter()
            .zip(ranges)
            .all(|(part, range)| is_number(part, 2, range))
}

/// What the link carries in a second, in 10⁶ bytes.
fn link(file: &str, family: &Family) -> Result<f64, Refusal> {
    let generation = family.generation.high();
    if !GENERATIONS.contains(&generation) {
        let rule = format!("is {generation}; drives have 3 to 6");
        return Err(Refusal::new(file, "generation", rule));
    }
    let lanes = family.lanes.high();
    if ![1.0, 2.0, 4.0, 8.0, 16.0].contains(&lanes) {
        let rule = format!("is {lanes}; drives have 1, 2, 4, 8 or 16");
        return Err(Refusal::new(file, "lanes", rule));
    }
    Ok(raw_bytes_per_s(lanes as u64, generation as u64) as f64 / 1e6)
}

/// A value of a figure that no map unit has, nor any write that a sheet counts: such sizes are powers of two.
fn no_size_of_map_units(figure: &Figure) -> Option<f64> {
    let is_size = |kib: f64| {
        (4.0..=1024.0).contains(&kib) && kib.fract() == 0.0 && (kib as u64).is_power_of_two()
    };
    let values = figure.said().map(|(value, _)| value);
    values.into_iter().find(|kib| !is_size(*kib))
}

/// A value of a figure that no drive has as its number of queues.
fn no_number_of_queues(figure: &Figure) -> Option<f64> {
    let is_number = |queues: f64| (1.0..=QUEUES_MAX).contains(&queues) && queues.fract() == 0.0;
    let mut values = figure.said().map(|(value, _)| value);
    values.find(|queues| !is_number(*queues))
}

/// The first contradiction between the figures of a pseudo-SLC cache and others.
fn contradiction_of_burst(link_mb_s: f64, drive: &Drive) -> Option<(Rating, String)> {
    let low = |rating| drive.ratings.get(&rating).map(Figure::low);
    if let (Some(burst), Some(then)) = (low(Rating::BurstWriteMbS), low(Rating::WriteMbS)) {
        if drive.ratings[&Rating::WriteMbS].is_burst {
            let rule = format!("is {burst}; but {} is a burst too", Rating::WriteMbS);
            return Some((Rating::BurstWriteMbS, rule));
        }
        if burst < then {
            let rule = format!("is {burst}; but {} is {then}", Rating::WriteMbS);
            return Some((Rating::BurstWriteMbS, rule));
        }
    }
    for (rating, most, what) in [
        (Rating::BurstWriteMbS, Some(link_mb_s), "the link carries"),
        (Rating::BurstGb, low(Rating::CapacityGb), "capacity_gb is"),
    ] {
        if let (Some(value), Some(most)) = (low(rating), most)
            && value > most
        {
            let rule = format!("is {value}; but {what} {most:.0}");
            return Some((rating, rule));
        }
    }
    None
}

/// The first contradiction within a drive's figures: the key, and the rest of a sentence.
fn contradiction(class: Class, link_mb_s: f64, drive: &Drive) -> Option<(Rating, String)> {
    let low = |rating| drive.ratings.get(&rating).map(Figure::low);
    if low(Rating::CapacityGb).is_none() {
        return Some((Rating::CapacityGb, "is missing".to_string()));
    }
    for rating in [Rating::WriteSizeKib, Rating::MapUnitKib] {
        let figure = drive.ratings.get(&rating);
        if let Some(bad) = figure.and_then(no_size_of_map_units) {
            let rule = format!("is {bad}: give a power of two from 4 to 1024");
            return Some((rating, rule));
        }
    }
    let io_queues = drive.ratings.get(&Rating::IoQueues);
    if let Some(bad) = io_queues.and_then(no_number_of_queues) {
        let rule = format!("is {bad}: give a whole number from 1 to {QUEUES_MAX}");
        return Some((Rating::IoQueues, rule));
    }
    for (random, sequential, kib) in [
        (Rating::ReadKiops, Rating::ReadMbS, USUAL_WRITE_KIB),
        (Rating::WriteKiops, Rating::WriteMbS, drive.write_size_kib()),
    ] {
        let random_mb_s = low(random).map(|kiops| (kiops, kiops * kib * 1.024));
        // What is rated for random writes may be what the cache takes.
        let cached = drive.ratings.get(&Rating::BurstWriteMbS);
        let cached = cached.filter(|_| sequential == Rating::WriteMbS);
        let most = drive.ratings.get(&sequential).map(Figure::high);
        let most = most.map(|most| cached.map_or(most, |cached| most.max(cached.high())));
        if let (Some((kiops, mb_s)), Some(most)) = (random_mb_s, most)
            && mb_s > most * ROUNDING
        {
            let rule = format!(
                "is {kiops}, which with {kib} KiB each is {mb_s:.0} MB/s; but {sequential} is {most}"
            );
            return Some((random, rule));
        }
        if let Some((kiops, mb_s)) = random_mb_s
            && mb_s > link_mb_s
        {
            let rule = format!(
                "is {kiops}, which with {kib} KiB each is {mb_s:.0} MB/s; but the link carries {link_mb_s:.0}"
            );
            return Some((random, rule));
        }
        if let Some(mb_s) = low(sequential)
            && mb_s > link_mb_s
        {
            let rule = format!("is {mb_s}; but the link carries {link_mb_s:.0}");
            return Some((sequential, rule));
        }
    }
    if let Some(found) = contradiction_of_burst(link_mb_s, drive) {
        return Some(found);
    }
    if let Some(us) = low(Rating::ReadUs)
        && us < least_read_us(class)
    {
        let rule = format!(
            "is {us}; but class is {class}, and the fastest such drives take more than {}",
            least_read_us(class)
        );
        return Some((Rating::ReadUs, rule));
    }
    if let (Some(idle), Some(active)) = (low(Rating::IdleW), drive.ratings.get(&Rating::ActiveW))
        && idle > active.high()
    {
        let rule = format!("is {idle}; but {} is {}", Rating::ActiveW, active.high());
        return Some((Rating::IdleW, rule));
    }
    None
}
