//! How the progress of a background operation is stored.
//!
//! The record counts units whose size depends on level and operation. Both conversions round down:
//! some work may be repeated after a restart, none is skipped. Positions are sectors from the start
//! of the component, the same on each member. For RAID 10 a synchronisation counts sectors of the
//! volume rather than of a member.

use crate::imsm::geometry::Level;
use crate::imsm::record::{MigrationKind, Volume};

/// 64 KiB: the smallest unit of a RAID 5 rebuild.
const RAID5_REBUILD_SECTORS: u64 = 128;

/// 128 KiB for each of the two copies: the unit of all operations on mirrors that do not count
/// strips.
const MIRROR_SECTORS: u64 = 512;

/// Sectors in one checkpoint unit; `None` for operations with other units (reshapes use the
/// unit of the migration record) and for levels without redundancy.
#[must_use]
pub fn unit_sectors(
    level: Level,
    kind: MigrationKind,
    strip_sectors: u32,
    members: usize,
) -> Option<u64> {
    let strip = u64::from(strip_sectors);
    match (kind, level) {
        (_, Level::Raid0) => None,
        (MigrationKind::Rebuild, Level::Raid5) => Some(strip.max(RAID5_REBUILD_SECTORS)),
        (MigrationKind::Rebuild, _) => Some(MIRROR_SECTORS),
        (MigrationKind::InitialSync | MigrationKind::Repair | MigrationKind::Verify, _) => {
            Some(match level {
                Level::Raid5 => strip * members as u64,
                Level::Raid10 => strip * 2,
                _ => MIRROR_SECTORS,
            })
        }
        _ => None,
    }
}

impl Volume {
    /// The checkpoint to store when the operation in progress is complete up to `member_sector`
    /// (from the start of the component). `None` if nothing is in progress, or an operation with unknown
    /// units.
    #[must_use]
    pub fn checkpoint_at(&self, member_sector: u64) -> Option<u64> {
        let (unit, kind, level) = self.checkpoint_rule()?;
        let position = if counts_along_volume(level, kind) {
            let strip = u64::from(self.map.sectors_per_strip.max(1));
            let row = member_sector / strip;
            row.checked_mul(strip)?
                .checked_mul(self.map.members() as u64 / 2)?
        } else {
            member_sector
        };
        Some(position / unit)
    }

    /// The position, in sectors from the start of the component, up to which the operation in progress is certainly
    /// complete. `None` if nothing is in progress, or an operation with unknown units.
    #[must_use]
    pub fn checkpoint_sector(&self) -> Option<u64> {
        let (unit, kind, level) = self.checkpoint_rule()?;
        let position = self
            .migration
            .as_ref()?
            .checkpoint_unit
            .saturating_mul(unit);
        let member_sector = if counts_along_volume(level, kind) {
            let strip = u64::from(self.map.sectors_per_strip.max(1));
            let pairs = (self.map.members() as u64 / 2).max(1);
            position / (strip * pairs) * strip
        } else {
            position
        };
        Some(member_sector.min(self.component_sectors()))
    }

    fn checkpoint_rule(&self) -> Option<(u64, MigrationKind, Level)> {
        let kind = self.migration.as_ref()?.kind;
        let level = self.map.level()?;
        let unit = unit_sectors(level, kind, self.map.sectors_per_strip, self.map.members())?;
        Some((unit.max(1), kind, level))
    }
}

fn counts_along_volume(level: Level, kind: MigrationKind) -> bool {
    level == Level::Raid10 && kind != MigrationKind::Rebuild
}
