//! ublk as an export: devices are made when the array is opened or while it is served, and stopped before it is.

use super::device::{self, Device, leftover};
use super::limits::Shape;
use super::port::{Stop, UblkPort};
use super::room::Divided;
use crate::export::{
    Attached, Bind, Devices, Export, MakeExportPort, Messages, Offer, Place, Share, Surroundings,
    not_attached,
};
use crate::links;
use crate::ports::AnyPort;
use anyhow::{Context, Result};
use drives::ublk::{Control, ControlError, DeviceInfo};
use std::sync::Arc;

const KIND: &str = "ublk";

/// Which volumes become block devices when the array is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtStart {
    /// All.
    All,
    /// Those whose device an earlier process has left, with requests that wait.
    LeftOver,
}

/// Block devices for volumes.
pub struct UblkExport {
    at_start: AtStart,
    offers: Vec<Offer>,
    share: Share,
    devices: Vec<Device>,
    /// Volumes whose device stays.
    kept: Vec<String>,
    surroundings: Surroundings,
}

/// Whether there are ublk devices, although they cannot be looked at.
fn may_be_left(error: &ControlError) -> bool {
    let mut devices = std::fs::read_dir("/sys/class/ublk-char")
        .into_iter()
        .flatten();
    !matches!(error, ControlError::Missing) && devices.next().is_some()
}

impl UblkExport {
    /// Checks that the kernel has ublk, of Linux 6.4 or newer, and that this process may use it.
    #[must_use]
    pub fn bind(at_start: AtStart) -> Bind {
        Bind {
            kind: KIND,
            is_needed: at_start == AtStart::All,
            make: Box::new(move |surroundings| {
                if let Err(error) =
                    Control::open().and_then(|mut control| control.knows_the_commands())
                {
                    if at_start == AtStart::LeftOver && may_be_left(&error) {
                        (surroundings.say)(&format_args!(
                            "whether an earlier server has left ublk devices with requests that wait cannot be told: {error}"
                        ));
                    }
                    return Err(error.into());
                }
                Ok(Box::new(UblkExport {
                    at_start,
                    offers: Vec::new(),
                    share: Share {
                        pool_bytes: 0,
                        exports: 1,
                    },
                    devices: Vec::new(),
                    kept: Vec::new(),
                    surroundings: surroundings.clone(),
                }))
            }),
        }
    }

    /// For devices that are made; one that is taken over keeps its own. Each volume has an equal share of the memory.
    fn shape(&self) -> Result<Shape> {
        let pool_bytes = self.share.pool_bytes;
        let shape = Shape::fitting(pool_bytes, self.offers.len());
        shape.with_context(|| {
            let least = Shape::least_pool_bytes(self.offers.len());
            format!(
                "ublk devices need {least} bytes of memory for each shard and have {pool_bytes}; give more --memory"
            )
        })
    }

    /// Takes over a device that was left. Before the first one, all are looked at: the kernel may allow that only once.
    fn take(
        &self,
        control: &mut Control,
        offer: &Offer,
        left: DeviceInfo,
        messages: &Messages,
    ) -> Result<Device> {
        let shards = messages.shards();
        let Share {
            pool_bytes,
            exports,
        } = self.share;
        let divided = Divided {
            memory_bytes: pool_bytes * u64::from(shards) * exports as u64,
            shards,
            kinds: exports,
        };
        divided.refuse_too_little_for(&device::kept(control, &self.offers)?)?;
        Device::take_over(control, offer, left, messages, &self.surroundings.say)
    }

    fn add(&mut self, device: Device) {
        // One that was detached except for its number has been removed just now.
        self.devices.retain(|other| other.volume != device.volume);
        self.devices.push(device);
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
        KIND
    }

    fn addresses(&self, _: &str) -> Vec<String> {
        Vec::new()
    }

    fn prepare(&mut self, offers: &[Offer], share: Share) -> Result<()> {
        self.share = share;
        self.offers = offers.to_vec();
        if self.at_start == AtStart::All {
            offers
                .iter()
                .try_for_each(|offer| links::check_name(&offer.name))?;
            self.shape()?;
        }
        Ok(())
    }

    fn ports(&self) -> MakeExportPort {
        let say = self.surroundings.say.clone();
        Arc::new(move |place: Place| Ok(AnyPort::Ublk(UblkPort::new(place.pool, say.clone()))))
    }

    /// If one device cannot be made, those before it are removed when the export is stopped.
    fn open(&mut self, messages: &Messages, attached: &[String]) -> Result<()> {
        if self.at_start == AtStart::All {
            let offers = self.offers.clone().into_iter();
            for offer in offers.filter(|offer| !attached.contains(&offer.name)) {
                self.attach(&offer, messages)
                    .with_context(|| not_attached(&offer.name))?;
            }
        }
        Ok(())
    }

    /// The limits of a device never change: if a drive without discard joins, discards fail as "not supported", and the
    /// kernel sends no more.
    fn renew(&mut self, offers: &[Offer], _: &Messages) {
        for device in &mut self.devices {
            if let Some(offer) = offers.iter().find(|offer| offer.name == device.volume) {
                device.renew(offer, &self.surroundings.say);
            }
        }
    }

    /// Devices that are in use stay: stopping them would tear the file system off its data. Their requests wait for the next
    /// process.
    fn stop(&mut self, messages: &Messages, ended: &Arc<dyn Fn() + Send + Sync>) {
        let kept = std::mem::take(&mut self.kept);
        let (mut left, mut claimed) = (Vec::new(), Vec::new());
        for device in std::mem::take(&mut self.devices) {
            match device.claim_unless_stopped() {
                Ok(claim) if !kept.contains(&device.volume) => {
                    claimed.push(claim);
                    self.devices.push(device);
                }
                _ => left.push(device),
            }
        }
        self.each("stopped", Device::stop);
        // Held until now, so that nothing could mount a device that was about to be stopped.
        drop(claimed);
        messages.to_all(|| {
            Box::new(Stop {
                ended: ended.clone(),
            })
        });
        for device in left {
            (self.surroundings.say)(&format_args!(
                "volume {} is in use as a block device: its requests wait until it is served again",
                device.volume
            ));
            device.leave();
        }
    }

    fn devices(&mut self) -> Option<&mut dyn Devices> {
        Some(self)
    }
}

impl Devices for UblkExport {
    fn take_over(&mut self, offer: &Offer, messages: &Messages) -> Result<()> {
        let mut control = Control::open()?;
        if let Some(left) = leftover(&mut control, offer)? {
            let device = self.take(&mut control, offer, left, messages)?;
            self.add(device);
        }
        Ok(())
    }

    fn attach(&mut self, offer: &Offer, messages: &Messages) -> Result<Attached> {
        links::check_name(&offer.name)?;
        let mut control = Control::open()?;
        let device = match leftover(&mut control, offer)? {
            Some(left) => self.take(&mut control, offer, left, messages)?,
            None => Device::make(&mut control, offer, self.shape()?, messages)?,
        };
        let attached = device.attached();
        self.add(device);
        Ok(attached.expect("a device that has just been started has a link"))
    }

    fn detach(&mut self, volume: &str) -> Result<()> {
        let mut devices = self.devices.iter();
        let at = devices.position(|device| device.volume == volume);
        let at = at.with_context(|| format!("volume {volume} is no ublk device"))?;
        self.devices[at].detach(&mut Control::open()?)?;
        self.devices.remove(at);
        Ok(())
    }

    fn keep(&mut self, volume: &str) {
        self.kept.push(volume.to_owned());
    }

    fn attached(&self) -> Vec<Attached> {
        let devices = self.devices.iter();
        devices.filter_map(Device::attached).collect()
    }
}

impl Drop for UblkExport {
    /// The shards have ended, so nothing keeps a device.
    fn drop(&mut self) {
        self.each("removed", Device::delete);
    }
}
