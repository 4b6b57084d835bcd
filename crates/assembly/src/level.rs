//! Converts between the engine's levels and the format's.

use engine::layout::Level;
use metadata::imsm::Level as ImsmLevel;

/// The engine's level for a level of the format.
#[must_use]
pub fn of_format(level: ImsmLevel) -> Level {
    match level {
        ImsmLevel::Raid0 => Level::Raid0,
        ImsmLevel::Raid1 => Level::Raid1,
        ImsmLevel::Raid10 => Level::Raid10,
        ImsmLevel::Raid5 => Level::Raid5,
    }
}

/// The format's level for a level of the engine.
#[must_use]
pub fn in_format(level: Level) -> ImsmLevel {
    match level {
        Level::Raid0 => ImsmLevel::Raid0,
        Level::Raid1 => ImsmLevel::Raid1,
        Level::Raid10 => ImsmLevel::Raid10,
        Level::Raid5 => ImsmLevel::Raid5,
    }
}
