//! Recognises and refuses the drives that the root file system of this machine lies on.
//!
//! No process can serve them: it would have to start before the root is mounted, and to end after the root is gone. Linux md can,
//! because it is part of the kernel. Most such drives are busy anyway; this says what to do instead, and holds where the kernel
//! would allow more than it should.

use crate::probe::parse_spec;
use crate::refusal::refused;
use anyhow::Result;
use drives::layers::{Layer, Layers};
use drives::spec::Target;
use std::path::Path;

/// Whether the root file system of this machine lies on the drive at `path`, through md, LVM or anything else.
#[must_use]
pub fn has_root(path: &Path) -> bool {
    let layers = Layers::below("/");
    let root = layers.root_file_system();
    root.is_some_and(|root| is_below(&layers, &root, path))
}

fn is_below(layers: &Layers, root: &Layer, path: &Path) -> bool {
    let device = layers.device(path);
    device.is_some_and(|device| root.devices.contains(&device))
}

/// Refuses `specs` if the root file system lies on one of these drives, through md, LVM or anything else.
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
        if is_below(layers, &root, &path) {
            return Err(refused(format!(
                "the root file system of this machine lies on {}, which no process can serve; leave this array to Linux md, which \
                 assembles it in the initramfs, and serve data arrays only",
                path.display()
            )));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::symlink;

    #[test]
    fn a_member_of_the_array_below_the_root_is_refused() {
        let root = tempfile::tempdir().unwrap();
        let at = |path: &str| root.path().join(path);
        for (device, slaves) in [
            ("md126", &["nvme0n1"][..]),
            ("nvme0n1", &[]),
            ("nvme1n1", &[]),
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
        assert_eq!(refused(&["ram:8m", "/dev/nvme1n1"]), None);
        mounted("22 1 0:3 / / rw - overlay overlay rw\n");
        assert_eq!(refused(&["/dev/nvme0n1"]), None);
    }
}
