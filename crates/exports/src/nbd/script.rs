//! Builds bytes as clients send them, to exercise sessions, and for the one client that we have (`kernel::handshake`).
//!
//! This is not a client: nothing here reads what a server sends, apart from the tests' reader of replies.

use super::wire::*;

/// A handshake that ends in transmission; the bits of `choice` select the export and the extensions.
pub(super) fn start(choice: u8) -> Vec<u8> {
    let name = ["vol0", "vol1", "vol2", ""][usize::from(choice & 3)];
    let mut input = client_flags(3);
    if choice & 4 != 0 {
        input.extend(option(OPT_STRUCTURED_REPLY, &[]));
        let queries = meta_context_data(name, &["base:allocation"]);
        input.extend(option(OPT_SET_META_CONTEXT, &queries));
    }
    input.extend(option(OPT_GO, &info_data(name, &[INFO_BLOCK_SIZE])));
    input
}

/// The client's answer to the greeting.
pub(super) fn client_flags(flags: u32) -> Vec<u8> {
    flags.to_be_bytes().to_vec()
}

/// An option with its data.
pub(super) fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let length_bytes = data.len() as u32;
    let header = [&OPTION_MAGIC.to_be_bytes()[..], &number.to_be_bytes()];
    [&header.concat()[..], &length_bytes.to_be_bytes(), data].concat()
}

/// Data of `OPT_INFO` and `OPT_GO`.
pub(super) fn info_data(name: &str, requests: &[u16]) -> Vec<u8> {
    let mut data = counted(name);
    data.extend((requests.len() as u16).to_be_bytes());
    data.extend(requests.iter().flat_map(|request| request.to_be_bytes()));
    data
}

/// Data of `OPT_LIST_META_CONTEXT` and `OPT_SET_META_CONTEXT`.
pub(super) fn meta_context_data(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = counted(name);
    data.extend((queries.len() as u32).to_be_bytes());
    data.extend(queries.iter().flat_map(|query| counted(query)));
    data
}

fn counted(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

/// An option reply as the tests compare it: option, type, data.
#[cfg(test)]
pub(super) type OptionReply = (u32, u32, Vec<u8>);

/// The first bytes that a server sends.
#[cfg(test)]
pub(super) const GREETING: &[u8] = b"NBDMAGICIHAVEOPT\x00\x03";

/// The replies that follow the greeting in a handshake's output.
#[cfg(test)]
pub(super) fn option_replies(output: &[u8]) -> Vec<OptionReply> {
    let mut rest = output.strip_prefix(GREETING).expect("a greeting");
    let mut replies = Vec::new();
    while !rest.is_empty() {
        let number = |at: usize| u32::from_be_bytes(rest[at..at + 4].try_into().unwrap());
        assert_eq!(rest[..8], 0x0003_e889_0455_65a9_u64.to_be_bytes());
        let end = 20 + number(16) as usize;
        replies.push((number(8), number(12), rest[20..end].to_vec()));
        rest = &rest[end..];
    }
    replies
}

/// The reply that accepts an option.
#[cfg(test)]
pub(super) fn ack(option: u32) -> OptionReply {
    (option, REP_ACK, Vec::new())
}
