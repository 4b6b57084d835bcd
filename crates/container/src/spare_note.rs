//! The note on a spare that says whose spare it is.
//!
//! The record of a spare names no container, because md's does not. So a server that gets a spare writes a note to it, in the
//! place of the [notes](metadata::imsm::notes) of a serving process. It lies on the drive itself: udev asks at boot
//! whose a drive is before any other drive or file system has to be there, also in an initramfs.
//!
//! The note counts only as long as the drive's record is that of a spare, and is its own. When a spare has become a member,
//! its record names the container, and later notes take the place of this one.

use crate::probe::Probed;
use anyhow::{Context, Result, anyhow, bail};
use drives::drive::Drive;
use metadata::imsm::notes::{Notes, has_mark, has_room, newer_version};
use metadata::imsm::place::Placement;
use metadata::imsm::{Mpb, SectorSize, Uuid};

/// The UUID of the container whose spare the drive is, by its note; `None` for any other drive.
#[must_use]
pub fn container_noted(probed: &Probed) -> Option<Uuid> {
    let Ok(Some(found)) = &probed.found else {
        return None;
    };
    // A note and a record that were copied from another drive say nothing about this one.
    let is_own = found.mpb.disk_index_of(&probed.serial).is_some();
    if !found.mpb.is_spare() || !is_own {
        return None;
    }
    let noted = note_on(&probed.drive).ok()?;
    noted.map(|note| Uuid::of_family(note.container_family))
}

/// Notes durably on `drive` that it is a spare of the container of `mpb`. Other notes on it are erased.
///
/// # Errors
/// The drive cannot be read or written, or holds notes of a newer version of this program, which are left as they are. Or a
/// volume of the container reaches into the place, and the spare may just be getting its data.
pub fn write(drive: &Drive, mpb: &Mpb) -> Result<()> {
    let (placement, sector) = places(drive)?;
    if !has_room(&placement, mpb) {
        bail!("{} has no room for a note", drive.name());
    }
    let note = Notes::of_spare(mpb.container_family());
    if note_on(drive)?.as_ref() == Some(&note) {
        return Ok(());
    }
    erase(drive)?;
    let bytes = note.encode(sector).context("the note is too long")?;
    let place = placement.notes()[note.copy()];
    let written = drive.write_at(place.offset_bytes, &bytes);
    written
        .and_then(|()| drive.flush())
        .with_context(|| format!("{}: cannot write a note", drive.name()))
}

/// Erases the notes on a spare durably.
///
/// # Errors
/// As [`write`].
pub fn erase(drive: &Drive) -> Result<()> {
    let (placement, sector) = places(drive)?;
    let mut marked = Vec::new();
    for place in placement.notes() {
        let first = drive
            .read_at(place.offset_bytes, sector.bytes())
            .with_context(|| cannot_read(drive))?;
        if newer_version(&first).is_some() {
            bail!(
                "{} holds notes of a newer version of fullstripe",
                drive.name()
            );
        }
        if has_mark(&first) {
            marked.push(place);
        }
    }
    let zeros = vec![0; sector.bytes()];
    for place in &marked {
        drive
            .write_at(place.offset_bytes, &zeros)
            .with_context(|| format!("{}: cannot erase notes", drive.name()))?;
    }
    match marked.is_empty() {
        true => Ok(()),
        false => drive
            .flush()
            .with_context(|| format!("{}: cannot erase notes", drive.name())),
    }
}

/// The newest notes on a drive, if they are those of a spare.
fn note_on(drive: &Drive) -> Result<Option<Notes>> {
    let (placement, _) = places(drive)?;
    let mut newest: Option<Notes> = None;
    for place in placement.notes() {
        let copy = drive
            .read_at(place.offset_bytes, place.length_bytes as usize)
            .with_context(|| cannot_read(drive))?;
        if newer_version(&copy).is_some() {
            return Ok(None);
        }
        let found = Notes::decode(&copy);
        newest = newest
            .into_iter()
            .chain(found)
            .max_by_key(|one| one.sequence);
    }
    Ok(newest.filter(Notes::is_of_spare))
}

fn places(drive: &Drive) -> Result<(Placement, SectorSize)> {
    let name = drive.name();
    let sector = SectorSize::from_bytes(drive.sector_bytes())
        .with_context(|| format!("{name} has sectors of {} bytes", drive.sector_bytes()))?;
    let placement = Placement::new(drive.size_bytes(), sector);
    Ok((
        placement.map_err(|error| anyhow!("{name}: {error}"))?,
        sector,
    ))
}

fn cannot_read(drive: &Drive) -> String {
    format!("{}: cannot read notes", drive.name())
}
