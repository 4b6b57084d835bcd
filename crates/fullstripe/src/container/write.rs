//! Writing metadata to drives outside of a running array: one half first, flushed, then the rest, so that
//! at any instant one half holds a whole record, old or new.

use super::probe::Probed;
use anyhow::{Context, Result};
use metadata::imsm::Mpb;
use metadata::imsm::place::encode_image;

/// Writes `mpb` to `drives`.
///
/// # Errors
/// A drive cannot be written or flushed; drives after it in the list have not been touched.
pub fn write_record(mpb: &Mpb, drives: &[&Probed]) -> Result<()> {
    let (first, rest) = drives.split_at(drives.len().div_ceil(2));
    for half in [first, rest] {
        for probed in half {
            write_one(mpb, probed)?;
        }
        for probed in half {
            probed
                .drive
                .flush()
                .with_context(|| format!("{}: cannot flush", probed.drive.name()))?;
        }
    }
    Ok(())
}

fn write_one(mpb: &Mpb, probed: &Probed) -> Result<()> {
    let name = probed.drive.name();
    let image = encode_image(mpb, probed.sector)
        .with_context(|| format!("{name}: the record cannot be encoded"))?;
    let at = probed.placement.image(image.len()).offset_bytes;
    // The last sector holds the record of a reshape; there is none.
    let migration = probed.placement.migration_record_offset_bytes();
    let zeros = vec![0; probed.sector.bytes()];
    probed
        .drive
        .write_at(at, &image)
        .and_then(|()| probed.drive.write_at(migration, &zeros))
        .with_context(|| format!("{name}: cannot write the metadata"))
}
