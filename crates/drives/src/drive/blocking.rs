//! Plain blocking I/O for metadata commands: any offset and length, on every kind of member.
//!
//! Direct I/O requires offsets, lengths and memory addresses to be aligned to the sector. So all I/O goes through an
//! aligned bounce buffer, and a write that covers sectors only partly reads them first. Nothing here is fast.

use super::{Backing, Drive, ENXIO};
use engine::policy::MemberError;
use rustix::io::Errno;

/// Memory alignment that suffices for every drive's direct I/O.
const ALIGNMENT: usize = 4096;
/// Largest single transfer; longer ones are split.
const TRANSFER_BYTES_MAX: usize = 4 << 20;
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
    /// Reads a range and waits for it. A null member reads as zeros here.
    ///
    /// # Errors
    ///
    /// [`DriveError`]; class `Misuse` if the range ends beyond the drive, `Gone` if the drive has become shorter.
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

    /// Writes bytes and waits until the drive has accepted them; they are durable after [`Drive::flush`].
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
    /// [`DriveError`]; after an error the content of unflushed writes is unknown.
    pub fn flush(&self) -> Result<(), DriveError> {
        let Some(fd) = self.fd() else { return Ok(()) };
        let flushed = match self.helpers() {
            // The kernel may report an error to only one of several flushes, so share those of the helpers.
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

    /// The sectors that overlap a range: first byte and length in bytes.
    fn whole_sectors(&self, offset_bytes: u64, length_bytes: usize) -> (u64, usize) {
        let sector = u64::from(self.sector_bytes());
        let first = offset_bytes - offset_bytes % sector;
        let end = (offset_bytes + length_bytes as u64).next_multiple_of(sector);
        (first, (end - first) as usize)
    }

    fn read_sectors(&self, offset_bytes: u64, into: &mut [u8]) -> Result<(), i32> {
        let fd = self.fd().ok_or(EINVAL)?;
        read_whole(offset_bytes, into, |at, into| {
            rustix::io::pread(fd, into, at)
        })
    }

    fn write_sectors(&self, offset_bytes: u64, from: &[u8]) -> Result<(), i32> {
        let fd = self.fd().ok_or(EINVAL)?;
        write_whole(offset_bytes, from, |at, from| {
            rustix::io::pwrite(fd, from, at)
        })
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
            error: MemberError::from_errno(self.meaning_of(errno)),
        }
    }
}

/// Repeats `read`, which may return fewer bytes than requested, until the buffer is full.
fn read_whole(
    mut offset_bytes: u64,
    mut into: &mut [u8],
    mut read: impl FnMut(u64, &mut [u8]) -> Result<usize, Errno>,
) -> Result<(), i32> {
    while !into.is_empty() {
        let length = into.len().min(TRANSFER_BYTES_MAX);
        match read(offset_bytes, &mut into[..length]) {
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

/// Repeats `write`, which may take fewer bytes than offered, until all are written.
fn write_whole(
    mut offset_bytes: u64,
    mut from: &[u8],
    mut write: impl FnMut(u64, &[u8]) -> Result<usize, Errno>,
) -> Result<(), i32> {
    const EIO: i32 = 5;
    while !from.is_empty() {
        let length = from.len().min(TRANSFER_BYTES_MAX);
        match write(offset_bytes, &from[..length]) {
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

#[cfg(test)]
mod tests {
    use super::*;

    /// A call that returns these results in turn. The last one repeats, up to 100 calls.
    fn answers(said: &[Result<usize, Errno>]) -> impl FnMut() -> Result<usize, Errno> {
        let mut calls = 0;
        move || {
            calls += 1;
            assert!(calls < 100, "the call is repeated for ever");
            said[(calls - 1).min(said.len() - 1)]
        }
    }

    #[test]
    fn a_call_that_moves_nothing_is_an_error_and_is_not_repeated() {
        for before in [vec![], vec![Ok(512)], vec![Err(Errno::INTR), Ok(512)]] {
            let said = [before, vec![Ok(0)]].concat();
            let mut answer = answers(&said);
            assert_eq!(write_whole(0, &[1; 1024], |_, _| answer()), Err(5));
            let mut answer = answers(&said);
            let mut bytes = [0; 1024];
            assert_eq!(read_whole(0, &mut bytes, |_, _| answer()), Err(ENXIO));
        }
    }

    #[test]
    fn what_a_signal_interrupts_or_the_kernel_does_in_part_is_gone_on_with() {
        let said = [Err(Errno::INTR), Ok(512), Err(Errno::INTR), Ok(1024)];
        let bytes: Vec<u8> = (0..6).flat_map(|sector| [sector; 256]).collect();
        let mut written = vec![9; 8192 + bytes.len()];
        let mut answer = answers(&said);
        let result = write_whole(8192, &bytes, |at, from| {
            let count = answer()?;
            written[at as usize..][..count].copy_from_slice(&from[..count]);
            Ok(count)
        });
        assert_eq!(result, Ok(()));
        assert!(written[8192..] == bytes && written[..8192].iter().all(|&byte| byte == 9));
        let mut answer = answers(&said);
        let mut back = vec![9; bytes.len()];
        let result = read_whole(8192, &mut back, |at, into| {
            let count = answer()?;
            into[..count].copy_from_slice(&written[at as usize..][..count]);
            Ok(count)
        });
        assert_eq!((result, back), (Ok(()), bytes));
    }

    #[test]
    fn an_error_ends_it_with_its_errno() {
        for errno in [Errno::IO, Errno::AGAIN, Errno::NOSPC] {
            let said = [Ok(512), Err(errno)];
            let mut answer = answers(&said);
            let wanted = Err(errno.raw_os_error());
            assert_eq!(write_whole(0, &[1; 1024], |_, _| answer()), wanted);
            let mut answer = answers(&said);
            let mut bytes = [0; 1024];
            assert_eq!(read_whole(0, &mut bytes, |_, _| answer()), wanted);
        }
    }
}
