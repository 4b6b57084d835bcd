//! Writes a backup of metadata back to the drives from which it was made, identified by serial and size.

use super::place::keep;
use super::{Area, Backup, shadow_place};
use crate::probe::Probed;
use crate::refusal::refused;
use crate::write::erase_shadow;
use anyhow::{Context, Result, bail};
use metadata::imsm::place::ByteRange;
use std::path::{Path, PathBuf};
use words::size;

/// Which copies of a backup go to which drives.
pub struct Restore<'of> {
    file: &'of Backup,
    drives: &'of [Probed],
    /// For each drive, the number of its copy in the file and the number of the drive.
    pairs: Vec<(usize, usize)>,
}

impl<'of> Restore<'of> {
    /// Pairs the copies in `file`, which was read from `path`, with `drives`. With `partial`, some may be left out.
    ///
    /// # Errors
    /// The file is damaged. A copy that does not fit its drive, and a drive that is not named, are refusals.
    pub fn new(
        file: &'of Backup,
        path: &Path,
        drives: &'of [Probed],
        partial: bool,
    ) -> Result<Restore<'of>> {
        let pairs = pairs(file, path, drives, partial)?;
        Ok(Restore {
            file,
            drives,
            pairs,
        })
    }

    /// The drives that are overwritten, as messages call them.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let name = |&(_, drive): &(usize, usize)| self.drives[drive].drive.name().to_owned();
        self.pairs.iter().map(name).collect()
    }

    /// What is overwritten, in words.
    #[must_use]
    pub fn overwritten(&self) -> String {
        let one = |&(copy, drive): &(usize, usize)| {
            let areas: Vec<String> = self.file.header.drives[copy]
                .areas
                .iter()
                .map(|area| format!("{} at byte {}", size(area.length_bytes), area.offset_bytes))
                .collect();
            format!("{} ({})", self.drives[drive].drive.name(), areas.join(", "))
        };
        self.pairs.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    /// Saves what is overwritten, in `backup_folder` or where backups are kept, and writes the copies back. Returns the
    /// file with what was overwritten.
    ///
    /// # Errors
    /// A drive or the backup fails.
    pub fn carry_out(&self, backup_folder: Option<&Path>) -> Result<PathBuf> {
        let (file, drives) = (self.file, self.drives);
        let mut before = Backup::new("restore");
        for &(copy, drive) in &self.pairs {
            let probed = &drives[drive];
            let areas = file.header.drives[copy].areas.iter().map(Area::place);
            before.add_places(probed, areas.chain(shadow_left(file, copy, probed)))?;
        }
        let backup = keep(&before, backup_folder)?;
        for &(copy, drive) in &self.pairs {
            put_back(file, copy, &drives[drive])?;
            if shadow_left(file, copy, &drives[drive]).is_some() {
                // The old shadow would not match the restored record.
                erase_shadow(&drives[drive])?;
            }
        }
        Ok(backup)
    }
}

/// For each drive, the number of its copy in the file and the number of the drive.
fn pairs(
    file: &Backup,
    path: &Path,
    drives: &[Probed],
    partial: bool,
) -> Result<Vec<(usize, usize)>> {
    let shown = path.display();
    let copies = &file.header.drives;
    let mut pairs = Vec::new();
    for (at, probed) in drives.iter().enumerate() {
        let (name, serial) = (probed.drive.name(), probed.serial.to_string());
        let Some(copy) = copies.iter().position(|copy| copy.serial == serial) else {
            return Err(refused(format!(
                "{shown} has no copy of {name} (serial {serial}); it has those of {}",
                copies
                    .iter()
                    .map(|copy| copy.serial.as_str())
                    .collect::<Vec<_>>()
                    .join(", ")
            )));
        };
        let (then, now) = (copies[copy].size_bytes, probed.drive.size_bytes());
        let sectors = (copies[copy].sector_bytes, probed.drive.sector_bytes());
        if then != now || sectors.0 != sectors.1 {
            return Err(refused(format!(
                "{name} has {now} bytes in sectors of {}, but had {then} in sectors of {} when {shown} \
                 was made; its metadata belongs to the end of a drive of that size",
                sectors.1, sectors.0
            )));
        }
        let inside = |area: &Area| {
            area.offset_bytes
                .checked_add(area.length_bytes)
                .is_some_and(|end| end <= now)
        };
        if !copies[copy].areas.iter().all(inside) {
            bail!("{shown} has bytes for {name} that lie past its end; the file is damaged");
        }
        pairs.push((copy, at));
    }
    let absent: Vec<&str> = (0..copies.len())
        .filter(|copy| pairs.iter().all(|(paired, _)| paired != copy))
        .map(|copy| copies[copy].name.as_str())
        .collect();
    if !absent.is_empty() && !partial {
        return Err(refused(format!(
            "{shown} also has the metadata of {}, and a container is restored as a whole; name these \
             drives too, or use --partial",
            absent.join(", ")
        )));
    }
    Ok(pairs)
}

/// The place of the drive's shadow, if the copy does not cover it.
fn shadow_left(file: &Backup, copy: usize, probed: &Probed) -> Option<ByteRange> {
    let areas = &file.header.drives[copy].areas;
    shadow_place(probed).filter(|place| areas.iter().all(|area| area.place() != *place))
}

fn put_back(file: &Backup, copy: usize, probed: &Probed) -> Result<()> {
    let areas = file.header.drives[copy].areas.iter();
    for (area, bytes) in areas.zip(&file.content[copy]) {
        probed
            .drive
            .write_at(area.offset_bytes, bytes)
            .with_context(|| format!("{}: cannot write the copy back", probed.drive.name()))?;
    }
    probed
        .drive
        .flush()
        .with_context(|| format!("{}: cannot flush", probed.drive.name()))
}
