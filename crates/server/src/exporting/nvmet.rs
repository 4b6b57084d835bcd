//! Volumes that the kernel's NVMe target exports to other machines: which they are, and what becomes of them.
//!
//! An export belongs to the block device of its volume. It goes with it when the device is detached, or the server stops and
//! nothing on this machine uses the device; it stays with a device that stays. The next server finds it with the device.

use super::{All, Exports, offers};
use crate::nvmet::{Children, Details, NvmeTarget, NvmetRequest, NvmetStatus, Order};
use crate::runtime::Shared;
use crate::status::{DeviceKind, DeviceStatus};
use anyhow::{Context, Result, bail, ensure};
use exports::block_device::check_unused;
use exports::export::{Offer, Say};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// No export is removed any more, at the end, after this time. One that is being removed then takes 45 s more at most.
const EXPORTS_END_WITHIN: Duration = Duration::from_secs(30);

/// What is known about exports by the NVMe target.
pub(super) struct Nvmet {
    target: Box<dyn NvmeTarget>,
    /// The name of each volume that is exported.
    exported: Vec<(String, NvmetStatus)>,
    /// How volumes are to be exported from the start on.
    at_start: Option<NvmetRequest>,
    /// The name of each volume that is not exported so yet, and that nobody has attached or detached since.
    waiting: Vec<String>,
    /// Why one of them was not, the last time.
    said: Option<String>,
    say: Say,
}

impl Default for Nvmet {
    fn default() -> Nvmet {
        Nvmet::new(Box::new(Children), Arc::new(|_| ()))
    }
}

fn not_exported(volume: &str) -> String {
    format!("volume {volume} cannot be exported by NVMe over TCP")
}

impl Nvmet {
    /// Exports by this target; `say` tells what nobody waits for.
    pub(super) fn new(target: Box<dyn NvmeTarget>, say: Say) -> Nvmet {
        Nvmet {
            target,
            exported: Vec::new(),
            at_start: None,
            waiting: Vec::new(),
            said: None,
            say,
        }
    }

    pub(super) fn status(&self, volume: &str) -> Option<&NvmetStatus> {
        let mut exported = self.exported.iter();
        exported.find_map(|(name, status)| (name == volume).then_some(status))
    }

    /// An operator decides now how the volume is exported, or it is.
    pub(super) fn wait_no_more(&mut self, volume: &str) {
        self.waiting.retain(|waiting| waiting != volume);
    }

    /// Checks, before a device of this `kind` is made, what can be checked without it.
    ///
    /// With NBD, requests that a killed server has not answered wait for longer than hosts do, also when there is a new server.
    /// A host then sends a write again, goes on writing, and the first attempt overwrites that at last. With ublk the first
    /// attempt comes to the next server at once.
    pub(super) fn check(
        &self,
        offer: &Offer,
        kind: Option<DeviceKind>,
        request: &NvmetRequest,
    ) -> Result<()> {
        let volume = &offer.name;
        if let Some(status) = self.status(volume) {
            bail!("volume {volume} is exported at {} already", status.address);
        }
        let details = Details::new(offer.identity, Path::new(""), request);
        let checked = request
            .wanted(offer.identity, Path::new(""))
            .and_then(|_| {
                // The target opens the device for writing.
                ensure!(
                    !offer.read_only,
                    "the NVMe target takes no device that cannot be written; serve the array without --read-only"
                );
                ensure!(
                    kind != Some(DeviceKind::Nbd),
                    "its device has to be one of ublk: with the kernel's NBD client, writes of hosts could be carried out too late after a crash of \
                     the server; detach it and attach it --as ublk"
                );
                self.target.ask(&Order::Check(details))
            });
        checked.map(drop).with_context(|| not_exported(volume))
    }

    /// Exports a volume's device.
    pub(super) fn export(
        &mut self,
        offer: &Offer,
        node: &str,
        request: &NvmetRequest,
    ) -> Result<()> {
        let node = Path::new(node);
        let wanted = request.wanted(offer.identity, node)?;
        check_unused(&offer.name, node).with_context(|| not_exported(&offer.name))?;
        let details = Details::new(offer.identity, node, request);
        let made = self.target.ask(&Order::Make(details));
        made.with_context(|| not_exported(&offer.name))?;
        let status = NvmetStatus::of(&wanted);
        self.exported.push((offer.name.clone(), status));
        Ok(())
    }

    /// Removes the export of a volume, if there is one and nothing on this machine uses the device.
    pub(super) fn remove(&mut self, volume: &str, identity: [u8; 16], node: &str) -> Result<()> {
        if self.may_be_exported(volume, &identity) {
            check_unused(volume, Path::new(node))?;
            self.take_away(volume, identity)?;
        }
        Ok(())
    }

    /// Ends the export of a volume whose device stays.
    fn end(&mut self, volume: &str, identity: [u8; 16]) -> Result<()> {
        ensure!(
            self.may_be_exported(volume, &identity),
            "volume {volume} is not exported by NVMe over TCP"
        );
        self.take_away(volume, identity)
    }

    /// What is not known may be there all the same: an export that was made although the answer was late.
    fn may_be_exported(&self, volume: &str, identity: &[u8; 16]) -> bool {
        self.status(volume).is_some() || self.target.may_have(identity)
    }

    fn take_away(&mut self, volume: &str, identity: [u8; 16]) -> Result<()> {
        let removed = self.target.ask(&Order::Remove(identity));
        removed.with_context(|| {
            format!("volume {volume} is still exported by the kernel's NVMe target")
        })?;
        self.exported.retain(|(name, _)| name != volume);
        Ok(())
    }

    /// Takes over what an earlier server has exported, if the volume is the same device. Otherwise removes it.
    fn take_over(&mut self, volume: &str, identity: [u8; 16], node: Option<&str>) -> Result<()> {
        if !self.target.may_have(&identity) {
            return Ok(());
        }
        let Some(found) = self.target.ask(&Order::Find(identity))? else {
            return Ok(());
        };
        match found.status {
            Some(status) if node.is_some_and(|node| found.device == Path::new(node)) => {
                self.exported.push((volume.to_owned(), status));
                Ok(())
            }
            _ => {
                (self.say)(&format_args!(
                    "what an earlier server has exported of volume {volume} by NVMe over TCP is removed: its device is gone, or it is not complete"
                ));
                self.take_away(volume, identity)
            }
        }
    }
}

impl All {
    /// Takes over the exports of devices that were taken over, and removes those that are left without a device. A device of a
    /// read-only volume waits, with its export, for a server that writes.
    pub(super) fn take_exports_over(&mut self, shared: &Shared) {
        let devices = self.devices();
        let mut offers = offers(&shared.snapshot().record, &self.started);
        offers.retain(|offer| offer.read_only);
        for one in self.started.clone() {
            if offers.iter().any(|offer| offer.name == one.name) {
                continue;
            }
            let mut of_volume = devices.iter().filter(|(volume, _)| *volume == one.name);
            let node = of_volume.next().map(|(_, device)| device.node.as_str());
            if let Err(error) = self.nvmet.take_over(&one.name, one.uuid.0, node) {
                (self.nvmet.say)(&format_args!(
                    "an earlier server's export of volume {} by NVMe over TCP is not taken over: {error:#}",
                    one.name
                ));
            }
        }
    }

    /// Exports the device of a volume. If that cannot be done, a device that is `new` is removed.
    pub(super) fn export_device(
        &mut self,
        offer: &Offer,
        new: bool,
        request: &NvmetRequest,
    ) -> Result<()> {
        let device = self.device(&offer.name);
        let device = device.context("the device is gone already")?;
        let Err(error) = self.nvmet.export(offer, &device.node, request) else {
            return Ok(());
        };
        if new && let Err(other) = self.remove_device(&offer.name, device.kind) {
            let left = format!("{} is left over ({other:#})", device.path);
            return Err(error.context(left));
        }
        Err(error)
    }

    /// Removes the export of a volume before its device goes.
    pub(super) fn remove_export(&mut self, volume: &str, node: &str) -> Result<()> {
        let mut started = self.started.iter();
        match started.find(|one| one.name == volume) {
            Some(one) => self.nvmet.remove(volume, one.uuid.0, node),
            None => Ok(()),
        }
    }

    /// Removes, at the end, the exports of all devices that nothing on this machine uses, unless another process follows at
    /// once. An export that stays has its device stay.
    pub(super) fn end_exports(&mut self, hands_over: bool) {
        let give_up = Instant::now() + EXPORTS_END_WITHIN;
        for (volume, device) in self.devices() {
            let is_unused = || check_unused(&volume, Path::new(&device.node)).is_ok();
            if !hands_over
                && Instant::now() < give_up
                && is_unused()
                && let Err(error) = self.remove_export(&volume, &device.node)
            {
                (self.nvmet.say)(&format_args!("{error:#}"));
            }
        }
        for (volume, _) in &self.nvmet.exported {
            let devices = self.exports.iter_mut().filter_map(|one| one.devices());
            devices.for_each(|devices| devices.keep(volume));
        }
    }

    /// Exports the volumes that wait for it as is wanted at the start; one that is exported otherwise is exported anew.
    fn export_waiting(&mut self, shared: &Shared) -> Vec<anyhow::Error> {
        let Some(request) = self.nvmet.at_start.clone() else {
            return Vec::new();
        };
        let mut errors = Vec::new();
        let mut offers = offers(&shared.snapshot().record, &self.started);
        offers.retain(|offer| self.nvmet.waiting.contains(&offer.name));
        for offer in offers {
            let Some(device) = self.device(&offer.name) else {
                continue;
            };
            match self.export_as_wanted(&offer, &device, &request) {
                Ok(()) => self.nvmet.wait_no_more(&offer.name),
                Err(error) => errors.push(error),
            }
        }
        errors
    }

    fn export_as_wanted(
        &mut self,
        offer: &Offer,
        device: &DeviceStatus,
        request: &NvmetRequest,
    ) -> Result<()> {
        let wanted = request.wanted(offer.identity, Path::new(&device.node));
        let wanted = wanted.with_context(|| not_exported(&offer.name))?;
        match self.nvmet.status(&offer.name) {
            Some(status) if *status == NvmetStatus::of(&wanted) => return Ok(()),
            Some(_) => self.remove_export(&offer.name, &device.node)?,
            None => {}
        }
        self.nvmet.check(offer, Some(device.kind), request)?;
        self.nvmet.export(offer, &device.node, request)
    }

    /// Tries again what could not be exported: at boot, the address of this machine or the kernel's module may come later.
    pub(super) fn try_exports_again(&mut self, shared: &Shared) {
        let waited = self.nvmet.waiting.len();
        let errors = self.export_waiting(shared);
        let why = errors.first().map(|error| format!("{error:#}"));
        if why != self.nvmet.said {
            match &why {
                Some(why) => (self.nvmet.say)(why),
                // Somebody has detached what could not be exported.
                None if self.nvmet.waiting.len() == waited => {}
                None => (self.nvmet.say)(&"the volumes are exported by NVMe over TCP now"),
            }
            self.nvmet.said = why;
        }
    }
}

impl Exports {
    /// Exports every volume that is a block device by NVMe over TCP, now or as soon as that is possible, unless somebody attaches
    /// or detaches it before. Returns an error for each one that is not exported yet.
    pub fn export_all(&self, shared: &Shared, request: NvmetRequest) -> Vec<anyhow::Error> {
        let mut all = self.all();
        all.nvmet.at_start = Some(request);
        all.nvmet.waiting = all
            .devices()
            .into_iter()
            .map(|(volume, _)| volume)
            .collect();
        let errors = all.export_waiting(shared);
        all.nvmet.said = errors.first().map(|error| format!("{error:#}"));
        all.publish(shared);
        errors
    }

    /// Ends the export of a volume by NVMe over TCP. The block device stays.
    ///
    /// # Errors
    /// One sentence: why it is still exported, or that it is not.
    pub fn end_export(&self, shared: &Shared, volume: &str) -> Result<()> {
        let mut all = self.opened()?;
        all.nvmet.wait_no_more(volume);
        let one = all.started.iter().find(|one| one.name == volume);
        let one = one.with_context(|| format!("volume {volume} is not started"))?;
        let identity = one.uuid.0;
        let ended = all.nvmet.end(volume, identity);
        all.publish(shared);
        ended
    }
}
