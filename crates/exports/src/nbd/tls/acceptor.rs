//! Accepts clients that must use TLS, and gives each a thread.
//!
//! [`PLACES`] connections have a place at once, those that have not proved their identity included; these have
//! [`PROVEN_WITHIN`] to do so. Connections go to the shards in turn.

use super::opening::{Refusal, open};
use super::relay::Relay;
use crate::export::{Messages, Say};
use crate::nbd::server::NewConnection;
use anyhow::{Context, Result};
use engine::units::ShardId;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustls::{ServerConfig, ServerConnection};
use std::io::{self, ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections at once. Each has a thread and half a MiB, which is locked in memory with the rest of the program.
const PLACES: usize = 64;
/// How long a client may take to ask for TLS and to prove its identity, and the port to greet.
const PROVEN_WITHIN: Duration = Duration::from_secs(10);
/// A thread of a connection needs little: cryptography of certificates goes deepest.
const STACK_BYTES: usize = 512 << 10;
/// Pause after an accept that failed because the process or the system lacks a resource.
const PAUSE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// How long the last answers may take to reach their clients.
const ENDED_WITHIN: Duration = Duration::from_secs(3);

/// Accepts clients of one address. Dropping it ends that, and waits until the last answers have left.
pub(in crate::nbd) struct TlsListener {
    /// Its end tells the thread to end.
    stop: Option<UnixStream>,
    thread: Option<JoinHandle<()>>,
    places: Arc<Places>,
}

impl TlsListener {
    /// Accepts clients on `listener` and connects them with the ports behind `messages`.
    ///
    /// # Errors
    /// The system has no thread or no sockets for it.
    pub fn start(
        listener: TcpListener,
        configuration: Arc<ServerConfig>,
        messages: Messages,
        say: Say,
    ) -> Result<TlsListener> {
        let (stop, stopped) = UnixStream::pair().context("cannot make sockets")?;
        listener.set_nonblocking(true)?;
        let places = Arc::new(Places::default());
        let accepting = Accepting {
            listener,
            stopped,
            configuration,
            messages: Arc::new(messages),
            say,
            places: places.clone(),
        };
        let thread = std::thread::Builder::new()
            .name("nbd-tls-accept".to_owned())
            .spawn(move || accepting.run())
            .context("cannot start a thread for clients with TLS")?;
        Ok(TlsListener {
            stop: Some(stop),
            thread: Some(thread),
            places,
        })
    }

    /// Accepts no more clients; those that are connected are served on.
    pub fn stop_accepting(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for TlsListener {
    fn drop(&mut self) {
        self.stop_accepting();
        self.places.wait_until_unserved(ENDED_WITHIN);
    }
}

struct Accepting {
    listener: TcpListener,
    stopped: UnixStream,
    configuration: Arc<ServerConfig>,
    messages: Arc<Messages>,
    say: Say,
    places: Arc<Places>,
}

impl Accepting {
    fn run(self) {
        let mut shard = 0;
        let mut pause = None;
        while self.wait(pause.take()) {
            let client = match self.listener.accept() {
                Ok((client, _)) => client,
                Err(error) => {
                    let lacks = !matches!(
                        error.kind(),
                        ErrorKind::WouldBlock
                            | ErrorKind::Interrupted
                            | ErrorKind::ConnectionAborted
                    );
                    if lacks {
                        (self.say)(&format_args!("NBD connections cannot be accepted: {error}"));
                        pause = Some(PAUSE);
                    }
                    continue;
                }
            };
            shard = (shard + 1) % self.messages.shards();
            if let Err(error) = self.begin(client, ShardId(shard)) {
                (self.say)(&format_args!("an NBD client cannot be served: {error:#}"));
            }
        }
    }

    /// Waits for the next client, or for the time of a pause. Returns whether to go on.
    fn wait(&self, pause: Option<Timespec>) -> bool {
        let mut polled = [
            PollFd::new(&self.stopped, PollFlags::IN),
            PollFd::new(&self.listener, PollFlags::IN),
        ];
        let count = if pause.is_some() { 1 } else { 2 };
        let polled = &mut polled[..count];
        let waited = rustix::io::retry_on_intr(|| poll(polled, pause.as_ref()));
        waited.is_ok() && polled[0].revents().is_empty()
    }

    fn begin(&self, client: TcpStream, shard: ShardId) -> Result<()> {
        let Some(mut place) = Place::take(&self.places) else {
            (self.say)(&format_args!(
                "an NBD connection with TLS was refused because there are {PLACES} already"
            ));
            return Ok(());
        };
        let (configuration, messages) = (self.configuration.clone(), self.messages.clone());
        let say = self.say.clone();
        std::thread::Builder::new()
            .name("nbd-tls".to_owned())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                // The client may be this machine itself.
                drives::flusher::join();
                let shown = client.peer_addr();
                let served = serve(client, configuration, (&messages, shard), &mut place);
                match (served, shown) {
                    (Ok(()) | Err(Refusal::Left), _) => {}
                    (Err(why), Ok(shown)) => {
                        say(&format_args!(
                            "the NBD client at {shown} was refused: {why}"
                        ));
                    }
                    (Err(why), Err(_)) => say(&format_args!("an NBD client was refused: {why}")),
                }
            })
            .context("cannot start a thread")?;
        Ok(())
    }
}

/// Serves a client until it or the port ends.
fn serve(
    client: TcpStream,
    configuration: Arc<ServerConfig>,
    (messages, shard): (&Messages, ShardId),
    place: &mut Place,
) -> Result<(), Refusal> {
    client.set_nonblocking(false)?;
    client.set_nodelay(true)?;
    // A client whose machine has gone gives its place back.
    rustix::net::sockopt::set_socket_keepalive(&client, true).map_err(io::Error::from)?;
    let mut within = Within {
        stream: &client,
        until: Instant::now() + PROVEN_WITHIN,
    };
    let flags = open(&mut within)?;
    let mut tls = ServerConnection::new(configuration).map_err(Refusal::Tls)?;
    while tls.is_handshaking() {
        tls.complete_io(&mut within)?;
    }
    place.prove();
    let port = connect(messages, shard, flags)?;
    client.set_read_timeout(None)?;
    client.set_write_timeout(None)?;
    client.set_nonblocking(true)?;
    port.set_nonblocking(true)?;
    match Relay::new(tls, &client, &port).run() {
        // The port knows what was not answered, and a client that leaves in the middle is no problem of ours.
        Err(error) if error.kind() != ErrorKind::InvalidData => Ok(()),
        ended => Ok(ended?),
    }
}

/// Connects to a port, which hears what the client has said before TLS. Its greeting, which the client has had, is dropped.
fn connect(messages: &Messages, shard: ShardId, flags: [u8; 4]) -> Result<UnixStream, Refusal> {
    let (mut ours, ports) = UnixStream::pair()?;
    messages.to(shard, Box::new(NewConnection::relayed(ports)));
    ours.set_read_timeout(Some(PROVEN_WITHIN))?;
    // A port that is full closes the connection, and says so in the log.
    ours.read_exact(&mut [0; 18])?;
    ours.write_all(&flags)?;
    ours.set_read_timeout(None)?;
    Ok(ours)
}

/// A socket that may be used until a time.
struct Within<'a> {
    stream: &'a TcpStream,
    until: Instant,
}

impl Within<'_> {
    fn left(&self) -> io::Result<Duration> {
        let left = self.until.saturating_duration_since(Instant::now());
        match left.is_zero() {
            true => Err(ErrorKind::TimedOut.into()),
            false => Ok(left),
        }
    }
}

impl Read for Within<'_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.stream.set_read_timeout(Some(self.left()?))?;
        self.stream.read(into)
    }
}

impl Write for Within<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.stream.set_write_timeout(Some(self.left()?))?;
        self.stream.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The places for connections.
#[derive(Default)]
struct Places {
    taken: Mutex<Taken>,
    given_back: Condvar,
}

#[derive(Default)]
struct Taken {
    places: usize,
    /// Of these, the places of clients that have proved their identity.
    proved: usize,
}

impl Places {
    fn taken(&self) -> MutexGuard<'_, Taken> {
        self.taken.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until no client is served. Those that have not proved their identity are owed nothing.
    fn wait_until_unserved(&self, within: Duration) {
        let is_serving = |taken: &mut Taken| taken.proved > 0;
        let waited = self
            .given_back
            .wait_timeout_while(self.taken(), within, is_serving);
        drop(waited);
    }
}

/// A place, which is given back when this is dropped.
struct Place {
    places: Arc<Places>,
    proved: bool,
}

impl Place {
    fn take(places: &Arc<Places>) -> Option<Place> {
        let mut taken = places.taken();
        (taken.places < PLACES).then(|| {
            taken.places += 1;
            Place {
                places: places.clone(),
                proved: false,
            }
        })
    }

    /// The client has proved its identity.
    fn prove(&mut self) {
        assert!(!self.proved, "a client proves its identity once");
        self.proved = true;
        self.places.taken().proved += 1;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut taken = self.places.taken();
        taken.places -= 1;
        taken.proved -= usize::from(self.proved);
        self.places.given_back.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_limited_and_only_served_clients_are_waited_for() {
        let places = Arc::new(Places::default());
        let mut taken: Vec<Place> = (0..PLACES).map(|_| Place::take(&places).unwrap()).collect();
        assert!(Place::take(&places).is_none());
        let long = Duration::from_secs(60);
        let since = Instant::now();
        places.wait_until_unserved(long);
        assert!(since.elapsed() < long / 2);
        taken[7].prove();
        places.wait_until_unserved(Duration::from_millis(1));
        assert_eq!(places.taken().proved, 1);
        std::thread::scope(|scope| {
            scope.spawn(|| places.wait_until_unserved(long));
            drop(taken.remove(7));
        });
        assert!(since.elapsed() < long / 2);
        assert!(Place::take(&places).is_some());
    }
}
