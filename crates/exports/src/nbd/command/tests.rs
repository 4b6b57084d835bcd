use super::*;
use crate::nbd::exercise::sample_exports;

const KIB: u32 = 1024;
const SIZE_BYTES: u64 = 8 << 20;

fn rules(export_index: usize, structured_replies: bool) -> Rules {
    let exports = sample_exports();
    let choice = Choice {
        export_index,
        structured_replies,
        block_status: structured_replies,
    };
    Rules::new(&exports.as_slice()[export_index], &choice)
}

fn request(command: u16, flags: u16, offset_bytes: u64, length_bytes: u32) -> RequestHeader {
    RequestHeader {
        flags,
        command,
        cookie: 77,
        offset_bytes,
        length_bytes,
    }
}

/// The kind of a request that must pass with its range and cookie unchanged.
fn passes(rules: &Rules, request: RequestHeader) -> CommandKind {
    match rules.judge(&request, false) {
        Judgement::Command(command) => {
            assert_eq!(command.cookie, 77);
            assert_eq!(command.offset_bytes, request.offset_bytes);
            assert_eq!(command.length_bytes, request.length_bytes);
            command.kind
        }
        other => panic!("{request:?} became {other:?}"),
    }
}

fn refused(rules: &Rules, request: RequestHeader) -> (ErrorCode, String) {
    match rules.judge(&request, false) {
        Judgement::Refusal(refusal) => {
            assert_eq!(refusal.cookie(), 77);
            let payload = if request.command == CMD_WRITE {
                request.length_bytes
            } else {
                0
            };
            assert_eq!(refusal.payload_bytes(), payload);
            (refusal.code(), refusal.to_string())
        }
        other => panic!("{request:?} became {other:?}"),
    }
}

/// The rules of the first sample export after a change to it.
fn rules_with(change: impl FnOnce(&mut Export)) -> Rules {
    let mut export = sample_exports().as_slice()[0].clone();
    change(&mut export);
    let choice = Choice {
        export_index: 0,
        structured_replies: true,
        block_status: true,
    };
    Rules::new(&export, &choice)
}

#[test]
fn zeros_that_have_to_be_fast_need_an_export_that_offers_them() {
    let rules = rules_with(|export| export.abilities.fast_zero = false);
    let zeroes = |flags| request(CMD_WRITE_ZEROES, flags, 0, 512);
    passes(&rules, zeroes(CMD_FLAG_NO_HOLE));
    let (code, text) = refused(&rules, zeroes(CMD_FLAG_FAST_ZERO));
    assert_eq!(code, ErrorCode::Invalid);
    assert!(
        text.contains(&format!("{CMD_FLAG_FAST_ZERO:#06x}")),
        "{text}"
    );
}

#[test]
fn no_byte_past_the_end_is_asked_for() {
    let rules = rules_with(|export| export.block_sizes.minimum_bytes = 1);
    for command in [CMD_READ, CMD_WRITE, CMD_TRIM, CMD_WRITE_ZEROES] {
        passes(&rules, request(command, 0, SIZE_BYTES - 3, 3));
        for (offset, length) in [(SIZE_BYTES - 3, 4), (SIZE_BYTES, 1), (u64::MAX, 1)] {
            let (_, text) = refused(&rules, request(command, 0, offset, length));
            assert!(text.contains(&SIZE_BYTES.to_string()), "{text}");
        }
    }
}

#[test]
fn each_command_with_its_flags() {
    let rules = rules(0, true);
    let passes = |command, flags| passes(&rules, request(command, flags, 512, 1024));
    assert_eq!(passes(CMD_READ, 0), CommandKind::Read);
    assert_eq!(
        passes(CMD_READ, CMD_FLAG_DF | CMD_FLAG_FUA),
        CommandKind::Read
    );
    assert_eq!(passes(CMD_WRITE, 0), CommandKind::Write { fua: false });
    assert_eq!(
        passes(CMD_WRITE, CMD_FLAG_FUA),
        CommandKind::Write { fua: true }
    );
    assert_eq!(passes(CMD_TRIM, 0), CommandKind::Trim { fua: false });
    assert_eq!(
        passes(CMD_TRIM, CMD_FLAG_FUA),
        CommandKind::Trim { fua: true }
    );
    let zeroes = |fua, no_hole, fast_only| CommandKind::WriteZeroes {
        fua,
        no_hole,
        fast_only,
    };
    assert_eq!(passes(CMD_WRITE_ZEROES, 0), zeroes(false, false, false));
    assert_eq!(
        passes(CMD_WRITE_ZEROES, CMD_FLAG_FUA),
        zeroes(true, false, false)
    );
    assert_eq!(
        passes(CMD_WRITE_ZEROES, CMD_FLAG_NO_HOLE),
        zeroes(false, true, false)
    );
    assert_eq!(
        passes(CMD_WRITE_ZEROES, CMD_FLAG_FAST_ZERO),
        zeroes(false, false, true)
    );
    assert_eq!(
        passes(CMD_BLOCK_STATUS, 0),
        CommandKind::BlockStatus { one_extent: false }
    );
    let one = CommandKind::BlockStatus { one_extent: true };
    assert_eq!(passes(CMD_BLOCK_STATUS, CMD_FLAG_REQ_ONE), one);
}

#[test]
fn flush_has_no_range() {
    let rules = rules(0, false);
    assert_eq!(
        passes(&rules, request(CMD_FLUSH, 0, 0, 0)),
        CommandKind::Flush
    );
    assert_eq!(
        passes(&rules, request(CMD_FLUSH, CMD_FLAG_FUA, 0, 0)),
        CommandKind::Flush
    );
    for (offset, length) in [(512, 0), (0, 512)] {
        let (code, text) = refused(&rules, request(CMD_FLUSH, 0, offset, length));
        assert_eq!(code, ErrorCode::Invalid);
        assert!(text.ends_with("must have offset and length 0"), "{text}");
    }
}

#[test]
fn flags_that_do_not_belong_are_invalid() {
    let all = rules(0, true);
    let simple = rules(0, false);
    let plain = rules(2, true);
    for (rules, command, flags) in [
        (&all, CMD_READ, CMD_FLAG_NO_HOLE),
        (&all, CMD_WRITE, CMD_FLAG_DF),
        (&all, CMD_TRIM, CMD_FLAG_REQ_ONE),
        (&all, CMD_WRITE_ZEROES, CMD_FLAG_REQ_ONE),
        (&all, CMD_BLOCK_STATUS, CMD_FLAG_FAST_ZERO),
        (&all, CMD_WRITE, 1 << 15),
        // "Don't fragment" needs structured replies, and FUA needs an export that offers it.
        (&simple, CMD_READ, CMD_FLAG_DF),
        (&plain, CMD_WRITE, CMD_FLAG_FUA),
    ] {
        let (code, text) = refused(rules, request(command, flags, 0, 512));
        assert_eq!(code, ErrorCode::Invalid);
        assert!(text.contains(&format!("{flags:#06x}")), "{text}");
    }
}

#[test]
fn what_an_export_does_not_offer_is_invalid() {
    let plain = rules(2, false);
    for command in [CMD_FLUSH, CMD_TRIM, CMD_WRITE_ZEROES, CMD_CACHE] {
        let length = if command == CMD_FLUSH { 0 } else { 512 };
        let (code, text) = refused(&plain, request(command, 0, 0, length));
        assert_eq!(code, ErrorCode::Invalid);
        assert!(text.ends_with("is not offered by this export"), "{text}");
    }
    let (code, text) = refused(&plain, request(CMD_BLOCK_STATUS, 0, 0, 512));
    assert_eq!(code, ErrorCode::Invalid);
    assert!(text.contains("base:allocation"), "{text}");
    let (code, text) = refused(&plain, request(8, 0, 0, 512));
    assert_eq!(
        (code, text.as_str()),
        (ErrorCode::Invalid, "command 8 is not known to this server")
    );
}

#[test]
fn a_read_only_export_is_not_changed() {
    let read_only = rules(1, true);
    for command in [CMD_WRITE, CMD_TRIM, CMD_WRITE_ZEROES] {
        let (code, text) = refused(&read_only, request(command, 0, 0, 4096));
        assert_eq!(code, ErrorCode::NotPermitted);
        assert!(text.ends_with("on a read-only export"), "{text}");
    }
    assert_eq!(
        passes(&read_only, request(CMD_READ, 0, 0, 4096)),
        CommandKind::Read
    );
    assert_eq!(
        passes(&read_only, request(CMD_FLUSH, 0, 0, 0)),
        CommandKind::Flush
    );
}

#[test]
fn ranges_end_within_the_export() {
    let rules = rules(0, true);
    let past_end = [
        (SIZE_BYTES, 512),
        (SIZE_BYTES - 512, 1024),
        (u64::MAX - 511, 512),
    ];
    for (offset, length) in past_end {
        for (command, expected) in [
            (CMD_READ, ErrorCode::Invalid),
            (CMD_TRIM, ErrorCode::Invalid),
            (CMD_BLOCK_STATUS, ErrorCode::Invalid),
            (CMD_WRITE, ErrorCode::NoSpace),
            (CMD_WRITE_ZEROES, ErrorCode::NoSpace),
        ] {
            let (code, text) = refused(&rules, request(command, 0, offset, length));
            assert_eq!(code, expected, "{text}");
            assert!(
                text.ends_with("past the end of the export at 8388608 bytes"),
                "{text}"
            );
        }
    }
    assert_eq!(
        passes(&rules, request(CMD_READ, 0, SIZE_BYTES - 512, 512)),
        CommandKind::Read
    );
}

#[test]
fn ranges_are_aligned_and_not_empty() {
    let rules = rules(0, true);
    for command in [
        CMD_READ,
        CMD_WRITE,
        CMD_TRIM,
        CMD_WRITE_ZEROES,
        CMD_BLOCK_STATUS,
    ] {
        for (offset, length) in [(1, 512), (512, 511), (256, 256)] {
            let (code, text) = refused(&rules, request(command, 0, offset, length));
            assert_eq!(code, ErrorCode::Invalid);
            assert!(
                text.ends_with("is not aligned to the minimum block of 512 bytes"),
                "{text}"
            );
        }
        let (code, text) = refused(&rules, request(command, 0, 512, 0));
        assert_eq!(code, ErrorCode::Invalid);
        assert!(
            text.ends_with("of 0 bytes at offset 512 has no length"),
            "{text}"
        );
    }
    let bytewise = self::rules(2, false);
    assert_eq!(
        passes(&bytewise, request(CMD_READ, 0, 1, 3)),
        CommandKind::Read
    );
}

#[test]
fn payloads_are_limited_and_other_ranges_are_not() {
    let rules = rules(0, true);
    let most = 1024 * KIB;
    assert_eq!(
        passes(&rules, request(CMD_READ, 0, 0, most)),
        CommandKind::Read
    );
    let (code, text) = refused(&rules, request(CMD_READ, 0, 0, most + 512));
    assert_eq!(code, ErrorCode::Overflow);
    assert_eq!(
        text,
        "read of 1049088 bytes at offset 0 is longer than the maximum payload of 1048576 bytes"
    );
    let (code, _) = refused(&rules, request(CMD_WRITE, 0, 0, most + 512));
    assert_eq!(code, ErrorCode::Invalid);
    let whole = SIZE_BYTES as u32;
    assert_eq!(
        passes(&rules, request(CMD_TRIM, 0, 0, whole)),
        CommandKind::Trim { fua: false }
    );
}

#[test]
fn shutdown_refuses_all_but_the_disconnect() {
    let rules = rules(0, true);
    for command in 0..10 {
        let request = request(command, 0, 0, 512);
        match rules.judge(&request, true) {
            Judgement::Disconnect => assert_eq!(command, CMD_DISC),
            Judgement::Refusal(refusal) => {
                assert_eq!(refusal.code(), ErrorCode::ShuttingDown);
                assert_eq!(refusal.to_string(), "the server is shutting down");
            }
            Judgement::Command(command) => panic!("{command:?} passed"),
        }
    }
}
