//! Opening members, and the errors of that.

use super::blocking::Aligned;
use super::filesystem::io_path;
use super::{Access, Backing, Drive, FileSize, IoPath, serial_from, size_of_device, sysfs};
use crate::arena::ArenaError;
use crate::helpers::Helpers;
use crate::holders::holders;
use crate::memory::Ram;
use crate::pace::Pace;
use crate::pace::modelled::Modelled;
use crate::pace::throttle::Throttle;
use crate::spec::{MemberSpec, Target};
use rustix::fs::{AtFlags, FallocateFlags, FileType, FlockOperation, Mode, OFlags, StatxFlags};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

/// Sector size of members that have none of their own.
const DEFAULT_SECTOR_BYTES: u32 = 512;

/// How long to retry locking a file that is locked already, and the pause between attempts.
const LOCK_WAIT: Duration = Duration::from_millis(200);
const LOCK_AGAIN: Duration = Duration::from_millis(5);

/// Why a drive cannot be opened. Every text is one sentence for the user.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// No such file.
    #[error("{name} does not exist; {remedy}")]
    Missing {
        /// As given.
        name: String,
        /// What to do instead.
        remedy: String,
    },
    /// Not a block device or file.
    #[error("{name} is a {kind}; a member is a block device or a regular file")]
    WrongKind {
        /// As given.
        name: String,
        /// What it is.
        kind: &'static str,
    },
    /// The member is on a file system that is mounted read-only.
    #[error(
        "{name} is on a file system that is mounted read-only; mount it writable, or only read the array \
         with `serve --read-only`"
    )]
    Unwritable {
        /// As given.
        name: String,
    },
    /// Another process or the kernel holds the member.
    #[error("{name} is in use by {by}; release it first")]
    InUse {
        /// As given.
        name: String,
        /// The holder, as far as can be found out.
        by: String,
    },
    /// `sector=` is given for a drive that has a sector size of its own.
    #[error(
        "{name} has sectors of {own_bytes} bytes; leave out sector=, which is for files, ram and null"
    )]
    OwnSector {
        /// As given.
        name: String,
        /// The drive's logical sector size.
        own_bytes: u32,
    },
    /// The member is smaller than a sector, or its sector size is not supported.
    #[error("{name} has {size_bytes} bytes in sectors of {sector_bytes}, which no array can use")]
    Geometry {
        /// As given.
        name: String,
        /// Capacity.
        size_bytes: u64,
        /// Logical sector size.
        sector_bytes: u32,
    },
    /// No memory for a RAM member.
    #[error("{name}: {error}")]
    Memory {
        /// As given.
        name: String,
        /// The system's error.
        error: ArenaError,
    },
    /// The drive profile cannot be read, or is invalid.
    #[error("{name} cannot be modelled: {reason}")]
    Profile {
        /// As given.
        name: String,
        /// Why not.
        reason: String,
    },
    /// The member is larger than the drive whose model it is to behave like.
    #[error(
        "{name} has {size_bytes} bytes, and a {model} has {capacity_bytes}: name a smaller member or \
         the model of a larger drive"
    )]
    LargerThanModel {
        /// As given.
        name: String,
        /// Capacity.
        size_bytes: u64,
        /// The model's id.
        model: String,
        /// The model's capacity.
        capacity_bytes: u64,
    },
    /// The system refused.
    #[error("cannot {what} {name}: {error}{}", cure(error))]
    System {
        /// As given.
        name: String,
        /// What was tried.
        what: &'static str,
        /// The system's error.
        error: std::io::Error,
    },
}

static RAM_COUNT: AtomicU32 = AtomicU32::new(0);
static NULL_COUNT: AtomicU32 = AtomicU32::new(0);
static MODELLED_COUNT: AtomicU64 = AtomicU64::new(0);

impl Drive {
    /// Opens the member that `spec` describes.
    ///
    /// # Errors
    ///
    /// See [`OpenError`].
    pub fn open(spec: &MemberSpec, access: Access) -> Result<Drive, OpenError> {
        let mut drive = match &spec.target {
            Target::Path(path) => Drive::open_path(path, spec, access)?,
            Target::Ram { size_bytes } => {
                let name = format!("RAM{}", RAM_COUNT.fetch_add(1, Ordering::Relaxed));
                let ram = Ram::new(*size_bytes).map_err(|error| OpenError::Memory {
                    name: name.clone(),
                    error,
                })?;
                Drive::in_process(name, *size_bytes, spec, Backing::Ram(ram))
            }
            Target::Null { size_bytes } => {
                let name = format!("NULL{}", NULL_COUNT.fetch_add(1, Ordering::Relaxed));
                Drive::in_process(name, *size_bytes, spec, Backing::Null)
            }
        };
        if let Some(serial) = &spec.serial {
            drive.serial.clone_from(serial);
        }
        drive.size_bytes -= drive.size_bytes % u64::from(drive.sector_bytes);
        if drive.size_bytes == 0 || !matches!(drive.sector_bytes, 512 | 4096) {
            return Err(OpenError::Geometry {
                name: drive.name,
                size_bytes: drive.size_bytes,
                sector_bytes: drive.sector_bytes,
            });
        }
        drive.pace = drive.pace_of(spec)?;
        Ok(drive)
    }

    /// The member's pace: how its answers are delayed, if at all.
    fn pace_of(&self, spec: &MemberSpec) -> Result<Option<Pace>, OpenError> {
        let Some(model) = &spec.model else {
            let limits = spec.limits;
            return Ok(limits.any().then(|| Pace::Limited(Throttle::new(limits))));
        };
        let name = || self.name.clone();
        let profile = model.profile().map_err(|reason| OpenError::Profile {
            name: name(),
            reason,
        })?;
        if self.size_bytes > profile.capacity_bytes {
            return Err(OpenError::LargerThanModel {
                name: name(),
                size_bytes: self.size_bytes,
                model: profile.id,
                capacity_bytes: profile.capacity_bytes,
            });
        }
        let index = MODELLED_COUNT.fetch_add(1, Ordering::Relaxed);
        let modelled = Modelled::new(&profile, model.state, index);
        Ok(Some(Pace::Modelled(Box::new(modelled))))
    }

    fn in_process(name: String, size_bytes: u64, spec: &MemberSpec, backing: Backing) -> Drive {
        Drive {
            serial: name.clone(),
            name,
            size_bytes,
            sector_bytes: spec.sector_bytes.unwrap_or(DEFAULT_SECTOR_BYTES),
            volatile_cache: false,
            discards: AtomicBool::new(true),
            direct: true,
            block_device: None,
            io_path: IoPath::Inline,
            file_size: None,
            backing,
            helpers: None,
            pace: None,
            notes: Vec::new(),
        }
    }

    fn open_path(path: &Path, spec: &MemberSpec, access: Access) -> Result<Drive, OpenError> {
        let name = path.display().to_string();
        let stat = rustix::fs::stat(path).map_err(|errno| match errno {
            Errno::NOENT => missing(path, &name),
            errno => system(&name, "look at", errno),
        })?;
        let wrong = |kind| OpenError::WrongKind {
            name: name.clone(),
            kind,
        };
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::BlockDevice => Drive::open_device(path, name, stat.st_rdev, spec, access),
            FileType::RegularFile => Drive::open_file(path, name, spec, access),
            FileType::Directory => Err(wrong("folder")),
            FileType::CharacterDevice => Err(wrong("character device")),
            FileType::Socket => Err(wrong("socket")),
            _ => Err(wrong("special file")),
        }
    }

    fn open_device(
        path: &Path,
        name: String,
        number: u64,
        spec: &MemberSpec,
        access: Access,
    ) -> Result<Drive, OpenError> {
        let opened = rustix::fs::open(path, device_mode_of(access), Mode::empty());
        let fd = opened.map_err(|errno| match errno {
            Errno::BUSY => in_use(path, &name),
            errno => cannot_open(&name, errno),
        })?;
        let own_bytes = rustix::fs::ioctl_blksszget(&fd)
            .map_err(|errno| system(&name, "ask for the sector size of", errno))?;
        if spec.sector_bytes.is_some_and(|asked| asked != own_bytes) {
            return Err(OpenError::OwnSector { name, own_bytes });
        }
        let size_bytes = size_of_device(&fd).map_err(|errno| system(&name, "measure", errno))?;
        let device = sysfs::Device::new(number);
        Ok(Drive {
            serial: device
                .serial()
                .unwrap_or_else(|| serial_from(&file_name(path))),
            volatile_cache: device.volatile_cache(),
            discards: AtomicBool::new(device.discards()),
            name,
            size_bytes,
            sector_bytes: own_bytes,
            direct: true,
            block_device: Some(device),
            io_path: IoPath::Ring,
            file_size: None,
            backing: Backing::File(Arc::new(fd)),
            helpers: None,
            pace: None,
            notes: Vec::new(),
        })
    }

    fn open_file(
        path: &Path,
        name: String,
        spec: &MemberSpec,
        access: Access,
    ) -> Result<Drive, OpenError> {
        let sector_bytes = spec.sector_bytes.unwrap_or(DEFAULT_SECTOR_BYTES);
        let base = mode_of(access);
        let open = |flags| rustix::fs::open(path, flags, Mode::empty());
        let direct_fd = match open(base | OFlags::DIRECT) {
            Ok(fd) => takes_direct_io(&fd, sector_bytes).then_some(fd),
            Err(Errno::INVAL) => None,
            Err(errno) => return Err(cannot_open(&name, errno)),
        };
        let direct = direct_fd.is_some();
        let fd = match direct_fd {
            Some(fd) => fd,
            None => open(base).map_err(|errno| cannot_open(&name, errno))?,
        };
        let size_bytes = rustix::fs::fstat(&fd)
            .map_err(|errno| system(&name, "measure", errno))?
            .st_size
            .cast_unsigned();
        let (io_path, file_system) =
            io_path(&fd).map_err(|errno| system(&name, "ask for the file system of", errno))?;
        let io_path = io_path_through(io_path, direct);
        let fd = Arc::new(fd);
        let mut drive = Drive {
            serial: serial_from(&file_name(path)),
            name,
            size_bytes,
            sector_bytes,
            // The drive below the file has a volatile cache, or may have one.
            volatile_cache: true,
            discards: AtomicBool::new(
                access == Access::Exclusive && punches_holes(&fd, size_bytes),
            ),
            direct,
            block_device: None,
            io_path,
            file_size: Some(FileSize::new(size_bytes, io_path == IoPath::Helpers)),
            backing: Backing::File(fd.clone()),
            helpers: None,
            pace: None,
            notes: Vec::new(),
        };
        if access != Access::ReadOnly {
            drive.hold(&fd, file_system)?;
        }
        Ok(drive)
    }

    /// Locks the file, and prepares to serve from it.
    fn hold(&mut self, fd: &Arc<OwnedFd>, file_system: Option<&str>) -> Result<(), OpenError> {
        let name = &self.name;
        match lock(fd) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                return Err(OpenError::InUse {
                    name: name.clone(),
                    by: "another process".to_owned(),
                });
            }
            Err(errno) => return Err(system(name, "lock", errno)),
        }
        if !self.direct {
            let sector_bytes = self.sector_bytes;
            self.notes.push(format!(
                "{name}: its file system does no direct I/O in sectors of {sector_bytes} bytes; \
                 the page cache is used"
            ));
        }
        if let (IoPath::Helpers, Some(size)) = (self.io_path, self.file_size) {
            self.notes.extend(file_system.map(|kind| {
                format!(
                    "{name}: it is on {kind}, which may stop answering; threads of its own do its I/O"
                )
            }));
            let helpers = Helpers::start(fd, size).map_err(|error| OpenError::System {
                name: name.clone(),
                what: "start threads for",
                error,
            })?;
            self.helpers = Some(helpers);
        }
        Ok(())
    }
}

/// The I/O path of a file on a file system with `io_path`, depending on whether it uses direct I/O or the page cache.
fn io_path_through(io_path: IoPath, direct: bool) -> IoPath {
    match io_path {
        // Of several concurrent flushes through the page cache, the kernel reports lost data to only one.
        IoPath::Ring if !direct => IoPath::Helpers,
        other => other,
    }
}

fn mode_of(access: Access) -> OFlags {
    let mode = match access {
        Access::Exclusive => OFlags::RDWR,
        Access::ExclusiveReadOnly | Access::ReadOnly => OFlags::RDONLY,
    };
    mode | OFlags::CLOEXEC
}

/// A block device is opened with `O_EXCL`, which keeps mounts, md and device mapper away as well, and with `O_DIRECT`.
fn device_mode_of(access: Access) -> OFlags {
    let claim = match access {
        Access::Exclusive | Access::ExclusiveReadOnly => OFlags::EXCL,
        Access::ReadOnly => OFlags::empty(),
    };
    mode_of(access) | claim | OFlags::DIRECT
}

/// Locks the file against other processes. If it is locked, try again for a moment: a program that this process has
/// just forked, such as a hook, shares its open files and their locks until it calls exec.
fn lock(fd: &OwnedFd) -> Result<(), Errno> {
    let until = Instant::now() + LOCK_WAIT;
    loop {
        match try_lock(fd) {
            Err(Errno::WOULDBLOCK) if Instant::now() < until => thread::sleep(LOCK_AGAIN),
            result => return result,
        }
    }
}

fn try_lock(fd: &OwnedFd) -> Result<(), Errno> {
    match rustix::fs::flock(fd, FlockOperation::NonBlockingLockExclusive) {
        // On NFS, a file that is opened read-only can only be locked shared, which still excludes writers.
        Err(Errno::BADF) => rustix::fs::flock(fd, FlockOperation::NonBlockingLockShared),
        result => result,
    }
}

/// For a path below /dev, do not suggest making a file: such a file lies in memory and is lost at the next boot.
fn missing(path: &Path, name: &str) -> OpenError {
    let whole = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let remedy = if whole.starts_with("/dev") {
        "`ls /dev/disk/by-id` shows the drives that are there, and `fullstripe list` those with arrays"
            .to_owned()
    } else {
        format!("name a block device or an existing file (truncate -s 1G {name} makes one)")
    };
    OpenError::Missing {
        name: name.to_owned(),
        remedy,
    }
}

fn cannot_open(name: &str, errno: Errno) -> OpenError {
    match errno {
        Errno::ROFS => OpenError::Unwritable {
            name: name.to_owned(),
        },
        errno => system(name, "open", errno),
    }
}

fn file_name(path: &Path) -> String {
    // A link like /dev/disk/by-id/… or current.img is named by its target.
    let path: PathBuf = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    path.file_name()
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// Opening with `O_DIRECT` succeeds on some file systems that then refuse the I/O, or that require blocks larger than
/// the sector. Newer kernels report that by statx; otherwise one read shows it, unless it hits a hole, which is read
/// without the drive.
pub(super) fn takes_direct_io(fd: &OwnedFd, sector_bytes: u32) -> bool {
    let asked = rustix::fs::statx(fd, "", AtFlags::EMPTY_PATH, StatxFlags::DIOALIGN);
    if let Ok(found) = asked
        && found.stx_mask & StatxFlags::DIOALIGN.bits() != 0
        && found.stx_dio_offset_align > sector_bytes
    {
        return false;
    }
    let mut sector = Aligned::new(sector_bytes as usize);
    let read = rustix::io::pread(fd, sector.as_mut_slice(), u64::from(sector_bytes));
    read != Err(Errno::INVAL)
}

/// Whether the file system can punch holes. Tried beyond the file's end, where nothing changes.
fn punches_holes(fd: &OwnedFd, size_bytes: u64) -> bool {
    let how = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(fd, how, size_bytes.next_multiple_of(4096), 4096).is_ok()
}

fn in_use(path: &Path, name: &str) -> OpenError {
    let found = holders(path);
    let by = if found.is_empty() {
        "another program".to_owned()
    } else {
        found.join(", ")
    };
    OpenError::InUse {
        name: name.to_owned(),
        by,
    }
}

/// A remedy, where the system's error text does not suggest one.
fn cure(error: &std::io::Error) -> &'static str {
    match error.raw_os_error().map(Errno::from_raw_os_error) {
        Some(Errno::ACCESS | Errno::PERM) => "; run the command as its owner or as root",
        Some(Errno::MFILE) => "; raise the limit of open files with ulimit -n",
        _ => "",
    }
}

fn system(name: &str, what: &'static str, errno: Errno) -> OpenError {
    OpenError::System {
        name: name.to_owned(),
        what,
        error: errno.into(),
    }
}

#[cfg(test)]
mod tests;
