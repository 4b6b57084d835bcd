//! The exports of a serving process: how clients reach its volumes.

use super::hearer::Hearer;
use super::runtime::{Clients, Shared};
use crate::nvmet::{Children, NvmetRequest};
use crate::status::{DeviceKind, DeviceStatus};
use anyhow::{Context, Result, bail, ensure};
use container::Container;
use drives::arena::Pool;
use drives::port::{PORTS_MAX, PortNumber};
use engine::control::record::Record;
use engine::units::{ShardId, VolumeId};
use exports::export::{
    Attached, Bind, Export, MakeExportPort, Messages, Offer, Place, Share, Surroundings,
    not_attached,
};
use exports::ports::Ports;
use metadata::imsm::Uuid;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

mod ends;
mod nvmet;

use nvmet::Nvmet;

/// How often the properties offered to clients are compared with what the drives can do.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// How many looks there are from one attempt to export volumes by the NVMe target to the next.
const LOOKS_PER_ATTEMPT: usize = 10;
/// How long an order about a device waits for the array to be started, and how often it looks.
const OPENED_WITHIN: Duration = Duration::from_secs(20);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);

/// A volume that is started.
#[derive(Clone, Debug)]
pub struct Started {
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

/// How clients reach the volumes of an array, and which volumes these are.
#[derive(Clone, Default)]
pub struct Exports(Arc<Mutex<All>>);

#[derive(Default)]
struct All {
    /// By the number of their ports.
    exports: Vec<Box<dyn Export>>,
    /// The kinds without which the array is served, and why they could not be made.
    missing: Vec<(&'static str, String)>,
    started: Vec<Started>,
    stage: Stage,
    nvmet: Nvmet,
}

/// Volumes are attached and detached only while the exports are open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Closed,
    Open,
    Ended,
}

impl Exports {
    /// Binds all exports; a socket whose path is not given is made in the folder of the API's socket.
    ///
    /// # Errors
    /// One sentence about the socket or device that cannot be made, if the array is not to be served without it.
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
        let mut all = All {
            nvmet: Nvmet::new(Box::new(Children), surroundings.say.clone()),
            ..All::default()
        };
        for bind in binds {
            match (bind.make)(&surroundings) {
                Ok(export) => all.exports.push(export),
                Err(error) if bind.is_needed => return Err(error),
                Err(error) => all.missing.push((bind.kind, format!("{error:#}"))),
            }
        }
        Ok(Exports(Arc::new(Mutex::new(all))))
    }

    /// The lock is taken even if an export panicked while holding it: its sockets must still be removed.
    fn all(&self) -> MutexGuard<'_, All> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The exports once they are open: an order that comes while the array is being started waits a while.
    fn opened(&self) -> Result<MutexGuard<'_, All>> {
        let give_up = Instant::now() + OPENED_WITHIN;
        loop {
            let all = self.all();
            match all.stage {
                Stage::Open => return Ok(all),
                Stage::Ended => bail!("the array is being stopped"),
                Stage::Closed => ensure!(
                    Instant::now() < give_up,
                    "the array is being started; ask again in a second"
                ),
            }
            drop(all);
            std::thread::sleep(LOOK_AGAIN_AFTER);
        }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all().exports.len()
    }

    /// Prepares all exports for the volumes that are `started`; `shard_payload_bytes` is the payload memory of each
    /// shard, which all exports share.
    ///
    /// # Errors
    /// A volume cannot be offered.
    pub fn prepare(
        &self,
        record: &Record,
        started: Vec<Started>,
        shard_payload_bytes: u64,
    ) -> Result<()> {
        let mut all = self.all();
        let offers = offers(record, &started);
        all.started = started;
        let exports = all.exports.len();
        let share = Share {
            pool_bytes: shard_payload_bytes / exports.max(1) as u64,
            exports,
        };
        all.exports
            .iter_mut()
            .try_for_each(|export| export.prepare(&offers, share))
    }

    /// The ports of all exports, for the data threads.
    pub fn clients(&self, shards: u8) -> Clients<Ports> {
        let exports = &self.all().exports;
        let makers: Vec<MakeExportPort> = exports.iter().map(|export| export.ports()).collect();
        Clients {
            kinds: exports.iter().map(|export| export.kind()).collect(),
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

    /// Lets the status say where the volumes are.
    pub fn publish(&self, shared: &Shared) {
        self.all().publish(shared);
    }

    /// Takes over what an earlier process has left, then starts to accept clients.
    ///
    /// # Errors
    /// A device cannot be taken over; the system refuses an operation that is needed.
    pub fn open(&self, shared: &Shared, hearer: &dyn Hearer) -> Result<()> {
        let mut all = self.all();
        all.take_over(shared, hearer)?;
        all.take_exports_over(shared);
        let attached: Vec<String> = all
            .devices()
            .into_iter()
            .map(|(volume, _)| volume)
            .collect();
        for (at, export) in all.exports.iter_mut().enumerate() {
            export.open(&messages(shared, at), &attached)?;
        }
        all.stage = Stage::Open;
        all.publish(shared);
        Ok(())
    }

    /// Checks every second, while the array serves, whether the properties offered to clients still hold: a drive may
    /// turn out not to support discard, and a drive without it may join or leave.
    ///
    /// # Errors
    /// The system starts no more threads.
    pub fn keep_true(&self, shared: Arc<Shared>) -> Result<()> {
        let exports = self.clone();
        let look = move || {
            for looks in 1_usize.. {
                if shared.has_quit() {
                    break;
                }
                std::thread::sleep(LOOK_EVERY);
                let mut all = exports.all();
                if looks.is_multiple_of(LOOKS_PER_ATTEMPT) && all.stage == Stage::Open {
                    all.try_exports_again(&shared);
                }
                let offers = offers(&shared.snapshot().record, &all.started);
                for (at, export) in all.exports.iter_mut().enumerate() {
                    export.renew(&offers, &messages(&shared, at));
                }
                // Another program may have given an NBD device up.
                all.publish(&shared);
            }
        };
        let thread = std::thread::Builder::new().name("offer".to_owned());
        thread.spawn(look)?;
        Ok(())
    }

    /// The name of each volume that is a block device, and the kernel's device.
    pub fn nodes(&self) -> Vec<(String, String)> {
        let devices = self.all().devices().into_iter();
        devices
            .map(|(volume, device)| (volume, device.node))
            .collect()
    }

    /// Makes a volume a block device: in the way of this `kind`, or in the best way that this machine has. With `nvmet` it is
    /// also exported to other machines, for which it has to be a device of ublk, and may be one already. Returns what the
    /// volume is like, and how it is attached now.
    ///
    /// # Errors
    /// One sentence: why it is not attached, or not exported; then it is what it was before.
    pub fn attach(
        &self,
        shared: &Shared,
        volume: &str,
        kind: Option<DeviceKind>,
        nvmet: Option<&NvmetRequest>,
    ) -> Result<(Offer, DeviceStatus)> {
        let mut all = self.opened()?;
        let before = all.device(volume);
        if let (Some(device), None) = (&before, nvmet) {
            bail!("volume {volume} is {} already", device.path);
        }
        let offers = offers(&shared.snapshot().record, &all.started);
        let offer = offers.into_iter().find(|offer| offer.name == volume);
        let offer = offer.with_context(|| format!("volume {volume} is not started"))?;
        let kind = match nvmet {
            None => kind,
            Some(request) => {
                let there = before.as_ref().map(|device| device.kind);
                all.nvmet.check(&offer, there.or(kind), request)?;
                Some(DeviceKind::Ublk)
            }
        };
        if before.is_none() {
            all.make_device(shared, &offer, kind)
                .with_context(|| not_attached(volume))?;
        }
        all.nvmet.wait_no_more(volume);
        let exported = nvmet.map_or(Ok(()), |request| {
            all.export_device(&offer, before.is_none(), request)
        });
        all.publish(shared);
        exported?;
        let device = all.device(volume);
        let device = device.expect("a volume that has just been attached is a device");
        Ok((offer, device))
    }

    /// Makes every volume a block device that is none yet. Returns an error for each volume that cannot be one.
    pub fn attach_all(&self, shared: &Shared, kind: Option<DeviceKind>) -> Vec<anyhow::Error> {
        let mut volumes: Vec<String> = {
            let all = self.all();
            all.started.iter().map(|one| one.name.clone()).collect()
        };
        volumes.retain(|volume| self.all().device(volume).is_none());
        let attached = volumes
            .iter()
            .map(|volume| self.attach(shared, volume, kind, None));
        attached.filter_map(Result::err).collect()
    }

    /// Removes the block device of a volume, after its export to other machines, and returns what it was.
    ///
    /// # Errors
    /// One sentence: why it stays.
    pub fn detach(&self, shared: &Shared, volume: &str) -> Result<DeviceStatus> {
        let mut all = self.opened()?;
        let device = all.device(volume);
        let device = device.with_context(|| format!("volume {volume} is no block device"))?;
        all.nvmet.wait_no_more(volume);
        all.remove_export(volume, &device.node)?;
        let detached = all.remove_device(volume, device.kind);
        // Also after an error: a device that could only be stopped is gone for its users.
        all.publish(shared);
        detached?;
        Ok(device)
    }
}

impl All {
    /// Takes over all devices that an earlier process has left. Nothing is written to a volume that is read-only, so a device
    /// of it that cannot be taken over may wait longer.
    fn take_over(&mut self, shared: &Shared, hearer: &dyn Hearer) -> Result<()> {
        let offers = offers(&shared.snapshot().record, &self.started);
        for (at, export) in self.exports.iter_mut().enumerate() {
            let Some(devices) = export.devices() else {
                continue;
            };
            for offer in &offers {
                let taken = devices.take_over(offer, &messages(shared, at));
                match taken.with_context(|| not_attached(&offer.name)) {
                    Err(error) if offer.read_only => hearer.say(&format_args!("{error:#}")),
                    taken => taken?,
                }
            }
        }
        Ok(())
    }

    /// Makes the device of a volume: in the way of this `kind`, or in the best way that this machine has.
    fn make_device(
        &mut self,
        shared: &Shared,
        offer: &Offer,
        kind: Option<DeviceKind>,
    ) -> Result<()> {
        let is_asked_for = |one: &&DeviceKind| kind.is_none_or(|kind| kind == **one);
        let mut why_not = Vec::new();
        for kind in DeviceKind::ALL.iter().filter(is_asked_for) {
            let kind = kind.name();
            let mut exports = self.exports.iter();
            let Some(at) = exports.position(|export| export.kind() == kind) else {
                let missing = self.missing.iter().find(|(missing, _)| *missing == kind);
                why_not.push(match missing {
                    Some((_, why)) => format!("{kind}, when this server started: {why}"),
                    None => format!("{kind}: this server does not offer it"),
                });
                continue;
            };
            let devices = self.exports[at].devices();
            let devices = devices.expect("a kind of devices is that of an export with devices");
            match devices.attach(offer, &messages(shared, at)) {
                Ok(_) => return Ok(()),
                Err(error) if why_not.is_empty() => return Err(error),
                Err(error) => why_not.push(format!("{kind}: {error:#}")),
            }
        }
        bail!(why_not.join("; "))
    }

    /// Removes the device of a volume.
    fn remove_device(&mut self, volume: &str, kind: DeviceKind) -> Result<()> {
        let mut exports = self.exports.iter_mut();
        let export = exports.find(|export| export.kind() == kind.name());
        let devices = export.and_then(|export| export.devices());
        let devices = devices.expect("a device belongs to an export");
        devices.detach(volume)
    }

    /// Every volume that is a block device.
    fn devices(&mut self) -> Vec<(String, DeviceStatus)> {
        let mut found = Vec::new();
        let nvmet = &self.nvmet;
        for export in &mut self.exports {
            let of_export = |kind: &&DeviceKind| kind.name() == export.kind();
            let Some(&kind) = DeviceKind::ALL.iter().find(of_export) else {
                continue;
            };
            let devices = export.devices().map(|devices| devices.attached());
            let described = |device: Attached| {
                let status = DeviceStatus {
                    kind,
                    path: device.path.display().to_string(),
                    node: device.node.display().to_string(),
                    nvmet: nvmet.status(&device.volume).cloned(),
                };
                (device.volume, status)
            };
            found.extend(devices.into_iter().flatten().map(described));
        }
        found
    }

    fn device(&mut self, volume: &str) -> Option<DeviceStatus> {
        let mut devices = self.devices().into_iter();
        devices.find_map(|(of, device)| (of == volume).then_some(device))
    }

    fn publish(&mut self, shared: &Shared) {
        let devices = self.devices();
        let of = |one: &Started| -> Vec<String> {
            let of_exports = self.exports.iter();
            let of_exports = of_exports.flat_map(|export| export.addresses(&one.name));
            let of_volume = devices.iter().filter(|(volume, _)| *volume == one.name);
            let of_devices = of_volume.flat_map(|(_, device)| {
                let nvmet = device.nvmet.iter();
                let nvmet = nvmet.map(|export| format!("{} {}", export.address, export.nqn));
                std::iter::once(device.path.clone()).chain(nvmet)
            });
            of_exports.chain(of_devices).collect()
        };
        let addresses = self.started.iter().flat_map(of).collect();
        shared.set_exports(addresses, devices);
    }
}

fn messages(shared: &Shared, at: usize) -> Messages {
    Messages::new(shared.mail(), PortNumber::new(at))
}

/// What clients are offered of the volumes that are `started`, with the names of the volumes.
fn offers(record: &Record, started: &[Started]) -> Vec<Offer> {
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

#[cfg(test)]
mod tests;
