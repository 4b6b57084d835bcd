//! Detects that a file has become shorter since it was opened.
//!
//! A drive keeps its size, but anybody who may write to a file can truncate it. A read beyond the new end is noticed,
//! because it returns no data. But the next write beyond the new end makes the file grow again, and then the range in
//! between reads as zeros without an error. No file system lets a program forbid this.
//!
//! So an answer of a file counts only after the file's size has been checked, *after* the I/O. This is sound for two
//! reasons. First, a truncation reduces the size before it removes the content, so whenever content is missing the size
//! is too small. Second, no write of ours restores the size: that would take a write of the file's last sector. IMSM
//! uses that sector only for the record of a reshape, which never runs while an array is served, and
//! [`super::Drive::allows`] refuses writes to it. So once a file has been truncated, every check reports it from then
//! on.
//!
//! The check does not notice a file that is truncated *and* extended again by somebody else (which amounts to writing
//! zeros to the drive behind the array's back), nor a network file system whose server reports the new size late.

use super::{ENXIO, size_of_device};
use rustix::io::Errno;
use std::os::fd::OwnedFd;

/// The size that a file has to have.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSize {
    expected_bytes: u64,
    /// The size is known to another machine or process, and is taken from the attributes cached here.
    is_remote: bool,
}

impl FileSize {
    pub fn new(expected_bytes: u64, is_remote: bool) -> FileSize {
        FileSize {
            expected_bytes,
            is_remote,
        }
    }

    /// Returns `ENXIO` if the file has become shorter, or the system's error. May hang if the file is remote.
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
            // This returns the attributes that the file system has cached; seeking would ask the server each time.
            rustix::fs::fstat(fd).map(|stat| stat.st_size.cast_unsigned())
        } else {
            // Takes less than half the time of fstat. Nothing uses the file position.
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
