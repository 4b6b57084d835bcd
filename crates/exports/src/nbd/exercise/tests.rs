use proptest::prelude::*;

use super::*;
use crate::nbd::script::{info_data, meta_context_data};

/// Byte streams of a client that together reach every part of the protocol.
fn seeds() -> Vec<Vec<u8>> {
    let request = |command, offset_bytes, length_bytes| {
        let header = RequestHeader {
            flags: 0,
            command,
            cookie: 5,
            offset_bytes,
            length_bytes,
        };
        header.to_bytes().to_vec()
    };
    let requests = [
        request(CMD_READ, 0, 4096),
        [request(CMD_WRITE, 4096, 512), vec![1; 512]].concat(),
        [request(CMD_WRITE, 1, 511), vec![2; 511]].concat(),
        request(CMD_FLUSH, 0, 0),
        request(CMD_TRIM, 0, 1 << 20),
        request(CMD_WRITE_ZEROES, 0, 1 << 20),
        request(CMD_BLOCK_STATUS, 0, 1 << 20),
        request(CMD_CACHE, 0, 4096),
        request(99, 0, 0),
        request(CMD_DISC, 0, 0),
    ]
    .concat();
    let mut seeds: Vec<_> = (0..8)
        .map(|choice| [start(choice), requests.clone()].concat())
        .collect();
    let options = [
        option(OPT_LIST, &[]),
        option(OPT_STARTTLS, &[]),
        option(OPT_EXTENDED_HEADERS, &[]),
        option(OPT_INFO, &info_data("vol2", &[0, 1, 2, 3, 4])),
        option(OPT_LIST_META_CONTEXT, &meta_context_data("vol2", &[])),
        option(OPT_ABORT, b"bye"),
    ];
    seeds.push([client_flags(3), options.concat()].concat());
    seeds.push([client_flags(0), option(OPT_EXPORT_NAME, b""), requests].concat());
    seeds
}

#[test]
fn seeds_hold_in_all_deliveries() {
    for seed in seeds() {
        for piece in [0, 1, 5, 40] {
            for delivery in 0..16 {
                fuzz_one(&[&[0, piece, delivery], &seed[..]].concat());
            }
        }
    }
}

#[test]
fn short_inputs_are_no_problem() {
    for length in 0..4 {
        fuzz_one(&vec![1; length]);
    }
}

#[test]
fn a_dense_script_reaches_every_command() {
    let mut script = vec![8, 0];
    let queries = meta_context_data("vol0", &["base:allocation"]);
    script.extend([&[10, queries.len() as u8][..], &queries].concat());
    let go = info_data("vol0", &[]);
    script.extend([&[7, go.len() as u8][..], &go].concat());
    for command in [0, 1, 3, 4, 5, 6, 7, 9] {
        let length = if command == 3 { 0 } else { 4 };
        let offset = if command == 3 { 0 } else { 8 };
        script.extend([0x80 | command, 0, 0, offset, length]);
    }
    let transcript = run(&sample_exports(), &scripted(&script), Delivery::AT_ONCE);
    let mut kinds = Vec::new();
    for event in &transcript.events {
        match event {
            Event::Command(command) => kinds.push(format!("{:?}", command.kind)),
            Event::Refusal(refusal) => kinds.push(refusal.to_string()),
            Event::Payload(payload) => kinds.push(format!("{} bytes", payload.len())),
        }
    }
    let expected = [
        "Read",
        "Write { fua: false }",
        "1024 bytes",
        "Flush",
        "Trim { fua: false }",
        "cache is not offered by this export",
        "WriteZeroes { fua: false, no_hole: false, fast_only: false }",
        "BlockStatus { one_extent: false }",
        "command 9 is not known to this server",
    ];
    assert_eq!(kinds, expected);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_hold(data in prop::collection::vec(any::<u8>(), 0..400)) {
        fuzz_one(&data);
    }

    #[test]
    fn damaged_sessions_hold(
        seed in prop::sample::select(seeds()),
        settings in any::<[u8; 2]>(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        length in any::<prop::sample::Index>(),
    ) {
        let mut data = [&[0, settings[0] % 64, settings[1]], &seed[..]].concat();
        for (place, value) in damage {
            let place = 3 + place.index(data.len() - 3);
            data[place] = value;
        }
        data.truncate(3 + length.index(data.len() - 2));
        fuzz_one(&data);
    }

    #[test]
    fn any_script_holds(
        settings in any::<[u8; 2]>(),
        choice in 0u8..8,
        operations in prop::collection::vec(any::<[u8; 5]>(), 1..12),
    ) {
        let name = ["vol0", "vol1", "vol2", ""][usize::from(choice & 3)];
        let go = info_data(name, &[]);
        let mut script = if choice & 4 != 0 { vec![8, 0] } else { Vec::new() };
        script.extend([&[7, go.len() as u8][..], &go].concat());
        for operation in operations {
            script.extend([operation[0] | 0x80]);
            script.extend(&operation[1..]);
        }
        fuzz_one(&[&[2, settings[0] % 64 + 8, settings[1]], &script[..]].concat());
    }
}
