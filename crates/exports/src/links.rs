//! The names of devices: a link `/dev/fullstripe/NAME` to each block device.

use anyhow::{Context, Result, bail};
use std::io::ErrorKind;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// The folder of the links.
pub(crate) const FOLDER: &str = "/dev/fullstripe";

/// The link of a device. Dropping it removes the link, unless it leads elsewhere by now.
#[derive(Debug)]
pub(crate) struct Link {
    path: PathBuf,
    /// As it is written in the link.
    target: PathBuf,
}

/// What is written in a link in `folder` that leads to `device`: the same as udev writes ([`crate::names`]), which would
/// replace any other.
fn target_of(folder: &Path, device: &Path) -> PathBuf {
    match device.file_name() {
        Some(name) if device.parent() == folder.parent() => Path::new("..").join(name),
        _ => device.to_owned(),
    }
}

/// Whether a volume's name can be that of a file.
pub(crate) fn is_file_name(volume: &str) -> bool {
    !(volume.is_empty() || volume.contains('/') || volume == "." || volume == "..")
}

/// Refuses a name that cannot be that of a file.
pub(crate) fn check_name(volume: &str) -> Result<()> {
    if !is_file_name(volume) {
        bail!("a volume named \"{volume}\" cannot be a device: its name cannot be that of a file");
    }
    Ok(())
}

/// Makes a link, in the place of another if there is one.
fn replace(target: &Path, path: &Path, volume: &str) -> std::io::Result<()> {
    let beside = path.with_file_name(format!(".{volume}"));
    match std::fs::remove_file(&beside) {
        // A process was killed before it gave the link its place.
        Ok(()) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    symlink(target, &beside)?;
    std::fs::rename(&beside, path)
}

impl Link {
    /// Makes the link in `folder` to a block device. A link that is there already leads to a device of an earlier
    /// process, and is replaced, unless its device exists and is not the one in question. The right link stays, so that a
    /// device which is taken over keeps its name all the time.
    ///
    /// # Errors
    /// The name is taken, or the system refuses.
    pub fn make(folder: &Path, volume: &str, device: &Path) -> Result<Link> {
        let path = folder.join(volume);
        let target = target_of(folder, device);
        let shown = path.display();
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make {}", folder.display()))?;
        match std::fs::read_link(&path) {
            Ok(there) if there == target => return Ok(Link { path, target }),
            Ok(there) if path.exists() => bail!(
                "{shown} is taken by {}; stop the array that has it, or rename the volume",
                path.canonicalize().unwrap_or(there).display()
            ),
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(_) => bail!("{shown} exists and is no link; remove it"),
        }
        replace(&target, &path, volume).with_context(|| format!("cannot make the link {shown}"))?;
        Ok(Link { path, target })
    }
}

impl Link {
    /// The link that an earlier process has made in `folder` to `device`, if it is there.
    pub fn left(folder: &Path, volume: &str, device: &Path) -> Link {
        Link {
            path: folder.join(volume),
            target: target_of(folder, device),
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Leaves the link to the next process.
    pub fn leave(self) {
        std::mem::forget(self);
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if std::fs::read_link(&self.path).is_ok_and(|there| there == self.target) {
            // A link that stays leads nowhere, and the next start replaces it.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_goes_with_its_owner() {
        let folder = tempfile::tempdir().unwrap();
        let device = folder.path().join("ublkb0");
        std::fs::write(&device, "").unwrap();
        let links = folder.path().join("fullstripe");
        let link = Link::make(&links, "vol0", &device).unwrap();
        let led = links.join("vol0").canonicalize().unwrap();
        assert_eq!(led, device.canonicalize().unwrap());
        // As udev writes it.
        let written = std::fs::read_link(links.join("vol0")).unwrap();
        assert_eq!(written, Path::new("../ublkb0"));
        drop(link);
        assert!(!links.join("vol0").is_symlink());
    }

    #[test]
    fn a_leftover_is_replaced_and_what_is_in_use_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let [gone, other, mine] = ["gone", "other", "mine"].map(|name| folder.path().join(name));
        std::fs::write(&other, "").unwrap();
        symlink(&gone, folder.path().join("vol0")).unwrap();
        let link = Link::make(folder.path(), "vol0", &mine).unwrap();
        // A device that is taken over has the same link.
        link.leave();
        let link = Link::make(folder.path(), "vol0", &mine).unwrap();
        drop(link);
        symlink(&other, folder.path().join("vol0")).unwrap();
        let error = Link::make(folder.path(), "vol0", &mine)
            .unwrap_err()
            .to_string();
        assert!(error.contains("is taken by"), "{error}");
        let error = Link::make(folder.path(), "other", &mine)
            .unwrap_err()
            .to_string();
        assert!(error.contains("is no link"), "{error}");
    }

    #[test]
    fn a_name_that_no_file_can_have_is_refused() {
        for name in ["", ".", "..", "a/b"] {
            assert!(check_name(name).is_err(), "{name:?}");
        }
        check_name("vol0").unwrap();
    }
}
