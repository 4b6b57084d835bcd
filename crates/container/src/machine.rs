//! The drives of this machine: which block devices can be members of an array, what is on them, and which of them
//! belong to a container.
//!
//! A [`Machine`] is the real one, or for tests a folder that looks like one: `sys/block` lists the block devices, which
//! lie in `dev`.

use crate::open::one_to_look;
use crate::probe::Probed;
use crate::spare_note::container_noted;
use anyhow::{Context, Result};
use drives::layers::Layers;
use metadata::imsm::Uuid;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use words::without_error_number;

/// Where the kernel lists the block devices.
pub const SYSFS_BLOCK: &str = "/sys/block";

/// Opens each of `specs` read-only and reads its metadata. The second list has a sentence for each drive that cannot be
/// read.
#[must_use]
pub fn look_at(specs: &[String]) -> (Vec<Probed>, Vec<String>) {
    let mut drives = Vec::new();
    let mut unreadable = Vec::new();
    for looked in all_at_once(specs) {
        match looked {
            Ok(probed) => drives.push(probed),
            Err(error) => unreadable.push(without_error_number(&format!("{error:#}"))),
        }
    }
    (drives, unreadable)
}

/// Looks at drives side by side: each that does not answer is waited for, and together they take no longer than one.
fn all_at_once<'specs>(specs: &'specs [String]) -> Vec<Result<Probed>> {
    std::thread::scope(|scope| {
        let begin = |spec: &'specs String| {
            let look = std::thread::Builder::new().spawn_scoped(scope, move || one_to_look(spec));
            look.with_context(|| format!("{spec} cannot be looked at"))
        };
        let looks: Vec<_> = specs.iter().map(begin).collect();
        let looked = looks.into_iter().map(|look| match look?.join() {
            Ok(looked) => looked,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        looked.collect()
    })
}

/// The UUID of the container that a drive's record belongs to, or claims to belong to if it is torn. `None` for a drive
/// without a record, and for a spare, whose record names no container.
#[must_use]
pub fn container_of(probed: &Probed) -> Option<Uuid> {
    match &probed.found {
        Ok(Some(found)) if !found.mpb.is_spare() => Some(Uuid::of_container(&found.mpb)),
        Ok(_) => None,
        Err(error) => {
            let claims = error.torn()?;
            Some(Uuid::of_family(claims.container_family))
        }
    }
}

/// What was found of a container.
#[derive(Debug)]
pub struct FoundMembers {
    /// The drives whose record belongs to it, opened for reading only. `drive.name()` is the path.
    pub members: Vec<Probed>,
    /// Paths of its spares, as far as they [say whose they are](crate::spare_note).
    pub spares: Vec<String>,
    /// A sentence for each drive of the machine that cannot be read; it may be a member.
    pub unreadable: Vec<String>,
}

/// The drives of this machine that belong to the container `uuid`, written as mdadm prints it. Each block
/// device is opened and read, so this needs root.
///
/// # Errors
/// The machine's block devices cannot be listed.
pub fn members_of(uuid: &str) -> Result<FoundMembers> {
    Machine::real().members_of(uuid)
}

/// A machine, or a folder that looks like one.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Machine {
    root: PathBuf,
}

impl Machine {
    /// The machine on which this runs.
    #[must_use]
    pub fn real() -> Machine {
        Machine::below("/")
    }

    /// The machine whose files lie below `root`.
    #[must_use]
    pub fn below(root: impl Into<PathBuf>) -> Machine {
        Machine { root: root.into() }
    }

    /// Where `path`, which begins with `/`, is on this machine.
    #[must_use]
    pub fn place(&self, path: impl AsRef<Path>) -> PathBuf {
        let path = path.as_ref();
        self.root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// The path of the program called `name`, if it is installed. Below another root only `/usr/sbin` is looked into, so
    /// that a test does not run the programs of the real machine.
    #[must_use]
    pub fn program(&self, name: &str) -> Option<PathBuf> {
        let folders = match self.root == Path::new("/") {
            true => search_path(),
            false => vec![self.place("/usr/sbin")],
        };
        let paths = folders.iter().map(|folder| folder.join(name));
        paths.into_iter().find(|path| path.is_file())
    }

    /// What lies on the block devices of this machine.
    #[must_use]
    pub fn layers(&self) -> Layers {
        Layers::below(&self.root)
    }

    /// The kernel's name of the block device at `place`, as [`Machine::place`] gives it; `None` if there is none.
    #[must_use]
    pub fn device(&self, place: &str) -> Option<String> {
        let place = Path::new(place);
        let inside = place.strip_prefix(&self.root).unwrap_or(place);
        self.layers().device(inside)
    }

    /// All drives of this machine, as [`look_at`] returns them. `drive.name()` is the place.
    ///
    /// # Errors
    /// The machine's block devices cannot be listed.
    pub fn drives(&self) -> Result<(Vec<Probed>, Vec<String>)> {
        let devices = block_devices(&self.place(SYSFS_BLOCK))?;
        let places = devices.iter().map(|device| self.place(device));
        let specs: Vec<String> = places.map(|place| place.display().to_string()).collect();
        Ok(look_at(&specs))
    }

    /// As [`members_of`], on this machine.
    ///
    /// # Errors
    /// As [`members_of`].
    pub fn members_of(&self, uuid: &str) -> Result<FoundMembers> {
        let (drives, unreadable) = self.drives()?;
        let is_it = |found: Uuid| found.to_string().eq_ignore_ascii_case(uuid);
        let (members, others): (Vec<_>, Vec<_>) = drives
            .into_iter()
            .partition(|probed| container_of(probed).is_some_and(is_it));
        let is_spare = |probed: &&Probed| container_noted(probed).is_some_and(is_it);
        let spares = others.iter().filter(is_spare);
        let spares = spares
            .map(|probed| probed.drive.name().to_owned())
            .collect();
        Ok(FoundMembers {
            members,
            spares,
            unreadable,
        })
    }
}

/// The folders in `PATH`, and those with programs for administrators, which a user's `PATH` may lack.
#[must_use]
pub fn search_path() -> Vec<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    folders.extend(["/usr/local/sbin", "/usr/sbin", "/sbin"].map(PathBuf::from));
    folders
}

/// Paths of the block devices that can be members: no RAM disks, no optical or floppy drives, no device stacked on
/// other devices or served by a program, no loop device without a file, no device of size 0. `folder` is [`SYSFS_BLOCK`], except in tests.
///
/// # Errors
/// The folder cannot be read.
pub fn block_devices(folder: &Path) -> Result<Vec<String>> {
    const OTHERS: [&str; 11] = [
        "ram", "zram", "sr", "fd", "md", "dm-", "drbd", "bcache", "zd", "nbd", "ublkb",
    ];
    let entries = fs::read_dir(folder)
        .with_context(|| format!("cannot list the block devices in {}", folder.display()))?;
    let mut names = BTreeSet::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let path = entry.path();
        let has_size = fs::read_to_string(path.join("size")).is_ok_and(|text| text.trim() != "0");
        let is_other = OTHERS.iter().any(|prefix| {
            name.strip_prefix(prefix)
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
        });
        let is_bare_loop = name.starts_with("loop") && !path.join("loop/backing_file").exists();
        if has_size && !is_other && !is_bare_loop {
            // In sysfs a slash in a device's name is written as an exclamation mark.
            names.insert(format!("/dev/{}", name.replace('!', "/")));
        }
    }
    Ok(names.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_devices_that_can_hold_members_are_looked_at() {
        let folder = tempfile::tempdir().unwrap();
        for (name, size) in [
            ("nvme0n1", "100"),
            ("sda", "0"),
            ("sdb", "8"),
            ("loop0", "8"),
            ("loop1", "8"),
            ("md127", "8"),
            ("dm-0", "8"),
            ("ublkb0", "8"),
            ("drbd0", "8"),
            ("ram0", "8"),
            ("cciss!c0d0", "8"),
        ] {
            let device = folder.path().join(name);
            fs::create_dir(&device).unwrap();
            fs::write(device.join("size"), format!("{size}\n")).unwrap();
        }
        fs::create_dir(folder.path().join("loop1/loop")).unwrap();
        fs::write(folder.path().join("loop1/loop/backing_file"), "/f\n").unwrap();
        assert_eq!(
            block_devices(folder.path()).unwrap(),
            ["/dev/cciss/c0d0", "/dev/loop1", "/dev/nvme0n1", "/dev/sdb"]
        );
    }
}
