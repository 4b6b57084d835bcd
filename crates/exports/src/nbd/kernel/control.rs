//! Commands to the kernel's NBD driver, through a socket of generic netlink. Numbers from `linux/nbd-netlink.h`.
//!
//! The kernel carries a command out while it is being sent, and its answer waits when that is done.

use super::netlink::{Attributes, CONTROLLER, Malformed, Told, Values, messages};
use rustix::io::Errno;
use rustix::net::netlink::{self, SocketAddrNetlink};
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, sockopt};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::time::Duration;

/// There if the driver is, whether as a module or in the kernel's image.
const DRIVER: &str = "/sys/module/nbd";
const ANSWERED_WITHIN: Duration = Duration::from_secs(10);
/// Longer than any answer, which tells of one family or one device.
const ANSWER_BYTES: usize = 16 << 10;
/// How many messages the kernel may send before the outcome.
const ANSWERS_MAX: usize = 8;

const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
const FAMILY_ATTRIBUTE_MAX: u16 = 5;

const CONNECT: u8 = 1;
const DISCONNECT: u8 = 2;
const RECONFIGURE: u8 = 3;

const INDEX: u16 = 1;
const SIZE_BYTES: u16 = 2;
const BLOCK_SIZE_BYTES: u16 = 3;
const TIMEOUT: u16 = 4;
const SERVER_FLAGS: u16 = 5;
const SOCKETS: u16 = 7;
const DEAD_CONNECTION_TIMEOUT: u16 = 8;
const BACKEND_IDENTIFIER: u16 = 10;
const SOCKET_ITEM: u16 = 1;
const SOCKET_DESCRIPTOR: u16 = 1;

/// Why the driver did not do what it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum ControlError {
    #[error(
        "this kernel has no NBD client: load its module with 'modprobe nbd' (and name it in /etc/modules-load.d to have it after the next start)"
    )]
    Missing,
    #[error(
        "this kernel's NBD client does not keep whose device it is, so the next server could not take it over; Linux 5.14 or newer is needed"
    )]
    TooOld,
    #[error("NBD devices need the capability CAP_SYS_ADMIN: run the server as root")]
    NotAllowed,
    #[error("the kernel does not {what}, because the device is in use by another program")]
    Busy { what: &'static str },
    #[error("the kernel does not {what}: {errno}")]
    Refused { what: &'static str, errno: Errno },
    #[error("the kernel's answer is not as expected when asked to {what}")]
    Unexpected { what: &'static str },
    #[error("generic netlink, the way to the kernel's NBD client, cannot be used: {0}")]
    NoNetlink(Errno),
}

impl ControlError {
    fn refused(what: &'static str, errno: i32) -> ControlError {
        match Errno::from_raw_os_error(errno) {
            Errno::PERM | Errno::ACCESS => ControlError::NotAllowed,
            Errno::BUSY => ControlError::Busy { what },
            errno => ControlError::Refused { what, errno },
        }
    }

    pub fn is(&self, wanted: Errno) -> bool {
        matches!(self, ControlError::Refused { errno, .. } if *errno == wanted)
    }
}

/// What the kernel gets with every set of connections. Times are in seconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connections<'a> {
    /// Whose device it is.
    pub identifier: &'a str,
    /// After this time the kernel gives the connection of an unanswered request up; never if 0.
    pub request_timeout_s: u64,
    /// How long requests wait for new connections.
    pub dead_connection_timeout_s: u64,
    /// Connections on which requests can be sent at once.
    pub sockets: &'a [BorrowedFd<'a>],
}

impl Connections<'_> {
    fn attributes(&self, before: Attributes) -> Attributes {
        let sockets = self.sockets.iter();
        let items = sockets.fold(Attributes::default(), |items, socket| {
            let descriptor = socket.as_raw_fd().cast_unsigned();
            items.nested(
                SOCKET_ITEM,
                Attributes::default().u32(SOCKET_DESCRIPTOR, descriptor),
            )
        });
        before
            .u64(TIMEOUT, self.request_timeout_s)
            .u64(DEAD_CONNECTION_TIMEOUT, self.dead_connection_timeout_s)
            .text(BACKEND_IDENTIFIER, self.identifier)
            .nested(SOCKETS, items)
    }
}

/// A device as it is asked for.
#[derive(Clone, Copy, Debug)]
pub(super) struct Wanted<'a> {
    pub size_bytes: u64,
    pub block_bytes: u32,
    /// The protocol's transmission flags.
    pub flags: u16,
    pub connections: Connections<'a>,
}

impl Wanted<'_> {
    fn attributes(&self) -> Attributes {
        let before = Attributes::default()
            .u64(SIZE_BYTES, self.size_bytes)
            .u64(BLOCK_SIZE_BYTES, self.block_bytes.into())
            .u64(SERVER_FLAGS, self.flags.into());
        self.connections.attributes(before)
    }
}

/// The way to the driver.
#[derive(Debug)]
pub(super) struct Control {
    socket: OwnedFd,
    family: u16,
    sequence: u32,
}

impl Control {
    /// Finds the driver. Asking netlink for a driver that is not there would have the kernel load it, so its absence is
    /// noticed before: which modules are loaded is for the administrator to say.
    ///
    /// # Errors
    /// There is none, it is too old, or netlink cannot be used.
    pub fn open() -> Result<Control, ControlError> {
        if !Path::new(DRIVER).exists() {
            return Err(ControlError::Missing);
        }
        Control::of_family("nbd", BACKEND_IDENTIFIER)
    }

    /// The way to a family that knows an attribute.
    fn of_family(name: &str, attribute: u16) -> Result<Control, ControlError> {
        let mut control = Control {
            socket: open_socket().map_err(ControlError::NoNetlink)?,
            family: CONTROLLER,
            sequence: 0,
        };
        let asked = Attributes::default().text(FAMILY_NAME, name);
        let what = "tell of its NBD client";
        let (family, attribute_max) = control
            .exchange(what, GET_FAMILY, asked, |values| {
                let family = u16::from_ne_bytes(values.get(FAMILY_ID)?);
                let attribute_max = u32::from_ne_bytes(values.get(FAMILY_ATTRIBUTE_MAX)?);
                Some((family, attribute_max))
            })
            .map_err(|error| match error.is(Errno::NOENT) {
                true => ControlError::Missing,
                false => error,
            })?
            .ok_or(ControlError::Unexpected { what })?;
        if is_too_old(attribute_max, attribute) {
            return Err(ControlError::TooOld);
        }
        control.family = family;
        Ok(control)
    }

    /// Makes a device with a number that the kernel chooses, and returns the number.
    pub fn connect(&mut self, wanted: &Wanted<'_>) -> Result<u32, ControlError> {
        let what = "make an NBD device";
        let number = self.exchange(what, CONNECT, wanted.attributes(), |values| {
            values.get(INDEX).map(u32::from_ne_bytes)
        })?;
        number.ok_or(ControlError::Unexpected { what })
    }

    /// Replaces connections of a device that have ended, one by one, as far as there are any. Connections that were not
    /// needed are closed, and that is no error.
    pub fn reconfigure(
        &mut self,
        number: u32,
        connections: &Connections<'_>,
    ) -> Result<(), ControlError> {
        let asked = connections.attributes(Attributes::default().u32(INDEX, number));
        let what = "take new connections for an NBD device";
        self.exchange(what, RECONFIGURE, asked, |_| Some(()))?;
        Ok(())
    }

    /// Ends a device. Requests that it has not answered fail.
    pub fn disconnect(&mut self, number: u32) -> Result<(), ControlError> {
        let asked = Attributes::default().u32(INDEX, number);
        let what = "end an NBD device";
        self.exchange(what, DISCONNECT, asked, |_| Some(()))?;
        Ok(())
    }

    /// Sends a command and waits for its outcome. Returns what `read` finds in the answer.
    fn exchange<T>(
        &mut self,
        what: &'static str,
        command: u8,
        attributes: Attributes,
        read: impl Fn(Values<'_>) -> Option<T>,
    ) -> Result<Option<T>, ControlError> {
        self.sequence += 1;
        let message = attributes.command(self.family, command, self.sequence);
        rustix::net::send(&self.socket, &message, SendFlags::empty())
            .map_err(ControlError::NoNetlink)?;
        let mut found = None;
        let mut bytes = vec![0; ANSWER_BYTES];
        for _ in 0..ANSWERS_MAX {
            let (_, length) = rustix::net::recv(&self.socket, &mut bytes[..], RecvFlags::empty())
                .map_err(ControlError::NoNetlink)?;
            let told = messages(&bytes[..length.min(ANSWER_BYTES)], self.sequence)
                .map_err(|Malformed| ControlError::Unexpected { what })?;
            for one in told {
                match one {
                    Told::Answer(values) => found = found.or_else(|| read(values)),
                    Told::Outcome(Ok(())) => return Ok(found),
                    Told::Outcome(Err(errno)) => return Err(ControlError::refused(what, errno)),
                }
            }
        }
        Err(ControlError::Unexpected { what })
    }
}

/// Whether a family with this highest attribute lacks one. It is 0 if each of a family's commands has attributes of its own,
/// as those of new families do.
fn is_too_old(attribute_max: u32, attribute: u16) -> bool {
    (1..u32::from(attribute)).contains(&attribute_max)
}

/// A socket that gets messages of nobody but the kernel, because it is connected to it.
fn open_socket() -> Result<OwnedFd, Errno> {
    let socket = rustix::net::socket_with(
        AddressFamily::NETLINK,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        Some(netlink::GENERIC),
    )?;
    rustix::net::connect(&socket, &SocketAddrNetlink::new(0, 0))?;
    sockopt::set_socket_timeout(&socket, sockopt::Timeout::Recv, Some(ANSWERED_WITHIN))?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::AsFd;

    #[test]
    fn a_device_is_asked_for_as_the_header_says() {
        if !cfg!(target_endian = "little") {
            return;
        }
        let socket = rustix::fs::open("/dev/null", rustix::fs::OFlags::RDONLY, 0.into()).unwrap();
        let [low, high, ..] = socket.as_raw_fd().to_le_bytes();
        let wanted = Wanted {
            size_bytes: 3 << 30,
            block_bytes: 4096,
            flags: 0x16d,
            connections: Connections {
                identifier: "f:1",
                request_timeout_s: 60,
                dead_connection_timeout_s: 0x0102,
                sockets: &[socket.as_fd(), socket.as_fd()],
            },
        };
        let message = wanted.attributes().command(31, CONNECT, 5);
        #[rustfmt::skip]
        assert_eq!(message, [
            116, 0, 0, 0,  31, 0,  5, 0,  5, 0, 0, 0,  0, 0, 0, 0,
            1, 1, 0, 0,
            12, 0, 2, 0,  0, 0, 0, 0xc0, 0, 0, 0, 0,        // NBD_ATTR_SIZE_BYTES
            12, 0, 3, 0,  0, 0x10, 0, 0, 0, 0, 0, 0,        // NBD_ATTR_BLOCK_SIZE_BYTES
            12, 0, 5, 0,  0x6d, 1, 0, 0, 0, 0, 0, 0,        // NBD_ATTR_SERVER_FLAGS
            12, 0, 4, 0,  60, 0, 0, 0, 0, 0, 0, 0,          // NBD_ATTR_TIMEOUT
            12, 0, 8, 0,  2, 1, 0, 0, 0, 0, 0, 0,           // NBD_ATTR_DEAD_CONN_TIMEOUT
            8, 0, 10, 0,  b'f', b':', b'1', 0,              // NBD_ATTR_BACKEND_IDENTIFIER
            28, 0, 7, 0x80,                                 // NBD_ATTR_SOCKETS
            12, 0, 1, 0x80,  8, 0, 1, 0,  low, high, 0, 0,
            12, 0, 1, 0x80,  8, 0, 1, 0,  low, high, 0, 0,
        ]);
        let again = wanted
            .connections
            .attributes(Attributes::default().u32(INDEX, 2));
        let message = again.command(31, RECONFIGURE, 6);
        assert_eq!(message[16], 3);
        assert_eq!(message[20..28], [8, 0, 1, 0, 2, 0, 0, 0]);
        assert_eq!(message.len(), 116 - 3 * 12 + 8);
    }

    /// This and the next ask the running kernel.
    #[test]
    fn a_family_that_the_kernel_does_not_have_is_missing() {
        let error = Control::of_family("fullstripe-none", 1).unwrap_err();
        assert_eq!(error, ControlError::Missing);
        assert!(error.to_string().contains("modprobe nbd"), "{error}");
    }

    #[test]
    fn a_family_without_the_attribute_of_the_owner_is_too_old() {
        assert!(is_too_old(9, BACKEND_IDENTIFIER));
        assert!(!is_too_old(10, BACKEND_IDENTIFIER));
        assert!(!is_too_old(0, BACKEND_IDENTIFIER));
    }

    /// A whole exchange with the kernel: the family of families tells of itself.
    #[test]
    fn the_kernel_answers() {
        let mut control = Control::of_family("nlctrl", 1).unwrap();
        assert_eq!(control.family, CONTROLLER);
        let error = control
            .exchange("do this", 200, Attributes::default(), |_| Some(()))
            .unwrap_err();
        assert!(error.is(Errno::OPNOTSUPP), "{error}");
        assert_eq!(
            error.to_string(),
            "the kernel does not do this: Operation not supported (os error 95)"
        );
    }

    #[test]
    fn a_machine_without_the_driver_is_told_what_to_load() {
        if Path::new(DRIVER).exists() {
            eprintln!("skipped: this kernel has the driver");
            return;
        }
        assert_eq!(Control::open().unwrap_err(), ControlError::Missing);
    }

    #[test]
    fn refusals_say_what_to_do() {
        let refused = |errno| ControlError::refused("make an NBD device", errno).to_string();
        assert!(refused(1).contains("CAP_SYS_ADMIN"));
        assert!(refused(16).contains("in use by another program"));
        assert!(refused(22).contains("does not make an NBD device: "));
        assert!(ControlError::TooOld.to_string().contains("Linux 5.14"));
    }
}
