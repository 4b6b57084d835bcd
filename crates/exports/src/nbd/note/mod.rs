//! The note that goes with sockets from one server to the next, as bytes: which address a listening socket has, and
//! where in its session each client is.
//!
//! The sockets themselves are descriptors, which the service manager keeps meanwhile. Their names say which entry of the
//! note belongs to them ([`Kept`]); one that is missing has ended meanwhile, and its entry is not used. Numbers are in the
//! protocol's order, the highest byte first:
//!
//! ```text
//! note         8  "FSNBDNOT"
//!              2  version, 1
//!              2  number of listening sockets; then these
//!              2  number of connections; then these
//! listening    2  length of the address, and the address as serve's option has it: unix:/run/nbd.sock
//!              8  device of the socket's file, 8  its inode; 0 without a file
//! connection   1  0: in the handshake, 1: sends requests
//!   0:         2  length of what the client has said, and these bytes
//!   1:        16  UUID of the volume
//!              2  length of the export's name, and the name
//!              1  bits: 1 structured replies, 2 base:allocation selected, 4 the client is this machine's kernel
//!              2  transmission flags that the client was told
//!              8  size of the export in bytes
//!              4  smallest block in bytes, 4  longest payload in bytes
//!              1  bytes of a request's header that were read, and these bytes
//!              4  bytes of a refused write's payload that are to be dropped
//! ```
//!
//! A note of another version is refused as a whole: the sockets are closed, and clients connect again as they do after any
//! restart. So a new version needs no knowledge of older ones, and an older program that follows a newer one is safe, if it
//! knows notes at all.

mod bytes;

use super::command::Rules;
use super::frozen::{Frozen, FrozenTransmission, MAX_SAID_BYTES};
use super::wire::MAX_STRING_BYTES;
use bytes::Reader;

const MAGIC: &[u8; 8] = b"FSNBDNOT";
/// See the module's documentation.
pub const VERSION: u16 = 1;
/// Listening sockets of one server, at most.
pub const LISTENERS_MAX: usize = 64;
/// Connections that one server hands over, at most; the descriptor store of the service is a little larger.
pub const CONNECTIONS_MAX: usize = 4096;
/// An address is a path or a host with a port.
const ADDRESS_BYTES_MAX: usize = 4096;

const STRUCTURED_REPLIES: u8 = 1;
const BLOCK_STATUS: u8 = 2;
const KERNEL: u8 = 4;

/// The name of the note's descriptor.
pub const NOTE_NAME: &str = "nbd-note";
const LISTENER_NAME: &str = "nbd-listener-";
const CONNECTION_NAME: &str = "nbd-connection-";

/// Which entry of the note a descriptor belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// The note itself.
    Note,
    /// The listening socket with this index in [`Note::listeners`].
    Listener(usize),
    /// The connection with this index in [`Note::connections`].
    Connection(usize),
}

impl Kept {
    /// The name of the descriptor.
    #[must_use]
    pub fn name(self) -> String {
        match self {
            Kept::Note => NOTE_NAME.to_owned(),
            Kept::Listener(index) => format!("{LISTENER_NAME}{index}"),
            Kept::Connection(index) => format!("{CONNECTION_NAME}{index}"),
        }
    }

    /// What a descriptor of this name is; `None` if it is not NBD's.
    #[must_use]
    pub fn named(name: &str) -> Option<Kept> {
        let index = |prefix| name.strip_prefix(prefix)?.parse().ok();
        let kept = match name {
            NOTE_NAME => Kept::Note,
            _ => index(LISTENER_NAME)
                .map(Kept::Listener)
                .or_else(|| index(CONNECTION_NAME).map(Kept::Connection))?,
        };
        // Each has one name: "nbd-listener-01" is none.
        (kept.name() == name).then_some(kept)
    }
}

/// See the module's documentation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Note {
    /// The listening sockets.
    pub listeners: Vec<ListenerNote>,
    /// The connections.
    pub connections: Vec<ConnectionNote>,
}

/// A listening socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListenerNote {
    /// The address, as the option of `serve` has it.
    pub address: String,
    /// Device and inode of the socket's file; zeros without a file.
    pub file: (u64, u64),
}

/// A client's connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectionNote {
    /// UUID of the volume; zeros in the handshake.
    pub volume: [u8; 16],
    /// Whether the client is this machine's kernel, for a block device.
    pub is_kernels: bool,
    /// Where the session is.
    pub session: Frozen,
}

/// Why bytes are no note. Each text is a part of a sentence.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoteError {
    /// Another program's, or another version of this one's.
    #[error("it has version {found}, and this program knows {VERSION}")]
    Version {
        /// The version.
        found: u16,
    },
    /// Not what a server writes.
    #[error("it is damaged: {what}")]
    Damaged {
        /// What is wrong.
        what: &'static str,
    },
}

impl Note {
    /// The note as bytes.
    ///
    /// # Panics
    /// If there are more than [`LISTENERS_MAX`] listening sockets or [`CONNECTIONS_MAX`] connections.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        assert!(self.listeners.len() <= LISTENERS_MAX && self.connections.len() <= CONNECTIONS_MAX);
        let mut out = MAGIC.to_vec();
        out.extend(VERSION.to_be_bytes());
        out.extend((self.listeners.len() as u16).to_be_bytes());
        for listener in &self.listeners {
            counted(&mut out, listener.address.as_bytes());
            out.extend(listener.file.0.to_be_bytes());
            out.extend(listener.file.1.to_be_bytes());
        }
        out.extend((self.connections.len() as u16).to_be_bytes());
        self.connections
            .iter()
            .for_each(|connection| connection.write(&mut out));
        out
    }

    /// Reads a note.
    ///
    /// # Errors
    /// [`NoteError`]; whatever the bytes are, nothing else happens.
    pub fn from_bytes(bytes: &[u8]) -> Result<Note, NoteError> {
        let mut reader = Reader::new(bytes);
        if reader.array()? != *MAGIC {
            return Err(NoteError::Damaged {
                what: "it does not begin as a note does",
            });
        }
        let found = reader.u16()?;
        if found != VERSION {
            return Err(NoteError::Version { found });
        }
        let mut note = Note::default();
        for _ in 0..reader.count(LISTENERS_MAX)? {
            note.listeners.push(ListenerNote {
                address: reader.text(ADDRESS_BYTES_MAX)?,
                file: (reader.u64()?, reader.u64()?),
            });
        }
        for _ in 0..reader.count(CONNECTIONS_MAX)? {
            note.connections.push(ConnectionNote::read(&mut reader)?);
        }
        reader.end()?;
        Ok(note)
    }
}

impl ConnectionNote {
    fn write(&self, out: &mut Vec<u8>) {
        let session = match &self.session {
            Frozen::Handshake { said } => {
                out.push(0);
                return counted(out, said);
            }
            Frozen::Transmission(session) => session,
        };
        let rules = &session.rules;
        out.push(1);
        out.extend(self.volume);
        counted(out, session.export.as_bytes());
        let bits = [
            (session.structured_replies, STRUCTURED_REPLIES),
            (rules.block_status, BLOCK_STATUS),
            (self.is_kernels, KERNEL),
        ];
        out.push(
            bits.iter()
                .filter(|(set, _)| *set)
                .map(|(_, bit)| bit)
                .sum(),
        );
        out.extend(rules.transmission_flags.to_be_bytes());
        out.extend(rules.size_bytes.to_be_bytes());
        out.extend(rules.minimum_block_bytes.to_be_bytes());
        out.extend(rules.maximum_payload_bytes.to_be_bytes());
        out.push(session.partial_header.len() as u8);
        out.extend(&session.partial_header);
        out.extend(session.discarded_bytes.to_be_bytes());
    }

    fn read(reader: &mut Reader<'_>) -> Result<ConnectionNote, NoteError> {
        match reader.u8()? {
            0 => Ok(ConnectionNote {
                volume: [0; 16],
                is_kernels: false,
                session: Frozen::Handshake {
                    said: reader.counted(MAX_SAID_BYTES)?.to_vec(),
                },
            }),
            1 => ConnectionNote::read_transmission(reader),
            _ => Err(NoteError::Damaged {
                what: "a connection is in no phase of the protocol",
            }),
        }
    }

    fn read_transmission(reader: &mut Reader<'_>) -> Result<ConnectionNote, NoteError> {
        let volume = reader.array()?;
        let export = reader.text(MAX_STRING_BYTES)?;
        let bits = reader.u8()?;
        if bits & !(STRUCTURED_REPLIES | BLOCK_STATUS | KERNEL) != 0 {
            return Err(NoteError::Damaged {
                what: "a connection has agreed on something unknown",
            });
        }
        let rules = Rules {
            block_status: bits & BLOCK_STATUS != 0,
            transmission_flags: reader.u16()?,
            size_bytes: reader.u64()?,
            minimum_block_bytes: reader.u32()?,
            maximum_payload_bytes: reader.u32()?,
        };
        let header_bytes = usize::from(reader.u8()?);
        let session = FrozenTransmission {
            export,
            structured_replies: bits & STRUCTURED_REPLIES != 0,
            rules,
            partial_header: reader.bytes(header_bytes)?.to_vec(),
            discarded_bytes: reader.u32()?,
        };
        if !session.is_possible() {
            return Err(NoteError::Damaged {
                what: "a connection has numbers that no client was told",
            });
        }
        Ok(ConnectionNote {
            volume,
            is_kernels: bits & KERNEL != 0,
            session: Frozen::Transmission(session),
        })
    }
}

/// Writes a length and so many bytes.
fn counted(out: &mut Vec<u8>, bytes: &[u8]) {
    let length = u16::try_from(bytes.len()).expect("names, addresses and handshakes are short");
    out.extend(length.to_be_bytes());
    out.extend(bytes);
}

#[cfg(test)]
mod tests;
