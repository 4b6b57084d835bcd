//! The sockets that a serving process answers on.

use super::nbd::{self, Address, Listening};
use super::options::ServeOptions;
use crate::api::ApiSocket;
use crate::api::socket_path::SocketPath;
use anyhow::{Result, bail};
use engine::units::VolumeId;

/// The sockets, made before anything is done to drives: one that cannot be made is no reason to stop an array that has
/// just been started. Who connects early waits until the array is served.
pub(super) struct Sockets {
    pub api: ApiSocket,
    pub nbd: Vec<Listening>,
}

impl Sockets {
    /// Makes them.
    ///
    /// # Errors
    /// One sentence about the socket that cannot be made.
    pub fn claim(options: &ServeOptions) -> Result<Sockets> {
        let path = SocketPath::choose(options.socket.as_deref());
        let api = ApiSocket::claim(&path)?;
        let addresses = match options.nbd.is_empty() {
            true => vec![Address::Unix(path.path.with_file_name("nbd.sock"))],
            false => options.nbd.clone(),
        };
        let twice = (1..addresses.len()).find(|&at| addresses[..at].contains(&addresses[at]));
        if let Some(at) = twice {
            bail!(
                "--nbd {} is given twice; name each address once",
                addresses[at]
            );
        }
        let nbd = addresses
            .iter()
            .map(|address| nbd::listen(address, options.anyone_may_connect));
        Ok(Sockets {
            api,
            nbd: nbd.collect::<Result<Vec<Listening>>>()?,
        })
    }
    /// Where clients find the volumes that are `started`.
    pub fn uris(&self, started: &[(VolumeId, String)]) -> Vec<String> {
        started
            .iter()
            .flat_map(|(_, name)| self.nbd.iter().map(move |one| one.uri(name)))
            .collect()
    }
}
