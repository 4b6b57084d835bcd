//! Plain blocking I/O for metadata commands: any offset and length, on every kind of member.
//!
//! Direct I/O wants offsets, lengths and memory aligned to the sector, so everything goes through an
//! aligned bounce buffer, and a write that covers sectors partly reads them first. Nothing here is fast.

use super::{Backing, Drive};
use engine::policy::MemberError;
use rustix::io::Errno;

/// Memory alignment that every drive's direct I/O is content with.
const ALIGNMENT: usize = 4096;
/// Largest single transfer; longer ones are cut.
const TRANSFER_BYTES_MAX: usize = 4 << 20;
const ENXIO: i32 = 6;
const EINVAL: i32 = 22;

/// A blocking I/O failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{drive}: cannot {what} {length_bytes} bytes at byte {offset_bytes}: {}", explain(.error))]
pub struct DriveError {
    /// The drive's name.
    pub drive: String,
    /// `read`, `write` or `flush`.
    pub what: &'static str,
    /// First byte.
    pub offset_bytes: u64,
    /// Number of bytes.
    pub length_bytes: u64,
    /// Class and errno.
    pub error: MemberError,
}

fn explain(error: &MemberError) -> String {
    std::io::Error::from_raw_os_error(error.errno).to_string()
}

/// Zeroed memory whose address is a multiple of [`ALIGNMENT`].
pub(super) struct Aligned {
    storage: Vec<u8>,
    start: usize,
    length: usize,
}

impl Aligned {
    pub fn new(length: usize) -> Aligned {
        let storage = vec![0u8; length + ALIGNMENT];
        let start = storage.as_ptr().align_offset(ALIGNMENT);
        Aligned {
            storage,
            start,
            length,
        }
    }

    pub fn as_slice(&self) -> &[u8] {
        &self.storage[self.start..][..self.length]
    }

    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut self.storage[self.start..][..self.length]
    }
}

impl Drive {
    /// Reads bytes and waits for them. A null member reads as zeros here.
    ///
    /// # Errors
    ///
    /// [`DriveError`]; class `Misuse` when the range ends past the drive, `Gone` when the drive ends
    /// before it should.
    pub fn read_at(&self, offset_bytes: u64, length_bytes: usize) -> Result<Vec<u8>, DriveError> {
        let failed = |errno| self.failure("read", offset_bytes, length_bytes as u64, errno);
        self.check(offset_bytes, length_bytes as u64)
            .map_err(failed)?;
        match self.backing() {
            Backing::Null => Ok(vec![0; length_bytes]),
            Backing::Ram(ram) => {
                let mut bytes = vec![0; length_bytes];
                ram.read(offset_bytes, &mut bytes);
                Ok(bytes)
            }
            Backing::File(_) => {
                let (first, span) = self.whole_sectors(offset_bytes, length_bytes);
                let mut bounce = Aligned::new(span);
                self.read_sectors(first, bounce.as_mut_slice())
                    .map_err(failed)?;
                let skip = (offset_bytes - first) as usize;
                Ok(bounce.as_slice()[skip..][..length_bytes].to_vec())
            }
        }
    }

    /// Writes bytes and waits until the drive has them; durable after [`Drive::flush`].
    ///
    /// # Errors
    ///
    /// As [`Drive::read_at`].
    pub fn write_at(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DriveError> {
        let failed = |errno| self.failure("write", offset_bytes, bytes.len() as u64, errno);
        self.check(offset_bytes, bytes.len() as u64)
            .map_err(failed)?;
        match self.backing() {
            Backing::Null => Ok(()),
            Backing::Ram(ram) => {
                ram.write(offset_bytes, bytes);
                Ok(())
            }
            Backing::File(_) => {
                let (first, span) = self.whole_sectors(offset_bytes, bytes.len());
                let mut bounce = Aligned::new(span);
                if first != offset_bytes || span != bytes.len() {
                    self.read_sectors(first, bounce.as_mut_slice())
                        .map_err(failed)?;
                }
                let skip = (offset_bytes - first) as usize;
                bounce.as_mut_slice()[skip..][..bytes.len()].copy_from_slice(bytes);
                self.write_sectors(first, bounce.as_slice()).map_err(failed)
            }
        }
    }

    /// Makes everything written so far durable.
    ///
    /// # Errors
    ///
    /// [`DriveError`]; after one the content of unflushed writes is unknown.
    pub fn flush(&self) -> Result<(), DriveError> {
        let Some(fd) = self.fd() else { return Ok(()) };
        let flushed = match self.helpers() {
            // The kernel may tell an error to one of us only.
            Some(helpers) => helpers.flush(fd),
            None => rustix::fs::fdatasync(fd).map_err(Errno::raw_os_error),
        };
        flushed.map_err(|errno| self.failure("flush", 0, 0, errno))
    }

    fn check(&self, offset_bytes: u64, length_bytes: u64) -> Result<(), i32> {
        let end = offset_bytes.checked_add(length_bytes);
        if end.is_some_and(|end| end <= self.size_bytes()) {
            Ok(())
        } else {
            Err(EINVAL)
        }
    }

    /// The sectors that a range touches: first byte and length.
    fn whole_sectors(&self, offset_bytes: u64, length_bytes: usize) -> (u64, usize) {
        let sector = u64::from(self.sector_bytes());
        let first = offset_bytes - offset_bytes % sector;
        let end = (offset_bytes + length_bytes as u64).next_multiple_of(sector);
        (first, (end - first) as usize)
    }

    fn read_sectors(&self, mut offset_bytes: u64, mut into: &mut [u8]) -> Result<(), i32> {
        let fd = self.fd().ok_or(EINVAL)?;
        while !into.is_empty() {
            let length = into.len().min(TRANSFER_BYTES_MAX);
            match rustix::io::pread(fd, &mut into[..length], offset_bytes) {
                Ok(0) => return Err(ENXIO),
                Ok(count) => {
                    into = &mut into[count..];
                    offset_bytes += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.raw_os_error()),
            }
        }
        Ok(())
    }

    fn write_sectors(&self, mut offset_bytes: u64, mut from: &[u8]) -> Result<(), i32> {
        const EIO: i32 = 5;
        let fd = self.fd().ok_or(EINVAL)?;
        while !from.is_empty() {
            let length = from.len().min(TRANSFER_BYTES_MAX);
            match rustix::io::pwrite(fd, &from[..length], offset_bytes) {
                Ok(0) => return Err(EIO),
                Ok(count) => {
                    from = &from[count..];
                    offset_bytes += count as u64;
                }
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.raw_os_error()),
            }
        }
        Ok(())
    }

    fn failure(
        &self,
        what: &'static str,
        offset_bytes: u64,
        length_bytes: u64,
        errno: i32,
    ) -> DriveError {
        DriveError {
            drive: self.name().to_owned(),
            what,
            offset_bytes,
            length_bytes,
            error: MemberError::from_errno(errno),
        }
    }
}
