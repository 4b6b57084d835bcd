use crate::nbd::exercise::{Delivery, Event, Transcript, run, run_every_way, sample_exports};
use crate::nbd::script::start;
use crate::nbd::wire::*;
use crate::nbd::{Command, CommandKind, ErrorCode, Phase, ProtocolError};

fn request(command: u16, cookie: u64, offset_bytes: u64, length_bytes: u32) -> Vec<u8> {
    RequestHeader {
        flags: 0,
        command,
        cookie,
        offset_bytes,
        length_bytes,
    }
    .to_bytes()
    .to_vec()
}

fn payload(length: u32, seed: u8) -> Vec<u8> {
    (0..length)
        .map(|index| seed.wrapping_add((index % 251) as u8))
        .collect()
}

fn command(kind: CommandKind, cookie: u64, offset_bytes: u64, length_bytes: u32) -> Event {
    Event::Command(Command {
        cookie,
        kind,
        offset_bytes,
        length_bytes,
    })
}

const WRITE: CommandKind = CommandKind::Write { fua: false };

/// Transmission on `vol0` with structured replies and block status.
fn transmit(requests: &[Vec<u8>]) -> Transcript {
    run_every_way(&sample_exports(), &[start(4), requests.concat()].concat())
}

fn codes(transcript: &Transcript) -> Vec<ErrorCode> {
    let code = |event: &Event| match event {
        Event::Refusal(refusal) => Some(refusal.code()),
        _ => None,
    };
    transcript.events.iter().filter_map(code).collect()
}

#[test]
fn pipelined_commands_arrive_in_order_with_their_payloads() {
    let transcript = transmit(&[
        request(CMD_READ, 1, 0, 4096),
        request(CMD_WRITE, 2, 512, 1024),
        payload(1024, 7),
        request(CMD_WRITE, 3, 8192, 512),
        payload(512, 9),
        request(CMD_FLUSH, 4, 0, 0),
        request(CMD_TRIM, 5, 4096, 8192),
        request(CMD_WRITE_ZEROES, 6, 0, 4 << 20),
        request(CMD_BLOCK_STATUS, 7, 0, 8 << 20),
        request(CMD_READ, 1, 512, 512),
    ]);
    let zeroes = CommandKind::WriteZeroes {
        fua: false,
        no_hole: false,
        fast_only: false,
    };
    let expected = [
        command(CommandKind::Read, 1, 0, 4096),
        command(WRITE, 2, 512, 1024),
        Event::Payload(payload(1024, 7)),
        command(WRITE, 3, 8192, 512),
        Event::Payload(payload(512, 9)),
        command(CommandKind::Flush, 4, 0, 0),
        command(CommandKind::Trim { fua: false }, 5, 4096, 8192),
        command(zeroes, 6, 0, 4 << 20),
        command(
            CommandKind::BlockStatus { one_extent: false },
            7,
            0,
            8 << 20,
        ),
        command(CommandKind::Read, 1, 512, 512),
    ];
    assert_eq!(transcript.events, expected);
    assert_eq!(transcript.phase, Phase::Transmission);
    assert_eq!(transcript.error, None);
}

#[test]
fn refused_writes_do_not_lose_the_next_command() {
    let transcript = transmit(&[
        request(CMD_WRITE, 1, 1, 512),
        payload(512, 1),
        request(CMD_WRITE, 2, 8 << 20, 1024),
        payload(1024, 1),
        request(CMD_CACHE, 3, 0, 512),
        request(CMD_WRITE, 4, 0, 0),
        request(CMD_READ, 5, 0, 512),
    ]);
    let expected = [
        ErrorCode::Invalid,
        ErrorCode::NoSpace,
        ErrorCode::Invalid,
        ErrorCode::Invalid,
    ];
    assert_eq!(codes(&transcript), expected);
    assert_eq!(
        transcript.events.last(),
        Some(&command(CommandKind::Read, 5, 0, 512))
    );
}

#[test]
fn a_write_above_the_limit_is_refused_and_its_payload_skipped() {
    let requests = [
        start(4),
        request(CMD_WRITE, 1, 0, 2 << 20),
        payload(2 << 20, 3),
        request(CMD_FLUSH, 2, 0, 0),
    ];
    for piece_bytes in [usize::MAX, 65536, 4099] {
        let delivery = Delivery {
            piece_bytes,
            direct_payload: true,
            delays: 1,
            freezes: true,
        };
        let transcript = run(&sample_exports(), &requests.concat(), delivery);
        assert_eq!(codes(&transcript), [ErrorCode::Invalid]);
        assert_eq!(
            transcript.events.last(),
            Some(&command(CommandKind::Flush, 2, 0, 0))
        );
    }
}

#[test]
fn the_largest_write_passes() {
    // `vol2` accepts payloads of 32 MiB but has only 8 MiB, all of which are written.
    let requests = [
        start(2),
        request(CMD_WRITE, 1, 0, 8 << 20),
        payload(8 << 20, 3),
    ];
    let delivery = Delivery {
        piece_bytes: 128 << 10,
        direct_payload: true,
        delays: 0,
        freezes: false,
    };
    let transcript = run(&sample_exports(), &requests.concat(), delivery);
    let expected = [
        command(WRITE, 1, 0, 8 << 20),
        Event::Payload(payload(8 << 20, 3)),
    ];
    assert_eq!(transcript.events, expected);
}

#[test]
fn disconnect_ends_and_takes_no_more() {
    let requests = [request(CMD_READ, 1, 0, 512), request(CMD_DISC, 2, 0, 0)];
    let before = start(4).len() + requests.concat().len();
    let transcript = transmit(&[requests.concat(), b"after the end".to_vec()]);
    assert_eq!(transcript.events, [command(CommandKind::Read, 1, 0, 512)]);
    assert_eq!((transcript.phase, transcript.error), (Phase::Ended, None));
    assert_eq!(transcript.taken_bytes, before);
}

#[test]
fn garbage_instead_of_a_request_ends_the_session() {
    let transcript = transmit(&[request(CMD_READ, 1, 0, 512), vec![0xab; 28]]);
    assert_eq!(transcript.events.len(), 1);
    assert_eq!(transcript.phase, Phase::Ended);
    assert_eq!(
        transcript.error,
        Some(ProtocolError::RequestMagic { found: 0xabab_abab })
    );
    let text = transcript.error.unwrap().to_string();
    assert_eq!(
        text,
        "a request starts with 0xabababab instead of 0x25609513"
    );
}
