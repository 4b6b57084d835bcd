use std::sync::Arc;

use super::*;
use crate::nbd::Phase;
use crate::nbd::exercise::{Delivery, Event, Transcript, run, run_every_way, sample_exports};
use crate::nbd::script::{
    GREETING, OptionReply, ack, client_flags, info_data, meta_context_data, option, option_replies,
};

/// Sends options after the usual client flags.
fn negotiate(options: &[Vec<u8>]) -> Transcript {
    run_every_way(
        &sample_exports(),
        &[client_flags(3), options.concat()].concat(),
    )
}

/// The text of the only reply, which must be an error of this type.
fn only_error(transcript: &Transcript, option: u32, reply_type: u32) -> String {
    let replies = option_replies(&transcript.output);
    assert_eq!(replies.len(), 1, "{replies:?}");
    assert_eq!((replies[0].0, replies[0].1), (option, reply_type));
    assert_eq!(transcript.error, None);
    assert_eq!(transcript.phase, Phase::Handshake);
    String::from_utf8(replies[0].2.clone()).unwrap()
}

fn export_info(option: u32, flags: u16) -> OptionReply {
    let data = [
        &0u16.to_be_bytes()[..],
        &(8u64 << 20).to_be_bytes(),
        &flags.to_be_bytes(),
    ];
    (option, REP_INFO, data.concat())
}

/// Flags of `vol0`: bits 0, 2, 3, 5, 6, 8 and 11.
const VOL0_FLAGS: u16 = 0b1001_0110_1101;

#[test]
fn go_describes_and_starts() {
    let data = info_data("vol0", &[INFO_BLOCK_SIZE, INFO_DESCRIPTION, INFO_NAME, 99]);
    let transcript = negotiate(&[option(OPT_GO, &data)]);
    let block_sizes = [
        &[0, 3, 0, 0, 2, 0, 0, 0, 16, 0][..],
        &(1u32 << 20).to_be_bytes(),
    ]
    .concat();
    let expected = [
        export_info(OPT_GO, VOL0_FLAGS),
        (OPT_GO, REP_INFO, b"\x00\x01vol0".to_vec()),
        (OPT_GO, REP_INFO, b"\x00\x02sample vol0".to_vec()),
        (OPT_GO, REP_INFO, block_sizes),
        ack(OPT_GO),
    ];
    assert_eq!(option_replies(&transcript.output), expected);
    assert_eq!(transcript.phase, Phase::Transmission);
    assert_eq!(transcript.export_index, Some(0));
    assert!(!transcript.structured_replies);
}

#[test]
fn info_describes_and_goes_on() {
    let options = [
        option(OPT_INFO, &info_data("vol0", &[])),
        option(OPT_STRUCTURED_REPLY, &[]),
        option(OPT_GO, &info_data("", &[])),
    ];
    let transcript = negotiate(&options);
    let expected = [
        export_info(OPT_INFO, VOL0_FLAGS),
        ack(OPT_INFO),
        ack(OPT_STRUCTURED_REPLY),
        // Structured replies add "don't fragment", bit 7. The empty name means the first export.
        export_info(OPT_GO, VOL0_FLAGS | 1 << 7),
        ack(OPT_GO),
    ];
    assert_eq!(option_replies(&transcript.output), expected);
    assert_eq!(transcript.export_index, Some(0));
    assert!(transcript.structured_replies);
}

#[test]
fn an_unknown_export_is_an_answer_that_names_it() {
    for number in [OPT_INFO, OPT_GO] {
        let transcript = negotiate(&[option(number, &info_data("vol9", &[]))]);
        let text = only_error(&transcript, number, REP_ERR_UNKNOWN);
        assert_eq!(
            text,
            "no export is named \"vol9\"; list the exports to see their names"
        );
    }
    let input = [client_flags(3), option(OPT_GO, &info_data("", &[]))].concat();
    let transcript = run_every_way(&Arc::new(ExportList::default()), &input);
    assert!(only_error(&transcript, OPT_GO, REP_ERR_UNKNOWN).contains("no exports"));
}

#[test]
fn malformed_data_is_an_answer() {
    for number in [OPT_INFO, OPT_GO] {
        let transcript = negotiate(&[option(number, &[0, 0, 0, 9, b'v'])]);
        assert!(only_error(&transcript, number, REP_ERR_INVALID).contains("announced longer"));
    }
    for number in [OPT_LIST, OPT_STRUCTURED_REPLY] {
        let transcript = negotiate(&[option(number, b"xy")]);
        assert!(only_error(&transcript, number, REP_ERR_INVALID).contains("no data"));
        assert!(!transcript.structured_replies);
    }
}

#[test]
fn lists_all_exports() {
    let transcript = negotiate(&[option(OPT_LIST, &[])]);
    let server = |name: &str| {
        (
            OPT_LIST,
            REP_SERVER,
            format!("\0\0\0\x04{name}sample {name}").into_bytes(),
        )
    };
    let expected = [
        server("vol0"),
        server("vol1"),
        server("vol2"),
        ack(OPT_LIST),
    ];
    assert_eq!(option_replies(&transcript.output), expected);
}

#[test]
fn abort_is_acknowledged_and_ends() {
    for data in [&b""[..], b"data to ignore"] {
        let transcript = negotiate(&[option(OPT_ABORT, data), option(OPT_LIST, &[])]);
        assert_eq!(option_replies(&transcript.output), [ack(OPT_ABORT)]);
        assert_eq!((transcript.phase, transcript.error), (Phase::Ended, None));
        assert_eq!(transcript.taken_bytes, 4 + 16 + data.len());
    }
}

#[test]
fn tls_extended_headers_and_unknown_options_are_unsupported() {
    let mentions = [
        (OPT_STARTTLS, "TLS"),
        (OPT_EXTENDED_HEADERS, "extended"),
        (4, "option 4"),
        (4711, "4711"),
    ];
    for (number, mention) in mentions {
        for data in [&b""[..], b"some data"] {
            let transcript = negotiate(&[option(number, data)]);
            assert!(only_error(&transcript, number, REP_ERR_UNSUP).contains(mention));
        }
    }
}

#[test]
fn export_name_starts_with_and_without_padding() {
    for (flags, padding) in [(3, 0), (1, 124), (2, 0), (0, 124)] {
        let input = [client_flags(flags), option(OPT_EXPORT_NAME, b"vol1")].concat();
        let transcript = run_every_way(&sample_exports(), &input);
        // Read-only: bits 0, 1, 2, 3 and 8.
        let expected = [
            &(8u64 << 20).to_be_bytes()[..],
            &[1, 0b1111],
            &vec![0; padding],
        ]
        .concat();
        assert_eq!(transcript.output[GREETING.len()..], expected);
        assert_eq!(transcript.phase, Phase::Transmission);
        assert_eq!(transcript.export_index, Some(1));
    }
}

#[test]
fn export_name_without_such_an_export_ends_the_session() {
    let failure = |name: &[u8]| negotiate(&[option(OPT_EXPORT_NAME, name)]).error.unwrap();
    assert_eq!(
        failure(b"vol9"),
        ProtocolError::UnknownExport {
            name: "vol9".into()
        }
    );
    assert!(matches!(failure(b"\xff"), ProtocolError::ExportName { .. }));
    let input = [client_flags(3), option(OPT_EXPORT_NAME, &[b'x'; 4097])].concat();
    let transcript = run(&sample_exports(), &input, Delivery::AT_ONCE);
    assert!(matches!(
        transcript.error,
        Some(ProtocolError::ExportName { .. })
    ));
}

#[test]
fn metadata_contexts_are_listed() {
    let structured = option(OPT_STRUCTURED_REPLY, &[]);
    for (queries, count) in [
        (&[][..], 1),
        (&["base:"][..], 1),
        (&["x:y", "base:allocation"][..], 1),
        (&["base:x"][..], 0),
    ] {
        let data = meta_context_data("vol1", queries);
        let transcript = negotiate(&[structured.clone(), option(OPT_LIST_META_CONTEXT, &data)]);
        let context = b"\0\0\0\0base:allocation".to_vec();
        let mut expected = vec![ack(OPT_STRUCTURED_REPLY)];
        expected.extend(vec![
            (OPT_LIST_META_CONTEXT, REP_META_CONTEXT, context);
            count
        ]);
        expected.push(ack(OPT_LIST_META_CONTEXT));
        assert_eq!(option_replies(&transcript.output), expected, "{queries:?}");
    }
}

/// Whether block status is allowed after selecting `selections` in turn and choosing `name`.
fn block_status_after(selections: &[Vec<u8>], name: &str) -> bool {
    let request = RequestHeader {
        flags: 0,
        command: CMD_BLOCK_STATUS,
        cookie: 1,
        offset_bytes: 0,
        length_bytes: 4096,
    };
    let mut options = vec![option(OPT_STRUCTURED_REPLY, &[])];
    options.extend(
        selections
            .iter()
            .map(|data| option(OPT_SET_META_CONTEXT, data)),
    );
    options.push(option(OPT_GO, &info_data(name, &[])));
    let transcript = negotiate(&[options.concat(), request.to_bytes().to_vec()]);
    match transcript.events[..] {
        [Event::Command(_)] => true,
        [Event::Refusal(refusal)] => {
            assert!(refusal.to_string().contains("base:allocation"));
            false
        }
        ref other => panic!("{other:?}"),
    }
}

#[test]
fn a_selected_context_counts_for_its_export_only() {
    let select = |name: &str| meta_context_data(name, &["base:allocation"]);
    assert!(!block_status_after(&[], "vol0"));
    assert!(block_status_after(&[select("vol0")], "vol0"));
    assert!(block_status_after(&[select("")], "vol0"));
    assert!(!block_status_after(&[select("vol0")], "vol1"));
    assert!(block_status_after(
        &[select("vol0"), select("vol1")],
        "vol1"
    ));
    // The wildcard selects nothing, and each selection, even a failed one, replaces the one before.
    assert!(!block_status_after(
        &[meta_context_data("vol0", &["base:"])],
        "vol0"
    ));
    assert!(!block_status_after(
        &[select("vol0"), meta_context_data("vol0", &[])],
        "vol0"
    ));
    assert!(!block_status_after(
        &[select("vol0"), select("vol9")],
        "vol0"
    ));
    assert!(!block_status_after(
        &[select("vol0"), b"broken".to_vec()],
        "vol0"
    ));
}

#[test]
fn selecting_a_context_answers_with_its_identifier() {
    let data = meta_context_data("vol0", &["base:allocation"]);
    let select = option(OPT_SET_META_CONTEXT, &data);
    let transcript = negotiate(&[option(OPT_STRUCTURED_REPLY, &[]), select.clone()]);
    let context = b"\0\0\0\x01base:allocation".to_vec();
    let expected = [
        ack(OPT_STRUCTURED_REPLY),
        (OPT_SET_META_CONTEXT, REP_META_CONTEXT, context),
        ack(OPT_SET_META_CONTEXT),
    ];
    assert_eq!(option_replies(&transcript.output), expected);
    let early = negotiate(&[select]);
    let text = only_error(&early, OPT_SET_META_CONTEXT, REP_ERR_INVALID);
    assert!(text.contains("structured replies"));
}
