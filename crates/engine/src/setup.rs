//! What a shard is made of, and what its operator may choose.

use crate::bitmap::regions::image_bytes;
use crate::claims::Claims;
use crate::control::record::{Record, VolumeRecord};
use crate::limits::{BAND_BYTES_MAX, GRAIN_BYTES, MIRROR_STEP_BYTES_MAX};
use crate::log::unit::LOG_BUFFER_BYTES;
use crate::options::Options;
use crate::units::{Buffer, ShardId};
use alloc::sync::Arc;

/// How a shard is set up.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Which shard this is.
    pub shard: ShardId,
    /// How many there are.
    pub shards: u8,
    /// What the metadata said at start.
    pub record: Record,
    /// Memory for plans: address and length. At least [`Setup::scratch_bytes_min`].
    pub scratch: (Buffer, u64),
    /// [`crate::limits::BAND_BYTES_MAX`] bytes of zeros.
    pub zeros: Buffer,
    /// Operator's choices.
    pub options: Options,
    /// Shared by the shards of the container; a new one for each start.
    pub claims: Arc<Claims>,
}

impl Setup {
    /// The least scratch memory with which every plan of these volumes can run, one at a time. A parity plan needs a
    /// band for every slot, for partial parity and for parity; background work on mirrors needs at most 8 MiB a step.
    /// Every log and every bitmap has memory of its own. With more memory, more plans run at once. With twice as
    /// much, one half stays in reserve for the time when a drive hangs and keeps some of the other half; without a
    /// reserve, plans may have to wait for that drive.
    #[must_use]
    pub fn scratch_bytes_min(volumes: &[VolumeRecord]) -> u64 {
        let members = |volume: &VolumeRecord| u64::from(volume.geometry.members);
        let most = volumes.iter().map(members).max().unwrap_or(0);
        let parity = (most + 4) * u64::from(BAND_BYTES_MAX);
        let logged = volumes.iter().filter(|volume| volume.log.is_some());
        let logs = logged.map(members).sum::<u64>() * u64::from(LOG_BUFFER_BYTES);
        let bitmap = |volume: &VolumeRecord| {
            let bitmap = volume.bitmap.as_ref()?;
            let bytes = image_bytes(&volume.geometry, bitmap).next_power_of_two();
            Some(u64::from(bytes.max(GRAIN_BYTES)))
        };
        let bitmaps: u64 = volumes.iter().filter_map(bitmap).sum();
        // A plan's block is a power of two, at a multiple of itself.
        let plan = parity
            .max(u64::from(MIRROR_STEP_BYTES_MAX))
            .next_power_of_two();
        (plan + logs + bitmaps).next_power_of_two()
    }
}
