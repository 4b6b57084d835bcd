//! The options of a port, the messages that it takes, and the problems that it reports.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use drives::arena::Pool;
use engine::units::{Nanos, ShardId, VolumeId};

use crate::nbd::wire::MAX_PAYLOAD_BYTES;
use crate::nbd::{ExportList, Frozen, ProtocolError, ThawError};

/// The options of a port.
pub struct NbdPortOptions {
    /// The exports that clients can choose.
    pub exports: Arc<ExportList>,
    /// The engine's volume behind each export, in the order of the list.
    pub volumes: Vec<VolumeId>,
    /// Memory for payload and for the connections' own buffers, which only this port uses.
    pub pool: Pool,
    /// Listening sockets from which this port accepts; blocking or not.
    pub listeners: Vec<OwnedFd>,
    /// Which shards serve the accepted connections.
    pub route: Route,
    /// Called when a connection ends badly. Runs on the shard's thread, so it must not block.
    pub on_problem: Box<dyn FnMut(&Problem) + Send>,
    /// Limits of clients.
    pub limits: NbdLimits,
}

/// Limits of clients.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NbdLimits {
    /// Most connections at once. Each takes 64 KiB of the pool from the start; there are fewer if that were more than a
    /// quarter of the pool.
    pub connections_max: u16,
    /// Most payload memory of one connection. A connection that holds none may still take one request of any allowed
    /// length.
    pub connection_payload_bytes_max: u64,
    /// A client that has not chosen an export within this time is disconnected.
    pub handshake_timeout: Nanos,
    /// When the port stops: how long clients' requests are answered with "shutting down" before nothing more is read.
    pub stop_notice: Nanos,
    /// When the port stops: how long, after the notice, replies may take to be sent.
    pub stop_grace: Nanos,
    /// When the port hands its connections over: how long clients have to send the rest of a write and to take their
    /// replies. All other clients wait as long.
    pub hand_over_within: Nanos,
    /// When the port hands its connections over: after so long, those whose requests are still not carried out are broken
    /// off. A server has to be given more time than this for its end, because afterwards it answers requests with errors.
    pub hand_over_within_max: Nanos,
}

impl Default for NbdLimits {
    fn default() -> Self {
        Self {
            connections_max: 256,
            connection_payload_bytes_max: 64 << 20,
            handshake_timeout: Nanos(10 * Nanos::SECOND.0),
            stop_notice: Nanos(200 * Nanos::MILLISECOND.0),
            stop_grace: Nanos(5 * Nanos::SECOND.0),
            hand_over_within: Nanos(Nanos::SECOND.0),
            // `server::life` gives 60 s.
            hand_over_within_max: Nanos(50 * Nanos::SECOND.0),
        }
    }
}

/// Message to a port: serve this connection.
#[derive(Debug)]
pub struct NewConnection {
    /// A stream socket on which nothing has been sent yet, or one with its session.
    pub socket: OwnedFd,
    /// Dropped with the connection: when nothing more is received from it and the engine has answered all its requests. Only
    /// this machine's kernel is a client that asks.
    pub until_served: Option<Arc<()>>,
    /// Whether it is one end of a relay of this process, which cannot outlive it.
    pub is_relayed: bool,
    /// Where the session is, if another process has begun it.
    pub session: Option<Frozen>,
}

impl NewConnection {
    /// Of a client that does not ask how long it is served.
    pub fn new(socket: impl Into<OwnedFd>) -> NewConnection {
        NewConnection {
            socket: socket.into(),
            until_served: None,
            is_relayed: false,
            session: None,
        }
    }

    /// The end of a relay of this process.
    pub fn relayed(socket: impl Into<OwnedFd>) -> NewConnection {
        NewConnection {
            is_relayed: true,
            ..NewConnection::new(socket)
        }
    }
}

/// Message to a port: accept connections from this listening socket as well.
#[derive(Debug)]
pub struct NewListener(pub OwnedFd);

/// Message to a port: offer this list to clients that connect from now on; connected clients keep their offer. The
/// exports are the port's present ones, and only their abilities may have changed.
#[derive(Debug)]
pub struct NewOffer(pub Arc<ExportList>);

/// Message to a port: stop accepting, answer new requests with "shutting down", finish requests in flight, close every
/// connection, then call the function on the shard's thread. The engine must keep running until then. A second message
/// is answered together with the first.
pub struct Stop(pub Box<dyn FnOnce() + Send>);

/// Message to a port: stop accepting, read nothing but the rest of writes that have begun, answer all that was received,
/// and call the function with each connection, on the shard's thread. A connection that comes later is handed over as
/// well. [`Stop`], sent after it, is answered when none is left; new requests are not answered with "shutting down" then.
pub struct HandOver(pub Box<dyn Fn(HandedOver) + Send>);

/// A connection on its way to the next process.
#[derive(Debug)]
pub struct HandedOver {
    /// The socket. Nothing that was received from it is unanswered.
    pub socket: OwnedFd,
    /// The volume, once the client has chosen it.
    pub volume: Option<VolumeId>,
    /// Whether the client is this machine's kernel.
    pub is_kernels: bool,
    /// Where the session is.
    pub session: Frozen,
}

/// A problem with a client. Every text is one sentence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    /// The client broke the protocol.
    #[error("an NBD client was disconnected: {0}")]
    Protocol(ProtocolError),
    /// The client connected and then did not negotiate.
    #[error("an NBD client was disconnected because it chose no export in time")]
    HandshakeTimeout,
    /// Too many connections.
    #[error("an NBD connection was refused because there are {connections_max} already")]
    Full {
        /// How many this port can have.
        connections_max: usize,
    },
    /// The port hands its connections over, and this one was in the middle of something for too long.
    #[error(
        "an NBD client was disconnected in an upgrade, because it had not sent the rest of a request or not taken its \
         replies; it has to connect again"
    )]
    NotHandedOver,
    /// The port hands its connections over, and the requests of this one were in the engine for too long.
    #[error(
        "an NBD client was disconnected in an upgrade, because its requests were not carried out in time; it has to \
         connect again"
    )]
    HandOverTooLong,
    /// The connection was handed over, and cannot be served here.
    #[error("an NBD client of the server before was disconnected: {0}; it has to connect again")]
    NotTakenOver(ThawError),
    /// Accepting does not work for now, or not any more if `gives_up`.
    #[error(
        "NBD connections cannot be accepted: {}",
        std::io::Error::from_raw_os_error(*errno)
    )]
    Accept {
        /// The errno.
        errno: i32,
        /// Whether the listener was closed.
        gives_up: bool,
    },
}

/// Why a port cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NbdPortError {
    /// Not exactly one volume per export.
    #[error("{exports} NBD exports were given {volumes} volumes; every export needs exactly one")]
    Volumes {
        /// Number of exports.
        exports: usize,
        /// Number of volumes.
        volumes: usize,
    },
    /// The pool cannot hold even one connection and one small request.
    #[error(
        "{pool_bytes} bytes of payload memory are not enough for NBD; give each shard 1 MiB or more"
    )]
    Memory {
        /// Size of the pool.
        pool_bytes: u64,
    },
    /// An export promises requests that the pool has no room for.
    #[error(
        "export {name:?} allows requests of {payload_bytes} bytes, for which {pool_bytes} bytes of \
         payload memory per shard are not enough; allow at most {limit_bytes} or give more memory"
    )]
    Payload {
        /// The name of the export.
        name: String,
        /// Its maximum payload.
        payload_bytes: u32,
        /// Size of the pool.
        pool_bytes: u64,
        /// The longest payload that would fit.
        limit_bytes: u32,
    },
}

/// The longest payload that exports may allow when each shard has `pool_bytes` of payload memory: at
/// most a quarter of it, a power of two, at most the protocol's 32 MiB.
#[must_use]
pub fn maximum_payload_bytes(pool_bytes: u64) -> u32 {
    let quarter = (pool_bytes / 4).min(u64::from(MAX_PAYLOAD_BYTES)) as u32;
    1 << quarter.max(1).ilog2()
}

/// Which shards serve the connections that are accepted by a port's own listeners.
#[derive(Clone, Debug)]
pub struct Route {
    shards: u8,
    this_shard: ShardId,
    next: ShardId,
}

impl Route {
    /// Assigns connections to `shards` shards in turn, beginning with shard 0; `this_shard` is the one that accepts.
    #[must_use]
    pub fn round_robin(shards: u8, this_shard: ShardId) -> Route {
        Route {
            shards,
            this_shard,
            next: ShardId(0),
        }
    }

    /// The shard that serves the next connection; `None` if it is this one.
    pub(super) fn another_shard(&mut self) -> Option<ShardId> {
        let shard = self.next;
        self.next = ShardId((shard.0 + 1) % self.shards);
        (shard != self.this_shard).then_some(shard)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_go_round() {
        let mut route = Route::round_robin(3, ShardId(1));
        let shards: Vec<_> = (0..7).map(|_| route.another_shard()).collect();
        let (first, last) = (Some(ShardId(0)), Some(ShardId(2)));
        assert_eq!(shards, [first, None, last, first, None, last, first]);
        assert_eq!(Route::round_robin(1, ShardId(0)).another_shard(), None);
    }

    #[test]
    fn the_maximum_payload_follows_the_pool() {
        assert_eq!(maximum_payload_bytes(1 << 30), 32 << 20);
        assert_eq!(maximum_payload_bytes(128 << 20), 32 << 20);
        assert_eq!(maximum_payload_bytes((128 << 20) - 1), 16 << 20);
        assert_eq!(maximum_payload_bytes(1 << 20), 256 << 10);
        assert_eq!(maximum_payload_bytes(0), 1);
    }
}
