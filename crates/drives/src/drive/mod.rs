//! One opened member: a block device, a regular file, RAM or null.
//!
//! A [`Drive`] is opened once per process and shared by all shards. Opened for service it is held
//! exclusively: block devices by `O_EXCL`, which the kernel also grants to mounts, md and device mapper,
//! files by an exclusive `flock`, also where it will only be read. Opened to be examined it is read-only and disturbs nobody.
//!
//! How a file's I/O reaches the kernel follows from its file system ([`IoPath`]), and a file that is cut
//! short while it serves is noticed before anything wrong is read from it (the module `size`).
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
mod filesystem;
mod open;
mod size;
mod sysfs;
#[cfg(test)]
pub(crate) mod tests;

pub use blocking::DriveError;
pub use filesystem::IoPath;
pub use open::OpenError;
pub(crate) use size::FileSize;

use crate::helpers::Helpers;
use crate::memory::Ram;
use crate::pace::Pace;
use engine::plan::StepKind;
use engine::policy::{MemberError, MemberKind};
use rustix::fs::SeekFrom;
use rustix::io::Errno;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a drive is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// For service: readable, writable, and nobody else's.
    Exclusive,
    /// For service that only reads: nobody else's, and never written to, so that it may lie where nothing can be.
    ExclusiveReadOnly,
    /// To be looked at: read-only, whoever else uses it.
    ReadOnly,
}

/// What a member's bytes are kept on.
#[derive(Debug)]
pub(crate) enum Backing {
    /// A file or block device.
    File(Arc<OwnedFd>),
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
    /// Set back at the first refusal.
    discards: AtomicBool,
    direct: bool,
    block_device: Option<sysfs::Device>,
    io_path: IoPath,
    /// For a regular file.
    file_size: Option<FileSize>,
    // In this order: the threads that may hang in closing the file are the last to let go of it.
    backing: Backing,
    helpers: Option<Helpers>,
    pace: Option<Pace>,
    notes: Vec<String>,
}

impl Drive {
    /// As `self`, known to the array by another serial.
    #[must_use]
    pub fn with_serial(mut self, serial: impl Into<String>) -> Drive {
        self.serial = serial.into();
        self
    }

    /// As `self`, a file whose I/O reaches the kernel this way.
    #[cfg(test)]
    pub(crate) fn with_io_path(mut self, io_path: IoPath) -> Drive {
        let Backing::File(fd) = &self.backing else {
            panic!("{} is no file", self.name);
        };
        let size = FileSize::new(self.size_bytes, io_path == IoPath::Helpers);
        self.helpers =
            (io_path == IoPath::Helpers).then(|| Helpers::start(fd, size).expect("threads"));
        self.file_size = Some(size);
        self.io_path = io_path;
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

    /// The same as the kernel has it now: somebody may have switched the drive's cache on.
    #[must_use]
    pub fn volatile_cache_now(&self) -> bool {
        let device = self.block_device.as_ref();
        device.map_or(self.volatile_cache, sysfs::Device::volatile_cache)
    }

    /// What it is, for the meaning of its errors.
    #[must_use]
    pub fn kind(&self) -> MemberKind {
        match self.file_size {
            Some(_) => MemberKind::File,
            None => MemberKind::Device,
        }
    }

    /// Whether it can discard, so that the range reads as zeros: as it says when it is opened, until it
    /// has refused to.
    #[must_use]
    pub fn discards(&self) -> bool {
        self.discards.load(Ordering::Relaxed)
    }

    /// It has refused to discard; true the first time.
    pub(crate) fn refuse_discards(&self) -> bool {
        self.discards.swap(false, Ordering::Relaxed)
    }

    /// Whether I/O bypasses the page cache.
    #[must_use]
    pub fn direct(&self) -> bool {
        self.direct
    }

    /// How I/O reaches the kernel.
    #[must_use]
    pub fn io_path(&self) -> IoPath {
        self.io_path
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

    /// The threads that do its I/O, if it has such.
    #[inline]
    pub(crate) fn helpers(&self) -> Option<&Helpers> {
        self.helpers.as_ref()
    }

    /// Whether an answer counts only after [`Drive::is_alive`] has said yes. That of a member with helpers
    /// has been looked at by them.
    #[inline]
    pub(crate) fn is_guarded(&self) -> bool {
        self.file_size.is_some() && self.helpers.is_none()
    }

    /// Whether the drive has such a range and it may be used for this: the last sector of a file is never
    /// written while it serves, because that would hide that the file has been cut.
    #[inline]
    pub(crate) fn allows(&self, kind: StepKind, offset_bytes: u64, length_bytes: u64) -> bool {
        let kept_bytes = match self.file_size {
            Some(_) if kind != StepKind::Read => u64::from(self.sector_bytes),
            _ => 0,
        };
        let end = offset_bytes.checked_add(length_bytes);
        end.is_some_and(|end| end <= self.size_bytes - kept_bytes)
    }

    /// What holds its answers back, if anything does.
    pub(crate) fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref()
    }

    /// Whether the drive is still there and as large as it was. To be asked now and then, because an
    /// idle member gives no other sign. Hangs as long as the file system does.
    ///
    /// # Errors
    ///
    /// `Gone` when it was removed or has shrunk, otherwise what the system said.
    pub fn is_alive(&self) -> Result<(), MemberError> {
        const ENXIO: i32 = 6;
        let Backing::File(fd) = &self.backing else {
            return Ok(());
        };
        let result = match (&self.file_size, &self.block_device) {
            (Some(size), _) => size.check(fd),
            (None, Some(device)) if !device.exists() => Err(ENXIO),
            (None, _) => match size_of_device(fd) {
                Ok(size) if size >= self.size_bytes => Ok(()),
                Ok(_) => Err(ENXIO),
                Err(errno) => Err(errno.raw_os_error()),
            },
        };
        result.map_err(MemberError::from_errno)
    }

    /// Whether nothing in a file system names the file any more: it can be used as before, and its content
    /// goes when the last process closes it. To be asked now and then; hangs as long as the file system does.
    /// File systems of other machines or processes hide such files under another name, and then nobody can tell.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        match (&self.backing, &self.file_size) {
            // What cannot be found out is no reason to say so.
            (Backing::File(fd), Some(_)) => {
                rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_nlink == 0)
            }
            _ => false,
        }
    }
}

/// Shortens a text to a serial as IMSM does: no spaces and control characters, no colons (they become
/// semicolons), the last 16 characters. Characters outside ASCII are left out as well. None if nothing is left.
pub(crate) fn stored_serial(text: &str) -> Option<String> {
    let kept: Vec<u8> = text
        .bytes()
        .filter(|byte| byte.is_ascii_graphic())
        .map(|byte| if byte == b':' { b';' } else { byte })
        .collect();
    let last = &kept[kept.len().saturating_sub(16)..];
    (!last.is_empty()).then(|| last.iter().copied().map(char::from).collect())
}

/// As IMSM shortens it, or a word for a drive that has no serial.
#[must_use]
pub fn serial_from(text: &str) -> String {
    stored_serial(text).unwrap_or_else(|| "UNNAMED".to_owned())
}

/// Seeking to the end asks for the size; a removed block device answers zero or an error.
fn size_of_device(fd: &OwnedFd) -> Result<u64, Errno> {
    rustix::fs::seek(fd, SeekFrom::End(0))
}
