//! What an export is: one way for clients to reach the volumes of an array. NBD is one ([`crate::nbd::service`]).
//!
//! An export has two sides. The process's threads hold an [`Export`], and call it in this order. [`Bind`] makes sockets
//! or devices before anything is done to drives, and fails if it cannot. The export is [prepared](Export::prepare) for
//! the volumes, and makes an [`AnyPort`] for each shard ([`Export::ports`]). When the array can be used the export takes over what an earlier process has left, is
//! [opened](Export::open), and [renewed](Export::renew) whenever an [`Offer`] changes; an export with [`Devices`] may now
//! be told to attach and detach volumes. Finally it is [stopped](Export::stop), which ends when all requests of clients
//! are answered. The shards' side is the port: it turns what clients send into requests, without a dynamic call for each
//! of them, and counts ([`Statistics`]). The export sends messages to its ports ([`Messages`]).
//!
//! Payload memory belongs to the port. A port that uses memory of its own takes it from [`Place::pool`]. A port whose
//! clients bring the memory (a ring of the kernel, a guest) does not use the pool. Either way the port says of every
//! buffer whether it owns it ([`crate::ports::ExportPort::owns`]).

use crate::inherited::Named;
use crate::ports::{AnyPort, ToPort};
use anyhow::Result;
use drives::arena::Pool;
use drives::mailbox::{Mail, MailSender};
use drives::port::PortNumber;
use engine::units::{ShardId, VolumeId};
use std::any::Any;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

/// One volume as it is described to clients, whatever their protocol.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The engine's volume.
    pub volume: VolumeId,
    /// The name by which clients request it.
    pub name: String,
    /// The volume's UUID: no other volume has it.
    pub identity: [u8; 16],
    /// A description for people.
    pub description: String,
    /// The size in bytes that clients see.
    pub size_bytes: u64,
    /// The smallest unit of a request.
    pub block_bytes: u32,
    /// Bytes of a member that follow each other in the volume.
    pub chunk_bytes: u32,
    /// Bytes of a row of the array: requests of whole rows are the fastest.
    pub row_bytes: u64,
    /// Whether writes are refused.
    pub read_only: bool,
    /// Whether space can be returned to the drives, and zeroing writes no data.
    pub discards: bool,
}

/// Says a sentence.
pub type Say = Arc<dyn Fn(&dyn Display) + Send + Sync>;

/// What the process provides to an export.
#[derive(Clone)]
pub struct Surroundings {
    /// Where sockets lie unless the user names a path.
    pub socket_folder: PathBuf,
    /// Says a sentence to the user. Shards call it too, so it must not block.
    pub say: Say,
}

/// An export that is to be made. This happens before anything is done to drives, so that an export that cannot be made
/// does not stop an array that has just been started.
pub struct Bind {
    /// See [`Export::kind`].
    pub kind: &'static str,
    /// Whether the array is served only with it.
    pub is_needed: bool,
    /// Makes the socket or device that clients connect to. A client that connects before the export is opened waits.
    pub make: MakeExport,
}

/// Makes an export, or says in a sentence why it cannot be made.
pub type MakeExport = Box<dyn FnOnce(&Surroundings) -> Result<Box<dyn Export>> + Send>;

/// The shard for which a port is made.
pub struct Place {
    /// The shard.
    pub shard: ShardId,
    /// How many shards there are.
    pub shards: u8,
    /// Payload memory of the shard that only this export uses.
    pub pool: Pool,
}

/// The payload memory that an export gets on each shard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    /// How much each [`Place::pool`] will have, rounded down to whole pages.
    pub pool_bytes: u64,
    /// How many exports have as much.
    pub exports: usize,
}

/// One way for clients to reach volumes: see the module's documentation.
pub trait Export: Send {
    /// Its name in statistics: `nbd`.
    fn kind(&self) -> &'static str;

    /// Where clients find a volume, besides its block device: one text for each address.
    fn addresses(&self, volume: &str) -> Vec<String>;

    /// Prepares for the volumes that are started.
    ///
    /// # Errors
    /// If a volume cannot be offered in this way.
    fn prepare(&mut self, offers: &[Offer], share: Share) -> Result<()>;

    /// Returns a function that makes the port of a shard; it is called once on each shard's thread.
    fn ports(&self) -> MakeExportPort;

    /// Lets clients in. Before this, all exports have [taken over](Devices::take_over) what was left; the volumes in
    /// `attached` are block devices already.
    ///
    /// # Errors
    /// If the system refuses something.
    fn open(&mut self, messages: &Messages, attached: &[String]) -> Result<()>;

    /// The offers have changed, but only in [`Offer::read_only`] and [`Offer::discards`]: clients that connect from now
    /// on see the new ones.
    fn renew(&mut self, offers: &[Offer], messages: &Messages);

    /// Accepts no new clients, and ends the present ones in order: their requests are answered first. `ended` is called
    /// once for each shard, on its thread, when nothing of the export is left there.
    fn stop(&mut self, messages: &Messages, ended: &Arc<dyn Fn() + Send + Sync>);

    /// As [`Export::stop`], for a process that another one follows at once: clients that can go on with it keep their
    /// connections, and their requests wait.
    fn hand_over(&mut self, messages: &Messages, ended: &Arc<dyn Fn() + Send + Sync>) {
        self.stop(messages, ended);
    }

    /// What the next process gets, once [`Export::hand_over`] has ended on all shards and the data threads are gone.
    ///
    /// # Errors
    /// The system refuses something; then nothing is left to the next process.
    fn handed_over(&mut self) -> Result<Vec<Named>> {
        Ok(Vec::new())
    }

    /// The way to make volumes block devices, if this export has one.
    fn devices(&mut self) -> Option<&mut dyn Devices> {
        None
    }
}

/// Makes volumes block devices of this machine.
pub trait Devices {
    /// Takes the device of a volume over, if an earlier process has left one. Called before any client is let in: what
    /// clients write before that could be overwritten by requests that wait.
    ///
    /// # Errors
    /// Why not; then the device stays as it is.
    fn take_over(&mut self, offer: &Offer, messages: &Messages) -> Result<()>;

    /// Makes a volume a block device. It may take as long as drives need to answer, because the kernel reads the table of
    /// partitions.
    ///
    /// # Errors
    /// Why not; then the volume is not attached.
    fn attach(&mut self, offer: &Offer, messages: &Messages) -> Result<Attached>;

    /// Removes the block device of a volume.
    ///
    /// # Errors
    /// The volume has none; it is in use, and stays; the kernel refuses.
    fn detach(&mut self, volume: &str) -> Result<()>;

    /// The device of this volume, if there is one, stays when the export is stopped, whether anybody uses it or not: another
    /// machine may, of which the kernel does not tell. Only devices of ublk are for other machines.
    fn keep(&mut self, _volume: &str) {}

    /// The volumes that are block devices.
    fn attached(&self) -> Vec<Attached>;
}

/// The beginning of the sentence that says why a volume is no block device.
#[must_use]
pub fn not_attached(volume: &str) -> String {
    format!("volume {volume} cannot be attached")
}

/// A volume that is a block device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attached {
    /// The volume's name.
    pub volume: String,
    /// The lasting name: a link in `/dev/fullstripe`.
    pub path: PathBuf,
    /// The kernel's name, which the next start may change.
    pub node: PathBuf,
}

/// Makes the port of one shard.
pub type MakeExportPort = Arc<dyn Fn(Place) -> Result<AnyPort> + Send + Sync>;

/// The way from an export to its ports.
#[derive(Clone)]
pub struct Messages {
    mail: Vec<MailSender>,
    number: PortNumber,
}

impl Messages {
    /// Messages to the ports with this number, by the mailboxes of all shards.
    #[must_use]
    pub fn new(mail: Vec<MailSender>, number: PortNumber) -> Messages {
        Messages { mail, number }
    }

    /// How many shards there are.
    #[must_use]
    pub fn shards(&self) -> u8 {
        self.mail.len() as u8
    }

    /// Sends a message to the port of one shard.
    ///
    /// # Panics
    /// If there is no such shard.
    pub fn to(&self, shard: ShardId, message: Box<dyn Any + Send>) {
        let message = ToPort {
            port: self.number,
            message,
        };
        self.mail[usize::from(shard.0)].send(Mail::Port(Box::new(message)));
    }

    /// Sends a message to the ports of all shards.
    pub fn to_all(&self, message: impl Fn() -> Box<dyn Any + Send>) {
        for shard in 0..self.mail.len() {
            self.to(ShardId(shard as u8), message());
        }
    }
}

/// The counters of the port of one shard. The gauges at the end also fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Clients accepted.
    pub clients_accepted: u64,
    /// Clients refused, or disconnected because they broke a rule.
    pub clients_refused: u64,
    /// Requests that were valid.
    pub requests: u64,
    /// Requests answered with an error, by the port or by the engine.
    pub requests_failed: u64,
    /// All bytes received from clients.
    pub received_bytes: u64,
    /// All bytes sent to clients.
    pub sent_bytes: u64,
    /// Gauge: clients connected now.
    pub clients: u64,
    /// Gauge: requests in the engine now.
    pub requests_in_flight: u64,
    /// Gauge: payload memory that hanging drives may still use.
    pub pinned_bytes: u64,
}

impl Statistics {
    /// The sum of both.
    #[must_use]
    pub fn plus(&self, other: &Statistics) -> Statistics {
        Statistics {
            clients_accepted: self.clients_accepted + other.clients_accepted,
            clients_refused: self.clients_refused + other.clients_refused,
            requests: self.requests + other.requests,
            requests_failed: self.requests_failed + other.requests_failed,
            received_bytes: self.received_bytes + other.received_bytes,
            sent_bytes: self.sent_bytes + other.sent_bytes,
            clients: self.clients + other.clients,
            requests_in_flight: self.requests_in_flight + other.requests_in_flight,
            pinned_bytes: self.pinned_bytes + other.pinned_bytes,
        }
    }
}
