//! Bays: where in the machine a drive is plugged in.
//!
//! The bay of an NVMe drive is the PCI address of its controller, which belongs to the slot of the machine, with the number of
//! the namespace. A drive that is plugged into the same slot later gets the same address. A namespace that several controllers
//! reach has no bay here, nor has a drive of another kind: their numbers in the system may be another drive's next time.

use std::fs;
use std::path::{Path, PathBuf};

/// The bay of the block device with this path, as udev names it in `/dev/disk/by-path`: `pci-0000:01:00.0-nvme-1`. `None` if
/// it has none, or is gone. `folder` is [`crate::machine::SYSFS_BLOCK`], except in tests.
#[must_use]
pub fn bay_of(folder: &Path, path: &Path) -> Option<String> {
    // It may be a link, as those in /dev/disk/by-id are.
    let path = path.canonicalize().ok()?;
    let device = folder.join(path.file_name()?);
    let namespace: u32 = text(&device.join("nsid"))?.parse().ok()?;
    let controller = only_controller(&device.join("device"))?;
    if text(&controller.join("transport"))? != "pcie" {
        return None;
    }
    let address = text(&controller.join("address"))?;
    Some(format!("pci-{address}-nvme-{namespace}"))
}

/// The folder of a namespace's controller. What a namespace belongs to is the controller itself or, where the kernel provides
/// for several paths, a subsystem, which lists its controllers.
fn only_controller(belongs_to: &Path) -> Option<PathBuf> {
    if belongs_to.join("transport").exists() {
        return Some(belongs_to.to_owned());
    }
    let entries = fs::read_dir(belongs_to).ok()?;
    let is_controller = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy());
        let number = name.as_deref().and_then(|name| name.strip_prefix("nvme"));
        number.is_some_and(|number| number.parse::<u32>().is_ok())
    };
    let mut controllers = entries
        .flatten()
        .map(|entry| entry.path())
        .filter(is_controller);
    let first = controllers.next()?;
    controllers.next().is_none().then_some(first)
}

fn text(file: &Path) -> Option<String> {
    Some(fs::read_to_string(file).ok()?.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;
    use tempfile::TempDir;

    /// A folder that looks like a part of `/sys` and `/dev`.
    struct Machine(TempDir);

    impl Machine {
        fn new() -> Machine {
            let machine = Machine(tempfile::tempdir().unwrap());
            machine.write("dev/nvme0n1", "");
            machine
        }

        fn path(&self, path: &str) -> PathBuf {
            self.0.path().join(path)
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }

        fn controller(&self, folder: &str, transport: &str, address: &str) {
            self.write(&format!("{folder}/transport"), &format!("{transport}\n"));
            self.write(&format!("{folder}/address"), &format!("{address}\n"));
        }

        fn bay(&self, device: &str) -> Option<String> {
            bay_of(&self.path("block"), &self.path(device))
        }
    }

    #[test]
    fn a_namespace_has_the_address_of_its_controller_and_its_number() {
        let machine = Machine::new();
        machine.write("block/nvme0n1/nsid", "3\n");
        machine.controller("block/nvme0n1/device", "pcie", "10000:e1:00.0");
        let bay = Some("pci-10000:e1:00.0-nvme-3".to_owned());
        assert_eq!(machine.bay("dev/nvme0n1"), bay);
        fs::create_dir_all(machine.path("dev/disk/by-id")).unwrap();
        let link = machine.path("dev/disk/by-id/nvme-SERIAL");
        symlink("../../nvme0n1", link).unwrap();
        assert_eq!(machine.bay("dev/disk/by-id/nvme-SERIAL"), bay);
    }

    /// As in a kernel that provides for several paths to a drive.
    #[test]
    fn a_namespace_of_a_subsystem_has_the_address_of_the_only_controller() {
        let machine = Machine::new();
        machine.write("block/nvme0n1/nsid", "1\n");
        let subsystem = "block/nvme0n1/device";
        machine.write(&format!("{subsystem}/nvme0n1/size"), "8\n");
        machine.write(&format!("{subsystem}/model"), "a model\n");
        assert_eq!(machine.bay("dev/nvme0n1"), None);
        machine.controller(&format!("{subsystem}/nvme12"), "pcie", "0000:01:00.0");
        let bay = Some("pci-0000:01:00.0-nvme-1".to_owned());
        assert_eq!(machine.bay("dev/nvme0n1"), bay);
        machine.controller(&format!("{subsystem}/nvme1"), "pcie", "0000:02:00.0");
        assert_eq!(machine.bay("dev/nvme0n1"), None, "it is in two places");
    }

    #[test]
    fn other_drives_have_no_bay() {
        let machine = Machine::new();
        assert_eq!(machine.bay("dev/nvme0n1"), None, "it is gone from /sys");
        machine.write("block/nvme0n1/nsid", "1\n");
        machine.controller("block/nvme0n1/device", "tcp", "traddr=10.0.0.5");
        assert_eq!(machine.bay("dev/nvme0n1"), None);
        machine.write("dev/sda", "");
        machine.write("block/sda/device/model", "a model\n");
        assert_eq!(machine.bay("dev/sda"), None);
        assert_eq!(machine.bay("dev/nvme7n1"), None, "there is no such file");
    }
}
