//! Makes the device of a volume, or takes over the one that an earlier process has left, and removes it.

use super::limits::{self, Shape};
use super::port::NewQueue;
use super::room::{Kept, shard_of};
use crate::block_device::claim;
use crate::export::{Attached, Messages, Offer, Say};
use crate::killed::why_not_ended;
use crate::names::Name;
use anyhow::{Context, Result, anyhow, bail, ensure};
use drives::ublk::{CharacterDevice, Control, DeviceInfo, Features, State};
use engine::units::ShardId;
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

/// How long the shards may take to give all commands of a queue.
const QUEUES_WITHIN: Duration = Duration::from_secs(10);
/// How long the kernel may take to make the block device: it reads the table of partitions, so drives are waited for.
const START_WITHIN: Duration = Duration::from_secs(120);
/// How long the kernel may take until the last request is answered: longer than any drive may take to answer.
pub(super) const STOP_WITHIN: Duration = Duration::from_secs(3700);
/// How long a stopped device may be kept open.
const DELETE_WITHIN: Duration = Duration::from_secs(30);
/// How long the kernel may take to notice that the process of a device has ended.
const NOTICED_WITHIN: Duration = Duration::from_secs(20);
const LOOK_AGAIN_AFTER: Duration = Duration::from_millis(20);
/// Devices outlive their process, and unanswered requests go to the next one.
const FEATURES: Features = Features::USER_RECOVERY.and(Features::REISSUE);

/// A device that is being served.
#[derive(Debug)]
pub(super) struct Device {
    pub volume: String,
    number: u32,
    stopped: bool,
    name: Option<Name>,
}

/// A number by which a volume's device is recognised by the next process: the first half of the volume's UUID.
pub(super) fn mark_of(identity: &[u8; 16]) -> u64 {
    let half = identity.first_chunk().expect("a UUID has 16 bytes");
    u64::from_be_bytes(*half)
}

/// The path of the block device with this number.
pub(super) fn block_device(number: u32) -> PathBuf {
    PathBuf::from(format!("/dev/ublkb{number}"))
}

impl Device {
    fn of(offer: &Offer, number: u32) -> Device {
        Device {
            volume: offer.name.clone(),
            number,
            stopped: false,
            name: None,
        }
    }

    /// Makes the device of a volume that has none, and starts it.
    ///
    /// # Errors
    /// One sentence. Nothing of it is left.
    pub fn make(
        control: &mut Control,
        offer: &Offer,
        shape: Shape,
        messages: &Messages,
    ) -> Result<Device> {
        let info = control.add(&DeviceInfo {
            number: DeviceInfo::ANY_NUMBER,
            queues: messages.shards().into(),
            depth: shape.depth,
            state: State::Dead,
            request_bytes_max: shape.request_bytes_max,
            process: 0,
            features: FEATURES,
            mark: mark_of(&offer.identity),
        })?;
        let mut device = Device::of(offer, info.number);
        let started = device.start(control, offer, info, messages);
        started.map_err(|error| match device.undo() {
            Ok(()) => error,
            Err(other) => error.context(format!(
                "{} is left over ({other:#}), because the device could not be started",
                block_device(info.number).display()
            )),
        })?;
        Ok(device)
    }

    /// Removes a device that could not be started. It takes a control device of its own: the kernel may not have answered
    /// the last command to the other.
    fn undo(&mut self) -> Result<()> {
        let mut control = Control::open()?;
        self.stop(&mut control)?;
        self.delete(&mut control)
    }

    fn start(
        &mut self,
        control: &mut Control,
        offer: &Offer,
        info: DeviceInfo,
        messages: &Messages,
    ) -> Result<()> {
        ensure!(
            info.features.include(FEATURES),
            "this kernel's ublk cannot keep a device when its process ends; Linux 6.4 or newer is needed"
        );
        let shape = shape_of(&info);
        control.set_parameters(self.number, &limits::parameters(offer, shape))?;
        serve_queues(offer, &info, messages)?;
        control.start(self.number, START_WITHIN)?;
        self.name = Some(Name::give(offer, &block_device(self.number))?);
        Ok(())
    }

    /// Takes over the device that an earlier process has left. Whether there is memory for it is known already: where the
    /// kernel is asked to begin, no way leads back. If it cannot be named, that is said, and [`Device::renew`] tries it again.
    ///
    /// # Errors
    /// One sentence; the device stays, and its requests wait.
    pub fn take_over(
        control: &mut Control,
        offer: &Offer,
        info: DeviceInfo,
        messages: &Messages,
        say: &Say,
    ) -> Result<Device> {
        let node = block_device(info.number);
        ensure!(
            !offer.read_only,
            "{} is left over from it with requests that may be writes; serve it without --read-only",
            node.display()
        );
        let was_begun = match control.start_recovery(info.number) {
            // The process before had begun, and ended before it served a queue. Linux before 6.15 does not begin again, and
            // need not if that process had mapped none.
            Err(error) if error.is(Errno::INVAL) => true,
            begun => {
                begun?;
                false
            }
        };
        serve_queues(offer, &info, messages).with_context(|| match was_begun {
            true => begun_before(&node, &offer.name),
            false => format!("{} is not taken over", node.display()),
        })?;
        control.end_recovery(info.number)?;
        Ok(Device {
            name: Some(Name::give_again(offer, &node, say)),
            ..Device::of(offer, info.number)
        })
    }

    /// Gives what the name still lacks.
    pub fn renew(&mut self, offer: &Offer, say: &Say) {
        if let Some(name) = &mut self.name {
            name.complete(offer, say);
        }
    }

    /// Where the volume is found; `None` once the device is stopped.
    #[must_use]
    pub fn attached(&self) -> Option<Attached> {
        let name = self.name.as_ref()?;
        Some(Attached {
            volume: self.volume.clone(),
            path: name.path().to_owned(),
            node: block_device(self.number),
        })
    }

    /// Claims the block device, as a mount would: as long as the descriptor is open, nothing else can claim it. `None` if it
    /// is stopped.
    ///
    /// # Errors
    /// It is mounted, or something else has claimed it, such as LVM; or that cannot be told.
    pub fn claim_unless_stopped(&self) -> Result<Option<OwnedFd>> {
        (!self.stopped).then(|| self.claim()).transpose()
    }

    fn claim(&self) -> Result<OwnedFd> {
        claim(&self.volume, &block_device(self.number))
    }

    /// Stops and removes the device, unless something uses it. If only the removal fails, the volume's next attachment
    /// repeats it.
    ///
    /// # Errors
    /// It is in use, and stays; the kernel refuses.
    pub fn detach(&mut self, control: &mut Control) -> Result<()> {
        // Held until the device is stopped, so that nothing can mount it meanwhile.
        let claimed = self.claim_unless_stopped()?;
        self.stop(control)?;
        drop(claimed);
        self.delete(control)
    }

    /// Leaves the device to the next process.
    pub fn leave(self) {
        if let Some(name) = self.name {
            name.leave();
        }
    }

    /// Removes the block device, when its requests are answered.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn stop(&mut self, control: &mut Control) -> Result<()> {
        if !self.stopped {
            control.stop(self.number, STOP_WITHIN)?;
            self.stopped = true;
        }
        self.name = None;
        Ok(())
    }

    /// Removes what is left of a stopped device, when the shards have let go of it.
    ///
    /// # Errors
    /// The kernel refuses.
    pub fn delete(&mut self, control: &mut Control) -> Result<()> {
        control.delete(self.number, DELETE_WITHIN)?;
        Ok(())
    }
}

fn shape_of(info: &DeviceInfo) -> Shape {
    Shape {
        depth: info.depth,
        request_bytes_max: info.request_bytes_max,
    }
}

/// Has the shards serve all queues of a device, and waits until each has given the commands of its tags.
fn serve_queues(offer: &Offer, info: &DeviceInfo, messages: &Messages) -> Result<()> {
    let device = CharacterDevice::open(info.number)?;
    let waits: Vec<(u16, Receiver<_>)> = (0..info.queues)
        .map(|number| {
            let (ready, wait) = channel();
            let queue = NewQueue {
                device: device.clone(),
                number,
                depth: info.depth,
                volume: offer.volume,
                rules: limits::rules(offer, shape_of(info)),
                ready,
            };
            let shard = shard_of(number, messages.shards());
            messages.to(ShardId(shard), Box::new(queue));
            (number, wait)
        })
        .collect();
    for (number, wait) in waits {
        let result = wait.recv_timeout(QUEUES_WITHIN);
        let result = result.map_err(|_| anyhow!("no shard serves its queue {number}"))?;
        result.map_err(|problem| anyhow!("{problem}"))?;
    }
    Ok(())
}

/// The device that an earlier process has made for this volume, if it waits to be taken over. One that was never started
/// is removed.
///
/// # Errors
/// Another process serves it, or it has another size.
pub(super) fn leftover(control: &mut Control, offer: &Offer) -> Result<Option<DeviceInfo>> {
    for number in numbers()? {
        let Some(info) = settled(control, offer, number)? else {
            continue;
        };
        match info.state {
            State::Quiesced => {
                check_size(offer, number)?;
                return Ok(Some(info));
            }
            State::Dead => control.delete(number, DELETE_WITHIN)?,
            State::Live | State::Other(_) => bail!("{}", is_served(info.process, number)),
        }
    }
    Ok(None)
}

/// Why another process cannot go on where one has ended while it took a device over. Seen with Linux 6.12: the kernel remembers
/// the memory of the process that mapped a queue, and lets no other map one.
fn begun_before(node: &Path, volume: &str) -> String {
    format!(
        "an earlier server ended while it took {} over, and this kernel lets no other go on with it (Linux 6.15 and newer do); \
         give the device up with 'fullstripe detach {volume} --give-up', which loses what was written to it and not synced",
        node.display()
    )
}

/// What all devices of these volumes keep, whoever serves them now. A volume that is read-only takes none over.
///
/// # Errors
/// The kernel does not tell of them.
pub(super) fn kept(control: &mut Control, offers: &[Offer]) -> Result<Vec<Kept>> {
    let mut found = Vec::new();
    for number in numbers()? {
        let info = match control.info(number) {
            Err(error) if error.is(Errno::NODEV) => continue,
            other => other?,
        };
        let mut writable = offers.iter().filter(|offer| !offer.read_only);
        let is_ours = writable.any(|offer| is_of(&info, offer));
        if is_ours && info.state != State::Dead {
            found.push(Kept::of(&info));
        }
    }
    Ok(found)
}

/// Whether a server has made a device for this volume.
fn is_of(info: &DeviceInfo, offer: &Offer) -> bool {
    info.mark == mark_of(&offer.identity) && info.features.include(FEATURES)
}

/// Why a device cannot be taken over. Linux 6.12 was seen not to notice the end of a process, once in some hundred times.
pub(super) fn is_served(process: i32, number: u32) -> String {
    let device = block_device(number);
    let device = device.display();
    if let Some(why) = why_not_ended(process) {
        return format!("it is {device} of an earlier server: {why}");
    }
    if std::path::Path::new(&format!("/proc/{process}")).exists() {
        return format!("process {process} serves it as {device}; stop that process first");
    }
    format!(
        "process {process} served it as {device} and has ended, but the kernel has not noticed that within {} s; try again in a \
         minute, and if the kernel then still has not, restart the machine (the array loses nothing by that)",
        NOTICED_WITHIN.as_secs()
    )
}

/// The device with this number, if it is one of this volume. The process that served it has let go of the drives, since this
/// one has them; it is waited for until the kernel has noticed.
fn settled(control: &mut Control, offer: &Offer, number: u32) -> Result<Option<DeviceInfo>> {
    let give_up = Instant::now() + NOTICED_WITHIN;
    loop {
        let info = match control.info(number) {
            // A device can vanish at any time.
            Err(error) if error.is(Errno::NODEV) => return Ok(None),
            other => other?,
        };
        if !is_of(&info, offer) {
            return Ok(None);
        }
        if info.state != State::Live || Instant::now() >= give_up {
            return Ok(Some(info));
        }
        std::thread::sleep(LOOK_AGAIN_AFTER);
    }
}

/// A device keeps its size. What is on a volume of another size is not what was on the device.
fn check_size(offer: &Offer, number: u32) -> Result<()> {
    let path = format!("/sys/block/ublkb{number}/size");
    let text = std::fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
    let sectors: u64 = text
        .trim()
        .parse()
        .with_context(|| format!("{path} is no number"))?;
    ensure!(
        sectors.checked_mul(512) == Some(offer.size_bytes),
        "{} is left over from it and has {sectors} sectors, but the volume has {} bytes; remove the device with 'fullstripe detach {} --give-up'",
        block_device(number).display(),
        offer.size_bytes,
        offer.name
    );
    Ok(())
}

/// The numbers of all ublk devices of this machine.
fn numbers() -> Result<Vec<u32>> {
    const CLASS: &str = "/sys/class/ublk-char";
    let entries = match std::fs::read_dir(CLASS) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.with_context(|| format!("cannot read {CLASS}"))?,
    };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    Ok(names
        .filter_map(|name| name.strip_prefix("ublkc")?.parse().ok())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::{begun_before, is_served};
    use std::path::Path;

    #[test]
    fn a_process_is_to_be_stopped_only_if_there_is_one() {
        let own = is_served(std::process::id() as i32, 3);
        assert!(own.ends_with("serves it as /dev/ublkb3; stop that process first"));
        let gone = is_served(i32::MAX, 3);
        assert!(gone.contains("served it as /dev/ublkb3 and has ended"));
    }

    #[test]
    fn a_device_that_this_kernel_gives_up_is_named_with_what_is_left_to_do() {
        let said = begun_before(Path::new("/dev/ublkb3"), "vol0");
        assert!(said.starts_with("an earlier server ended while it took /dev/ublkb3 over"));
        assert!(said.contains("'fullstripe detach vol0 --give-up'"));
    }
}
