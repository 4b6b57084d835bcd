//! All volumes that are devices of the kernel's NBD client, with their names in `/dev/fullstripe`.

use super::device::{Device, Mended};
use crate::export::{Attached, Messages, Offer, Say};
use crate::links;
use crate::names::Name;
use crate::nbd::left::LeftConnection;
use anyhow::{Context, Result};
use std::time::Duration;

/// A volume that is a device.
struct One {
    offer: Offer,
    device: Device,
    name: Name,
    /// Whether it is known, and has been said, that its connections cannot be replaced.
    is_broken: bool,
}

impl One {
    fn attached(&self) -> Attached {
        Attached {
            volume: self.offer.name.clone(),
            path: self.name.path().to_owned(),
            node: self.device.path(),
        }
    }

    /// See [`KernelDevices::mend`]. False if there is no device any more.
    fn mend(&mut self, messages: &Messages, say: &Say) -> bool {
        self.name.complete(&self.offer, say);
        let path = self.device.path();
        let path = path.display();
        match self.device.mend(&self.offer, messages) {
            Ok(Mended::Nothing) => {}
            Ok(Mended::Replaced) => {
                self.is_broken = false;
                say(&format_args!(
                    "the kernel had given up connections of {path}: they are replaced"
                ));
            }
            Ok(Mended::Gone) => {
                let volume = &self.offer.name;
                say(&format_args!(
                    "another program has given up {path}: volume {volume} is no block device any more"
                ));
                return false;
            }
            Err(error) => {
                if !self.is_broken {
                    say(&format_args!("{error:#}"));
                }
                self.is_broken = true;
            }
        }
        true
    }
}

/// The devices of one server.
pub(in crate::nbd) struct KernelDevices {
    /// How long a drive may take to answer.
    deadline: Duration,
    say: Say,
    all: Vec<One>,
}

impl KernelDevices {
    /// None yet. A drive that does not answer is failed after `deadline`.
    pub fn new(deadline: Duration, say: Say) -> KernelDevices {
        KernelDevices {
            deadline,
            say,
            all: Vec::new(),
        }
    }

    /// Makes a volume a device.
    ///
    /// # Errors
    /// One sentence; then it is none.
    pub fn attach(&mut self, offer: &Offer, messages: &Messages) -> Result<Attached> {
        links::check_name(&offer.name)?;
        let device = Device::attach(offer, self.deadline, messages)?;
        match Name::give(offer, &device.path()) {
            Ok(name) => Ok(self.add(offer, device, name)),
            // One that is in use is left to a process that can give it its name.
            Err(error) => Err(match device.disconnect(&offer.name) {
                Ok(()) => error,
                Err(other) => error.context(format!("{other:#}, and stays")),
            }),
        }
    }

    /// Takes the device of a volume over, if an earlier process has left one, with the connections that were `left`. If it
    /// cannot be named, that is said, and tried again with [`KernelDevices::mend`].
    ///
    /// # Errors
    /// One sentence; the device stays as it is.
    pub fn take_over(
        &mut self,
        offer: &Offer,
        left: Vec<LeftConnection>,
        messages: &Messages,
    ) -> Result<()> {
        if let Some(device) = Device::take_over(offer, self.deadline, left, messages)? {
            let name = Name::give_again(offer, &device.path(), &self.say);
            self.add(offer, device, name);
        }
        Ok(())
    }

    fn add(&mut self, offer: &Offer, device: Device, name: Name) -> Attached {
        let one = One {
            offer: offer.clone(),
            device,
            name,
            is_broken: false,
        };
        let attached = one.attached();
        self.all.push(one);
        attached
    }

    /// Removes the device of a volume.
    ///
    /// # Errors
    /// There is none; it is in use, and stays; the kernel refuses.
    pub fn detach(&mut self, volume: &str) -> Result<()> {
        let at = self.all.iter().position(|one| one.offer.name == volume);
        let at = at.with_context(|| format!("volume {volume} is no NBD device"))?;
        self.all[at].device.disconnect(volume)?;
        self.all.remove(at);
        Ok(())
    }

    /// The volumes that are devices.
    pub fn attached(&self) -> Vec<Attached> {
        self.all.iter().map(One::attached).collect()
    }

    /// Replaces connections that the kernel has given up: see [`Device::mend`]. Gives names that could not be given before.
    /// A problem is said once.
    pub fn mend(&mut self, messages: &Messages) {
        let say = self.say.clone();
        self.all.retain_mut(|one| one.mend(messages, &say));
    }

    /// Leaves all devices to the next process, which gets their connections.
    pub fn leave(&mut self) {
        for one in self.all.drain(..) {
            one.device.leave();
            one.name.leave();
        }
    }

    /// Removes all devices but those in use, which are left to the next process.
    pub fn stop(&mut self) {
        for one in self.all.drain(..) {
            if let Err(error) = one.device.disconnect(&one.offer.name) {
                (self.say)(&format_args!(
                    "{error:#}: its requests wait until it is served again"
                ));
                one.name.leave();
            }
        }
    }
}
