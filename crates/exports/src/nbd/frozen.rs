//! A session between two messages, as data: what the next process needs to go on with the same client.
//!
//! A session is frozen ([`Session::freeze`](super::Session::freeze)) when the server owes its client nothing, and thawed
//! ([`Session::thaw`](super::Session::thaw)) by the process after it. In between, bytes of the client wait in the socket.
//! Few bytes have been read already without being a whole message, and these belong to the frozen session:
//!
//! - The beginning of a request's header, less than 28 bytes.
//! - How much of a refused write's payload is still to come, and to be dropped. A write that was accepted is different: its
//!   payload may be 32 MiB, and a client that has sent the header sends the rest at once. So the server reads the write to
//!   its end, exactly, before it freezes the session.
//! - Everything that a client has said before it chose an export. Said again to a new session, it leads to the same state.
//!
//! The rules of a client's requests stay those that it was told. A volume that cannot keep them is refused.

use super::command::Rules;
use super::export::Export;
use super::wire::{
    FLAG_CAN_MULTI_CONN, FLAG_READ_ONLY, FLAG_SEND_FLUSH, FLAG_SEND_FUA, FLAG_SEND_WRITE_ZEROES,
    MAX_MINIMUM_BLOCK_BYTES, MAX_PAYLOAD_BYTES,
};

/// The most that a client may have said before it chose an export. Usual clients say less than 200 bytes.
pub const MAX_SAID_BYTES: usize = 1024;

/// What a client relies on and may not be taken from it. An export that stops discarding answers those requests with an
/// error, in one process as well as across two.
const LASTING_FLAGS: u16 =
    FLAG_SEND_FLUSH | FLAG_SEND_FUA | FLAG_SEND_WRITE_ZEROES | FLAG_CAN_MULTI_CONN;

/// A session between two messages. See the module's documentation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frozen {
    /// The client has not chosen an export.
    Handshake {
        /// All that it has said, at most [`MAX_SAID_BYTES`].
        said: Vec<u8>,
    },
    /// The client sends requests.
    Transmission(FrozenTransmission),
}

/// A session whose client has chosen an export.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FrozenTransmission {
    /// Name of the export.
    pub export: String,
    /// Whether replies are structured.
    pub(super) structured_replies: bool,
    /// What the client may send.
    pub(super) rules: Rules,
    /// The beginning of a request's header.
    pub(super) partial_header: Vec<u8>,
    /// Payload of a refused write that is still to come.
    pub(super) discarded_bytes: u32,
}

/// Why a frozen session cannot go on. Each text is a part of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ThawError {
    /// There is no such export.
    #[error("volume {export} is not served any more")]
    Gone {
        /// The export's name.
        export: String,
    },
    /// The export has another size.
    #[error("volume {export} has {size_bytes} bytes, and the client was told {told_bytes}")]
    Size {
        /// The export's name.
        export: String,
        /// Its size now.
        size_bytes: u64,
        /// The size that the client knows.
        told_bytes: u64,
    },
    /// Requests that the client was allowed would be refused.
    #[error("volume {export} does not allow what the client was told: {what}")]
    Rules {
        /// The export's name.
        export: String,
        /// Which rule differs.
        what: &'static str,
    },
    /// What was said in the handshake now means something else.
    #[error("its handshake does not lead to where it was")]
    Handshake,
}

impl FrozenTransmission {
    /// Whether the numbers are possible at all, wherever they come from.
    pub(super) fn is_possible(&self) -> bool {
        let rules = &self.rules;
        !self.export.is_empty()
            && rules.minimum_block_bytes.is_power_of_two()
            && rules.minimum_block_bytes <= MAX_MINIMUM_BLOCK_BYTES
            && rules.maximum_payload_bytes <= MAX_PAYLOAD_BYTES
            && rules.size_bytes <= i64::MAX as u64
            && self.partial_header.len() < super::wire::REQUEST_HEADER_BYTES
            && (self.partial_header.is_empty() || self.discarded_bytes == 0)
    }

    /// Checks that `export` keeps what the client was told.
    ///
    /// # Errors
    /// The first thing that differs.
    pub(super) fn check(&self, export: &Export) -> Result<(), ThawError> {
        let told = &self.rules;
        if told.size_bytes != export.size_bytes {
            return Err(ThawError::Size {
                export: export.name.clone(),
                size_bytes: export.size_bytes,
                told_bytes: told.size_bytes,
            });
        }
        let flags = export.transmission_flags(self.structured_replies);
        let sizes = export.block_sizes;
        let is_new = |flag| flags & flag != 0 && told.transmission_flags & flag == 0;
        let differences = [
            (
                told.minimum_block_bytes != sizes.minimum_bytes,
                "the smallest block",
            ),
            (
                told.maximum_payload_bytes > sizes.maximum_payload_bytes,
                "the longest request",
            ),
            (is_new(FLAG_READ_ONLY), "writing"),
            (
                told.transmission_flags & LASTING_FLAGS & !flags != 0,
                "flushes, FUA, zeroing or several connections",
            ),
        ];
        match differences.iter().find(|(differs, _)| *differs) {
            None => Ok(()),
            Some((_, what)) => Err(ThawError::Rules {
                export: export.name.clone(),
                what,
            }),
        }
    }
}
