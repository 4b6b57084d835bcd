//! What this server leaves to the next: the sockets that it listens on, the connections that its ports have handed over, and
//! the note about all of them.

use super::left::written;
use super::note::{CONNECTIONS_MAX, ConnectionNote, Kept, ListenerNote, Note};
use super::server::{HandOver, HandedOver};
use crate::export::{Messages, Offer};
use crate::inherited::Named;
use anyhow::Result;
use std::os::fd::OwnedFd;
use std::sync::{Arc, Mutex, PoisonError};

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

    /// The descriptors for the next server, and how many connections were too many.
    ///
    /// # Errors
    /// The note cannot be written.
    pub fn take(
        &self,
        listeners: Vec<(ListenerNote, OwnedFd)>,
        offers: &[Offer],
    ) -> Result<(Vec<Named>, usize)> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut connections = std::mem::take(&mut *all);
        let too_many = connections.len().saturating_sub(CONNECTIONS_MAX);
        connections.truncate(CONNECTIONS_MAX);
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
