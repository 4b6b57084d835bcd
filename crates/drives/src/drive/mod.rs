//! One opened member: a block device, a regular file, RAM or null.
//!
//! A [`Drive`] is opened once per process and shared by all shards. A drive that is opened for service is held
//! exclusively, even if it will only be read: a block device by `O_EXCL`, which mounts, md and device mapper use too, a
//! file by an exclusive `flock`. A drive that is opened for examination is read-only and excludes nobody.
//!
//! The file system of a file decides how its I/O reaches the kernel ([`IoPath`]). If a file is truncated while it
//! serves, that is noticed before wrong data is read from it (the module `size`).
//!
//! Member I/O bypasses the page cache (`O_DIRECT`) where that is possible; a file on a file system
//! without direct I/O is used through the page cache, and [`Drive::notes`] says so.
//!
//! # Drives that are gone
//!
//! When the kernel removes a drive, I/O fails with an errno that may just as well mean something else (EIO, ENOSPC). So
//! after each error of a block device its capacity is looked up, without waiting for the drive. If the drive is gone,
//! the error becomes `ENODEV` (`Drive::meaning_of`). [`Drive::is_alive`] does the same for idle drives. A file's ENOSPC
//! is left as it is: its file system really is full.
//!
//! # Serials
//!
//! The array's metadata identifies drives by the last 16 characters of their serial. The serial is the first that is
//! available of these: `serial=` in the specification; the one that the drive reports (NVMe, SCSI, virtio); for files
//! and loop devices the file's name without its folder (`d0.img`); for RAM and null members `RAM0`, `RAM1`, … and
//! `NULL0`, …, in the order in which the process opens them. If the drive already carries metadata under another
//! serial, as a renamed file does, the caller decides which one to use and sets it by [`Drive::with_serial`].

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

const ENXIO: i32 = 6;
const ENODEV: i32 = 19;

/// How a drive is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// For service: read and written, and held exclusively.
    Exclusive,
    /// For service that only reads: held exclusively but never written, so that it may lie on read-only storage.
    ExclusiveReadOnly,
    /// For examination: read-only, even while another process uses it.
    ReadOnly,
}

/// Where a member's data is stored.
#[derive(Debug)]
pub(crate) enum Backing {
    /// A file or block device.
    File(Arc<OwnedFd>),
    /// Memory of this process.
    Ram(Ram),
    /// Nothing.
    Null,
}

/// An opened member. See the module's documentation.
#[derive(Debug)]
pub struct Drive {
    name: String,
    serial: String,
    size_bytes: u64,
    sector_bytes: u32,
    volatile_cache: bool,
    /// Set to false at the first refusal.
    discards: AtomicBool,
    direct: bool,
    block_device: Option<sysfs::Device>,
    io_path: IoPath,
    /// For regular files only.
    file_size: Option<FileSize>,
    // Order of drop: closing the file may hang, so its last owners must be the helper threads, which may hang.
    backing: Backing,
    helpers: Option<Helpers>,
    pace: Option<Pace>,
    notes: Vec<String>,
}

impl Drive {
    /// `self` with another serial for the array's metadata.
    #[must_use]
    pub fn with_serial(mut self, serial: impl Into<String>) -> Drive {
        self.serial = serial.into();
        self
    }

    /// `self`, which must be a file, with this I/O path.
    #[cfg(test)]
    pub(crate) fn with_io_path(mut self, io_path: IoPath) -> Drive {
        let Backing::File(fd) = &self.backing else {
            panic!(
                "the member {} has no file descriptor: it is not a file",
                self.name
            );
        };
        let size = FileSize::new(self.size_bytes, io_path == IoPath::Helpers);
        self.helpers =
            (io_path == IoPath::Helpers).then(|| Helpers::start(fd, size).expect("threads"));
        self.file_size = Some(size);
        self.io_path = io_path;
        self
    }

    /// The name that the user gave, or `RAM0`, `NULL0`, …
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The serial for the array's metadata; see the module's documentation.
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

    /// Whether acknowledged writes can be lost in a power failure before a flush.
    #[must_use]
    pub fn volatile_cache(&self) -> bool {
        self.volatile_cache
    }

    /// As [`Drive::volatile_cache`], but read from the kernel now: the drive's cache may have been enabled meanwhile.
    #[must_use]
    pub fn volatile_cache_now(&self) -> bool {
        let device = self.block_device.as_ref();
        device.map_or(self.volatile_cache, sysfs::Device::volatile_cache)
    }

    /// The kind of member, which decides what its errors mean.
    #[must_use]
    pub fn kind(&self) -> MemberKind {
        match self.file_size {
            Some(_) => MemberKind::File,
            None => MemberKind::Device,
        }
    }

    /// Whether the member can discard so that the range reads as zeros: as reported when it was opened, until it
    /// refuses a discard.
    #[must_use]
    pub fn discards(&self) -> bool {
        self.discards.load(Ordering::Relaxed)
    }

    /// Notes that the member has refused a discard; true the first time.
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

    /// Sentences to show to the user once.
    #[must_use]
    pub fn notes(&self) -> &[String] {
        &self.notes
    }

    pub(crate) fn backing(&self) -> &Backing {
        &self.backing
    }

    /// The threads that do the member's I/O, if it has any.
    #[inline]
    pub(crate) fn helpers(&self) -> Option<&Helpers> {
        self.helpers.as_ref()
    }

    /// Whether an answer counts only after [`Drive::is_alive`] has succeeded. For a member with helpers, the helpers
    /// have checked that already.
    #[inline]
    pub(crate) fn is_guarded(&self) -> bool {
        self.file_size.is_some() && self.helpers.is_none()
    }

    /// Whether the range lies on the drive and may be used for this kind of I/O. The last sector of a file is never
    /// written while it serves, because that would hide a truncation.
    #[inline]
    pub(crate) fn allows(&self, kind: StepKind, offset_bytes: u64, length_bytes: u64) -> bool {
        let kept_bytes = match self.file_size {
            Some(_) if kind != StepKind::Read => u64::from(self.sector_bytes),
            _ => 0,
        };
        let end = offset_bytes.checked_add(length_bytes);
        end.is_some_and(|end| end <= self.size_bytes - kept_bytes)
    }

    /// The member's pace, if its answers are delayed.
    pub(crate) fn pace(&self) -> Option<&Pace> {
        self.pace.as_ref()
    }

    /// Checks that the drive is still there and not smaller than before. Call it now and then, because an idle member
    /// gives no other sign. It may hang as long as the file system does.
    ///
    /// # Errors
    ///
    /// `Gone` if it was removed or has shrunk, otherwise the system's error.
    pub fn is_alive(&self) -> Result<(), MemberError> {
        let Backing::File(fd) = &self.backing else {
            return Ok(());
        };
        let result = match (&self.file_size, &self.block_device) {
            (Some(size), _) => size.check(fd),
            (None, device) => {
                let listed = device
                    .as_ref()
                    .map_or(Ok(()), |one| one.check(self.size_bytes));
                listed.and_then(|()| self.check_capacity(fd))
            }
        };
        result.map_err(MemberError::from_errno)
    }

    /// Checks the capacity by the descriptor, which may wait for the device.
    fn check_capacity(&self, fd: &OwnedFd) -> Result<(), i32> {
        match size_of_device(fd) {
            Ok(size_bytes) if size_bytes >= self.size_bytes => Ok(()),
            Ok(0) => Err(ENODEV),
            Ok(_) => Err(ENXIO),
            Err(errno) => Err(errno.raw_os_error()),
        }
    }

    /// What the errno of an I/O that has failed means. If the kernel has removed the block device, that is `ENODEV`, and
    /// if it is smaller than when it was opened, `ENXIO`: after a removal, Linux answers I/O that was under way with
    /// EIO, and writes with ENOSPC, as if the drive were full. Never waits for the drive.
    #[cold]
    pub(crate) fn meaning_of(&self, errno: i32) -> i32 {
        let device = self.block_device.as_ref();
        let gone = device.and_then(|device| device.check(self.size_bytes).err());
        gone.unwrap_or(errno)
    }

    /// Whether the file has been deleted from its folder: it can be used as before, but its content is lost when the
    /// last process closes it. Call it now and then; it may hang as long as the file system does. Network and FUSE file
    /// systems may keep a deleted file under a hidden name, which cannot be detected.
    #[must_use]
    pub fn is_deleted(&self) -> bool {
        match (&self.backing, &self.file_size) {
            // If the answer cannot be found out, do not report a deletion.
            (Backing::File(fd), Some(_)) => {
                rustix::fs::fstat(fd).is_ok_and(|stat| stat.st_nlink == 0)
            }
            _ => false,
        }
    }
}

/// Shortens a text to a serial as IMSM does: drops spaces and control characters, turns colons into semicolons, and
/// keeps the last 16 characters. Characters outside ASCII are dropped as well. `None` if nothing is left.
pub(crate) fn stored_serial(text: &str) -> Option<String> {
    let kept: Vec<u8> = text
        .bytes()
        .filter(|byte| byte.is_ascii_graphic())
        .map(|byte| if byte == b':' { b';' } else { byte })
        .collect();
    let last = &kept[kept.len().saturating_sub(16)..];
    (!last.is_empty()).then(|| last.iter().copied().map(char::from).collect())
}

/// The serial as IMSM shortens it, or `UNNAMED` if nothing is left.
#[must_use]
pub fn serial_from(text: &str) -> String {
    stored_serial(text).unwrap_or_else(|| "UNNAMED".to_owned())
}

/// The size, by seeking to the end; for a removed block device that gives zero or an error.
fn size_of_device(fd: &OwnedFd) -> Result<u64, Errno> {
    rustix::fs::seek(fd, SeekFrom::End(0))
}
