//! Writes metadata to drives outside of a running array: first to one half of the drives, then, after a flush, to the
//! other, so that at any time one half has a whole record, old or new. On each drive the shadow is written first and is
//! durable before the record itself is changed, so that each single drive, too, always has one of the two whole
//! ([`metadata::imsm::shadow`]).

use crate::member::{FoundShadow, Member, look};
use anyhow::{Context, Result};
use metadata::imsm::choose::Unfinished;
use metadata::imsm::place::encode_image;
use metadata::imsm::shadow::{self, has_room};
use metadata::imsm::{Mpb, RecordPrint};

/// Writes `mpb` and its shadow to `drives`.
///
/// # Errors
/// A drive cannot be written or flushed. If it is in the first half, the second half has not been changed.
pub fn write_record(mpb: &Mpb, drives: &[&impl Member]) -> Result<()> {
    for half in halves(drives) {
        durably(half, |probed| write_shadow(mpb, probed))?;
        durably(half, |probed| write_own(mpb, probed))?;
    }
    Ok(())
}

/// Completes an interrupted update on those of `drives` that lack it. If only the shadows have
/// the record, they are not changed until the drives' own copies are durable. Those copies have the same bytes as the
/// shadows, so that after another interruption the shadows still explain what is on the drives.
///
/// # Errors
/// As [`write_record`].
pub fn finish_update(unfinished: Option<&Unfinished>, drives: &[impl Member]) -> Result<()> {
    let Some(unfinished) = unfinished else {
        return Ok(());
    };
    let record = &unfinished.record;
    let lacking: Vec<_> = unfinished.drives.iter().map(|&at| &drives[at]).collect();
    if !unfinished.from_shadows {
        return write_record(record, &lacking);
    }
    for half in halves(&lacking) {
        durably(half, |probed| write_own(record, probed))?;
    }
    durably(&lacking, |probed| write_shadow(record, probed))
}

/// Makes a shadow on the drive, whole or not, unrecognisable.
///
/// # Errors
/// The drive cannot be written.
pub fn erase_shadow(probed: &impl Member) -> Result<()> {
    match probed.shadow() {
        FoundShadow::Nothing | FoundShadow::Unreadable => Ok(()),
        FoundShadow::Whole(_) | FoundShadow::Damaged(_) => {
            let place = probed.placement().shadow();
            let zeros = vec![0; place.length_bytes as usize];
            write(probed, place.offset_bytes, &zeros, "erase the shadow copy")
        }
    }
}

/// Which record the drive's own copy is, torn or not; `None` if there is no copy or it cannot be read.
#[must_use]
pub fn record_on(probed: &impl Member) -> Option<RecordPrint> {
    let read = |offset_bytes, length_bytes| probed.read_at(offset_bytes, length_bytes);
    let (found, shadow) = look(probed.placement(), probed.sector(), read).ok()?;
    let header = match found {
        Ok(found) => return found.map(|own| own.print),
        Err(error) => error.torn()?,
    };
    // The print that the torn record would have if it were whole.
    let known = match shadow {
        FoundShadow::Whole(shadow) => shadow.print_of(&header),
        _ => None,
    };
    Some(known.unwrap_or(RecordPrint {
        identity: header,
        crc: None,
    }))
}

fn halves<'a, 'b, M: Member>(drives: &'a [&'b M]) -> [&'a [&'b M]; 2] {
    let (first, rest) = drives.split_at(drives.len().div_ceil(2));
    [first, rest]
}

/// Calls `write` for all of `drives`, then flushes them.
fn durably<M: Member>(drives: &[&M], write: impl Fn(&M) -> Result<()>) -> Result<()> {
    drives.iter().try_for_each(|probed| write(probed))?;
    drives.iter().try_for_each(|probed| {
        let flushed = probed.flush();
        flushed.with_context(|| format!("{}: cannot flush", probed.name()))
    })
}

fn write_shadow(mpb: &Mpb, probed: &impl Member) -> Result<()> {
    if mpb.is_spare() {
        // A spare has no shadow, and one left by another array must not outlast that array's record.
        return erase_shadow(probed);
    }
    if !has_room(&probed.placement(), mpb) || probed.shadow().is_newer() {
        return Ok(());
    }
    let bytes = shadow::encode(mpb, record_on(probed), probed.sector())
        .with_context(|| cannot_encode(probed))?;
    let offset_bytes = probed.placement().shadow().offset_bytes;
    write(probed, offset_bytes, &bytes, "write the shadow copy")
}

fn write_own(mpb: &Mpb, probed: &impl Member) -> Result<()> {
    let image = encode_image(mpb, probed.sector()).with_context(|| cannot_encode(probed))?;
    let offset_bytes = probed.placement().image(image.len()).offset_bytes;
    write(probed, offset_bytes, &image, "write the metadata")?;
    // The last sector holds the record of a reshape. No reshape is under way, so it is cleared.
    let migration = probed.placement().migration_record_offset_bytes();
    let zeros = vec![0; probed.sector().bytes()];
    write(probed, migration, &zeros, "write the metadata")
}

fn write(probed: &impl Member, offset_bytes: u64, bytes: &[u8], what: &str) -> Result<()> {
    let written = probed.write_at(offset_bytes, bytes);
    written.with_context(|| format!("{}: cannot {what}", probed.name()))
}

fn cannot_encode(probed: &impl Member) -> String {
    format!("{}: the record cannot be encoded", probed.name())
}
