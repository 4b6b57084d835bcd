//! Questions about a shard's state that several of its files ask. Nothing here changes the state.

use crate::control::record::{JobKind, JobView};
use crate::flight::running::Work;
use crate::order::ranges::BandKey;
use crate::plan::RowView;
use crate::shard::Engine;
use crate::units::VolumeId;

impl Engine {
    #[inline]
    pub(crate) fn view_of(&self, key: BandKey) -> RowView {
        self.volumes[key.volume as usize].row_view(
            key.band,
            self.desk.id(),
            self.desk.shards(),
            self.members.failed(),
        )
    }

    /// The volume of a plan, as an id.
    pub(crate) fn volume_of(&self, index: u32) -> VolumeId {
        VolumeId(self.flight.running(index).volume())
    }

    /// The job that a background plan belongs to, if the volume still runs that job.
    pub(crate) fn job_of(&self, index: u32) -> Option<JobView> {
        let running = self.flight.running(index);
        let number = self.order.ranges[running.work().parts()].buffer.0;
        let job = self.volumes[running.volume() as usize].job()?;
        (u64::from(job.view().id) == number).then_some(*job.view())
    }

    /// Whether a plan reads and compares for a scrub.
    pub(crate) fn scrubs(&self, index: u32) -> bool {
        let checks = matches!(
            self.flight.running(index).work(),
            Work::Background { repair: false, .. }
        );
        let is_check = |job: JobView| matches!(job.kind, JobKind::Check { .. });
        checks && self.job_of(index).is_some_and(is_check)
    }
}
