//! What this server leaves to the next: the sockets that it listens on, the connections that its ports have handed over, and
//! the note about all of them.

use super::left::written;
use super::note::{CONNECTIONS_MAX, ConnectionNote, Kept, LISTENERS_MAX, ListenerNote, Note};
use super::server::{HandOver, HandedOver};
use crate::export::{Messages, Offer};
use crate::inherited::Named;
use anyhow::Result;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

/// What is too much for a note, and is closed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TooMany {
    pub listeners: usize,
    pub connections: usize,
}

impl TooMany {
    /// A sentence for each kind of which there are too many.
    pub fn sentences(self) -> Vec<String> {
        let of_listeners = (self.listeners > 0).then(|| {
            format!(
                "{} NBD addresses are closed until the next server listens there: a server hands {LISTENERS_MAX} over at most",
                self.listeners
            )
        });
        let of_connections = (self.connections > 0).then(|| {
            format!(
                "{} NBD clients have to connect again: a server hands {CONNECTIONS_MAX} connections over at most",
                self.connections
            )
        });
        of_listeners.into_iter().chain(of_connections).collect()
    }
}

/// Keeps as many as fit, and returns how many were too many.
fn truncate<T>(all: &mut Vec<T>, most: usize) -> usize {
    let too_many = all.len().saturating_sub(most);
    all.truncate(most);
    too_many
}

/// The connections that the ports have handed over so far.
#[derive(Clone, Default)]
pub(super) struct Leaving(Arc<Mutex<Vec<HandedOver>>>);

impl Leaving {
    /// Has all ports hand their connections over.
    pub fn begin(&self, messages: &Messages) {
        messages.to_all(|| {
            let leaving = self.0.clone();
            Box::new(HandOver(Box::new(move |connection| {
                let mut all = leaving.lock().unwrap_or_else(PoisonError::into_inner);
                all.push(connection);
            })))
        });
    }

    /// The descriptors for the next server, and how many there were too many.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn take(
        &self,
        mut listeners: Vec<(ListenerNote, OwnedFd)>,
        offers: &[Offer],
    ) -> Result<(Vec<Named>, TooMany)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connections = std::mem::take(&mut *all);
        let too_many = TooMany {
            listeners: truncate(&mut listeners, LISTENERS_MAX),
            connections: truncate(&mut connections, CONNECTIONS_MAX),
        };
        let mut note = Note::default();
        let mut named = Vec::new();
        for (at, (listener, socket)) in listeners.into_iter().enumerate() {
            note.listeners.push(listener);
            named.push((Kept::Listener(at).name(), socket));
        }
        for (at, connection) in connections.into_iter().enumerate() {
            let of = |offer: &&Offer| Some(offer.volume) == connection.volume;
            let offer = offers.iter().find(of);
            note.connections.push(ConnectionNote {
                volume: offer.map_or([0; 16], |offer| offer.identity),
                is_kernels: connection.is_kernels,
                session: connection.session,
            });
            named.push((Kept::Connection(at).name(), connection.socket));
        }
        named.push((Kept::Note.name(), written(&note)?));
        Ok((named, too_many))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nbd::note::NOTE_NAME;

    #[test]
    fn addresses_that_are_too_many_are_closed() {
        let listener = |at| {
            let note = ListenerNote {
                address: format!("tcp:127.0.0.1:{at}"),
                file: (0, 0),
            };
            (note, OwnedFd::from(tempfile::tempfile().unwrap()))
        };
        let listeners = (0..LISTENERS_MAX + 2).map(listener).collect();
        let (named, too_many) = Leaving::default().take(listeners, &[]).unwrap();
        assert_eq!(named.len(), LISTENERS_MAX + 1);
        assert_eq!(named.last().unwrap().0, NOTE_NAME);
        assert_eq!(
            too_many.sentences(),
            [
                "2 NBD addresses are closed until the next server listens there: a server hands 64 over at most"
            ]
        );
        assert!(TooMany::default().sentences().is_empty());
    }
}
