//! An NBD client that writes the protocol's bytes itself: fixed newstyle handshake, simple replies, many requests
//! in flight. Its constants come from the protocol's document (doc/proto.md of the NetworkBlockDevice project).

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::SendFlags;
use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISCONNECT: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const WRITE_ZEROES: u16 = 6;
pub const FLAG_FUA: u16 = 1;
/// `NBD_EIO`, `NBD_EINVAL`, `NBD_ENOSPC`, `NBD_EPERM`, as replies carry them.
pub const EIO: u32 = 5;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const EPERM: u32 = 1;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_REPLY_MAGIC: u32 = 0x6744_6698;
const OPTION_MAGIC: u64 = 0x4948_4156_454F_5054;
const OPTION_GO: u32 = 7;
const REPLY_ACK: u32 = 1;
const REPLY_INFO: u32 = 3;

/// How long a test waits for an answer. A healthy server never needs that long.
const ANSWER_WITHIN: Duration = Duration::from_secs(40);

/// A reply.
#[derive(Debug)]
pub struct Reply {
    pub cookie: u64,
    /// 0 is success.
    pub error: u32,
    /// The data of a read.
    pub data: Vec<u8>,
}

/// A connection to one export.
#[derive(Debug)]
pub struct Client {
    pub stream: UnixStream,
    pub size_bytes: u64,
    /// The transmission flags of the export.
    pub flags: u16,
    next_cookie: u64,
    reads: HashMap<u64, u32>,
    /// Bytes that the socket has not accepted yet.
    unsent: Vec<u8>,
}

impl Client {
    /// Connects and negotiates.
    ///
    /// # Errors
    /// No server answers, or there is no such export.
    pub fn connect(socket: &Path, export: &str) -> io::Result<Client> {
        let mut stream = UnixStream::connect(socket)?;
        stream.set_read_timeout(Some(ANSWER_WITHIN))?;
        stream.set_write_timeout(Some(ANSWER_WITHIN))?;
        let mut greeting = [0; 18];
        stream.read_exact(&mut greeting)?;
        // Fixed newstyle, no zeroes.
        stream.write_all(&3u32.to_be_bytes())?;
        let mut data = (export.len() as u32).to_be_bytes().to_vec();
        data.extend(export.as_bytes());
        data.extend([0, 0]);
        let mut option = OPTION_MAGIC.to_be_bytes().to_vec();
        option.extend(OPTION_GO.to_be_bytes());
        option.extend((data.len() as u32).to_be_bytes());
        option.extend(data);
        stream.write_all(&option)?;
        let (mut size_bytes, mut flags) = (0, 0);
        loop {
            let mut header = [0; 20];
            stream.read_exact(&mut header)?;
            let field = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("4"));
            let mut data = vec![0; field(16) as usize];
            stream.read_exact(&mut data)?;
            match field(12) {
                REPLY_ACK => break,
                REPLY_INFO if data[..2] == [0, 0] => {
                    size_bytes = u64::from_be_bytes(data[2..10].try_into().expect("8"));
                    flags = u16::from_be_bytes(data[10..12].try_into().expect("2"));
                }
                REPLY_INFO => {}
                _ => {
                    return Err(io::Error::other(
                        String::from_utf8_lossy(&data).into_owned(),
                    ));
                }
            }
        }
        Ok(Client {
            stream,
            size_bytes,
            flags,
            next_cookie: 1,
            reads: HashMap::new(),
            unsent: Vec::new(),
        })
    }

    /// Sends a request without waiting for its reply; returns its cookie.
    ///
    /// # Errors
    /// The connection is gone.
    pub fn submit(
        &mut self,
        command: (u16, u16),
        offset_bytes: u64,
        length_bytes: u32,
        payload: &[u8],
    ) -> io::Result<u64> {
        let cookie = self.queue(command, offset_bytes, length_bytes, payload);
        let bytes = std::mem::take(&mut self.unsent);
        self.stream.write_all(&bytes)?;
        Ok(cookie)
    }

    /// Prepares a request that [`Client::exchange`] sends; returns its cookie.
    pub fn queue(
        &mut self,
        (command, flags): (u16, u16),
        offset_bytes: u64,
        length_bytes: u32,
        payload: &[u8],
    ) -> u64 {
        let cookie = self.next_cookie;
        self.next_cookie += 1;
        let bytes = &mut self.unsent;
        bytes.extend(REQUEST_MAGIC.to_be_bytes());
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(cookie.to_be_bytes());
        bytes.extend(offset_bytes.to_be_bytes());
        bytes.extend(length_bytes.to_be_bytes());
        bytes.extend(payload);
        if command == READ {
            self.reads.insert(cookie, length_bytes);
        }
        cookie
    }

    /// Sends what is queued, as far as the server accepts it, and receives a reply meanwhile: a server
    /// with bounded memory may have to send a reply before it can accept more. Returns `None` if
    /// everything was sent before a reply came.
    ///
    /// # Errors
    /// The connection is gone, or nothing could be sent or received in time.
    pub fn exchange(&mut self) -> io::Result<Option<Reply>> {
        let had_unsent = !self.unsent.is_empty();
        while !self.unsent.is_empty() {
            match rustix::net::send(
                &self.stream,
                &self.unsent,
                SendFlags::DONTWAIT | SendFlags::NOSIGNAL,
            ) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(Errno::AGAIN | Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
            }
            let mut wanted = PollFlags::IN;
            wanted.set(PollFlags::OUT, !self.unsent.is_empty());
            let mut ready = [PollFd::new(&self.stream, wanted)];
            let within = Timespec {
                tv_sec: ANSWER_WITHIN.as_secs().cast_signed(),
                tv_nsec: 0,
            };
            let wait = if self.unsent.is_empty() {
                Timespec::default()
            } else {
                within
            };
            if poll(&mut ready, Some(&wait))? == 0 && !self.unsent.is_empty() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            if ready[0].revents().contains(PollFlags::IN) {
                return self.receive().map(Some);
            }
        }
        if had_unsent {
            return Ok(None);
        }
        self.receive().map(Some)
    }

    /// Waits for the next reply.
    ///
    /// # Errors
    /// The connection is gone, or nothing came in time.
    pub fn receive(&mut self) -> io::Result<Reply> {
        let mut header = [0; 16];
        self.stream.read_exact(&mut header)?;
        let field = |at: usize| u32::from_be_bytes(header[at..at + 4].try_into().expect("4"));
        assert_eq!(
            field(0),
            SIMPLE_REPLY_MAGIC,
            "the server's stream is out of step"
        );
        let (error, cookie) = (
            field(4),
            u64::from_be_bytes(header[8..].try_into().expect("8")),
        );
        let length_bytes = self
            .reads
            .remove(&cookie)
            .filter(|_| error == 0)
            .unwrap_or(0);
        let mut data = vec![0; length_bytes as usize];
        self.stream.read_exact(&mut data)?;
        Ok(Reply {
            cookie,
            error,
            data,
        })
    }

    fn ask(&mut self, command: (u16, u16), offset: u64, length: u32, payload: &[u8]) -> Reply {
        self.submit(command, offset, length, payload)
            .expect("the server takes requests");
        self.receive().expect("the server answers")
    }

    /// Reads; `Err` carries the protocol's error number.
    pub fn read(&mut self, offset_bytes: u64, length_bytes: u32) -> Result<Vec<u8>, u32> {
        let reply = self.ask((READ, 0), offset_bytes, length_bytes, &[]);
        if reply.error == 0 {
            Ok(reply.data)
        } else {
            Err(reply.error)
        }
    }

    /// Writes; `Err` carries the protocol's error number.
    pub fn write(&mut self, offset_bytes: u64, data: &[u8]) -> Result<(), u32> {
        self.simple((WRITE, 0), offset_bytes, data.len() as u32, data)
    }

    /// Flushes; `Err` carries the protocol's error number.
    pub fn flush(&mut self) -> Result<(), u32> {
        self.simple((FLUSH, 0), 0, 0, &[])
    }

    /// Any command without data in its reply; `Err` carries the protocol's error number.
    pub fn simple(
        &mut self,
        command: (u16, u16),
        offset_bytes: u64,
        length_bytes: u32,
        payload: &[u8],
    ) -> Result<(), u32> {
        let reply = self.ask(command, offset_bytes, length_bytes, payload);
        if reply.error == 0 {
            Ok(())
        } else {
            Err(reply.error)
        }
    }

    /// Closes the connection for sending. Replies can still be received.
    pub fn half_close(&self) {
        let _ = self.stream.shutdown(Shutdown::Write);
    }
}
