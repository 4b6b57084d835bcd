//! Recognises and refuses the drives that the root file system of this machine lies on, and the spares beside them.
//!
//! No process can serve them: it would have to start before the root is mounted, and to end after the root is gone. Linux md can,
//! because it is part of the kernel. Most such drives are busy anyway; this says what to do instead, and holds where the kernel
//! would allow more than it should. A spare in md's container of such drives is treated as they are: the root may need it at
//! any time, and md releases it only when the whole container is stopped.

use crate::machine::{Machine, container_of};
use crate::probe::{Probed, parse_spec};
use crate::refusal::refused;
use anyhow::Result;
use drives::layers::{Layer, Layers};
use drives::spec::Target;
use std::path::Path;

/// How a drive belongs to the root file system of this machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Tie {
    /// The root file system lies on the drive, through md, LVM or anything else.
    Below,
    /// The drive is in this container of Linux md's, like `md127`, and the root file system lies on other drives of the container.
    InContainer(String),
}

impl Tie {
    /// What the drive, called `it`, has to do with the root file system, as a clause.
    #[must_use]
    pub fn clause(&self, it: &str) -> String {
        match self {
            Tie::Below => format!("the root file system of this machine lies on {it}"),
            Tie::InContainer(container) => format!(
                "{it} is in Linux md's container {container}, and so are the drives that the root file system of this machine lies on"
            ),
        }
    }
}

/// How the drive at `path` belongs to the root file system of this machine; `None` if it does not.
#[must_use]
pub fn tie(path: &Path) -> Option<Tie> {
    let layers = Layers::below("/");
    let root = layers.root_file_system()?;
    tie_of(&layers, &root, &layers.device(path)?)
}

fn tie_of(layers: &Layers, root: &Layer, device: &str) -> Option<Tie> {
    if root.devices.contains(device) {
        return Some(Tie::Below);
    }
    let containers = layers.imsm_containers().into_iter();
    let mut shared = containers
        .filter(|(_, drives)| drives.contains(device) && !drives.is_disjoint(&root.devices));
    shared.next().map(|(name, _)| Tie::InContainer(name))
}

/// Refuses `specs` if one of these drives belongs to the root file system.
///
/// # Errors
/// A refusal that names the drive; or a specification cannot be parsed.
pub fn refuse(specs: &[String]) -> Result<()> {
    refuse_in(&Layers::below("/"), specs)
}

fn refuse_in(layers: &Layers, specs: &[String]) -> Result<()> {
    let Some(root) = layers.root_file_system() else {
        return Ok(());
    };
    for spec in specs {
        let Target::Path(path) = parse_spec(spec)?.target else {
            continue;
        };
        let device = layers.device(&path);
        if let Some(tie) = device.and_then(|device| tie_of(layers, &root, &device)) {
            return Err(refusal(&tie, &path.display().to_string()));
        }
    }
    Ok(())
}

/// Refuses the container `uuid`, written as mdadm prints it, if the root file system of `machine` lies on any of its drives. Each
/// block device is opened and read.
///
/// # Errors
/// A refusal that names a drive; or one that names md's container below the root file system, if no drive of that can be read:
/// then it may be this one. Or the machine's block devices cannot be listed.
pub fn refuse_container(machine: &Machine, uuid: &str) -> Result<()> {
    let layers = machine.layers();
    let Some(root) = layers.root_file_system() else {
        return Ok(());
    };
    let (drives, _) = machine.drives()?;
    let read: Vec<(&Probed, String, String)> = (drives.iter())
        .filter_map(|probed| {
            let device = machine.device(probed.drive.name())?;
            Some((probed, device, container_of(probed)?.to_string()))
        })
        .collect();
    for (probed, device, _) in read
        .iter()
        .filter(|(_, _, of)| of.eq_ignore_ascii_case(uuid))
    {
        if let Some(tie) = tie_of(&layers, &root, device) {
            return Err(refusal(&tie, probed.drive.name()));
        }
    }
    for (container, devices) in layers.imsm_containers() {
        let is_below = !devices.is_disjoint(&root.devices);
        if is_below && !read.iter().any(|(_, device, _)| devices.contains(device)) {
            return Err(refused(format!(
                "the root file system of this machine lies on Linux md's container {container}, and may lie on this one, because no \
                 record of the drives of {container} can be read; `fullstripe list` says why, and the array can be enabled once one \
                 can be read"
            )));
        }
    }
    Ok(())
}

fn refusal(tie: &Tie, drive: &str) -> anyhow::Error {
    refused(format!(
        "{}, and no process can serve such an array; leave this array to Linux md, which assembles it in the initramfs, and serve \
         data arrays only",
        tie.clause(drive)
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn members_and_spares_of_the_array_below_the_root_are_refused() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for (device, slaves) in [
            ("md125", &["nvme3n1"][..]),
            ("md126", &["nvme0n1"]),
            ("md127", &["nvme0n1", "nvme2n1"]),
            ("nvme0n1", &[]),
            ("nvme1n1", &[]),
            ("nvme2n1", &[]),
            ("nvme3n1", &[]),
        ] {
            for folder in [
                "sys/devices",
                "sys/class/block",
                "sys/dev/block",
                "dev",
                "proc/self",
            ] {
                fs::create_dir_all(at(folder)).unwrap();
            }
            fs::create_dir(at(&format!("sys/devices/{device}"))).unwrap();
            for slave in slaves {
                fs::create_dir_all(at(&format!("sys/devices/{device}/slaves/{slave}"))).unwrap();
            }
            symlink(
                at(&format!("sys/devices/{device}")),
                at(&format!("sys/class/block/{device}")),
            )
            .unwrap();
            fs::write(at(&format!("dev/{device}")), "").unwrap();
        }
        for (device, kind) in [
            ("md125", "external:imsm"),
            ("md126", "external:/md127/0"),
            ("md127", "external:imsm"),
        ] {
            fs::create_dir(at(&format!("sys/devices/{device}/md"))).unwrap();
            let file = at(&format!("sys/devices/{device}/md/metadata_version"));
            fs::write(file, format!("{kind}\n")).unwrap();
        }
        symlink(at("sys/devices/md126"), at("sys/dev/block/9:126")).unwrap();
        let mounted = |source: &str| fs::write(at("proc/self/mountinfo"), source).unwrap();
        let layers = Layers::below(root.path());
        let refused = |specs: &[&str]| {
            let specs: Vec<String> = specs.iter().map(|spec| (*spec).to_owned()).collect();
            refuse_in(&layers, &specs)
                .err()
                .map(|error| error.to_string())
        };
        mounted("22 1 9:126 / / rw - ext4 /dev/md126 rw\n");
        let said = refused(&["ram:8m", "/dev/nvme1n1", "/dev/nvme0n1,serial=S"]).unwrap();
        assert!(
            said.starts_with("the root file system of this machine lies on /dev/nvme0n1, "),
            "{said}"
        );
        let spare = refused(&["/dev/nvme2n1"]).unwrap();
        assert!(
            spare.starts_with("/dev/nvme2n1 is in Linux md's container md127, and so are the drives that the root "),
            "{spare}"
        );
        assert_eq!(
            refused(&["ram:8m", "/dev/nvme1n1", "/dev/nvme3n1"]),
            None,
            "a free drive, and a spare of another container"
        );
        mounted("22 1 0:3 / / rw - overlay overlay rw\n");
        assert_eq!(refused(&["/dev/nvme0n1", "/dev/nvme2n1"]), None);
    }
}
