//! Volumes as block devices of this machine through the kernel's NBD client: `/dev/nbdN`.
//!
//! The server connects its own kernel to itself. For each connection it makes a pair of sockets, chooses the volume on one
//! end as any client does, and gives that end to the kernel, which then sends requests to the shard at the other end. No
//! other program takes part, and the server need not listen anywhere. The driver is configured through generic netlink:
//! its older way, `ioctl`, needs a process that stays inside a system call and cannot replace connections.
//!
//! - `netlink`: messages as bytes. `control`: the driver's commands.
//! - `handshake`: the client's side of the protocol up to the choice of the volume.
//! - `connections`: pairs of sockets, and which of them the kernel holds.
//! - `sysfs`: what the kernel tells of its devices.
//! - `device`: a device from its making to its end. `giving_up`: ends one that no server will take over. `attached`: all devices of a server, with their names.
//!
//! # A server that ends
//!
//! A device outlives its server. The kernel keeps a text with it, in which there is the volume's UUID, so the next process
//! finds the device in `/sys/block/nbdN/backend` without any file of ours, and gives it new connections. What becomes of
//! requests meanwhile follows from two times (read in `drivers/block/nbd.c` as it was in 2025):
//!
//! - A request that is to be sent while there is no connection waits for the *dead-connection timeout*, and goes on as
//!   soon as there is a new connection. If none comes in that time, it and all others fail, and a file system on them is
//!   lost. The kernel has no word for "forever", which is what ublk's devices wait; it is a day
//!   (`DEAD_CONNECTION_TIMEOUT`).
//! - A request that was sent and not answered when the server ended is not looked at before its *request timeout*, counted
//!   from when it was sent, has passed. Then it is sent again on a new connection, or waits for one like the others.
//!
//! So after `kill -9` every request goes on at the latest when a new server has connected and the request timeout has
//! passed. The kernel checks timeouts once a second, so 5 s more than the request timeout is a safe bound. Requests may be
//! carried out twice; they are the same requests with the same data, and the old server, which must have let go of the
//! drives, is gone when the new one begins.
//!
//! # A server that is slow
//!
//! The same timeout hits a server that is only slow: the kernel gives the connection up and sends the request again on
//! another, while the first may still be carried out. Therefore it must not pass while the server lives. A drive that hangs
//! is failed after the deadline, and then its requests and those behind them are answered; `request_timeout` adds a margin
//! for that. A process that stands still for longer, such as one stopped by a debugger, loses its connections; requests wait,
//! and `Device::mend` connects it again, when the shards are done with all that came over the lost connections.
//!
//! What is not covered: the kernel gives one connection up while another has nothing to answer, and sends its requests on
//! that one at once. If the process, or only the first one's data thread, then goes on before the second is given up too,
//! what the first has received may be carried out after its repetition. It matters if the same blocks are written again
//! in that moment. A device with a single connection does not have this problem.
//!
//! A device with a single connection is better off. Without a request timeout the kernel looks at an unanswered request
//! every 30 s, sends it again if the connection has been replaced since, and waits on if not. With several connections it
//! would give the connection up instead. So a single connection gets no timeout, a slow server is waited for however
//! long it takes, and requests go on at the latest 30 s, and one more for the check, after a new server has connected.
//!
//! # A server that is stopped in order
//!
//! While the device is in use, its connections are cut before the ports stop, because a port that stops
//! answers new requests with "shutting down", which the kernel takes for an error of the disk. Cut connections are what a
//! killed server leaves, so nothing is lost. A device that is not in use is given up.
//!
//! # A server that is replaced
//!
//! In an upgrade the connections go to the next server like those of any other client (`crate::nbd::left`). The kernel holds
//! its ends, and its requests wait in the sockets. The next server takes the devices over with these connections, and
//! replaces only what is missing. All devices are left, used or not.
//!
//! # What the kernel is not told
//!
//! The netlink interface takes size, logical block and abilities. It has no place for the physical block, the smallest and
//! the best length of a request: the driver sets the first to the logical block, and the best length to 128 KiB, whatever
//! the array's stripe is. A file system has to be told the stripe when it is made. The longest request is set in sysfs if
//! the kernel would send longer ones than the server takes. What a device can do is settled when it is made: one that was
//! made while drives could discard keeps sending discards.

mod attached;
mod connections;
mod control;
mod device;
mod giving_up;
mod handshake;
mod netlink;
mod sysfs;

pub(super) use attached::KernelDevices;
pub(crate) use giving_up::give_up;

use anyhow::{Context, Result};
use std::path::Path;
use std::time::Duration;

/// How long requests wait for the next server. A day, so that a server that crashed in the evening can be started in the
/// morning; and not longer, so that a device which nobody will serve again ends with errors instead of keeping programs
/// in uninterruptible sleep until the machine is restarted.
const DEAD_CONNECTION_TIMEOUT: Duration = Duration::from_secs(24 * 60 * 60);

/// What a request may take beyond the time in which a drive has to answer: failing the drive, writing the record that says
/// so, and all requests that have waited for it.
const MARGIN: Duration = Duration::from_secs(30);

/// How long the kernel waits for the answer to a request before it gives the connection up; zero for ever.
fn request_timeout(deadline: Duration, connections: usize) -> Duration {
    match connections {
        ..=1 => Duration::ZERO,
        _ => deadline + MARGIN,
    }
}

/// A request timeout that a server would give a device that is attached, and that is shorter than the one which it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortened {
    /// The timeout that the device has.
    pub from: Duration,
    /// The timeout that it would get.
    pub to: Duration,
}

impl Shortened {
    /// The shortest deadline that shortens nothing.
    #[must_use]
    pub fn deadline_min(&self) -> Duration {
        self.from.saturating_sub(MARGIN)
    }
}

/// Whether a server with this `deadline` would shorten the request timeout of the device `node`, `/dev/nbdN`, if it replaced the
/// one that serves it. Requests that wait for that server count from when they were sent: after a shorter time the kernel
/// would give up connections that it has just got, and send again what may be carried out already.
///
/// # Errors
/// `node` is no such device, or sysfs does not tell of it.
pub fn would_shorten(node: &Path, deadline: Duration) -> Result<Option<Shortened>> {
    would_shorten_in(Path::new(sysfs::FOLDER), node, deadline)
}

fn would_shorten_in(block: &Path, node: &Path, deadline: Duration) -> Result<Option<Shortened>> {
    let name = node.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix("nbd")?.parse().ok());
    let number = number.with_context(|| format!("{} is no NBD device", node.display()))?;
    let connections = sysfs::shape(block, number)?.connections;
    let to = request_timeout(deadline, connections);
    if to.is_zero() {
        return Ok(None);
    }
    let from = sysfs::request_timeout(block, number)?;
    Ok((to < from).then_some(Shortened { from, to }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_live_server_is_given_up() {
        let timeout = |deadline_s, connections| {
            request_timeout(Duration::from_secs(deadline_s), connections).as_secs()
        };
        assert_eq!(timeout(30, 2), 60);
        assert_eq!(timeout(3600, 8), 3630);
        assert_eq!(timeout(3600, 1), 0);
    }

    #[test]
    fn a_shorter_timeout_under_a_device_is_noticed() {
        let block = tempfile::tempdir().unwrap();
        for (file, text) in [
            ("size", "8"),
            ("ro", "0"),
            ("queue/logical_block_size", "512"),
            ("queue/io_timeout", "60000"),
            ("mq/0/cpu_list", "0"),
            ("mq/1/cpu_list", "1"),
        ] {
            let path = block.path().join("nbd7").join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, format!("{text}\n")).unwrap();
        }
        let shortened = |deadline_s| {
            let deadline = Duration::from_secs(deadline_s);
            would_shorten_in(block.path(), Path::new("/dev/nbd7"), deadline).unwrap()
        };
        assert_eq!((shortened(30), shortened(300)), (None, None));
        let found = shortened(29).unwrap();
        let [from, to, least] = [found.from, found.to, found.deadline_min()];
        assert_eq!([from, to, least].map(|time| time.as_secs()), [60, 59, 30]);
        // A single connection has no timeout; the kernel shows 30 s.
        std::fs::remove_dir_all(block.path().join("nbd7/mq/1")).unwrap();
        assert_eq!(shortened(1), None);
        let other = would_shorten_in(block.path(), Path::new("/dev/sda"), Duration::ZERO);
        assert_eq!(other.unwrap_err().to_string(), "/dev/sda is no NBD device");
    }
}
