//! Limits the number of clients that are connected at once.
//!
//! Each connection needs a file descriptor and a task, and the process also needs descriptors for its drives. While
//! [`CONNECTIONS_MAX`] clients are connected, further clients wait in the kernel's accept queue, and once that is full
//! in their `connect`, until a client disconnects.
//!
//! Those who may only look share [`READERS_MAX`] of these connections, so that they never keep out who gives orders: a
//! further one of them is closed at once.

use super::access::Peer;
use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use axum::serve::Listener;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Maximum number of connections: enough for many consoles that listen to events, and for orders beside them.
pub(super) const CONNECTIONS_MAX: usize = 128;
/// Of these, the connections of users who may only look.
pub(super) const READERS_MAX: usize = 64;

/// A listener that accepts at most [`CONNECTIONS_MAX`] connections at once.
pub(super) struct Limited {
    pub listener: UnixListener,
    /// One permit for each further connection that is allowed.
    pub free: Arc<Semaphore>,
    /// One permit for each further connection of those who may only look.
    pub free_for_readers: Arc<Semaphore>,
}

impl Limited {
    pub fn new(listener: UnixListener, free: Arc<Semaphore>) -> Limited {
        Limited {
            listener,
            free,
            free_for_readers: Arc::new(Semaphore::new(READERS_MAX)),
        }
    }

    /// A permit for a client who may only look; nothing for who may give orders. `None` if there is no room.
    fn reader(&self, peer: Peer) -> Option<Option<OwnedSemaphorePermit>> {
        match peer.may_order() {
            true => Some(None),
            false => {
                Some(self.free_for_readers.clone().try_acquire_owned().ok()).filter(Option::is_some)
            }
        }
    }
}

impl Listener for Limited {
    type Io = Counted;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (Counted, SocketAddr) {
        // The semaphore is never closed, so a permit is obtained sooner or later.
        let permit = self.free.clone().acquire_owned().await.ok();
        loop {
            let (stream, address) = Listener::accept(&mut self.listener).await;
            let peer = Peer::of(&stream);
            let Some(reader) = self.reader(peer) else {
                continue;
            };
            let counted = Counted {
                stream,
                peer,
                _permits: (permit, reader),
            };
            return (counted, address);
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// A connection, which holds its permits until it is closed.
pub(super) struct Counted {
    stream: UnixStream,
    peer: Peer,
    _permits: (Option<OwnedSemaphorePermit>, Option<OwnedSemaphorePermit>),
}

impl Connected<IncomingStream<'_, Limited>> for Peer {
    fn connect_info(stream: IncomingStream<'_, Limited>) -> Peer {
        stream.io().peer
    }
}

impl AsyncRead for Counted {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, bytes)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
