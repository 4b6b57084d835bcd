//! Initial synchronisation, repair after a crash, and the dirty mark.

use super::BuildError;
use crate::imsm::geometry::Level;
use crate::imsm::record::{MapState, Migration, MigrationKind, Mpb, Volume, WriteHolePolicy};

impl Mpb {
    /// Records that the volume is being synchronised for the first time, from the start.
    ///
    /// # Errors
    /// No such volume, no redundancy, or another operation is in progress.
    pub fn start_initial_sync(&mut self, volume: usize) -> Result<(), BuildError> {
        let volume = self.volume_mut(volume)?;
        volume.require_idle_and_redundant()?;
        volume.begin(MigrationKind::InitialSync);
        Ok(())
    }

    /// Records that parity or mirrors are being made consistent after a crash, from the start.
    ///
    /// # Errors
    /// No such volume, no redundancy, never synchronised, or another operation is in progress.
    pub fn start_repair(&mut self, volume: usize) -> Result<(), BuildError> {
        let volume = self.volume_mut(volume)?;
        volume.require_idle_and_redundant()?;
        if volume.map.state == MapState::Uninitialised {
            return Err(BuildError::NeverSynchronised { name: volume.name });
        }
        volume.begin(MigrationKind::Repair);
        volume.status |= Volume::VERIFY_AND_FIX;
        Ok(())
    }

    /// Records the end of an initial synchronisation, a repair or a verify.
    ///
    /// # Errors
    /// No such volume, or none of these in progress.
    pub fn finish_sync(&mut self, volume: usize) -> Result<(), BuildError> {
        let volume = self.volume_mut(volume)?;
        match volume.migration.as_ref().map(|migration| migration.kind) {
            Some(MigrationKind::InitialSync | MigrationKind::Repair | MigrationKind::Verify) => {
                volume.migration = None;
                volume.status &= !Volume::VERIFY_AND_FIX;
                volume.map.settle();
                Ok(())
            }
            _ => Err(BuildError::NotInProgress { name: volume.name }),
        }
    }

    /// Stores the progress of the operation in progress, in its units
    /// ([`Volume::checkpoint_at`]). All work up to there must be durable on the members.
    ///
    /// # Errors
    /// No such volume, or nothing in progress.
    pub fn set_checkpoint(
        &mut self,
        volume: usize,
        checkpoint_unit: u64,
    ) -> Result<(), BuildError> {
        let volume = self.volume_mut(volume)?;
        let name = volume.name;
        let migration = volume
            .migration
            .as_mut()
            .ok_or(BuildError::NotInProgress { name })?;
        migration.checkpoint_unit = checkpoint_unit;
        Ok(())
    }

    /// Sets or clears the dirty mark, which means that writes may be in flight. A RAID 0 never has it. With a
    /// write-hole log on the members the mark also says that the log is valid.
    ///
    /// # Errors
    /// No such volume.
    pub fn set_dirty(&mut self, volume: usize, dirty: bool) -> Result<(), BuildError> {
        let volume = self.volume_mut(volume)?;
        let has_log = volume.write_hole_policy.is_member_log();
        volume.dirty = match volume.map.level() {
            Some(Level::Raid0) => 0,
            _ if !dirty => 0,
            Some(Level::Raid5) if has_log => Volume::DIRTY | Volume::LOG_VALID,
            _ => Volume::DIRTY,
        };
        Ok(())
    }

    /// Changes how parity is protected against a crash. The record must be durable before the first write that
    /// relies on the new policy or no longer maintains the old one.
    ///
    /// # Errors
    /// No such volume.
    pub fn set_write_hole_policy(
        &mut self,
        volume: usize,
        policy: WriteHolePolicy,
    ) -> Result<(), BuildError> {
        self.volume_mut(volume)?.write_hole_policy = policy;
        Ok(())
    }
}

impl Volume {
    fn require_idle_and_redundant(&self) -> Result<(), BuildError> {
        let name = self.name;
        if let Some(migration) = &self.migration {
            return Err(BuildError::Busy {
                name,
                kind: migration.kind,
            });
        }
        match self.map.level() {
            Some(level) if level.is_redundant() => Ok(()),
            level => Err(BuildError::NotRedundant { name, level }),
        }
    }

    /// Starts a synchronisation: the second map shows the state before it, the first map the state
    /// after it.
    pub(super) fn begin(&mut self, kind: MigrationKind) {
        let mut second_map = self.map.clone();
        let goal = self.map.state_by_slots();
        if kind == MigrationKind::InitialSync && goal == MapState::Normal {
            second_map.state = MapState::Uninitialised;
        }
        self.map.state = goal;
        self.migration = Some(Migration {
            kind,
            checkpoint_unit: 0,
            second_map,
        });
    }
}
