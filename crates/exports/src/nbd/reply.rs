//! Replies of the transmission phase.
//!
//! A reply to a read is a header in front of data that already lies in a buffer. So headers are small fixed arrays: a
//! driver keeps one beside the buffer and sends both with a vectored write. No payload is copied and nothing is
//! allocated. Only an error with a sentence for a person has a variable length; it is appended to a vector whose
//! capacity the driver keeps.
//!
//! Without structured replies every answer is a simple reply. With them, reads, errors and block status use structured
//! chunks, as the protocol requires or recommends. The plain "done" stays a simple reply, which is allowed and four
//! bytes shorter.

use std::fmt::Display;
use std::io::Write;
use std::ops::Deref;

use super::command::Refusal;
use super::error::ErrorCode;
use super::wire::*;

/// Identifier of `base:allocation` in replies, as announced when it was selected.
pub(super) const ALLOCATION_CONTEXT_ID: u32 = 1;

const CHUNK_HEADER_BYTES: usize = 20;
/// Error number and message length, in front of an error chunk's message.
const ERROR_FIELDS_BYTES: usize = 6;

/// Encodes replies in the negotiated form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyEncoder {
    structured_replies: bool,
}

/// Up to 32 bytes to send in front of the data, or alone. Dereferences to these bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplyHeader {
    bytes: [u8; ReplyHeader::CAPACITY],
    length: u8,
}

impl ReplyHeader {
    /// Longest header in bytes.
    pub const CAPACITY: usize = 32;

    fn new() -> Self {
        Self {
            bytes: [0; Self::CAPACITY],
            length: 0,
        }
    }

    fn with<const N: usize>(mut self, field: [u8; N]) -> Self {
        let start = usize::from(self.length);
        self.bytes[start..start + N].copy_from_slice(&field);
        self.length += N as u8;
        self
    }

    fn simple(cookie: u64, error: u32) -> Self {
        Self::new()
            .with(SIMPLE_REPLY_MAGIC.to_be_bytes())
            .with(error.to_be_bytes())
            .with(cookie.to_be_bytes())
    }

    /// Header of the last chunk of a reply.
    fn last_chunk(cookie: u64, chunk_type: u16, length_bytes: u32) -> Self {
        Self::new()
            .with(STRUCTURED_REPLY_MAGIC.to_be_bytes())
            .with(REPLY_FLAG_DONE.to_be_bytes())
            .with(chunk_type.to_be_bytes())
            .with(cookie.to_be_bytes())
            .with(length_bytes.to_be_bytes())
    }
}

impl Deref for ReplyHeader {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes[..usize::from(self.length)]
    }
}

/// A run of bytes with one state, in the reply to a block status command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// Length in bytes, not zero.
    pub length_bytes: u32,
    /// Whether the run is not allocated.
    pub is_hole: bool,
    /// Whether the run reads as zeroes.
    pub is_zero: bool,
}

impl Extent {
    fn flags(self) -> u32 {
        (if self.is_hole { STATE_HOLE } else { 0 }) | (if self.is_zero { STATE_ZERO } else { 0 })
    }
}

impl ReplyEncoder {
    pub(super) fn new(structured_replies: bool) -> Self {
        Self { structured_replies }
    }

    /// Whether structured replies were negotiated.
    pub fn uses_structured_replies(self) -> bool {
        self.structured_replies
    }

    /// Success of a command without data in its reply: write, flush, trim, write zeroes.
    pub fn done(self, cookie: u64) -> ReplyHeader {
        ReplyHeader::simple(cookie, 0)
    }

    /// Header in front of all the data of a read. The data must be complete and valid before any of
    /// it is sent, because no error can follow. `length_bytes` is that of the command, so not zero.
    pub fn read(self, cookie: u64, offset_bytes: u64, length_bytes: u32) -> ReplyHeader {
        if !self.structured_replies {
            return ReplyHeader::simple(cookie, 0);
        }
        let chunk_bytes = length_bytes + size_of::<u64>() as u32;
        ReplyHeader::last_chunk(cookie, REPLY_TYPE_OFFSET_DATA, chunk_bytes)
            .with(offset_bytes.to_be_bytes())
    }

    /// Failure of any command, without a sentence.
    pub fn error(self, cookie: u64, code: ErrorCode) -> ReplyHeader {
        if !self.structured_replies {
            return ReplyHeader::simple(cookie, code.value());
        }
        ReplyHeader::last_chunk(cookie, REPLY_TYPE_ERROR, ERROR_FIELDS_BYTES as u32)
            .with(code.value().to_be_bytes())
            .with(0u16.to_be_bytes())
    }

    /// Failure of any command, appended to `output` together with a sentence for a person if the form of the reply has
    /// room for one. A text of more than 4096 bytes is cut.
    pub fn error_with_message(
        self,
        output: &mut Vec<u8>,
        cookie: u64,
        code: ErrorCode,
        message: impl Display,
    ) {
        let start = output.len();
        output.extend_from_slice(&self.error(cookie, code));
        if !self.structured_replies {
            return;
        }
        let message_start = output.len();
        // Writing to a vector fails only if `message` itself reports an error; then the text is what it wrote before.
        let _ = write!(output, "{message}");
        let message_bytes = printable_prefix_bytes(&output[message_start..]);
        output.truncate(message_start + message_bytes);
        // The two lengths in front of the text are still those of an empty text.
        let chunk_length = (ERROR_FIELDS_BYTES + message_bytes) as u32;
        let chunk_length_at = start + CHUNK_HEADER_BYTES - size_of::<u32>();
        output[chunk_length_at..][..4].copy_from_slice(&chunk_length.to_be_bytes());
        let message_length_at = message_start - size_of::<u16>();
        output[message_length_at..][..2].copy_from_slice(&(message_bytes as u16).to_be_bytes());
    }

    /// The answer to a request that the session refused, appended to `output`.
    pub fn refusal(self, output: &mut Vec<u8>, refusal: &Refusal) {
        self.error_with_message(output, refusal.cookie(), refusal.code(), refusal);
    }

    /// The whole answer to a block status command: a single extent that begins at the command's offset. (Such commands
    /// pass only with structured replies.) The extent's length is not zero and, if the command requested one extent, at
    /// most the command's length.
    pub fn block_status(self, cookie: u64, extent: Extent) -> ReplyHeader {
        ReplyHeader::last_chunk(cookie, REPLY_TYPE_BLOCK_STATUS, 4 + 8)
            .with(ALLOCATION_CONTEXT_ID.to_be_bytes())
            .with(extent.length_bytes.to_be_bytes())
            .with(extent.flags().to_be_bytes())
    }
}

/// Length of the longest prefix that the protocol allows as a string: at most 4096 bytes, no NUL, and no incomplete
/// character.
fn printable_prefix_bytes(text: &[u8]) -> usize {
    let limit = text
        .iter()
        .position(|byte| *byte == 0)
        .unwrap_or(text.len());
    let kept = &text[..limit.min(MAX_STRING_BYTES)];
    match std::str::from_utf8(kept) {
        Ok(whole) => whole.len(),
        Err(error) => error.valid_up_to(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIMPLE: ReplyEncoder = ReplyEncoder {
        structured_replies: false,
    };
    const STRUCTURED: ReplyEncoder = ReplyEncoder {
        structured_replies: true,
    };
    const COOKIE: u64 = 0x0102_0304_0506_0708;

    #[test]
    fn simple_replies() {
        let done = [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(*SIMPLE.done(COOKIE), done);
        assert_eq!(*SIMPLE.read(COOKIE, 4096, 512), done);
        assert_eq!(*STRUCTURED.done(COOKIE), done);
        let failed = [0x67, 0x44, 0x66, 0x98, 0, 0, 0, 28, 1, 2, 3, 4, 5, 6, 7, 8];
        assert_eq!(*SIMPLE.error(COOKIE, ErrorCode::NoSpace), failed);
        let mut output = vec![9];
        SIMPLE.error_with_message(&mut output, COOKIE, ErrorCode::NoSpace, "unseen");
        assert_eq!(output[1..], failed);
    }

    #[test]
    fn structured_read() {
        let mut expected = vec![0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 1, 1, 2, 3, 4, 5, 6, 7, 8];
        expected.extend_from_slice(&520u32.to_be_bytes());
        expected.extend_from_slice(&(1u64 << 40).to_be_bytes());
        assert_eq!(*STRUCTURED.read(COOKIE, 1 << 40, 512), expected);
    }

    #[test]
    fn structured_errors() {
        let mut expected = vec![
            0x66, 0x8e, 0x33, 0xef, 0, 1, 0x80, 1, 1, 2, 3, 4, 5, 6, 7, 8,
        ];
        expected.extend_from_slice(&[0, 0, 0, 6, 0, 0, 0, 5, 0, 0]);
        assert_eq!(*STRUCTURED.error(COOKIE, ErrorCode::InputOutput), expected);
        let mut output = vec![9, 9];
        STRUCTURED.error_with_message(&mut output, COOKIE, ErrorCode::InputOutput, "member 2");
        expected[19] = 14;
        expected[25] = 8;
        expected.extend_from_slice(b"member 2");
        assert_eq!(output[2..], expected);
    }

    #[test]
    fn long_and_odd_messages_are_cut() {
        let message_of = |text: &str| {
            let mut output = Vec::new();
            STRUCTURED.error_with_message(&mut output, 1, ErrorCode::InputOutput, text);
            let length = usize::from(u16::from_be_bytes([output[24], output[25]]));
            assert_eq!(output.len(), 26 + length);
            assert_eq!(output[16..20], (6 + length as u32).to_be_bytes());
            String::from_utf8(output[26..].to_vec()).unwrap()
        };
        assert_eq!(message_of(&"é".repeat(3000)).len(), 4096);
        assert_eq!(message_of(&format!("a{}", "é".repeat(3000))).len(), 4095);
        assert_eq!(message_of("before\0after"), "before");
    }

    #[test]
    fn block_status_of_one_extent() {
        let extent = Extent {
            length_bytes: 65536,
            is_hole: true,
            is_zero: true,
        };
        let reply = STRUCTURED.block_status(COOKIE, extent);
        let mut expected = vec![0x66, 0x8e, 0x33, 0xef, 0, 1, 0, 5, 1, 2, 3, 4, 5, 6, 7, 8];
        expected.extend_from_slice(&[0, 0, 0, 12, 0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 3]);
        assert_eq!(*reply, expected);
        assert_eq!(reply.len(), ReplyHeader::CAPACITY);
    }
}
