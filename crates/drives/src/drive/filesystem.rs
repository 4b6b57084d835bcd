//! What a file's file system means for its I/O.
//!
//! There are three ways to have the kernel carry out an I/O of a file. The right one follows from what
//! `statfs(2)` calls the file system, and is chosen once, when the member is opened:
//!
//! - **The ring**, for everything on local drives: submitting takes a moment, the answer comes later.
//! - **Inline**, for file systems that keep files in memory. An I/O is a copy and nothing is ever waited
//!   for, but these file systems do not say so (they lack `FMODE_NOWAIT`), and io_uring would hand every
//!   single I/O to a kernel thread, which costs more than the copy. So it is a plain system call on the
//!   data thread. Where the system swaps such files out, the data thread waits for the swap drive.
//! - **Helpers**, threads of the member's own, for file systems behind which another process or machine
//!   answers. When that stops answering, a system call hangs and cannot be taken back. In the ring it
//!   hangs the data thread while it submits (FUSE claims not to block, and then does). Handed to the
//!   kernel's own threads (`IOSQE_ASYNC`) every I/O in flight takes one, 2000 hung reads 2000 of them,
//!   and keeps its payload memory for as long as it hangs. With helpers a few calls hang; what waits
//!   behind them is withdrawn at the deadline. A local file that has to be used through the page cache
//!   has them too, because of its flushes ([`crate::flushes`]).
//!
//! A file system that is not listed is taken for a local one.

use rustix::io::Errno;
use std::fmt;
use std::os::fd::OwnedFd;

/// How I/O reaches the kernel; see the module's prose.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IoPath {
    /// The data thread's io_uring.
    Ring,
    /// The data thread itself, by a system call; for members in this process's memory, by a copy.
    Inline,
    /// A system call on a thread of the member's own.
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

/// A file system by the number that `statfs(2)` gives.
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

/// Those that are not local drives. The numbers are from the kernel's include/uapi/linux/magic.h, where
/// it has them, and from `statfs(2)`; of those that neither lists (Lustre, GPFS, vboxsf), from their
/// own headers.
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

/// The way for a file and, unless it is the ring, what its file system is called.
///
/// # Errors
///
/// What the system said.
pub(super) fn io_path(fd: &OwnedFd) -> Result<(IoPath, Option<&'static str>), Errno> {
    let found = rustix::fs::fstatfs(fd)?;
    // The type's width and sign differ between architectures; the numbers have 32 bits.
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
