//! Commands, and the rules by which a request becomes one or is refused.
//!
//! The rules follow from the chosen export and from what was negotiated. A request that passes becomes a [`Command`]:
//! within the export, aligned, and of an allowed length and kind. One that does not becomes a [`Refusal`], which has
//! the error for the client and a sentence that says why.

use std::fmt;

use super::error::ErrorCode;
use super::export::Export;
use super::negotiation::Choice;
use super::wire::*;

/// A request that may be carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// The client's label, returned in the reply. A misbehaving client may use one label for several requests in
    /// flight, so the server must not use it as a key.
    pub cookie: u64,
    /// What to do.
    pub kind: CommandKind,
    /// Start of the range in bytes, a multiple of the minimum block size; 0 for a flush.
    pub offset_bytes: u64,
    /// Length of the range in bytes, a multiple of the minimum block size; 0 only for a flush. Reads
    /// and writes are at most the maximum payload long, the others up to 4 GiB.
    pub length_bytes: u32,
}

/// The kinds of commands. FUA has no meaning on commands that do not write, and is dropped there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CommandKind {
    /// Read; answered with data.
    Read,
    /// Write; `length_bytes` of payload follow.
    Write {
        /// The data must be durable before the reply.
        fua: bool,
    },
    /// Make every write that was answered before this command durable.
    Flush,
    /// Discard a range (free its space).
    Trim {
        /// The change must be durable before the reply.
        fua: bool,
    },
    /// Zero a range.
    WriteZeroes {
        /// The zeroes must be durable before the reply.
        fua: bool,
        /// The range must stay allocated: no trimming.
        no_hole: bool,
        /// Answer at once with [`ErrorCode::NotSupported`] unless faster than writing zeroes as data.
        fast_only: bool,
    },
    /// Report the allocation of a range in the context `base:allocation`.
    BlockStatus {
        /// The reply must hold exactly one extent, not longer than the range.
        one_extent: bool,
    },
}

/// A request that is answered with an error. Its text (`Display`) is one sentence for a person.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refusal {
    request: RequestHeader,
    reason: Reason,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reason {
    UnknownCommand,
    NotOffered,
    Flags { unexpected: u16 },
    ReadOnly,
    NoMetadataContext,
    RangeOnFlush,
    Empty,
    PastEnd { size_bytes: u64 },
    Unaligned { minimum_bytes: u32 },
    TooLong { limit_bytes: u32 },
    ShuttingDown,
}

impl Refusal {
    /// The client's label of the request.
    pub fn cookie(&self) -> u64 {
        self.request.cookie
    }

    /// The error to answer with.
    pub fn code(&self) -> ErrorCode {
        match self.reason {
            Reason::ReadOnly => ErrorCode::NotPermitted,
            Reason::ShuttingDown => ErrorCode::ShuttingDown,
            Reason::PastEnd { .. }
                if matches!(self.request.command, CMD_WRITE | CMD_WRITE_ZEROES) =>
            {
                ErrorCode::NoSpace
            }
            // The protocol allows this error only for requests without payload.
            Reason::TooLong { .. } if self.request.command == CMD_READ => ErrorCode::Overflow,
            _ => ErrorCode::Invalid,
        }
    }

    /// Bytes of payload that follow the request although it is refused.
    pub(super) fn payload_bytes(&self) -> u32 {
        if self.request.command == CMD_WRITE {
            self.request.length_bytes
        } else {
            0
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RequestHeader {
            command,
            offset_bytes,
            length_bytes,
            ..
        } = self.request;
        let verb = verb(command);
        match self.reason {
            Reason::UnknownCommand => {
                return write!(formatter, "command {command} is not known to this server");
            }
            Reason::NotOffered => {
                return write!(formatter, "{verb} is not offered by this export");
            }
            Reason::Flags { unexpected } => {
                return write!(
                    formatter,
                    "{verb} does not take the flags {unexpected:#06x} here"
                );
            }
            Reason::ReadOnly => return write!(formatter, "{verb} on a read-only export"),
            Reason::NoMetadataContext => {
                return write!(
                    formatter,
                    "{verb} needs the metadata context base:allocation, selected for this export"
                );
            }
            Reason::ShuttingDown => return formatter.write_str("the server is shutting down"),
            _ => write!(
                formatter,
                "{verb} of {length_bytes} bytes at offset {offset_bytes} "
            )?,
        }
        match self.reason {
            Reason::RangeOnFlush => formatter.write_str("must have offset and length 0"),
            Reason::Empty => formatter.write_str("has no length"),
            Reason::PastEnd { size_bytes } => {
                write!(
                    formatter,
                    "reaches past the end of the export at {size_bytes} bytes"
                )
            }
            Reason::Unaligned { minimum_bytes } => {
                write!(
                    formatter,
                    "is not aligned to the minimum block of {minimum_bytes} bytes"
                )
            }
            Reason::TooLong { limit_bytes } => {
                write!(
                    formatter,
                    "is longer than the maximum payload of {limit_bytes} bytes"
                )
            }
            _ => Ok(()),
        }
    }
}

fn verb(command: u16) -> &'static str {
    match command {
        CMD_READ => "read",
        CMD_WRITE => "write",
        CMD_FLUSH => "flush",
        CMD_TRIM => "trim",
        CMD_CACHE => "cache",
        CMD_WRITE_ZEROES => "write zeroes",
        CMD_BLOCK_STATUS => "block status",
        _ => "command",
    }
}

/// The result of judging a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judgement {
    Command(Command),
    Refusal(Refusal),
    Disconnect,
}

/// The rules of one session's transmission phase.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    pub(super) size_bytes: u64,
    pub(super) minimum_block_bytes: u32,
    pub(super) maximum_payload_bytes: u32,
    pub(super) transmission_flags: u16,
    pub(super) block_status: bool,
}

impl Rules {
    pub(super) fn new(export: &Export, choice: &Choice) -> Self {
        Self {
            size_bytes: export.size_bytes,
            minimum_block_bytes: export.block_sizes.minimum_bytes,
            maximum_payload_bytes: export.block_sizes.maximum_payload_bytes,
            transmission_flags: export.transmission_flags(choice.structured_replies),
            block_status: choice.block_status,
        }
    }

    pub(super) fn judge(&self, request: &RequestHeader, shutting_down: bool) -> Judgement {
        if request.command == CMD_DISC {
            return Judgement::Disconnect;
        }
        match self.check(request, shutting_down) {
            Ok(kind) => Judgement::Command(Command {
                cookie: request.cookie,
                kind,
                offset_bytes: request.offset_bytes,
                length_bytes: request.length_bytes,
            }),
            Err(reason) => Judgement::Refusal(Refusal {
                request: *request,
                reason,
            }),
        }
    }

    fn check(&self, request: &RequestHeader, shutting_down: bool) -> Result<CommandKind, Reason> {
        if shutting_down {
            return Err(Reason::ShuttingDown);
        }
        let kind = self.kind(request)?;
        self.check_range(request, kind)?;
        Ok(kind)
    }

    fn offers(&self, transmission_flag: u16) -> bool {
        self.transmission_flags & transmission_flag != 0
    }

    fn kind(&self, request: &RequestHeader) -> Result<CommandKind, Reason> {
        let has = |flag: u16| request.flags & flag != 0;
        let fua = has(CMD_FLAG_FUA);
        let kind = match request.command {
            CMD_READ => CommandKind::Read,
            CMD_WRITE => CommandKind::Write { fua },
            CMD_FLUSH => CommandKind::Flush,
            CMD_TRIM => CommandKind::Trim { fua },
            CMD_WRITE_ZEROES => CommandKind::WriteZeroes {
                fua,
                no_hole: has(CMD_FLAG_NO_HOLE),
                fast_only: has(CMD_FLAG_FAST_ZERO),
            },
            CMD_BLOCK_STATUS => CommandKind::BlockStatus {
                one_extent: has(CMD_FLAG_REQ_ONE),
            },
            CMD_CACHE => return Err(Reason::NotOffered),
            _ => return Err(Reason::UnknownCommand),
        };
        // The read-only rule comes first: a read-only export does not offer trimming, but an attempt is answered with
        // "not permitted".
        if changes_data(kind) && self.offers(FLAG_READ_ONLY) {
            return Err(Reason::ReadOnly);
        }
        let is_offered = match kind {
            CommandKind::Read | CommandKind::Write { .. } => true,
            CommandKind::Flush => self.offers(FLAG_SEND_FLUSH),
            CommandKind::Trim { .. } => self.offers(FLAG_SEND_TRIM),
            CommandKind::WriteZeroes { .. } => self.offers(FLAG_SEND_WRITE_ZEROES),
            CommandKind::BlockStatus { .. } if !self.block_status => {
                return Err(Reason::NoMetadataContext);
            }
            CommandKind::BlockStatus { .. } => true,
        };
        if !is_offered {
            return Err(Reason::NotOffered);
        }
        let unexpected = request.flags & !self.allowed_flags(kind);
        if unexpected != 0 {
            Err(Reason::Flags { unexpected })
        } else {
            Ok(kind)
        }
    }

    fn allowed_flags(&self, kind: CommandKind) -> u16 {
        let if_offered = |transmission_flag, flag| {
            if self.offers(transmission_flag) {
                flag
            } else {
                0
            }
        };
        // Where FUA is offered it must be accepted on every command.
        let fua = if_offered(FLAG_SEND_FUA, CMD_FLAG_FUA);
        fua | match kind {
            CommandKind::Read => if_offered(FLAG_SEND_DF, CMD_FLAG_DF),
            CommandKind::WriteZeroes { .. } => {
                CMD_FLAG_NO_HOLE | if_offered(FLAG_SEND_FAST_ZERO, CMD_FLAG_FAST_ZERO)
            }
            CommandKind::BlockStatus { .. } => CMD_FLAG_REQ_ONE,
            CommandKind::Write { .. } | CommandKind::Flush | CommandKind::Trim { .. } => 0,
        }
    }

    fn check_range(&self, request: &RequestHeader, kind: CommandKind) -> Result<(), Reason> {
        let (offset_bytes, length_bytes) = (request.offset_bytes, request.length_bytes);
        if kind == CommandKind::Flush {
            let has_range = offset_bytes != 0 || length_bytes != 0;
            return if has_range {
                Err(Reason::RangeOnFlush)
            } else {
                Ok(())
            };
        }
        if length_bytes == 0 {
            return Err(Reason::Empty);
        }
        let end_bytes = offset_bytes.checked_add(u64::from(length_bytes));
        if end_bytes.is_none_or(|end_bytes| end_bytes > self.size_bytes) {
            return Err(Reason::PastEnd {
                size_bytes: self.size_bytes,
            });
        }
        let minimum_bytes = self.minimum_block_bytes;
        let below_block = u64::from(minimum_bytes) - 1;
        if (offset_bytes | u64::from(length_bytes)) & below_block != 0 {
            return Err(Reason::Unaligned { minimum_bytes });
        }
        let has_payload = matches!(kind, CommandKind::Read | CommandKind::Write { .. });
        if has_payload && length_bytes > self.maximum_payload_bytes {
            return Err(Reason::TooLong {
                limit_bytes: self.maximum_payload_bytes,
            });
        }
        Ok(())
    }
}

fn changes_data(kind: CommandKind) -> bool {
    matches!(
        kind,
        CommandKind::Write { .. } | CommandKind::Trim { .. } | CommandKind::WriteZeroes { .. }
    )
}

#[cfg(test)]
mod tests;
