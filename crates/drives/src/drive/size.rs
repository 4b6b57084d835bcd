//! Whether a file still is as long as when it was opened: the guard against files that are cut short.
//!
//! A drive keeps its size; a file can be cut by anybody who may write to it. Reading behind the cut is
//! noticed, because nothing comes. But the next write behind the cut makes the file grow again, and then
//! what lies between reads as zeros without an error. No file system lets a program forbid this.
//!
//! So no answer of a file counts before the file's size has been looked at, *after* the I/O. This
//! is sound by two facts. A cut shortens the size first and takes the content away then, so content that
//! is gone comes with a size that is too small. And nothing that we write makes the size right again:
//! that takes a write of the file's last sector, which IMSM keeps for the record of a reshape, and none
//! is running while an array is served; [`super::Drive::allows`] refuses it. So once a file has been cut,
//! each look says so, until the member is failed, and ever after.
//!
//! Beyond this guard is who cuts a file *and* makes it as long as it was (that is writing zeros to the
//! drive behind the array's back), and, on a network file system, a server that tells the size late.

use super::size_of_device;
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The size that a file has to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSize {
    expected_bytes: u64,
    /// Another machine or process knows it, and is not to be asked more often than it wants to be.
    is_remote: bool,
}

const ENXIO: i32 = 6;

impl FileSize {
    pub fn new(expected_bytes: u64, is_remote: bool) -> FileSize {
        FileSize {
            expected_bytes,
            is_remote,
        }
    }

    /// `ENXIO` when the file has become shorter, or what the system said. May hang if the file is remote.
    #[inline]
    pub fn check(&self, fd: &OwnedFd) -> Result<(), i32> {
        match self.now(fd) {
            Ok(size_bytes) if size_bytes >= self.expected_bytes => Ok(()),
            Ok(_) => Err(ENXIO),
            Err(errno) => Err(errno.raw_os_error()),
        }
    }

    fn now(&self, fd: &OwnedFd) -> Result<u64, Errno> {
        if self.is_remote {
            // The attributes as the file system caches them; seeking would ask the server each time.
            rustix::fs::fstat(fd).map(|stat| stat.st_size.cast_unsigned())
        } else {
            // Less than half the price of fstat. Nobody uses the position.
            size_of_device(fd)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_long_as_it_was_or_it_is_gone_and_an_error_is_no_length() {
        let file = tempfile::tempfile().unwrap();
        let fd = OwnedFd::from(file.try_clone().unwrap());
        for is_remote in [false, true] {
            let size = FileSize::new(8192, is_remote);
            for (length, result) in [
                (8192, Ok(())),
                (8191, Err(ENXIO)),
                (0, Err(ENXIO)),
                (9000, Ok(())),
            ] {
                file.set_len(length).unwrap();
                assert_eq!(size.check(&fd), result, "{length}");
            }
        }
        // A pipe has no end to seek to.
        const ESPIPE: i32 = 29;
        let (pipe, _writer) = rustix::pipe::pipe().unwrap();
        assert_eq!(FileSize::new(0, false).check(&pipe), Err(ESPIPE));
    }
}
