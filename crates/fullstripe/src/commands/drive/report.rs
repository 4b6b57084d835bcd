//! What the three commands print: a drive as JSON, and figures as text.

use catalogue::Entry;
use catalogue::sheet::{Figure, Kind, Rating, Source, USUAL_WRITE_KIB};
use serde::Serialize;
use std::collections::BTreeMap;

/// Drives, as JSON.
#[derive(Serialize)]
pub struct DrivesReport<'a> {
    /// Version of this schema: 1.
    pub version: u32,
    pub drives: Vec<DriveReport<'a>>,
}

/// One drive, as JSON.
#[derive(Serialize)]
pub struct DriveReport<'a> {
    pub id: &'a str,
    pub family: &'a str,
    pub maker: &'a str,
    pub class: &'static str,
    pub purpose: &'static str,
    pub generation: Said<'a>,
    pub lanes: Said<'a>,
    /// By key; a figure that no source gives is absent.
    pub ratings: BTreeMap<Rating, Said<'a>>,
    /// Whether there is a profile with this id, so that `plan --drive` gives figures.
    pub has_profile: bool,
    /// Rates without which `plan --drive` cannot plan from the data sheet; empty if it can.
    pub missing: Vec<Rating>,
}

/// A figure with the sources of its values.
#[derive(Serialize)]
pub struct Said<'a> {
    /// The least and the largest value; the same unless sources disagree.
    pub low: f64,
    pub high: f64,
    /// Whether it holds for a while only ([`Figure::is_burst`]).
    pub burst: bool,
    pub values: Vec<SaidBy<'a>>,
}

/// A value and who says so.
#[derive(Serialize)]
pub struct SaidBy<'a> {
    pub value: f64,
    pub source: &'a Source,
}

impl<'a> DrivesReport<'a> {
    pub fn of(entries: impl IntoIterator<Item = Entry<'a>>) -> DrivesReport<'a> {
        DrivesReport {
            version: 1,
            drives: entries.into_iter().map(DriveReport::of).collect(),
        }
    }
}

impl<'a> DriveReport<'a> {
    fn of(entry: Entry<'a>) -> DriveReport<'a> {
        let Entry { family, drive } = entry;
        let ratings = drive.ratings.iter();
        DriveReport {
            id: &drive.id,
            family: &family.name,
            maker: &family.maker,
            class: family.class.word(),
            purpose: family.purpose.word(),
            generation: said(entry, &family.generation),
            lanes: said(entry, &family.lanes),
            ratings: ratings
                .map(|(rating, figure)| (*rating, said(entry, figure)))
                .collect(),
            has_profile: has_profile(entry),
            missing: catalogue::profile::missing(drive),
        }
    }
}

/// Whether `plan --drive` has a profile of a drive.
pub fn has_profile(entry: Entry) -> bool {
    let mut names = entry.drive.names();
    names.any(|name| models::library::with_id(name).is_ok())
}

fn said<'a>(entry: Entry<'a>, figure: &'a Figure) -> Said<'a> {
    let values = figure.said().map(|(value, source)| SaidBy {
        value,
        source: source_of(entry, source),
    });
    Said {
        low: figure.low(),
        high: figure.high(),
        burst: figure.is_burst,
        values: values.collect(),
    }
}

/// The source with this id, of those of the drive's family.
pub fn source_of<'a>(entry: Entry<'a>, id: &str) -> &'a Source {
    let source = entry.family.source(id);
    source.expect("the catalogue has the source of each figure")
}

/// A value as people write it: without needless digits.
pub fn number(value: f64) -> String {
    value.to_string()
}

/// A figure as text: `900`, `900 to 930` if sources disagree, `5000*` for a burst, `-` for one that no source gives.
pub fn figure(figure: Option<&Figure>) -> String {
    let Some(figure) = figure else {
        return "-".to_owned();
    };
    let (low, high) = (number(figure.low()), number(figure.high()));
    let mark = if figure.is_burst { "*" } else { "" };
    if low == high {
        format!("{low}{mark}")
    } else {
        format!("{low} to {high}{mark}")
    }
}

/// A rating as text. The size of random writes is told where it is not the usual one: `38 (16 KiB)`.
pub fn rating(entry: Entry, rating: Rating) -> String {
    let text = figure(entry.drive.ratings.get(&rating));
    let kib = entry.drive.write_size_kib();
    if rating == Rating::WriteKiops && text != "-" && kib != USUAL_WRITE_KIB {
        format!("{text} ({kib} KiB)")
    } else {
        text
    }
}

/// The capacity as sold: `960 GB`, `3.84 TB`.
pub fn capacity(entry: Entry) -> String {
    let gb = entry.drive.capacity_gb();
    if gb < 1000.0 {
        format!("{} GB", number(gb))
    } else {
        format!("{} TB", number(gb / 1000.0))
    }
}

/// The link: `4.0 x4`.
pub fn link(entry: Entry) -> String {
    let Entry { family, .. } = entry;
    format!("{}.0 x{}", family.generation.low(), family.lanes.low())
}

/// Who says what is known of a drive: `sheet`, `reported`, or `both`.
pub fn who(entry: Entry) -> &'static str {
    let figures = entry.drive.ratings.values();
    let sources = figures.flat_map(Figure::said);
    let (sheets, reports): (Vec<Kind>, Vec<Kind>) = sources
        .map(|(_, source)| source_of(entry, source).kind)
        .partition(|kind| *kind == Kind::Sheet);
    match (sheets.is_empty(), reports.is_empty()) {
        (false, true) => "sheet",
        (true, _) => "reported",
        (false, false) => "both",
    }
}

/// The line that explains the mark of [`figure`], if one of the drives has it.
pub fn note_on_bursts<'a>(entries: impl IntoIterator<Item = Entry<'a>>) -> &'static str {
    let mut figures = entries
        .into_iter()
        .flat_map(|entry| entry.drive.ratings.values());
    if figures.any(|figure| figure.is_burst) {
        "* for a while only: until a cache is full, or until the drive has to clear flash as it writes\n"
    } else {
        ""
    }
}
