//! Finds what other programs keep on a drive: file systems, partition tables, other RAID and volume managers.
//!
//! All of these have a mark in the first or the last MiB of a drive, so both are read
//! once ([`Ends`]) and searched: [`signatures`] is a table of marks at fixed places, [`structures`] finds those that
//! need further checks. Data without any mark is not noticed.
//!
//! Places and values come from the published documents of the formats; each entry names the structure it belongs to.

pub mod signatures;
pub mod structures;
#[cfg(test)]
mod tests;

use crate::probe::Probed;
use anyhow::{Context, Result};
use drives::drive::Drive;
use std::ops::Range;
use words::and;

/// How much of each end of a drive is searched, and saved before it is overwritten.
pub const END_BYTES: u64 = 1 << 20;

/// Something found on a drive.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// What it is, with an article: `an ext4 file system (label "home")`.
    pub what: String,
    /// Bytes by which programs recognise it; once they are cleared, programs no longer find it.
    pub marks: Vec<Range<u64>>,
}

impl Finding {
    /// A finding with one mark.
    #[must_use]
    pub fn at(what: impl Into<String>, offset_bytes: u64, length_bytes: u64) -> Finding {
        let mark = offset_bytes..offset_bytes + length_bytes;
        Finding {
            what: what.into(),
            marks: std::iter::once(mark).collect(),
        }
    }
}

/// The first and the last MiB of a drive.
#[derive(Clone, Debug)]
pub struct Ends {
    head: Vec<u8>,
    tail: Vec<u8>,
    size_bytes: u64,
}

impl Ends {
    /// Reads both ends of `probed`.
    ///
    /// # Errors
    /// A read failed: then nothing is known, and the drive must not be called empty.
    pub fn read(probed: &Probed) -> Result<Ends> {
        Ends::of(&probed.drive)
    }

    /// As [`Ends::read`], of a drive that need not have room for metadata.
    ///
    /// # Errors
    /// As [`Ends::read`].
    pub fn of(drive: &Drive) -> Result<Ends> {
        let size_bytes = drive.size_bytes();
        let length = END_BYTES.min(size_bytes);
        let read = |offset_bytes| {
            drive
                .read_at(offset_bytes, length as usize)
                .with_context(|| format!("{}: cannot look at what it holds", drive.name()))
        };
        Ok(Ends {
            head: read(0)?,
            tail: read(size_bytes - length)?,
            size_bytes,
        })
    }

    /// The bytes at `offset_bytes`, if they lie in one of the ends.
    #[must_use]
    pub fn at(&self, offset_bytes: u64, length: usize) -> Option<&[u8]> {
        let inside = |start: u64, bytes| {
            let from = usize::try_from(offset_bytes.checked_sub(start)?).ok()?;
            <[u8]>::get(bytes, from..from.checked_add(length)?)
        };
        inside(0, &self.head)
            .or_else(|| inside(self.size_bytes - self.tail.len() as u64, &self.tail))
    }

    /// The little-endian number at `offset_bytes`; 0 outside of the ends.
    #[must_use]
    pub fn u32_at(&self, offset_bytes: u64) -> u32 {
        self.at(offset_bytes, 4)
            .and_then(|bytes| bytes.try_into().ok())
            .map_or(0, u32::from_le_bytes)
    }

    /// As [`Ends::u32_at`].
    #[must_use]
    pub fn u64_at(&self, offset_bytes: u64) -> u64 {
        u64::from(self.u32_at(offset_bytes)) | u64::from(self.u32_at(offset_bytes + 4)) << 32
    }

    /// Whether `mark` is at `offset_bytes`.
    #[must_use]
    pub fn has(&self, offset_bytes: u64, mark: &[u8]) -> bool {
        self.at(offset_bytes, mark.len()) == Some(mark)
    }

    /// The printable text at `offset_bytes`, as ` (label "…")`; empty if there is none.
    #[must_use]
    pub fn label(&self, offset_bytes: u64, length: usize) -> String {
        let bytes = self.at(offset_bytes, length).unwrap_or_default();
        let text: String = bytes
            .iter()
            .take_while(|&&byte| byte != 0)
            .map(|&byte| char::from(byte))
            .collect();
        let text = text.trim();
        if text.is_empty() || !text.chars().all(|c| c.is_ascii_graphic() || c == ' ') {
            String::new()
        } else {
            format!(" (label \"{text}\")")
        }
    }

    /// Size of the drive.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Both ends with their offsets, for a backup.
    #[must_use]
    pub fn areas(&self) -> Vec<(u64, &[u8])> {
        let tail_start = self.size_bytes - self.tail.len() as u64;
        vec![(0, &self.head), (tail_start, &self.tail)]
    }
}

/// Whether there are labels of a ZFS pool.
#[must_use]
pub fn holds_zfs(ends: &Ends) -> bool {
    structures::zfs(ends).is_some()
}

/// Everything found in `ends`, in the order in which a person would name it.
#[must_use]
pub fn search(ends: &Ends) -> Vec<Finding> {
    let mut found = structures::file_systems(ends);
    found.extend(signatures::search(ends));
    found.extend(structures::partition_tables(ends));
    found.extend(structures::raid_and_volumes(ends));
    found
}

/// The findings as one list in words: `an ext4 file system and a GPT partition table`.
#[must_use]
pub fn in_words(findings: &[Finding]) -> String {
    let names: Vec<&str> = findings
        .iter()
        .map(|finding| finding.what.as_str())
        .collect();
    and(&names)
}
