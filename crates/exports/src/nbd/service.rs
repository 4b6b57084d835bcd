//! NBD as an export: where to listen, the properties of volumes for NBD clients, and one port per shard.

use super::kernel::KernelDevices;
use super::server::{
    NbdLimits, NbdPort, NbdPortOptions, NewListener, NewOffer, Route, Stop, maximum_payload_bytes,
};
use super::{Abilities, BlockSizes, ExportList};
use crate::export::{
    Attached, Bind, Devices, Export, MakeExportPort, Messages, Offer, Place, Surroundings,
};
use crate::ports::AnyPort;
use crate::unix_socket::ClaimedSocket;
use anyhow::{Context, Result, anyhow, bail};
use engine::units::ShardId;
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

/// A listening socket.
#[derive(Debug)]
struct Listening {
    /// The socket, until it is passed to a port.
    socket: Option<OwnedFd>,
    address: Bound,
}

#[derive(Debug)]
enum Bound {
    Unix(ClaimedSocket),
    Tcp(SocketAddr),
}

/// Opens a listening socket. A TCP address beyond loopback is allowed only if `anyone` may connect, because NBD has no
/// authentication.
///
/// # Errors
/// If the address is taken, not allowed, or does not exist.
fn listen(address: &Address, anyone: bool) -> Result<Listening> {
    match address {
        Address::Unix(path) => {
            let (claimed, socket) = ClaimedSocket::claim(path, "--nbd")?;
            Ok(Listening {
                socket: Some(socket.into()),
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
                    "{address} can be reached from other machines and NBD has no authentication; --listen allows it"
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
                socket: Some(socket.into()),
                address: Bound::Tcp(address),
            })
        }
    }
}

impl Listening {
    /// The URI of an export at this address.
    fn uri(&self, export: &str) -> String {
        match &self.address {
            Bound::Unix(claimed) => {
                format!("nbd+unix:///{export}?socket={}", claimed.path().display())
            }
            Bound::Tcp(address) => format!("nbd://{address}/{export}"),
        }
    }
}

/// The volumes as an NBD server offers them.
pub struct NbdExport {
    listening: Vec<Listening>,
    offered: Arc<ExportList>,
    offers: Vec<Offer>,
    payload_bytes_max: u32,
    devices: KernelDevices,
    surroundings: Surroundings,
}

impl NbdExport {
    /// Listens at `addresses`, or at `nbd.sock` in the folder for sockets if there are none. Addresses that other
    /// machines can reach are allowed only if `anyone` may connect. A drive that does not answer is failed after
    /// `deadline`.
    #[must_use]
    pub fn bind(addresses: Vec<Address>, anyone: bool, deadline: Duration) -> Bind {
        Bind {
            kind: KIND,
            is_needed: true,
            make: Box::new(move |surroundings| {
                let export = NbdExport::make(addresses, anyone, deadline, surroundings)?;
                Ok(Box::new(export))
            }),
        }
    }

    fn make(
        addresses: Vec<Address>,
        anyone: bool,
        deadline: Duration,
        surroundings: &Surroundings,
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
        let listening = addresses.iter().map(|address| listen(address, anyone));
        Ok(NbdExport {
            listening: listening.collect::<Result<_>>()?,
            offered: Arc::new(ExportList::new(Vec::new())?),
            offers: Vec::new(),
            payload_bytes_max: 0,
            devices: KernelDevices::new(deadline, surroundings.say.clone()),
            surroundings: surroundings.clone(),
        })
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

    fn prepare(&mut self, offers: &[Offer], pool_bytes: u64) -> Result<()> {
        self.payload_bytes_max = maximum_payload_bytes(pool_bytes);
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

    /// Shard 0 accepts connections and distributes them to all shards.
    fn open(&mut self, messages: &Messages, _: &[String]) -> Result<()> {
        let sockets = self
            .listening
            .iter_mut()
            .filter_map(|one| one.socket.take());
        sockets.for_each(|socket| messages.to(ShardId(0), Box::new(NewListener(socket))));
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
        messages.to_all(|| {
            let ended = ended.clone();
            Box::new(Stop(Box::new(move || ended())))
        });
    }

    fn devices(&mut self) -> Option<&mut dyn Devices> {
        Some(self)
    }
}

/// By the kernel's NBD client.
impl Devices for NbdExport {
    fn take_over(&mut self, offer: &Offer, messages: &Messages) -> Result<()> {
        self.devices.take_over(offer, messages)
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
