//! One opened member: a block device, a regular file, RAM or null.
//!
//! A [`Drive`] is opened once per process and shared by all shards. Opened for service it is held
//! exclusively: block devices by `O_EXCL`, which the kernel also grants to mounts, md and device mapper,
//! files by an exclusive `flock`. Opened to be examined it is read-only and disturbs nobody.
//!
//! Member I/O bypasses the page cache (`O_DIRECT`) where that is possible; a file on a file system
//! without direct I/O is used through the page cache, and [`Drive::notes`] says so.
//!
//! # Serials
//!
//! The array's metadata knows drives by the last 16 characters of their serial. It comes from the first of
//! `serial=` in the specification; the drive (NVMe, SCSI, virtio); for files and loop devices the file's
//! name without its folder (`d0.img`); for RAM and null members `RAM0`, `RAM1`, … and `NULL0`, …, in the
//! order in which the process opens them. When the drive already carries metadata under another serial,
//! as a renamed file does, the caller decides and says so by [`Drive::with_serial`].

mod blocking;
mod open;
mod sysfs;
#[cfg(test)]
pub(crate) mod tests;

pub use blocking::DriveError;
pub use open::OpenError;

use crate::memory::Ram;
use crate::throttle::Throttle;
use engine::policy::MemberError;
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// How a drive is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// For service: readable, writable, and nobody else's.
    Exclusive,
    /// To be looked at: read-only, whoever else uses it.
    ReadOnly,
}

/// What a member's bytes are kept on.
#[derive(Debug)]
pub(crate) enum Backing {
    /// A file or block device.
    File(OwnedFd),
    /// Memory of this process.
    Ram(Ram),
    /// Nothing.
    Null,
}

/// An opened member. See the module's prose.
#[derive(Debug)]
pub struct Drive {
    name: String,
    serial: String,
    size_bytes: u64,
    sector_bytes: u32,
    volatile_cache: bool,
    direct: bool,
    block_device: Option<sysfs::Device>,
    backing: Backing,
    throttle: Option<Throttle>,
    notes: Vec<String>,
}

impl Drive {
    /// As `self`, known to the array by another serial.
    #[must_use]
    pub fn with_serial(mut self, serial: impl Into<String>) -> Drive {
        self.serial = serial.into();
        self
    }

    /// What the user called it, or `RAM0`, `NULL0`, …
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The serial for the array's metadata; see the module's prose.
    #[must_use]
    pub fn serial(&self) -> &str {
        &self.serial
    }

    /// Capacity, a multiple of the sector size.
    #[must_use]
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Logical sector size, 512 or 4096.
    #[must_use]
    pub fn sector_bytes(&self) -> u32 {
        self.sector_bytes
    }

    /// Whether acknowledged writes can be lost with the power before a flush.
    #[must_use]
    pub fn volatile_cache(&self) -> bool {
        self.volatile_cache
    }

    /// Whether I/O bypasses the page cache.
    #[must_use]
    pub fn direct(&self) -> bool {
        self.direct
    }

    /// The device number `(major, minor)` of a block device.
    #[must_use]
    pub fn block_device(&self) -> Option<(u32, u32)> {
        self.block_device.as_ref().map(sysfs::Device::number)
    }

    /// The model as the drive reports it; `None` for files and memory.
    #[must_use]
    pub fn model(&self) -> Option<String> {
        self.block_device.as_ref()?.model()
    }

    /// The file descriptor of a file or block device, for commands beyond I/O.
    #[must_use]
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        match &self.backing {
            Backing::File(fd) => Some(fd.as_fd()),
            Backing::Ram(_) | Backing::Null => None,
        }
    }

    /// Sentences that the user should see once.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(crate) fn backing(&self) -> &Backing {
        &self.backing
    }

    pub(crate) fn throttle(&self) -> Option<&Throttle> {
        self.throttle.as_ref()
    }

    /// Whether the drive is still there and as large as it was. To be asked now and then: an idle
    /// member gives no other sign, and a write into the lost part of a truncated file would not fail
    /// but make the file grow again, with zeros where data was.
    ///
    /// # Errors
    ///
    /// `Gone` when it was removed or has shrunk, otherwise what the system said.
    pub fn is_alive(&self) -> Result<(), MemberError> {
        const ENXIO: i32 = 6;
        let Backing::File(fd) = &self.backing else {
            return Ok(());
        };
        let size = match &self.block_device {
            Some(device) if !device.exists() => Ok(0),
            Some(_) => size_of_device(fd),
            None => rustix::fs::fstat(fd).map(|stat| stat.st_size.cast_unsigned()),
        };
        match size {
            Ok(size) if size >= self.size_bytes => Ok(()),
            Ok(_) => Err(MemberError::from_errno(ENXIO)),
            Err(errno) => Err(MemberError::from_errno(errno.raw_os_error())),
        }
    }
}

/// Shortens a text to a serial as IMSM does: no spaces and control characters, no colons (they become
/// semicolons), the last 16 characters. Characters outside ASCII are left out as well.
#[must_use]
pub fn serial_from(text: &str) -> String {
    let kept: Vec<u8> = text
        .bytes()
        .filter(|byte| byte.is_ascii_graphic())
        .map(|byte| if byte == b':' { b';' } else { byte })
        .collect();
    let last = &kept[kept.len().saturating_sub(16)..];
    if last.is_empty() {
        "UNNAMED".to_owned()
    } else {
        last.iter().copied().map(char::from).collect()
    }
}

/// Seeking to the end asks a block device for its capacity; a removed one answers zero or an error.
fn size_of_device(fd: &OwnedFd) -> Result<u64, Errno> {
    rustix::fs::seek(fd, SeekFrom::End(0))
}
