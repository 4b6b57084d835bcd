//! A drive that was marked failed comes back, after volumes have waited for it.
//!
//! A lost drive is marked failed in the disk table, and out of sync in the volumes that continue without it
//! ([`Mpb::mark_failed_in`]). In volumes where its slot is still in sync, nothing was written without the drive, so
//! what it holds of them is current. In volumes where its slot is out of sync, it is rebuilt.

use super::BuildError;
use crate::imsm::record::{Mpb, Volume};
use crate::imsm::serial::Serial;

impl Mpb {
    /// Takes the drive with this serial, whose own record is `own`, back in row `disk_index` of the disk table. A
    /// rebuild onto it is recorded for the first volume that needs one, because volumes are rebuilt one at a time.
    ///
    /// # Errors
    /// There is no such row, the drive's record does not list it, or there is no room for its recorded bad blocks.
    pub fn take_back(
        &mut self,
        disk_index: usize,
        serial: &Serial,
        own: &Mpb,
    ) -> Result<(), BuildError> {
        let own_row = own.disk_index_of(serial).ok_or(BuildError::NoSuchDisk {
            index: own.disks.len(),
            disks: own.disks.len(),
        })?;
        // While the drive was failed its bad blocks were not kept up to date, so those in its own record are taken.
        self.set_bad_ranges(disk_index, &own.bad_ranges(own_row))?;
        *self.disk_mut(disk_index)? = own.disks[own_row].clone();
        let row = disk_index as u32;
        let lacks = |volume: &Volume| {
            let mut order = volume.current_map().order.iter();
            order.position(|entry| entry.disk_index == row && entry.out_of_sync)
        };
        if self.volumes.iter().any(|volume| volume.migration.is_some()) {
            return Ok(());
        }
        for volume in &mut self.volumes {
            if let Some(slot) = lacks(volume)
                && volume.require_rebuildable(slot).is_ok()
            {
                volume.begin_rebuild(slot, row);
                break;
            }
        }
        Ok(())
    }
}
