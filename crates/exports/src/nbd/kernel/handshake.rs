//! The client's side of the NBD handshake. The kernel speaks only what comes after it, so it gets connections on which the
//! volume is chosen already.
//!
//! The kernel reads simple replies and no others, so no extension is asked for.

use crate::nbd::script::{client_flags, info_data, option};
use crate::nbd::wire::*;
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

/// How much data a reply may have: a name or a sentence of the longest kind, and its head.
const REPLY_BYTES_MAX: u32 = MAX_STRING_BYTES as u32 + 64;

/// What the server says of the volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Negotiated {
    pub size_bytes: u64,
    /// Transmission flags.
    pub flags: u16,
    /// The longest read or write.
    pub payload_bytes_max: u32,
}

/// Why a connection does not reach the volume.
#[derive(Debug, thiserror::Error)]
pub(super) enum HandshakeError {
    #[error(
        "the server has no room for another NBD connection; disconnect a client, or give more --memory"
    )]
    Closed,
    #[error("the server did not offer the volume within {} s", .0.as_secs())]
    TimedOut(Duration),
    #[error("the server does not offer volume {volume}: {words}")]
    NotOffered { volume: String, words: String },
    #[error("the server's {0} is not as the NBD protocol wants it")]
    Protocol(&'static str),
    #[error("the connection to the server failed: {0}")]
    Io(io::Error),
}

/// Chooses a volume on a connection. Afterwards the connection is in the transmission phase, and its operations wait
/// without limit again, as the kernel wants them.
///
/// # Errors
/// [`HandshakeError`]; the connection cannot be used then.
pub(super) fn choose(
    stream: &UnixStream,
    volume: &str,
    within: Duration,
) -> Result<Negotiated, HandshakeError> {
    let mut client = Client {
        stream,
        within,
        until: Instant::now() + within,
    };
    let negotiated = client.choose(volume)?;
    let unlimited = stream
        .set_read_timeout(None)
        .and_then(|()| stream.set_write_timeout(None));
    unlimited.map_err(HandshakeError::Io)?;
    Ok(negotiated)
}

struct Client<'a> {
    stream: &'a UnixStream,
    within: Duration,
    until: Instant,
}

impl Client<'_> {
    fn choose(&mut self, volume: &str) -> Result<Negotiated, HandshakeError> {
        let greeting: [u8; 18] = self.receive()?;
        let flags = u16::from_be_bytes(field(&greeting, 16));
        if greeting[..8] != SERVER_MAGIC.to_be_bytes()
            || greeting[8..16] != OPTION_MAGIC.to_be_bytes()
            || flags & FLAG_FIXED_NEWSTYLE == 0
        {
            return Err(HandshakeError::Protocol("greeting"));
        }
        self.send(&client_flags(FLAG_C_FIXED_NEWSTYLE | FLAG_C_NO_ZEROES))?;
        self.send(&option(OPT_GO, &info_data(volume, &[INFO_BLOCK_SIZE])))?;
        let mut export = None;
        // What the protocol allows where the server names no limit.
        let mut payload_bytes_max = MAX_PAYLOAD_BYTES;
        loop {
            let (kind, data) = self.reply()?;
            match kind {
                REP_ACK => break,
                REP_INFO => match info(&data)? {
                    Info::Export { size_bytes, flags } => export = Some((size_bytes, flags)),
                    Info::PayloadMax(bytes) => payload_bytes_max = bytes,
                    Info::Other => {}
                },
                _ => {
                    return Err(HandshakeError::NotOffered {
                        volume: volume.to_owned(),
                        words: String::from_utf8_lossy(&data).into_owned(),
                    });
                }
            }
        }
        let (size_bytes, flags) = export.ok_or(HandshakeError::Protocol("offer"))?;
        Ok(Negotiated {
            size_bytes,
            flags,
            payload_bytes_max,
        })
    }

    /// The type and the data of the next reply to our only option.
    fn reply(&mut self) -> Result<(u32, Vec<u8>), HandshakeError> {
        let header: [u8; 20] = self.receive()?;
        let length = u32::from_be_bytes(field(&header, 16));
        if header[..8] != OPTION_REPLY_MAGIC.to_be_bytes()
            || header[8..12] != OPT_GO.to_be_bytes()
            || length > REPLY_BYTES_MAX
        {
            return Err(HandshakeError::Protocol("reply"));
        }
        let mut data = vec![0; length as usize];
        self.receive_into(&mut data)?;
        Ok((u32::from_be_bytes(field(&header, 12)), data))
    }

    fn receive<const BYTES: usize>(&mut self) -> Result<[u8; BYTES], HandshakeError> {
        let mut bytes = [0; BYTES];
        self.receive_into(&mut bytes)?;
        Ok(bytes)
    }

    fn receive_into(&mut self, mut rest: &mut [u8]) -> Result<(), HandshakeError> {
        while !rest.is_empty() {
            let left = self.left()?;
            let limited = self.stream.set_read_timeout(Some(left));
            let received = limited.and_then(|()| self.stream.read(rest));
            let length = self.done(received)?;
            rest = &mut rest[length..];
        }
        Ok(())
    }

    fn send(&mut self, mut rest: &[u8]) -> Result<(), HandshakeError> {
        while !rest.is_empty() {
            let left = self.left()?;
            let limited = self.stream.set_write_timeout(Some(left));
            let sent = limited.and_then(|()| self.stream.write(rest));
            let length = self.done(sent)?;
            rest = &rest[length..];
        }
        Ok(())
    }

    /// The time that is left, which is never zero.
    fn left(&self) -> Result<Duration, HandshakeError> {
        let left = self.until.saturating_duration_since(Instant::now());
        (!left.is_zero())
            .then_some(left)
            .ok_or(HandshakeError::TimedOut(self.within))
    }

    /// How many bytes an operation has moved.
    fn done(&self, result: io::Result<usize>) -> Result<usize, HandshakeError> {
        match result {
            Ok(0) => Err(HandshakeError::Closed),
            Ok(length) => Ok(length),
            Err(error) => match error.kind() {
                ErrorKind::Interrupted => Ok(0),
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    Err(HandshakeError::TimedOut(self.within))
                }
                ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => Err(HandshakeError::Closed),
                _ => Err(HandshakeError::Io(error)),
            },
        }
    }
}

enum Info {
    Export { size_bytes: u64, flags: u16 },
    PayloadMax(u32),
    Other,
}

fn info(data: &[u8]) -> Result<Info, HandshakeError> {
    let short = HandshakeError::Protocol("description of the volume");
    let Some(kind) = data.first_chunk() else {
        return Err(short);
    };
    match (u16::from_be_bytes(*kind), data.len()) {
        (INFO_EXPORT, 12) => Ok(Info::Export {
            size_bytes: u64::from_be_bytes(field(data, 2)),
            flags: u16::from_be_bytes(field(data, 10)),
        }),
        (INFO_BLOCK_SIZE, 14) => Ok(Info::PayloadMax(u32::from_be_bytes(field(data, 10)))),
        (INFO_EXPORT | INFO_BLOCK_SIZE, _) => Err(short),
        _ => Ok(Info::Other),
    }
}

/// Bytes at a place; callers have checked the length.
fn field<const BYTES: usize>(bytes: &[u8], at: usize) -> [u8; BYTES] {
    std::array::from_fn(|index| bytes[at + index])
}

/// Against a server that says other things than ours; `connections` tests against ours.
#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::script::GREETING;

    const WITHIN: Duration = Duration::from_secs(10);

    fn reply(kind: u32, data: &[u8]) -> Vec<u8> {
        let numbers = [OPT_GO, kind, data.len() as u32].map(u32::to_be_bytes);
        [
            &OPTION_REPLY_MAGIC.to_be_bytes()[..],
            &numbers.concat(),
            data,
        ]
        .concat()
    }

    /// The outcome when the server has said all this and, unless it `waits`, closes.
    fn outcome(said: &[&[u8]], waits: bool) -> Result<Negotiated, HandshakeError> {
        let (client, mut server) = UnixStream::pair().unwrap();
        server.write_all(&said.concat()).unwrap();
        if !waits {
            server.shutdown(std::net::Shutdown::Write).unwrap();
        }
        let within = if waits {
            Duration::from_millis(20)
        } else {
            WITHIN
        };
        choose(&client, "vol0", within)
    }

    fn refused(said: &[&[u8]]) -> String {
        outcome(said, false).unwrap_err().to_string()
    }

    fn export() -> Vec<u8> {
        reply(
            REP_INFO,
            b"\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x01\x6d",
        )
    }

    #[test]
    fn facts_in_any_order_and_unknown_ones_are_read() {
        let sizes = reply(
            REP_INFO,
            b"\x00\x03\x00\x00\x02\x00\x00\x00\x10\x00\x00\x20\x00\x00",
        );
        let unknown = reply(REP_INFO, b"\x00\x63anything");
        let end = reply(REP_ACK, b"");
        let full = outcome(&[GREETING, &unknown, &sizes, &export(), &end], false).unwrap();
        let mut expected = Negotiated {
            size_bytes: 1 << 16,
            flags: 0x16d,
            payload_bytes_max: 2 << 20,
        };
        assert_eq!(full, expected);
        expected.payload_bytes_max = 32 << 20;
        assert_eq!(
            outcome(&[GREETING, &export(), &end], false).unwrap(),
            expected
        );
    }

    #[test]
    fn the_volume_is_asked_for_without_extensions() {
        let (client, mut server) = UnixStream::pair().unwrap();
        let said = [GREETING, &export(), &reply(REP_ACK, b"")].concat();
        server.write_all(&said).unwrap();
        choose(&client, "vol0", WITHIN).unwrap();
        drop(client);
        let mut sent = Vec::new();
        server.read_to_end(&mut sent).unwrap();
        let asked = b"\0\0\0\x03IHAVEOPT\0\0\0\x07\0\0\0\x0c\0\0\0\x04vol0\0\x01\0\x03";
        assert_eq!(sent, asked);
    }

    #[test]
    fn a_server_that_says_something_else_is_refused() {
        let end = reply(REP_ACK, b"");
        let long = reply(REP_INFO, &vec![0; REPLY_BYTES_MAX as usize + 1]);
        let short = reply(REP_INFO, b"\x00\x00\x01");
        let unknown = reply(REP_ERR_UNKNOWN, b"no such volume");
        assert!(refused(&[b"NBDMAGICIHAVEOPT\x00\x00"]).contains("greeting"));
        assert!(refused(&[b"HTTP/1.1 400 Bad Request"]).contains("greeting"));
        assert!(refused(&[GREETING, &end]).contains("offer"));
        assert!(refused(&[GREETING, &long]).contains("reply"));
        assert!(refused(&[GREETING, &short]).contains("description"));
        assert!(refused(&[GREETING, &[7; 20]]).contains("reply"));
        assert_eq!(
            refused(&[GREETING, &unknown]),
            "the server does not offer volume vol0: no such volume"
        );
        assert!(refused(&[]).contains("has no room for another NBD connection"));
        assert!(refused(&[GREETING, &export()]).contains("has no room"));
    }

    #[test]
    fn a_server_that_says_nothing_is_not_waited_for() {
        for said in [&[][..], &[GREETING], &[GREETING, &export()]] {
            let error = outcome(said, true).unwrap_err();
            assert!(matches!(error, HandshakeError::TimedOut(_)), "{error}");
        }
    }
}
