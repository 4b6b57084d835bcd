//! Members that fail, or are missing when the container is assembled.
//!
//! The failed mark keeps an outdated drive out: it must be durable on all survivors before
//! any write that the failed drive missed is acknowledged. The failed drive keeps its old record,
//! but the drive no longer matches, because its serial in the survivors' tables has been changed.

use super::BuildError;
use crate::imsm::geometry::Level;
use crate::imsm::record::{Disk, Map, MapState, MigrationKind, Mpb, Volume};

impl Mpb {
    /// Marks row `disk_index` of the disk table failed, in all volumes that use it.
    ///
    /// Its slots become out of sync and the volumes degraded or failed. A rebuild onto that drive
    /// ends. An initial synchronisation or repair in progress stays recorded, although it can no longer restore
    /// redundancy for the lost member, so that the volume is not mistaken for a consistent one; it ends only if each
    /// mirror has just one copy left. Marking a failed drive again changes nothing.
    ///
    /// # Errors
    /// There is no such row.
    pub fn mark_failed(&mut self, disk_index: usize) -> Result<(), BuildError> {
        self.mark_failed_in(disk_index, |_| true)
    }

    /// As [`Mpb::mark_failed`], but only in the volumes that continue without the drive: `goes_on` is called with their
    /// number. In the others its slots stay in sync: nothing is written to those volumes without the drive, so what it
    /// holds of them stays current, and they need it back. (md, too, marks a lost drive only in volumes that continue
    /// without it.)
    ///
    /// # Errors
    /// There is no such row.
    pub fn mark_failed_in(
        &mut self,
        disk_index: usize,
        goes_on: impl Fn(usize) -> bool,
    ) -> Result<(), BuildError> {
        let disk = self.disk_mut(disk_index)?;
        if !disk.is_failed() {
            disk.status |= Disk::FAILED;
            disk.serial = disk.serial.failed();
        }
        for (at, volume) in self.volumes.iter_mut().enumerate() {
            if goes_on(at) {
                volume.lose(disk_index as u32);
            }
        }
        Ok(())
    }

    /// Marks row `disk_index` failed because the drive was missing when the container was assembled. This does the same
    /// as [`Mpb::mark_failed`], and also removes the row's address and the first character of its serial.
    ///
    /// # Errors
    /// There is no such row.
    pub fn mark_missing(&mut self, disk_index: usize) -> Result<(), BuildError> {
        self.mark_missing_in(disk_index, |_| true)
    }

    /// As [`Mpb::mark_missing`], but only in the volumes that continue without the drive; see [`Mpb::mark_failed_in`].
    ///
    /// # Errors
    /// There is no such row.
    pub fn mark_missing_in(
        &mut self,
        disk_index: usize,
        goes_on: impl Fn(usize) -> bool,
    ) -> Result<(), BuildError> {
        self.mark_failed_in(disk_index, goes_on)?;
        let disk = self.disk_mut(disk_index)?;
        if disk.scsi_id != Disk::SCSI_ID_MISSING {
            disk.scsi_id = Disk::SCSI_ID_MISSING;
            disk.serial = disk.serial.without_first();
        }
        Ok(())
    }
}

impl Volume {
    /// Marks all slots that the drive fills out of sync.
    fn lose(&mut self, disk_index: u32) {
        let serves = |map: &Map| map.order.iter().any(|slot| slot.disk_index == disk_index);
        if !self.maps().any(serves) {
            return;
        }
        let needs_all_members = matches!(self.map.level(), Some(Level::Raid5 | Level::Raid10));
        if self.migration.is_none()
            && self.map.state == MapState::Uninitialised
            && needs_all_members
        {
            // The state "degraded" would hide that parity or mirrors were never valid.
            self.begin(MigrationKind::InitialSync);
        }
        for map in self.maps_mut() {
            map.lose(disk_index);
        }
        self.settle_migration();
    }

    /// Ends a migration that is pointless after the loss of a member.
    fn settle_migration(&mut self) {
        let Some(migration) = &self.migration else {
            return;
        };
        match migration.kind {
            MigrationKind::Rebuild if migration.second_map.state == MapState::Failed => {
                // Too many members are lost: the slots in sync are those of the second map.
                let second_map = migration.second_map.clone();
                self.map = second_map;
                self.migration = None;
            }
            MigrationKind::Rebuild if self.rebuild_targets().next().is_none() => {
                self.migration = None;
            }
            MigrationKind::Verify => self.migration = None,
            MigrationKind::InitialSync | MigrationKind::Repair if self.has_single_copies() => {
                self.migration = None;
                self.status &= !Self::VERIFY_AND_FIX;
            }
            _ => {}
        }
    }

    /// Whether the volume consists of mirrors that have each lost a copy: each has only one copy left,
    /// so there is nothing to synchronise, only to rebuild.
    pub(super) fn has_single_copies(&self) -> bool {
        let mirrored = matches!(self.map.level(), Some(Level::Raid1 | Level::Raid10));
        let mut mirrors = self.current_map().order.chunks(2);
        mirrored && mirrors.all(|mirror| mirror.iter().any(|slot| slot.out_of_sync))
    }

    /// Slots that are being rebuilt: out of sync now, in sync when the rebuild is finished.
    pub fn rebuild_targets(&self) -> impl Iterator<Item = usize> + '_ {
        self.migration
            .iter()
            .filter(|migration| migration.kind == MigrationKind::Rebuild)
            .flat_map(|migration| migration.second_map.order.iter().zip(&self.map.order))
            .enumerate()
            .filter(|(_, (now, then))| now.out_of_sync && !then.out_of_sync)
            .map(|(slot, _)| slot)
    }
}

impl Map {
    fn lose(&mut self, disk_index: u32) {
        for (slot, entry) in self.order.iter_mut().enumerate() {
            if entry.disk_index == disk_index {
                entry.out_of_sync = true;
                let slot = slot as u8;
                self.failed_slot = Some(self.failed_slot.map_or(slot, |lowest| lowest.min(slot)));
            }
        }
        match self.state_by_slots() {
            MapState::Normal => {}
            lost => self.state = lost,
        }
    }

    /// The state that follows from which slots are in sync. An unknown level counts as
    /// one without redundancy.
    pub(super) fn state_by_slots(&self) -> MapState {
        let level = self.level().unwrap_or(Level::Raid0);
        level.state_with(self.order.iter().map(|slot| !slot.out_of_sync))
    }

    /// Sets the state and the failed slot according to the slots.
    pub(super) fn settle(&mut self) {
        self.state = self.state_by_slots();
        self.failed_slot = self
            .order
            .iter()
            .position(|slot| slot.out_of_sync)
            .map(|slot| slot as u8);
    }
}
