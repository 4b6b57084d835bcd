//! Moves bytes between a client that speaks TLS and the port of a shard that does not.
//!
//! One thread does both directions, without blocking in any of them: it does what can be done, and waits for either socket
//! when nothing can. It holds at most one chunk for each direction, so a side that does not read stops the other one, as a
//! single connection would.

use rustix::event::{PollFd, PollFlags, poll};
use rustls::ServerConnection;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;

/// Decrypted bytes on their way to the port: some records of TLS.
const TO_PORT_BYTES: usize = 64 << 10;
/// Bytes of the port that are encrypted at a time.
const TO_CLIENT_BYTES: usize = 256 << 10;

/// A connection between two sockets that do not block.
pub(super) struct Relay<'a> {
    tls: ServerConnection,
    client: &'a TcpStream,
    port: &'a UnixStream,
    /// Decrypted bytes; those from `taken` to `filled` are still to be given to the port.
    to_port: Box<[u8]>,
    taken: usize,
    filled: usize,
    chunk: Box<[u8]>,
    client_sends: bool,
    port_sends: bool,
}

impl<'a> Relay<'a> {
    /// Connects a client whose TLS handshake is over with a port.
    pub fn new(
        mut tls: ServerConnection,
        client: &'a TcpStream,
        port: &'a UnixStream,
    ) -> Relay<'a> {
        // What is encrypted at a time is limited by the chunk.
        tls.set_buffer_limit(None);
        Relay {
            tls,
            client,
            port,
            to_port: vec![0; TO_PORT_BYTES].into(),
            taken: 0,
            filled: 0,
            chunk: vec![0; TO_CLIENT_BYTES].into(),
            client_sends: true,
            port_sends: true,
        }
    }

    /// Relays until the port has ended and the client has got everything.
    ///
    /// # Errors
    /// The connection to the client is broken, or what it sends is not TLS.
    pub fn run(mut self) -> io::Result<()> {
        loop {
            // Both: one direction must not wait for the other.
            let moved = self.move_to_port()? | self.move_to_client()?;
            if !self.port_sends && !self.tls.wants_write() {
                return Ok(());
            }
            if !moved {
                self.wait()?;
            }
        }
    }

    /// Returns whether anything was moved.
    fn move_to_port(&mut self) -> io::Result<bool> {
        if self.taken < self.filled {
            return Ok(self.give_to_port());
        }
        if !self.client_sends {
            return Ok(false);
        }
        match self.tls.reader().read(&mut self.to_port) {
            Ok(0) => Ok(self.end_of_client()),
            Ok(length) => {
                (self.taken, self.filled) = (0, length);
                Ok(true)
            }
            Err(error) if error.kind() == ErrorKind::UnexpectedEof => Ok(self.end_of_client()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => self.receive(),
            Err(error) => Err(error),
        }
    }

    fn give_to_port(&mut self) -> bool {
        match self.port.write(&self.to_port[self.taken..self.filled]) {
            Ok(length) => {
                self.taken += length;
                true
            }
            Err(error) if is_for_later(&error) => false,
            Err(_) => {
                // The port has closed the connection, and takes no more. What it has sent before is read.
                self.taken = self.filled;
                self.client_sends = false;
                true
            }
        }
    }

    /// The client sends no more. The port still answers what it has got.
    fn end_of_client(&mut self) -> bool {
        self.client_sends = false;
        // It fails only if the port has ended, too.
        let _ = self.port.shutdown(Shutdown::Write);
        true
    }

    fn receive(&mut self) -> io::Result<bool> {
        match self.tls.read_tls(&mut self.client) {
            Ok(_) => {
                let judged = self.tls.process_new_packets();
                if let Err(error) = judged {
                    // What is left to send is the alert that says why.
                    let _ = self.tls.write_tls(&mut self.client);
                    return Err(io::Error::new(ErrorKind::InvalidData, error));
                }
                Ok(true)
            }
            Err(error) if is_for_later(&error) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Returns whether anything was moved.
    fn move_to_client(&mut self) -> io::Result<bool> {
        let mut moved = false;
        if self.port_sends && !self.tls.wants_write() {
            match self.port.read(&mut self.chunk) {
                Ok(0) => moved = self.end_of_port(),
                Ok(length) => {
                    self.tls.writer().write_all(&self.chunk[..length])?;
                    moved = true;
                }
                Err(error) if is_for_later(&error) => {}
                Err(_) => moved = self.end_of_port(),
            }
        }
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.client) {
                Ok(_) => moved = true,
                Err(error) if is_for_later(&error) => break,
                Err(error) => return Err(error),
            }
        }
        Ok(moved)
    }

    fn end_of_port(&mut self) -> bool {
        self.port_sends = false;
        self.tls.send_close_notify();
        true
    }

    /// Waits until a socket is ready for what is to be done with it. A socket with which nothing is to be done is left out:
    /// its end would wake this thread again and again.
    fn wait(&self) -> io::Result<()> {
        let is_empty = self.taken == self.filled;
        let wants_write = self.tls.wants_write();
        let interest = |reads: bool, writes: bool| {
            let mut flags = PollFlags::empty();
            flags.set(PollFlags::IN, reads);
            flags.set(PollFlags::OUT, writes);
            flags
        };
        let client = interest(self.client_sends && is_empty, wants_write);
        let port = interest(self.port_sends && !wants_write, !is_empty);
        let mut polled = Vec::with_capacity(2);
        if !client.is_empty() {
            polled.push(PollFd::new(self.client, client));
        }
        if !port.is_empty() {
            polled.push(PollFd::new(self.port, port));
        }
        assert!(
            !polled.is_empty(),
            "a relay that waits for nothing has ended"
        );
        match rustix::io::retry_on_intr(|| poll(&mut polled, None)) {
            Ok(_) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }
}

fn is_for_later(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}
