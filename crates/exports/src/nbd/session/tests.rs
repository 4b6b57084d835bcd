use super::*;
use crate::nbd::ErrorCode;
use crate::nbd::exercise::sample_exports;
use crate::nbd::script::{client_flags, info_data, option, start};
use crate::nbd::wire::*;

/// A sink with room for `room` commands and refusals.
#[derive(Default)]
struct Limited {
    room: usize,
    commands: Vec<Command>,
    refusals: Vec<Refusal>,
    offers: usize,
    payload: Vec<u8>,
}

impl Limited {
    fn accept(&mut self) -> Accept {
        self.offers += 1;
        if self.room == 0 {
            return Accept::Later;
        }
        self.room -= 1;
        Accept::Taken
    }
}

impl Sink for Limited {
    fn command(&mut self, command: Command) -> Accept {
        let accept = self.accept();
        if accept == Accept::Taken {
            self.commands.push(command);
        }
        accept
    }

    fn refusal(&mut self, refusal: Refusal) -> Accept {
        let accept = self.accept();
        if accept == Accept::Taken {
            self.refusals.push(refusal);
        }
        accept
    }

    fn payload(&mut self, bytes: &[u8], _remaining_bytes: u32) {
        self.payload.extend_from_slice(bytes);
    }
}

fn with_room(room: usize) -> Limited {
    Limited {
        room,
        ..Limited::default()
    }
}

/// A session on `vol0` that has just begun transmission.
fn transmitting() -> Session {
    let mut session = Session::new(sample_exports());
    let mut sink = Limited::default();
    let input = start(0);
    let mut taken = 0;
    while session.take_output().is_some() || taken < input.len() {
        taken += session.feed(&input[taken..], &mut sink).unwrap();
    }
    assert_eq!(session.phase(), Phase::Transmission);
    session
}

fn request(command: u16, cookie: u64, length_bytes: u32) -> [u8; REQUEST_HEADER_BYTES] {
    RequestHeader {
        flags: 0,
        command,
        cookie,
        offset_bytes: 0,
        length_bytes,
    }
    .to_bytes()
}

#[test]
fn a_full_sink_stops_the_session_until_it_has_room() {
    let mut session = transmitting();
    let input = [
        request(CMD_READ, 1, 512),
        request(CMD_READ, 2, 512),
        request(CMD_READ, 3, 512),
    ];
    let input = input.concat();
    let mut sink = with_room(1);
    // The session takes and holds the header of the second command; the driver keeps the third.
    assert_eq!(
        session.feed(&input, &mut sink),
        Ok(2 * REQUEST_HEADER_BYTES)
    );
    assert!(session.is_waiting());
    let rest = &input[2 * REQUEST_HEADER_BYTES..];
    assert_eq!(session.feed(rest, &mut sink), Ok(0));
    assert_eq!((sink.commands.len(), sink.offers), (1, 3));
    // Once there is room, a call without input is enough.
    sink.room = 1;
    assert_eq!(session.feed(&[], &mut sink), Ok(0));
    assert!(!session.is_waiting());
    assert_eq!(sink.commands[1].cookie, 2);
    sink.room = 1;
    assert_eq!(session.feed(rest, &mut sink), Ok(REQUEST_HEADER_BYTES));
    assert_eq!(sink.commands[2].cookie, 3);
}

#[test]
fn a_flood_of_bad_requests_stops_at_a_full_sink() {
    let mut session = transmitting();
    let input = request(CMD_CACHE, 1, 512).repeat(100);
    let mut sink = with_room(3);
    assert_eq!(
        session.feed(&input, &mut sink),
        Ok(4 * REQUEST_HEADER_BYTES)
    );
    assert_eq!(sink.refusals.len(), 3);
    assert!(session.is_waiting());
}

#[test]
fn a_payload_does_not_start_before_its_write_is_accepted() {
    let mut session = transmitting();
    let input = [&request(CMD_WRITE, 1, 512)[..], &[7; 512]].concat();
    let mut sink = with_room(0);
    assert_eq!(session.feed(&input, &mut sink), Ok(REQUEST_HEADER_BYTES));
    assert_eq!(session.payload_remaining_bytes(), None);
    sink.room = 1;
    assert_eq!(
        session.feed(&input[REQUEST_HEADER_BYTES..], &mut sink),
        Ok(512)
    );
    assert_eq!(sink.payload, [7; 512]);
}

#[test]
fn a_payload_received_directly_continues_one_that_began_in_the_buffer() {
    let mut session = transmitting();
    let mut sink = with_room(2);
    let input = [&request(CMD_WRITE, 1, 1024)[..], &[7; 100]].concat();
    assert_eq!(session.feed(&input, &mut sink), Ok(input.len()));
    assert_eq!(session.payload_remaining_bytes(), Some(924));
    assert_eq!(session.payload_received(900), 24);
    assert_eq!(session.payload_remaining_bytes(), Some(24));
    assert_eq!(session.payload_received(24), 0);
    assert_eq!(session.payload_remaining_bytes(), None);
    let next = request(CMD_FLUSH, 2, 0);
    assert_eq!(session.feed(&next, &mut sink), Ok(next.len()));
    assert_eq!((sink.commands.len(), sink.payload.len()), (2, 100));
}

#[test]
#[should_panic(expected = "more payload than the write has")]
fn a_driver_that_reports_too_much_is_stopped() {
    let mut session = transmitting();
    session
        .feed(&request(CMD_WRITE, 1, 512), &mut with_room(1))
        .unwrap();
    session.payload_received(513);
}

#[test]
fn shutdown_refuses_a_waiting_command_and_completes_a_payload() {
    let mut session = transmitting();
    let mut sink = with_room(1);
    session
        .feed(&request(CMD_WRITE, 1, 512), &mut sink)
        .unwrap();
    session.begin_shutdown();
    let input = [&[7; 512][..], &request(CMD_WRITE, 2, 512), &[8; 512]].concat();
    assert_eq!(
        session.feed(&input, &mut sink),
        Ok(512 + REQUEST_HEADER_BYTES)
    );
    assert_eq!(sink.payload, [7; 512]);
    sink.room = 2;
    let rest = &input[512 + REQUEST_HEADER_BYTES..];
    assert_eq!(session.feed(rest, &mut sink), Ok(512));
    assert_eq!(sink.refusals[0].code(), ErrorCode::ShuttingDown);
    assert_eq!((sink.refusals[0].cookie(), sink.payload.len()), (2, 512));
    session.feed(&request(CMD_DISC, 3, 0), &mut sink).unwrap();
    assert_eq!(session.phase(), Phase::Ended);

    let mut session = transmitting();
    let mut sink = with_room(0);
    session.feed(&request(CMD_READ, 1, 512), &mut sink).unwrap();
    session.begin_shutdown();
    sink.room = 1;
    session.feed(&[], &mut sink).unwrap();
    assert_eq!(sink.refusals[0].code(), ErrorCode::ShuttingDown);
    assert!(sink.commands.is_empty());
}

#[test]
fn nothing_is_taken_before_the_last_reply_of_the_handshake_is_sent() {
    let mut session = Session::new(sample_exports());
    let mut sink = with_room(1);
    session.take_output().unwrap();
    let go = option(OPT_GO, &info_data("vol1", &[]));
    let input = [client_flags(3), go, request(CMD_READ, 1, 4096).to_vec()].concat();
    let handshake_bytes = input.len() - REQUEST_HEADER_BYTES;
    assert_eq!(session.export(), None);
    assert_eq!(session.feed(&input, &mut sink), Ok(handshake_bytes));
    assert_eq!(session.phase(), Phase::Transmission);
    assert_eq!(
        session
            .export()
            .map(|(index, export)| (index, export.name.as_str())),
        Some((1, "vol1"))
    );
    assert_eq!(session.feed(&input[handshake_bytes..], &mut sink), Ok(0));
    assert!(session.take_output().is_some());
    assert_eq!(
        session.feed(&input[handshake_bytes..], &mut sink),
        Ok(REQUEST_HEADER_BYTES)
    );
    assert_eq!(sink.commands.len(), 1);
}

/// What a session is frozen as, if it sends requests.
fn frozen(session: &Session) -> FrozenTransmission {
    match session.freeze() {
        Some(Frozen::Transmission(frozen)) => frozen,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_session_is_frozen_only_between_messages() {
    let mut sink = with_room(1);
    // The greeting has not been sent.
    let mut session = Session::new(sample_exports());
    assert_eq!(session.freeze(), None);
    drop(session.take_output());
    let nothing_said = Frozen::Handshake { said: Vec::new() };
    assert_eq!(session.freeze(), Some(nothing_said));
    session.feed(&client_flags(3), &mut sink).unwrap();
    let said = client_flags(3);
    assert_eq!(session.freeze(), Some(Frozen::Handshake { said }));
    let mut session = transmitting();
    assert!(frozen(&session).partial_header.is_empty());
    let write = request(CMD_WRITE, 1, 1024);
    session.feed(&write[..20], &mut sink).unwrap();
    assert_eq!(frozen(&session).partial_header, write[..20]);
    session.feed(&write[20..], &mut sink).unwrap();
    // The payload of a write that was accepted is on its way.
    assert_eq!(session.freeze(), None);
    session.payload_received(1024);
    assert!(session.freeze().is_some());
    // There is no room for another request.
    session.feed(&request(CMD_READ, 2, 512), &mut sink).unwrap();
    assert_eq!(session.freeze(), None);
    sink.room = 2;
    session.feed(&[], &mut sink).unwrap();
    assert!(session.freeze().is_some());
    // The payload of a write that was refused need not be waited for.
    session
        .feed(&request(CMD_WRITE, 3, 100), &mut sink)
        .unwrap();
    session.feed(&[0; 30], &mut sink).unwrap();
    assert_eq!(frozen(&session).discarded_bytes, 70);
    session.feed(&[0; 70], &mut sink).unwrap();
    session.feed(&request(CMD_DISC, 4, 0), &mut sink).unwrap();
    assert_eq!(session.freeze(), None);
}

#[test]
fn a_handshake_that_says_too_much_is_not_frozen() {
    let mut session = Session::new(sample_exports());
    let mut sink = Limited::default();
    let mut said = client_flags(3);
    said.extend(option(OPT_LIST, &[]).repeat(MAX_SAID_BYTES / 16));
    let mut taken = 0;
    while session.take_output().is_some() || taken < said.len() {
        taken += session.feed(&said[taken..], &mut sink).unwrap();
    }
    assert_eq!(session.phase(), Phase::Handshake);
    assert_eq!(session.freeze(), None);
}

#[test]
fn an_export_that_keeps_less_is_refused() {
    let frozen = Frozen::Transmission(frozen(&transmitting()));
    let refused = |change: fn(&mut Export)| {
        let mut exports = sample_exports().as_slice().to_vec();
        change(&mut exports[0]);
        let exports = Arc::new(ExportList::new(exports).unwrap());
        let thawed = Session::thaw(exports, &frozen);
        thawed.err().map(|error| error.to_string())
    };
    assert_eq!(refused(|_| {}), None);
    // More is no problem, and discarding was never a promise.
    assert_eq!(refused(|vol0| vol0.description.clear()), None);
    assert_eq!(
        refused(|vol0| vol0.block_sizes.maximum_payload_bytes <<= 1),
        None
    );
    assert_eq!(refused(|vol0| vol0.abilities.trim = false), None);
    let text = |change| refused(change).unwrap_or_default();
    let gone = text(|vol0| vol0.name = "other".to_owned());
    assert_eq!(gone, "volume vol0 is not served any more");
    let size = text(|vol0| vol0.size_bytes *= 2);
    assert_eq!(
        size,
        "volume vol0 has 16777216 bytes, and the client was told 8388608"
    );
    let beginning = "volume vol0 does not allow what the client was told: ";
    for (change, what) in [
        (
            (|vol0| vol0.block_sizes.minimum_bytes = 4096) as fn(&mut Export),
            "the smallest block",
        ),
        (
            |vol0| vol0.block_sizes.maximum_payload_bytes = 1 << 16,
            "the longest request",
        ),
        (|vol0| vol0.abilities.read_only = true, "writing"),
        (
            |vol0| vol0.abilities.fua = false,
            "flushes, FUA, zeroing or several connections",
        ),
    ] {
        assert_eq!(text(change), format!("{beginning}{what}"));
    }
}

#[test]
fn a_handshake_that_now_chooses_something_is_refused() {
    let said = |name: &str| {
        let go = option(OPT_GO, &info_data(name, &[]));
        [client_flags(3), go].concat()
    };
    let thaw = |said: Vec<u8>| {
        let thawed = Session::thaw(sample_exports(), &Frozen::Handshake { said });
        thawed.map(|session| session.phase())
    };
    assert_eq!(thaw(said("unknown")), Ok(Phase::Handshake));
    // Its client was told that there is no such export.
    assert_eq!(thaw(said("vol0")), Err(ThawError::Handshake));
    assert_eq!(thaw(b"NBD?".to_vec()), Err(ThawError::Handshake));
}
