//! Chooses how the I/O of a file is done, by its file system.
//!
//! There are three ways to do the I/O of a file. The file system type that `statfs(2)` reports decides which, once,
//! when the member is opened:
//!
//! - **The ring**, for all file systems on local drives: submitting takes a moment, and the answer comes later.
//! - **Inline**, for file systems that keep files in memory. An I/O is a copy and never waits, but these file systems
//!   do not declare that (they lack `FMODE_NOWAIT`), so io_uring would hand every I/O to a kernel thread, which costs
//!   more than the copy. Instead the data thread makes a plain system call. If the system has swapped the file out, the
//!   data thread waits for the swap drive.
//! - **Helpers**, the member's own threads, for file systems that depend on another process or machine. When that stops
//!   answering, a system call hangs and cannot be cancelled. Through the ring, the call would hang the data thread at
//!   submission (FUSE claims not to block, and then does). Handed to the kernel's worker threads (`IOSQE_ASYNC`), every
//!   hanging I/O would take a thread, 2000 hung reads 2000 of them, and would keep its payload memory while it hangs.
//!   With helpers only a few calls hang, and the queued ones are withdrawn at the deadline. A local file that has to be
//!   used through the page cache has helpers too, because of its flushes ([`crate::flushes`]).
//!
//! A file system that is not in the list counts as local.

use rustix::io::Errno;
use std::fmt;
use std::os::fd::OwnedFd;

/// How I/O reaches the kernel; see the module's documentation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoPath {
    /// The data thread's io_uring.
    Ring,
    /// The data thread itself, by a system call; for members in this process's memory, by a copy.
    Inline,
    /// A system call on one of the member's own threads.
    Helpers,
}

impl fmt::Display for IoPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            IoPath::Ring => "ring",
            IoPath::Inline => "inline",
            IoPath::Helpers => "helpers",
        })
    }
}

/// A file system, identified by the number that `statfs(2)` reports.
struct FileSystem {
    magic: u32,
    name: &'static str,
    path: IoPath,
}

const fn remote(magic: u32, name: &'static str) -> FileSystem {
    FileSystem {
        magic,
        name,
        path: IoPath::Helpers,
    }
}

const fn in_memory(magic: u32, name: &'static str) -> FileSystem {
    FileSystem {
        magic,
        name,
        path: IoPath::Inline,
    }
}

/// The file systems that are not on local drives. The numbers are from the kernel's include/uapi/linux/magic.h or from
/// `statfs(2)`; those that neither lists (Lustre, GPFS, vboxsf) are from their own headers.
const FILE_SYSTEMS: [FileSystem; 19] = [
    in_memory(0x0102_1994, "tmpfs"),
    in_memory(0x8584_58F6, "ramfs"),
    remote(0x6573_5546, "FUSE"),
    remote(0x0000_6969, "NFS"),
    remote(0x0000_517B, "SMB"),
    remote(0xFF53_4D42, "CIFS"),
    remote(0xFE53_4D42, "SMB 2"),
    remote(0x0102_1997, "9p"),
    remote(0x00C3_6400, "Ceph"),
    remote(0x5346_414F, "AFS"),
    remote(0x6B41_4653, "AFS"),
    remote(0x7375_7245, "Coda"),
    remote(0x0000_564C, "NCP"),
    remote(0x2003_0528, "OrangeFS"),
    remote(0x7461_636F, "OCFS2"),
    remote(0x0116_1970, "GFS2"),
    remote(0x0BD0_0BD0, "Lustre"),
    remote(0x4750_4653, "GPFS"),
    remote(0x786F_4256, "vboxsf"),
];

/// The I/O path for a file, and the name of its file system unless the path is the ring.
///
/// # Errors
///
/// The system's error.
pub(super) fn io_path(fd: &OwnedFd) -> Result<(IoPath, Option<&'static str>), Errno> {
    let found = rustix::fs::fstatfs(fd)?;
    // The type's width and sign differ between architectures; the numbers themselves have 32 bits.
    Ok(of_magic(found.f_type as u32))
}

fn of_magic(magic: u32) -> (IoPath, Option<&'static str>) {
    FILE_SYSTEMS
        .iter()
        .find(|known| known.magic == magic)
        .map_or((IoPath::Ring, None), |known| (known.path, Some(known.name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_way_follows_from_the_file_system() {
        assert_eq!(of_magic(0x0102_1994), (IoPath::Inline, Some("tmpfs")));
        assert_eq!(of_magic(0x6573_5546), (IoPath::Helpers, Some("FUSE")));
        // ext4, xfs.
        assert_eq!(of_magic(0xEF53), (IoPath::Ring, None));
        assert_eq!(of_magic(0x5846_5342), (IoPath::Ring, None));
    }

    #[test]
    fn no_file_system_is_listed_twice() {
        for (at, one) in FILE_SYSTEMS.iter().enumerate() {
            let again = FILE_SYSTEMS[..at]
                .iter()
                .any(|other| other.magic == one.magic);
            assert!(!again, "{}", one.name);
        }
    }
}
