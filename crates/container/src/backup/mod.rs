//! A backup file: a copy of the areas of drives that a command is about to change.
//!
//! ```text
//! fullstripe-backup 1 CRC LENGTH\n    version of the format; CRC-32C and length of the header
//! {"reason": …, "drives": […]}\n      the header, JSON on one line (LENGTH bytes without the line end)
//! bytes of the first area, then those of the next, in the header's order
//! ```
//!
//! The header names each drive by serial and size, and each area by offset, length and CRC-32C. So a
//! copy cannot be written to the wrong drive unnoticed, and damage is detected. The file is durable before
//! anything is changed.

pub mod place;
pub mod restore;
#[cfg(test)]
mod tests;

use crate::probe::{FoundShadow, Probed};
use crate::whole_file::sync_folder;
use anyhow::{Context, Result, anyhow, bail};
use metadata::crc32c::crc32c;
use metadata::imsm::place::ByteRange;
use serde::{Deserialize, Serialize};
use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

const MAGIC: &str = "fullstripe-backup";
const VERSION: u32 = 1;
/// Longest header accepted; that of 96 drives with four areas each has a tenth of this length.
const HEADER_BYTES_MAX: usize = 1 << 20;
/// Largest file accepted: two MiB for each of 255 drives, and room to spare.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What a backup file says about itself.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Header {
    /// What was about to be done.
    pub reason: String,
    /// Seconds since 1970.
    pub created_unix_s: u64,
    /// Version of the program that made it.
    pub program_version: String,
    /// The drives.
    pub drives: Vec<DriveCopy>,
}

/// A drive in a backup.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct DriveCopy {
    /// What the user called it.
    pub name: String,
    /// Its serial, in the form that the metadata stores.
    pub serial: String,
    /// Its size.
    pub size_bytes: u64,
    /// Its logical sector size.
    pub sector_bytes: u32,
    /// What was copied.
    pub areas: Vec<Area>,
}

/// A range of bytes of a drive.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Area {
    /// First byte.
    pub offset_bytes: u64,
    /// Length.
    pub length_bytes: u64,
    /// CRC-32C of the content.
    pub crc32c: u32,
}

impl Area {
    /// Where it is.
    #[must_use]
    pub fn place(&self) -> ByteRange {
        ByteRange {
            offset_bytes: self.offset_bytes,
            length_bytes: self.length_bytes,
        }
    }
}

/// A header and the content of its areas.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Backup {
    /// The header.
    pub header: Header,
    /// Content by drive, then by area.
    pub content: Vec<Vec<Vec<u8>>>,
}

impl Backup {
    /// A backup without drives.
    #[must_use]
    pub fn new(reason: &str) -> Backup {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Backup {
            header: Header {
                reason: reason.to_owned(),
                created_unix_s: now.map_or(0, |since| since.as_secs()),
                program_version: env!("CARGO_PKG_VERSION").to_owned(),
                drives: Vec::new(),
            },
            content: Vec::new(),
        }
    }

    /// Adds `areas` of a drive, each given by its offset and content.
    pub fn add(&mut self, probed: &Probed, areas: &[(u64, &[u8])]) {
        let area = |&(offset_bytes, bytes): &(u64, &[u8])| Area {
            offset_bytes,
            length_bytes: bytes.len() as u64,
            crc32c: crc32c(bytes),
        };
        self.header.drives.push(DriveCopy {
            name: probed.drive.name().to_owned(),
            serial: probed.serial.to_string(),
            size_bytes: probed.drive.size_bytes(),
            sector_bytes: probed.drive.sector_bytes(),
            areas: areas.iter().map(area).collect(),
        });
        let content = areas.iter().map(|(_, bytes)| bytes.to_vec());
        self.content.push(content.collect());
    }

    /// A backup of the metadata regions of `drives`, and of their shadows if they have any.
    ///
    /// # Errors
    /// A drive cannot be read.
    pub fn of_metadata(reason: &str, drives: &[&Probed]) -> Result<Backup> {
        let mut backup = Backup::new(reason);
        for probed in drives {
            let region = probed.placement.region_to_read();
            let places = std::iter::once(region).chain(shadow_place(probed));
            backup.add_places(probed, places)?;
        }
        Ok(backup)
    }

    /// Adds the content of `places` on a drive.
    ///
    /// # Errors
    /// The drive cannot be read.
    pub fn add_places(
        &mut self,
        probed: &Probed,
        places: impl Iterator<Item = ByteRange>,
    ) -> Result<()> {
        let read = |place: ByteRange| {
            let bytes = probed
                .drive
                .read_at(place.offset_bytes, place.length_bytes as usize)
                .with_context(|| {
                    format!("{}: cannot read the metadata region", probed.drive.name())
                })?;
            Ok((place.offset_bytes, bytes))
        };
        let content: Vec<(u64, Vec<u8>)> = places.map(read).collect::<Result<_>>()?;
        let areas: Vec<(u64, &[u8])> = content
            .iter()
            .map(|(offset_bytes, bytes)| (*offset_bytes, bytes.as_slice()))
            .collect();
        self.add(probed, &areas);
        Ok(())
    }

    /// Writes the backup to a new file at `path` and makes it durable.
    ///
    /// # Errors
    /// The file exists or cannot be written.
    pub fn write_new(&self, path: &Path) -> Result<()> {
        let shown = path.display();
        let mut file = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o600)
            .open(path)
            .with_context(|| format!("cannot make the backup file {shown}"))?;
        let written = file
            .write_all(&self.to_bytes())
            .and_then(|()| file.sync_all());
        if let Err(error) = written {
            // An incomplete backup is worse than none.
            let _ = std::fs::remove_file(path);
            return Err(anyhow!(error).context(format!("cannot write the backup file {shown}")));
        }
        sync_folder(path).with_context(|| format!("cannot make the folder of {shown} durable"))
    }

    fn to_bytes(&self) -> Vec<u8> {
        let header = serde_json::to_string(&self.header).unwrap_or_default();
        let sum = crc32c(header.as_bytes());
        let mut bytes = format!("{MAGIC} {VERSION} {sum:08x} {}\n{header}\n", header.len());
        bytes.reserve(self.content.iter().flatten().map(Vec::len).sum());
        let mut bytes = bytes.into_bytes();
        self.content
            .iter()
            .flatten()
            .for_each(|area| bytes.extend_from_slice(area));
        bytes
    }

    /// Reads a backup file and checks every part of it.
    ///
    /// # Errors
    /// A sentence: the file cannot be read, is not a backup, is of a newer version, or is damaged.
    pub fn read(path: &Path) -> Result<Backup> {
        let shown = path.display();
        let size_bytes = std::fs::metadata(path)
            .with_context(|| format!("cannot look at {shown}"))?
            .len();
        if size_bytes > FILE_BYTES_MAX {
            bail!("{shown} has {size_bytes} bytes, more than any metadata backup");
        }
        let bytes = std::fs::read(path).with_context(|| format!("cannot read {shown}"))?;
        Backup::from_bytes(&bytes).map_err(|problem| anyhow!("{shown}: {problem}"))
    }

    /// As [`Backup::read`], of the file's content.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_bytes(bytes: &[u8]) -> Result<Backup, String> {
        let (header, mut rest) = split_header(bytes)?;
        let mut content = Vec::new();
        for drive in &header.drives {
            let mut areas = Vec::new();
            for area in &drive.areas {
                let length = usize::try_from(area.length_bytes).unwrap_or(usize::MAX);
                let Some((own, after)) = rest.split_at_checked(length) else {
                    return Err(format!(
                        "the file ends before the copy of {}; it is not whole",
                        drive.name
                    ));
                };
                if crc32c(own) != area.crc32c {
                    return Err(format!("the copy of {} in it is damaged", drive.name));
                }
                areas.push(own.to_vec());
                rest = after;
            }
            content.push(areas);
        }
        if rest.is_empty() {
            Ok(Backup { header, content })
        } else {
            Err(format!(
                "{} bytes follow the last copy; the file is damaged",
                rest.len()
            ))
        }
    }
}

/// The place of the drive's shadow, if there is one, whole or not.
#[must_use]
pub fn shadow_place(probed: &Probed) -> Option<ByteRange> {
    match probed.shadow {
        FoundShadow::Whole(_) | FoundShadow::Damaged(_) => Some(probed.placement.shadow()),
        FoundShadow::Nothing | FoundShadow::Unreadable => None,
    }
}

fn split_header(bytes: &[u8]) -> Result<(Header, &[u8]), String> {
    let not_one = "this is no metadata backup of fullstripe";
    let line_end = bytes
        .iter()
        .take(80)
        .position(|&byte| byte == b'\n')
        .ok_or(not_one)?;
    let line = std::str::from_utf8(&bytes[..line_end]).map_err(|_| not_one)?;
    let fields: Vec<&str> = line.split(' ').collect();
    let [MAGIC, version, sum, length] = fields[..] else {
        return Err(not_one.to_owned());
    };
    let damaged = "its header is damaged";
    let version: u32 = version.parse().map_err(|_| damaged)?;
    if version != VERSION {
        return Err(format!(
            "it is a backup of version {version}, and this program reads version {VERSION}"
        ));
    }
    let length: usize = length.parse().map_err(|_| damaged)?;
    let sum = u32::from_str_radix(sum, 16).map_err(|_| damaged)?;
    if length > HEADER_BYTES_MAX {
        return Err(damaged.to_owned());
    }
    let body = &bytes[line_end + 1..];
    let header = body.get(..length).ok_or(damaged)?;
    if crc32c(header) != sum || body.get(length) != Some(&b'\n') {
        return Err(damaged.to_owned());
    }
    let header = serde_json::from_slice(header).map_err(|error| format!("{damaged}: {error}"))?;
    Ok((header, &body[length + 1..]))
}
