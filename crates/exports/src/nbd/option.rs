//! The data of options, and the replies to them.
//!
//! The parser handles any bytes: it returns either a value or one sentence, which goes to the client as the text of an
//! `ERR_INVALID` reply. Replies are appended to the handshake's output.

use super::wire::{
    INFO_BLOCK_SIZE, INFO_DESCRIPTION, INFO_NAME, MAX_STRING_BYTES, OPTION_REPLY_MAGIC,
};

/// Name of the one metadata context that the protocol itself defines.
pub(super) const ALLOCATION_CONTEXT: &str = "base:allocation";
/// Query for all contexts of the protocol's own namespace; only valid in listings.
const BASE_WILDCARD: &str = "base:";

/// Data of `OPT_INFO` and `OPT_GO`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct InfoQuery<'a> {
    pub(super) name: &'a str,
    pub(super) wants_name: bool,
    pub(super) wants_description: bool,
    pub(super) wants_block_sizes: bool,
}

impl<'a> InfoQuery<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, &'static str> {
        let mut fields = Fields(data);
        let name = fields.counted_string()?;
        let count = fields.u16()?;
        if fields.0.len() != usize::from(count) * 2 {
            return Err("the number of information requests does not fit the option's length");
        }
        let mut query = Self {
            name,
            wants_name: false,
            wants_description: false,
            wants_block_sizes: false,
        };
        for _ in 0..count {
            match fields.u16()? {
                INFO_NAME => query.wants_name = true,
                INFO_DESCRIPTION => query.wants_description = true,
                INFO_BLOCK_SIZE => query.wants_block_sizes = true,
                // `INFO_EXPORT` is always sent, and unknown types are to be ignored.
                _ => {}
            }
        }
        Ok(query)
    }
}

/// Data of `OPT_LIST_META_CONTEXT` and `OPT_SET_META_CONTEXT`, reduced to what its queries say about the only context
/// that is supported.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MetaContextQuery<'a> {
    pub(super) name: &'a str,
    /// Whether a query names `base:allocation`.
    pub(super) selects_allocation: bool,
    /// Whether a query names `base:allocation` or all of `base:`, or there are no queries.
    pub(super) lists_allocation: bool,
}

impl<'a> MetaContextQuery<'a> {
    pub(super) fn parse(data: &'a [u8]) -> Result<Self, &'static str> {
        let mut fields = Fields(data);
        let name = fields.counted_string()?;
        let count = fields.u32()?;
        let mut query = Self {
            name,
            selects_allocation: false,
            lists_allocation: count == 0,
        };
        // Each round consumes at least four bytes or fails, so a huge count ends with the data.
        for _ in 0..count {
            match fields.counted_string()? {
                ALLOCATION_CONTEXT => {
                    query.selects_allocation = true;
                    query.lists_allocation = true;
                }
                BASE_WILDCARD => query.lists_allocation = true,
                other if other.contains(':') => {}
                _ => return Err("a metadata query lacks the colon that ends its namespace"),
            }
        }
        if fields.0.is_empty() {
            Ok(query)
        } else {
            Err("there is data after the last metadata query")
        }
    }
}

/// Parses a string as the protocol allows it. The whole data of `OPT_EXPORT_NAME` is such a string.
pub(super) fn parse_string(bytes: &[u8]) -> Result<&str, &'static str> {
    if bytes.len() > MAX_STRING_BYTES {
        return Err("a string is longer than the 4096 bytes that the protocol allows");
    }
    if bytes.contains(&0) {
        return Err("a string holds a NUL character");
    }
    std::str::from_utf8(bytes).map_err(|_| "a string is not valid UTF-8")
}

/// The rest of an option's data.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn array<const N: usize>(&mut self) -> Result<[u8; N], &'static str> {
        let (head, rest) = self
            .0
            .split_first_chunk::<N>()
            .ok_or("the option's data ends within a number")?;
        self.0 = rest;
        Ok(*head)
    }

    fn u16(&mut self) -> Result<u16, &'static str> {
        self.array().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Result<u32, &'static str> {
        self.array().map(u32::from_be_bytes)
    }

    fn counted_string(&mut self) -> Result<&'a str, &'static str> {
        let length_bytes = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        let (head, rest) = self
            .0
            .split_at_checked(length_bytes)
            .ok_or("a string is announced longer than the rest of the option's data")?;
        self.0 = rest;
        parse_string(head)
    }
}

/// Appends one option reply whose data is the concatenation of `parts`.
pub(super) fn push_reply(output: &mut Vec<u8>, option: u32, reply_type: u32, parts: &[&[u8]]) {
    // Parts are names, descriptions and fixed fields: far below 4 GiB.
    let length_bytes: usize = parts.iter().map(|part| part.len()).sum();
    output.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    output.extend_from_slice(&option.to_be_bytes());
    output.extend_from_slice(&reply_type.to_be_bytes());
    output.extend_from_slice(&(length_bytes as u32).to_be_bytes());
    for part in parts {
        output.extend_from_slice(part);
    }
}

/// Appends an error reply with a sentence for the person at the client.
pub(super) fn push_error(output: &mut Vec<u8>, option: u32, reply_type: u32, message: &str) {
    push_reply(
        output,
        option,
        reply_type,
        &[truncated(message, MAX_STRING_BYTES).as_bytes()],
    );
}

/// The longest prefix of `text` with at most `limit_bytes` bytes that ends between characters.
pub(super) fn truncated(text: &str, limit_bytes: usize) -> &str {
    &text[..text.floor_char_boundary(limit_bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn info(name: &[u8], announced: u32, requests: &[u16], count: u16) -> Vec<u8> {
        let mut data = announced.to_be_bytes().to_vec();
        data.extend_from_slice(name);
        data.extend_from_slice(&count.to_be_bytes());
        for request in requests {
            data.extend_from_slice(&request.to_be_bytes());
        }
        data
    }

    #[test]
    fn information_requests_are_read_and_unknown_ones_ignored() {
        let data = info(b"vol", 3, &[0, 3, 77, 3, 2], 5);
        let expected = InfoQuery {
            name: "vol",
            wants_name: false,
            wants_description: true,
            wants_block_sizes: true,
        };
        assert_eq!(InfoQuery::parse(&data), Ok(expected));
    }

    #[test]
    fn every_cut_of_an_information_request_is_refused() {
        let data = info(b"vol", 3, &[1, 2], 2);
        assert!(InfoQuery::parse(&data).is_ok());
        for length in 0..data.len() {
            assert!(
                InfoQuery::parse(&data[..length]).is_err(),
                "cut at {length}"
            );
        }
        assert!(InfoQuery::parse(&info(b"vol", 3, &[1, 2], 1)).is_err());
        assert!(InfoQuery::parse(&info(b"vol", u32::MAX, &[], 0)).is_err());
        assert!(InfoQuery::parse(&info(b"v\0l", 3, &[], 0)).is_err());
        assert!(InfoQuery::parse(&info(b"v\xffl", 3, &[], 0)).is_err());
    }

    fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
        let mut data = (name.len() as u32).to_be_bytes().to_vec();
        data.extend_from_slice(name.as_bytes());
        data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
        for query in queries {
            data.extend_from_slice(&(query.len() as u32).to_be_bytes());
            data.extend_from_slice(query.as_bytes());
        }
        data
    }

    #[test]
    fn metadata_queries_select_and_list() {
        let selected = |queries: &[&str]| {
            let data = meta("v", queries);
            let query = MetaContextQuery::parse(&data).unwrap();
            (query.selects_allocation, query.lists_allocation)
        };
        assert_eq!(selected(&[]), (false, true));
        assert_eq!(selected(&["base:"]), (false, true));
        assert_eq!(selected(&["base:allocation"]), (true, true));
        assert_eq!(
            selected(&["base:other", "qemu:dirty-bitmap:x"]),
            (false, false)
        );
        assert_eq!(selected(&["x-y:", "base:allocation"]), (true, true));
    }

    #[test]
    fn broken_metadata_queries_are_refused() {
        let data = meta("v", &["base:allocation", "base:"]);
        for length in 0..data.len() {
            assert!(
                MetaContextQuery::parse(&data[..length]).is_err(),
                "cut at {length}"
            );
        }
        let mut longer = data.clone();
        longer.push(0);
        assert!(MetaContextQuery::parse(&longer).is_err());
        assert!(
            MetaContextQuery::parse(&meta("v", &["base"]))
                .unwrap_err()
                .contains("colon")
        );
        let mut countless = data;
        countless[5..9].copy_from_slice(&u32::MAX.to_be_bytes());
        assert!(MetaContextQuery::parse(&countless).is_err());
    }

    #[test]
    fn texts_are_cut_between_characters() {
        assert_eq!(truncated("aé", 2), "a");
        assert_eq!(truncated("aé", 3), "aé");
        assert_eq!(truncated("aé", 99), "aé");
        assert_eq!(parse_string(&[b'x'; 4096]).map(str::len), Ok(4096));
        assert!(parse_string(&[b'x'; 4097]).is_err());
    }
}
