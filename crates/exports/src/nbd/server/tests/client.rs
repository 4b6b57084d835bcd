//! An NBD client made of raw bytes and blocking calls.

use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use crate::nbd::wire::*;

pub struct Client {
    pub stream: UnixStream,
    pub size_bytes: u64,
    structured: bool,
}

/// A reply, simple or structured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    /// The protocol's error number; 0 is success.
    pub error: u32,
    /// Data of a read, descriptors of a block status, or text of an error.
    pub data: Vec<u8>,
}

/// A request header.
pub fn request(command: u16, flags: u16, cookie: u64, offset: u64, length: u32) -> Vec<u8> {
    let mut bytes = REQUEST_MAGIC.to_be_bytes().to_vec();
    bytes.extend(flags.to_be_bytes());
    bytes.extend(command.to_be_bytes());
    bytes.extend(cookie.to_be_bytes());
    bytes.extend(offset.to_be_bytes());
    bytes.extend(length.to_be_bytes());
    bytes
}

/// An option of the handshake.
pub fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = OPTION_MAGIC.to_be_bytes().to_vec();
    bytes.extend(number.to_be_bytes());
    bytes.extend((data.len() as u32).to_be_bytes());
    bytes.extend(data);
    bytes
}

fn go(export: &str) -> Vec<u8> {
    let mut data = (export.len() as u32).to_be_bytes().to_vec();
    data.extend(export.as_bytes());
    data.extend([0, 0]);
    option(OPT_GO, &data)
}

pub fn receive<const N: usize>(stream: &mut UnixStream) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

fn receive_some(stream: &mut UnixStream, length: u32) -> Vec<u8> {
    let mut bytes = vec![0; length as usize];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

/// Reads the server's greeting and sends the usual client flags.
pub fn greet(stream: &mut UnixStream) {
    let greeting: [u8; 18] = receive(stream);
    assert_eq!(greeting[..8], SERVER_MAGIC.to_be_bytes());
    stream.write_all(&3u32.to_be_bytes()).unwrap();
}

/// The type and data of the next reply to an option.
pub fn option_reply(stream: &mut UnixStream) -> (u32, Vec<u8>) {
    let header: [u8; 20] = receive(stream);
    let field = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().unwrap());
    assert_eq!(header[..8], OPTION_REPLY_MAGIC.to_be_bytes());
    (field(12), receive_some(stream, field(16)))
}

impl Client {
    /// Connects with simple replies.
    pub fn simple(stream: UnixStream, export: &str) -> Client {
        Client::negotiate(stream, export, false)
    }

    /// Connects with structured replies and `base:allocation`.
    pub fn structured(stream: UnixStream, export: &str) -> Client {
        Client::negotiate(stream, export, true)
    }

    /// A client with simple replies on a connection whose handshake is over.
    pub fn transmitting(stream: UnixStream, size_bytes: u64) -> Client {
        Client {
            stream,
            size_bytes,
            structured: false,
        }
    }

    fn negotiate(mut stream: UnixStream, export: &str, structured: bool) -> Client {
        greet(&mut stream);
        if structured {
            stream
                .write_all(&option(OPT_STRUCTURED_REPLY, &[]))
                .unwrap();
            assert_eq!(option_reply(&mut stream).0, REP_ACK);
            let mut data = (export.len() as u32).to_be_bytes().to_vec();
            data.extend(export.as_bytes());
            data.extend(1u32.to_be_bytes());
            data.extend(15u32.to_be_bytes());
            data.extend(b"base:allocation");
            stream
                .write_all(&option(OPT_SET_META_CONTEXT, &data))
                .unwrap();
            assert_eq!(option_reply(&mut stream).0, REP_META_CONTEXT);
            assert_eq!(option_reply(&mut stream).0, REP_ACK);
        }
        stream.write_all(&go(export)).unwrap();
        let mut size_bytes = 0;
        loop {
            let (kind, data) = option_reply(&mut stream);
            if kind == REP_ACK {
                break;
            }
            assert_eq!(kind, REP_INFO, "{}", String::from_utf8_lossy(&data));
            if data[..2] == INFO_EXPORT.to_be_bytes() {
                size_bytes = u64::from_be_bytes(data[2..10].try_into().unwrap());
            }
        }
        Client {
            stream,
            size_bytes,
            structured,
        }
    }

    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    /// The next reply. `data_bytes` says how much data comes with the simple reply to this cookie.
    pub fn reply(&mut self, data_bytes: impl Fn(u64) -> u32) -> Reply {
        let magic = u32::from_be_bytes(receive(&mut self.stream));
        if magic == SIMPLE_REPLY_MAGIC {
            let error = u32::from_be_bytes(receive(&mut self.stream));
            let cookie = u64::from_be_bytes(receive(&mut self.stream));
            let length = if error == 0 && !self.structured {
                data_bytes(cookie)
            } else {
                0
            };
            let data = receive_some(&mut self.stream, length);
            return Reply {
                cookie,
                error,
                data,
            };
        }
        assert_eq!(magic, STRUCTURED_REPLY_MAGIC, "the stream is out of step");
        assert!(self.structured);
        let flags = u16::from_be_bytes(receive(&mut self.stream));
        assert_eq!(flags, REPLY_FLAG_DONE);
        let kind = u16::from_be_bytes(receive(&mut self.stream));
        let cookie = u64::from_be_bytes(receive(&mut self.stream));
        let length = u32::from_be_bytes(receive(&mut self.stream));
        let mut data = receive_some(&mut self.stream, length);
        let mut error = 0;
        if kind == REPLY_TYPE_OFFSET_DATA {
            data.drain(..8);
        } else if kind != REPLY_TYPE_BLOCK_STATUS {
            error = u32::from_be_bytes(data[..4].try_into().unwrap());
            data.drain(..6);
        }
        Reply {
            cookie,
            error,
            data,
        }
    }

    /// Sends one command and waits for its reply.
    pub fn ask(&mut self, command: u16, flags: u16, offset: u64, length: u32) -> Reply {
        self.send(&request(command, flags, offset ^ 77, offset, length));
        let reply = self.reply(|_| if command == CMD_READ { length } else { 0 });
        assert_eq!(reply.cookie, offset ^ 77);
        reply
    }

    pub fn read(&mut self, offset: u64, length: u32) -> Vec<u8> {
        let reply = self.ask(CMD_READ, 0, offset, length);
        assert_eq!(reply.error, 0, "{}", String::from_utf8_lossy(&reply.data));
        reply.data
    }

    pub fn write(&mut self, offset: u64, data: &[u8], flags: u16) {
        let header = request(CMD_WRITE, flags, offset, offset, data.len() as u32);
        self.send(&header);
        self.send(data);
        let reply = self.reply(|_| 0);
        assert_eq!((reply.cookie, reply.error), (offset, 0));
    }

    /// Expects the server to have closed the connection.
    pub fn expect_end(&mut self) {
        expect_end(&mut self.stream);
    }
}

/// Expects the server to close the connection without sending anything more.
pub fn expect_end(stream: &mut UnixStream) {
    let mut rest = Vec::new();
    match stream.read_to_end(&mut rest) {
        Ok(_) => assert_eq!(rest, [] as [u8; 0]),
        // The error of a local socket when the server has left bytes of the client unread.
        Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset),
    }
}

/// Bytes that depend on the seed and on their position.
pub fn pattern(seed: u64, length: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let words = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let mut bytes: Vec<u8> = words.take(length.div_ceil(8)).flatten().collect();
    bytes.truncate(length);
    bytes
}
