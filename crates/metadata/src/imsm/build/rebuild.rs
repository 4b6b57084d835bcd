//! A new drive takes the place of a lost member.
//!
//! The new drive gets the next row of the disk table. While it is rebuilt, the volume's first map
//! shows the finished state and the second map marks the slot out of sync. The container's family
//! number changes, so that the record on the lost drive can be recognised as outdated; the original family
//! number, and with it all UUIDs, stays. Once no volume refers to the lost drive, its row is deleted
//! and all higher rows move down.

use super::{BuildError, NewDrive};
use crate::imsm::geometry::Level;
use crate::imsm::record::{Disk, MapState, Migration, MigrationKind, Mpb, SlotEntry, Volume};

/// The drive that takes a lost slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RebuildTarget {
    /// A drive that is not in the disk table yet.
    NewDrive {
        /// The drive.
        drive: NewDrive,
        /// A random number other than 0 that is added to the family number.
        family_salt: u32,
    },
    /// A row of the disk table, because another volume is rebuilt onto that drive already.
    Listed {
        /// The row.
        disk_index: usize,
    },
}

impl Mpb {
    /// Records that `slot` of volume number `volume` is being rebuilt onto `target`, and returns
    /// the target's row in the disk table **after** rows that are no longer needed were deleted.
    ///
    /// An unfinished initial synchronisation or repair ends if the rebuild makes everything
    /// consistent: on a RAID 5, and on mirrors that have all lost a copy. If a mirror of a RAID 10 is
    /// whole, it must be finished first.
    ///
    /// # Errors
    /// No such volume; the slot is not lost; the volume has failed or is busy; or the drive is
    /// too small, failed, listed already, or serves another slot.
    pub fn start_rebuild(
        &mut self,
        volume: usize,
        slot: usize,
        target: RebuildTarget,
    ) -> Result<usize, BuildError> {
        self.volume_mut(volume)?.require_rebuildable(slot)?;
        self.check_target((volume, slot), &target)?;
        let disk_index = self.list(target);
        self.volume_mut(volume)?
            .begin_rebuild(slot, disk_index as u32);
        let removed_before = self.remove_unused_failed_disks_before(disk_index);
        Ok(disk_index - removed_before)
    }

    /// Records that `target`, which holds the same data as the healthy member in `slot` of volume number `volume`, has
    /// taken that member's place. The format has no state for the copying, and needs none: the source stays in service
    /// until the copy is complete, so a RAID 0 is never without a member. Other operations in progress and other lost
    /// slots are not affected. Once no volume refers to the drive that was replaced, its row is deleted.
    ///
    /// # Errors
    /// No such volume; the slot has no drive that is in sync; or the drive is too small, failed, listed already, or
    /// serves another slot.
    pub fn replace_member(
        &mut self,
        volume: usize,
        slot: usize,
        target: RebuildTarget,
    ) -> Result<(), BuildError> {
        let of = self.volume_mut(volume)?;
        let name = of.name;
        let entry = of.current_map().order.get(slot).copied();
        let serves = entry.filter(|entry| !entry.out_of_sync);
        let old = serves.ok_or(BuildError::NobodyServes { name, slot })?;
        self.check_target((volume, slot), &target)?;
        let new = self.list(target) as u32;
        for map in self.volume_mut(volume)?.maps_mut() {
            map.order[slot].disk_index = new;
        }
        let row = old.disk_index as usize;
        if !self.is_used(row) {
            self.give_row(row, new as usize);
        }
        Ok(())
    }

    /// Deletes the drive in row `unused` and moves the one in row `from` there, so that references to rows that stay
    /// need not change.
    fn give_row(&mut self, unused: usize, from: usize) {
        self.disks.swap(unused, from);
        let swapped = |row: usize| match row {
            row if row == unused => from,
            row if row == from => unused,
            row => row,
        };
        let maps = self.volumes.iter_mut().flat_map(Volume::maps_mut);
        for slot in maps.flat_map(|map| &mut map.order) {
            slot.disk_index = swapped(slot.disk_index as usize) as u32;
        }
        for entry in &mut self.bad_blocks {
            entry.disk_index = swapped(usize::from(entry.disk_index)) as u8;
        }
        self.remove_disk(from);
    }

    /// The row of the drive that takes a slot; a new row is added if the drive is not listed yet.
    fn list(&mut self, target: RebuildTarget) -> usize {
        match target {
            RebuildTarget::Listed { disk_index } => disk_index,
            RebuildTarget::NewDrive { drive, family_salt } => {
                self.disks
                    .push(Disk::member(drive.serial, drive.total_sectors));
                self.orig_family_num = self.container_family();
                self.family_num = self.family_num.wrapping_add(family_salt);
                self.disks.len() - 1
            }
        }
    }

    /// Whether some volume refers to this row of the disk table.
    fn is_used(&self, row: usize) -> bool {
        self.volumes
            .iter()
            .flat_map(Volume::maps)
            .flat_map(|map| &map.order)
            .any(|slot| slot.disk_index as usize == row)
    }

    /// Records the end of a rebuild: the new drive is in sync.
    ///
    /// # Errors
    /// No such volume, or no rebuild in progress.
    pub fn finish_rebuild(&mut self, volume: usize) -> Result<(), BuildError> {
        let volume = self.volume_mut(volume)?;
        match &volume.migration {
            Some(migration) if migration.kind == MigrationKind::Rebuild => {
                volume.migration = None;
                volume.map.settle();
                Ok(())
            }
            _ => Err(BuildError::NotInProgress { name: volume.name }),
        }
    }

    /// Records that the drive in `slot` has been rebuilt. If other drives are being rebuilt at the same time, as md
    /// does with several drives of a RAID 10, their rebuild continues.
    ///
    /// # Errors
    /// As [`Mpb::finish_rebuild`].
    pub fn finish_rebuild_of(&mut self, volume: usize, slot: usize) -> Result<(), BuildError> {
        let of = self.volume_mut(volume)?;
        if !of.rebuild_targets().any(|target| target != slot) {
            return self.finish_rebuild(volume);
        }
        let migration = of.migration.as_mut();
        let second_map = &mut migration.expect("a rebuild has targets").second_map;
        second_map.order[slot].out_of_sync = false;
        second_map.settle();
        Ok(())
    }

    fn check_target(
        &self,
        (volume, slot): (usize, usize),
        target: &RebuildTarget,
    ) -> Result<(), BuildError> {
        let (serial, total_sectors) = match *target {
            RebuildTarget::NewDrive { drive, .. } => {
                if drive.serial.is_empty() {
                    return Err(BuildError::NoSerial);
                }
                if self.disk_index_of(&drive.serial).is_some() {
                    return Err(BuildError::DuplicateSerial {
                        serial: drive.serial,
                    });
                }
                (drive.serial, drive.total_sectors)
            }
            RebuildTarget::Listed { disk_index } => {
                let disks = self.disks.len();
                let disk = self.disks.get(disk_index);
                let disk = disk.ok_or(BuildError::NoSuchDisk {
                    index: disk_index,
                    disks,
                })?;
                let unfit = |problem| BuildError::UnfitTarget {
                    serial: disk.serial,
                    problem,
                };
                if disk.is_failed() {
                    return Err(unfit("it is marked failed"));
                }
                let row = disk_index as u32;
                // A drive that has come back to this very slot is rebuilt there, so it may have the slot already.
                let serves = |(at, entry): (usize, &SlotEntry)| {
                    entry.disk_index == row && (at != slot || !entry.out_of_sync)
                };
                if self.volumes[volume]
                    .map
                    .order
                    .iter()
                    .enumerate()
                    .any(serves)
                {
                    return Err(unfit("it serves a slot of the volume already"));
                }
                (disk.serial, disk.total_sectors)
            }
        };
        // All volumes of the container will move to this drive, so it must be large enough for all of them.
        let reserved = crate::imsm::SECTORS_PER_MIB + crate::imsm::WRITE_HOLE_LOG_SECTORS;
        let fits = |end: u64| end.saturating_add(reserved) <= total_sectors;
        if !self.volumes.iter().all(|other| fits(other.extent().end)) {
            return Err(BuildError::UnfitTarget {
                serial,
                problem: "it is too small",
            });
        }
        Ok(())
    }

    /// Deletes rows of failed drives that no volume refers to.
    pub(super) fn remove_unused_failed_disks(&mut self) {
        self.remove_unused_failed_disks_before(0);
    }

    /// The same; returns how many of the deleted rows were before row `limit`.
    fn remove_unused_failed_disks_before(&mut self, limit: usize) -> usize {
        let mut removed_before = 0;
        for row in (0..self.disks.len()).rev() {
            if self.disks[row].is_failed() && !self.is_used(row) {
                self.remove_disk(row);
                removed_before += usize::from(row < limit);
            }
        }
        removed_before
    }

    fn remove_disk(&mut self, row: usize) {
        self.disks.remove(row);
        let maps = self.volumes.iter_mut().flat_map(Volume::maps_mut);
        for slot in maps.flat_map(|map| &mut map.order) {
            if slot.disk_index as usize > row {
                slot.disk_index -= 1;
            }
        }
        self.bad_blocks
            .retain(|entry| usize::from(entry.disk_index) != row);
        for entry in &mut self.bad_blocks {
            if usize::from(entry.disk_index) > row {
                entry.disk_index -= 1;
            }
        }
    }
}

impl Volume {
    pub(super) fn require_rebuildable(&self, slot: usize) -> Result<(), BuildError> {
        let name = self.name;
        let level = self.map.level();
        if !level.is_some_and(Level::is_redundant) {
            return Err(BuildError::NotRedundant { name, level });
        }
        let entry = self.map.order.get(slot);
        if !entry.is_some_and(|entry| entry.out_of_sync) {
            return Err(BuildError::SlotNotLost { name, slot });
        }
        if self.map.state_by_slots() == MapState::Failed {
            return Err(BuildError::Failed { name });
        }
        let unfinished = self.migration.as_ref().map(|migration| migration.kind);
        let rebuilding_suffices = level == Some(Level::Raid5) || self.has_single_copies();
        match unfinished {
            None => Ok(()),
            Some(MigrationKind::InitialSync | MigrationKind::Repair) if rebuilding_suffices => {
                Ok(())
            }
            Some(kind) => Err(BuildError::Busy { name, kind }),
        }
    }

    pub(super) fn begin_rebuild(&mut self, slot: usize, disk_index: u32) {
        let mut second_map = self.map.clone();
        second_map.order[slot] = SlotEntry {
            out_of_sync: true,
            ..SlotEntry::in_sync(disk_index)
        };
        second_map.state = second_map.state_by_slots();
        self.map.order[slot] = SlotEntry::in_sync(disk_index);
        self.map.state = self.map.state_by_slots();
        self.status &= !Self::VERIFY_AND_FIX;
        self.migration = Some(Migration {
            kind: MigrationKind::Rebuild,
            checkpoint_unit: 0,
            second_map,
        });
    }
}
