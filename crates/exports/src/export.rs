//! What an export is: one way for clients to reach the volumes of an array. NBD is one ([`crate::nbd::service`]).
//!
//! An export has two sides. The process's threads hold an [`Export`], which is asked in this order. It is bound before
//! anything is done to drives ([`Bind`] makes sockets or devices, and fails if it cannot), [prepared](Export::prepare) for
//! the volumes, and makes an [`AnyPort`] for each shard ([`Export::ports`]). When the array can be used it is
//! [opened](Export::open), and told whenever [what it offers](Offer) changes ([`Export::renew`]). At last it is
//! [stopped](Export::stop), which ends when all that clients had asked is answered. The shards' side is the port: it turns
//! what clients send into requests, without a dynamic call for any of them, and counts ([`Statistics`]). The two sides
//! speak by messages ([`Messages`]).
//!
//! Payload memory is the port's. A port that serves memory of its own takes it from [`Place::pool`]; one whose clients
//! bring the memory (a ring of the kernel's, a guest) leaves the pool alone and says of every buffer whether it is its
//! own ([`crate::ports::ExportPort::owns`]).

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

/// One volume, as clients are told of it, whatever they speak.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The engine's volume.
    pub volume: VolumeId,
    /// What clients ask for.
    pub name: String,
    /// For people.
    pub description: String,
    /// Bytes that clients see.
    pub size_bytes: u64,
    /// The smallest unit of a request.
    pub block_bytes: u32,
    /// Bytes of a row of the array: requests of whole rows are the fastest.
    pub row_bytes: u64,
    /// Writes are refused.
    pub read_only: bool,
    /// Space can be given back to the drives, and zeros cost no writing.
    pub discards: bool,
}

/// Says a sentence.
pub type Say = Arc<dyn Fn(&dyn Display) + Send + Sync>;

/// What a process has that an export is bound in.
#[derive(Clone)]
pub struct Surroundings {
    /// Where sockets lie unless somebody says where.
    pub socket_folder: PathBuf,
    /// Says a sentence to people. Shards call it too, so it never blocks.
    pub say: Say,
}

/// Makes what clients connect to, before anything is done to drives: an export that cannot be made is no reason to stop
/// an array that has just been started. Whoever connects before the export is opened waits.
pub type Bind = Box<dyn FnOnce(&Surroundings) -> Result<Box<dyn Export>> + Send>;

/// Where a port is to work.
pub struct Place {
    /// The shard.
    pub shard: ShardId,
    /// How many shards there are.
    pub shards: u8,
    /// Payload memory of the shard for this export; nobody else's.
    pub pool: Pool,
}

/// One way for clients to reach volumes: see the module's prose.
pub trait Export: Send {
    /// What it is called in statistics: `nbd`.
    fn kind(&self) -> &'static str;

    /// Where clients find a volume, for people: one for each address.
    fn addresses(&self, volume: &str) -> Vec<String>;

    /// Prepares for the volumes that are started; each [`Place::pool`] will have `pool_bytes`, rounded down to whole pages.
    ///
    /// # Errors
    /// A volume cannot be offered in this way.
    fn prepare(&mut self, offers: &[Offer], pool_bytes: u64) -> Result<()>;

    /// Makes ports, for any thread: what is returned is called once on the thread of each shard.
    fn ports(&self) -> MakeExportPort;

    /// Lets clients in.
    ///
    /// # Errors
    /// The system refuses something.
    fn open(&mut self, messages: &Messages) -> Result<()>;

    /// What is offered has changed, in nothing but [`Offer::read_only`] and [`Offer::discards`]: clients that come from
    /// now on are told so.
    fn renew(&mut self, offers: &[Offer], messages: &Messages);

    /// Takes on nobody any more, and ends whoever is there in order: what clients have asked is answered. `ended` is
    /// called once for each shard, on its thread, when nothing of the export is left there.
    fn stop(&mut self, messages: &Messages, ended: &Arc<dyn Fn() + Send + Sync>);
}

/// Makes the port of one shard.
pub type MakeExportPort = Arc<dyn Fn(Place) -> Result<AnyPort> + Send + Sync>;

/// The way from an export to its ports.
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

    /// To the port of one shard.
    ///
    /// # Panics
    /// There is no such shard.
    pub fn to(&self, shard: ShardId, message: Box<dyn Any + Send>) {
        let message = ToPort {
            port: self.number,
            message,
        };
        self.mail[usize::from(shard.0)].send(Mail::Port(Box::new(message)));
    }

    /// To the ports of all shards.
    pub fn to_all(&self, message: impl Fn() -> Box<dyn Any + Send>) {
        for shard in 0..self.mail.len() {
            self.to(ShardId(shard as u8), message());
        }
    }
}

/// What the port of one shard has counted. The gauges at the end also fall.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Clients taken on.
    pub clients_accepted: u64,
    /// Clients turned away, or ended because they broke a rule.
    pub clients_refused: u64,
    /// Requests that were understood.
    pub requests: u64,
    /// Requests answered with an error, by the port or by the engine.
    pub requests_failed: u64,
    /// Bytes received from clients, all of what they send.
    pub received_bytes: u64,
    /// Bytes sent to clients, likewise.
    pub sent_bytes: u64,
    /// Gauge: clients that are there.
    pub clients: u64,
    /// Gauge: requests that the engine has.
    pub requests_in_flight: u64,
    /// Gauge: payload memory that drives which hang keep.
    pub pinned_bytes: u64,
}

impl Statistics {
    /// Both together.
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
