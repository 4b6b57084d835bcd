//! ublk as an export: devices are made when the array is opened, and stopped before it is.

use super::device::Device;
use super::limits::Shape;
use super::port::{Stop, UblkPort};
use crate::export::{Bind, Export, MakeExportPort, Messages, Offer, Place, Surroundings};
use crate::links;
use crate::ports::AnyPort;
use anyhow::{Context, Result};
use drives::ublk::Control;
use std::path::Path;
use std::sync::Arc;

/// Block devices for all volumes.
pub struct UblkExport {
    offers: Vec<Offer>,
    /// For the devices that are made; one that is taken over keeps its own.
    shape: Option<Shape>,
    devices: Vec<Device>,
    surroundings: Surroundings,
}

impl UblkExport {
    /// Checks that the kernel has ublk and that this process may use it.
    #[must_use]
    pub fn bind() -> Bind {
        Box::new(|surroundings| {
            Control::open()?;
            Ok(Box::new(UblkExport {
                offers: Vec::new(),
                shape: None,
                devices: Vec::new(),
                surroundings: surroundings.clone(),
            }))
        })
    }

    fn attach_all(&mut self, messages: &Messages) -> Result<()> {
        let mut control = Control::open()?;
        let shape = self
            .shape
            .expect("an export is prepared before it is opened");
        for offer in &self.offers {
            self.devices
                .push(Device::attach(&mut control, offer, shape, messages)?);
        }
        Ok(())
    }

    /// Does something with the control device to each device; a problem is said, and the others are tried all the same.
    fn each(&mut self, what: &str, act: impl Fn(&mut Device, &mut Control) -> Result<()>) {
        for device in &mut self.devices {
            let done = Control::open()
                .map_err(Into::into)
                .and_then(|mut control| act(device, &mut control));
            if let Err(error) = done {
                let volume = &device.volume;
                (self.surroundings.say)(&format_args!(
                    "the device of volume {volume} was not {what}: {error:#}"
                ));
            }
        }
    }
}

impl Export for UblkExport {
    fn kind(&self) -> &'static str {
        "ublk"
    }

    fn addresses(&self, volume: &str) -> Vec<String> {
        let path = links::path(Path::new(links::FOLDER), volume);
        vec![path.display().to_string()]
    }

    fn prepare(&mut self, offers: &[Offer], pool_bytes: u64) -> Result<()> {
        offers
            .iter()
            .try_for_each(|offer| links::check_name(&offer.name))?;
        let shape = Shape::fitting(pool_bytes, offers.len());
        self.shape = Some(shape.with_context(|| {
            let least = Shape::least_pool_bytes(offers.len());
            format!(
                "ublk devices need {least} bytes of memory for each shard and have {pool_bytes}; give more --memory"
            )
        })?);
        self.offers = offers.to_vec();
        Ok(())
    }

    fn ports(&self) -> MakeExportPort {
        let say = self.surroundings.say.clone();
        Arc::new(move |place: Place| Ok(AnyPort::Ublk(UblkPort::new(place.pool, say.clone()))))
    }

    /// If one device cannot be made, those before it are removed when the export is stopped.
    fn open(&mut self, messages: &Messages) -> Result<()> {
        self.attach_all(messages)
    }

    /// The limits of a device never change: if a drive without discard joins, discards fail as "not supported", and the
    /// kernel sends no more.
    fn renew(&mut self, _: &[Offer], _: &Messages) {}

    /// Devices that are in use stay: stopping them would tear the file system off its data. Their requests wait for the next
    /// process.
    fn stop(&mut self, messages: &Messages, ended: &Arc<dyn Fn() + Send + Sync>) {
        let devices = std::mem::take(&mut self.devices).into_iter();
        let (left, stopped): (Vec<_>, Vec<_>) = devices.partition(Device::is_in_use);
        self.devices = stopped;
        self.each("stopped", Device::stop);
        messages.to_all(|| {
            Box::new(Stop {
                ended: ended.clone(),
            })
        });
        for device in left {
            (self.surroundings.say)(&format_args!(
                "volume {} is in use as a block device: its requests wait until it is served with --ublk again",
                device.volume
            ));
            device.leave();
        }
    }
}

impl Drop for UblkExport {
    /// The shards have ended, so nothing keeps a device.
    fn drop(&mut self) {
        self.each("removed", Device::delete);
    }
}
