//! A queue of a device: where the kernel describes the requests of its tags.

use super::layout::{DEPTH_MAX, Descriptor};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags};
use std::fmt;
use std::fs::{File, OpenOptions};
use std::io::{Error, ErrorKind};
use std::os::fd::{AsFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Bytes of a queue's descriptors, whatever its depth is.
const QUEUE_BYTES: u64 = DEPTH_MAX as u64 * Descriptor::BYTES as u64;
/// The node of a new device appears at once, or as soon as udev has made it.
const NODE_WITHIN: Duration = Duration::from_secs(5);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(10);

/// The character device of a ublk device, open. The kernel allows one open file for each device at a time.
#[derive(Clone, Debug)]
pub struct CharacterDevice {
    number: u32,
    file: Arc<File>,
}

impl CharacterDevice {
    /// Opens `/dev/ublkcN`. Waits a little if it does not exist yet, or if the process before has not let go of it.
    ///
    /// # Errors
    /// The system's.
    pub fn open(number: u32) -> Result<CharacterDevice, Error> {
        let path = format!("/dev/ublkc{number}");
        let give_up = Instant::now() + NODE_WITHIN;
        loop {
            match OpenOptions::new().read(true).write(true).open(&path) {
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::ResourceBusy)
                        && Instant::now() < give_up =>
                {
                    std::thread::sleep(LOOK_AGAIN_AFTER);
                }
                Err(error) => return Err(Error::new(error.kind(), format!("{path}: {error}"))),
                Ok(file) => {
                    let file = Arc::new(file);
                    return Ok(CharacterDevice { number, file });
                }
            }
        }
    }
}

impl AsFd for CharacterDevice {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// One queue of a device.
#[derive(Debug)]
pub struct Queue {
    device: CharacterDevice,
    number: u16,
    depth: u16,
    descriptors: NonNull<u8>,
}

// SAFETY: the mapping is only read, and belongs to no thread.
unsafe impl Send for Queue {}

impl Queue {
    /// Maps the descriptors of queue `number`, which has `depth` tags.
    ///
    /// # Errors
    /// The system's.
    pub fn map(device: CharacterDevice, number: u16, depth: u16) -> Result<Queue, Errno> {
        // SAFETY: a new mapping at an address of the kernel's choice.
        let mapped = unsafe {
            rustix::mm::mmap(
                std::ptr::null_mut(),
                length_bytes(depth),
                ProtFlags::READ,
                MapFlags::SHARED | MapFlags::POPULATE,
                &device,
                offset_of(number, rustix::param::page_size()),
            )?
        };
        let descriptors = NonNull::new(mapped.cast()).ok_or(Errno::NOMEM)?;
        Ok(Queue {
            device,
            number,
            depth,
            descriptors,
        })
    }

    /// The device.
    pub fn device(&self) -> BorrowedFd<'_> {
        self.device.as_fd()
    }

    /// The queue's number.
    #[must_use]
    pub fn number(&self) -> u16 {
        self.number
    }

    /// How many tags it has.
    #[must_use]
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// The request of a tag whose command has completed. It stays the same until the tag's next command.
    ///
    /// # Panics
    /// If the queue has no such tag.
    #[must_use]
    #[inline]
    pub fn descriptor(&self, tag: u16) -> Descriptor {
        assert!(
            tag < self.depth,
            "a queue of {} tags has no tag {tag}",
            self.depth
        );
        // SAFETY: the mapping has a descriptor for each tag, and descriptors are aligned to 8 bytes. The kernel may
        // write others meanwhile, so they are read as they are, without a reference.
        unsafe {
            let at = self
                .descriptors
                .as_ptr()
                .add(usize::from(tag) * Descriptor::BYTES);
            Descriptor {
                operation_and_flags: at.cast::<u32>().read_volatile(),
                sectors: at.add(4).cast::<u32>().read_volatile(),
                first_sector: at.add(8).cast::<u64>().read_volatile(),
            }
        }
    }
}

/// Which queue it is, for people: of the block device, which they know.
impl fmt::Display for Queue {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            out,
            "queue {} of /dev/ublkb{}",
            self.number, self.device.number
        )
    }
}

impl Drop for Queue {
    fn drop(&mut self) {
        // SAFETY: the mapping was made for this length, and nothing refers to it any more.
        let unmapped = unsafe {
            rustix::mm::munmap(self.descriptors.as_ptr().cast(), length_bytes(self.depth))
        };
        debug_assert!(unmapped.is_ok());
    }
}

/// Where the descriptors of queue `number` begin: each queue has whole pages of the machine. 64-bit ARM has pages of up to 64 KiB.
fn offset_of(number: u16, page_bytes: usize) -> u64 {
    u64::from(number) * QUEUE_BYTES.next_multiple_of(page_bytes as u64)
}

fn length_bytes(depth: u16) -> usize {
    (usize::from(depth) * Descriptor::BYTES).next_multiple_of(4096)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queues_begin_at_pages() {
        let offsets = |page_bytes| [0, 1, 3].map(|number| offset_of(number, page_bytes));
        assert_eq!(offsets(4 << 10), [0, 98_304, 294_912]);
        assert_eq!(offsets(64 << 10), [0, 131_072, 393_216]);
    }
}
