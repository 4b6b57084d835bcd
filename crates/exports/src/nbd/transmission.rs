//! The transmission phase: request headers in, commands out.
//!
//! Headers are parsed in the driver's receive buffer; only a header that is cut by the end of a buffer is gathered in
//! 28 bytes of the session's own. The payload of a write is never stored here: pieces are passed to the driver where
//! they lie, or the driver receives them directly into their destination and reports that.

use super::command::{CommandKind, Judgement, Rules};
use super::error::ProtocolError;
use super::frozen::FrozenTransmission;
use super::session::{Accept, Sink};
use super::wire::{REQUEST_HEADER_BYTES, RequestHeader};

#[derive(Clone, Copy, Debug)]
enum State {
    /// A request header comes next.
    Header,
    /// The sink has not yet accepted the command or refusal that this request became.
    Offered(RequestHeader),
    /// Payload of the accepted write comes next.
    Payload { remaining_bytes: u32 },
    /// Payload of a refused write comes next; it is dropped.
    Discarded { remaining_bytes: u32 },
    /// The client has disconnected.
    Ended,
}

/// State of a transmission phase.
#[derive(Debug)]
pub(super) struct Transmission {
    rules: Rules,
    state: State,
    partial_header: [u8; REQUEST_HEADER_BYTES],
    partial_header_bytes: usize,
}

impl Transmission {
    pub(super) fn new(rules: Rules) -> Self {
        Self {
            rules,
            state: State::Header,
            partial_header: [0; REQUEST_HEADER_BYTES],
            partial_header_bytes: 0,
        }
    }

    /// A phase that goes on where another one was frozen.
    pub(super) fn thaw(frozen: &FrozenTransmission) -> Self {
        let header = &frozen.partial_header;
        let mut partial_header = [0; REQUEST_HEADER_BYTES];
        partial_header[..header.len()].copy_from_slice(header);
        Self {
            rules: frozen.rules,
            state: discarded_or_header(frozen.discarded_bytes),
            partial_header,
            partial_header_bytes: header.len(),
        }
    }

    /// The rules, the beginning of a header, and how much payload is to be dropped; `None` if the last request is not
    /// whole or not accepted, or the client has disconnected.
    pub(super) fn freeze(&self) -> Option<(Rules, &[u8], u32)> {
        let header = &self.partial_header[..self.partial_header_bytes];
        match self.state {
            State::Header => Some((self.rules, header, 0)),
            State::Discarded { remaining_bytes } => Some((self.rules, header, remaining_bytes)),
            State::Offered(_) | State::Payload { .. } | State::Ended => None,
        }
    }

    /// Takes bytes until the sink says "later", the client disconnects, or `input` is used up.
    /// Returns how many bytes were taken.
    pub(super) fn feed<S: Sink>(
        &mut self,
        input: &[u8],
        shutting_down: bool,
        sink: &mut S,
    ) -> Result<usize, ProtocolError> {
        let mut rest = input;
        loop {
            match self.state {
                State::Header => match self.next_header(&mut rest)? {
                    Some(request) => self.state = State::Offered(request),
                    None => break,
                },
                State::Offered(request) => match self.offer(&request, shutting_down, sink) {
                    Some(next_state) => self.state = next_state,
                    None => break,
                },
                State::Payload { remaining_bytes } => {
                    let Some(piece) = take(&mut rest, remaining_bytes) else {
                        break;
                    };
                    let remaining_bytes = remaining_bytes - piece.len() as u32;
                    self.state = payload_or_header(remaining_bytes);
                    sink.payload(piece, remaining_bytes);
                }
                State::Discarded { remaining_bytes } => {
                    let Some(piece) = take(&mut rest, remaining_bytes) else {
                        break;
                    };
                    self.state = discarded_or_header(remaining_bytes - piece.len() as u32);
                }
                State::Ended => break,
            }
        }
        Ok(input.len() - rest.len())
    }

    fn next_header(&mut self, rest: &mut &[u8]) -> Result<Option<RequestHeader>, ProtocolError> {
        let parsed = if self.partial_header_bytes == 0
            && let Some((whole, after)) = rest.split_first_chunk::<REQUEST_HEADER_BYTES>()
        {
            *rest = after;
            RequestHeader::parse(whole)
        } else {
            let missing = &mut self.partial_header[self.partial_header_bytes..];
            let taken = missing.len().min(rest.len());
            missing[..taken].copy_from_slice(&rest[..taken]);
            *rest = &rest[taken..];
            self.partial_header_bytes += taken;
            if self.partial_header_bytes < REQUEST_HEADER_BYTES {
                return Ok(None);
            }
            self.partial_header_bytes = 0;
            RequestHeader::parse(&self.partial_header)
        };
        parsed
            .map(Some)
            .map_err(|found| ProtocolError::RequestMagic { found })
    }

    /// Offers the resulting command or refusal to the sink. Returns the next state, or `None` if the sink has no room.
    /// A request that waits is judged again each time, because a shutdown may have begun meanwhile.
    fn offer<S: Sink>(
        &self,
        request: &RequestHeader,
        shutting_down: bool,
        sink: &mut S,
    ) -> Option<State> {
        let (accept, next_state) = match self.rules.judge(request, shutting_down) {
            Judgement::Command(command) => {
                let is_write = matches!(command.kind, CommandKind::Write { .. });
                let payload_bytes = if is_write { command.length_bytes } else { 0 };
                (sink.command(command), payload_or_header(payload_bytes))
            }
            Judgement::Refusal(refusal) => (
                sink.refusal(refusal),
                discarded_or_header(refusal.payload_bytes()),
            ),
            Judgement::Disconnect => (Accept::Taken, State::Ended),
        };
        (accept == Accept::Taken).then_some(next_state)
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, State::Offered(_))
    }

    pub(super) fn has_ended(&self) -> bool {
        matches!(self.state, State::Ended)
    }

    pub(super) fn payload_remaining_bytes(&self) -> Option<u32> {
        match self.state {
            State::Payload { remaining_bytes } => Some(remaining_bytes),
            _ => None,
        }
    }

    pub(super) fn payload_received(&mut self, length_bytes: u32) -> Option<u32> {
        let remaining_bytes = self.payload_remaining_bytes()?.checked_sub(length_bytes)?;
        self.state = payload_or_header(remaining_bytes);
        Some(remaining_bytes)
    }
}

fn payload_or_header(remaining_bytes: u32) -> State {
    if remaining_bytes == 0 {
        State::Header
    } else {
        State::Payload { remaining_bytes }
    }
}

fn discarded_or_header(remaining_bytes: u32) -> State {
    if remaining_bytes == 0 {
        State::Header
    } else {
        State::Discarded { remaining_bytes }
    }
}

/// Splits at most `limit_bytes` off `rest`; `None` if `rest` is empty.
fn take<'a>(rest: &mut &'a [u8], limit_bytes: u32) -> Option<&'a [u8]> {
    let length = rest.len().min(limit_bytes as usize);
    let (piece, after) = rest.split_at(length);
    *rest = after;
    (!piece.is_empty()).then_some(piece)
}

#[cfg(test)]
mod tests;
