//! Users of a block device that sysfs lists: md, device mapper, bcache, btrfs.
//!
//! Most of them appear in the folder `holders` of the device. bcache marks its devices by a folder of their own, and
//! btrfs lists the devices of each file system, of which a mount table shows only one. ZFS appears nowhere: it only
//! opens its devices exclusively.

use super::Holder;
use std::fs;
use std::path::Path;

/// The users of the device with the folder `folder` in the sysfs below `root`.
pub(super) fn users(root: &Path, folder: &Path) -> Vec<Holder> {
    let mut found: Vec<Holder> = entries(&folder.join("holders"))
        .into_iter()
        .map(|name| holder(&folder.join("holders").join(&name), &name))
        .collect();
    found.extend(bcache(folder));
    found.extend(btrfs(root, folder));
    found
}

fn entries(folder: &Path) -> Vec<String> {
    let all = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = all
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    names
}

/// The text of a file in sysfs; `None` if it is empty or cannot be read.
fn text(path: &Path) -> Option<String> {
    let text = fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_owned())
}

/// The block device `name` with the folder `folder`, which is made of the device.
fn holder(folder: &Path, name: &str) -> Holder {
    if let Some(mapped) = text(&folder.join("dm/name")) {
        let uuid = text(&folder.join("dm/uuid")).unwrap_or_default();
        return device_mapper(&mapped, &uuid, name);
    }
    if name.starts_with("md") {
        return md(name, text(&folder.join("md/metadata_version")).as_deref());
    }
    if name.starts_with("bcache") {
        let stop = format!("echo 1 > /sys/block/{name}/bcache/stop");
        return Holder::new(format!("bcache device {name}"), stop);
    }
    Holder::new(
        format!("kernel device {name}"),
        format!("stop what made /dev/{name}"),
    )
}

/// Programs that make device mapper volumes put their name before the volume's uuid.
fn device_mapper(mapped: &str, uuid: &str, name: &str) -> Holder {
    let (kind, release) = match uuid.split_once('-').map_or("", |(kind, _)| kind) {
        "DMRAID" => ("dmraid array", "dmraid -an".to_owned()),
        "mpath" => ("multipath device", format!("multipath -f {mapped}")),
        "LVM" => (
            "LVM volume",
            format!("lvchange --activate n /dev/mapper/{mapped}"),
        ),
        "CRYPT" if uuid.starts_with("CRYPT-LUKS") => {
            ("LUKS volume", format!("cryptsetup close {mapped}"))
        }
        "CRYPT" => ("dm-crypt volume", format!("cryptsetup close {mapped}")),
        _ => ("device mapper volume", format!("dmsetup remove {mapped}")),
    };
    Holder::new(format!("{kind} {mapped} ({name})"), release)
}

/// An md array. `metadata` is `external:imsm` for a container with the metadata of that name, `external:/md127/0` for
/// its first volume (with a minus sign in place of the first slash if it is read-only), and `1.2` or so otherwise.
fn md(name: &str, metadata: Option<&str>) -> Holder {
    let what = match metadata.and_then(|text| text.strip_prefix("external:")) {
        None => String::new(),
        Some(place) => match place.trim_start_matches(['/', '-']).split_once('/') {
            Some((container, _)) => format!(" (a volume of the container {container})"),
            None => format!(" (a container with {place} metadata)"),
        },
    };
    let who = format!("Linux md array {name}{what}");
    Holder::new(who, format!("mdadm --stop /dev/{name}"))
}

/// A cache has a link to its set. The devices that use the set are in `holders`.
fn bcache(folder: &Path) -> Option<Holder> {
    let set = fs::read_link(folder.join("bcache/set")).ok()?;
    let set = set.file_name()?.to_string_lossy().into_owned();
    let stop = format!("echo 1 > /sys/fs/bcache/{set}/stop");
    Some(Holder::new(
        format!("bcache, as a cache of the set {set}"),
        stop,
    ))
}

fn btrfs(root: &Path, folder: &Path) -> Vec<Holder> {
    let Some(number) = text(&folder.join("dev")) else {
        return Vec::new();
    };
    let all = root.join("sys/fs/btrfs");
    let has_device = |uuid: &String| {
        let devices = all.join(uuid).join("devices");
        let mut names = entries(&devices).into_iter();
        names.any(|name| text(&devices.join(name).join("dev")).as_ref() == Some(&number))
    };
    let using = entries(&all).into_iter().filter(has_device);
    using
        .map(|uuid| {
            let label = text(&all.join(&uuid).join("label"));
            let label = label.map_or(String::new(), |label| format!(" \"{label}\""));
            let unmount = "umount it".to_owned();
            Holder::new(format!("the btrfs file system{label} {uuid}"), unmount)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A tree with these files; their folders are made.
    fn tree(files: &[(&str, &str)]) -> TempDir {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in files {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        root
    }

    const DRIVE: &str = "sys/block/nvme0n1";

    /// Who uses the drive, and how that is ended, in a tree with these files beside the drive's number.
    fn used(files: &[(&str, &str)]) -> Vec<(String, String)> {
        let number: (&str, &str) = ("sys/block/nvme0n1/dev", "259:0\n");
        let root = tree(&[&[number], files].concat());
        let found = users(root.path(), &root.path().join(DRIVE));
        found
            .into_iter()
            .map(|one| (one.who, one.release))
            .collect()
    }

    #[test]
    fn device_mapper_volumes_are_named_by_the_program_that_made_them() {
        for (uuid, who, release) in [
            ("DMRAID-isw_abc", "dmraid array one (dm-3)", "dmraid -an"),
            (
                "mpath-36001",
                "multipath device one (dm-3)",
                "multipath -f one",
            ),
            (
                "LVM-6zVc2",
                "LVM volume one (dm-3)",
                "lvchange --activate n /dev/mapper/one",
            ),
            (
                "CRYPT-LUKS2-0a-one",
                "LUKS volume one (dm-3)",
                "cryptsetup close one",
            ),
            (
                "CRYPT-PLAIN-one",
                "dm-crypt volume one (dm-3)",
                "cryptsetup close one",
            ),
            ("", "device mapper volume one (dm-3)", "dmsetup remove one"),
        ] {
            let found = used(&[
                ("sys/block/nvme0n1/holders/dm-3/dm/name", "one\n"),
                ("sys/block/nvme0n1/holders/dm-3/dm/uuid", uuid),
            ]);
            assert_eq!(found, [(who.to_owned(), release.to_owned())], "{uuid}");
        }
    }

    #[test]
    fn md_containers_are_told_from_their_volumes_and_from_other_arrays() {
        for (metadata, who) in [
            (
                "external:imsm\n",
                "Linux md array md127 (a container with imsm metadata)",
            ),
            (
                "external:/md126/0\n",
                "Linux md array md127 (a volume of the container md126)",
            ),
            (
                "external:-md126/0\n",
                "Linux md array md127 (a volume of the container md126)",
            ),
            ("1.2\n", "Linux md array md127"),
        ] {
            let path = "sys/block/nvme0n1/holders/md127/md/metadata_version";
            let found = used(&[(path, metadata)]);
            let release = "mdadm --stop /dev/md127".to_owned();
            assert_eq!(found, [(who.to_owned(), release)], "{metadata}");
        }
    }

    #[test]
    fn each_device_of_a_btrfs_is_used() {
        let uuid = "0f3d";
        let device = |name: &str| format!("sys/fs/btrfs/{uuid}/devices/{name}/dev");
        let label = format!("sys/fs/btrfs/{uuid}/label");
        let (first, second) = (device("sda"), device("nvme0n1"));
        let found = used(&[(&first, "8:0\n"), (&second, "259:0\n"), (&label, "home\n")]);
        assert_eq!(found[0].0, "the btrfs file system \"home\" 0f3d");
        let found = used(&[(&first, "8:0\n"), (&label, "home\n")]);
        assert_eq!(found, [], "another drive's");
    }

    #[test]
    fn caches_and_devices_of_bcache_are_used() {
        let found = used(&[("sys/block/nvme0n1/holders/bcache0/dev", "252:0\n")]);
        assert_eq!(found[0].0, "bcache device bcache0");
        let root = tree(&[("sys/block/nvme0n1/bcache/state", "")]);
        let folder = root.path().join(DRIVE);
        symlink("../../../fs/bcache/77aa", folder.join("bcache/set")).unwrap();
        let found = users(root.path(), &folder);
        assert_eq!(found[0].who, "bcache, as a cache of the set 77aa");
    }

    #[test]
    fn an_unknown_kind_of_device_is_named_as_it_is() {
        let found = used(&[("sys/block/nvme0n1/holders/zz0/dev", "250:0\n")]);
        assert_eq!(found[0].0, "kernel device zz0");
        assert_eq!(used(&[]), []);
    }
}
