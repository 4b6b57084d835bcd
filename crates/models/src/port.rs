//! The drive's end of its PCIe link: its bandwidth in each direction.
//!
//! A drive knows only its own port. A platform that knows more (a switch that drives share, another payload size) takes
//! its place as the [`Way`] of the data: see [`crate::platform`].

use crate::calendar::Calendar;
use crate::server::{Pace, Server};

/// Share of raw link bandwidth that payload gets from drive to host: 128-byte payloads with 24 bytes of
/// header, framing and checksum each, less 3 % for acknowledgements and flow control (PCI Express base
/// specification 3.0; Intel application notes 690 and 708 count the same way).
const TO_HOST_PER_MILLE: u64 = 817;
/// Share from host to drive: the answers to a drive's reads of host memory are cut into completions of 128
/// bytes with 20 bytes around each, less the same 3 %. A platform that answers in 64 bytes is slower.
const TO_DRIVE_PER_MILLE: u64 = 839;
/// Bytes of a command on the wire in each direction: queue entry, completion entry, doorbells and interrupt. A prior:
/// 64-byte submission entry down, 16-byte completion entry and interrupt message up, with headers.
const COMMAND_OVERHEAD_BYTES: u64 = 80;

/// The speed of a drive's port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Port {
    /// Payload per second from drive to host.
    pub to_host_bytes_per_s: u64,
    /// Payload per second from host to drive.
    pub to_drive_bytes_per_s: u64,
    /// Bytes of each command in addition to its payload, in each direction.
    pub command_overhead_bytes: u64,
}

impl Port {
    /// The port of a link with so many lanes of this PCIe generation.
    #[must_use]
    pub fn of_link(lanes: u64, generation: u64) -> Port {
        let raw = raw_bytes_per_s(lanes, generation);
        Port {
            to_host_bytes_per_s: raw / 1000 * TO_HOST_PER_MILLE,
            to_drive_bytes_per_s: raw / 1000 * TO_DRIVE_PER_MILLE,
            command_overhead_bytes: COMMAND_OVERHEAD_BYTES,
        }
    }

    /// A port without limit: nothing takes any time.
    #[must_use]
    pub fn unlimited() -> Port {
        Port {
            to_host_bytes_per_s: 0,
            to_drive_bytes_per_s: 0,
            command_overhead_bytes: 0,
        }
    }
}

/// How data travels between a drive and the host's memory.
pub trait Way {
    /// When data that leaves the drive at `ready_ns` has reached the host, including the overhead of `commands`
    /// commands. `now_ns` is the drive's time and never after `ready_ns`.
    fn to_host_ns(&mut self, now_ns: u64, ready_ns: u64, bytes: u64, commands: u64) -> u64;
    /// When data that a command requests at `ready_ns` has arrived from the host.
    fn to_drive_ns(&mut self, now_ns: u64, ready_ns: u64, bytes: u64) -> u64;
}

/// A drive's own port, without a platform.
#[derive(Clone, Debug, Default)]
pub struct OwnPort {
    to_host: Calendar,
    to_drive: Server,
    to_host_pace: Pace,
    to_drive_pace: Pace,
    command_overhead_bytes: u64,
}

impl OwnPort {
    /// A port of this speed.
    #[must_use]
    pub fn new(port: Port) -> OwnPort {
        OwnPort {
            to_host: Calendar::roomy(),
            to_drive: Server::default(),
            to_host_pace: Pace::of_bytes_per_s(port.to_host_bytes_per_s),
            to_drive_pace: Pace::of_bytes_per_s(port.to_drive_bytes_per_s),
            command_overhead_bytes: port.command_overhead_bytes,
        }
    }

    /// Busy time towards the host.
    #[must_use]
    pub fn to_host_busy_ns(&self) -> u64 {
        self.to_host.busy_ns()
    }

    /// Busy time towards the drive.
    #[must_use]
    pub fn to_drive_busy_ns(&self) -> u64 {
        self.to_drive.busy_ns()
    }
}

impl Way for OwnPort {
    fn to_host_ns(&mut self, now_ns: u64, ready_ns: u64, bytes: u64, commands: u64) -> u64 {
        let wire_bytes = bytes + commands * self.command_overhead_bytes;
        let sent_ns = self.to_host_pace.time_ns(wire_bytes);
        self.to_host.reserve(now_ns, ready_ns, sent_ns)
    }

    fn to_drive_ns(&mut self, _: u64, ready_ns: u64, bytes: u64) -> u64 {
        let wire_bytes = bytes + self.command_overhead_bytes;
        self.to_drive
            .serve(ready_ns, self.to_drive_pace.time_ns(wire_bytes))
    }
}

/// Raw bytes per second: in generation 3, 8 GT/s per lane with 128b/130b coding; each later generation doubles that. Generations 1
/// and 2 have 2.5 and 5 GT/s with 8b/10b coding.
#[must_use]
pub fn raw_bytes_per_s(lanes: u64, generation: u64) -> u64 {
    if generation < 3 {
        return lanes.min(64) * 250_000_000 * generation.max(1);
    }
    let doublings = u32::try_from(generation.clamp(3, 6) - 3).unwrap_or(0);
    (lanes.min(64) * 984_615_384) << doublings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn four_lanes_of_the_third_generation() {
        let port = Port::of_link(4, 3);
        assert_eq!(raw_bytes_per_s(4, 3), 3_938_461_536);
        assert_eq!(port.to_host_bytes_per_s / 10_000_000, 321);
        assert_eq!(port.to_drive_bytes_per_s / 10_000_000, 330);
        assert_eq!(raw_bytes_per_s(4, 4), 2 * raw_bytes_per_s(4, 3));
        assert_eq!(raw_bytes_per_s(2, 2), 1_000_000_000);
        assert_eq!(raw_bytes_per_s(1, 1), 250_000_000);
    }
}
