//! The beginning of the NBD handshake, before TLS: the server greets, and the client must ask for TLS.
//!
//! Every other option is answered with "TLS is required" (`REP_ERR_TLS_REQD`), as the protocol wants it of a server that
//! requires TLS. No byte is read beyond the option that asks for TLS: what somebody on the way put behind it in plain text
//! would otherwise count as what the client said under TLS.

use crate::nbd::handshake::GREETING_FLAGS;
use crate::nbd::option::{push_error, push_reply};
use crate::nbd::wire::*;
use std::io::{self, ErrorKind, Read, Write};

/// Options before TLS; a client needs one.
const OPTIONS_MAX: usize = 16;
/// Data of an option that is read and dropped.
const DATA_BYTES_MAX: u32 = 16 * 1024;

/// Why a connection is not served.
#[derive(Debug, thiserror::Error)]
pub(super) enum Refusal {
    /// The client left before it had asked for anything. This is not worth a message.
    #[error("it left")]
    Left,
    #[error(
        "it did not use TLS, which this address requires; connect with nbds:// and a certificate"
    )]
    Plain,
    #[error("it presented no certificate")]
    NoCertificate,
    #[error("its certificate is not valid here: {0}")]
    Certificate(rustls::CertificateError),
    #[error("TLS failed: {0}")]
    Tls(rustls::Error),
    #[error("{0}, which breaks the NBD protocol")]
    Protocol(&'static str),
    #[error("it did not prove its identity in time")]
    Late,
    #[error("the connection failed: {0}")]
    Io(io::Error),
}

impl From<io::Error> for Refusal {
    /// Also of errors in which rustls has put its own.
    fn from(error: io::Error) -> Refusal {
        let inner = error.get_ref().and_then(|inner| inner.downcast_ref());
        match (inner, error.kind()) {
            (Some(rustls::Error::NoCertificatesPresented), _) => Refusal::NoCertificate,
            (Some(rustls::Error::InvalidCertificate(why)), _) => Refusal::Certificate(why.clone()),
            (Some(other), _) => Refusal::Tls(other.clone()),
            (None, ErrorKind::WouldBlock | ErrorKind::TimedOut) => Refusal::Late,
            (
                None,
                ErrorKind::UnexpectedEof | ErrorKind::ConnectionReset | ErrorKind::BrokenPipe,
            ) => Refusal::Left,
            (None, _) => Refusal::Io(error),
        }
    }
}

/// Speaks to a client until it may begin TLS. Returns its flags, which the port has to hear later.
///
/// # Errors
/// The client does not want TLS, breaks the protocol, or is gone.
pub(super) fn open(stream: &mut (impl Read + Write)) -> Result<[u8; 4], Refusal> {
    stream.write_all(&SERVER_MAGIC.to_be_bytes())?;
    stream.write_all(&OPTION_MAGIC.to_be_bytes())?;
    stream.write_all(&GREETING_FLAGS.to_be_bytes())?;
    let flags: [u8; 4] = receive(stream)?;
    if u32::from_be_bytes(flags) & FLAG_C_FIXED_NEWSTYLE == 0 {
        // It knows no options but the export's name.
        return Err(Refusal::Plain);
    }
    let mut asked_for = false;
    for _ in 0..OPTIONS_MAX {
        match option(stream) {
            Ok(Asked::Tls) => return Ok(flags),
            Ok(Asked::Other) => asked_for = true,
            Err(Refusal::Left) if asked_for => break,
            Err(refusal) => return Err(refusal),
        }
    }
    Err(Refusal::Plain)
}

enum Asked {
    Tls,
    Other,
}

/// Answers one option.
fn option(stream: &mut (impl Read + Write)) -> Result<Asked, Refusal> {
    let header: [u8; 16] = receive(stream)?;
    let number = |at: usize| u32::from_be_bytes(std::array::from_fn(|byte| header[at + byte]));
    let (option, length) = (number(8), number(12));
    if header[..8] != OPTION_MAGIC.to_be_bytes() {
        return Err(Refusal::Protocol("it sent no option where one was due"));
    }
    if length > DATA_BYTES_MAX {
        return Err(Refusal::Protocol("it sent an option of an absurd length"));
    }
    io::copy(
        &mut Read::by_ref(stream).take(length.into()),
        &mut io::sink(),
    )?;
    let mut reply = Vec::new();
    let answer = match option {
        OPT_STARTTLS if length == 0 => {
            push_reply(&mut reply, option, REP_ACK, &[]);
            Ok(Asked::Tls)
        }
        OPT_STARTTLS => Err(Refusal::Protocol("its wish for TLS has data")),
        OPT_ABORT => {
            push_reply(&mut reply, option, REP_ACK, &[]);
            Err(Refusal::Left)
        }
        // To this option there is no answer that says no.
        OPT_EXPORT_NAME => Err(Refusal::Plain),
        _ => {
            let sentence = "this server requires TLS: connect with nbds:// and a certificate";
            push_error(&mut reply, option, REP_ERR_TLS_REQD, sentence);
            Ok(Asked::Other)
        }
    };
    stream.write_all(&reply)?;
    answer
}

fn receive<const BYTES: usize>(stream: &mut impl Read) -> Result<[u8; BYTES], Refusal> {
    let mut bytes = [0; BYTES];
    stream.read_exact(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::script::{GREETING, ack, client_flags, info_data, option, option_replies};

    /// What a client sends, and what it got.
    struct Wire {
        sent: io::Cursor<Vec<u8>>,
        got: Vec<u8>,
    }

    impl Read for Wire {
        fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
            self.sent.read(into)
        }
    }

    impl Write for Wire {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.got.extend(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    fn opened(parts: &[&[u8]]) -> (Result<[u8; 4], String>, Wire) {
        let mut wire = Wire {
            sent: io::Cursor::new(parts.concat()),
            got: Vec::new(),
        };
        let result = open(&mut wire).map_err(|refusal| refusal.to_string());
        (result, wire)
    }

    #[test]
    fn a_client_that_asks_for_tls_is_led_there_and_nothing_more_is_read() {
        let start = option(OPT_STARTTLS, &[]);
        let (result, wire) = opened(&[&client_flags(3), &start, b"injected"]);
        assert_eq!(result, Ok([0, 0, 0, 3]));
        assert_eq!(option_replies(&wire.got), [ack(OPT_STARTTLS)]);
        assert_eq!(wire.sent.position(), 4 + 16);
    }

    #[test]
    fn whatever_else_a_client_wants_needs_tls_first() {
        let list = option(OPT_LIST, &[]);
        let go = option(OPT_GO, &info_data("vol0", &[]));
        let start = option(OPT_STARTTLS, &[]);
        let (result, wire) = opened(&[&client_flags(1), &list, &go, &start]);
        assert_eq!(result, Ok([0, 0, 0, 1]));
        let kinds: Vec<u32> = option_replies(&wire.got)
            .iter()
            .map(|reply| reply.1)
            .collect();
        assert_eq!(kinds, [REP_ERR_TLS_REQD, REP_ERR_TLS_REQD, REP_ACK]);
        // A client that gives up is told of, one that never asked for anything is not.
        for end in [&[][..], &option(OPT_ABORT, &[])] {
            let plain = opened(&[&client_flags(3), &go, end]).0.unwrap_err();
            assert!(plain.starts_with("it did not use TLS"), "{plain}");
            let left = opened(&[&client_flags(3), end]).0.unwrap_err();
            assert_eq!(left, "it left");
        }
        let endless = list.repeat(OPTIONS_MAX + 1);
        for wire in [endless, option(OPT_EXPORT_NAME, b"vol0")] {
            let (result, wire) = opened(&[&client_flags(3), &wire]);
            assert!(result.unwrap_err().starts_with("it did not use TLS"));
            assert!(wire.got.starts_with(GREETING));
        }
    }

    #[test]
    fn what_is_no_nbd_is_refused() {
        for (parts, wanted) in [
            (
                &[&client_flags(3)[..], b"GET / HTTP/1.1\r\n"][..],
                "no option where one was due",
            ),
            (
                &[&client_flags(3), &option(OPT_STARTTLS, b"x")],
                "its wish for TLS has data",
            ),
            (&[&client_flags(0)], "it did not use TLS"),
            (&[b"GE"], "it left"),
        ] {
            let refusal = opened(parts).0.unwrap_err();
            assert!(refusal.contains(wanted), "{refusal}");
        }
        let mut long = option(OPT_LIST, &[]);
        long[12] = 1;
        let refusal = opened(&[&client_flags(3), &long]).0.unwrap_err();
        assert!(refusal.contains("absurd length"), "{refusal}");
    }
}
