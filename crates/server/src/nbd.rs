//! Offering the volumes over NBD: where to listen, what the exports promise, and one port per shard.

use super::hearer::Hearer;
use super::runtime::{MakePort, Shared};
use crate::unix_socket::ClaimedSocket;
use anyhow::{Context, Result, anyhow, bail};
use engine::control::record::Record;
use engine::units::{ShardId, VolumeId};
use exports::nbd::server::{
    NbdLimits, NbdPort, NbdPortOptions, NewListener, NewOffer, Route, Stop, maximum_payload_bytes,
};
use exports::nbd::{Abilities, BlockSizes, Export, ExportList};
use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// How often what is offered is compared with what the drives can do.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(String),
}

impl fmt::Display for Address {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Unix(path) => write!(out, "unix:{}", path.display()),
            Address::Tcp(host) => write!(out, "tcp:{host}"),
        }
    }
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Address, String> {
        if let Some(path) = text.strip_prefix("unix:").filter(|path| !path.is_empty()) {
            return Ok(Address::Unix(PathBuf::from(path)));
        }
        if let Some(host) = text.strip_prefix("tcp:") {
            let whole = if host.contains(':') {
                host.to_owned()
            } else {
                format!("{host}:10809")
            };
            return Ok(Address::Tcp(whole));
        }
        Err(format!(
            "\"{text}\" is no address; write unix:PATH or tcp:HOST[:PORT]"
        ))
    }
}

/// An open listening socket.
#[derive(Debug)]
pub struct Listening {
    socket: OwnedFd,
    address: Bound,
}

#[derive(Debug)]
enum Bound {
    Unix(ClaimedSocket),
    Tcp(SocketAddr),
}

/// Opens a listening socket. TCP beyond loopback only where `anyone` may connect: NBD has no
/// authentication.
///
/// # Errors
/// The address is taken, not allowed, or does not exist.
pub fn listen(address: &Address, anyone: bool) -> Result<Listening> {
    match address {
        Address::Unix(path) => {
            let (claimed, socket) = ClaimedSocket::claim(path, "--nbd")?;
            Ok(Listening {
                socket: socket.into(),
                address: Bound::Unix(claimed),
            })
        }
        Address::Tcp(host) => {
            let address = host
                .to_socket_addrs()
                .with_context(|| format!("cannot resolve {host}"))?
                .next()
                .with_context(|| format!("{host} has no address"))?;
            if !address.ip().is_loopback() && !anyone {
                bail!(
                    "{address} can be reached from other machines and NBD asks nobody who they are; --listen allows it"
                );
            }
            let socket = TcpListener::bind(address).map_err(|error| match error.kind() {
                ErrorKind::AddrInUse => anyhow!(
                    "another process listens on {address}; stop it, or name another port with --nbd tcp:HOST:PORT"
                ),
                _ => anyhow!(error).context(format!("cannot listen on {address}")),
            })?;
            let address = socket.local_addr().unwrap_or(address);
            Ok(Listening {
                socket: socket.into(),
                address: Bound::Tcp(address),
            })
        }
    }
}

impl Listening {
    /// The URI of an export at this address.
    #[must_use]
    pub fn uri(&self, export: &str) -> String {
        match &self.address {
            Bound::Unix(claimed) => {
                format!("nbd+unix:///{export}?socket={}", claimed.path().display())
            }
            Bound::Tcp(address) => format!("nbd://{address}/{export}"),
        }
    }
}

/// The exports of the volumes of a container that are `started`, with their names; `payload_bytes` is each shard's
/// share of the payload memory.
///
/// # Errors
/// A volume's name or size that NBD cannot express.
pub fn exports(
    record: &Record,
    started: &[(VolumeId, String)],
    payload_bytes: u64,
) -> Result<ExportList> {
    let most = maximum_payload_bytes(payload_bytes);
    let export = |(id, name): &(VolumeId, String)| {
        let at = usize::from(id.0);
        let volume = &record.volumes[at];
        let shape = &volume.geometry;
        let row = shape.row_bytes().next_power_of_two().min(u64::from(most)) as u32;
        Export {
            name: name.clone(),
            description: format!("{} of {} members", shape.level, shape.members),
            size_bytes: shape.size_bytes,
            block_sizes: BlockSizes {
                minimum_bytes: shape.block_bytes,
                preferred_bytes: row.clamp(4096, 1 << 20),
                maximum_payload_bytes: most.max(1 << 20),
            },
            abilities: Abilities {
                read_only: volume.read_only,
                flush: true,
                fua: true,
                trim: record.discards(at),
                write_zeroes: true,
                fast_zero: record.discards(at),
                multi_conn: true,
            },
        }
    };
    Ok(ExportList::new(started.iter().map(export).collect())?)
}

/// Looks every second whether what new clients are offered is still so, while the array serves: a drive may turn out
/// not to discard, and one that cannot may join or leave. `offered` is what the ports began with.
///
/// # Errors
/// The system starts no more threads.
pub fn keep_offer_true(
    shared: Arc<Shared>,
    started: Vec<(VolumeId, String)>,
    payload_bytes: u64,
    offered: ExportList,
) -> Result<()> {
    let mut offered = Arc::new(offered);
    let look = move || {
        while !shared.has_quit() {
            std::thread::sleep(LOOK_EVERY);
            let exports = exports(&shared.snapshot().record, &started, payload_bytes);
            let exports = exports.expect("names and sizes are those that were offered at first");
            if exports != *offered {
                offered = Arc::new(exports);
                shared.tell_ports(|| Box::new(NewOffer(offered.clone())));
            }
        }
    };
    let thread = std::thread::Builder::new().name("offer".to_owned());
    thread.spawn(look)?;
    Ok(())
}

/// A factory of ports for [`super::runtime::Runtime::start`]; `volumes` are those behind the `exports`. Listeners are given to shard 0's port later,
/// by [`start_listening`].
#[must_use]
pub(super) fn ports(
    exports: ExportList,
    volumes: Vec<VolumeId>,
    shards: u8,
    hearer: Arc<dyn Hearer>,
) -> MakePort<NbdPort> {
    let exports = Arc::new(exports);
    Arc::new(move |shard: ShardId, pool| {
        let hearer = hearer.clone();
        let port = NbdPort::new(NbdPortOptions {
            exports: exports.clone(),
            volumes: volumes.clone(),
            pool,
            listeners: Vec::new(),
            route: Route::round_robin(shards, shard),
            on_problem: Box::new(move |problem| hearer.say(problem)),
            limits: NbdLimits::default(),
        })?;
        Ok(port)
    })
}

/// Lets shard 0 accept connections and deal them to all shards. The sockets' files are there until what is
/// returned goes.
pub fn start_listening(shared: &Shared, listening: Vec<Listening>) -> Vec<ClaimedSocket> {
    let mut claimed = Vec::new();
    for one in listening {
        shared.tell_port(0, Box::new(NewListener(one.socket)));
        if let Bound::Unix(socket) = one.address {
            claimed.push(socket);
        }
    }
    claimed
}

/// Ends all connections in order: what is in flight is answered, then they are closed.
///
/// # Errors
/// Connections did not end in time.
pub fn stop_ports(shared: &Shared, shards: usize, within: Duration) -> Result<()> {
    let left = Arc::new(AtomicUsize::new(shards));
    shared.tell_ports(|| {
        let left = left.clone();
        Box::new(Stop(Box::new(move || {
            left.fetch_sub(1, Ordering::AcqRel);
        })))
    });
    let deadline = Instant::now() + within;
    while left.load(Ordering::Acquire) > 0 {
        if Instant::now() > deadline {
            bail!("NBD connections did not end within {} s", within.as_secs());
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}
