//! The exports of a serving process: how clients reach its volumes.

use super::hearer::Hearer;
use super::runtime::{Clients, Shared};
use anyhow::{Result, bail, ensure};
use container::Container;
use drives::arena::Pool;
use drives::port::{PORTS_MAX, PortNumber};
use engine::control::record::Record;
use engine::units::{ShardId, VolumeId};
use exports::export::{Bind, Export, MakeExportPort, Messages, Offer, Place, Surroundings};
use exports::ports::Ports;
use metadata::imsm::Uuid;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often the properties offered to clients are compared with what the drives can do.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// A volume that is started.
#[derive(Clone, Debug)]
pub(super) struct Started {
    volume: VolumeId,
    name: String,
    uuid: Uuid,
}

impl Started {
    /// The volumes of a container that are started.
    pub fn all_of(container: &Container) -> Vec<Started> {
        let mpb = container.persister.mpb();
        let started = container.started().into_iter();
        let with_uuid = |(volume, name): (VolumeId, String)| Started {
            volume,
            name,
            uuid: Uuid::of_volume(mpb, usize::from(volume.0))
                .expect("the record describes a volume that is started"),
        };
        started.map(with_uuid).collect()
    }
}

/// All exports, by the number of their ports.
#[derive(Clone)]
pub(super) struct Exports(Arc<Mutex<Vec<Box<dyn Export>>>>);

impl Exports {
    /// Binds all exports; a socket whose path is not given is made in the folder of the API's socket.
    ///
    /// # Errors
    /// One sentence about the socket or device that cannot be made.
    pub fn bind(binds: Vec<Bind>, api: &Path, hearer: &Arc<dyn Hearer>) -> Result<Exports> {
        ensure!(
            binds.len() <= PORTS_MAX,
            "an array has at most {PORTS_MAX} exports, not {}",
            binds.len()
        );
        let hearer = hearer.clone();
        let surroundings = Surroundings {
            socket_folder: api.parent().unwrap_or(Path::new("")).to_owned(),
            say: Arc::new(move |sentence| hearer.say(sentence)),
        };
        let bound = binds.into_iter().map(|bind| bind(&surroundings));
        let bound: Vec<_> = bound.collect::<Result<_>>()?;
        Ok(Exports(Arc::new(Mutex::new(bound))))
    }

    /// The lock is taken even if an export panicked while holding it: its sockets must still be removed.
    fn all(&self) -> MutexGuard<'_, Vec<Box<dyn Export>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Prepares all exports for the volumes; `shard_payload_bytes` is the payload memory of each shard, which all
    /// exports share.
    ///
    /// # Errors
    /// A volume cannot be offered.
    pub fn prepare(&self, offers: &[Offer], shard_payload_bytes: u64) -> Result<()> {
        let mut all = self.all();
        let pool_bytes = shard_payload_bytes / all.len().max(1) as u64;
        all.iter_mut()
            .try_for_each(|export| export.prepare(offers, pool_bytes))
    }

    /// The addresses of the volumes that are `started`.
    pub fn addresses(&self, started: &[Started]) -> Vec<String> {
        let all = self.all();
        let of = |one: &Started| -> Vec<String> {
            let of_exports = all.iter().map(|export| export.addresses(&one.name));
            of_exports.flatten().collect()
        };
        started.iter().flat_map(of).collect()
    }

    /// The ports of all exports, for the data threads.
    pub fn clients(&self, shards: u8) -> Clients<Ports> {
        let all = self.all();
        let makers: Vec<MakeExportPort> = all.iter().map(|export| export.ports()).collect();
        Clients {
            kinds: all.iter().map(|export| export.kind()).collect(),
            make_port: Arc::new(move |shard: ShardId, pool: Pool| {
                let pools = pool.split(makers.len());
                let places = pools.into_iter().map(|pool| Place {
                    shard,
                    shards,
                    pool,
                });
                let ports = makers.iter().zip(places).map(|(make, place)| make(place));
                Ok(Ports::new(ports.collect::<Result<_>>()?))
            }),
        }
    }

    /// Starts to accept clients.
    ///
    /// # Errors
    /// The system refuses an operation that is needed for that.
    pub fn open(&self, shared: &Shared) -> Result<()> {
        for (at, export) in self.all().iter_mut().enumerate() {
            export.open(&messages(shared, at))?;
        }
        Ok(())
    }

    /// Checks every second, while the array serves, whether the properties offered to clients still hold: a drive may
    /// turn out not to support discard, and a drive without it may join or leave.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn keep_true(&self, shared: Arc<Shared>, started: Vec<Started>) -> Result<()> {
        let exports = self.clone();
        let look = move || {
            while !shared.has_quit() {
                std::thread::sleep(LOOK_EVERY);
                let offers = offers(&shared.snapshot().record, &started);
                for (at, export) in exports.all().iter_mut().enumerate() {
                    export.renew(&offers, &messages(&shared, at));
                }
            }
        };
        let thread = std::thread::Builder::new().name("offer".to_owned());
        thread.spawn(look)?;
        Ok(())
    }

    /// Ends all clients in order: requests in flight are answered, then the clients are disconnected.
    ///
    /// # Errors
    /// Clients were not all gone in time.
    pub fn stop(&self, shared: &Shared, within: Duration) -> Result<()> {
        let mut all = self.all();
        let left = Arc::new(AtomicUsize::new(all.len() * usize::from(shared.shards())));
        let count = left.clone();
        let ended: Arc<dyn Fn() + Send + Sync> = Arc::new(move || {
            count.fetch_sub(1, Ordering::AcqRel);
        });
        for (at, export) in all.iter_mut().enumerate() {
            export.stop(&messages(shared, at), &ended);
        }
        drop(all);
        let deadline = Instant::now() + within;
        while left.load(Ordering::Acquire) > 0 {
            if Instant::now() > deadline {
                bail!("clients did not end within {} s", within.as_secs());
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        Ok(())
    }

    /// Removes the files of the exports' sockets.
    pub fn release(&self) {
        self.all().clear();
    }
}

fn messages(shared: &Shared, at: usize) -> Messages {
    Messages::new(shared.mail(), PortNumber::new(at))
}

/// What clients are offered of the volumes that are `started`, with the names of the volumes.
pub(super) fn offers(record: &Record, started: &[Started]) -> Vec<Offer> {
    let offer = |one: &Started| {
        let at = usize::from(one.volume.0);
        let volume = &record.volumes[at];
        let shape = &volume.geometry;
        Offer {
            volume: one.volume,
            name: one.name.clone(),
            identity: one.uuid.0,
            description: format!("{} of {} members", shape.level, shape.members),
            size_bytes: shape.size_bytes,
            block_bytes: shape.block_bytes,
            chunk_bytes: shape.chunk_bytes,
            row_bytes: shape.row_bytes(),
            read_only: volume.read_only,
            discards: record.discards(at),
        }
    };
    started.iter().map(offer).collect()
}
