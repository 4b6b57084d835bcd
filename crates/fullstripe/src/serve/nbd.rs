//! Offering the volumes over NBD: where to listen, what the exports promise, and one port per shard.

use super::announcer::Announcer;
use super::runtime::{MakePort, Shared, lock};
use anyhow::{Context, Result, bail};
use drives::mailbox::MailSender;
use engine::control::record::Record;
use engine::units::{ShardId, VolumeId};
use exports::nbd::server::{
    NbdLimits, NbdPort, NbdPortOptions, NewListener, Stop, maximum_payload_bytes, round_robin,
};
use exports::nbd::{Abilities, BlockSizes, Export, ExportList};
use std::io::{ErrorKind, Read};
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// A killed process's socket is gone after so long.
const GONE_WITHIN: Duration = Duration::from_secs(5);
/// A server that is there greets sooner, unless it is busy.
const GREETS_WITHIN: Duration = Duration::from_secs(1);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// Where clients connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A Unix socket.
    Unix(PathBuf),
    /// A TCP port.
    Tcp(String),
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

#[derive(Clone, Debug)]
enum Bound {
    Unix(PathBuf),
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
            let socket = listen_unix(path)?;
            let path = std::path::absolute(path).unwrap_or_else(|_| path.clone());
            Ok(Listening {
                socket: socket.into(),
                address: Bound::Unix(path),
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
            let socket = TcpListener::bind(address)
                .with_context(|| format!("cannot listen on {address}"))?;
            let address = socket.local_addr().unwrap_or(address);
            Ok(Listening {
                socket: socket.into(),
                address: Bound::Tcp(address),
            })
        }
    }
}

/// Whether a process answers at a socket. That of a killed one takes connections until the kernel has taken the
/// process's rings apart, and ends them without a word; a server of NBD speaks first.
fn somebody_answers(path: &Path) -> bool {
    let give_up = Instant::now() + GONE_WITHIN;
    while let Ok(mut stream) = UnixStream::connect(path) {
        let _ = stream.set_read_timeout(Some(GREETS_WITHIN));
        // Silence is somebody who is busy.
        let is_ended = match stream.read(&mut [0]) {
            Ok(bytes) => bytes == 0,
            Err(error) => error.kind() == ErrorKind::ConnectionReset,
        };
        if !is_ended || Instant::now() >= give_up {
            return true;
        }
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
    false
}

/// Binds a Unix socket that only its owner may use; a socket that a dead process left is replaced.
///
/// # Errors
/// Somebody answers there, or something else than a socket is in the way.
pub fn listen_unix(path: &Path) -> Result<UnixListener> {
    if let Ok(found) = std::fs::symlink_metadata(path) {
        if !found.file_type().is_socket() {
            bail!(
                "{} exists and is not a socket; name another path",
                path.display()
            );
        }
        if somebody_answers(path) {
            bail!(
                "another process answers at {}; stop it or name another path",
                path.display()
            );
        }
        std::fs::remove_file(path).with_context(|| format!("cannot replace {}", path.display()))?;
    }
    if let Some(folder) = path
        .parent()
        .filter(|folder| !folder.as_os_str().is_empty())
    {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
    }
    let socket =
        UnixListener::bind(path).with_context(|| format!("cannot listen on {}", path.display()))?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .with_context(|| format!("cannot protect {}", path.display()))?;
    Ok(socket)
}

impl Listening {
    /// The URI of an export at this address.
    #[must_use]
    pub fn uri(&self, export: &str) -> String {
        match &self.address {
            Bound::Unix(path) => format!("nbd+unix:///{export}?socket={}", path.display()),
            Bound::Tcp(address) => format!("nbd://{address}/{export}"),
        }
    }

    /// What the address leaves in the file system.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &self.address {
            Bound::Unix(path) => Some(path),
            Bound::Tcp(_) => None,
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
        let volume = &record.volumes[usize::from(id.0)];
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
                trim: true,
                write_zeroes: true,
                fast_zero: true,
                multi_conn: true,
            },
        }
    };
    Ok(ExportList::new(started.iter().map(export).collect())?)
}

/// A factory of ports for [`super::runtime::Runtime::start`]; `volumes` are those behind the `exports`. Listeners are given to shard 0's port later,
/// by [`start_listening`].
#[must_use]
pub(super) fn ports(
    exports: ExportList,
    volumes: Vec<VolumeId>,
    peers: Arc<Mutex<Vec<MailSender>>>,
    announcer: Arc<Announcer>,
) -> MakePort<NbdPort> {
    let exports = Arc::new(exports);
    Arc::new(move |shard: ShardId, pool| {
        let (peers, announcer) = (peers.clone(), announcer.clone());
        // The mailboxes of all shards are known only once all of them exist.
        let mut route = None;
        let port = NbdPort::new(NbdPortOptions {
            exports: exports.clone(),
            volumes: volumes.clone(),
            pool,
            listeners: Vec::new(),
            route: Box::new(move |socket| {
                route.get_or_insert_with(|| round_robin(lock(&peers).clone(), shard.0 as usize))(
                    socket,
                )
            }),
            on_problem: Box::new(move |problem| announcer.say(problem)),
            limits: NbdLimits::default(),
        })?;
        Ok(port)
    })
}

/// Lets shard 0 accept connections and deal them to all shards.
pub fn start_listening(shared: &Shared, listening: Vec<Listening>) {
    for one in listening {
        shared.tell_port(0, Box::new(NewListener(one.socket)));
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A listener at a path for so long, which treats each connection as told.
    fn answers(path: &Path, for_ms: u64, with: fn(UnixStream)) -> std::thread::JoinHandle<()> {
        let listener = UnixListener::bind(path).unwrap();
        listener.set_nonblocking(true).unwrap();
        let end = Instant::now() + Duration::from_millis(for_ms);
        std::thread::spawn(move || {
            while Instant::now() < end {
                if let Ok((stream, _)) = listener.accept() {
                    with(stream);
                }
                std::thread::sleep(Duration::from_millis(1));
            }
        })
    }

    #[test]
    fn the_socket_of_a_process_that_is_going_is_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nbd");
        let going = answers(&path, 300, drop);
        let mine = listen_unix(&path).unwrap();
        going.join().unwrap();
        let _ours = UnixStream::connect(&path).unwrap();
        assert!(mine.accept().is_ok());
    }

    #[test]
    fn who_greets_or_says_nothing_keeps_its_socket() {
        let greet: fn(UnixStream) = |mut stream| drop(stream.write_all(b"NBDMAGIC"));
        let say_nothing: fn(UnixStream) = |stream| {
            std::thread::sleep(2 * GREETS_WITHIN);
            drop(stream);
        };
        for with in [greet, say_nothing] {
            let folder = tempfile::tempdir().unwrap();
            let path = folder.path().join("nbd");
            let other = answers(&path, 200, with);
            let error = listen_unix(&path).unwrap_err().to_string();
            assert!(error.contains("another process answers"), "{error}");
            other.join().unwrap();
        }
    }
}
