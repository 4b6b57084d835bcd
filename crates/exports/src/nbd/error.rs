//! The two kinds of failure of an NBD session.
//!
//! An [`ErrorCode`] answers one request, and the session continues. A [`ProtocolError`] ends the session: the byte
//! stream can no longer be understood, or the protocol has no way to answer, so the connection must be closed. The
//! sentence of a [`ProtocolError`] is for the server's log.

use super::wire::{OPTION_MAGIC, REQUEST_MAGIC};

/// The error values that a reply may carry; the protocol allows no others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum ErrorCode {
    /// `EPERM`: the export is read-only.
    NotPermitted = 1,
    /// `EIO`: the data could not be read or written.
    InputOutput = 5,
    /// `ENOMEM`: memory ran out (the protocol asks servers to avoid this one).
    OutOfMemory = 12,
    /// `EINVAL`: the request breaks a rule.
    Invalid = 22,
    /// `ENOSPC`: the write goes beyond the end, or the storage below is full.
    NoSpace = 28,
    /// `EOVERFLOW`: the request is longer than the server handles at once.
    Overflow = 75,
    /// `ENOTSUP`: a fast zeroing was requested and would not be fast. Used for nothing else.
    NotSupported = 95,
    /// `ESHUTDOWN`: the server is shutting down.
    ShuttingDown = 108,
}

impl ErrorCode {
    /// The value on the wire.
    pub fn value(self) -> u32 {
        self as u32
    }
}

/// Why a connection must be closed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProtocolError {
    /// The client answered the greeting with flags that this server did not offer.
    #[error(
        "the client answered the greeting with flags {flags:#010x}, of which bits 0 and 1 exist"
    )]
    ClientFlags {
        /// All flags as received.
        flags: u32,
    },
    /// An option did not start with its magic number.
    #[error("an option starts with {found:#018x} instead of {OPTION_MAGIC:#018x}")]
    OptionMagic {
        /// The value in place of the magic number.
        found: u64,
    },
    /// A client that did not agree to fixed newstyle sent an option to which it could get no answer.
    #[error("the client sent option {option} without having agreed to fixed newstyle")]
    OptionNeedsFixedNewstyle {
        /// Number of the option.
        option: u32,
    },
    /// An option announced more data than any client needs to send.
    #[error("option {option} announces {length_bytes} bytes of data, more than {limit_bytes}")]
    OptionTooLong {
        /// Number of the option.
        option: u32,
        /// Announced length of its data.
        length_bytes: u32,
        /// Longest option data that is read and dropped.
        limit_bytes: u32,
    },
    /// The client negotiates on and on without starting transmission.
    #[error("the client sent more than {limit} options without choosing an export")]
    TooManyOptions {
        /// Most options in one session.
        limit: u32,
    },
    /// `OPT_EXPORT_NAME` named no export; this option has no error reply.
    #[error("the client asked by the option without error reply for the unknown export {name:?}")]
    UnknownExport {
        /// The name, shortened if it is long.
        name: String,
    },
    /// `OPT_EXPORT_NAME` with an invalid name; this option has no error reply.
    #[error("the client asked by the option without error reply for an export, but {problem}")]
    ExportName {
        /// What is wrong with the name.
        problem: &'static str,
    },
    /// `OPT_EXPORT_NAME` while the server shuts down; this option has no error reply.
    #[error("the client asked for an export while the server shuts down")]
    ShuttingDown,
    /// A request did not start with its magic number.
    #[error("a request starts with {found:#010x} instead of {REQUEST_MAGIC:#010x}")]
    RequestMagic {
        /// The value in place of the magic number.
        found: u32,
    },
}
