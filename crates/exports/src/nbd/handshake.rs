//! The handshake: greeting, options, and the choice of an export.
//!
//! The server greets, and the client answers with flags. Then the client sends options one at a time, until one of them
//! (`OPT_GO`, or `OPT_EXPORT_NAME` of older clients) starts transmission. The protocol requires a client to wait for
//! the reply to each option before it sends the next, and this code enforces it: while output waits to be sent, no
//! further input is taken. So one session never owes more than the reply to a single option, whatever a client sends.
//!
//! This module splits the client's bytes into options and bounds them; `negotiation` answers them. Data that would not
//! be parsed is skipped without being stored.

use super::error::ProtocolError;
use super::export::ExportList;
use super::negotiation::{Negotiated, Negotiation, ReceivedOption};
use super::wire::*;

/// Longest option data that is kept and parsed: a name and two queries of the longest strings.
pub const MAX_OPTION_DATA_BYTES: u32 = 16 * 1024;
/// Longest option data that is read and dropped; if there is more, the connection is closed.
pub const MAX_SKIPPED_OPTION_BYTES: u32 = 1024 * 1024;
/// Most options in one session; a client needs a handful, a person who explores some dozens.
pub const MAX_OPTIONS: u32 = 1024;

/// What the server's greeting offers.
pub(super) const GREETING_FLAGS: u16 = FLAG_FIXED_NEWSTYLE | FLAG_NO_ZEROES;

/// Which bytes come next.
#[derive(Clone, Copy, Debug)]
enum Awaiting {
    ClientFlags,
    OptionHeader,
    /// Data that will be parsed.
    OptionData {
        option: u32,
        length_bytes: u32,
    },
    /// Data that will not be parsed.
    SkippedData {
        option: u32,
        length_bytes: u32,
        remaining_bytes: u32,
    },
}

/// State of a handshake.
#[derive(Debug)]
pub(super) struct Handshake {
    awaiting: Awaiting,
    collected: Vec<u8>,
    fixed_newstyle: bool,
    option_count: u32,
    negotiation: Negotiation,
}

impl Handshake {
    /// Starts a handshake with the greeting in `output`.
    pub(super) fn new(output: &mut Vec<u8>) -> Self {
        output.extend_from_slice(&SERVER_MAGIC.to_be_bytes());
        output.extend_from_slice(&OPTION_MAGIC.to_be_bytes());
        output.extend_from_slice(&GREETING_FLAGS.to_be_bytes());
        Self {
            awaiting: Awaiting::ClientFlags,
            collected: Vec::new(),
            fixed_newstyle: false,
            option_count: 0,
            negotiation: Negotiation::default(),
        }
    }

    /// Takes bytes until a reply is in `output`, the handshake is over, or `input` is used up.
    /// Returns how many bytes were taken.
    pub(super) fn feed(
        &mut self,
        input: &[u8],
        exports: &ExportList,
        shutting_down: bool,
        output: &mut Vec<u8>,
    ) -> Result<(usize, Negotiated), ProtocolError> {
        let mut rest = input;
        let mut outcome = Negotiated::Negotiating;
        while output.is_empty() && outcome == Negotiated::Negotiating && self.gather(&mut rest) {
            outcome = self.step(exports, shutting_down, output)?;
        }
        Ok((input.len() - rest.len(), outcome))
    }

    /// Moves bytes from `rest` to the awaited item; true when the item is complete.
    fn gather(&mut self, rest: &mut &[u8]) -> bool {
        let wanted_bytes = match &mut self.awaiting {
            Awaiting::ClientFlags => size_of::<u32>(),
            Awaiting::OptionHeader => OPTION_HEADER_BYTES,
            Awaiting::OptionData { length_bytes, .. } => *length_bytes as usize,
            Awaiting::SkippedData {
                remaining_bytes, ..
            } => {
                let taken = rest.len().min(*remaining_bytes as usize);
                *rest = &rest[taken..];
                *remaining_bytes -= taken as u32;
                return *remaining_bytes == 0;
            }
        };
        let taken = rest.len().min(wanted_bytes - self.collected.len());
        self.collected.extend_from_slice(&rest[..taken]);
        *rest = &rest[taken..];
        self.collected.len() == wanted_bytes
    }

    /// Handles the item that has been gathered.
    fn step(
        &mut self,
        exports: &ExportList,
        shutting_down: bool,
        output: &mut Vec<u8>,
    ) -> Result<Negotiated, ProtocolError> {
        let awaited = std::mem::replace(&mut self.awaiting, Awaiting::OptionHeader);
        let data = std::mem::take(&mut self.collected);
        let mut outcome = Negotiated::Negotiating;
        match awaited {
            Awaiting::ClientFlags => self.client_flags(&data)?,
            Awaiting::OptionHeader => self.option_header(&data)?,
            Awaiting::OptionData {
                option,
                length_bytes,
            }
            | Awaiting::SkippedData {
                option,
                length_bytes,
                ..
            } => {
                let received = ReceivedOption {
                    number: option,
                    length_bytes,
                    data: &data,
                };
                outcome = if shutting_down {
                    Negotiation::answer_during_shutdown(&received, output)?
                } else {
                    self.negotiation.answer(&received, exports, output)?
                };
            }
        }
        // Keep the allocation for the next item.
        self.collected = data;
        self.collected.clear();
        Ok(outcome)
    }

    fn client_flags(&mut self, data: &[u8]) -> Result<(), ProtocolError> {
        let flags = data.iter().fold(0, |sum, byte| sum << 8 | u32::from(*byte));
        if flags & !(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES) != 0 {
            return Err(ProtocolError::ClientFlags { flags });
        }
        self.fixed_newstyle = flags & FLAG_C_FIXED_NEWSTYLE != 0;
        self.negotiation.no_zeroes = flags & FLAG_C_NO_ZEROES != 0;
        Ok(())
    }

    fn option_header(&mut self, data: &[u8]) -> Result<(), ProtocolError> {
        let number = |bytes: &[u8]| {
            bytes
                .iter()
                .fold(0, |sum, byte| sum << 8 | u64::from(*byte))
        };
        let found = number(&data[..8]);
        if found != OPTION_MAGIC {
            return Err(ProtocolError::OptionMagic { found });
        }
        let (option, length_bytes) = (number(&data[8..12]) as u32, number(&data[12..]) as u32);
        if option != OPT_EXPORT_NAME && !self.fixed_newstyle {
            return Err(ProtocolError::OptionNeedsFixedNewstyle { option });
        }
        if length_bytes > MAX_SKIPPED_OPTION_BYTES {
            let limit_bytes = MAX_SKIPPED_OPTION_BYTES;
            return Err(ProtocolError::OptionTooLong {
                option,
                length_bytes,
                limit_bytes,
            });
        }
        self.option_count += 1;
        if self.option_count > MAX_OPTIONS {
            return Err(ProtocolError::TooManyOptions { limit: MAX_OPTIONS });
        }
        let is_parsed = match option {
            OPT_EXPORT_NAME if length_bytes as usize > MAX_STRING_BYTES => {
                return Err(ProtocolError::ExportName {
                    problem: "the name is too long",
                });
            }
            OPT_EXPORT_NAME | OPT_INFO | OPT_GO | OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT => {
                length_bytes <= MAX_OPTION_DATA_BYTES
            }
            _ => false,
        };
        self.awaiting = if is_parsed {
            Awaiting::OptionData {
                option,
                length_bytes,
            }
        } else {
            Awaiting::SkippedData {
                option,
                length_bytes,
                remaining_bytes: length_bytes,
            }
        };
        Ok(())
    }
}

#[cfg(test)]
mod tests;
