//! Which drives lie below swap, the image of hibernation, and the root file system of this machine.
//!
//! The answer decides what must not be on an array that a process serves: the kernel may need swap before that process can go on,
//! it writes the image of hibernation while the process is frozen, and it uses the root file system longer than any process runs.
//! Partitions, LVM, dm-crypt and md are followed down to the drives by what sysfs shows. Everything is read below a root that
//! tests can choose, and what cannot be read counts as absent.

use super::holders::unescape;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The tables of mounts and swap, and the kernel's command line.
const MOUNTS: &str = "/proc/self/mountinfo";
const SWAPS: &str = "/proc/swaps";
const COMMAND_LINE: &str = "/proc/cmdline";
/// The device of the image of hibernation, which an initramfs may have set.
const RESUME: &str = "/sys/power/resume";

/// Something that lies on block devices.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layer {
    /// What it is: `swap on /dev/dm-0`.
    pub what: String,
    /// How it is ended: a command, or an order in words.
    pub release: String,
    /// The kernel's names of all devices below it, like `dm-0`, `nvme0n1p2` and `nvme0n1`.
    pub devices: BTreeSet<String>,
}

/// What a machine shows of its block devices.
#[derive(Clone, Debug)]
pub struct Layers {
    root: PathBuf,
}

impl Layers {
    /// The machine whose files are below `root`; `/` is this one.
    pub fn below(root: impl Into<PathBuf>) -> Layers {
        Layers { root: root.into() }
    }

    /// All swap in use, on devices and in files.
    #[must_use]
    pub fn swaps(&self) -> Vec<Layer> {
        let table = self.text(SWAPS);
        let names = table.lines().skip(1);
        let names = names.filter_map(|line| line.split_whitespace().next());
        let layer = |name: &str| {
            let path = unescape(name);
            let device = self.device_at(&path).or_else(|| self.device_with(&path))?;
            Some(Layer {
                what: format!("swap on {path}"),
                release: format!("swapoff {path}"),
                devices: self.devices(device),
            })
        };
        names.filter_map(layer).collect()
    }

    /// Where the image of hibernation is read from, and so written to.
    #[must_use]
    pub fn image(&self) -> Option<Layer> {
        let line = self.text(COMMAND_LINE);
        let mut named = line
            .split_whitespace()
            .filter_map(|word| word.strip_prefix("resume="));
        let device = match self.device_of_number(&self.text(RESUME)) {
            Some(device) => device,
            None => self.device_named(named.next_back()?)?,
        };
        Some(Layer {
            what: format!("the image of hibernation on /dev/{device}"),
            release: "name another device by resume= on the kernel's command line".to_owned(),
            devices: self.devices(device),
        })
    }

    /// The root file system.
    #[must_use]
    pub fn root_file_system(&self) -> Option<Layer> {
        Some(Layer {
            what: "the root file system".to_owned(),
            release: "start another system".to_owned(),
            devices: self.devices(self.device_with("/")?),
        })
    }

    /// The containers of IMSM drives that Linux md runs: the kernel's name of each, like `md127`, and those of its drives. Spares
    /// are among the drives, although no volume lies on them.
    #[must_use]
    pub fn imsm_containers(&self) -> Vec<(String, BTreeSet<String>)> {
        let all = self.path("/sys/class/block");
        let is_container = |name: &String| {
            let kind = self.text(&format!("/sys/class/block/{name}/md/metadata_version"));
            kind.trim() == "external:imsm"
        };
        let mut names = entries(&all);
        names.sort();
        let containers = names.into_iter().filter(is_container);
        containers
            .map(|name| {
                let drives = entries(&all.join(&name).join("slaves"));
                (name, drives.into_iter().collect())
            })
            .collect()
    }

    /// The kernel's name of the block device that a path leads to; `None` if it leads to none.
    #[must_use]
    pub fn device(&self, path: &Path) -> Option<String> {
        self.device_at(&path.to_string_lossy())
    }

    /// The device and all that it is made of.
    fn devices(&self, device: String) -> BTreeSet<String> {
        let (mut found, mut next) = (BTreeSet::new(), vec![device]);
        while let Some(name) = next.pop() {
            let folder = self.path(&format!("/sys/class/block/{name}"));
            next.extend(entries(&folder.join("slaves")));
            if folder.join("partition").exists() {
                let whole = folder.canonicalize().ok();
                next.extend(whole.as_deref().and_then(Path::parent).and_then(last));
            }
            found.insert(name);
        }
        found
    }

    /// The kernel's name of the block device at a path.
    fn device_at(&self, path: &str) -> Option<String> {
        let real = self.path(path).canonicalize().ok()?;
        let devices = self.path("/dev").canonicalize().ok()?;
        // In sysfs a slash in a device's name is written as an exclamation mark.
        let name = real
            .strip_prefix(devices)
            .ok()?
            .to_string_lossy()
            .replace('/', "!");
        self.path(&format!("/sys/class/block/{name}"))
            .exists()
            .then_some(name)
    }

    /// The device with this number, like `259:3`.
    fn device_of_number(&self, number: &str) -> Option<String> {
        let (major, minor) = number.trim().split_once(':')?;
        let is_number = |text: &str| text.parse::<u32>().is_ok();
        let is_device = is_number(major) && is_number(minor) && major != "0";
        let folder = self.path(&format!("/sys/dev/block/{major}:{minor}"));
        is_device
            .then(|| folder.canonicalize().ok())?
            .as_deref()
            .and_then(last)
    }

    /// The device that a value of `resume=` names.
    fn device_named(&self, value: &str) -> Option<String> {
        let folder = match value.split_once('=') {
            None if value.starts_with('/') => return self.device_at(value),
            None => return self.device_of_number(value),
            Some(("UUID", _)) => "by-uuid",
            Some(("LABEL", _)) => "by-label",
            Some(("PARTUUID", _)) => "by-partuuid",
            Some(("PARTLABEL", _)) => "by-partlabel",
            Some(_) => return None,
        };
        let (_, name) = value.split_once('=')?;
        self.device_at(&format!("/dev/disk/{folder}/{}", name.trim_matches('"')))
    }

    /// The device of the file system that a file or folder is in. Its mount is the last one of those that are nearest above.
    fn device_with(&self, file: &str) -> Option<String> {
        let table = self.text(MOUNTS);
        let mounts = table.lines().filter_map(|line| {
            let (left, right) = line.split_once(" - ")?;
            let fields: Vec<&str> = left.split(' ').collect();
            let (number, place) = (*fields.get(2)?, unescape(fields.get(4)?));
            let source = unescape(right.split(' ').nth(1)?);
            let is_above = Path::new(file).starts_with(&place);
            is_above.then_some((place.len(), number, source))
        });
        let (_, number, source) = mounts.max_by_key(|(length, _, _)| *length)?;
        // A file system on several devices has a number of its own.
        self.device_of_number(number)
            .or_else(|| self.device_at(&source))
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path.trim_start_matches('/'))
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).unwrap_or_default()
    }
}

fn entries(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    all.map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

fn last(path: &Path) -> Option<String> {
    Some(path.file_name()?.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A machine with a drive of two partitions, an array's device, and LVM on it.
    fn machine(files: &[(&str, &str)]) -> (TempDir, Layers) {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        for (folder, number) in [
            ("nvme0n1", "259:0"),
            ("nvme0n1/nvme0n1p1", "259:1"),
            ("nvme0n1/nvme0n1p2", "259:2"),
            ("ublkb0", "254:0"),
            ("dm-0", "253:0"),
        ] {
            let name = folder.rsplit('/').next().unwrap();
            let device = at(&format!("sys/devices/{folder}"));
            fs::create_dir_all(&device).unwrap();
            if folder.contains('/') {
                fs::write(device.join("partition"), "1\n").unwrap();
            }
            symlink(&device, at(&format!("sys/class/block/{name}"))).unwrap();
            symlink(&device, at(&format!("sys/dev/block/{number}"))).unwrap();
            fs::write(at(&format!("dev/{name}")), "").unwrap();
        }
        fs::create_dir_all(at("sys/devices/dm-0/slaves/ublkb0")).unwrap();
        symlink("../dm-0", at("dev/mapper/vg-lv")).unwrap();
        symlink("../../dm-0", at("dev/disk/by-uuid/1234")).unwrap();
        for (path, text) in files {
            fs::write(at(path), text).unwrap();
        }
        let layers = Layers::below(root.path());
        (root, layers)
    }

    const MOUNTED: &str = "22 1 259:2 / / rw - ext4 /dev/root rw\n30 22 0:40 / /data rw - btrfs /dev/mapper/vg-lv rw\n";

    fn names(layer: &Layer) -> Vec<&str> {
        layer.devices.iter().map(String::as_str).collect()
    }

    #[test]
    fn swap_is_followed_through_lvm_and_files() {
        let table = "Filename\tType\tSize\tUsed\tPriority\n/dev/dm-0 partition 1 0 -2\n/data/swap\\040file file 1 0 -3\n\
                     /other file 1 0 -4\n/dev/gone partition 1 0 -5\n";
        let (_root, layers) = machine(&[(SWAPS, table), (MOUNTS, MOUNTED)]);
        let found = layers.swaps();
        let what: Vec<&str> = found.iter().map(|layer| layer.what.as_str()).collect();
        assert_eq!(
            what[..3],
            [
                "swap on /dev/dm-0",
                "swap on /data/swap file",
                "swap on /other"
            ]
        );
        assert_eq!(names(&found[0]), ["dm-0", "ublkb0"]);
        assert_eq!(names(&found[1]), ["dm-0", "ublkb0"]);
        assert_eq!(names(&found[2]), ["nvme0n1", "nvme0n1p2"]);
        assert_eq!(found[0].release, "swapoff /dev/dm-0");
    }

    #[test]
    fn the_image_is_where_the_kernel_or_its_command_line_says() {
        let of = |files: &[(&str, &str)]| {
            let (_root, layers) = machine(files);
            layers
                .image()
                .map(|image| image.devices.into_iter().collect::<Vec<_>>())
        };
        let lvm = Some(vec!["dm-0".to_owned(), "ublkb0".to_owned()]);
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[(RESUME, "0:0\n"), (COMMAND_LINE, "quiet\n")]), None);
        assert_eq!(of(&[(RESUME, "253:0\n")]), lvm);
        for value in ["UUID=1234", "/dev/mapper/vg-lv", "253:0"] {
            assert_eq!(
                of(&[
                    (RESUME, "0:0\n"),
                    (COMMAND_LINE, &format!("quiet resume={value}\n"))
                ]),
                lvm,
                "{value}"
            );
        }
        assert_eq!(of(&[(COMMAND_LINE, "resume=UUID=other\n")]), None);
    }

    #[test]
    fn the_root_lies_on_a_partition_and_its_drive() {
        let (_root, layers) = machine(&[(MOUNTS, MOUNTED)]);
        assert_eq!(
            names(&layers.root_file_system().unwrap()),
            ["nvme0n1", "nvme0n1p2"]
        );
        let (_root, layers) = machine(&[(MOUNTS, "22 1 0:3 / / rw - overlay overlay rw\n")]);
        assert_eq!(layers.root_file_system(), None);
    }
}
