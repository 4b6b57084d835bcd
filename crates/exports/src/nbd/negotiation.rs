//! Answers options, and keeps what they have agreed on.
//!
//! TLS and the experimental extended headers are answered with "unsupported", as is any unknown option. The only
//! metadata context is `base:allocation`. Errors carry a sentence for the person at the client.

use super::error::ProtocolError;
use super::export::{Export, ExportList};
use super::handshake::MAX_OPTION_DATA_BYTES;
use super::option::{
    ALLOCATION_CONTEXT, InfoQuery, MetaContextQuery, parse_string, push_error, push_reply,
    truncated,
};
use super::reply::ALLOCATION_CONTEXT_ID;
use super::wire::*;

/// How many bytes of an unknown export's name an error text repeats.
const SHOWN_NAME_BYTES: usize = 128;

/// The state of the handshake.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Negotiated {
    /// Still negotiating.
    Negotiating,
    /// The client ended the session.
    Aborted,
    /// An export is chosen, and transmission begins.
    Chosen(Choice),
}

/// What client and server have agreed on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) export_index: usize,
    pub(super) structured_replies: bool,
    /// Whether `base:allocation` is selected for this export.
    pub(super) block_status: bool,
}

/// A complete option.
#[derive(Clone, Copy, Debug)]
pub(super) struct ReceivedOption<'a> {
    pub(super) number: u32,
    /// Length of its data as the client announced it.
    pub(super) length_bytes: u32,
    /// The data; empty if it was skipped.
    pub(super) data: &'a [u8],
}

/// What has been agreed on so far.
#[derive(Debug, Default)]
pub(super) struct Negotiation {
    /// Whether the client waives the padding after `OPT_EXPORT_NAME`.
    pub(super) no_zeroes: bool,
    structured_replies: bool,
    /// Export for which `base:allocation` is selected.
    block_status_export: Option<usize>,
}

impl Negotiation {
    /// Appends the answer to `option` to `output`.
    pub(super) fn answer(
        &mut self,
        option: &ReceivedOption<'_>,
        exports: &ExportList,
        output: &mut Vec<u8>,
    ) -> Result<Negotiated, ProtocolError> {
        let ReceivedOption {
            number,
            length_bytes,
            data,
        } = *option;
        if number == OPT_SET_META_CONTEXT {
            // Each such option replaces the selection, even if it fails.
            self.block_status_export = None;
        }
        let answer = match number {
            OPT_EXPORT_NAME => return self.export_name(data, exports, output),
            OPT_ABORT => {
                push_reply(output, number, REP_ACK, &[]);
                return Ok(Negotiated::Aborted);
            }
            OPT_INFO | OPT_GO | OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT
                if length_bytes > MAX_OPTION_DATA_BYTES =>
            {
                Err(Refused::too_big(length_bytes))
            }
            OPT_INFO | OPT_GO => self.info_or_go(number, data, exports, output),
            OPT_LIST_META_CONTEXT | OPT_SET_META_CONTEXT => {
                self.meta_context(number, data, exports, output)
            }
            OPT_LIST | OPT_STRUCTURED_REPLY if length_bytes != 0 => {
                Err(Refused::invalid("this option takes no data"))
            }
            OPT_LIST => Ok(list(exports, output)),
            OPT_STRUCTURED_REPLY => {
                self.structured_replies = true;
                push_reply(output, number, REP_ACK, &[]);
                Ok(Negotiated::Negotiating)
            }
            _ => Err(Refused::unsupported(number)),
        };
        Ok(answer.unwrap_or_else(|refused| {
            push_error(output, number, refused.reply_type, &refused.message);
            Negotiated::Negotiating
        }))
    }

    /// Appends the answer that the server is shutting down.
    pub(super) fn answer_during_shutdown(
        option: &ReceivedOption<'_>,
        output: &mut Vec<u8>,
    ) -> Result<Negotiated, ProtocolError> {
        match option.number {
            OPT_EXPORT_NAME => Err(ProtocolError::ShuttingDown),
            OPT_ABORT => {
                push_reply(output, OPT_ABORT, REP_ACK, &[]);
                Ok(Negotiated::Aborted)
            }
            number => {
                push_error(
                    output,
                    number,
                    REP_ERR_SHUTDOWN,
                    "the server is shutting down",
                );
                Ok(Negotiated::Negotiating)
            }
        }
    }

    fn export_name(
        &self,
        data: &[u8],
        exports: &ExportList,
        output: &mut Vec<u8>,
    ) -> Result<Negotiated, ProtocolError> {
        let name = parse_string(data).map_err(|problem| ProtocolError::ExportName { problem })?;
        let Some(export_index) = exports.find(name) else {
            let name = truncated(name, SHOWN_NAME_BYTES).to_owned();
            return Err(ProtocolError::UnknownExport { name });
        };
        let export = &exports.as_slice()[export_index];
        let flags = export.transmission_flags(self.structured_replies);
        output.extend_from_slice(&export.size_bytes.to_be_bytes());
        output.extend_from_slice(&flags.to_be_bytes());
        if !self.no_zeroes {
            output.extend_from_slice(&[0; EXPORT_NAME_PADDING_BYTES]);
        }
        Ok(self.chosen(export_index))
    }

    fn info_or_go(
        &self,
        option: u32,
        data: &[u8],
        exports: &ExportList,
        output: &mut Vec<u8>,
    ) -> Result<Negotiated, Refused> {
        let query = InfoQuery::parse(data).map_err(Refused::invalid)?;
        let export_index = find(exports, query.name)?;
        let export = &exports.as_slice()[export_index];
        self.describe(option, &query, export, output);
        push_reply(output, option, REP_ACK, &[]);
        Ok(if option == OPT_GO {
            self.chosen(export_index)
        } else {
            Negotiated::Negotiating
        })
    }

    fn describe(&self, option: u32, query: &InfoQuery<'_>, export: &Export, output: &mut Vec<u8>) {
        let mut info = |info_type: u16, parts: [&[u8]; 3]| {
            let [first, second, third] = parts;
            let parts = [&info_type.to_be_bytes(), first, second, third];
            push_reply(output, option, REP_INFO, &parts);
        };
        let flags = export.transmission_flags(self.structured_replies);
        info(
            INFO_EXPORT,
            [&export.size_bytes.to_be_bytes(), &flags.to_be_bytes(), &[]],
        );
        if query.wants_name {
            info(INFO_NAME, [export.name.as_bytes(), &[], &[]]);
        }
        if query.wants_description && !export.description.is_empty() {
            info(INFO_DESCRIPTION, [export.description.as_bytes(), &[], &[]]);
        }
        if query.wants_block_sizes {
            let sizes = export.block_sizes;
            let parts = [
                sizes.minimum_bytes,
                sizes.preferred_bytes,
                sizes.maximum_payload_bytes,
            ]
            .map(u32::to_be_bytes);
            info(INFO_BLOCK_SIZE, [&parts[0], &parts[1], &parts[2]]);
        }
    }

    fn meta_context(
        &mut self,
        option: u32,
        data: &[u8],
        exports: &ExportList,
        output: &mut Vec<u8>,
    ) -> Result<Negotiated, Refused> {
        if !self.structured_replies {
            return Err(Refused::invalid(
                "metadata contexts need structured replies; ask for them first",
            ));
        }
        let query = MetaContextQuery::parse(data).map_err(Refused::invalid)?;
        let export_index = find(exports, query.name)?;
        let (matches, context_id) = if option == OPT_SET_META_CONTEXT {
            (query.selects_allocation, ALLOCATION_CONTEXT_ID)
        } else {
            // In listings the protocol reserves the identifier, which must be zero.
            (query.lists_allocation, 0)
        };
        if matches {
            let parts = [&context_id.to_be_bytes(), ALLOCATION_CONTEXT.as_bytes()];
            push_reply(output, option, REP_META_CONTEXT, &parts);
            if option == OPT_SET_META_CONTEXT {
                self.block_status_export = Some(export_index);
            }
        }
        push_reply(output, option, REP_ACK, &[]);
        Ok(Negotiated::Negotiating)
    }

    fn chosen(&self, export_index: usize) -> Negotiated {
        Negotiated::Chosen(Choice {
            export_index,
            structured_replies: self.structured_replies,
            block_status: self.block_status_export == Some(export_index),
        })
    }
}

/// An option that is answered with an error, after which the negotiation continues.
struct Refused {
    reply_type: u32,
    message: String,
}

impl Refused {
    fn invalid(message: &str) -> Self {
        Self {
            reply_type: REP_ERR_INVALID,
            message: message.to_owned(),
        }
    }

    fn too_big(length_bytes: u32) -> Self {
        let message = format!(
            "the option has {length_bytes} bytes of data; this server takes up to \
             {MAX_OPTION_DATA_BYTES}"
        );
        Self {
            reply_type: REP_ERR_TOO_BIG,
            message,
        }
    }

    fn unsupported(option: u32) -> Self {
        let message = match option {
            OPT_STARTTLS => "this server does not offer TLS".to_owned(),
            OPT_EXTENDED_HEADERS => "this server does not offer extended headers".to_owned(),
            _ => format!("option {option} is not known to this server"),
        };
        Self {
            reply_type: REP_ERR_UNSUP,
            message,
        }
    }
}

fn find(exports: &ExportList, name: &str) -> Result<usize, Refused> {
    exports.find(name).ok_or_else(|| {
        let message = if name.is_empty() {
            "this server has no exports at the moment".to_owned()
        } else {
            let shown = truncated(name, SHOWN_NAME_BYTES);
            format!("no export is named {shown:?}; list the exports to see their names")
        };
        Refused {
            reply_type: REP_ERR_UNKNOWN,
            message,
        }
    })
}

fn list(exports: &ExportList, output: &mut Vec<u8>) -> Negotiated {
    for export in exports.as_slice() {
        let name_length = (export.name.len() as u32).to_be_bytes();
        let parts = [
            &name_length,
            export.name.as_bytes(),
            export.description.as_bytes(),
        ];
        push_reply(output, OPT_LIST, REP_SERVER, &parts);
    }
    push_reply(output, OPT_LIST, REP_ACK, &[]);
    Negotiated::Negotiating
}

#[cfg(test)]
mod tests;
