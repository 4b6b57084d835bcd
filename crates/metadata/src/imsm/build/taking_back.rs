//! A drive that was marked failed comes back, and volumes have waited for it.
//!
//! A lost drive is marked in the disk table, and out of sync in the volumes that go on without it
//! ([`Mpb::mark_failed_in`]). Where its slot is still in sync nothing was written without it, so what it holds there
//! is current. Where it is out of sync it is filled anew.

use super::BuildError;
use crate::imsm::record::{Mpb, Volume};
use crate::imsm::serial::Serial;

impl Mpb {
    /// Takes the drive with this serial, whose own record is `own`, back in row `disk_index` of the disk table. A rebuild
    /// onto it is recorded for the first volume that needs one; one is done at a time.
    ///
    /// # Errors
    /// There is no such row, the drive's record does not list it, or what is recorded of its bad blocks has no room.
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
        // While it was failed nobody kept what is recorded of it.
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
