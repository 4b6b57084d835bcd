//! The messages of the vhost-user protocol, from crate `vhost` to the session. What the device has not offered is refused.

use super::device::{QUEUES_MAX, protocol_features};
use super::regions::REGIONS_MAX;
use super::session::Session;
use std::fs::File;
use vhost::vhost_user::message::*;
use vhost::vhost_user::{
    Error, GpuBackend, Result, VhostUserBackendReqHandlerMut, VhostUserProtocolFeatures,
};

/// A message that needs a feature which was not offered.
fn not_offered<T>() -> Result<T> {
    Err(Error::InvalidOperation("it was not offered"))
}

impl VhostUserBackendReqHandlerMut for Session {
    fn set_owner(&mut self) -> Result<()> {
        Ok(())
    }

    fn reset_owner(&mut self) -> Result<()> {
        self.end_all()
    }

    fn reset_device(&mut self) -> Result<()> {
        self.reset()
    }

    fn get_features(&mut self) -> Result<u64> {
        Ok(self.features())
    }

    fn set_features(&mut self, features: u64) -> Result<()> {
        self.accept_features(features)
    }

    fn set_mem_table(
        &mut self,
        regions: &[VhostUserMemoryRegion],
        files: Vec<File>,
        _: Option<bool>,
    ) -> Result<Option<Vec<u64>>> {
        self.map(regions, files).map(|()| None)
    }

    fn set_vring_num(&mut self, index: u32, size: u32) -> Result<()> {
        self.set_size(index as usize, size)
    }

    fn set_vring_addr(
        &mut self,
        index: u32,
        _: VhostUserVringAddrFlags,
        table: u64,
        used: u64,
        available: u64,
        _: u64,
    ) -> Result<()> {
        self.set_places(index as usize, [table, available, used])
    }

    fn set_vring_base(&mut self, index: u32, next_available: u32) -> Result<()> {
        self.set_next(index as usize, next_available)
    }

    fn get_vring_base(&mut self, index: u32) -> Result<VhostUserVringState> {
        self.stop(index)
    }

    fn set_vring_kick(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.set_kick(usize::from(index), file)
    }

    fn set_vring_call(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.set_call(usize::from(index), file)
    }

    fn set_vring_err(&mut self, index: u8, file: Option<File>) -> Result<()> {
        self.set_error(usize::from(index), file)
    }

    fn get_protocol_features(&mut self) -> Result<VhostUserProtocolFeatures> {
        Ok(protocol_features())
    }

    fn set_protocol_features(&mut self, features: u64) -> Result<()> {
        match features & !protocol_features().bits() {
            0 => Ok(()),
            _ => not_offered(),
        }
    }

    fn get_queue_num(&mut self) -> Result<u64> {
        Ok(u64::from(QUEUES_MAX))
    }

    fn set_vring_enable(&mut self, index: u32, is_enabled: bool) -> Result<()> {
        self.enable(index as usize, is_enabled)
    }

    fn get_config(&mut self, offset: u32, size: u32, _: VhostUserConfigFlags) -> Result<Vec<u8>> {
        self.configuration(offset, size)
    }

    /// The one field that a driver may write belongs to a feature that is not offered.
    fn set_config(&mut self, _: u32, _: &[u8], _: VhostUserConfigFlags) -> Result<()> {
        not_offered()
    }

    fn get_inflight_fd(&mut self, wanted: &VhostUserInflight) -> Result<(VhostUserInflight, File)> {
        self.make_in_flight(wanted)
    }

    fn set_inflight_fd(&mut self, layout: &VhostUserInflight, file: File) -> Result<()> {
        self.take_in_flight(layout, file)
    }

    fn set_gpu_socket(&mut self, _: GpuBackend) -> Result<()> {
        not_offered()
    }

    fn get_shared_object(&mut self, _: VhostUserSharedMsg) -> Result<File> {
        not_offered()
    }

    fn get_max_mem_slots(&mut self) -> Result<u64> {
        Ok(REGIONS_MAX as u64)
    }

    fn add_mem_region(
        &mut self,
        region: &VhostUserSingleMemoryRegion,
        file: File,
        _: Option<bool>,
    ) -> Result<Option<u64>> {
        self.map_more(region, file).map(|()| None)
    }

    fn remove_mem_region(&mut self, region: &VhostUserSingleMemoryRegion) -> Result<()> {
        self.unmap((region.user_addr, region.guest_phys_addr, region.memory_size))
    }

    fn set_device_state_fd(
        &mut self,
        _: VhostTransferStateDirection,
        _: VhostTransferStatePhase,
        _: File,
    ) -> Result<Option<File>> {
        not_offered()
    }

    fn check_device_state(&mut self) -> Result<()> {
        not_offered()
    }

    fn get_shmem_config(&mut self) -> Result<VhostUserShMemConfig> {
        not_offered()
    }

    fn set_log_base(&mut self, _: &VhostUserLog, _: File) -> Result<()> {
        not_offered()
    }
}
