//! One client's session, from greeting to disconnect, without I/O.
//!
//! The driver owns the socket and the buffers, and runs this loop:
//!
//! 1. Send the output of [`Session::take_output`] (first the greeting, later the replies to options).
//! 2. Receive into a buffer and pass it to [`Session::feed`]. The session takes what it can and passes the client's
//!    commands to the [`Sink`]. Bytes that it did not take are passed again later.
//! 3. After the bytes are used up, [`Session::payload_remaining_bytes`] says whether the next bytes belong to the
//!    payload of a write. The driver may then receive them directly into the write's buffer and report them with
//!    [`Session::payload_received`]. A vectored receive that continues into the header buffer works as well.
//! 4. When [`Session::phase`] is [`Phase::Ended`], send the outstanding replies and close the connection.
//!
//! `feed` takes fewer bytes than offered only in three cases: output waits to be taken, the sink said
//! [`Accept::Later`], or the session has ended.

use std::sync::Arc;

use super::command::{Command, Refusal, Rules};
use super::error::ProtocolError;
use super::export::{Export, ExportList};
use super::frozen::{Frozen, FrozenTransmission, MAX_SAID_BYTES, ThawError};
use super::handshake::Handshake;
use super::negotiation::{Choice, Negotiated};
use super::reply::ReplyEncoder;
use super::transmission::Transmission;

/// Answer of a [`Sink`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accept {
    /// The sink has accepted the command or refusal, and will reply.
    Taken,
    /// The sink has no room (no buffer, too many requests or replies in flight). The next call of [`Session::feed`]
    /// begins with the same offer, even if it has no input.
    Later,
}

/// Where a session delivers the client's requests.
pub trait Sink {
    /// A valid command. If it is a write, its payload follows with [`Sink::payload`] or through
    /// [`Session::payload_received`], before any other command.
    fn command(&mut self, command: Command) -> Accept;

    /// A request that breaks a rule. The sink has to send the reply that [`ReplyEncoder::refusal`] writes. If it has no
    /// room for another reply it can say [`Accept::Later`].
    fn refusal(&mut self, refusal: Refusal) -> Accept;

    /// The next bytes of the payload of the last accepted write; never empty. The write is complete when
    /// `remaining_bytes` is 0.
    fn payload(&mut self, bytes: &[u8], remaining_bytes: u32);
}

/// The phase of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Greeting and options.
    Handshake,
    /// Commands and replies.
    Transmission,
    /// No more input is taken. Outstanding output and replies to commands already accepted may still be sent, unless
    /// `feed` returned an error.
    Ended,
}

enum State {
    /// With what the client has said so far; `None` if that is more than can be frozen.
    Handshake(Handshake, Option<Vec<u8>>),
    Transmission(Transmission),
    Ended,
}

/// The server's side of one connection.
pub struct Session {
    exports: Arc<ExportList>,
    state: State,
    output: Vec<u8>,
    choice: Option<Choice>,
    shutting_down: bool,
}

impl Session {
    /// A session for a new connection; the greeting is its first output.
    pub fn new(exports: Arc<ExportList>) -> Self {
        let mut output = Vec::new();
        let handshake = Handshake::new(&mut output);
        Self {
            exports,
            state: State::Handshake(handshake, Some(Vec::new())),
            output,
            choice: None,
            shutting_down: false,
        }
    }

    /// The session between two messages, for the next process; `None` if it is in the middle of something: output waits, a
    /// write is not complete, a request is not accepted, the session has ended, or the handshake has become too long.
    pub fn freeze(&self) -> Option<Frozen> {
        if !self.output.is_empty() {
            return None;
        }
        match &self.state {
            State::Handshake(_, said) => said.clone().map(|said| Frozen::Handshake { said }),
            State::Transmission(transmission) => {
                let (rules, header, discarded_bytes) = transmission.freeze()?;
                let (_, export) = self.export()?;
                Some(Frozen::Transmission(FrozenTransmission {
                    export: export.name.clone(),
                    structured_replies: self.choice?.structured_replies,
                    rules,
                    partial_header: header.to_vec(),
                    discarded_bytes,
                }))
            }
            State::Ended => None,
        }
    }

    /// A session that goes on where another process has frozen one. It has no output.
    ///
    /// # Errors
    /// `exports` do not have what the client was told.
    pub fn thaw(exports: Arc<ExportList>, frozen: &Frozen) -> Result<Self, ThawError> {
        match frozen {
            Frozen::Handshake { said } => Self::say_again(exports, said),
            Frozen::Transmission(frozen) => {
                let export_index = exports.find(&frozen.export);
                let export_index = export_index.ok_or_else(|| ThawError::Gone {
                    export: frozen.export.clone(),
                })?;
                frozen.check(&exports.as_slice()[export_index])?;
                Ok(Self {
                    exports,
                    state: State::Transmission(Transmission::thaw(frozen)),
                    output: Vec::new(),
                    choice: Some(Choice {
                        export_index,
                        structured_replies: frozen.structured_replies,
                        block_status: frozen.rules.block_status,
                    }),
                    shutting_down: false,
                })
            }
        }
    }

    /// A session in the handshake, to which the client has said all this. The answers have been sent already.
    fn say_again(exports: Arc<ExportList>, said: &[u8]) -> Result<Self, ThawError> {
        let mut session = Self::new(exports);
        let mut rest = said;
        loop {
            drop(session.take_output());
            let taken = session.feed_handshake(rest);
            let taken = taken.map_err(|_| ThawError::Handshake)?;
            if session.phase() != Phase::Handshake {
                return Err(ThawError::Handshake);
            }
            rest = &rest[taken..];
            if rest.is_empty() && session.output.is_empty() {
                return Ok(session);
            }
        }
    }

    /// Takes bytes from the client and returns how many; the module's documentation says when these are not all.
    ///
    /// # Errors
    /// The connection must be closed; the session has ended.
    pub fn feed<S: Sink>(&mut self, input: &[u8], sink: &mut S) -> Result<usize, ProtocolError> {
        let mut taken = 0;
        if matches!(self.state, State::Handshake(..)) {
            taken = self
                .feed_handshake(input)
                .inspect_err(|_| self.state = State::Ended)?;
        }
        // Output that waits here ends the handshake; the client has no reason to send more before it has seen that
        // output.
        if let State::Transmission(transmission) = &mut self.state
            && self.output.is_empty()
        {
            let result = transmission.feed(&input[taken..], self.shutting_down, sink);
            if result.is_err() || transmission.has_ended() {
                self.state = State::Ended;
            }
            taken += result?;
        }
        Ok(taken)
    }

    fn feed_handshake(&mut self, input: &[u8]) -> Result<usize, ProtocolError> {
        let State::Handshake(handshake, said) = &mut self.state else {
            return Ok(0);
        };
        let (taken, outcome) =
            handshake.feed(input, &self.exports, self.shutting_down, &mut self.output)?;
        match said {
            Some(bytes) if bytes.len() + taken <= MAX_SAID_BYTES => bytes.extend(&input[..taken]),
            said => *said = None,
        }
        match outcome {
            Negotiated::Negotiating => {}
            Negotiated::Aborted => self.state = State::Ended,
            Negotiated::Chosen(choice) => {
                let export = &self.exports.as_slice()[choice.export_index];
                self.state = State::Transmission(Transmission::new(Rules::new(export, &choice)));
                self.choice = Some(choice);
            }
        }
        Ok(taken)
    }

    /// Bytes of the handshake that must be sent before anything else; `None` if there are none.
    pub fn take_output(&mut self) -> Option<Vec<u8>> {
        (!self.output.is_empty()).then(|| std::mem::take(&mut self.output))
    }

    pub(super) fn output_is_empty(&self) -> bool {
        self.output.is_empty()
    }

    /// The phase of the session.
    pub fn phase(&self) -> Phase {
        match self.state {
            State::Handshake(..) => Phase::Handshake,
            State::Transmission(_) => Phase::Transmission,
            State::Ended => Phase::Ended,
        }
    }

    /// The export that the client has chosen, with its position in the list; `None` before transmission begins.
    pub fn export(&self) -> Option<(usize, &Export)> {
        let index = self.choice?.export_index;
        Some((index, &self.exports.as_slice()[index]))
    }

    /// Encodes replies in the form that this client understands. Valid from the start of transmission to the end of the
    /// session; a driver may keep a copy.
    pub fn reply_encoder(&self) -> ReplyEncoder {
        ReplyEncoder::new(self.choice.is_some_and(|choice| choice.structured_replies))
    }

    /// Whether a command or refusal waits to which the sink said [`Accept::Later`].
    pub fn is_waiting(&self) -> bool {
        matches!(&self.state, State::Transmission(transmission) if transmission.is_waiting())
    }

    /// How many bytes of the accepted write's payload are still to come, not 0; `None` if the client's next bytes are
    /// something else.
    pub fn payload_remaining_bytes(&self) -> Option<u32> {
        match &self.state {
            State::Transmission(transmission) => transmission.payload_remaining_bytes(),
            _ => None,
        }
    }

    /// Notes that the driver has received `length_bytes` of payload directly into the write's buffer. Returns how many
    /// are still to come; at 0 the write is complete. [`Sink::payload`] is not called.
    ///
    /// # Panics
    /// If that is more than [`Session::payload_remaining_bytes`]: the driver has put bytes of the next request into the
    /// write's buffer, and they would be stored as data.
    pub fn payload_received(&mut self, length_bytes: u32) -> u32 {
        let remaining_bytes = match &mut self.state {
            State::Transmission(transmission) => transmission.payload_received(length_bytes),
            _ => None,
        };
        remaining_bytes.expect("the driver reported more payload than the write has")
    }

    /// From now on answers options and commands with "shutting down", including a command that waits. An accepted write
    /// whose payload is still to come is completed. The client is expected to disconnect.
    pub fn begin_shutdown(&mut self) {
        self.shutting_down = true;
    }
}

#[cfg(test)]
mod tests;
