//! The lasting name of a block device: a link `/dev/fullstripe/NAME` ([`crate::links`]), and what udev is told of the device.
//!
//! udev has to know the device too. systemd waits for a device that it mounts until udev announces it by that name, and a
//! device has a serial number by which scripts find it. The kernel knows neither, so they are written into a file in
//! `/run/fullstripe/devices` that is called like the kernel's device, and the kernel is asked to announce the device again.
//! fullstripe's udev rules (`packaging/udev`) read that file. Without udev, or without these rules, nobody reads it, and the link is all there is.

use crate::export::{Offer, Say};
use crate::links::{self, Link};
use anyhow::{Context, Result};
use drives::holders::partitions;
use metadata::imsm::Uuid;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// Where fullstripe's udev rules look for what is to be known of a device.
const PROPERTIES: &str = "/run/fullstripe/devices";
/// The properties of a device.
const UUID: &str = "FULLSTRIPE_UUID";
const NAME: &str = "FULLSTRIPE_NAME";
/// How the names of files begin there that are not whole yet.
const UNFINISHED: &str = ".";
/// Where the kernel lists block devices, and is asked to announce one.
const DEVICES: &str = "/sys/class/block";

/// A device's name. Dropping it takes the name away, unless another device has it by now.
///
/// A device that is taken over may lack a part of its name: its requests wait for a server, not for a name.
#[derive(Debug)]
pub(crate) struct Name {
    node: PathBuf,
    link: Option<Link>,
    properties: Option<Properties>,
    /// Why it is not whole, as it was said last.
    problem: Option<String>,
}

/// The folders that a name concerns.
struct Folders<'a> {
    links: &'a Path,
    properties: &'a Path,
    devices: &'a Path,
}

impl Folders<'static> {
    fn of_this_machine() -> Folders<'static> {
        Folders {
            links: Path::new(links::FOLDER),
            properties: Path::new(PROPERTIES),
            devices: Path::new(DEVICES),
        }
    }
}

impl Name {
    fn none(node: &Path) -> Name {
        Name {
            node: node.to_owned(),
            link: None,
            properties: None,
            problem: None,
        }
    }

    /// Names the block device `node` after the volume that it is.
    ///
    /// # Errors
    /// The name is taken, or the system refuses.
    pub fn give(offer: &Offer, node: &Path) -> Result<Name> {
        let mut name = Name::none(node);
        name.complete_in(&Folders::of_this_machine(), offer)?;
        Ok(name)
    }

    /// Names a block device that is taken over. What cannot be given now is said, and [`Name::complete`] tries it again.
    pub fn give_again(offer: &Offer, node: &Path, say: &Say) -> Name {
        let mut name = Name::none(node);
        name.complete(offer, say);
        name
    }

    /// Gives what is missing. Why that cannot be given is said once, and so is the end of it.
    pub fn complete(&mut self, offer: &Offer, say: &Say) {
        self.complete_and_say(&Folders::of_this_machine(), offer, say);
    }

    fn complete_and_say(&mut self, folders: &Folders, offer: &Offer, say: &Say) {
        if self.link.is_some() && self.properties.is_some() {
            return;
        }
        let problem = self.complete_in(folders, offer).err();
        let problem = problem.map(|error| format!("{error:#}"));
        let (node, volume) = (self.node.display(), &offer.name);
        match &problem {
            None if self.problem.is_none() => {}
            None => say(&format_args!("volume {volume}, {node}, has its name now")),
            Some(_) if problem == self.problem => {}
            Some(why) => say(&format_args!(
                "volume {volume} is served as {node}, but without its name, which is tried again every second: {why}"
            )),
        }
        self.problem = problem;
    }

    fn complete_in(&mut self, folders: &Folders, offer: &Offer) -> Result<()> {
        if self.link.is_none() {
            self.link = Some(Link::make(folders.links, &offer.name, &self.node)?);
        }
        if self.properties.is_none() {
            let (properties, devices) = (folders.properties, folders.devices);
            self.properties = Some(Properties::tell(properties, devices, offer, &self.node)?);
        }
        Ok(())
    }

    /// Where the device is found: the link, or the kernel's device while there is no link.
    pub fn path(&self) -> &Path {
        self.link.as_ref().map_or(&self.node, Link::path)
    }

    /// Leaves the name to the next process.
    pub fn leave(self) {
        if let Some(link) = self.link {
            link.leave();
        }
        std::mem::forget(self.properties);
    }
}

/// What udev is told of a device.
#[derive(Debug)]
struct Properties {
    path: PathBuf,
    /// The device's folder in sysfs.
    device: PathBuf,
}

impl Properties {
    /// Writes the file in `folder`, and has the kernel announce the device `node`, which has a folder in `devices`. A file
    /// that says the same already needs no room; another one stays as it is until the new one is whole.
    fn tell(folder: &Path, devices: &Path, offer: &Offer, node: &Path) -> Result<Properties> {
        let name = node.file_name().expect("a block device has a name");
        let path = folder.join(name);
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        let text = text(offer);
        if !std::fs::read_to_string(&path).is_ok_and(|there| there == text) {
            replace(&path, &text).with_context(|| format!("cannot write {}", path.display()))?;
        }
        let device = devices.join(name);
        let properties = Properties { path, device };
        properties
            .announce("add")
            .with_context(|| format!("the kernel does not announce {} to udev", node.display()))?;
        Ok(properties)
    }

    /// Has the kernel announce the device, and then its partitions: the kernel has found those, and udev has heard of them,
    /// before the file was there.
    fn announce(&self, action: &str) -> std::io::Result<()> {
        const ANNOUNCE: &str = "uevent";
        std::fs::write(self.device.join(ANNOUNCE), action)?;
        for part in partitions(&self.device) {
            // The kernel may read the table of partitions just now; it announces what it finds.
            let _ = std::fs::write(part.join(ANNOUNCE), action);
        }
        Ok(())
    }
}

/// Puts a file in the place of another, or leaves everything as it was.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let name = path.file_name().expect("the path of a file has a name");
    let beside = path.with_file_name(format!("{UNFINISHED}{}", name.display()));
    let written = std::fs::write(&beside, text);
    let replaced = written.and_then(|()| std::fs::rename(&beside, path));
    if replaced.is_err() {
        // One that stays is no device's, and the next attempt replaces it.
        let _ = std::fs::remove_file(&beside);
    }
    replaced
}

impl Drop for Properties {
    fn drop(&mut self) {
        // A file that stays is read by udev for a device that is none of ours; the next device of this name replaces it.
        // What is announced may be gone.
        let _ = std::fs::remove_file(&self.path);
        let _ = self.announce("change");
    }
}

/// A block device that a server of this machine has made and not removed. If nothing serves it now, it waits for the next server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Given {
    /// The kernel's device, like `/dev/ublkb0`.
    pub node: PathBuf,
    /// The name of the volume, or its UUID where udev makes no link of that name.
    pub volume: String,
    /// The volume's UUID, as mdadm prints it.
    pub uuid: String,
}

impl Given {
    /// Whether the kernel has the device.
    #[must_use]
    pub fn is_there(&self) -> bool {
        is_there(Path::new(DEVICES), &self.node)
    }

    /// Takes away what servers have written about the device, which is gone, and its link.
    pub(crate) fn forget(&self) {
        self.forget_in(&Folders::of_this_machine());
    }

    fn forget_in(&self, folders: &Folders) {
        let name = self.node.file_name().unwrap_or_default();
        drop(Link::left(folders.links, &self.volume, &self.node));
        drop(Properties {
            path: folders.properties.join(name),
            device: folders.devices.join(name),
        });
    }
}

/// Whether the kernel has the device, and it has a size: a device of the NBD client stays without one when it is given up.
fn is_there(devices: &Path, node: &Path) -> bool {
    let name = node.file_name().unwrap_or_default();
    let size = std::fs::read_to_string(devices.join(name).join("size"));
    size.is_ok_and(|size| size.trim() != "0")
}

/// All such devices, in the order of the kernel's names.
///
/// # Errors
/// What servers have written about their devices cannot be read.
pub fn given() -> Result<Vec<Given>> {
    given_in(Path::new(PROPERTIES))
}

fn given_in(folder: &Path) -> Result<Vec<Given>> {
    let entries = match std::fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        read => read.with_context(|| format!("cannot read {}", folder.display()))?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry.with_context(|| format!("cannot read {}", folder.display()))?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            continue;
        }
        let text = match std::fs::read_to_string(entry.path()) {
            // The device was removed meanwhile.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            read => read.with_context(|| format!("cannot read {}", entry.path().display()))?,
        };
        found.push(Given {
            node: Path::new("/dev").join(entry.file_name()),
            volume: value_in(&text, NAME)
                .or_else(|| value_in(&text, UUID))
                .unwrap_or_default(),
            uuid: value_in(&text, UUID).unwrap_or_default(),
        });
    }
    found.sort_by(|one, other| one.node.cmp(&other.node));
    Ok(found)
}

/// The value of `key` among a device's properties.
fn value_in(text: &str, key: &str) -> Option<String> {
    let value = |line: &str| Some(line.strip_prefix(key)?.strip_prefix('=')?.to_owned());
    text.lines().find_map(value)
}

/// The properties of a device, as udev reads them.
fn text(offer: &Offer) -> String {
    let mut text = format!("{UUID}={}\n", Uuid(offer.identity));
    if offer.name.chars().all(may_be_in_a_link) {
        text += &format!("{NAME}={}\n", offer.name);
    }
    text
}

/// Whether udev leaves a character of a link's name as it is (udev(7): other characters are replaced).
fn may_be_in_a_link(c: char) -> bool {
    c.is_ascii_alphanumeric() || "#+-.:=@_".contains(c)
}

#[cfg(test)]
mod tests;
