//! NBD as an export: where to listen, the properties of volumes for NBD clients, and one port per shard.

use super::kernel::KernelDevices;
use super::leaving::Leaving;
use super::left::Left;
use super::note::ListenerNote;
use super::server::{
    NbdLimits, NbdPort, NbdPortOptions, NewConnection, NewListener, NewOffer, Route, Stop,
    maximum_payload_bytes,
};
use super::tls::{self, TlsListener};
use super::{Abilities, BlockSizes, ExportList};
use crate::export::{
    Attached, Bind, Devices, Export, MakeExportPort, Messages, Offer, Place, Say, Share,
    Surroundings,
};
use crate::inherited::{Inherited, Named};
use crate::ports::AnyPort;
use crate::unix_socket::ClaimedSocket;
use anyhow::{Context, Result, anyhow, bail};
use engine::units::ShardId;
use rustls::ServerConfig;
use std::fmt;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener, ToSocketAddrs};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

const KIND: &str = "nbd";

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

/// Who may connect to TCP addresses, which have no owner as a Unix socket has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TcpClients {
    /// Nobody: a TCP address is refused.
    Nobody,
    /// Clients that use TLS and prove their identity. The folder has the files `ca-cert.pem`, `server-cert.pem` and
    /// `server-key.pem`.
    WithTls(PathBuf),
    /// Everybody who can reach the address.
    Everybody,
}

impl TcpClients {
    /// Of the choices of an operator, of which at most one is given.
    #[must_use]
    pub fn chosen(tls: Option<PathBuf>, insecure: bool) -> TcpClients {
        match tls {
            Some(folder) => TcpClients::WithTls(folder),
            None if insecure => TcpClients::Everybody,
            None => TcpClients::Nobody,
        }
    }
}

/// A listening socket.
struct Listening {
    /// The socket, until it is passed to a port.
    socket: Option<OwnedFd>,
    /// Another descriptor of it, for the next server.
    kept: Option<OwnedFd>,
    /// The address as the option has it.
    option: String,
    address: Bound,
}

enum Bound {
    Unix(ClaimedSocket),
    Tcp(SocketAddr),
    /// With the configuration, until clients are let in.
    Tls(SocketAddr, Option<Arc<ServerConfig>>),
}

/// Opens a listening socket. A TCP address is allowed only with TLS, or if everybody may connect: also on loopback, where
/// every user of the machine can, because NBD itself has no authentication.
///
/// # Errors
/// If the address is taken, not allowed, or does not exist, or if the files for TLS cannot be used.
fn listen(address: &Address, clients: &TcpClients, left: &mut Left) -> Result<Listening> {
    let option = address.to_string();
    match address {
        Address::Unix(path) => {
            let (claimed, socket) = match left.unix(&option, path) {
                Some(adopted) => adopted,
                None => {
                    let (claimed, socket) = ClaimedSocket::claim(path, "--nbd")?;
                    (claimed, socket.into())
                }
            };
            Listening::new(socket, option, Bound::Unix(claimed))
        }
        Address::Tcp(host) => {
            let address = host
                .to_socket_addrs()
                .with_context(|| format!("cannot resolve {host}"))?
                .next()
                .with_context(|| format!("{host} has no address"))?;
            let tls = match clients {
                TcpClients::Nobody => bail!(
                    "whoever can connect to {address} could read and write everything, because NBD has no passwords; give \
                     --tls FOLDER, so that clients need a certificate, or --insecure if this is what you want"
                ),
                TcpClients::WithTls(folder) => Some(tls::configuration(folder)?),
                TcpClients::Everybody => None,
            };
            let socket = match left.tcp(&option) {
                Some(socket) => socket,
                None => bind(address)?,
            };
            let address = socket.local_addr().unwrap_or(address);
            let bound = match tls {
                Some(tls) => Bound::Tls(address, Some(tls)),
                None => Bound::Tcp(address),
            };
            Listening::new(socket.into(), option, bound)
        }
    }
}

fn bind(address: SocketAddr) -> Result<TcpListener> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        ErrorKind::AddrInUse => anyhow!(
            "another process listens on {address}; stop it, or name another port with --nbd tcp:HOST:PORT"
        ),
        _ => anyhow!(error).context(format!("cannot listen on {address}")),
    })
}

impl Listening {
    fn new(socket: OwnedFd, option: String, address: Bound) -> Result<Listening> {
        let kept = socket.try_clone().context("cannot keep a socket")?;
        Ok(Listening {
            socket: Some(socket),
            kept: Some(kept),
            option,
            address,
        })
    }

    /// Leaves the socket and its file to the next server; `None` if this one has stopped listening.
    fn leave(self) -> Option<(ListenerNote, OwnedFd)> {
        let kept = self.kept?;
        let file = match self.address {
            Bound::Unix(claimed) => {
                let file = claimed.file();
                claimed.leave();
                file
            }
            Bound::Tcp(_) | Bound::Tls(..) => (0, 0),
        };
        let address = self.option;
        Some((ListenerNote { address, file }, kept))
    }

    /// The URI of an export at this address.
    fn uri(&self, export: &str) -> String {
        match &self.address {
            Bound::Unix(claimed) => {
                format!("nbd+unix:///{export}?socket={}", claimed.path().display())
            }
            Bound::Tcp(address) => format!("nbd://{address}/{export}"),
            Bound::Tls(address, _) => format!("nbds://{address}/{export}"),
        }
    }

    /// Lets clients in: shard 0 accepts connections and distributes them to all shards, and a thread those that need TLS.
    fn open(&mut self, messages: &Messages, say: &Say) -> Result<Option<TlsListener>> {
        let Some(socket) = self.socket.take() else {
            return Ok(None);
        };
        match &mut self.address {
            Bound::Tls(_, configuration) => {
                let configuration = configuration.take().expect("a socket is opened once");
                let (messages, say) = (messages.clone(), say.clone());
                TlsListener::start(socket.into(), configuration, messages, say).map(Some)
            }
            Bound::Unix(_) | Bound::Tcp(_) => {
                messages.to(ShardId(0), Box::new(NewListener(socket)));
                Ok(None)
            }
        }
    }
}

/// The volumes as an NBD server offers them.
pub struct NbdExport {
    listening: Vec<Listening>,
    with_tls: Vec<TlsListener>,
    offered: Arc<ExportList>,
    offers: Vec<Offer>,
    payload_bytes_max: u32,
    devices: KernelDevices,
    surroundings: Surroundings,
    left: Left,
    leaving: Leaving,
}

impl NbdExport {
    /// Listens at `addresses`, or at `nbd.sock` in the folder for sockets if there are none. `clients` says who may connect to
    /// TCP addresses. A drive that does not answer is failed after `deadline`. What the server before has left is taken over.
    #[must_use]
    pub fn bind(
        addresses: Vec<Address>,
        clients: TcpClients,
        deadline: Duration,
        inherited: Inherited,
    ) -> Bind {
        Bind {
            kind: KIND,
            is_needed: true,
            make: Box::new(move |surroundings| {
                let left = Left::read(inherited, &surroundings.say);
                let export = NbdExport::make(addresses, &clients, deadline, surroundings, left)?;
                Ok(Box::new(export))
            }),
        }
    }

    fn make(
        addresses: Vec<Address>,
        clients: &TcpClients,
        deadline: Duration,
        surroundings: &Surroundings,
        mut left: Left,
    ) -> Result<NbdExport> {
        let addresses = match addresses.is_empty() {
            true => vec![Address::Unix(surroundings.socket_folder.join("nbd.sock"))],
            false => addresses,
        };
        let twice = (1..addresses.len()).find(|&at| addresses[..at].contains(&addresses[at]));
        if let Some(at) = twice {
            bail!(
                "--nbd {} is given twice; name each address once",
                addresses[at]
            );
        }
        let wanted: Vec<_> = addresses.iter().map(Address::to_string).collect();
        left.close_listeners_except(&wanted);
        let listening = addresses.iter();
        let listening = listening.map(|address| listen(address, clients, &mut left));
        let listening = listening.collect::<Result<_>>()?;
        Ok(NbdExport {
            listening,
            with_tls: Vec::new(),
            offered: Arc::new(ExportList::new(Vec::new())?),
            offers: Vec::new(),
            payload_bytes_max: 0,
            devices: KernelDevices::new(deadline, surroundings.say.clone()),
            surroundings: surroundings.clone(),
            left,
            leaving: Leaving::default(),
        })
    }

    /// Goes on with the clients of the server before, but not with those that could not connect to this one.
    fn take_clients(&mut self, messages: &Messages) {
        self.left.begin();
        let mut addresses = self.listening.iter().map(|one| &one.address);
        if !addresses.any(|address| matches!(address, Bound::Tcp(_))) {
            self.left.close_tcp_clients(&self.surroundings.say);
        }
        let clients = self.left.clients(&self.offers, &self.surroundings.say);
        for (client, shard) in clients.into_iter().zip((0..messages.shards()).cycle()) {
            let connection = NewConnection {
                session: Some(client.note.session),
                ..NewConnection::new(client.socket)
            };
            messages.to(ShardId(shard), Box::new(connection));
        }
    }

    fn stop_accepting_tls(&mut self) {
        self.with_tls
            .iter_mut()
            .for_each(TlsListener::stop_accepting);
    }

    fn stop_ports(&mut self, messages: &Messages, ended: &Arc<dyn Fn() + Send + Sync>) {
        messages.to_all(|| {
            let ended = ended.clone();
            Box::new(Stop(Box::new(move || ended())))
        });
    }

    /// The volumes as a list of NBD exports.
    fn list(&self, offers: &[Offer]) -> Result<ExportList> {
        let most = self.payload_bytes_max;
        let export = |offer: &Offer| {
            let row_bytes = offer.row_bytes.next_power_of_two().min(u64::from(most)) as u32;
            super::Export {
                name: offer.name.clone(),
                description: offer.description.clone(),
                size_bytes: offer.size_bytes,
                block_sizes: BlockSizes {
                    minimum_bytes: offer.block_bytes,
                    preferred_bytes: row_bytes.clamp(4096, 1 << 20),
                    maximum_payload_bytes: most.max(1 << 20),
                },
                abilities: Abilities {
                    read_only: offer.read_only,
                    flush: true,
                    fua: true,
                    trim: offer.discards,
                    write_zeroes: true,
                    fast_zero: offer.discards,
                    multi_conn: true,
                },
            }
        };
        Ok(ExportList::new(offers.iter().map(export).collect())?)
    }
}

impl Export for NbdExport {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn addresses(&self, volume: &str) -> Vec<String> {
        self.listening.iter().map(|one| one.uri(volume)).collect()
    }

    fn prepare(&mut self, offers: &[Offer], share: Share) -> Result<()> {
        self.payload_bytes_max = maximum_payload_bytes(share.pool_bytes);
        self.offered = Arc::new(self.list(offers)?);
        self.offers = offers.to_vec();
        Ok(())
    }

    fn ports(&self) -> MakeExportPort {
        let exports = self.offered.clone();
        let volumes: Vec<_> = self.offers.iter().map(|offer| offer.volume).collect();
        let say = self.surroundings.say.clone();
        Arc::new(move |place: Place| {
            let say = say.clone();
            let port = NbdPort::new(NbdPortOptions {
                exports: exports.clone(),
                volumes: volumes.clone(),
                pool: place.pool,
                listeners: Vec::new(),
                route: Route::round_robin(place.shards, place.shard),
                on_problem: Box::new(move |problem| say(problem)),
                limits: NbdLimits::default(),
            })?;
            Ok(AnyPort::Nbd(port))
        })
    }

    fn open(&mut self, messages: &Messages, _: &[String]) -> Result<()> {
        self.take_clients(messages);
        let say = &self.surroundings.say;
        for one in &mut self.listening {
            self.with_tls.extend(one.open(messages, say)?);
        }
        Ok(())
    }

    fn renew(&mut self, offers: &[Offer], messages: &Messages) {
        let list = self.list(offers);
        let list = list.expect("a renewed offer has the valid names and sizes of the first");
        if list != *self.offered {
            self.offered = Arc::new(list);
            messages.to_all(|| Box::new(NewOffer(self.offered.clone())));
        }
        self.devices.mend(messages);
    }

    /// Devices first: a port that stops answers new requests with an error, which the kernel would take for one of the disk.
    fn stop(&mut self, messages: &Messages, ended: &Arc<dyn Fn() + Send + Sync>) {
        self.devices.stop();
        self.listening.iter_mut().for_each(|one| one.kept = None);
        self.stop_accepting_tls();
        self.stop_ports(messages, ended);
    }

    /// Clients with TLS are ended: the keys of their encryption are in this process.
    fn hand_over(&mut self, messages: &Messages, ended: &Arc<dyn Fn() + Send + Sync>) {
        self.devices.leave();
        self.stop_accepting_tls();
        self.leaving.begin(messages);
        self.stop_ports(messages, ended);
    }

    fn handed_over(&mut self) -> Result<Vec<Named>> {
        let listening = std::mem::take(&mut self.listening).into_iter();
        let listening = listening.filter_map(Listening::leave).collect();
        let (named, too_many) = self.leaving.take(listening, &self.offers)?;
        let say = &self.surroundings.say;
        too_many.sentences().iter().for_each(|one| say(one));
        Ok(named)
    }

    fn devices(&mut self) -> Option<&mut dyn Devices> {
        Some(self)
    }
}

/// By the kernel's NBD client.
impl Devices for NbdExport {
    fn take_over(&mut self, offer: &Offer, messages: &Messages) -> Result<()> {
        self.left.begin();
        let left = self.left.of_device(offer);
        self.devices.take_over(offer, left, messages)
    }

    fn attach(&mut self, offer: &Offer, messages: &Messages) -> Result<Attached> {
        self.devices.attach(offer, messages)
    }

    fn detach(&mut self, volume: &str) -> Result<()> {
        self.devices.detach(volume)
    }

    fn attached(&self) -> Vec<Attached> {
        self.devices.attached()
    }
}
