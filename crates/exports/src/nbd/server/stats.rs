//! The counters of a port.

/// Counters of one port. Only the gauges at the end can fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NbdStats {
    /// Connections accepted.
    pub connections_accepted: u64,
    /// Connections closed at once, because the port was full or stopping.
    pub connections_refused: u64,
    /// Connections closed because their handshake took too long.
    pub handshakes_timed_out: u64,
    /// Connections closed because the client broke the protocol.
    pub protocol_errors: u64,
    /// Valid commands.
    pub requests: u64,
    /// Commands that break a rule, answered with an error without the engine.
    pub requests_refused: u64,
    /// Commands that the engine answered with an error.
    pub requests_failed: u64,
    /// Reads that were repeated because a hanging drive kept their memory.
    pub requests_asked_again: u64,
    /// Times that a connection had to wait for payload memory or for its own earlier requests.
    pub stalls: u64,
    /// Bytes received from clients.
    pub received_bytes: u64,
    /// Bytes sent to clients.
    pub sent_bytes: u64,
    /// Receive operations that returned something.
    pub receives: u64,
    /// Receives that were delayed for a moment because the client was busy with earlier replies.
    pub receives_delayed: u64,
    /// Send operations that sent something; each carries the replies to several requests.
    pub sends: u64,
    /// Gauge: connections open now.
    pub connections_open: u64,
    /// Gauge: requests in the engine now.
    pub requests_in_flight: u64,
    /// Gauge: payload memory that hanging drives may still use.
    pub pinned_bytes: u64,
}
