//! Which rules about shapes an array breaks.

use crate::array::{Array, Place};
use crate::policy::{Policy, Shape};
use serde::{Deserialize, Serialize};

/// A rule that an array breaks, or of which that cannot be said.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Broken {
    /// The rule, as a sentence without its full stop.
    pub rule: String,
    /// What of the array breaks it, as a sentence without its full stop.
    pub because: String,
    /// Whether the array breaks it for certain; otherwise it cannot be seen where drives are connected.
    pub is_certain: bool,
    /// The publication, by id.
    pub publication: String,
}

/// The rules that `array` breaks, in the order of the file.
#[must_use]
pub fn broken(policy: &Policy, array: &Array) -> Vec<Broken> {
    let about = policy.shapes.iter().filter(|row| {
        let is_of = |level| level == array.level;
        let is_for = |purpose| purpose == array.purpose;
        row.level.is_none_or(is_of) && row.purpose.is_none_or(is_for)
    });
    let broken = about.filter_map(|row| {
        let (is_certain, because) = why(row, array)?;
        Some(Broken {
            rule: row.says.clone(),
            because,
            is_certain,
            publication: row.publication.clone(),
        })
    });
    broken.collect()
}

fn why(row: &Shape, array: &Array) -> Option<(bool, String)> {
    let plain = of_level(row, array)
        .or_else(|| of_drives(row, array))
        .or_else(|| of_chunk(row, array))
        .or_else(|| of_volumes(row, array));
    plain
        .map(|because| (true, because))
        .or_else(|| of_places(row, array))
}

fn of_level(row: &Shape, array: &Array) -> Option<String> {
    let level = array.level;
    let levels = row.levels.as_ref()?;
    (!levels.contains(&level)).then(|| format!("this one has level {level}"))
}

fn of_drives(row: &Shape, array: &Array) -> Option<String> {
    let drives = array.members.len();
    let is_outside = row.drives.is_some_and(|range| !is_in(range, drives));
    let is_odd = row.even && !drives.is_multiple_of(2);
    let because = || format!("this one has {}", words::count(drives, "drive"));
    (is_outside || is_odd).then(because)
}

fn of_chunk(row: &Shape, array: &Array) -> Option<String> {
    let (range, chunk_kib) = (row.chunk_kib?, array.chunk_kib?);
    (!is_in(range, chunk_kib)).then(|| format!("this one has chunks of {chunk_kib} KiB"))
}

fn of_volumes(row: &Shape, array: &Array) -> Option<String> {
    let (range, volumes) = (row.volumes?, array.volumes);
    (!is_in(range, volumes)).then(|| format!("this one would have {volumes}"))
}

fn of_places(row: &Shape, array: &Array) -> Option<(bool, String)> {
    let places = array.places();
    if row.unmixed {
        return of_mixture(array);
    }
    let range = row.domains?;
    let domains = array.domains();
    if domains.len() > range[1] {
        let names: Vec<&str> = domains.into_iter().collect();
        return Some((
            true,
            format!("its drives are behind {}", words::and(&names)),
        ));
    }
    if range[0] == 0 {
        return None;
    }
    if places.contains(&Place::Outside) {
        let outside = first_in(array, &Place::Outside);
        return Some((true, format!("{outside} is behind no VMD")));
    }
    unseen(array)
}

/// Drives behind VMDs beside others.
fn of_mixture(array: &Array) -> Option<(bool, String)> {
    let places = array.places();
    if array.domains().is_empty() {
        return None;
    }
    if places.contains(&Place::Outside) {
        let outside = first_in(array, &Place::Outside);
        return Some((true, format!("{outside} is behind no VMD, and others are")));
    }
    unseen(array)
}

/// Drives of which it cannot be seen where they are connected.
fn unseen(array: &Array) -> Option<(bool, String)> {
    let first = first_in(array, &Place::Unseen);
    let because = format!("it cannot be seen where {first} is connected");
    (!first.is_empty()).then_some((false, because))
}

/// The name of the first drive in a place; empty if there is none.
fn first_in<'a>(array: &'a Array, place: &Place) -> &'a str {
    let first = array.members.iter().find(|member| member.place == *place);
    first.map_or("", |member| &member.name)
}

fn is_in<T: PartialOrd>([least, most]: [T; 2], value: T) -> bool {
    least <= value && value <= most
}
