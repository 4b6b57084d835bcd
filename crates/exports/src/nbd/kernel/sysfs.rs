//! What sysfs tells of the kernel's NBD devices: which belong to a volume, and how they are.
//!
//! A device that is connected has the files `pid` and `backend` in its folder `/sys/block/nbdN`; they vanish when it is
//! given up and nobody has it open any more. `backend` has the text that its server gave it. `pid` is the process that
//! connected it first, and stays the same when another process takes the device over, so it does not say whether the
//! device is served. That need not be known: whoever holds a volume's drives is its only server.

use anyhow::{Context, Result};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Where the kernel tells of block devices.
pub(super) const FOLDER: &str = "/sys/block";

/// What is known of a connected device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    pub size_bytes: u64,
    pub block_bytes: u32,
    /// Whether the kernel refuses writes.
    pub read_only: bool,
    /// How many connections the kernel uses at once.
    pub connections: usize,
}

fn folder_of(block: &Path, number: u32) -> PathBuf {
    block.join(format!("nbd{number}"))
}

/// The number of the connected device with this identifier.
///
/// # Errors
/// What is found cannot be read.
pub(super) fn find(block: &Path, identifier: &str) -> Result<Option<u32>> {
    let entries = match std::fs::read_dir(block) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        other => other.with_context(|| format!("cannot read {}", block.display()))?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    let mut numbers: Vec<u32> = names
        .filter_map(|name| name.strip_prefix("nbd")?.parse().ok())
        .collect();
    numbers.sort_unstable();
    for number in numbers {
        let path = folder_of(block, number).join("backend");
        // Another program may have written any bytes.
        match std::fs::read(&path) {
            Ok(text) if text.trim_ascii_end() == identifier.as_bytes() => return Ok(Some(number)),
            Ok(_) => {}
            // It is not connected, or was given up just now.
            Err(error) if is_gone(&error) => {}
            Err(error) => {
                return Err(error).with_context(|| format!("cannot read {}", path.display()));
            }
        }
    }
    Ok(None)
}

/// Whether a device is connected, or still open although it was given up.
pub(super) fn is_connected(block: &Path, number: u32) -> bool {
    folder_of(block, number).join("pid").exists()
}

/// How a connected device is.
///
/// # Errors
/// It cannot be read.
pub(super) fn shape(block: &Path, number: u32) -> Result<Shape> {
    /// The unit of `size`, whatever the device's logical blocks are.
    const SECTOR_BYTES: u64 = 512;
    let folder = folder_of(block, number);
    let queues = folder.join("mq");
    let connections = std::fs::read_dir(&queues)
        .with_context(|| format!("cannot read {}", queues.display()))?
        .count();
    Ok(Shape {
        size_bytes: number_in(&folder.join("size"))?.saturating_mul(SECTOR_BYTES),
        block_bytes: number_in(&folder.join("queue/logical_block_size"))? as u32,
        read_only: number_in(&folder.join("ro"))? != 0,
        connections,
    })
}

/// How long the kernel waits for the answer to a request of a device that has several connections.
///
/// # Errors
/// It cannot be read.
pub(super) fn request_timeout(block: &Path, number: u32) -> Result<Duration> {
    let file = folder_of(block, number).join("queue/io_timeout");
    Ok(Duration::from_millis(number_in(&file)?))
}

/// Has the kernel send no longer reads and writes than the server takes. It cannot be told when the device is made.
///
/// # Errors
/// The limit cannot be read or set.
pub(super) fn limit_requests(block: &Path, number: u32, bytes_max: u32) -> Result<()> {
    let path = folder_of(block, number).join("queue/max_sectors_kb");
    let kib_max = u64::from(bytes_max) >> 10;
    if number_in(&path)? > kib_max {
        std::fs::write(&path, kib_max.to_string())
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

fn number_in(path: &Path) -> Result<u64> {
    let text = std::fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read {}", path.display()))?;
    let number = text.trim().parse();
    number.with_context(|| format!("{} is no number", path.display()))
}

fn is_gone(error: &std::io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    error.kind() == ErrorKind::NotFound || errno == Some(rustix::io::Errno::NODEV)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(block: &Path, file: &str, text: &str) {
        let path = block.join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }

    #[test]
    fn a_device_is_found_by_its_identifier() {
        let block = tempfile::tempdir().unwrap();
        let block = block.path();
        put(block, "nbd0/size", "0\n");
        put(block, "nbd1/backend", "\n");
        put(block, "nbd2/backend", "somebody's image\n");
        put(block, "nbd10/backend", "fullstripe:1\n");
        put(block, "nbdx/backend", "fullstripe:2\n");
        put(block, "sda/backend", "fullstripe:2\n");
        put(block, "nbd10/pid", "77\n");
        assert_eq!(find(block, "fullstripe:1").unwrap(), Some(10));
        assert_eq!(find(block, "fullstripe:2").unwrap(), None);
        assert_eq!(find(block, "fullstripe:").unwrap(), None, "only a part");
        assert!(is_connected(block, 10) && !is_connected(block, 2));
        assert_eq!(find(&block.join("nowhere"), "fullstripe:1").unwrap(), None);
    }

    #[test]
    fn a_device_is_described() {
        let block = tempfile::tempdir().unwrap();
        let block = block.path();
        put(block, "nbd3/size", "2048\n");
        put(block, "nbd3/ro", "1\n");
        put(block, "nbd3/queue/logical_block_size", "4096\n");
        put(block, "nbd3/mq/0/cpu_list", "0\n");
        put(block, "nbd3/mq/1/cpu_list", "1\n");
        let shape = shape(block, 3).unwrap();
        let expected = Shape {
            size_bytes: 1 << 20,
            block_bytes: 4096,
            read_only: true,
            connections: 2,
        };
        assert_eq!(shape, expected);
        put(block, "nbd3/size", "many\n");
        let error = super::shape(block, 3).unwrap_err().to_string();
        assert!(error.ends_with("nbd3/size is no number"), "{error}");
    }

    #[test]
    fn requests_become_no_longer_than_the_server_takes() {
        let block = tempfile::tempdir().unwrap();
        let block = block.path();
        let limit = || std::fs::read_to_string(block.join("nbd0/queue/max_sectors_kb")).unwrap();
        put(block, "nbd0/queue/max_sectors_kb", "1280\n");
        limit_requests(block, 0, 32 << 20).unwrap();
        assert_eq!(limit(), "1280\n", "a short limit stays");
        limit_requests(block, 0, 1 << 20).unwrap();
        assert_eq!(limit(), "1024");
        assert!(limit_requests(block, 1, 1 << 20).is_err());
    }
}
