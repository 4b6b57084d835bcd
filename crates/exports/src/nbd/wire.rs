//! The numbers and fixed layouts of the NBD protocol.
//!
//! Every constant comes from the protocol's public description, `doc/proto.md` of the NetworkBlockDevice project. (Its
//! author placed that text in the public domain so that anyone may implement it.) Constants have the names used there
//! without the prefix `NBD_`, so that a text search finds them. All integers on the wire are big-endian.

/// First eight bytes a server sends, ASCII `NBDMAGIC` (`INIT_PASSWD`).
pub const SERVER_MAGIC: u64 = 0x4e42_444d_4147_4943;
/// Second magic of the server's greeting and the first of each option, ASCII `IHAVEOPT`.
pub const OPTION_MAGIC: u64 = 0x4948_4156_454f_5054;
/// Magic of each reply to an option.
pub const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;
/// Magic of a request in the transmission phase.
pub const REQUEST_MAGIC: u32 = 0x2560_9513;
/// Magic of a simple reply.
pub const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
/// Magic of a structured reply chunk.
pub const STRUCTURED_REPLY_MAGIC: u32 = 0x668e_33ef;

/// Longest string the protocol allows, in bytes.
pub const MAX_STRING_BYTES: usize = 4096;
/// Largest payload that no server may treat as an attack, and the largest that this server accepts.
pub const MAX_PAYLOAD_BYTES: u32 = 32 * 1024 * 1024;
/// Largest value the protocol allows for the advertised minimum block size.
pub const MAX_MINIMUM_BLOCK_BYTES: u32 = 64 * 1024;
/// Zero bytes that follow the answer to `OPT_EXPORT_NAME` unless the client waived them.
pub const EXPORT_NAME_PADDING_BYTES: usize = 124;

/// Handshake flag: the server speaks fixed newstyle.
pub const FLAG_FIXED_NEWSTYLE: u16 = 1 << 0;
/// Handshake flag: the server can leave out the padding after `OPT_EXPORT_NAME`.
pub const FLAG_NO_ZEROES: u16 = 1 << 1;
/// Client flag: the client speaks fixed newstyle.
pub const FLAG_C_FIXED_NEWSTYLE: u32 = 1 << 0;
/// Client flag: the client waives the padding after `OPT_EXPORT_NAME`.
pub const FLAG_C_NO_ZEROES: u32 = 1 << 1;

/// Transmission flag: always set.
pub const FLAG_HAS_FLAGS: u16 = 1 << 0;
/// Transmission flag: the export cannot be written.
pub const FLAG_READ_ONLY: u16 = 1 << 1;
/// Transmission flag: `CMD_FLUSH` is offered.
pub const FLAG_SEND_FLUSH: u16 = 1 << 2;
/// Transmission flag: `CMD_FLAG_FUA` is offered.
pub const FLAG_SEND_FUA: u16 = 1 << 3;
/// Transmission flag: `CMD_TRIM` is offered.
pub const FLAG_SEND_TRIM: u16 = 1 << 5;
/// Transmission flag: `CMD_WRITE_ZEROES` and `CMD_FLAG_NO_HOLE` are offered.
pub const FLAG_SEND_WRITE_ZEROES: u16 = 1 << 6;
/// Transmission flag: `CMD_FLAG_DF` is offered (only together with structured replies).
pub const FLAG_SEND_DF: u16 = 1 << 7;
/// Transmission flag: a flush on one connection covers the writes of all connections.
pub const FLAG_CAN_MULTI_CONN: u16 = 1 << 8;
/// Transmission flag: `CMD_FLAG_FAST_ZERO` is offered.
pub const FLAG_SEND_FAST_ZERO: u16 = 1 << 11;

/// Option: choose an export without any way to report an error, and start transmission.
pub const OPT_EXPORT_NAME: u32 = 1;
/// Option: end the session.
pub const OPT_ABORT: u32 = 2;
/// Option: list the exports.
pub const OPT_LIST: u32 = 3;
/// Option: switch to TLS.
pub const OPT_STARTTLS: u32 = 5;
/// Option: describe an export.
pub const OPT_INFO: u32 = 6;
/// Option: describe an export and start transmission.
pub const OPT_GO: u32 = 7;
/// Option: use structured replies.
pub const OPT_STRUCTURED_REPLY: u32 = 8;
/// Option: list metadata contexts.
pub const OPT_LIST_META_CONTEXT: u32 = 9;
/// Option: select metadata contexts.
pub const OPT_SET_META_CONTEXT: u32 = 10;
/// Option: use the headers of the experimental extension with 64-bit lengths.
pub const OPT_EXTENDED_HEADERS: u32 = 11;

/// Option reply: accepted, or end of a list.
pub const REP_ACK: u32 = 1;
/// Option reply: one export of a list.
pub const REP_SERVER: u32 = 2;
/// Option reply: one fact about an export.
pub const REP_INFO: u32 = 3;
/// Option reply: one metadata context.
pub const REP_META_CONTEXT: u32 = 4;
/// Option reply: the option is not known here.
pub const REP_ERR_UNSUP: u32 = (1 << 31) + 1;
/// Option reply: the option's data is wrong.
pub const REP_ERR_INVALID: u32 = (1 << 31) + 3;
/// Option reply: this needs TLS.
pub const REP_ERR_TLS_REQD: u32 = (1 << 31) + 5;
/// Option reply: no such export.
pub const REP_ERR_UNKNOWN: u32 = (1 << 31) + 6;
/// Option reply: the server is shutting down.
pub const REP_ERR_SHUTDOWN: u32 = (1 << 31) + 7;
/// Option reply: the option's data is too long to process.
pub const REP_ERR_TOO_BIG: u32 = (1 << 31) + 9;

/// Information type: size and transmission flags.
pub const INFO_EXPORT: u16 = 0;
/// Information type: the export's canonical name.
pub const INFO_NAME: u16 = 1;
/// Information type: a description for people.
pub const INFO_DESCRIPTION: u16 = 2;
/// Information type: block sizes.
pub const INFO_BLOCK_SIZE: u16 = 3;

/// Command: read.
pub const CMD_READ: u16 = 0;
/// Command: write; the payload follows the request header.
pub const CMD_WRITE: u16 = 1;
/// Command: end the session; there is no reply.
pub const CMD_DISC: u16 = 2;
/// Command: make completed writes durable.
pub const CMD_FLUSH: u16 = 3;
/// Command: discard a range.
pub const CMD_TRIM: u16 = 4;
/// Command: prefetch a range (not offered by this server).
pub const CMD_CACHE: u16 = 5;
/// Command: zero a range.
pub const CMD_WRITE_ZEROES: u16 = 6;
/// Command: report the allocation of a range.
pub const CMD_BLOCK_STATUS: u16 = 7;

/// Command flag: reply only when the written data is durable.
pub const CMD_FLAG_FUA: u16 = 1 << 0;
/// Command flag of `CMD_WRITE_ZEROES`: keep the range allocated.
pub const CMD_FLAG_NO_HOLE: u16 = 1 << 1;
/// Command flag of `CMD_READ`: reply with at most one content chunk.
pub const CMD_FLAG_DF: u16 = 1 << 2;
/// Command flag of `CMD_BLOCK_STATUS`: reply with one extent.
pub const CMD_FLAG_REQ_ONE: u16 = 1 << 3;
/// Command flag of `CMD_WRITE_ZEROES`: fail unless faster than writing zeroes as data.
pub const CMD_FLAG_FAST_ZERO: u16 = 1 << 4;

/// Structured reply flag: the last chunk of the reply.
pub const REPLY_FLAG_DONE: u16 = 1 << 0;
/// Structured reply type: data at an offset.
pub const REPLY_TYPE_OFFSET_DATA: u16 = 1;
/// Structured reply type: extents of one metadata context.
pub const REPLY_TYPE_BLOCK_STATUS: u16 = 5;
/// Structured reply type: an error with an optional message.
pub const REPLY_TYPE_ERROR: u16 = (1 << 15) + 1;

/// State of an extent in `base:allocation`: not allocated.
pub const STATE_HOLE: u32 = 1 << 0;
/// State of an extent in `base:allocation`: reads as zeroes.
pub const STATE_ZERO: u32 = 1 << 1;

/// Length of a request header in bytes.
pub const REQUEST_HEADER_BYTES: usize = 28;
/// Length of an option header in bytes: magic, option, data length.
pub const OPTION_HEADER_BYTES: usize = 16;

/// A request header as it came from the client; nothing but the magic has been checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestHeader {
    /// Command flags (`CMD_FLAG_*`).
    pub flags: u16,
    /// Command type (`CMD_*`), possibly unknown.
    pub command: u16,
    /// The client's label for the request, returned in each reply. It is not unique if the client misbehaves, so the
    /// server must not use it as a key.
    pub cookie: u64,
    /// Start of the range in bytes.
    pub offset_bytes: u64,
    /// Length of the range in bytes.
    pub length_bytes: u32,
}

impl RequestHeader {
    /// Reads a header. `Err` holds the value found where the magic should be.
    pub fn parse(bytes: &[u8; REQUEST_HEADER_BYTES]) -> Result<Self, u32> {
        let magic = u32::from_be_bytes(field(bytes, 0));
        if magic != REQUEST_MAGIC {
            return Err(magic);
        }
        Ok(Self {
            flags: u16::from_be_bytes(field(bytes, 4)),
            command: u16::from_be_bytes(field(bytes, 6)),
            cookie: u64::from_be_bytes(field(bytes, 8)),
            offset_bytes: u64::from_be_bytes(field(bytes, 16)),
            length_bytes: u32::from_be_bytes(field(bytes, 24)),
        })
    }

    /// The header as a client sends it.
    pub fn to_bytes(self) -> [u8; REQUEST_HEADER_BYTES] {
        let mut bytes = [0; REQUEST_HEADER_BYTES];
        bytes[0..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset_bytes.to_be_bytes());
        bytes[24..28].copy_from_slice(&self.length_bytes.to_be_bytes());
        bytes
    }
}

/// `N` bytes from position `at`. Callers pass constants, so the bounds checks vanish when compiled.
#[inline(always)]
fn field<const N: usize>(bytes: &[u8; REQUEST_HEADER_BYTES], at: usize) -> [u8; N] {
    std::array::from_fn(|index| bytes[at + index])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_header_from_the_specified_layout() {
        let mut bytes = [0u8; REQUEST_HEADER_BYTES];
        bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        bytes[4..8].copy_from_slice(&[0, 1, 0, 6]);
        bytes[8..16].copy_from_slice(b"cookie!!");
        bytes[16..24].copy_from_slice(&[0, 0, 1, 0, 0, 0, 2, 0]);
        bytes[24..].copy_from_slice(&[0, 0, 16, 0]);
        let header = RequestHeader::parse(&bytes).unwrap();
        assert_eq!(header.flags, CMD_FLAG_FUA);
        assert_eq!(header.command, CMD_WRITE_ZEROES);
        assert_eq!(header.cookie.to_be_bytes(), *b"cookie!!");
        assert_eq!(header.offset_bytes, (1 << 40) + 512);
        assert_eq!(header.length_bytes, 4096);
        assert_eq!(header.to_bytes(), bytes);
    }

    #[test]
    fn the_historic_magic_is_reported_as_found() {
        let mut bytes = [0u8; REQUEST_HEADER_BYTES];
        bytes[..4].copy_from_slice(&[0x12, 0x56, 0x09, 0x53]);
        assert_eq!(RequestHeader::parse(&bytes), Err(0x1256_0953));
    }

    #[test]
    fn greetings_are_the_documented_words() {
        assert_eq!(SERVER_MAGIC.to_be_bytes(), *b"NBDMAGIC");
        assert_eq!(OPTION_MAGIC.to_be_bytes(), *b"IHAVEOPT");
    }
}
