//! Level and chunk of a volume, as users know them.

use assembly::level::of_format;
use metadata::imsm::{Level, SECTOR_BYTES, Volume};

/// The usual number of a level.
#[must_use]
pub fn level_number(level: Level) -> u8 {
    of_format(level).number()
}

/// The chunk to show: 0 for a mirror, which has none.
#[must_use]
pub fn chunk_bytes(volume: &Volume) -> u64 {
    if volume.map.level() == Some(Level::Raid1) {
        0
    } else {
        u64::from(volume.map.sectors_per_strip) * SECTOR_BYTES
    }
}
