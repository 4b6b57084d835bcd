//! What the server before has left: its listening sockets and its clients' connections, with the note about them. The
//! service manager has kept all of it.
//!
//! What fits is taken over, and what does not is closed, with a sentence in the log. The manager keeps its own copies until
//! the first connection is served ([`Left::begin`]): from then on the note is outdated. A process that fails before, while it
//! looks for its drives for instance, so leaves everything to the next.
//!
//! A socket that is closed is shut down first. That ends it for the manager's copy, too: a listening socket would otherwise
//! keep its address until the manager has closed it.

use super::frozen::{Frozen, ThawError};
use super::note::{ConnectionNote, Kept, ListenerNote, Note};
use super::server::Problem;
use crate::export::{Offer, Say};
use crate::inherited::{Forget, Inherited, Named};
use crate::unix_socket::ClaimedSocket;
use anyhow::{Context, Result, bail};
use rustix::net::sockopt::socket_acceptconn;
use rustix::net::{AddressFamily, Shutdown};
use std::collections::HashSet;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;

/// More than a note with the most entries and usual names has.
const NOTE_BYTES_MAX: u64 = 16 << 20;

/// A connection of the server before.
pub(super) struct LeftConnection {
    pub note: ConnectionNote,
    pub socket: OwnedFd,
}

/// See the module's documentation.
pub(super) struct Left {
    listeners: Vec<(ListenerNote, Named)>,
    connections: Vec<LeftConnection>,
    /// What the service manager still keeps.
    names: Vec<String>,
    forget: Forget,
}

impl Left {
    /// Reads the note and sorts the descriptors. If the note cannot be used, all of them are closed.
    pub fn read(inherited: Inherited, say: &Say) -> Left {
        let Inherited {
            descriptors,
            forget,
        } = inherited;
        let ours = |(name, _): &Named| Kept::named(name).is_some();
        let descriptors: Vec<Named> = descriptors.into_iter().filter(ours).collect();
        let mut left = Left {
            listeners: Vec::new(),
            connections: Vec::new(),
            names: descriptors.iter().map(|(name, _)| name.clone()).collect(),
            forget,
        };
        if descriptors.is_empty() {
            return left;
        }
        match read_note(&descriptors) {
            Ok(note) => left.sort(note, descriptors),
            Err(error) => {
                descriptors
                    .into_iter()
                    .for_each(|(_, descriptor)| end(descriptor));
                left.begin();
                say(&format_args!(
                    "the sockets of the server before are closed, and its NBD clients have to connect again: the note about \
                     them cannot be used: {error:#}"
                ));
            }
        }
        left
    }

    fn sort(&mut self, note: Note, descriptors: Vec<Named>) {
        for (name, descriptor) in descriptors {
            match Kept::named(&name) {
                Some(Kept::Listener(at)) => {
                    let entry = note.listeners.get(at).cloned();
                    let listener = entry.map(|entry| (entry, (name, descriptor)));
                    self.listeners.extend(listener);
                }
                Some(Kept::Connection(at)) => {
                    let entry = note.connections.get(at).cloned();
                    self.connections.extend(entry.map(|note| LeftConnection {
                        note,
                        socket: descriptor,
                    }));
                }
                Some(Kept::Note) | None => {}
            }
        }
    }

    /// The listening socket of this address, if it is what the note says.
    fn listener(&mut self, address: &str) -> Option<(ListenerNote, Named)> {
        let mut listeners = self.listeners.iter();
        let at = listeners.position(|(note, _)| note.address == address)?;
        let (note, (name, socket)) = self.listeners.swap_remove(at);
        if socket_acceptconn(&socket) == Ok(true) {
            return Some((note, (name, socket)));
        }
        self.close((name, socket));
        None
    }

    /// The Unix socket of this address, if its file still leads to it.
    pub fn unix(&mut self, address: &str, path: &Path) -> Option<(ClaimedSocket, OwnedFd)> {
        let (note, (name, socket)) = self.listener(address)?;
        match ClaimedSocket::adopt(path, note.file) {
            Some(claimed) => Some((claimed, socket)),
            None => {
                self.close((name, socket));
                None
            }
        }
    }

    /// The TCP socket of this address.
    pub fn tcp(&mut self, address: &str) -> Option<TcpListener> {
        let (_, (_, socket)) = self.listener(address)?;
        Some(socket.into())
    }

    /// Closes the listening sockets of addresses that are not `wanted`. To be called before this server listens anywhere: an
    /// address that is wanted may be one of these, written in another way.
    pub fn close_listeners_except(&mut self, wanted: &[String]) {
        let is_unwanted = |(note, _): &mut (ListenerNote, Named)| !wanted.contains(&note.address);
        let unwanted: Vec<_> = self.listeners.extract_if(.., is_unwanted).collect();
        unwanted
            .into_iter()
            .for_each(|(_, named)| self.close(named));
    }

    fn close(&mut self, (name, socket): Named) {
        end(socket);
        self.names.retain(|one| *one != name);
        (self.forget)(&name);
    }

    /// To be called before anything is done with a connection: no other process gets it from now on.
    pub fn begin(&mut self) {
        for name in self.names.drain(..) {
            (self.forget)(&name);
        }
    }

    /// The connections of the volume's block device.
    pub fn of_device(&mut self, offer: &Offer) -> Vec<LeftConnection> {
        let is_of_device =
            |one: &mut LeftConnection| one.note.is_kernels && one.note.volume == offer.identity;
        let mut found: Vec<_> = self.connections.extract_if(.., is_of_device).collect();
        found.iter_mut().for_each(|one| one.rename(offer));
        found
    }

    /// Disconnects the clients that have come over TCP without TLS: this server lets in nobody in this way.
    pub fn close_tcp_clients(&mut self, say: &Say) {
        let all = &mut self.connections;
        for _ in all.extract_if(.., |one| !one.note.is_kernels && is_tcp(&one.socket)) {
            say(
                &"an NBD client of the server before was disconnected: this server lets nobody in over TCP without TLS",
            );
        }
    }

    /// The connections of all clients but the kernel. A client of a volume that is gone is disconnected.
    pub fn clients(&mut self, offers: &[Offer], say: &Say) -> Vec<LeftConnection> {
        let mut all = std::mem::take(&mut self.connections);
        all.retain_mut(|one| {
            let Frozen::Transmission(session) = &one.note.session else {
                return true;
            };
            let offer = offers
                .iter()
                .find(|offer| offer.identity == one.note.volume);
            match offer {
                Some(offer) => one.rename(offer),
                None => say(&Problem::NotTakenOver(ThawError::Gone {
                    export: session.export.clone(),
                })),
            }
            // Connections of a device that has been given up meanwhile lead nowhere.
            offer.is_some() && !one.note.is_kernels
        });
        all
    }
}

impl LeftConnection {
    /// The volume may have another name by now.
    fn rename(&mut self, offer: &Offer) {
        if let Frozen::Transmission(session) = &mut self.note.session {
            session.export.clone_from(&offer.name);
        }
    }
}

fn is_tcp(socket: &OwnedFd) -> bool {
    let families = [AddressFamily::INET, AddressFamily::INET6];
    rustix::net::getsockname(socket)
        .is_ok_and(|address| families.contains(&address.address_family()))
}

/// Closes a socket, and ends it for all other descriptors of it.
fn end(socket: OwnedFd) {
    // It fails only if there is nothing to end: the other end has gone, or it is the note, which is no socket.
    let _ = rustix::net::shutdown(&socket, Shutdown::Both);
}

/// The note, if each descriptor belongs to it: of names that occur twice, one is older than the note.
fn read_note(descriptors: &[Named]) -> Result<Note> {
    let mut names = HashSet::new();
    if let Some((name, _)) = descriptors.iter().find(|(name, _)| !names.insert(name)) {
        bail!("the service manager has kept two descriptors named {name}");
    }
    let named = |(name, _): &&Named| Kept::named(name) == Some(Kept::Note);
    let Some((_, note)) = descriptors.iter().find(named) else {
        bail!("it is missing");
    };
    let mut file = File::from(note.try_clone()?);
    file.seek(SeekFrom::Start(0))?;
    let mut bytes = Vec::new();
    let length = file.take(NOTE_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if length as u64 > NOTE_BYTES_MAX {
        bail!("it has more than {NOTE_BYTES_MAX} bytes");
    }
    Ok(Note::from_bytes(&bytes)?)
}

/// A file in memory with the note.
///
/// # Errors
/// The system lacks memory or descriptors.
pub(super) fn written(note: &Note) -> Result<OwnedFd> {
    let what = "cannot write the note about NBD connections";
    let flags = rustix::fs::MemfdFlags::CLOEXEC;
    let file = rustix::fs::memfd_create("fullstripe-nbd-note", flags).context(what)?;
    let mut file = File::from(file);
    file.write_all(&note.to_bytes()).context(what)?;
    Ok(file.into())
}

#[cfg(test)]
mod tests;
