//! Creates records, and makes every change to existing ones.
//!
//! The operations are methods of [`Mpb`] and [`Volume`]. They change the record in memory only;
//! the caller writes it to all live members, in the order that its durability rules demand, and
//! calls [`Mpb::bump_generation`] once before each such write. Each operation either succeeds or
//! returns an error and leaves the record as it was.
//!
//! In the order of a volume's life:
//!
//! * [`create`]: containers, volumes, spares, and deleting volumes;
//! * [`sync`]: initial synchronisation, repair after a crash, dirty marks;
//! * [`failure`]: members that fail or are missing;
//! * [`rebuild`]: a new drive takes a lost member's place;
//! * [`taking_back`]: a lost drive comes back, for which volumes have waited;
//! * [`checkpoint`]: how progress is stored;
//! * [`bad_blocks`]: the log of sectors that could not be recovered.

pub mod bad_blocks;
pub mod checkpoint;
pub mod create;
mod errors;
pub mod failure;
pub mod rebuild;
pub mod sync;
pub mod taking_back;

#[cfg(test)]
mod tests;

pub use create::{ContainerIdentity, NewDrive, VolumeSpec};
pub use errors::BuildError;
pub use rebuild::RebuildTarget;

use super::record::{Disk, Mpb, Volume};

impl Mpb {
    /// Advances the generation; to be called before each write of the record.
    pub fn bump_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
    }

    fn volume_mut(&mut self, index: usize) -> Result<&mut Volume, BuildError> {
        let volumes = self.volumes.len();
        self.volumes
            .get_mut(index)
            .ok_or(BuildError::NoSuchVolume { index, volumes })
    }

    fn disk_mut(&mut self, index: usize) -> Result<&mut Disk, BuildError> {
        let disks = self.disks.len();
        self.disks
            .get_mut(index)
            .ok_or(BuildError::NoSuchDisk { index, disks })
    }
}
