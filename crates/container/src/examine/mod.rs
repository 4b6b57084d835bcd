//! Everything in the metadata of each drive, uninterpreted, and what else the drive holds. Each drive is examined by
//! itself; [`crate::assemble`] says what the drives make up together.
//!
//! A drive's report has its [`record`], with the `bitmap` and the `log` of each volume on it, and its [`shadow`]. Reports
//! are data for programs and for people; drives are opened read-only.

pub mod bitmap;
pub mod log;
pub mod record;
pub mod shadow;

use crate::foreign::{Ends, search};
use crate::open::one_to_look;
use anyhow::Result;
use record::RecordReport;
use serde::Serialize;
use shadow::ShadowReport;

/// What a drive holds.
#[derive(Serialize)]
pub struct DriveReport {
    /// What the user called it.
    pub name: String,
    /// Its serial, in the form that the metadata stores.
    pub serial: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its logical sector.
    pub sector_bytes: u32,
    /// Its model, if it is a drive that has one.
    pub model: Option<String>,
    /// The record, if there is a valid one.
    pub record: Option<RecordReport>,
    /// Why the record is not valid, if there is a damaged one.
    pub damaged: Option<String>,
    /// The second copy of the record that only fullstripe keeps, if there is one.
    pub shadow: Option<ShadowReport>,
    /// Signatures of other formats. In an array, signatures at the start of the drive belong to the user's data.
    pub holds: Vec<String>,
}

/// What some drives hold.
#[derive(Serialize)]
pub struct Examined {
    /// Version of this schema: 1.
    pub version: u32,
    /// The drives that could be read.
    pub drives: Vec<DriveReport>,
    /// Drives that could not be read, a sentence each.
    pub unreadable: Vec<String>,
}

impl Examined {
    /// Whether a drive could not be read, or a record is damaged.
    #[must_use]
    pub fn is_damaged(&self) -> bool {
        !self.unreadable.is_empty() || self.drives.iter().any(|drive| drive.damaged.is_some())
    }
}

/// Examines these drives: PATH[,serial=S][,sector=N] each.
#[must_use]
pub fn examine(drives: &[String]) -> Examined {
    let mut all = Examined {
        version: 1,
        drives: Vec::new(),
        unreadable: Vec::new(),
    };
    for spec in drives {
        match look(spec) {
            Ok(report) => all.drives.push(report),
            Err(error) => all.unreadable.push(format!("{error:#}")),
        }
    }
    all
}

fn look(spec: &str) -> Result<DriveReport> {
    let probed = one_to_look(spec)?;
    let ends = Ends::read(&probed)?;
    let (record, damaged) = match &probed.found {
        Ok(Some(found)) => (Some(record::of(&probed, found)), None),
        Ok(None) => (None, None),
        Err(error) => (None, Some(error.to_string())),
    };
    Ok(DriveReport {
        name: probed.drive.name().to_owned(),
        serial: probed.serial.to_string(),
        size_bytes: probed.drive.size_bytes(),
        sector_bytes: probed.drive.sector_bytes(),
        model: probed.drive.model(),
        record,
        damaged,
        shadow: shadow::of(&probed),
        holds: search(&ends)
            .into_iter()
            .map(|finding| finding.what)
            .collect(),
    })
}
