//! Runs sessions over any bytes, and checks what must hold for all of them.
//!
//! The fuzz target calls [`fuzz_one`]. The tests call it too, with bytes of their own, and use the parts below to run
//! scripts. Each run delivers the same bytes twice: all at once to a sink that accepts everything, and then in pieces,
//! while the sink sometimes says "later", payloads are received directly, and the session is frozen and thawed between
//! messages. Both deliveries must give the same events,
//! the same output and the same end.

use std::sync::Arc;

use super::command::{Command, CommandKind, Refusal};
use super::error::{ErrorCode, ProtocolError};
use super::export::{Abilities, BlockSizes, Export, ExportList};
use super::note::{ConnectionNote, Note};
use super::script::{client_flags, option, start};
use super::session::{Accept, Phase, Session, Sink};
use super::wire::*;

/// Most bytes that a run makes from its data.
const MAX_INPUT_BYTES: usize = 1 << 20;

/// What a sink got; the pieces of a payload are joined.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Event {
    Command(Command),
    Refusal(Refusal),
    Payload(Vec<u8>),
}

/// How bytes reach a session.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    /// Most bytes per call, at least 1.
    pub(super) piece_bytes: usize,
    /// Whether payloads bypass `feed` where possible.
    pub(super) direct_payload: bool,
    /// How often the sink says "later" before it accepts an item.
    pub(super) delays: u32,
    /// Whether the session is frozen and thawed whenever that is possible.
    pub(super) freezes: bool,
}

impl Delivery {
    pub(super) const AT_ONCE: Self = Self {
        piece_bytes: usize::MAX,
        direct_payload: false,
        delays: 0,
        freezes: false,
    };
}

/// All that a session did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transcript {
    pub(super) events: Vec<Event>,
    /// Output of the handshake, the greeting included.
    pub(super) output: Vec<u8>,
    pub(super) error: Option<ProtocolError>,
    pub(super) phase: Phase,
    pub(super) taken_bytes: usize,
    pub(super) structured_replies: bool,
    pub(super) export_index: Option<usize>,
}

#[derive(Default)]
struct Recorder {
    events: Vec<Event>,
    delays: u32,
    delays_left: u32,
    payload_expected_bytes: u32,
}

impl Recorder {
    fn record(&mut self, event: Event) -> Accept {
        assert_eq!(
            self.payload_expected_bytes, 0,
            "{event:?} in the middle of a payload"
        );
        if self.delays_left > 0 {
            self.delays_left -= 1;
            return Accept::Later;
        }
        self.delays_left = self.delays;
        self.events.push(event);
        Accept::Taken
    }
}

impl Sink for Recorder {
    fn command(&mut self, command: Command) -> Accept {
        let accept = self.record(Event::Command(command));
        if accept == Accept::Taken && matches!(command.kind, CommandKind::Write { .. }) {
            self.payload_expected_bytes = command.length_bytes;
            self.events.push(Event::Payload(Vec::new()));
        }
        accept
    }

    fn refusal(&mut self, refusal: Refusal) -> Accept {
        self.record(Event::Refusal(refusal))
    }

    fn payload(&mut self, bytes: &[u8], remaining_bytes: u32) {
        assert!(!bytes.is_empty(), "an empty piece of payload");
        self.payload_expected_bytes -= bytes.len() as u32;
        assert_eq!(self.payload_expected_bytes, remaining_bytes);
        match self.events.last_mut() {
            Some(Event::Payload(payload)) => payload.extend_from_slice(bytes),
            other => panic!("payload after {other:?}"),
        }
    }
}

/// Runs a new session over `input`.
pub(super) fn run(exports: &Arc<ExportList>, input: &[u8], delivery: Delivery) -> Transcript {
    let mut session = Session::new(Arc::clone(exports));
    let mut sink = Recorder {
        delays: delivery.delays,
        delays_left: delivery.delays,
        ..Recorder::default()
    };
    let mut output = Vec::new();
    let mut error = None;
    let mut rest = input;
    loop {
        output.extend(session.take_output().unwrap_or_default());
        if delivery.freezes {
            session = frozen_and_thawed(session, exports);
        }
        let piece = &rest[..rest.len().min(delivery.piece_bytes)];
        if let Some(remaining_bytes) = session.payload_remaining_bytes()
            && delivery.direct_payload
            && !piece.is_empty()
        {
            let (direct, _) = piece.split_at(piece.len().min(remaining_bytes as usize));
            let left_bytes = session.payload_received(direct.len() as u32);
            sink.payload(direct, left_bytes);
            rest = &rest[direct.len()..];
            continue;
        }
        match session.feed(piece, &mut sink) {
            Ok(taken) => {
                rest = &rest[taken..];
                let ended = session.phase() == Phase::Ended;
                let may_stop = session.is_waiting() || ended || !session.output_is_empty();
                assert!(
                    taken == piece.len() || may_stop,
                    "input refused without a reason"
                );
                if ended || (rest.is_empty() && !may_stop) {
                    break;
                }
            }
            Err(failure) => {
                assert_eq!(session.phase(), Phase::Ended);
                assert_eq!(
                    session.feed(rest, &mut sink),
                    Ok(0),
                    "input taken after an error"
                );
                error = Some(failure);
                break;
            }
        }
    }
    output.extend(session.take_output().unwrap_or_default());
    check_replies(&session, &sink.events);
    Transcript {
        events: sink.events,
        output,
        phase: session.phase(),
        // A call that fails does not say how many bytes it took.
        taken_bytes: if error.is_none() {
            input.len() - rest.len()
        } else {
            0
        },
        error,
        structured_replies: session.reply_encoder().uses_structured_replies(),
        export_index: session.export().map(|(index, _)| index),
    }
}

/// The session after it has passed through a note, as it does between two processes; the same one if it is in the middle of
/// a message.
fn frozen_and_thawed(session: Session, exports: &Arc<ExportList>) -> Session {
    let Some(frozen) = session.freeze() else {
        return session;
    };
    let note = Note {
        listeners: Vec::new(),
        connections: vec![ConnectionNote {
            volume: [0; 16],
            is_kernels: false,
            session: frozen,
        }],
    };
    let read = Note::from_bytes(&note.to_bytes()).expect("it has just been written");
    assert_eq!(read, note);
    let thawed = Session::thaw(Arc::clone(exports), &read.connections[0].session);
    thawed.expect("the exports are the same")
}

/// Runs `input` at once, then in pieces of every length, with delays, with direct payloads and frozen in between, and
/// requires the same transcript each time.
#[cfg(test)]
pub(super) fn run_every_way(exports: &Arc<ExportList>, input: &[u8]) -> Transcript {
    let reference = run(exports, input, Delivery::AT_ONCE);
    for piece_bytes in 1..=input.len() {
        let direct_payload = piece_bytes % 2 == 0;
        let delays = piece_bytes as u32 % 3;
        let transcript = run(
            exports,
            input,
            Delivery {
                piece_bytes,
                direct_payload,
                delays,
                freezes: piece_bytes % 5 < 3,
            },
        );
        assert_eq!(transcript, reference, "in pieces of {piece_bytes} bytes");
    }
    reference
}

/// Commands must respect the export, and each item must have a well-formed reply.
fn check_replies(session: &Session, events: &[Event]) {
    let encoder = session.reply_encoder();
    let mut replies = Vec::new();
    for event in events {
        replies.clear();
        let cookie = match event {
            Event::Command(command) => {
                let (_, export) = session.export().expect("commands need an export");
                check_command(command, export);
                let message = format_args!("{:?} failed", command.kind);
                encoder.error_with_message(
                    &mut replies,
                    command.cookie,
                    ErrorCode::InputOutput,
                    message,
                );
                command.cookie
            }
            Event::Refusal(refusal) => {
                encoder.refusal(&mut replies, refusal);
                refusal.cookie()
            }
            Event::Payload(_) => continue,
        };
        assert_eq!(replies[8..16], cookie.to_be_bytes());
        if encoder.uses_structured_replies() {
            let length = u32::from_be_bytes([replies[16], replies[17], replies[18], replies[19]]);
            assert_eq!(replies.len(), 20 + length as usize);
            assert!(length > 6, "an error without a sentence");
        } else {
            assert_eq!(replies.len(), 16);
        }
    }
}

fn check_command(command: &Command, export: &Export) {
    let Command {
        kind,
        offset_bytes,
        length_bytes,
        ..
    } = *command;
    if kind == CommandKind::Flush {
        assert_eq!((offset_bytes, length_bytes), (0, 0));
        return;
    }
    let block = u64::from(export.block_sizes.minimum_bytes);
    assert!(length_bytes > 0);
    assert!(offset_bytes + u64::from(length_bytes) <= export.size_bytes);
    assert!(offset_bytes.is_multiple_of(block) && u64::from(length_bytes).is_multiple_of(block));
    if matches!(kind, CommandKind::Read | CommandKind::Write { .. }) {
        assert!(length_bytes <= export.block_sizes.maximum_payload_bytes);
    }
    let only_reads = matches!(kind, CommandKind::Read | CommandKind::BlockStatus { .. });
    assert!(only_reads || !export.abilities.read_only);
}

/// Checks one input of the fuzzer. The first bytes choose how the rest is turned into a client's bytes and how these
/// are delivered.
#[doc(hidden)]
pub fn fuzz_one(data: &[u8]) {
    let Some(([mode, piece, delivery], rest)) = data.split_first_chunk::<3>() else {
        return;
    };
    let input = match mode % 3 {
        0 => rest.to_vec(),
        1 => [start(*mode / 3), rest.to_vec()].concat(),
        _ => scripted(rest),
    };
    let exports = sample_exports();
    let reference = run(&exports, &input, Delivery::AT_ONCE);
    let in_pieces = Delivery {
        piece_bytes: usize::from(*piece) * usize::from(*piece) + 1,
        direct_payload: delivery & 1 != 0,
        delays: u32::from(delivery >> 1 & 3),
        freezes: delivery & 8 != 0,
    };
    assert_eq!(run(&exports, &input, in_pieces), reference);
}

/// Turns a dense script into client bytes, so that random data reaches deep code: options with short data, and requests
/// within and around the export.
fn scripted(script: &[u8]) -> Vec<u8> {
    let mut input = client_flags(3);
    let mut rest = script;
    while let Some((operation, after)) = rest.split_first()
        && input.len() < MAX_INPUT_BYTES
    {
        rest = after;
        if operation & 0x80 == 0 {
            let data_bytes = rest.first().map_or(0, |length| usize::from(*length) + 1);
            let (data, after) = rest.split_at(data_bytes.min(rest.len()));
            rest = after;
            input.extend(option(
                u32::from(operation & 15),
                data.get(1..).unwrap_or(&[]),
            ));
            continue;
        }
        let Some(([flags, offset_high, offset_low, length], after)) = rest.split_first_chunk()
        else {
            break;
        };
        rest = after;
        let header = RequestHeader {
            flags: u16::from(*flags),
            command: u16::from(operation & 15),
            cookie: input.len() as u64,
            offset_bytes: u64::from(u16::from_be_bytes([*offset_high, *offset_low])) * 256,
            length_bytes: u32::from(*length) * 256,
        };
        input.extend(header.to_bytes());
        if header.command == CMD_WRITE {
            input.extend((0..header.length_bytes).map(|index| index as u8));
        }
    }
    input
}

/// Three exports with different block sizes and abilities: `vol0` has all abilities, `vol1` is read-only, `vol2` has
/// blocks of one byte and can be written but has no other ability.
pub(super) fn sample_exports() -> Arc<ExportList> {
    let everything = Abilities {
        read_only: false,
        flush: true,
        fua: true,
        trim: true,
        write_zeroes: true,
        fast_zero: true,
        multi_conn: true,
    };
    let export = |name: &str, minimum_bytes, maximum_payload_bytes, abilities| Export {
        name: name.to_owned(),
        description: format!("sample {name}"),
        size_bytes: 8 << 20,
        block_sizes: BlockSizes {
            minimum_bytes,
            preferred_bytes: 4096,
            maximum_payload_bytes,
        },
        abilities,
    };
    let exports = vec![
        export("vol0", 512, 1 << 20, everything),
        export(
            "vol1",
            4096,
            1 << 16,
            Abilities {
                read_only: true,
                ..everything
            },
        ),
        export("vol2", 1, MAX_PAYLOAD_BYTES, Abilities::default()),
    ];
    Arc::new(ExportList::new(exports).expect("the sample exports are valid"))
}

#[cfg(test)]
mod tests;
