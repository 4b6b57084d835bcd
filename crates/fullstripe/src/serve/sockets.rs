//! The sockets that a serving process answers on.

use super::ServeArgs;
use super::nbd::{self, Address, Listening};
use crate::api::ApiSocket;
use crate::api::socket_path::SocketPath;
use anyhow::{Result, bail};

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
    pub fn claim(args: &ServeArgs) -> Result<Sockets> {
        let path = SocketPath::choose(args.socket.as_deref());
        let api = ApiSocket::claim(&path)?;
        let addresses = match args.nbd.is_empty() {
            true => vec![Address::Unix(path.path.with_file_name("nbd.sock"))],
            false => args.nbd.clone(),
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
            .map(|address| nbd::listen(address, args.listen));
        Ok(Sockets {
            api,
            nbd: nbd.collect::<Result<Vec<Listening>>>()?,
        })
    }
}
